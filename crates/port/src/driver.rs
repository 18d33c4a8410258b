//! [`Driver`]: a kind of port, and [`Registry`]: the drivers that a program has.

use std::fmt;

use crate::{Address, Error, ErrorKind, Handover, Port, Wanted};

/// What is behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A CAN controller, or a virtual one, that is a network interface of this machine; the place in the
    /// name of the port is its name. Stamps are those of this machine.
    Interface,
    /// A CAN controller, or a virtual one, that is a device of this machine and no network interface.
    /// Stamps are those of this machine.
    Device,
    /// Other machines or programs. Stamps, if there are any, are those of whoever sent the frames.
    Network,
    /// A file, which is read or written. Stamps are of a time long ago.
    Recording,
}

/// A kind of port.
pub struct Driver {
    /// Its name, in front of the colon.
    pub name: &'static str,
    /// What it is, in a sentence without a full stop.
    pub summary: &'static str,
    /// What is behind its ports.
    pub medium: Medium,
    /// A name of a port of it.
    pub example: &'static str,
    /// Its options: key, what it does.
    pub options: &'static [(&'static str, &'static str)],
    /// Refuses a name that cannot be opened, whatever the machine.
    pub check: fn(&Address, Wanted) -> Result<(), Error>,
    /// Those of the hosts in the name of a port that have to be looked up, as `host:port`. Opening the port waits for that.
    pub names: fn(&Address) -> Vec<String>,
    /// Opens a port, whose name has been checked.
    pub open: fn(&Address, Wanted, &Handover) -> Result<Port, Error>,
}

/// The drivers that a program has, in the order in which messages list them.
#[derive(Clone, Copy)]
pub struct Registry {
    drivers: &'static [&'static Driver],
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.drivers.iter().map(|driver| driver.name)).finish()
    }
}

impl Registry {
    /// A registry of these drivers.
    #[must_use]
    pub const fn new(drivers: &'static [&'static Driver]) -> Self {
        Self { drivers }
    }

    /// The drivers.
    #[must_use]
    pub const fn drivers(&self) -> &'static [&'static Driver] {
        self.drivers
    }

    /// What is behind a port; `None` if there is no such driver.
    #[must_use]
    pub fn medium(&self, address: &Address) -> Option<Medium> {
        Some(self.find(address)?.medium)
    }

    /// The network interface of this machine that a port is, if it is one.
    #[must_use]
    pub fn interface<'a>(&self, address: &'a Address) -> Option<&'a str> {
        (self.medium(address) == Some(Medium::Interface)).then(|| address.place())
    }

    /// Checks the name of a port as far as that is possible without the machine: the driver, its options
    /// and their values, and whether the port can be used as wanted. [`Registry::open`] begins with the
    /// same.
    ///
    /// # Errors
    /// What is wrong with the name, and a remedy.
    pub fn check(&self, address: &Address, wanted: Wanted) -> Result<(), Error> {
        check(self.driver(address)?, address, wanted)
    }

    /// Opens a port, which may take over what others leave.
    ///
    /// # Errors
    /// There is no such driver or option, or the port cannot be opened; what was tried, why, and a
    /// remedy.
    pub fn open(
        &self,
        address: &Address,
        wanted: Wanted,
        handover: &Handover,
    ) -> Result<Port, Error> {
        let driver = self.driver(address)?;
        check(driver, address, wanted)?;
        (driver.open)(address, wanted, handover)
    }

    /// Those of the hosts in the name of a port that have to be looked up, as `host:port`.
    #[must_use]
    pub fn names(&self, address: &Address) -> Vec<String> {
        self.find(address).map_or_else(Vec::new, |driver| (driver.names)(address))
    }

    fn find(&self, address: &Address) -> Option<&'static Driver> {
        self.drivers.iter().copied().find(|driver| driver.name == address.driver())
    }

    /// The driver of a port, which has the options that the name has.
    fn driver(&self, address: &Address) -> Result<&'static Driver, Error> {
        let Some(driver) = self.find(address) else {
            let names: Vec<_> = self.drivers.iter().map(|driver| driver.name).collect();
            let reason = format!("unknown driver `{}`", address.driver());
            let remedy = format!("the drivers are {}", names.join(", "));
            return Err(Error::new(address.to_string(), reason)
                .with_remedy(remedy)
                .of_kind(ErrorKind::Driver));
        };
        let known: Vec<_> = driver.options.iter().map(|(known, _)| *known).collect();
        let mut unknown = address.options().iter().filter(|(key, _)| !known.contains(&&**key));
        if let Some((key, _)) = unknown.next() {
            let reason = format!("driver `{}` has no option `{key}`", driver.name);
            let remedy = match known.is_empty() {
                true => "it has none".to_owned(),
                false => format!("its options are {}", known.join(", ")),
            };
            return Err(Error::new(address.to_string(), reason)
                .with_remedy(remedy)
                .of_kind(ErrorKind::Name));
        }
        Ok(driver)
    }
}

/// What is wrong with a name is wrong on every machine.
fn check(driver: &Driver, address: &Address, wanted: Wanted) -> Result<(), Error> {
    (driver.check)(address, wanted).map_err(|error| error.or_kind(ErrorKind::Name))
}
