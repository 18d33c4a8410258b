//! Links: decoding what the kernel tells of them, and the requests that change them.

use super::message::{
    ACKNOWLEDGE, Attribute, CREATE_NEW, NEW_LINK, REQUEST, Request, attributes, u16_at, u32_at,
    u64_at,
};

// Attributes of a link, `linux/if_link.h`.
pub(super) const NAME: u16 = 3;
pub(super) const MTU: u16 = 4;
pub(super) const QUEUE_LENGTH: u16 = 13;
const INFORMATION: u16 = 18;
const STATISTICS: u16 = 23;
pub(super) const NAMESPACE_FD: u16 = 28;
// Within INFORMATION.
const KIND: u16 = 1;
const DATA: u16 = 2;
/// Within the DATA of a veth or vxcan pair (`VETH_INFO_PEER`, `VXCAN_INFO_PEER`).
const PEER: u16 = 1;
// Within the DATA of a CAN controller, `linux/can/netlink.h`.
const CAN_TIMING: u16 = 1;
const CAN_STATE: u16 = 4;
const CAN_MODE: u16 = 5;
const CAN_RESTART_MS: u16 = 6;
const CAN_ERROR_COUNTERS: u16 = 8;
const CAN_DATA_TIMING: u16 = 9;
// Bits of CAN_MODE.
const MODE_LOOPBACK: u32 = 0x01;
const MODE_LISTEN_ONLY: u32 = 0x02;
const MODE_FD: u32 = 0x20;

/// `IFF_UP`.
pub(super) const UP: u32 = 0x1;
/// `IFF_RUNNING`.
const RUNNING: u32 = 0x40;
/// `IFF_LOWER_UP`.
const LOWER_UP: u32 = 0x1_0000;
/// `IFF_ECHO`: the driver loops frames back once they are sent.
const ECHO: u32 = 0x4_0000;
/// `ARPHRD_CAN`.
const HARDWARE_CAN: u16 = 280;
/// The size of `struct ifinfomsg`.
const INFORMATION_LEN: usize = 16;
/// The size of `struct can_bittiming`.
const TIMING_LEN: usize = 32;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Whether it works: switched on, connected, and its queue in place.
    pub is_running: bool,
    /// Whether it is connected: a cable, the other end of a pair that is up, a CAN controller that
    /// is not bus-off. Known at once, unlike `is_running`, which follows a while later.
    pub has_carrier: bool,
    /// Whether it is a CAN interface of any kind.
    pub is_can: bool,
    /// Whether its driver loops frames back once they are sent; otherwise the kernel does, at
    /// once.
    pub has_echo: bool,
    /// The size of the largest frame: 16 for classical CAN, 72 for CAN FD.
    pub mtu: u32,
    /// Frames that may wait in front of it.
    pub queue_length: u32,
    /// What kind of virtual interface it is (`vcan`, `vxcan`, `veth`); `can` for CAN controllers.
    pub kind: Option<String>,
    /// How its CAN controller is set up; `None` if it is none.
    pub can: Option<CanState>,
    /// What it counted.
    pub statistics: Statistics,
}

/// How a CAN controller is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanState {
    /// Bit/s; 0 if not set.
    pub bitrate: u32,
    /// Bit/s in the data phase of CAN FD; 0 if not set.
    pub data_bitrate: u32,
    /// Whether it takes CAN FD frames.
    pub is_fd: bool,
    /// 0 error active, 1 warning, 2 error passive, 3 bus-off, 4 stopped, 5 sleeping.
    pub state: u32,
    /// All bits of its mode (`CAN_CTRLMODE_...`).
    pub mode: u32,
    /// Its error counters, if the driver tells them.
    pub error_counters: Option<ErrorCounters>,
}

/// The error counters of a CAN controller (`struct can_berr_counter`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounters {
    /// Errors while it transmitted.
    pub transmit: u16,
    /// Errors while it received.
    pub receive: u16,
}

impl CanState {
    /// The state by its name; `None` for numbers that are not known here.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        Condition::ALL.get(self.state as usize).copied()
    }
}

/// How a CAN controller gets on with its bus (`enum can_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// It takes full part.
    ErrorActive,
    /// It has seen many errors.
    ErrorWarning,
    /// It has seen so many errors that it does not disturb others any more.
    ErrorPassive,
    /// It has taken itself off the bus.
    BusOff,
    /// It is down.
    Stopped,
    Sleeping,
}

impl Condition {
    const ALL: [Self; 6] = [
        Self::ErrorActive,
        Self::ErrorWarning,
        Self::ErrorPassive,
        Self::BusOff,
        Self::Stopped,
        Self::Sleeping,
    ];

    /// Its name as `ip -details link` shows it, in small letters: `error-active`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ErrorActive => "error-active",
            Self::ErrorWarning => "error-warning",
            Self::ErrorPassive => "error-passive",
            Self::BusOff => "bus-off",
            Self::Stopped => "stopped",
            Self::Sleeping => "sleeping",
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What an interface counted (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Errors in receiving, all together.
    pub rx_errors: u64,
    /// Errors in sending, all together.
    pub tx_errors: u64,
    /// Received frames that were dropped for want of room in the kernel.
    pub rx_dropped: u64,
    /// Frames to be sent that were dropped.
    pub tx_dropped: u64,
    /// Frames that the controller lost for want of room (`rx_over_errors`).
    pub rx_over_errors: u64,
    /// The same, as some drivers count (`rx_fifo_errors`).
    pub rx_fifo_errors: u64,
    /// Frames that the host was too slow to fetch (`rx_missed_errors`).
    pub rx_missed_errors: u64,
}

impl Statistics {
    fn decode(bytes: &[u8]) -> Self {
        // The kernel appends fields over time, so missing ones are zero.
        let field = |index: usize| u64_at(bytes, index * 8).unwrap_or(0);
        Self {
            rx_packets: field(0),
            tx_packets: field(1),
            rx_bytes: field(2),
            tx_bytes: field(3),
            rx_errors: field(4),
            tx_errors: field(5),
            rx_dropped: field(6),
            tx_dropped: field(7),
            rx_over_errors: field(11),
            rx_fifo_errors: field(14),
            rx_missed_errors: field(15),
        }
    }
}

/// Reads a link from `struct ifinfomsg` and its attributes. `None` if it is cut or nameless.
#[must_use]
pub fn decode_link(payload: &[u8]) -> Option<Link> {
    let flags = u32_at(payload, 8)?;
    let mut link = Link {
        index: u32_at(payload, 4)?,
        is_up: flags & UP != 0,
        is_running: flags & RUNNING != 0,
        has_carrier: flags & LOWER_UP != 0,
        has_echo: flags & ECHO != 0,
        is_can: u16_at(payload, 2)? == HARDWARE_CAN,
        ..Link::default()
    };
    for attribute in attributes(payload.get(INFORMATION_LEN..)?) {
        match attribute.kind {
            NAME => link.name = attribute.text(),
            MTU => link.mtu = attribute.number()?,
            QUEUE_LENGTH => link.queue_length = attribute.number()?,
            STATISTICS => link.statistics = Statistics::decode(attribute.value),
            INFORMATION => decode_information(&mut link, &attribute),
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

fn decode_information(link: &mut Link, information: &Attribute<'_>) {
    let mut data = None;
    for attribute in information.nested() {
        match attribute.kind {
            KIND => link.kind = Some(attribute.text()),
            DATA => data = Some(attribute),
            _ => {}
        }
    }
    if link.kind.as_deref() != Some("can") {
        return;
    }
    let can = link.can.insert(CanState::default());
    for attribute in data.iter().flat_map(|data| data.nested()) {
        let number = attribute.number().unwrap_or(0);
        match attribute.kind {
            CAN_TIMING => can.bitrate = number,
            CAN_DATA_TIMING => can.data_bitrate = number,
            CAN_STATE => can.state = number,
            // struct can_ctrlmode: mask, flags.
            CAN_ERROR_COUNTERS => {
                let counters = (u16_at(attribute.value, 0), u16_at(attribute.value, 2));
                if let (Some(transmit), Some(receive)) = counters {
                    can.error_counters = Some(ErrorCounters { transmit, receive });
                }
            }
            CAN_MODE => can.mode = u32_at(attribute.value, 4).unwrap_or(0),
            _ => {}
        }
    }
    can.is_fd = can.mode & MODE_FD != 0;
}

/// How a CAN controller is to be set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanSettings {
    /// Bit/s.
    pub bitrate: u32,
    /// Bit/s in the data phase, which makes it a CAN FD controller; `None` for classical CAN.
    pub data_bitrate: Option<u32>,
    /// Whether it only listens: it neither sends nor acknowledges.
    pub is_listen_only: bool,
    /// Whether it receives what it sends without a bus.
    pub is_loopback: bool,
    /// After so many milliseconds a controller that is bus-off starts again; 0 for never, `None` to
    /// leave it as it is.
    pub restart_ms: Option<u32>,
}

impl CanSettings {
    /// The request that sets `link` up. Bits of the mode that are right already are left out: some
    /// drivers refuse a request for what cannot be changed.
    pub(super) fn request(&self, link: &Link) -> Request {
        let now = link.can.unwrap_or_default().mode;
        let wanted = [
            (MODE_FD, self.data_bitrate.is_some()),
            (MODE_LISTEN_ONLY, self.is_listen_only),
            (MODE_LOOPBACK, self.is_loopback),
        ];
        let (mut mask, mut flags) = (0, 0);
        for (bit, is_wanted) in wanted {
            if (now & bit != 0) != is_wanted {
                mask |= bit;
                flags |= if is_wanted { bit } else { 0 };
            }
        }
        change(link.index, 0, 0).nested(INFORMATION, |information| {
            information.text(KIND, "can").nested(DATA, |mut data| {
                if mask != 0 {
                    let bytes = [mask.to_ne_bytes(), flags.to_ne_bytes()].concat();
                    data = data.attribute(CAN_MODE, &bytes);
                }
                data = data.attribute(CAN_TIMING, &timing(self.bitrate));
                if let Some(bitrate) = self.data_bitrate {
                    data = data.attribute(CAN_DATA_TIMING, &timing(bitrate));
                }
                if let Some(restart_ms) = self.restart_ms {
                    data = data.number(CAN_RESTART_MS, restart_ms);
                }
                data
            })
        })
    }
}

/// `struct can_bittiming` with nothing but the bit rate: the kernel works out the rest.
fn timing(bitrate: u32) -> [u8; TIMING_LEN] {
    let mut bytes = [0; TIMING_LEN];
    bytes[..4].copy_from_slice(&bitrate.to_ne_bytes());
    bytes
}

/// `struct ifinfomsg`: family, padding, hardware, index, flags, the flags that change.
pub(super) fn information(index: u32, flags: u32, changed: u32) -> [u8; INFORMATION_LEN] {
    let mut bytes = [0; INFORMATION_LEN];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&changed.to_ne_bytes());
    bytes
}

pub(super) fn change(index: u32, flags: u32, changed: u32) -> Request {
    Request::new(NEW_LINK, REQUEST | ACKNOWLEDGE).with(&information(index, flags, changed))
}

/// A request for a vxcan pair whose ends both have that index, the peer in another namespace.
pub(super) fn create_across(name: &str, peer: &str, index: u32, namespace_fd: u32) -> Request {
    Request::new(NEW_LINK, REQUEST | ACKNOWLEDGE | CREATE_NEW)
        .with(&information(index, 0, 0))
        .text(NAME, name)
        .nested(INFORMATION, |information_of_kind| {
            information_of_kind.text(KIND, "vxcan").nested(DATA, |data| {
                data.nested(PEER, |request| {
                    request
                        .with(&information(index, 0, 0))
                        .text(NAME, peer)
                        .number(NAMESPACE_FD, namespace_fd)
                })
            })
        })
}

/// A request for a new virtual interface, or two.
pub(super) fn create(name: &str, kind: &str, peer: Option<&str>) -> Request {
    Request::new(NEW_LINK, REQUEST | ACKNOWLEDGE | CREATE_NEW)
        .with(&information(0, 0, 0))
        .text(NAME, name)
        .nested(INFORMATION, |information_of_kind| {
            let request = information_of_kind.text(KIND, kind);
            match peer {
                None => request,
                Some(peer) => request.nested(DATA, |data| {
                    data.nested(PEER, |request| {
                        request.with(&information(0, 0, 0)).text(NAME, peer)
                    })
                }),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The attributes of a request behind its header and `struct ifinfomsg`, with their kinds as
    /// they stand there.
    fn payload(request: Request) -> Vec<u8> {
        request.finish(0).split_off(super::super::message::HEADER_LEN)
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A link as the kernel tells of it.
    fn reported(flags: u32, fill: impl FnOnce(Request) -> Request) -> Option<Link> {
        let mut information = information(7, flags, 0);
        information[2..4].copy_from_slice(&HARDWARE_CAN.to_ne_bytes());
        decode_link(&payload(fill(Request::new(NEW_LINK, 0).with(&information))))
    }

    #[test]
    fn a_controller_is_read() {
        let mut counters = vec![0; 24 * 8];
        for (index, counter) in counters.chunks_mut(8).enumerate() {
            counter.copy_from_slice(&(index as u64 + 100).to_ne_bytes());
        }
        let link = reported(UP | RUNNING | LOWER_UP | ECHO, |request| {
            request
                .text(NAME, "can0")
                .number(MTU, 72)
                .number(QUEUE_LENGTH, 10)
                .attribute(STATISTICS, &counters)
                .attribute(999, &[1])
                .nested(INFORMATION, |information| {
                    information.text(KIND, "can").nested(DATA, |data| {
                        data.number(CAN_STATE, 2)
                            .attribute(CAN_MODE, &words(&[0, 0x31]))
                            .attribute(
                                CAN_ERROR_COUNTERS,
                                &[97_u16.to_ne_bytes(), 3_u16.to_ne_bytes()].concat(),
                            )
                            .attribute(CAN_TIMING, &timing(500_000))
                            .attribute(CAN_DATA_TIMING, &timing(2_000_000))
                    })
                })
        });
        let expected = Link {
            index: 7,
            name: "can0".into(),
            is_up: true,
            is_running: true,
            has_carrier: true,
            is_can: true,
            has_echo: true,
            mtu: 72,
            queue_length: 10,
            kind: Some("can".into()),
            can: Some(CanState {
                bitrate: 500_000,
                data_bitrate: 2_000_000,
                is_fd: true,
                state: 2,
                mode: 0x31,
                error_counters: Some(ErrorCounters { transmit: 97, receive: 3 }),
            }),
            statistics: Statistics {
                rx_packets: 100,
                tx_packets: 101,
                rx_bytes: 102,
                tx_bytes: 103,
                rx_errors: 104,
                tx_errors: 105,
                rx_dropped: 106,
                tx_dropped: 107,
                rx_over_errors: 111,
                rx_fifo_errors: 114,
                rx_missed_errors: 115,
            },
        };
        assert_eq!(link, Some(expected));
    }

    #[test]
    fn cut_links_are_no_links() {
        let whole = payload(create("can0", "vcan", None));
        assert!(decode_link(&whole).is_some());
        for cut in 0..INFORMATION_LEN + 8 {
            assert_eq!(decode_link(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(reported(0, |request| request), None, "nameless");
        assert_eq!(reported(0, |request| request.text(NAME, "x").attribute(MTU, &[1])), None);
        // Statistics of an older kernel are shorter.
        let link = reported(0, |request| request.text(NAME, "x").attribute(STATISTICS, &[1; 12]));
        let statistics = link.unwrap().statistics;
        assert_eq!((statistics.rx_packets, statistics.tx_packets), (0x0101_0101_0101_0101, 0));
    }

    /// The mode of a request: the mask and the flags.
    fn mode(settings: CanSettings, now: u32) -> Option<(u32, u32)> {
        let link =
            Link { can: Some(CanState { mode: now, ..CanState::default() }), ..Link::default() };
        let bytes = payload(settings.request(&link));
        let information =
            attributes(&bytes[INFORMATION_LEN..]).find(|found| found.kind == INFORMATION)?;
        let data = information.nested().find(|found| found.kind == DATA)?;
        let mode = data.nested().find(|found| found.kind == CAN_MODE)?;
        Some((u32_at(mode.value, 0)?, u32_at(mode.value, 4)?))
    }

    #[test]
    fn only_what_changes_of_a_mode_is_reported() {
        let classical = CanSettings { bitrate: 500_000, ..CanSettings::default() };
        let fd = CanSettings { data_bitrate: Some(2_000_000), ..classical };
        let listening = CanSettings { is_listen_only: true, ..classical };
        let looped = CanSettings { is_loopback: true, ..fd };
        for (settings, now, expected) in [
            (classical, 0, None),
            (classical, 0x80, None),
            (classical, 0x20, Some((0x20, 0))),
            (fd, 0, Some((0x20, 0x20))),
            (fd, 0x20, None),
            (listening, 0x20, Some((0x22, 0x02))),
            (looped, 0x02, Some((0x23, 0x21))),
        ] {
            assert_eq!(mode(settings, now), expected, "{settings:?} {now:#x}");
        }
    }
}
