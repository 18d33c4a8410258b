//! Ethernet sockets on a pair of virtual interfaces: stamps at both ends, what is left out, what is refused.

use std::collections::BTreeMap;

use candor_linux::ethernet::{EthernetSocket, Options, Protocol, Received};
use candor_linux::netlink::Netlink;
use candor_linux::{Error, Sent, clock, ethtool};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::eth::tte::{CriticalTraffic, Layout, Measurement, TypeField};
use candor_wire::eth::{Address, Frame, ether_type};

use crate::harness::stranger;
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 12] = [
    ("frames_are_stamped_at_both_ends", Need::Veth, stamped),
    ("own_frames_do_not_come_back", Need::Veth, own_frames),
    ("frames_of_others_on_this_machine_are_heard_if_asked", Need::Veth, outgoing),
    ("frames_of_other_protocols_are_left_out", Need::Veth, protocols),
    ("refused_frames_may_have_a_number", Need::Veth, numbers),
    ("a_full_buffer_is_counted", Need::Veth, full_buffer),
    ("long_frames_are_cut", Need::Veth, cut),
    ("the_interface_takes_all_addresses", Need::Veth, promiscuous),
    ("what_cannot_be_opened_says_why", Need::Veth, refusals),
    ("an_interface_that_goes_down_is_told", Need::Veth, down),
    ("the_loopback_interface_gives_frames_back", Need::Namespace, loopback),
    ("other_users_may_not", Need::OtherUser, other_users),
];

const SECONDS: Nanos = Nanos::from_secs(5);
/// The lengths of RFC 2544.
const SIZES: [usize; 7] = [64, 128, 256, 512, 1_024, 1_280, 1_518];
const QUIET: Options = Options {
    protocol: Protocol::EtherType(ether_type::TTETHERNET),
    is_promiscuous: false,
    has_transmit_stamps: false,
    hears_outgoing: false,
    is_past_queue: false,
    receive_buffer: None,
};

/// Two interfaces that are up.
fn pair() -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_veth("left", "right").unwrap();
    netlink.set_up("left", true).unwrap();
    netlink.set_up("right", true).unwrap();
    netlink.wait_until_running("left", SECONDS).unwrap();
    netlink
}

fn open(interface: &str, options: Options) -> EthernetSocket {
    EthernetSocket::open(interface, options).unwrap()
}

fn soon() -> Instant<Monotonic> {
    clock::now::<Monotonic>() + SECONDS
}

/// A frame for a group, with a number, as long as `size` says, the rest of its payload a pattern.
fn frame(source: Address, type_field: TypeField, size: usize, sequence: u32) -> Vec<u8> {
    let layout =
        Layout { destination: CriticalTraffic::default().address(7), source, type_field, size };
    let mut payload: Vec<u8> = (0..layout.room()).map(|at| (at as u32 ^ sequence) as u8).collect();
    let sent_ns = clock::now::<Realtime>().as_nanos();
    Measurement { run: 1, stream: 7, sequence, scheduled_ns: 0, sent_ns }
        .write(payload.first_chunk_mut().unwrap());
    let mut bytes = vec![0; layout.byte_len()];
    assert_eq!(layout.write(&payload, &mut bytes), Ok(bytes.len()));
    bytes
}

fn time_triggered(socket: &EthernetSocket, size: usize, sequence: u32) -> Vec<u8> {
    frame(socket.address(), TypeField::default(), size, sequence)
}

/// The next frame of a measurement, its number and what the kernel says; those of the kernel itself do not count.
/// None if there is none at once.
fn received(socket: &EthernetSocket) -> Option<(u32, Vec<u8>, Received)> {
    let mut buffer = [0xEE; 2_000];
    while let Some(received) = socket.receive(&mut buffer).unwrap() {
        let bytes = &buffer[..received.len];
        if let Ok(measurement) = Measurement::parse(Frame::parse(bytes).unwrap().payload) {
            return Some((measurement.sequence, bytes.to_vec(), received));
        }
    }
    None
}

/// The same, but waits for it.
fn awaited(socket: &EthernetSocket) -> (u32, Vec<u8>, Received) {
    let until = soon();
    loop {
        if let Some(found) = received(socket) {
            return found;
        }
        assert!(socket.wait(until).unwrap(), "no frame");
    }
}

fn sequences(socket: &EthernetSocket) -> Vec<u32> {
    std::iter::from_fn(|| received(socket)).map(|(sequence, ..)| sequence).collect()
}

/// Sends until a frame has a stamp, since the kernel begins to stamp some time after it is asked to. Returns how many
/// frames that took.
fn warm_up(left: &EthernetSocket, right: &EthernetSocket) -> u32 {
    let until = soon();
    loop {
        let id = left.next_id();
        assert_eq!(left.send(&time_triggered(left, 64, u32::MAX)), Ok(Sent::Taken));
        assert_eq!(left.next_id(), id + 1);
        if awaited(right).2.stamp.is_some() {
            return id + 1;
        }
        assert!(clock::now::<Monotonic>() < until, "no stamps");
    }
}

fn stamped() {
    let _netlink = pair();
    let stamping = ethtool::stamping("left").unwrap();
    assert!(stamping.software && stamping.transmit_software, "{stamping:?}");
    let (left, right) = (open("left", Options::default()), open("right", Options::default()));
    assert_eq!(left.interface(), "left");
    assert!(left.address().is_local() && left.address() != right.address());
    let first = warm_up(&left, &right);
    left.transmit_stamps(&mut |_, _| {}).unwrap();

    let start = clock::now::<Realtime>();
    let (mut sent, mut left_at) = (BTreeMap::new(), BTreeMap::new());
    let (mut longest, mut total) = (Nanos::ZERO, 0);
    for sequence in 0..200 {
        let size = SIZES[sequence as usize % SIZES.len()];
        let type_field = if sequence % 2 == 0 { TypeField::default() } else { TypeField::Length };
        let bytes = frame(left.address(), type_field, size, sequence);
        sent.insert(left.next_id(), sequence);
        assert_eq!(left.send(&bytes), Ok(Sent::Taken));
        let (number, arrived, received) = awaited(&right);
        assert_eq!((number, &arrived), (sequence, &bytes), "unaltered, in order");
        assert!(!received.is_truncated);
        let received_at = received.stamp.expect("each frame has a stamp");
        while left_at.len() <= sequence as usize {
            assert!(left.wait(soon()).unwrap(), "no stamp of frame {sequence}");
            total += left
                .transmit_stamps(&mut |id, stamp| {
                    assert_eq!(left_at.insert(id, stamp), None, "one stamp for frame {id}");
                })
                .unwrap();
        }
        let sent_at = left_at[&(first + sequence)];
        assert!(start <= sent_at && sent_at <= received_at, "{sent_at:?}, {received_at:?}");
        assert!(received_at <= clock::now::<Realtime>());
        longest = longest.max(received_at - sent_at);
    }
    assert!(left_at.keys().eq(sent.keys()), "each number has a stamp");
    assert!(sent.keys().copied().eq(first..first + 200) && total == 200);
    // Usually below 4 us; the hypervisor may stop the CPU in between.
    assert!(longest < Nanos::from_millis(500), "{longest}");
    assert_eq!(left.transmit_stamps(&mut |_, _| {}), Ok(0));
    assert_eq!((left.drops(), right.drops()), (Ok(0), Ok(0)));
}

fn own_frames() {
    let _netlink = pair();
    let (left, other) = (open("left", Options::default()), open("left", Options::default()));
    let right = open("right", Options::default());
    assert_eq!(left.send(&time_triggered(&left, 64, 1)), Ok(Sent::Taken));
    assert_eq!(awaited(&right).0, 1);
    assert_eq!((sequences(&left), sequences(&other)), (vec![], vec![]));
    assert_eq!(right.send(&time_triggered(&right, 64, 2)), Ok(Sent::Taken));
    assert_eq!((awaited(&left).0, awaited(&other).0), (2, 2));
    assert_eq!(sequences(&right), []);
}

fn protocols() {
    let _netlink = pair();
    let left = open("left", Options::default());
    let of = |protocol| open("right", Options { protocol, ..QUIET });
    let all = of(Protocol::All);
    let tt = of(Protocol::EtherType(ether_type::TTETHERNET));
    let experimental = of(Protocol::EtherType(ether_type::EXPERIMENTAL));
    let lengths = of(Protocol::Length);
    for (sequence, type_field) in [
        (0, TypeField::EtherType(ether_type::TTETHERNET)),
        (1, TypeField::EtherType(ether_type::EXPERIMENTAL)),
        (2, TypeField::Length),
        (3, TypeField::EtherType(ether_type::PTP)),
        (4, TypeField::EtherType(ether_type::TTETHERNET)),
    ] {
        let bytes = frame(left.address(), type_field, 64, sequence);
        assert_eq!(left.send(&bytes), Ok(Sent::Taken));
        assert_eq!(awaited(&all).0, sequence);
    }
    assert_eq!(sequences(&tt), [0, 4]);
    assert_eq!(sequences(&experimental), [1]);
    assert_eq!(sequences(&lengths), [2]);
    assert!(!tt.wait(clock::now::<Realtime>() + Nanos::from_micros(50)).unwrap());
    assert!(!tt.wait(Instant::<Monotonic>::ZERO).unwrap(), "in the past");
}

/// The numbers that the kernel gives are those that were told, whatever was refused in between.
fn numbers() {
    let mut netlink = pair();
    let (left, right) = (open("left", Options::default()), open("right", QUIET));
    let first = warm_up(&left, &right);
    left.transmit_stamps(&mut |_, _| {}).unwrap();
    let told_and_given = |socket: &EthernetSocket| {
        let told = socket.next_id();
        assert_eq!(socket.send(&time_triggered(socket, 64, 0)), Ok(Sent::Taken));
        let mut given = Vec::new();
        while given.is_empty() {
            assert!(socket.wait(soon()).unwrap(), "no stamp");
            socket.transmit_stamps(&mut |id, _| given.push(id)).unwrap();
        }
        assert_eq!(given, [told]);
        told
    };
    assert_eq!(told_and_given(&left), first);
    for (len, errno, is_numbered) in [
        (0, libc::EINVAL, false),
        (13, libc::EINVAL, false),
        (1_515, libc::EMSGSIZE, true),
        (1_518, libc::EMSGSIZE, true),
        (1_519, libc::EMSGSIZE, false),
        (60_000, libc::EMSGSIZE, false),
    ] {
        let before = left.next_id();
        let error = left.send(&vec![0; len]).unwrap_err();
        assert!(error.is(errno) && error.remedy().is_some(), "{len}: {error}");
        assert_eq!(left.next_id() - before, u32::from(is_numbered), "{len}");
        told_and_given(&left);
    }
    // Another MTU is known too.
    netlink.set_mtu("left", 100).unwrap();
    for (len, is_numbered) in [(118, true), (119, false)] {
        let before = left.next_id();
        assert!(left.send(&vec![0; len]).unwrap_err().is(libc::EMSGSIZE));
        assert_eq!(left.next_id() - before, u32::from(is_numbered), "{len}");
        told_and_given(&left);
    }
    // Without a carrier, the driver has no room for what comes past the queue.
    let past = open("left", Options { is_past_queue: true, ..Options::default() });
    assert_eq!(told_and_given(&past), 0, "numbers are those of a socket");
    netlink.set_up("right", false).unwrap();
    assert_eq!(past.send(&time_triggered(&past, 64, 0)), Ok(Sent::QueueFull));
    netlink.set_up("left", false).unwrap();
    let error = past.send(&time_triggered(&past, 64, 0)).unwrap_err();
    assert!(error.is(libc::ENETDOWN), "{error}");
    netlink.set_up("left", true).unwrap();
    netlink.set_up("right", true).unwrap();
    netlink.wait_until_running("left", SECONDS).unwrap();
    // That the interface was down is told once more, by whichever call is first.
    let error = past.send(&time_triggered(&past, 64, 0)).unwrap_err();
    assert!(error.is(libc::ENETDOWN), "{error}");
    assert_eq!(told_and_given(&past), 2);
}

fn outgoing() {
    let _netlink = pair();
    let options = Options { hears_outgoing: true, ..Options::default() };
    let (left, listening) = (open("left", Options::default()), open("left", options));
    let past = open("left", Options { is_past_queue: true, ..Options::default() });
    let mut stamps = 0;
    // Without what the system itself sends.
    let heard = || {
        let mut bytes = [0; 2_048];
        loop {
            let received = listening.receive(&mut bytes).unwrap()?;
            let bytes = &bytes[..received.len];
            if Frame::parse(bytes).unwrap().header.ether_type == ether_type::TTETHERNET {
                return Some((bytes.to_vec(), received.stamp));
            }
        }
    };
    // The kernel begins to stamp some time after it is asked to.
    for sequence in 0..1_000 {
        let _ = clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1));
        let sent = time_triggered(&left, 64, sequence);
        assert_eq!(left.send(&sent), Ok(Sent::Taken));
        let (bytes, stamp) = heard().unwrap();
        assert_eq!(bytes, sent);
        let mut left_at = None;
        left.transmit_stamps(&mut |_, stamp| left_at = Some(stamp)).unwrap();
        if let Some((heard_at, left_at)) = stamp.zip(left_at) {
            assert!(heard_at <= left_at, "the driver has it later");
            stamps += 1;
        }
        if stamps == 10 {
            break;
        }
        assert_eq!(past.send(&time_triggered(&past, 64, sequence)), Ok(Sent::Taken));
        assert_eq!(heard(), None, "it went past the queue");
    }
    assert_eq!(stamps, 10);
}

fn full_buffer() {
    let _netlink = pair();
    let left = open("left", Options { has_transmit_stamps: false, ..Options::default() });
    let right = open("right", Options { receive_buffer: Some(8_192), ..QUIET });
    for sequence in 0..100 {
        assert_eq!(left.send(&time_triggered(&left, 64, sequence)), Ok(Sent::Taken));
    }
    // The last ones may be on their way still.
    let (until, mut kept, mut lost) = (soon(), Vec::new(), 0);
    while kept.len() as u32 + lost < 100 {
        assert!(clock::now::<Monotonic>() < until, "{kept:?}, {lost} lost");
        kept.extend(sequences(&right));
        lost += right.drops().unwrap();
    }
    assert!(kept.is_sorted() && !kept.is_empty(), "{kept:?}");
    assert!(lost > 0, "{kept:?}");
    assert_eq!(right.drops(), Ok(0), "asking resets it");
    assert_eq!(left.transmit_stamps(&mut |_, _| {}), Ok(0), "not wanted");
}

fn cut() {
    let _netlink = pair();
    let (left, right) = (open("left", QUIET), open("right", QUIET));
    let bytes = time_triggered(&left, 128, 1);
    for (room, is_truncated) in [(200, false), (124, false), (123, true), (60, true), (0, true)] {
        assert_eq!(left.send(&bytes), Ok(Sent::Taken));
        assert!(right.wait(soon()).unwrap());
        let mut buffer = vec![0xEE; room];
        let received = right.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((received.len, received.is_truncated), (room.min(124), is_truncated), "{room}");
        assert_eq!(buffer[..received.len], bytes[..received.len]);
        assert!(buffer[received.len..].iter().all(|byte| *byte == 0xEE));
    }
    assert_eq!(right.receive(&mut [0; 200]), Ok(None));
}

/// The kernel does not tell whether an interface takes all addresses because of a socket, so this is about frames.
fn promiscuous() {
    let _netlink = pair();
    let (right, all) =
        (open("right", QUIET), open("left", Options { is_promiscuous: true, ..QUIET }));
    let mut bytes = time_triggered(&right, 64, 1);
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0xAA, 0xBB]);
    assert_eq!(right.send(&bytes), Ok(Sent::Taken));
    assert_eq!(awaited(&all).1, bytes);
}

fn refusals() {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_veth("left", "right").unwrap();
    let refused = |interface| EthernetSocket::open(interface, Options::default()).unwrap_err();
    let is_clear = |error: &Error, interface| {
        error.to_string().contains(interface) && error.remedy().is_some()
    };
    let error = refused("missing");
    assert!(error.is(libc::ENODEV) && is_clear(&error, "missing"), "{error}");
    let error = refused("left");
    assert!(error.is(libc::ENETDOWN) && is_clear(&error, "left"), "{error}");
    // Where there is CAN, it is none of Ethernet.
    if netlink.create_vcan("vcan0").is_ok() {
        netlink.set_up("vcan0", true).unwrap();
        let error = refused("vcan0");
        assert!(error.to_string().contains("280") && is_clear(&error, "vcan0"), "{error}");
    }
}

fn down() {
    let mut netlink = pair();
    let left = open("left", QUIET);
    netlink.set_up("left", false).unwrap();
    assert!(left.wait(soon()).unwrap());
    let error = left.receive(&mut [0; 100]).unwrap_err();
    assert!(error.is(libc::ENETDOWN) && error.remedy().is_some(), "{error}");
    assert_eq!(left.receive(&mut [0; 100]), Ok(None), "told once");
    let error = left.send(&time_triggered(&left, 64, 0)).unwrap_err();
    assert!(error.is(libc::ENETDOWN), "{error}");
}

fn loopback() {
    Netlink::open().unwrap().set_up("lo", true).unwrap();
    let lo = open("lo", Options { has_transmit_stamps: true, ..QUIET });
    assert_eq!(lo.address(), Address::default());
    assert_eq!(lo.send(&time_triggered(&lo, 64, 5)), Ok(Sent::Taken));
    assert_eq!(awaited(&lo).0, 5);
    assert_eq!(sequences(&lo), [], "once");
    let mut ids = Vec::new();
    while ids.is_empty() {
        assert!(lo.wait(soon()).unwrap(), "no stamp");
        lo.transmit_stamps(&mut |id, _| ids.push(id)).unwrap();
    }
    assert_eq!(ids, [0]);
}

fn other_users() {
    assert!(stranger::as_stranger(|| {
        let error = EthernetSocket::open("lo", Options::default()).unwrap_err();
        let remedy = error.remedy().unwrap_or_default();
        assert!(error.is(libc::EPERM) && remedy.contains("CAP_NET_RAW"), "{error}");
    }));
}
