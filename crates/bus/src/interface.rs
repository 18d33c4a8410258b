//! The CAN interfaces of this machine.

use candor_linux::Error;
use candor_linux::netlink::{Link, Netlink};
use candor_wire::can::{Bitrate, Timing};

/// A CAN interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// What it is doing.
    pub state: State,
    /// Its bit rates, if it is a controller that has been given one.
    pub timing: Option<Timing>,
    /// Which frames it takes.
    pub frames: Frames,
    /// Frames that may wait in front of it.
    pub queue_length: u32,
    /// `can` for controllers, else what kind of virtual interface it is.
    pub kind: String,
    /// The driver of its controller.
    pub driver: Option<String>,
    /// Frames received so far.
    pub received: u64,
    /// Frames transmitted so far.
    pub transmitted: u64,
    /// Frames that the interface or its controller lost, either way.
    pub dropped: u64,
    /// Errors in receiving and transmitting.
    pub errors: u64,
}

/// What an interface is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Switched off.
    Down,
    /// Switched on, but it does not work: it is not connected.
    Unconnected,
    /// A virtual one that works.
    Up,
    /// A controller without trouble.
    ErrorActive,
    /// A controller with 96 errors or more.
    ErrorWarning,
    /// A controller with 128 errors or more, which may not destroy frames of others.
    ErrorPassive,
    /// A controller that has left the bus.
    BusOff,
    /// A controller that does not take part.
    Stopped,
    /// A controller that sleeps.
    Sleeping,
}

impl State {
    pub const ALL: [Self; 9] = [
        Self::Down,
        Self::Up,
        Self::Unconnected,
        Self::ErrorActive,
        Self::ErrorWarning,
        Self::ErrorPassive,
        Self::BusOff,
        Self::Stopped,
        Self::Sleeping,
    ];

    const fn from_link(link: &Link) -> Self {
        match (&link.can, link.is_up) {
            (_, false) => Self::Down,
            (None, true) if link.is_running => Self::Up,
            (None, true) => Self::Unconnected,
            (Some(can), true) => match can.state {
                0 => Self::ErrorActive,
                1 => Self::ErrorWarning,
                2 => Self::ErrorPassive,
                3 => Self::BusOff,
                5 => Self::Sleeping,
                _ => Self::Stopped,
            },
        }
    }

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Unconnected => "up, not connected",
            Self::Up => "up",
            Self::ErrorActive => "error active",
            Self::ErrorWarning => "error warning",
            Self::ErrorPassive => "error passive",
            Self::BusOff => "bus off",
            Self::Stopped => "stopped",
            Self::Sleeping => "sleeping",
        }
    }
}

/// Which frames an interface takes, by the size of its largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Classical CAN.
    Classical,
    /// CAN FD too.
    Fd,
    /// CAN XL too, which Candor does not know.
    Xl,
}

impl Frames {
    pub const ALL: [Self; 3] = [Self::Classical, Self::Fd, Self::Xl];

    const fn from_mtu(mtu: u32) -> Self {
        match mtu {
            0..72 => Self::Classical,
            72 => Self::Fd,
            _ => Self::Xl,
        }
    }

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classical => "classical",
            Self::Fd => "CAN FD",
            Self::Xl => "CAN XL",
        }
    }
}

impl Interface {
    /// From what the kernel tells of a link; `None` if it is no CAN interface.
    #[must_use]
    pub fn from_link(link: &Link) -> Option<Self> {
        if !link.is_can {
            return None;
        }
        let counted = &link.statistics;
        Some(Self {
            name: link.name.clone(),
            state: State::from_link(link),
            timing: timing(link),
            frames: Frames::from_mtu(link.mtu),
            queue_length: link.queue_length,
            kind: link.kind.clone().unwrap_or_default(),
            driver: None,
            received: counted.rx_packets,
            transmitted: counted.tx_packets,
            dropped: counted.rx_dropped
                + counted.tx_dropped
                + counted.rx_over_errors.max(counted.rx_fifo_errors)
                + counted.rx_missed_errors,
            errors: counted.rx_errors + counted.tx_errors,
        })
    }

    fn with_driver(mut self) -> Self {
        let path = format!("/sys/class/net/{}/device/driver", self.name);
        self.driver = std::fs::read_link(path)
            .ok()
            .and_then(|target| Some(target.file_name()?.to_str()?.to_owned()));
        self
    }
}

/// The bit rates of a controller; without a data bit rate, the nominal one counts for both.
fn timing(link: &Link) -> Option<Timing> {
    let can = link.can?;
    let nominal = Bitrate::new(can.bitrate)?;
    let data = Bitrate::new(can.data_bitrate).filter(|_| can.is_fd).unwrap_or(nominal);
    Some(Timing { nominal, data })
}

/// All CAN interfaces, in the order in which they were made.
///
/// # Errors
/// The kernel refuses.
pub fn all() -> Result<Vec<Interface>, Error> {
    let links = Netlink::open()?.links()?;
    Ok(links.iter().filter_map(Interface::from_link).map(Interface::with_driver).collect())
}

/// The bit rates of the interface of that name, if it is a controller that has been given one.
#[must_use]
pub fn timing_of(name: &str) -> Option<Timing> {
    timing(&Netlink::open().ok()?.link(name).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_linux::netlink::{CanState, Statistics};

    fn controller(state: u32) -> Link {
        Link {
            name: "can0".into(),
            is_can: true,
            is_up: true,
            is_running: true,
            mtu: 72,
            queue_length: 10,
            kind: Some("can".into()),
            can: Some(CanState {
                bitrate: 500_000,
                data_bitrate: 2_000_000,
                is_fd: true,
                state,
                mode: 0x20,
                error_counters: None,
            }),
            statistics: Statistics {
                rx_packets: 7,
                rx_over_errors: 2,
                rx_fifo_errors: 2,
                ..Statistics::default()
            },
            ..Link::default()
        }
    }

    #[test]
    fn controllers_are_described() {
        let interface = Interface::from_link(&controller(2)).unwrap();
        assert_eq!(interface.state.name(), "error passive");
        assert_eq!(interface.frames.name(), "CAN FD");
        let timing = interface.timing.unwrap();
        assert_eq!(
            (timing.nominal.to_string(), timing.data.to_string()),
            ("500k".into(), "2M".into())
        );
        // Drivers count the same loss in either of two fields, or in both.
        assert_eq!((interface.received, interface.dropped), (7, 2));
        for (state, name) in [(0, "error active"), (3, "bus off"), (4, "stopped"), (5, "sleeping")]
        {
            let state = Interface::from_link(&controller(state)).unwrap().state;
            assert_eq!(state.name(), name);
        }
    }

    #[test]
    fn virtual_and_other_interfaces_are_distinguished() {
        let vcan = Link { can: None, kind: Some("vcan".into()), mtu: 16, ..controller(0) };
        let interface = Interface::from_link(&vcan).unwrap();
        assert_eq!((interface.state, interface.timing), (State::Up, None));
        assert_eq!(interface.frames, Frames::Classical);
        let unconnected = Link { is_running: false, ..vcan.clone() };
        assert_eq!(Interface::from_link(&unconnected).unwrap().state, State::Unconnected);
        let down = Link { is_up: false, ..vcan.clone() };
        assert_eq!(Interface::from_link(&down).unwrap().state, State::Down);
        assert_eq!(Interface::from_link(&Link { is_can: false, ..vcan }), None);
    }

    #[test]
    fn this_machine_can_be_asked() {
        // Whatever there is: the loopback interface is not among it.
        assert!(all().unwrap().iter().all(|interface| interface.name != "lo"));
        assert_eq!(timing_of("lo"), None);
    }
}
