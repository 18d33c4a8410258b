//! The drivers, one file each, and their registry.

mod can2udp;
mod cannelloni;
mod datagrams;
mod drops;
mod file;
mod multicast;
mod packet;
mod sim;
mod socketcan;

use crate::{Address, Error, Port, Wanted};

/// A kind of port.
pub struct Driver {
    /// Its name, in front of the colon.
    pub name: &'static str,
    /// What it is, in a sentence without a full stop.
    pub summary: &'static str,
    /// A name of a port of it.
    pub example: &'static str,
    /// Its options: key, what it does.
    pub options: &'static [(&'static str, &'static str)],
    open: fn(&Address, Wanted) -> Result<Port, Error>,
}

/// All drivers, in the order in which messages list them.
pub static DRIVERS: &[&Driver] = &[
    &socketcan::DRIVER,
    &packet::DRIVER,
    &cannelloni::DRIVER,
    &can2udp::DRIVER,
    &multicast::DRIVER,
    &sim::DRIVER,
    &file::DRIVER,
];

/// Opens a port.
///
/// # Errors
/// There is no such driver or option, or the port cannot be opened; what was tried, why, and a
/// remedy.
pub fn open(address: &Address, wanted: Wanted) -> Result<Port, Error> {
    let known = DRIVERS.iter().find(|driver| driver.name == address.driver());
    let Some(driver) = known else {
        let names: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
        let reason = format!("there is no driver `{}`", address.driver());
        let remedy = format!("the drivers are {}", names.join(", "));
        return Err(Error::new(address.to_string(), reason).with_remedy(remedy));
    };
    for (key, _) in address.options() {
        if !driver.options.iter().any(|(known, _)| known == key) {
            let known: Vec<_> = driver.options.iter().map(|(known, _)| *known).collect();
            let reason = format!("driver `{}` has no option `{key}`", driver.name);
            let remedy = match known.is_empty() {
                true => "it has none".to_owned(),
                false => format!("its options are {}", known.join(", ")),
            };
            return Err(Error::new(address.to_string(), reason).with_remedy(remedy));
        }
    }
    (driver.open)(address, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_found_by_its_example() {
        for (index, driver) in DRIVERS.iter().enumerate() {
            let example: Address = driver.example.parse().unwrap();
            assert_eq!(example.driver(), driver.name);
            assert!(DRIVERS[..index].iter().all(|other| other.name != driver.name));
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
    fn what_does_not_exist_is_told_with_what_does() {
        for (name, told) in [
            (
                "can:can0",
                "can:can0: there is no driver `can`; the drivers are socketcan, packet, \
                 cannelloni, can2udp, multicast, sim, file",
            ),
            (
                "can0?speed=1",
                "can0?speed=1: driver `socketcan` has no option `speed`; its options are buffer, \
                 send_buffer",
            ),
        ] {
            let error = open(&name.parse().unwrap(), Wanted::BOTH).err().unwrap();
            assert_eq!(error.to_string(), told);
        }
    }
}
