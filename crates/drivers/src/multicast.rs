//! `multicast:239.74.163.2`: python-can's `udp_multicast`.
//!
//! - Every program that joined the group sees what any of them transmits, as on a bus. Frames leave
//!   by a port of their own, so that those that come back are known as own ones.
//! - The group of IPv6 is `multicast:[ff15:7079:7468:6f6e:6465:6d6f:6d63:6173]`.
//! - Datagrams stay in the network unless `hop_limit` says more.
//! - An interface that is deleted and made again, or gets its name later, is joined by and sent to again.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use candor_linux::{clock, udp};
use candor_time::{Instant, Realtime};
use candor_wire::can::Frame;
use candor_wire::can::tunnel::multicast::{Datagram, MAX_LEN, PORT};

use super::datagrams::{
    self, Bound, DatagramContents, DatagramSender, Inlet, MOST_BYTES, Own, Reads, Single, Writes,
};
use super::reach::{Group, Membership};
use crate::kernel;
use crate::names::Peer;
use candor_port::{
    Address, Capabilities, Endpoint, Error, Handover, Port, ReceiverCounters, Wanted,
};
use candor_port::{Driver, Medium};

pub(crate) static DRIVER: Driver = Driver {
    name: "multicast",
    summary: "an IP multicast group, compatible with python-can's udp_multicast",
    medium: Medium::Network,
    example: "multicast:239.74.163.2",
    options: &[
        ("port", "of the group; default 43113, as in python-can"),
        (
            "interface",
            "the network interface to use, or its IPv4 address; default: by the routing table",
        ),
        ("hop_limit", "the hop limit of datagrams; default 1: they stay in the local network"),
        datagrams::STAMPS,
        datagrams::BUFFER,
    ],
    check: |address, _| settings(address).map(drop),
    names: |_| Vec::new(),
    open,
};

/// What the name says.
struct Settings {
    group: IpAddr,
    port: u16,
    hop_limit: u8,
    has_sender_stamps: bool,
}

fn settings(address: &Address) -> Result<Settings, Error> {
    let name = address.to_string();
    let place = address.place();
    let ip = place.strip_prefix('[').and_then(|place| place.strip_suffix(']')).unwrap_or(place);
    let group: IpAddr = ip.parse().ok().filter(IpAddr::is_multicast).ok_or_else(|| {
        Error::new(&*name, format!("`{place}` is not a multicast group"))
            .with_remedy("groups are 224.0.0.0/4 and [ff00::]/8, such as 239.74.163.2")
    })?;
    let interface = address.option("interface");
    if group.is_ipv6() && interface.is_some_and(|name| name.parse::<Ipv4Addr>().is_ok()) {
        let reason = "an IPv6 group needs the name of an interface, not an IPv4 address";
        return Err(Error::new(&*name, reason).with_remedy("interface=eth0"));
    }
    datagrams::receive_buffer(address)?;
    Ok(Settings {
        group,
        port: address.parsed("port", "43113")?.unwrap_or(PORT),
        hop_limit: address.parsed("hop_limit", "1")?.unwrap_or(1),
        has_sender_stamps: datagrams::has_sender_stamps(address)?,
    })
}

fn open(address: &Address, wanted: Wanted, handover: &Handover) -> Result<Port, Error> {
    let name = address.to_string();
    let fail = |error| kernel::failure(&*name, &error);
    let Settings { group, port, hop_limit, has_sender_stamps } = settings(address)?;
    let group_address = SocketAddr::new(group, port);
    let by_name =
        Group { address: group_address, interface: address.option("interface").map(str::to_owned) };
    let via = by_name.via().map_err(fail)?;

    let mut sender = None;
    if wanted.transmitter {
        let socket = udp::bind(udp::any(group)).map_err(fail)?;
        udp::set_multicast(&socket, group, via, hop_limit).map_err(fail)?;
        sender = Some(Arc::new(socket));
    }
    let outlet = sender.clone().map(|socket| {
        let (by_name, sender) = (by_name.clone(), Arc::clone(&socket));
        let mend = move || by_name.direct(&sender, hop_limit);
        DatagramSender::with_mend(socket, Peer::new(group_address, None), mend)
    });
    let mut port = Port::new(Capabilities { own_frames: true, ..datagrams::CAPABILITIES });
    if wanted.receiver {
        let bound = match handover.take(datagrams::is_at(group_address)) {
            Some(bound) => bound,
            // At the group itself, so that nothing else comes.
            None => Bound::new(udp::bind_shared(group_address).map_err(fail)?),
        };
        let mut membership = Membership::new(by_name, via).map_err(fail)?;
        port.endpoint = Some(Endpoint::new(Arc::clone(&bound)));
        let reads = Unpacker { has_sender_stamps };
        let own = Own::new(sender.as_deref());
        let inlet = Inlet::open(address, bound, reads, own, wanted)?;
        let inlet = inlet.with_mend(move || membership.mend()).beside(outlet.as_ref());
        port.receiver = Some(Box::new(inlet));
    }
    port.transmitter = outlet.map(|outlet| Box::new(Single::new(outlet, Packer)) as _);
    Ok(port)
}

struct Unpacker {
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
        let stamp = datagram.time_ns.filter(|_| self.has_sender_stamps);
        take(&datagram.frame, stamp.map(Instant::from_nanos));
        DatagramContents::Good
    }
}

struct Packer;

impl Writes for Packer {
    fn write(&mut self, frame: &Frame, out: &mut [u8; MOST_BYTES]) -> Option<usize> {
        let datagram =
            Datagram { frame: *frame, time_ns: Some(clock::now::<Realtime>().as_nanos()) };
        datagram.encode(out.first_chunk_mut::<MAX_LEN>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagrams::testing::{open, receive, refusal, texts};
    use candor_port::{Origin, Progress, Received, Sent, Until};

    /// The name of a group that only this process uses.
    fn group(port: u16) -> String {
        let [.., high, low] = std::process::id().to_be_bytes();
        format!("multicast:239.255.{high}.{low}?interface=127.0.0.1&port={port}")
    }

    fn transmit(port: &mut Port, text: &str) -> Sent {
        let transmitter = port.transmitter.as_mut().unwrap();
        match transmitter.transmit(&text.parse().unwrap(), false) {
            Sent::Taken => transmitter.flush(),
            sent => sent,
        }
    }

    fn receive_from(port: &mut Port, count: usize) -> Vec<Received> {
        receive(&mut **port.receiver.as_mut().unwrap(), count)
    }

    #[test]
    fn everyone_sees_the_frames_of_the_others() {
        let name = group(43_113);
        let mut ports: Vec<_> = (0..3).map(|_| open(&name, Wanted::BOTH)).collect();
        let kinds = ["123#DEADBEEF", "12345678#", "123#R4", "123##3AABB"];
        for text in kinds {
            assert_eq!(transmit(&mut ports[0], text), Sent::Taken);
        }
        assert_eq!(transmit(&mut ports[0], "20000004#"), Sent::Unsupported);
        assert_eq!(transmit(&mut ports[1], "124#"), Sent::Taken);
        assert_eq!(texts(&receive_from(&mut ports[0], 1)), ["124#"]);
        assert_eq!(texts(&receive_from(&mut ports[1], 4)), kinds);
        assert_eq!(receive_from(&mut ports[2], 5).len(), 5);
    }

    #[test]
    fn own_frames_come_if_they_are_wanted() {
        let name = format!("{}&stamps=sender", group(43_114));
        let wanted = Wanted { own_frames: true, stamps: true, ..Wanted::BOTH };
        let mut port = open(&name, wanted);
        let before = candor_linux::clock::now::<Realtime>();
        transmit(&mut port, "123#");
        let received = receive_from(&mut port, 1)[0];
        assert_eq!((received.frame, received.origin), ("123#".parse().unwrap(), Origin::Own));
        // As exact as a float is now: a quarter of a microsecond.
        let stamp = received.stamp.system.unwrap();
        assert!((-250..1_000_000_000).contains(&stamp.signed_nanos_since(before)));
    }

    #[test]
    fn what_is_no_message_is_counted_and_passed_over() {
        let name = group(43_115);
        let (mut port, mut other) = (open(&name, Wanted::BOTH), open(&name, Wanted::TRANSMITTER));
        let place = name.split(['?', ':']).nth(1).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for bytes in [&b""[..], b"\x80", b"\xC1", b"\x81\xa3dlc\x05", b"not a map"] {
            socket.send_to(bytes, (place, 43_115)).unwrap();
        }
        transmit(&mut other, "123#");
        // An empty map is a frame: every key may be absent.
        assert_eq!(texts(&receive_from(&mut port, 2)), ["00000000#", "123#"]);
        assert_eq!(port.receiver.unwrap().counters().malformed.get(), 4);
    }

    #[test]
    fn nothing_but_the_group_comes() {
        let (name, other) = (group(43_116), group(43_117));
        let mut port = open(&name, Wanted::BOTH);
        let mut other = open(&other, Wanted::BOTH);
        transmit(&mut other, "001#");
        transmit(&mut port, "002#");
        let mut third = open(&name, Wanted::TRANSMITTER);
        transmit(&mut third, "003#");
        let receiver = port.receiver.as_mut().unwrap();
        let mut frames = Vec::new();
        // Its own frame may come first: it is passed over.
        while frames.is_empty() {
            let progress =
                receiver.receive(Until::Woken, &mut |received| frames.push(*received)).unwrap();
            assert!(matches!(progress, Progress::Nothing | Progress::Frames(1)));
        }
        assert_eq!(texts(&frames), ["003#"]);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for (name, part) in [
            ("multicast:127.0.0.1", "`127.0.0.1` is not a multicast group"),
            ("multicast:host", "`host` is not a multicast group"),
            ("multicast:239.74.163.2?interface=no-such-if", "ip link"),
            ("multicast:239.74.163.2?interface=198.51.100.7", "ip address"),
            ("multicast:[ff15::1]?interface=127.0.0.1", "interface=eth0"),
            ("multicast:239.74.163.2?hop_limit=300", "hop_limit=1"),
            ("multicast:239.74.163.2?port=x", "port=43113"),
        ] {
            let error = refusal(name, Wanted::BOTH);
            assert!(error.starts_with(name) && error.contains(part), "{error}");
        }
        open("multicast:[ff15::1]?interface=lo&port=0", Wanted::BOTH);
        open("multicast:ff15::1?interface=lo&port=0", Wanted::BOTH);
    }
}
