//! [`Place`]: where the service is reached, and the listeners there.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use candor_daemon::listen::{self, Exposure, Listener};
use candor_daemon::unix::{Access, Kind};

use crate::Error;

/// What the sockets of services are called.
const SOCKET: Kind = Kind { owner: "signal service", socket: "socket", option: "--listen" };

/// Where a service is reached: an address such as `127.0.0.1:1234`, or a socket such as `unix:/run/candor/signals.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address of this machine; port 0 for any.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("there is no path behind `unix:`".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                "this is neither an address such as 127.0.0.1:1234 nor unix:PATH".to_owned()
            }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Listens at a place: the listener, and where that really is.
///
/// # Errors
/// Others would reach it, or it cannot be had.
pub(crate) fn listen(place: &Place) -> Result<(Listener, Place), Error> {
    match place {
        Place::Tcp(address) => {
            let listener =
                listen::tcp(*address, Exposure::Loopback).map_err(|error| match error {
                    listen::Error::NotLoopback => Error::NotLoopback(*address),
                    listen::Error::Io(error) => Error::Listen(*address, error),
                })?;
            let address = listener.local_addr().map_err(Error::Kernel)?;
            Ok((listener.into(), Place::Tcp(address)))
        }
        Place::Unix(path) => {
            let bound = SOCKET.bind(path, Access::Owner).map_err(Error::Socket)?;
            Ok((bound.into(), place.clone()))
        }
    }
}
