//! The drivers of ports, one file each, and their registry [`REGISTRY`].
//!
//! ```text
//!  "packet:can0?gather=5ms" -- Address -- open --> Port { Receiver, Transmitter }
//! ```
//!
//! | name | bus |
//! |---|---|
//! | `can0`, `socketcan:can0` | an interface of Linux, by a CAN socket |
//! | `packet:can0` | the same, by a packet socket with a ring |
//! | `candor:candor0` | a controller with the driver candor_can of the folder `kernel/` |
//! | `cannelloni:udp://host:20000`, `cannelloni:tcp://host:20000` | CAN over Ethernet as cannelloni does it |
//! | `can2udp:0.0.0.0:4858` | a frame per datagram, as Cogent's can2udp does it |
//! | `multicast:239.74.163.2` | python-can's `udp_multicast` |
//! | `sim:bench` | a bus that takes its time, without a controller |
//! | `file:drive.log` | a recording |
//!
//! Receivers wait with [`Wait`]: until a frame comes, time is over, or another thread wakes them.
//!
//! To add a driver: write one file, name it in the registry, and add a test to `tests/conformance.rs`,
//! which runs what holds for every port.

mod absent;
mod can2udp;
mod candor_can;
mod cannelloni;
mod datagrams;
mod drops;
#[cfg(feature = "file")]
mod file;
mod kernel;
pub mod lasting;
mod multicast;
mod names;
mod packet;
mod reach;
mod sim;
mod socketcan;
mod wait;

use candor_port::{Address, Error, Handover, Medium, Port, Registry, Wanted};

pub use absent::{absent, may_come};
#[cfg(feature = "file")]
pub use file::was_moved;
pub use names::addresses;
pub use wait::{Turn, Wait};

/// All drivers, in the order in which messages list them.
pub static REGISTRY: Registry = Registry::new(&[
    &socketcan::DRIVER,
    &packet::DRIVER,
    &candor_can::DRIVER,
    &cannelloni::DRIVER,
    &can2udp::DRIVER,
    &multicast::DRIVER,
    &sim::DRIVER,
    #[cfg(feature = "file")]
    &file::DRIVER,
]);

/// Without recordings, no file was moved.
#[cfg(not(feature = "file"))]
#[must_use]
pub fn was_moved(_: &Address) -> bool {
    false
}

/// [`Registry::medium`] of all drivers.
#[must_use]
pub fn medium(address: &Address) -> Option<Medium> {
    REGISTRY.medium(address)
}

/// [`Registry::interface`] of all drivers.
#[must_use]
pub fn interface(address: &Address) -> Option<&str> {
    REGISTRY.interface(address)
}

/// [`Registry::check`] of all drivers.
///
/// # Errors
/// What is wrong with the name, and a remedy.
pub fn check(address: &Address, wanted: Wanted) -> Result<(), Error> {
    REGISTRY.check(address, wanted)
}

/// [`Registry::open`] of all drivers, for a port that replaces no other one.
///
/// # Errors
/// As [`Registry::open`].
pub fn open(address: &Address, wanted: Wanted) -> Result<Port, Error> {
    open_after(address, wanted, &Handover::default())
}

/// [`Registry::open`] of all drivers.
///
/// # Errors
/// As [`Registry::open`].
pub fn open_after(address: &Address, wanted: Wanted, handover: &Handover) -> Result<Port, Error> {
    REGISTRY.open(address, wanted, handover)
}

/// Looks up the hosts that these ports name, all at once: to be called where waiting holds nobody up, soon before the ports are
/// opened, which then wait for no name server. It takes some seconds at most.
pub fn look_up<'a>(addresses: impl IntoIterator<Item = &'a Address>) {
    let names = addresses.into_iter().flat_map(|address| REGISTRY.names(address));
    names::look_up(&names.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_found_by_its_example() {
        for (index, driver) in REGISTRY.drivers().iter().enumerate() {
            let example: Address = driver.example.parse().unwrap();
            assert_eq!(example.driver(), driver.name);
            assert!(REGISTRY.drivers()[..index].iter().all(|other| other.name != driver.name));
            assert!(!driver.summary.ends_with('.'), "{}", driver.summary);
            for (key, _) in example.options() {
                assert!(driver.options.iter().any(|(known, _)| known == key), "{example}");
            }
            for (at, (key, _)) in driver.options.iter().enumerate() {
                assert!(driver.options[..at].iter().all(|(other, _)| other != key), "{key}");
            }
        }
    }

    #[test]
    fn interfaces_of_this_machine_are_recognised() {
        for (text, name) in [
            ("can0", Some("can0")),
            ("packet:can1?mark=1", Some("can1")),
            ("sim:can0", None),
            ("file:can0", None),
            ("nothing:can0", None),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(interface(&address), name, "{text}");
        }
    }

    #[test]
    fn what_does_not_exist_is_reported_with_what_does() {
        for (name, reported) in [
            (
                "can:can0",
                "can:can0: unknown driver `can`; the drivers are socketcan, packet, \
                 candor, cannelloni, can2udp, multicast, sim, file",
            ),
            (
                "can0?speed=1",
                "can0?speed=1: driver `socketcan` has no option `speed`; its options are buffer, \
                 send_buffer",
            ),
        ] {
            let error = open(&name.parse().unwrap(), Wanted::BOTH).err().unwrap();
            assert_eq!(error.to_string(), reported);
        }
    }

    #[test]
    fn what_no_machine_can_open_is_reported_without_one() {
        for (name, reported) in [
            ("can:can0", "unknown driver `can`"),
            ("can0?buffer=much", "`buffer=much` is not a valid value"),
            ("packet:can0?ring=-1", "`ring=-1` is not a valid value"),
            ("file:drive.log", "a recording can be read or written, not both"),
            ("sim:a?queue=0", "a queue cannot have 0 frames"),
            ("sim:a?bitrate=fast", "`bitrate=fast` is not a valid value"),
            ("can2udp:0.0.0.0?version=3", "unknown version `3`"),
            ("can2udp:0.0.0.0:port", "`0.0.0.0:port` is not a valid address"),
            ("can2udp:[::]:4858", "IPv6 has no broadcast address"),
            ("can2udp:0.0.0.0?stamps=mine", "unknown stamps `mine`"),
            ("multicast:192.0.2.1", "`192.0.2.1` is not a multicast group"),
            ("multicast:239.0.0.1?hop_limit=256", "`hop_limit=256` is not a valid value"),
            (
                "multicast:[ff02::1]?interface=192.0.2.1",
                "an IPv6 group needs the name of an interface",
            ),
            ("cannelloni:host:20000", "`host:20000` is not a transport"),
            ("cannelloni:udp://host:20000?role=server", "`role` has no effect with udp"),
            ("cannelloni:udp://host:70000", "`host:70000` is not a valid address"),
            ("cannelloni:udp://host:20000?mtu=9", "a packet cannot have 9 bytes"),
            ("cannelloni:udp://192.0.2.1?listen=[::]:20000", "are not the same kind of address"),
            ("cannelloni:udp://host?any_peer=yes", "`any_peer=yes` is not a valid value"),
            ("cannelloni:tcp://host:20000?role=both", "unknown role `both`"),
            ("cannelloni:tcp://host:20000?peer=other", "`peer` has no effect without role=server"),
            ("cannelloni:tcp://host:20000?flush=soon", "`flush=soon` is not a duration"),
        ] {
            let address = name.parse().unwrap();
            let error = check(&address, Wanted::BOTH).unwrap_err();
            assert!(error.to_string().contains(reported), "{name}: {error}");
            assert_eq!(open(&address, Wanted::BOTH).err(), Some(error), "{name}");
        }
        for (name, reported) in [
            ("file:drive.xyz", "unknown file extension"),
            ("file:drive.log?replace=yes", "`replace=yes` is not a valid value"),
        ] {
            let error = check(&name.parse().unwrap(), Wanted::TRANSMITTER).unwrap_err();
            assert!(error.to_string().contains(reported), "{name}: {error}");
        }
        let error = check(&"file:drive.log?speed=0".parse().unwrap(), Wanted::RECEIVER);
        assert!(error.unwrap_err().to_string().contains("speed"));
    }

    #[test]
    fn examples_are_fine_on_any_machine() {
        for driver in REGISTRY.drivers() {
            let address: Address = driver.example.parse().unwrap();
            for wanted in [Wanted::RECEIVER, Wanted::TRANSMITTER] {
                assert_eq!(check(&address, wanted), Ok(()), "{address}");
            }
        }
        let host = "cannelloni:udp://gateway.example:20000?listen=20001".parse().unwrap();
        assert_eq!(check(&host, Wanted::BOTH), Ok(()));
    }
}
