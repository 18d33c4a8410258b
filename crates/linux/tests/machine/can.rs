//! CAN sockets on vcan interfaces.

use candor_linux::Sent;
use candor_linux::can::{Filter, Inbox, RawFrame, Received, Socket, Stamps};
use candor_linux::clock;
use candor_linux::netlink::Netlink;
use candor_linux::poll::{self, Interest, Poll};
use candor_time::{Monotonic, Nanos, Realtime};
use candor_wire::can::Frame;

use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 8] = [
    ("frames_arrive_as_they_were_sent", Need::Can, as_sent),
    ("fd_frames_are_taken_on_demand", Need::Can, on_demand),
    ("filters_choose", Need::Can, filters),
    ("own_frames_are_told", Need::Can, own_frames),
    ("stamps_are_of_the_real_time_clock", Need::Can, stamps),
    ("overflow_is_counted", Need::Can, overflow),
    ("batches_keep_their_order", Need::Can, batches),
    ("errors_name_the_interface", Need::Can, errors),
];

fn frame(text: &str) -> RawFrame {
    RawFrame::from(text.parse::<Frame>().unwrap())
}

/// The next frame with what the kernel says about it.
pub(crate) fn received(socket: &Socket) -> Option<Received> {
    let mut inbox = Inbox::new(1);
    socket.receive_batch(&mut inbox, true).unwrap();
    inbox.received(0)
}

/// An interface, and two sockets on it that do not block.
fn sockets() -> (Socket, Socket) {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_vcan("vcan0").unwrap();
    netlink.set_up("vcan0", true).unwrap();
    let socket = || {
        let socket = Socket::open("vcan0").unwrap();
        socket.set_blocking(false).unwrap();
        socket
    };
    (socket(), socket())
}

fn as_sent() {
    let (sender, receiver) = sockets();
    receiver.accept_fd().unwrap();
    sender.accept_fd().unwrap();
    assert_eq!(receiver.receive(), Ok(None));
    for text in [
        "123#DEADBEEF",
        "12345678#",
        "123#R2",
        "7FF#1122334455667788_C",
        "123##1AABB",
        "00000001##3",
    ] {
        let sent = frame(text);
        assert_eq!(sender.send(&sent), Ok(Sent::Taken), "{text}");
        assert_eq!(poll::wait(&receiver, Interest::Read, Some(Nanos::from_secs(1))), Ok(true));
        assert_eq!(receiver.receive(), Ok(Some(sent)), "{text}");
        assert_eq!(sender.receive(), Ok(None), "nothing comes back");
    }
    let only_sends = Socket::open_for_sending("vcan0").unwrap();
    assert_eq!(sender.send(&frame("001#")), Ok(Sent::Taken));
    assert_eq!(poll::wait(&only_sends, Interest::Read, Some(Nanos::ZERO)), Ok(false));
    assert_eq!(only_sends.send(&frame("002#")), Ok(Sent::Taken));
    assert_eq!(receiver.receive(), Ok(Some(frame("001#"))));
    assert_eq!(receiver.receive(), Ok(Some(frame("002#"))));
    assert_eq!(sender.send(&frame("003#")), Ok(Sent::Taken));
    let mut poll = Poll::new().unwrap();
    poll.add(&receiver, Interest::Read, 5).unwrap();
    assert_eq!(poll.wait(Some(Nanos::from_secs(1))).unwrap().collect::<Vec<_>>(), [5]);
}

fn on_demand() {
    let (sender, receiver) = sockets();
    let fd = frame("123##1AABB");
    assert!(sender.send(&fd).unwrap_err().to_string().contains("accept_fd"));
    sender.accept_fd().unwrap();
    assert_eq!(sender.send(&fd), Ok(Sent::Taken));
    assert_eq!(sender.send(&frame("001#")), Ok(Sent::Taken));
    assert_eq!(receiver.receive(), Ok(Some(frame("001#"))), "the other one was not for it");
}

fn filters() {
    let (sender, receiver) = sockets();
    let ids = |filters: &[Filter]| {
        receiver.set_filters(filters).unwrap();
        for text in ["123#", "124#", "00000123#", "123#R0"] {
            assert_eq!(sender.send(&frame(text)), Ok(Sent::Taken));
        }
        let mut ids = Vec::new();
        while let Some(frame) = receiver.receive().unwrap() {
            ids.push(frame.can_id());
        }
        ids
    };
    assert_eq!(ids(&[Filter::ANY]), [0x123, 0x124, 0x8000_0123, 0x4000_0123]);
    assert_eq!(ids(&[Filter { can_id: 0x123, mask: 0xC000_07FF }]), [0x123]);
    assert_eq!(
        ids(&[Filter { can_id: 0x2000_0123, mask: 0xC000_07FF }]),
        [0x124, 0x8000_0123, 0x4000_0123]
    );
    assert_eq!(ids(&[]), []);
    assert!(receiver.set_filters(&[Filter::ANY; 513]).unwrap_err().remedy().is_some());
}

fn own_frames() {
    let (sender, receiver) = sockets();
    sender.set_receive_own(true).unwrap();
    assert_eq!(sender.send(&frame("001#")), Ok(Sent::Taken));
    let own = received(&sender).unwrap();
    assert_eq!((own.is_own, own.is_local, own.frame), (true, true, frame("001#")));
    let other = received(&receiver).unwrap();
    assert_eq!((other.is_own, other.is_local, other.stamp), (false, true, None));
    assert!(received(&receiver).is_none());
    sender.set_loopback(false).unwrap();
    assert_eq!(sender.send(&frame("002#")), Ok(Sent::Taken));
    assert_eq!(receiver.receive(), Ok(None));
    receiver.set_error_mask(0x1FFF_FFFF).unwrap();
}

fn stamps() {
    let (sender, receiver) = sockets();
    let exchange = || {
        let start = clock::now::<Realtime>();
        assert_eq!(sender.send(&frame("001#")), Ok(Sent::Taken));
        (start, received(&receiver).unwrap())
    };
    // The kernel takes its time to begin.
    receiver.set_stamps(Stamps::Hardware).unwrap();
    let end = clock::now::<Monotonic>() + Nanos::from_secs(5);
    while exchange().1.stamp.is_none() {
        assert!(clock::now::<Monotonic>() < end);
        clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1)).unwrap();
    }
    for kind in [Stamps::Software, Stamps::Hardware, Stamps::Software] {
        receiver.set_stamps(kind).unwrap();
        let (start, received) = exchange();
        let stamp = received.stamp.unwrap();
        assert!((start..=clock::now::<Realtime>()).contains(&stamp), "{kind:?}");
        // A vcan interface copies the software stamp, or has none.
        let hardware = received.hardware.map(|stamp| stamp.as_nanos());
        assert!(hardware.is_none_or(|stamp| stamp >= start.as_nanos()), "{kind:?} {hardware:?}");
    }
    receiver.set_stamps(Stamps::None).unwrap();
    assert_eq!(exchange().1.stamp, None);
}

fn overflow() {
    const SENT: u32 = 100;
    let (sender, receiver) = sockets();
    receiver.count_overflow().unwrap();
    let small = receiver.set_receive_buffer(1).unwrap();
    for _ in 0..SENT {
        assert_eq!(sender.send(&frame("001#")), Ok(Sent::Taken));
    }
    let mut kept = 0;
    while receiver.receive().unwrap().is_some() {
        kept += 1;
    }
    assert!((1..SENT).contains(&kept), "{kept}");
    assert_eq!(sender.send(&frame("002#")), Ok(Sent::Taken));
    let next = received(&receiver).unwrap();
    assert_eq!((next.frame, next.overflow), (frame("002#"), SENT - kept));
    let large = receiver.set_receive_buffer(64 << 20).unwrap();
    assert!(large >= 64 << 20 && small < 1 << 16, "{small} {large}");
}

fn batches() {
    let (sender, receiver) = sockets();
    sender.accept_fd().unwrap();
    receiver.accept_fd().unwrap();
    receiver.set_stamps(Stamps::Software).unwrap();
    let mut inbox = Inbox::new(16);
    for round in 0..3 {
        assert_eq!(receiver.receive_batch(&mut inbox, true), Ok(0));
        let start = clock::now::<Realtime>();
        for number in 0..40_u32 {
            let kind = if number.is_multiple_of(3) { "##1" } else { "#" };
            let frame = frame(&format!("{:03X}{kind}AABB", round * 40 + number));
            assert_eq!(sender.send(&frame), Ok(Sent::Taken));
        }
        let mut ids = Vec::new();
        let mut sizes = Vec::new();
        while receiver.receive_batch(&mut inbox, true).unwrap() > 0 {
            sizes.push(inbox.len());
            for index in 0..inbox.len() {
                let received = inbox.received(index).unwrap();
                assert_eq!(received.frame.as_bytes(), inbox.bytes(index));
                assert!(received.stamp.unwrap() >= start);
                let number = received.frame.can_id() % 40;
                assert_eq!(received.frame.is_fd(), number.is_multiple_of(3));
                ids.push(received.frame.can_id());
            }
        }
        let expected: Vec<_> = (0..40).map(|number| round * 40 + number).collect();
        assert_eq!((ids, sizes), (expected, vec![16, 16, 8]));
    }
    // One that blocks waits for the first frame only.
    receiver.set_blocking(true).unwrap();
    assert_eq!(sender.send(&frame("001#")), Ok(Sent::Taken));
    assert_eq!(receiver.receive_batch(&mut inbox, true), Ok(1));
    assert_eq!(inbox.frames().collect::<Vec<_>>(), [frame("001#").as_bytes()]);
    assert_eq!(receiver.receive_batch(&mut inbox, false), Ok(0));
}

fn errors() {
    let (sender, receiver) = sockets();
    let error = Socket::open("lo").unwrap_err();
    assert!(error.is(libc::ENODEV) && error.to_string().contains("not a CAN interface"), "{error}");
    let error = Socket::open("vcan9").unwrap_err();
    assert!(error.is(libc::ENODEV) && error.to_string().contains("vcan9"), "{error}");
    assert!(sender.send_bytes(&[0; 5]).unwrap_err().is(libc::EINVAL));
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("vcan0", false).unwrap();
    let error = receiver.receive().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot receive from vcan0: ENETDOWN (Network is down); \
         the interface is down: `ip link set NAME up`"
    );
    let error = sender.send(&frame("001#")).unwrap_err();
    assert!(error.is(libc::ENETDOWN), "{error}");
}
