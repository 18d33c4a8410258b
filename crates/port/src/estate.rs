//! [`Estate`]: what ports that are about to close leave to those that replace them.
//!
//! A local address belongs to one socket. If the port that has it is replaced by one with other
//! options, the new port takes the socket over: what has arrived and was not read stays in it, so
//! nothing is lost and nothing comes twice.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use candor_linux::can::Socket;

/// What a port has of this machine that it can leave to another one.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A socket for datagrams.
    Udp(Arc<UdpSocket>),
    /// A socket that others connect to.
    Tcp(Arc<TcpListener>),
    /// A CAN socket that receives on the interface of that name.
    Can(Box<str>, Arc<Socket>),
}

/// What is left to new ports. Each thing goes to the first that asks for it.
#[derive(Debug, Default)]
pub struct Estate(Mutex<Vec<Endpoint>>);

impl Estate {
    /// Of ports that will not be used any more.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self(Mutex::new(endpoints))
    }

    fn take<T>(&self, is_it: impl Fn(&Endpoint) -> Option<T>) -> Option<T> {
        let mut endpoints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, found) =
            endpoints.iter().enumerate().find_map(|(place, it)| Some((place, is_it(it)?)))?;
        endpoints.swap_remove(place);
        Some(found)
    }

    /// A socket for datagrams at this address. One at any port (0) is always a new one.
    pub(crate) fn udp(&self, address: SocketAddr) -> Option<Arc<UdpSocket>> {
        self.take(|endpoint| match endpoint {
            Endpoint::Udp(socket) if socket.local_addr().is_ok_and(|own| own == address) => {
                Some(Arc::clone(socket))
            }
            _ => None,
        })
    }

    /// A socket that others connect to at this address.
    pub(crate) fn tcp(&self, address: SocketAddr) -> Option<Arc<TcpListener>> {
        self.take(|endpoint| match endpoint {
            Endpoint::Tcp(listener) if listener.local_addr().is_ok_and(|own| own == address) => {
                Some(Arc::clone(listener))
            }
            _ => None,
        })
    }

    /// A CAN socket on this interface.
    pub(crate) fn can(&self, interface: &str) -> Option<Arc<Socket>> {
        self.take(|endpoint| match endpoint {
            Endpoint::Can(name, socket) if **name == *interface => Some(Arc::clone(socket)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{self, open_after};
    use crate::{Progress, Sent, Wanted};

    fn transmit(name: &str, texts: &[&str]) {
        let port = driver::open(&name.parse().unwrap(), Wanted::TRANSMITTER).unwrap();
        let mut transmitter = port.transmitter.unwrap();
        for text in texts {
            assert_eq!(transmitter.transmit(&text.parse().unwrap(), false), Sent::Taken);
        }
        transmitter.flush();
    }

    #[test]
    fn a_port_with_other_options_takes_the_address_over_and_what_waits_there() {
        let [.., high, low] = std::process::id().to_be_bytes();
        let (ip, from) = (format!("127.{high}.{low}.90"), format!("127.{high}.{low}.91"));
        let sender = format!("cannelloni:udp://{ip}:20000?listen={from}:20000");
        for (old, new, sender) in [
            (
                format!("cannelloni:udp://{from}:20000?listen={ip}:20000"),
                format!("cannelloni:udp://{from}:20000?listen={ip}:20000&mtu=1400"),
                sender,
            ),
            (
                format!("can2udp:{ip}:4858?peer={from}:1"),
                format!("can2udp:{ip}:4858?peer={from}:2"),
                format!("can2udp:{from}:4858?peer={ip}:4858"),
            ),
        ] {
            let first = driver::open(&old.parse().unwrap(), Wanted::BOTH).unwrap();
            transmit(&sender, &["123#11", "124#22"]);
            let estate = Estate::new(first.endpoint.iter().cloned().collect());
            let second = open_after(&new.parse().unwrap(), Wanted::BOTH, &estate).unwrap();
            drop(first);
            let mut receiver = second.receiver.unwrap();
            let mut heard = Vec::new();
            while heard.len() < 2 {
                let progress =
                    receiver.receive(&mut |it| heard.push(it.frame.to_string())).unwrap();
                assert!(matches!(progress, Progress::Frames(_)), "{progress:?}");
            }
            assert_eq!(heard, ["123#11", "124#22"], "{new}");
        }
    }

    #[test]
    fn each_address_goes_to_one_port() {
        let [.., high, low] = std::process::id().to_be_bytes();
        let ip = format!("127.{high}.{low}.92");
        for name in [
            format!("cannelloni:udp://{ip}:20000?listen={ip}:20000"),
            format!("cannelloni:tcp://{ip}:20000?role=server"),
        ] {
            let address = name.parse().unwrap();
            let first = driver::open(&address, Wanted::BOTH).unwrap();
            assert!(driver::open(&address, Wanted::BOTH).is_err(), "it is in use: {name}");
            let estate = Estate::new(first.endpoint.iter().cloned().collect());
            let _second = open_after(&address, Wanted::BOTH, &estate).unwrap();
            assert!(open_after(&address, Wanted::BOTH, &estate).is_err(), "{name}");
        }
    }
}
