//! The service on D-Bus: methods to subscribe, and signals with events for each subscriber alone.
//!
//! An event is not encoded before it is sent: the log has its topic, time, ordinal and value as numbers. Each tick, a
//! subscriber's events become one message, an array that zbus marshals. An event that were kept marshalled could
//! not be put into the array as it is, and a message for each event would cost several times as much, most of it in the
//! daemon.
//!
//! **Back pressure.** The daemon takes everything, and keeps it for who does not read, or drops it without telling. So the
//! service asks each subscriber from time to time for an answer: `org.freedesktop.DBus.Peer.Ping`, which libraries
//! answer by themselves. Messages keep their order, so an answer says that everything before it has been read.
//! Until it comes, the subscriber gets no more than 128 kB; then it falls behind in the log.
//!
//! In a build without the feature `dbus`, there is only [`BusAddress`].

#[cfg(feature = "dbus")]
mod bus;
#[cfg(feature = "dbus")]
pub mod client;
#[cfg(feature = "dbus")]
mod interface;
#[cfg(feature = "dbus")]
mod subscription;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use candor_daemon::Reactor;

use crate::{Error, Shared};

/// The service's name on a bus, and its interface.
pub const NAME: &str = "org.candor.Signals1";
/// Its object.
pub const PATH: &str = "/org/candor/Signals1";
/// What a build without D-Bus says of it.
#[cfg(not(feature = "dbus"))]
pub const ABSENT: &str = "this build has no D-Bus; build it with the feature `dbus`: \
                          cargo build --release --features dbus";
/// Bytes that a subscription may have on their way: in the daemon, and in the socket of the subscriber.
#[cfg(feature = "dbus")]
const WINDOW: usize = 128 << 10;

/// Where a message bus is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusAddress {
    /// The bus of the user's session: `DBUS_SESSION_BUS_ADDRESS`.
    Session,
    /// The bus of the system.
    System,
    /// Another one, such as `unix:path=/run/bus`.
    At(String),
}

impl FromStr for BusAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "session" => Ok(Self::Session),
            "system" => Ok(Self::System),
            _ if text
                .split_once(':')
                .is_some_and(|(kind, rest)| !kind.is_empty() && rest.contains('=')) =>
            {
                Ok(Self::At(text.to_owned()))
            }
            _ => {
                Err("a bus is session, system, or an address such as unix:path=/run/user/1000/bus"
                    .to_owned())
            }
        }
    }
}

impl fmt::Display for BusAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::System => "system",
            Self::At(address) => address,
        })
    }
}

/// What is known of the connection to a bus.
pub(crate) struct Link {
    address: BusAddress,
    trouble: Mutex<Option<String>>,
    reported: Mutex<Option<String>>,
}

impl Link {
    #[cfg(feature = "dbus")]
    fn new(address: BusAddress) -> Self {
        Self { address, trouble: Mutex::default(), reported: Mutex::default() }
    }

    #[cfg(feature = "dbus")]
    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Why the bus does not work, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(format!("D-Bus {}: {trouble}", self.address))
    }

    /// What is new about whether the bus works.
    pub(crate) fn news(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble == *reported {
            return None;
        }
        reported.clone_from(&trouble);
        let address = &self.address;
        Some(match trouble {
            Some(trouble) => format!("D-Bus {address}: {trouble}"),
            None => format!("D-Bus {address} works again"),
        })
    }
}

/// Connects to a bus on the thread of the reactor, and serves there. One that is not there yet is waited for.
#[cfg(feature = "dbus")]
pub(crate) fn start(
    reactor: &Reactor,
    shared: &Arc<Shared>,
    address: BusAddress,
) -> Result<Arc<Link>, Error> {
    let link = Arc::new(Link::new(address));
    let (tell, told) = std::sync::mpsc::channel();
    let (of_task, shared) = (Arc::clone(&link), Arc::clone(shared));
    reactor.spawn(async move {
        match bus::connect(&of_task.address, &shared).await {
            Ok(connected) => {
                let _ = tell.send(Ok(()));
                bus::keep(Some(connected), of_task, shared).await;
            }
            Err(refused) if refused.may_come => {
                of_task.set_trouble(Some(format!("{}; trying every second", refused.reason)));
                let _ = tell.send(Ok(()));
                bus::keep(None, of_task, shared).await;
            }
            Err(refused) => drop(tell.send(Err(refused.reason))),
        }
    });
    let outcome = told.recv().unwrap_or_else(|_| Err("the service has ended".to_owned()));
    outcome.map_err(|reason| Error::Dbus(link.address.clone(), reason))?;
    Ok(link)
}

#[cfg(not(feature = "dbus"))]
pub(crate) fn start(_: &Reactor, _: &Arc<Shared>, address: BusAddress) -> Result<Arc<Link>, Error> {
    Err(Error::Dbus(address, ABSENT.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_has_a_name_or_an_address() {
        for text in ["session", "system", "unix:path=/run/bus", "tcp:host=localhost,port=1"] {
            assert_eq!(text.parse::<BusAddress>().unwrap().to_string(), text);
        }
        for text in ["", "sesion", "unix:", ":a=b", "/run/bus"] {
            assert!(text.parse::<BusAddress>().unwrap_err().contains("unix:path="), "{text}");
        }
    }
}
