//! Each CAN interface: whether it works, how much may wait in front of it, what it stamps.

use candor_diagnostics::counted;
use candor_linux::ethtool::{self, Stamping};
use candor_linux::netlink::{Condition, Link, Netlink};
use candor_linux::probe::Kind;

use crate::{Item, Sources, system};

/// Frames that may wait in front of an interface before its length hides that the bus is full.
const MOST_WAITING: u32 = 100;
/// The longest classical frame of 8 bytes with a standard identifier, stuff bits included.
const FRAME_BITS: u64 = 135;
/// `CAN_CTRLMODE_LISTENONLY` and `CAN_CTRLMODE_BERR_REPORTING`, `linux/can/netlink.h`.
const LISTEN_ONLY: u32 = 0x02;
const ERROR_REPORTS: u32 = 0x10;

struct Interface {
    link: Link,
    /// `None` if the driver does not say.
    stamping: Option<Stamping>,
    /// Whether its NAPI runs in a thread of its own; `None` if it has none.
    has_napi_thread: Option<bool>,
}

struct Facts {
    interfaces: Result<Vec<Interface>, String>,
    is_realtime: bool,
    /// Whether the kernel knows CAN, so that a virtual interface may be made.
    knows_can: bool,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let files = &sources.files;
    let links = Netlink::open().and_then(|mut netlink| netlink.links());
    let interface = |link: Link| Interface {
        stamping: ethtool::stamping(&link.name).ok(),
        has_napi_thread: files
            .number(&format!("sys/class/net/{}/threaded", link.name))
            .map(|value| value != 0),
        link,
    };
    judge(&Facts {
        interfaces: links
            .map(|links| links.into_iter().filter(|link| link.is_can).map(interface).collect())
            .map_err(|error| error.to_string()),
        is_realtime: system::is_realtime(files),
        knows_can: Kind::Can.try_open().is_ok(),
    })
}

fn judge(facts: &Facts) -> Vec<Item> {
    match facts.interfaces.as_deref() {
        Err(error) => vec![
            Item::missing(
                "interfaces",
                error.clone(),
                "the CAN interfaces cannot be listed, and a gateway cannot watch them",
            )
            .needed(),
        ],
        Ok([]) => {
            vec![
                Item::missing(
                    "interfaces",
                    "there is no CAN interface",
                    "a gateway has no bus here. Connect a controller and load its driver, or use a \
                 virtual interface",
                )
                .maybe_fix(
                    facts
                        .knows_can
                        .then_some("sudo ip link add vcan0 type vcan && sudo ip link set vcan0 up"),
                )
                .needed(),
            ]
        }
        Ok(interfaces) => interfaces
            .iter()
            .flat_map(|interface| {
                let own = [
                    Some(working(&interface.link)),
                    queue(&interface.link),
                    Some(stamps(interface)),
                    napi(interface, facts.is_realtime),
                ];
                let name = interface.link.name.clone();
                own.into_iter().flatten().map(move |item| item.about(name.clone()))
            })
            .collect(),
    }
}

/// What an interface is: bit rates and what else it is set up to do.
fn description(link: &Link) -> String {
    let kind = link.kind.as_deref().unwrap_or("can");
    let Some(can) = link.can else {
        let size = if link.mtu > 16 { "CAN FD" } else { "classical CAN" };
        return format!("{kind}, {size}");
    };
    let mut parts = vec![match (can.is_fd, can.data_bitrate) {
        (true, data) => format!("CAN FD, {} and {}", rate(can.bitrate), rate(data)),
        (false, _) => format!("classical CAN, {}", rate(can.bitrate)),
    }];
    if can.mode & LISTEN_ONLY != 0 {
        parts.push("listen-only".into());
    }
    if can.mode & ERROR_REPORTS != 0 {
        parts.push("reports bus errors (berr-reporting)".into());
    }
    parts.join(", ")
}

/// A bit rate for people.
fn rate(bitrate: u32) -> String {
    match bitrate {
        0 => "no bit rate".into(),
        rate if rate % 1_000_000 == 0 => format!("{} Mbit/s", rate / 1_000_000),
        rate if rate % 1_000 == 0 => format!("{} kbit/s", rate / 1_000),
        rate => format!("{rate} bit/s"),
    }
}

fn working(link: &Link) -> Item {
    let name = &link.name;
    let what = description(link);
    let condition = link.can.and_then(|can| can.condition());
    if !link.is_up {
        let has_rate = link.can.is_none_or(|can| can.bitrate != 0);
        let fix = match has_rate {
            true => format!("sudo ip link set {name} up"),
            false => format!("sudo ip link set {name} up type can bitrate 500000"),
        };
        return Item::limited(
            "interface",
            format!("{what}, down"),
            "a gateway starts and waits for it; the bit rate must match the bus",
        )
        .fix(fix);
    }
    match condition {
        Some(Condition::BusOff) => Item::limited(
            "interface",
            format!("{what}, bus-off"),
            "it left the bus after too many errors: check the bit rate, the termination and the \
             wiring. With `restart-ms` it comes back automatically",
        )
        .fix(format!("sudo ip link set {name} type can restart")),
        Some(condition @ (Condition::ErrorWarning | Condition::ErrorPassive)) => Item::limited(
            "interface",
            format!("{what}, {condition}"),
            "it has seen many errors: check the bit rate, the termination, and whether another \
             node acknowledges frames",
        ),
        _ if link.can.is_some_and(|can| can.mode & LISTEN_ONLY != 0) => Item::limited(
            "interface",
            format!("{what}, up"),
            "it receives, but does not send or acknowledge",
        )
        .fix(format!(
            "sudo ip link set {name} down && sudo ip link set {name} up type can listen-only off"
        )),
        _ if !link.has_carrier => Item::limited(
            "interface",
            format!("{what}, up, not connected"),
            "no frame passes through it; the other end of the pair must also be up",
        ),
        _ => Item::good("interface", format!("{what}, up"), "a gateway can use it"),
    }
}

/// What may wait in front of it. Virtual interfaces hand over at once.
fn queue(link: &Link) -> Option<Item> {
    let can = link.can?;
    let frames = link.queue_length;
    let found = format!("{} can wait in its queue (txqueuelen)", counted(frames, "frame"));
    if frames <= MOST_WAITING {
        let meaning = "the gateway notices a full bus early, and frames wait in the gateway, by \
                       priority";
        return Some(Item::good("queue", found, meaning));
    }
    let time = match u64::from(can.bitrate) {
        0 => String::new(),
        bitrate => {
            let millis = u64::from(frames) * FRAME_BITS * 1_000 / bitrate;
            format!(", up to {millis} ms at {}", rate(can.bitrate))
        }
    };
    let meaning = format!(
        "a long queue hides congestion: the last frame waits behind all others{time}, whatever \
         its priority, before the gateway notices that the bus is full"
    );
    let fix = format!("sudo ip link set {} txqueuelen 10", link.name);
    Some(Item::limited("queue", found, meaning).fix(fix))
}

fn stamps(interface: &Interface) -> Item {
    match interface.stamping {
        Some(Stamping { hardware: true, transmit, .. }) => Item::good(
            "stamps",
            if transmit {
                "the controller stamps received and transmitted frames"
            } else {
                "the controller stamps received frames"
            },
            "latencies can be measured without the delays of the host",
        ),
        Some(_) | None => Item::good(
            "stamps",
            "the kernel stamps frames, the controller does not",
            "latencies include the time from the controller's interrupt to the kernel's stamp",
        ),
    }
}

/// Threads for NAPI matter where priorities do.
fn napi(interface: &Interface, is_realtime: bool) -> Option<Item> {
    interface.link.can?;
    let name = &interface.link.name;
    match interface.has_napi_thread {
        Some(true) => Some(Item::good(
            "napi",
            format!("NAPI has its own thread, napi/{name}-..."),
            "reception can have its own priority, just below or above the gateway's",
        )),
        Some(false) if is_realtime => Some(
            Item::limited(
                "napi",
                "NAPI does not have its own thread",
                "frames are received by any thread that handles soft interrupts, together with \
                 those of all other interfaces",
            )
            .fix(format!("echo 1 | sudo tee /sys/class/net/{name}/threaded")),
        ),
        Some(false) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use candor_linux::netlink::CanState;

    use super::*;
    use crate::{can_run, reported};

    /// A controller that works.
    fn link() -> Link {
        Link {
            name: "can0".into(),
            is_up: true,
            is_running: true,
            has_carrier: true,
            is_can: true,
            mtu: 16,
            queue_length: 10,
            kind: Some("can".into()),
            can: Some(CanState { bitrate: 500_000, ..CanState::default() }),
            ..Link::default()
        }
    }

    fn in_state(state: u32) -> Link {
        Link { can: Some(CanState { state, ..link().can.unwrap() }), ..link() }
    }

    fn interface(link: Link) -> Interface {
        Interface { link, stamping: None, has_napi_thread: None }
    }

    #[test]
    fn an_interface_that_works_is_fine() {
        let stamping = Stamping { software: true, hardware: true, ..Stamping::default() };
        let interface =
            Interface { link: link(), stamping: Some(stamping), has_napi_thread: Some(true) };
        let facts = Facts { interfaces: Ok(vec![interface]), is_realtime: true, knows_can: true };
        assert_eq!(
            reported(&judge(&facts)),
            "ok interface can0: classical CAN, 500 kbit/s, up\n  \
             a gateway can use it\n\
             ok queue can0: 10 frames can wait in its queue (txqueuelen)\n  \
             the gateway notices a full bus early, and frames wait in the gateway, by priority\n\
             ok stamps can0: the controller stamps received frames\n  \
             latencies can be measured without the delays of the host\n\
             ok napi can0: NAPI has its own thread, napi/can0-...\n  \
             reception can have its own priority, just below or above the gateway's\n"
        );
    }

    #[test]
    fn what_keeps_an_interface_from_working_is_reported() {
        let listening = CanState { mode: LISTEN_ONLY, bitrate: 500_000, ..CanState::default() };
        let fd = CanState {
            is_fd: true,
            bitrate: 1_000_000,
            data_bitrate: 8_333_333,
            mode: ERROR_REPORTS,
            ..CanState::default()
        };
        let down = Link { is_up: false, ..link() };
        let vcan = Link { kind: Some("vcan".into()), can: None, mtu: 72, ..down.clone() };
        let down_is = "a gateway starts and waits for it; the bit rate must match the bus";
        let many = "it has seen many errors: check the bit rate, the termination, and whether \
                    another node acknowledges frames";
        let cases = [
            (
                down.clone(),
                format!(
                    "limited interface: classical CAN, 500 kbit/s, down\n  {down_is}\n  \
                     $ sudo ip link set can0 up\n"
                ),
            ),
            (
                Link { can: Some(CanState::default()), ..down },
                format!(
                    "limited interface: classical CAN, no bit rate, down\n  {down_is}\n  \
                     $ sudo ip link set can0 up type can bitrate 500000\n"
                ),
            ),
            (
                vcan.clone(),
                format!(
                    "limited interface: vcan, CAN FD, down\n  {down_is}\n  \
                     $ sudo ip link set can0 up\n"
                ),
            ),
            (
                Link { is_up: true, mtu: 16, ..vcan.clone() },
                "ok interface: vcan, classical CAN, up\n  a gateway can use it\n".into(),
            ),
            (
                Link { is_up: true, has_carrier: false, kind: Some("vxcan".into()), ..vcan },
                "limited interface: vxcan, CAN FD, up, not connected\n  \
                 no frame passes through it; the other end of the pair must also be up\n"
                    .into(),
            ),
            (
                in_state(1),
                format!("limited interface: classical CAN, 500 kbit/s, error-warning\n  {many}\n"),
            ),
            (
                in_state(2),
                format!("limited interface: classical CAN, 500 kbit/s, error-passive\n  {many}\n"),
            ),
            (
                Link { has_carrier: false, ..in_state(3) },
                "limited interface: classical CAN, 500 kbit/s, bus-off\n  \
                 it left the bus after too many errors: check the bit rate, the termination and \
                 the wiring. With `restart-ms` it comes back automatically\n  \
                 $ sudo ip link set can0 type can restart\n"
                    .into(),
            ),
            (
                Link { can: Some(listening), ..link() },
                "limited interface: classical CAN, 500 kbit/s, listen-only, up\n  \
                 it receives, but does not send or acknowledge\n  \
                 $ sudo ip link set can0 down && sudo ip link set can0 up type can listen-only \
                 off\n"
                    .into(),
            ),
            (
                Link { can: Some(fd), mtu: 72, ..link() },
                "ok interface: CAN FD, 1 Mbit/s and 8333333 bit/s, reports bus errors \
                 (berr-reporting), up\n  \
                 a gateway can use it\n"
                    .into(),
            ),
        ];
        for (link, expected) in cases {
            assert_eq!(reported(&[working(&link)]), expected);
        }
    }

    #[test]
    fn a_long_queue_is_reported_with_the_time_it_takes() {
        let long = Link { queue_length: 1_000, ..link() };
        let hides = "a long queue hides congestion: the last frame waits behind all others";
        let before = "whatever its priority, before the gateway notices that the bus is full\n  \
                      $ sudo ip link set can0 txqueuelen 10\n";
        assert_eq!(
            reported(&[queue(&long).unwrap()]),
            format!(
                "limited queue: 1000 frames can wait in its queue (txqueuelen)\n  \
                 {hides}, up to 270 ms at 500 kbit/s, {before}"
            )
        );
        let unset = Link { can: Some(CanState::default()), queue_length: 101, ..link() };
        assert_eq!(
            reported(&[queue(&unset).unwrap()]),
            format!(
                "limited queue: 101 frames can wait in its queue (txqueuelen)\n  {hides}, {before}"
            )
        );
        assert_eq!(queue(&Link { queue_length: 100, ..link() }).unwrap().fix, None);
        let one = reported(&[queue(&Link { queue_length: 1, ..link() }).unwrap()]);
        assert!(one.starts_with("ok queue: 1 frame can wait in its queue"), "{one}");
        assert_eq!(queue(&Link { can: None, ..long }), None, "virtual ones have no queue");
    }

    #[test]
    fn stamps_are_reported_with_what_they_are_worth() {
        let by_kernel = "ok stamps: the kernel stamps frames, the controller does not\n  \
                         latencies include the time from the controller's interrupt to the \
                         kernel's stamp\n";
        let software = Stamping { software: true, ..Stamping::default() };
        let both = Stamping { hardware: true, transmit: true, ..software };
        for (stamping, expected) in [
            (None, by_kernel),
            (Some(software), by_kernel),
            (
                Some(both),
                "ok stamps: the controller stamps received and transmitted frames\n  \
                 latencies can be measured without the delays of the host\n",
            ),
        ] {
            assert_eq!(reported(&[stamps(&Interface { stamping, ..interface(link()) })]), expected);
        }
    }

    #[test]
    fn threads_for_napi_matter_for_real_time() {
        let with = |has_napi_thread| Interface { has_napi_thread, ..interface(link()) };
        assert_eq!(
            reported(&[napi(&with(Some(false)), true).unwrap()]),
            "limited napi: NAPI does not have its own thread\n  \
             frames are received by any thread that handles soft interrupts, together with those \
             of all other interfaces\n  \
             $ echo 1 | sudo tee /sys/class/net/can0/threaded\n"
        );
        assert_eq!(napi(&with(Some(false)), false), None);
        assert_eq!(napi(&with(None), true), None);
        let virtual_one = Interface { has_napi_thread: Some(false), ..interface(Link::default()) };
        assert_eq!(napi(&virtual_one, true), None);
    }

    #[test]
    fn without_an_interface_there_is_no_gateway() {
        let items =
            judge(&Facts { interfaces: Ok(Vec::new()), is_realtime: false, knows_can: true });
        assert_eq!(
            reported(&items),
            "missing needed interfaces: there is no CAN interface\n  \
             a gateway has no bus here. Connect a controller and load its driver, or use a \
             virtual interface\n  \
             $ sudo ip link add vcan0 type vcan && sudo ip link set vcan0 up\n"
        );
        assert!(!can_run(&items));
        let without = Facts { interfaces: Ok(Vec::new()), is_realtime: false, knows_can: false };
        assert_eq!(judge(&without)[0].fix, None, "nor could one be made");
        let items = judge(&Facts {
            interfaces: Err("cannot ask".into()),
            is_realtime: false,
            knows_can: true,
        });
        assert_eq!(
            reported(&items),
            "missing needed interfaces: cannot ask\n  \
             the CAN interfaces cannot be listed, and a gateway cannot watch them\n"
        );
        let down = interface(Link { is_up: false, ..link() });
        assert!(can_run(&judge(&Facts {
            interfaces: Ok(vec![down]),
            is_realtime: false,
            knows_can: true
        })));
    }
}
