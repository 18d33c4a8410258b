//! `can2udp:0.0.0.0:4858`: a frame per datagram, as Cogent's can2udp does it.
//!
//! - The place is where frames are received; they are transmitted to all of the network (`peer`), by
//!   a port of their own.
//! - Both versions are received. Version 2 says when the sender had the frame, and the sender is
//!   told when this port transmitted it.
//! - With a peer that is one machine, or a place that is one address, the port belongs to this program
//!   alone. Where frames are sent to all, other programs of this machine may receive them too.
//! - A datagram without a frame, which can2udp sends when nothing came for a while, counts as
//!   malformed. Those of another interface than `interface_id` are not for this port, and count as
//!   nothing.
//! - Error reports are not transmitted.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use candor_linux::{clock, udp};
use candor_time::{Instant, Realtime};
use candor_wire::can::Frame;
use candor_wire::can::tunnel::can2udp::{Datagram, MAX_LEN, PORT, Version};

use super::datagrams::{
    self, Bound, DatagramContents, DatagramSender, Inlet, MOST_BYTES, Own, Reads, Single, Writes,
};
use crate::kernel;
use crate::names::Peer;
use candor_port::{
    Address, Capabilities, Endpoint, Error, Handover, Port, ReceiverCounters, Wanted,
};
use candor_port::{Driver, Medium};

pub(crate) static DRIVER: Driver = Driver {
    name: "can2udp",
    summary: "one frame per datagram, compatible with Cogent's can2udp",
    medium: Medium::Network,
    example: "can2udp:0.0.0.0:4858",
    options: &[
        (
            "peer",
            "where to transmit: host:port; default: broadcast (255.255.255.255), at the port of \
             the place",
        ),
        ("version", "of the transmitted format: 2 (default), or 1, which has no CAN FD"),
        (
            "interface_id",
            "the bus number: receive only its frames, and transmit with it; default: receive all, \
             transmit with 0",
        ),
        datagrams::STAMPS,
        datagrams::BUFFER,
    ],
    check: |address, wanted| settings(address, wanted).map(drop),
    names: |address| datagrams::names([Some(address.place()), address.option("peer")], PORT),
    open,
};

/// What the name says, apart from addresses.
struct Settings {
    version: Version,
    interface: Option<u16>,
    has_sender_stamps: bool,
}

fn settings(address: &Address, wanted: Wanted) -> Result<Settings, Error> {
    let name = address.to_string();
    let listen = datagrams::literal(&name, address.place(), PORT)?;
    let version = match address.option("version") {
        None | Some("2") => Version::V2,
        Some("1") => Version::V1,
        Some(other) => {
            return Err(Error::new(&*name, format!("unknown version `{other}`"))
                .with_remedy("use version=1 or version=2"));
        }
    };
    match address.option("peer") {
        Some(peer) => drop(datagrams::literal(&name, peer, PORT)?),
        None if wanted.transmitter && listen.is_some_and(|listen| listen.is_ipv6()) => {
            return Err(no_broadcast(&name));
        }
        None => {}
    }
    datagrams::receive_buffer(address)?;
    Ok(Settings {
        version,
        interface: address.parsed("interface_id", "0")?,
        has_sender_stamps: datagrams::has_sender_stamps(address)?,
    })
}

fn no_broadcast(name: &str) -> Error {
    Error::new(name, "IPv6 has no broadcast address")
        .with_remedy("set the destination: peer=[2001:db8::1]:4858")
}

fn open(address: &Address, wanted: Wanted, handover: &Handover) -> Result<Port, Error> {
    let name = address.to_string();
    let fail = |error| kernel::failure(&*name, &error);
    let Settings { version, interface, has_sender_stamps } = settings(address, wanted)?;
    let listen = datagrams::resolve(&name, address.place(), PORT)?;
    let mut peer = match address.option("peer") {
        Some(peer) => datagrams::peer(&name, peer, PORT)?,
        None if listen.is_ipv4() => Peer::new((Ipv4Addr::BROADCAST, listen.port()).into(), None),
        None if wanted.transmitter => return Err(no_broadcast(&name)),
        None => Peer::new(listen, None),
    };
    let to = peer.address();
    let mut sender = None;
    if wanted.transmitter {
        // At a port that no other socket has, so that what comes back can be recognised.
        let socket = udp::bind(udp::any(to.ip())).map_err(fail)?;
        datagrams::allow_broadcast(&name, &socket)?;
        sender = Some(Arc::new(socket));
    }
    let outlet = sender.clone().map(|socket| DatagramSender::new(socket, peer));
    let is_fd = version == Version::V2;
    let mut port = Port::new(Capabilities { fd: is_fd, ..datagrams::CAPABILITIES });
    if wanted.receiver {
        let bound = match handover.take(datagrams::is_at(listen)) {
            Some(bound) => bound,
            None => {
                let socket = match is_shared(listen, to).map_err(fail)? {
                    true => udp::bind_shared(listen),
                    false => udp::bind(listen),
                };
                Bound::new(socket.map_err(fail)?)
            }
        };
        port.endpoint = Some(Endpoint::new(Arc::clone(&bound)));
        let reads = Unpacker { interface, has_sender_stamps };
        let own = Own::new(sender.as_deref());
        let inlet = Inlet::open(address, bound, reads, own, wanted)?;
        port.receiver = Some(Box::new(inlet.beside(outlet.as_ref())));
    }
    let packer = Packer { version, interface: interface.unwrap_or(0) };
    port.transmitter = outlet.map(|outlet| Box::new(Single::new(outlet, packer)) as _);
    Ok(port)
}

/// Whether other programs may receive at the same address: only where all of them get what is sent to
/// all. Of two sockets that share a port, a datagram for this machine alone reaches the one that was
/// opened last, whoever opened it.
fn is_shared(listen: SocketAddr, peer: SocketAddr) -> Result<bool, candor_linux::Error> {
    // Who listens at one address receives nothing that was sent to all.
    let listens_to_all = listen.ip().is_unspecified() || udp::reaches_many(listen)?;
    Ok(listens_to_all && udp::reaches_many(peer)?)
}

struct Unpacker {
    interface: Option<u16>,
    has_sender_stamps: bool,
}

impl Reads for Unpacker {
    fn read(
        &mut self,
        datagram: &udp::Datagram<'_>,
        _overflow: u32,
        _counters: &ReceiverCounters,
        take: &mut dyn FnMut(&Frame, Option<Instant<Realtime>>),
    ) -> DatagramContents {
        let Ok(datagram) = Datagram::decode(datagram.bytes) else {
            return DatagramContents::Malformed(0);
        };
        if self.interface.is_some_and(|interface| interface != datagram.interface) {
            return DatagramContents::Nothing;
        }
        let Some(frame) = datagram.frame else { return DatagramContents::Malformed(0) };
        let stamp = datagram.time_ns.filter(|_| self.has_sender_stamps);
        take(&frame, stamp.map(Instant::from_nanos));
        DatagramContents::Good
    }
}

struct Packer {
    version: Version,
    interface: u16,
}

impl Writes for Packer {
    fn write(&mut self, frame: &Frame, out: &mut [u8; MOST_BYTES]) -> Option<usize> {
        let datagram = Datagram {
            version: self.version,
            interface: self.interface,
            frame: Some(*frame),
            // Version 1 has no time.
            time_ns: (self.version == Version::V2).then(|| clock::now::<Realtime>().as_nanos()),
        };
        datagram.encode(out.first_chunk_mut::<MAX_LEN>()?)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::datagrams::testing::{
        loopback, open, receive, receiver, refusal, texts, transmitter,
    };
    use candor_port::{Origin, Sent};

    const KINDS: [&str; 4] = ["123#DEADBEEF", "12345678#", "123#R4", "7FF#1122334455667788_C"];

    fn frame(text: &str) -> Frame {
        text.parse().unwrap()
    }

    #[test]
    fn frames_of_both_versions_go_through() {
        let ip = loopback(40);
        let mut port = receiver(&format!("can2udp:{ip}:4858"));
        for version in [1, 2] {
            let mut other =
                transmitter(&format!("can2udp:0.0.0.0?peer={ip}:4858&version={version}"));
            for text in KINDS {
                assert_eq!(other.transmit(&frame(text), true), Sent::Taken);
            }
            assert_eq!(other.transmit(&frame("20000004#"), true), Sent::Unsupported);
            let fd = other.transmit(&frame("123##1AABB"), true);
            assert_eq!(fd, if version == 1 { Sent::Unsupported } else { Sent::Taken });
            let count = if version == 1 { 4 } else { 5 };
            // What is kept until there is nothing more to transmit for now.
            assert_eq!(other.flush_due(), Some(Instant::ZERO));
            assert_eq!(other.flush(), Sent::Taken);
            let received = texts(&receive(&mut *port, count));
            assert_eq!(received, [&KINDS[..], &["123##1AABB"]].concat()[..count]);
            let counters = other.counters();
            assert_eq!(
                (counters.frames.get(), counters.datagrams.get()),
                (count as u64, count as u64)
            );
            assert_eq!(other.flush_due(), None);
        }
    }

    #[test]
    fn stamps_are_those_that_are_asked_for() {
        let ip = loopback(41);
        let mut kernel = receiver(&format!("can2udp:{ip}"));
        let mut sender = receiver(&format!("can2udp:{ip}:4859?stamps=sender"));
        let frame = Some(frame("123#"));
        let datagram = Datagram { version: Version::V2, interface: 0, frame, time_ns: Some(5) };
        let mut out = [0; MAX_LEN];
        let len = datagram.encode(&mut out).unwrap();
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        socket.send_to(&out[..len], (ip, 4858)).unwrap();
        socket.send_to(&out[..len], (ip, 4859)).unwrap();
        // One of an unknown time, for which the kernel's has to do.
        let len = Datagram { time_ns: None, ..datagram }.encode(&mut out).unwrap();
        socket.send_to(&out[..len], (ip, 4859)).unwrap();
        let stamp = |received: &candor_port::Received| received.stamp.system.unwrap().as_nanos();
        assert!(stamp(&receive(&mut *kernel, 1)[0]) > 1_700_000_000_000_000_000);
        let frames = receive(&mut *sender, 2);
        assert_eq!(stamp(&frames[0]), 5);
        assert!(stamp(&frames[1]) > 1_700_000_000_000_000_000);
    }

    #[test]
    fn what_is_no_frame_is_counted_and_other_buses_are_not() {
        let ip = loopback(42);
        let mut port = receiver(&format!("can2udp:{ip}?interface_id=7"));
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        let to = (ip, 4858);
        let mut out = [0; MAX_LEN];
        let good = |interface, text| Datagram {
            version: Version::V1,
            interface,
            frame: Some(frame(text)),
            time_ns: None,
        };
        let len = good(6, "666#").encode(&mut out).unwrap();
        socket.send_to(&out[..len], to).unwrap();
        let timeout = Datagram { frame: None, ..good(7, "123#") }.encode(&mut out).unwrap();
        for bytes in [&out[..timeout], &out[..19], b"", b"\x03", &[2; MAX_LEN], &[1; 20]] {
            socket.send_to(bytes, to).unwrap();
        }
        let len = good(7, "123#AA").encode(&mut out).unwrap();
        socket.send_to(&out[..len], to).unwrap();
        assert_eq!(texts(&receive(&mut *port, 1)), ["123#AA"]);
        // The last one is of another bus, and was not looked at further.
        assert_eq!(port.counters().malformed.get(), 5);
    }

    #[test]
    fn what_comes_back_is_known() {
        // A broadcast address of the loopback network.
        let name = "can2udp:0.0.0.0:4860?peer=127.255.255.255:4860&interface_id=";
        let name = format!("{name}{}", std::process::id() & 0xFFFF);
        let wanted = Wanted { own_frames: true, ..Wanted::BOTH };
        let (mut loud, mut quiet) = (open(&name, wanted), open(&name, Wanted::BOTH));
        let transmit = |port: &mut Port, text| {
            let transmitter = port.transmitter.as_mut().unwrap();
            assert_eq!(transmitter.transmit(&frame(text), false), Sent::Taken);
            assert_eq!(transmitter.flush(), Sent::Taken);
        };
        transmit(&mut loud, "001#");
        transmit(&mut quiet, "002#");
        transmit(&mut loud, "003#");
        let frames = receive(&mut **loud.receiver.as_mut().unwrap(), 3);
        assert_eq!(texts(&frames), ["001#", "002#", "003#"]);
        let origins: Vec<_> = frames.iter().map(|received| received.origin).collect();
        assert_eq!(origins, [Origin::Own, Origin::Bus, Origin::Own]);
        let frames = receive(&mut **quiet.receiver.as_mut().unwrap(), 2);
        assert_eq!(texts(&frames), ["001#", "003#"]);
    }

    #[test]
    fn only_what_is_sent_to_all_is_shared() {
        let ip = loopback(43);
        for (name, is_shared) in [
            (format!("can2udp:{ip}:4858?peer={ip}:4859"), false),
            (format!("can2udp:{ip}:4858?peer=127.255.255.255:4858"), false),
            (format!("can2udp:{ip}:4858"), false),
            ("can2udp:0.0.0.0:4871?peer=127.0.0.1:4859".to_owned(), false),
            ("can2udp:0.0.0.0:4872?peer=127.255.255.255:4858".to_owned(), true),
            ("can2udp:0.0.0.0:4873".to_owned(), true),
        ] {
            let _first = open(&name, Wanted::BOTH);
            let second = crate::open(&name.parse().unwrap(), Wanted::BOTH);
            assert_eq!(second.is_ok(), is_shared, "{name}");
            if let Err(error) = second {
                assert!(error.to_string().contains("another program uses this port"), "{error}");
            }
        }
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for (name, part) in [
            ("can2udp:0.0.0.0?version=3", "use version=1 or version=2"),
            ("can2udp:0.0.0.0?interface_id=70000", "interface_id=0"),
            ("can2udp:[::1]", "peer=[2001:db8::1]:4858"),
            ("can2udp:127.0.0.1:0?stamps=mine", "stamps=kernel or stamps=sender"),
        ] {
            let error = refusal(name, Wanted::BOTH);
            assert!(error.starts_with(name) && error.contains(part), "{error}");
        }
        open("can2udp:[::1]:0", Wanted::RECEIVER);
    }
}
