//! By UDP.

use std::net::SocketAddr;
use std::sync::Arc;

use candor_linux::udp::{self, Datagram};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::tunnel::Refused;
use candor_wire::can::tunnel::cannelloni::{
    self, HEADER_LEN, MAX_FRAME_LEN, Order, Outgoing, Sequence,
};
use candor_wire::can::{Frame, Kind};

use crate::datagrams::{
    self, Bound, DatagramContents, DatagramSender, FlushPolicy, Inlet, Own, Reads,
};
use crate::kernel;
use crate::names::Peer;
use candor_port::{
    Address, Endpoint, Error, Handover, Port, ReceiverCounters, Sent, Transmitter,
    TransmitterCounters, Wanted,
};

const DEFAULT_MTU: usize = 1_500;

/// Refuses what no machine can open.
pub(super) fn check(address: &Address, place: &str) -> Result<(), Error> {
    let name = address.to_string();
    let peer = datagrams::literal(&name, place, super::PORT)?;
    if let Some(listen) = address.option("listen").filter(|text| text.parse::<u16>().is_err()) {
        let listen = datagrams::literal(&name, listen, super::PORT)?;
        if let (Some(listen), Some(peer)) = (listen, peer) {
            of_one_kind(&name, listen, peer)?;
        }
    }
    // A host that is known by name has room for the smaller headers.
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    payload(&name, address, peer.unwrap_or(any))?;
    datagrams::receive_buffer(address)?;
    address.flag("any_peer")?;
    Ok(())
}

pub(super) fn open(
    address: &Address,
    place: &str,
    flush: Nanos,
    wanted: Wanted,
    handover: &Handover,
) -> Result<Port, Error> {
    let name = address.to_string();
    let fail = |error| kernel::failure(&*name, &error);
    let mut peer = datagrams::peer(&name, place, super::PORT)?;
    let listener = listener(&name, address, peer.address())?;
    let room = payload(&name, address, peer.address())?;
    let is_any_peer = address.flag("any_peer")?;
    let bound = match handover.take(datagrams::is_at(listener)) {
        Some(bound) => bound,
        None => Bound::new(udp::bind(listener).map_err(fail)?),
    };
    // A peer may be a whole network.
    datagrams::allow_broadcast(&name, &bound.socket)?;
    let outlet =
        wanted.transmitter.then(|| DatagramSender::new(Arc::clone(&bound.socket), peer.clone()));
    let mut port = Port::new(datagrams::CAPABILITIES);
    if wanted.receiver {
        let peer = (!is_any_peer).then_some(peer);
        let reads = Unpacker { peer, sequence: Sequence::default() };
        let inlet = Inlet::open(address, Arc::clone(&bound), reads, Own::new(None), wanted)?;
        port.receiver = Some(Box::new(inlet.beside(outlet.as_ref())));
    }
    port.transmitter = outlet.map(|outlet| Box::new(Packer::new(outlet, room, flush)) as _);
    port.endpoint = Some(Endpoint::new(bound));
    Ok(port)
}

/// Where to receive: `listen`, or the port of the peer.
fn listener(name: &str, address: &Address, peer: SocketAddr) -> Result<SocketAddr, Error> {
    let any = udp::any(peer.ip()).ip();
    let Some(listen) = address.option("listen") else {
        return Ok(SocketAddr::new(any, peer.port()));
    };
    if let Ok(port) = listen.parse() {
        return Ok(SocketAddr::new(any, port));
    }
    let listen = datagrams::resolve(name, listen, super::PORT)?;
    of_one_kind(name, listen, peer)?;
    Ok(listen)
}

fn of_one_kind(name: &str, listen: SocketAddr, peer: SocketAddr) -> Result<(), Error> {
    if listen.is_ipv4() == peer.is_ipv4() {
        return Ok(());
    }
    Err(Error::new(name, format!("{listen} and {peer} are not the same kind of address"))
        .with_remedy("use IPv4 for both, or IPv6 for both"))
}

/// The bytes of a datagram, without the headers of IP (20 or 40 bytes) and UDP (8).
fn payload(name: &str, address: &Address, peer: SocketAddr) -> Result<usize, Error> {
    let mtu: usize = address.parsed("mtu", "1500")?.unwrap_or(DEFAULT_MTU);
    let headers = if peer.is_ipv4() { 28 } else { 48 };
    let least = headers + HEADER_LEN + MAX_FRAME_LEN;
    if !(least..=65_535).contains(&mtu) {
        return Err(Error::new(name, format!("a packet cannot have {mtu} bytes"))
            .with_remedy(format!("use mtu={least} to mtu=65535")));
    }
    Ok(mtu - headers)
}

/// Takes datagrams of cannelloni apart.
struct Unpacker {
    /// Whose they must be.
    peer: Option<Peer>,
    sequence: Sequence,
}

impl Reads for Unpacker {
    fn read(
        &mut self,
        datagram: &Datagram<'_>,
        overflow: u32,
        counters: &ReceiverCounters,
        take: &mut dyn FnMut(&Frame, Option<Instant<Realtime>>),
    ) -> DatagramContents {
        let source = datagram.source.map(|source| source.ip());
        if self.peer.as_mut().is_some_and(|peer| source != Some(peer.address().ip())) {
            return DatagramContents::Foreign;
        }
        let Ok(datagram) = cannelloni::Datagram::decode(datagram.bytes) else {
            return DatagramContents::Malformed(cannelloni::readable_frames(datagram.bytes));
        };
        match self.sequence.take(datagram.sequence()) {
            Order::Next => {}
            Order::Gap(count) => {
                // Those that the kernel dropped are in the gap too, and are counted already.
                counters.missing.add(u64::from(count).saturating_sub(overflow.into()));
            }
            Order::Late => counters.out_of_order.add(1),
        }
        for frame in datagram.frames() {
            take(&frame, None);
        }
        DatagramContents::Good
    }
}

/// Puts frames together. While the network takes no datagram, each frame is tried by itself, so that who transmits knows what becomes
/// of it.
struct Packer {
    outlet: DatagramSender,
    outgoing: Outgoing<Box<[u8]>>,
    sequence: u8,
    patience: FlushPolicy,
    /// The last datagram could not leave.
    is_down: bool,
}

impl Packer {
    fn new(outlet: DatagramSender, room: usize, flush: Nanos) -> Self {
        let outgoing = Outgoing::new(vec![0; room].into_boxed_slice());
        let patience = FlushPolicy::new(flush);
        Self { outlet, outgoing, sequence: 0, patience, is_down: false }
    }

    /// Sends what is there. If there is no way, it is lost.
    fn send(&mut self) -> Sent {
        if self.outgoing.is_empty() {
            return Sent::Taken;
        }
        let sent = match self.outlet.send(self.outgoing.finish(self.sequence)) {
            Sent::Full => return Sent::Full,
            Sent::Taken => Sent::Taken,
            // A datagram that is too large for the way does not fit later.
            Sent::Down | Sent::Unsupported => {
                self.outlet.counters().lost.add(u64::from(self.outgoing.count()));
                Sent::Down
            }
        };
        // What is lost leaves a gap, which the other end sees.
        self.end(sent);
        sent
    }

    /// The datagram has left, or is lost.
    fn end(&mut self, sent: Sent) {
        self.is_down = sent == Sent::Down;
        self.sequence = self.sequence.wrapping_add(1);
        self.outgoing.clear();
        self.patience.end();
    }

    /// Sends a datagram with one frame. What cannot leave was never taken, and leaves no gap.
    fn send_alone(&mut self, frame: &Frame) -> Sent {
        if self.outgoing.push(frame).is_err() {
            return Sent::Unsupported;
        }
        let sent = self.outlet.send(self.outgoing.finish(self.sequence));
        match sent {
            Sent::Taken => {
                self.outlet.counters().frames.add(1);
                self.end(sent);
            }
            _ => self.outgoing.clear(),
        }
        sent
    }
}

impl Transmitter for Packer {
    fn transmit(&mut self, frame: &Frame, _echo: bool) -> Sent {
        if frame.kind() == Kind::Error {
            return Sent::Unsupported;
        }
        if self.is_down {
            return self.send_alone(frame);
        }
        let mut outcome = self.outgoing.push(frame);
        if outcome == Err(Refused::Full) {
            match self.send() {
                Sent::Taken => outcome = self.outgoing.push(frame),
                sent => return sent,
            }
        }
        if outcome.is_err() {
            return Sent::Unsupported;
        }
        self.outlet.counters().frames.add(1);
        self.patience.begin();
        if self.outgoing.is_full() {
            // Where it cannot leave now, it is tried again before the next frame.
            self.send();
        }
        Sent::Taken
    }

    fn flush_due(&self) -> Option<Instant<Monotonic>> {
        self.patience.due()
    }

    fn flush(&mut self) -> Sent {
        self.send()
    }

    fn wait(&mut self, most: Nanos) {
        self.outlet.wait(most);
    }

    fn is_drained(&mut self) -> bool {
        self.outgoing.is_empty() && self.outlet.is_drained()
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(self.outlet.counters())
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        self.send();
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::datagrams::testing::{
        loopback, open, receive, receiver, refusal, texts, transmitter,
    };
    use candor_port::{Progress, Receiver, Until};

    const KINDS: [&str; 6] = [
        "123#DEADBEEF",
        "12345678#",
        "123#R4",
        "123##3AABB",
        "12345678##0",
        "7FF#1122334455667788",
    ];

    /// The names of both ends of a tunnel.
    fn tunnel(number: u8, options: &str) -> [String; 2] {
        let (here, there) = (loopback(number), loopback(number + 1));
        [(here, there), (there, here)].map(|(listen, peer)| {
            format!("cannelloni:udp://{peer}:20000?listen={listen}:20000{options}")
        })
    }

    /// A port that receives, and a socket at the address of its peer.
    fn with_socket(number: u8, options: &str) -> (Box<dyn Receiver>, UdpSocket) {
        let [name, _] = tunnel(number, options);
        let port = receiver(&name);
        let socket = UdpSocket::bind((loopback(number + 1), 20_000)).unwrap();
        socket.connect((loopback(number), 20_000)).unwrap();
        (port, socket)
    }

    fn frame(text: &str) -> Frame {
        text.parse().unwrap()
    }

    /// A datagram with one frame.
    fn datagram(sequence: u8, text: &str) -> Vec<u8> {
        let mut outgoing = Outgoing::new([0; 128]);
        outgoing.push(&frame(text)).unwrap();
        outgoing.finish(sequence).to_vec()
    }

    #[test]
    fn every_kind_of_frame_goes_through() {
        let [here, there] = tunnel(10, "");
        let mut ports = [here, there].map(|name| open(&name, Wanted::BOTH));
        for (from, to) in [(0, 1), (1, 0)] {
            let from = ports[from].transmitter.as_mut().unwrap();
            for text in KINDS {
                assert_eq!(from.transmit(&frame(text), true), Sent::Taken);
            }
            assert_eq!(from.transmit(&frame("20000004#"), true), Sent::Unsupported);
            // The last two are due since ever.
            assert_eq!((from.flush_due(), from.is_drained()), (Some(Instant::ZERO), false));
            assert_eq!(from.flush(), Sent::Taken);
            assert_eq!((from.flush_due(), from.flush()), (None, Sent::Taken));
            let counters = from.counters();
            assert_eq!((counters.frames.get(), counters.datagrams.get()), (6, 1));
            let to = ports[to].receiver.as_mut().unwrap();
            assert_eq!(texts(&receive(&mut **to, 6)), KINDS);
            assert_eq!(to.counters().frames.get(), 6);
        }
    }

    #[test]
    fn a_full_datagram_leaves_at_once_and_a_late_one_when_it_is_due() {
        let [here, _] = tunnel(12, "&flush=1min");
        let mut port = transmitter(&here);
        let socket = UdpSocket::bind((loopback(13), 20_000)).unwrap();
        let before = candor_linux::clock::now::<Monotonic>();
        for _ in 0..113 {
            assert_eq!(port.transmit(&frame("123#1122334455667788"), false), Sent::Taken);
        }
        let latest = candor_linux::clock::now::<Monotonic>() + Nanos::from_secs(60);
        assert!(port.flush_due().is_some_and(|due| before < due && due <= latest));
        let mut buffer = [0; 2_000];
        for (sequence, count) in [(0, 112), (1, 1)] {
            let len = socket.recv(&mut buffer).unwrap();
            let datagram = cannelloni::Datagram::decode(&buffer[..len]).unwrap();
            assert_eq!((datagram.sequence(), datagram.count()), (sequence, count));
            assert!(len <= 1_472);
            assert_eq!(port.flush(), Sent::Taken);
        }
        // What is kept back leaves with the port.
        assert_eq!(port.transmit(&frame("124#"), false), Sent::Taken);
        drop(port);
        assert_eq!(socket.recv(&mut buffer).unwrap(), 10);
    }

    #[test]
    fn what_is_no_datagram_is_counted_and_passed_over() {
        let (mut port, socket) = with_socket(14, "");
        let stranger = UdpSocket::bind((loopback(16), 0)).unwrap();
        stranger.send_to(&datagram(0, "666#"), (loopback(14), 20_000)).unwrap();
        let bad: [&[u8]; 6] = [
            b"",
            b"\x01\0\0\0\0",
            b"\x02\x01\0\0\0",
            b"\x02\0\0\0\x01",
            b"\x02\0\0\0\x01\0\0\0\x01\xFF\0",
            // A good frame before a bad one.
            b"\x02\0\0\0\x02\0\0\0\x01\0\0\0\0\x02\x09",
        ];
        for bytes in bad {
            socket.send(bytes).unwrap();
        }
        socket.send(b"\x02\0\0\0\0").unwrap();
        socket.send(&datagram(1, "123#AA")).unwrap();
        assert_eq!(texts(&receive(&mut *port, 1)), ["123#AA"]);
        let counters = port.counters();
        assert_eq!((counters.malformed.get(), counters.frames.get()), (6, 1));
        // The stranger's, the empty one and the good one; the first frame of the last bad one.
        assert_eq!((counters.foreign.get(), counters.datagrams.get()), (1, 2));
        assert_eq!(counters.malformed_frames.get(), 1);
        assert_eq!((counters.missing.get(), counters.out_of_order.get()), (0, 0));

        // Anyone may send, if that is wanted.
        let (mut port, _) = with_socket(17, "&any_peer=true");
        stranger.send_to(&datagram(0, "666#"), (loopback(17), 20_000)).unwrap();
        assert_eq!(texts(&receive(&mut *port, 1)), ["666#"]);
    }

    #[test]
    fn gaps_and_late_datagrams_are_counted() {
        let (mut port, socket) = with_socket(20, "");
        for sequence in [250, 251, 254, 253, 254, 255, 0, 3] {
            socket.send(&datagram(sequence, &format!("{sequence:03X}#"))).unwrap();
        }
        let texts = texts(&receive(&mut *port, 8));
        assert_eq!(texts, ["0FA#", "0FB#", "0FE#", "0FD#", "0FE#", "0FF#", "000#", "003#"]);
        let counters = port.counters();
        assert_eq!((counters.missing.get(), counters.out_of_order.get()), (4, 2));
        assert_eq!(counters.malformed.get(), 0);
    }

    #[test]
    fn what_the_kernel_drops_is_counted() {
        let (mut port, socket) = with_socket(22, "&buffer=1");
        let counters = port.counters();
        for sequence in 0..100 {
            socket.send(&datagram(sequence, "123#")).unwrap();
        }
        // The first ones fit in; the next one tells how many did not.
        let mut received = receive(&mut *port, 1).len();
        socket.send(&datagram(100, "124#")).unwrap();
        let mut last = String::new();
        while last != "124#" {
            let frames = receive(&mut *port, 1);
            received += frames.len();
            last = texts(&frames).pop().unwrap();
        }
        assert!(counters.overflow.get() > 0);
        assert_eq!(received as u64 + counters.overflow.get(), 101);
        assert_eq!(counters.missing.get(), 0, "each is counted once");
    }

    #[test]
    fn stamps_are_those_of_the_kernel() {
        let [here, there] = tunnel(24, "");
        let mut port = receiver(&here);
        let mut other = transmitter(&there);
        let before = candor_linux::clock::now::<Realtime>();
        other.transmit(&frame("123#"), false);
        other.flush();
        let stamp = receive(&mut *port, 1)[0].stamp.system.unwrap();
        assert!(before <= stamp && stamp <= candor_linux::clock::now());
    }

    #[test]
    fn a_peer_that_is_not_there_is_no_error() {
        let [here, _] = tunnel(26, "");
        let mut port = open(&here, Wanted::BOTH);
        let transmitter = port.transmitter.as_mut().unwrap();
        for _ in 0..10 {
            assert_eq!(transmitter.transmit(&frame("123#"), false), Sent::Taken);
            assert_eq!(transmitter.flush(), Sent::Taken);
        }
        assert_eq!(transmitter.counters().lost.get(), 0);
        // And no end: once it is there, its frames come.
        let [_, there] = tunnel(26, "");
        let mut other = open(&there, Wanted::BOTH).transmitter.unwrap();
        other.transmit(&frame("124#"), false);
        other.flush();
        let receiver = port.receiver.as_mut().unwrap();
        assert_eq!(texts(&receive(&mut **receiver, 1)), ["124#"]);
    }

    #[test]
    fn where_there_is_no_way_frames_are_lost_and_counted() {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        // Packets to all need a permission that this socket lacks.
        let nowhere = "127.255.255.255:9".parse().unwrap();
        let mut packer =
            Packer::new(DatagramSender::new(socket, Peer::new(nowhere, None)), 1_472, Nanos::ZERO);
        assert_eq!(packer.transmit(&frame("123#"), false), Sent::Taken);
        assert_eq!(packer.transmit(&frame("124#"), false), Sent::Taken);
        assert_eq!(packer.flush(), Sent::Down);
        let counters = packer.counters();
        assert_eq!((counters.frames.get(), counters.lost.get()), (2, 2));
        assert_eq!((packer.flush_due(), packer.sequence), (None, 1));
        // From then on who transmits learns of each.
        for _ in 0..3 {
            assert_eq!(packer.transmit(&frame("125#"), false), Sent::Down);
        }
        assert_eq!((counters.frames.get(), counters.lost.get()), (2, 2));
        assert_eq!((packer.flush_due(), packer.sequence), (None, 1));
        // The first one that leaves ends it; the next ones are put together again.
        packer.outlet.socket().set_broadcast(true).unwrap();
        assert_eq!(packer.transmit(&frame("126#"), false), Sent::Taken);
        assert_eq!((counters.datagrams.get(), counters.lost.get()), (1, 2));
        assert_eq!(packer.transmit(&frame("127#"), false), Sent::Taken);
        assert_eq!((counters.frames.get(), counters.datagrams.get()), (4, 1));
    }

    #[test]
    fn a_batch_is_handed_over_in_parts() {
        let (mut port, socket) = with_socket(28, "&mtu=9000");
        let mut outgoing = Outgoing::new([0; 8_000]);
        for _ in 0..200 {
            outgoing.push(&frame("123#1122334455667788")).unwrap();
        }
        for sequence in 0..4 {
            socket.send(outgoing.finish(sequence)).unwrap();
        }
        let mut sizes = Vec::new();
        while sizes.iter().sum::<usize>() < 800 {
            match port.receive(Until::Woken, &mut |_| ()) {
                Ok(Progress::Frames(count)) => sizes.push(count),
                other => panic!("{other:?}"),
            }
        }
        assert!(sizes.iter().all(|&size| size <= 400), "{sizes:?}");
    }

    #[test]
    fn ipv6_is_bracketed() {
        let name = "cannelloni:udp://[::1]:20000?listen=[::1]:0";
        let mut port = transmitter(name);
        assert_eq!(port.transmit(&frame("123#"), false), Sent::Taken);
        assert_eq!(port.flush(), Sent::Taken);
        assert_eq!(port.counters().datagrams.get(), 1);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for (name, part) in [
            ("cannelloni:192.0.2.1:20000", "is not a transport"),
            ("cannelloni:sctp://192.0.2.1", "is not a transport"),
            ("cannelloni:udp://127.0.0.1?role=server", "`role` has no effect with udp"),
            ("cannelloni:udp://127.0.0.1?listen=x", "`x` cannot be resolved"),
            ("cannelloni:udp://127.0.0.1?listen=[::1]:1", "are not the same kind of address"),
            ("cannelloni:udp://127.0.0.1?mtu=50", "mtu=103 to mtu=65535"),
            ("cannelloni:udp://127.0.0.1?listen=0&mtu=70000", "a packet cannot have 70000 bytes"),
            ("cannelloni:udp://127.0.0.1?listen=0&flush=soon", "`flush=soon` is not a duration"),
            ("cannelloni:udp://127.0.0.1?listen=0&any_peer=maybe", "any_peer=true"),
            ("cannelloni:udp://127.0.0.1?listen=0&buffer=big", "buffer=1048576"),
            ("cannelloni:udp://127.0.0.1?listen=0&speed=1", "has no option `speed`"),
            ("cannelloni:udp://192.0.2.99?listen=198.51.100.1:1", "ip address"),
        ] {
            let error = refusal(name, Wanted::BOTH);
            assert!(error.starts_with(name) && error.contains(part), "{error}");
        }
        let [here, _] = tunnel(30, "");
        let _first = receiver(&here);
        let error = refusal(&here, Wanted::BOTH);
        assert!(error.contains("another program uses this port"), "{error}");
    }
}
