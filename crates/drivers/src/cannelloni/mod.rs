//! `cannelloni:udp://host:20000`, `cannelloni:tcp://host:20000`: CAN over Ethernet as cannelloni 2
//! does it, which may be at the other end.
//!
//! - Frames travel together in a datagram or segment. When it is full it leaves; else with the next
//!   beat of `flush`: at most so long after its first frame, on average half as long. Without `flush` they leave as soon as there is nothing more to transmit for now: they are due
//!   since ever, and whoever transmits calls `flush` after each batch. Where `flush` finds no room,
//!   they stay, and are sent when it is called again after `wait`. cannelloni itself keeps frames back
//!   for 100 ms.
//! - Frames that leave but do not arrive are seen at the other end as gaps in the sequence of
//!   datagrams. It has 256 numbers, so what is missing is known modulo 256. What comes late or again
//!   is handed over and counted, as cannelloni does it.
//! - By TCP nothing is lost in between. A connection that breaks is made anew, after a pause that
//!   grows to two seconds; frames are refused meanwhile, and what was kept back is lost and counted.
//! - The name of a host is looked up once, when the port is opened.
//! - Neither carries raw DLCs, and error reports are not transmitted: cannelloni would write them on
//!   its bus.

mod backlog;
mod dialer;
mod tcp;
mod udp;

use candor_time::Nanos;

use candor_port::{Address, Error, Handover, Port, Wanted};
use candor_port::{Driver, Medium};

pub(crate) static DRIVER: Driver = Driver {
    name: "cannelloni",
    summary: "CAN over Ethernet by UDP or TCP, compatible with cannelloni",
    medium: Medium::Network,
    example: "cannelloni:udp://192.0.2.1:20000?listen=20000",
    options: &[
        (
            "flush",
            "the longest time that frames wait to share a packet, such as 500us (half of it on \
             average); default 0: a packet leaves when no further frame is ready",
        ),
        (
            "listen",
            "udp: the port, or address and port, to receive at; default: the port of the \
                    peer",
        ),
        ("mtu", "udp: the largest packet in bytes, including its headers; default 1500"),
        ("any_peer", "true: also accept packets that do not come from the peer"),
        super::datagrams::BUFFER,
        ("role", "tcp: client connects (default), server waits for a connection"),
        ("peer", "tcp: the only host that may connect to a server"),
    ],
    check,
    names,
    open,
};

const PORT: u16 = 20_000;

/// The options of one transport that the other one does not have.
const ONLY_UDP: &[&str] = &["listen", "mtu", "any_peer", "buffer"];
const ONLY_TCP: &[&str] = &["role", "peer"];

/// What carries datagrams, with the place of the peer.
enum Transport<'a> {
    Udp(&'a str),
    Tcp(&'a str),
}

fn check(address: &Address, _: Wanted) -> Result<(), Error> {
    let (transport, _) = settings(address)?;
    match transport {
        Transport::Udp(place) => udp::check(address, place),
        Transport::Tcp(place) => tcp::check(address, place),
    }
}

fn names(address: &Address) -> Vec<String> {
    let Ok((Transport::Udp(place) | Transport::Tcp(place), _)) = settings(address) else {
        return Vec::new();
    };
    // `listen` may be a port alone.
    let listen = address.option("listen").filter(|listen| listen.parse::<u16>().is_err());
    super::datagrams::names([Some(place), listen, address.option("peer")], PORT)
}

fn open(address: &Address, wanted: Wanted, handover: &Handover) -> Result<Port, Error> {
    let (transport, flush) = settings(address)?;
    match transport {
        Transport::Udp(place) => udp::open(address, place, flush, wanted, handover),
        Transport::Tcp(place) => tcp::open(address, place, flush, wanted, handover),
    }
}

/// The transport, and how long frames wait for others at most.
fn settings(address: &Address) -> Result<(Transport<'_>, Nanos), Error> {
    let name = address.to_string();
    let flush = match address.option("flush") {
        Some("0") => None,
        _ => address.duration("flush")?,
    };
    let flush = flush.unwrap_or(Nanos::ZERO);
    let refuse = |others: &[&str], transport: &str| match others
        .iter()
        .find(|key| address.option(key).is_some())
    {
        Some(key) => Err(Error::new(&*name, format!("`{key}` has no effect with {transport}"))
            .with_remedy("remove it")),
        None => Ok(()),
    };
    match address.place().split_once("://") {
        Some(("udp", place)) => {
            refuse(ONLY_TCP, "udp")?;
            Ok((Transport::Udp(place), flush))
        }
        Some(("tcp", place)) => {
            refuse(ONLY_UDP, "tcp")?;
            Ok((Transport::Tcp(place), flush))
        }
        _ => Err(Error::new(&*name, format!("`{}` is not a transport", address.place()))
            .with_remedy("use cannelloni:udp://host:20000 or cannelloni:tcp://host:20000")),
    }
}
