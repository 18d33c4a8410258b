//! Packets and streams, there and back, and those that are refused.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::can::tunnel::testing;

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

#[test]
fn bytes_stand_where_cannelloni_puts_them() {
    let cases: [(&str, &[u8]); 7] = [
        ("123#DEADBEEF", b"\x00\x00\x01\x23\x04\xDE\xAD\xBE\xEF"),
        ("12345678#", b"\x92\x34\x56\x78\x00"),
        // A remote frame has a length and no data.
        ("123#R4", b"\x40\x00\x01\x23\x04"),
        ("123##3AABB", b"\x00\x00\x01\x23\x82\x03\xAA\xBB"),
        ("12345678##0", b"\x92\x34\x56\x78\x80\x00"),
        ("20000088#0001", b"\x20\x00\x00\x88\x02\x00\x01"),
        // A raw DLC does not travel.
        ("7FF#1122334455667788_C", b"\x00\x00\x07\xFF\x08\x11\x22\x33\x44\x55\x66\x77\x88"),
    ];
    let mut outgoing = Outgoing::new([0xEE; 256]);
    let mut expected = vec![2, 0, 0xFE, 0, cases.len() as u8];
    for (text, bytes) in cases {
        let mut out = [0xEE; MAX_FRAME_LEN];
        let len = encode_frame(&frame(text), &mut out).unwrap();
        assert_eq!(&out[..len], bytes, "{text}");
        assert_eq!((frame_len(&frame(text)), written_len(bytes)), (len, Some(len)));
        assert_eq!(encode_frame(&frame(text), &mut out[..len - 1]), Err(Refused::Full));
        outgoing.push(&frame(text)).unwrap();
        expected.extend(bytes);
    }
    assert_eq!(outgoing.finish(0xFE), expected);
    let datagram = Datagram::decode(&expected).unwrap();
    assert_eq!((datagram.sequence(), datagram.count()), (0xFE, 7));
    let frames: Vec<_> = datagram.frames().collect();
    let texts = cases.map(|(text, _)| text.trim_end_matches("_C"));
    assert_eq!(frames, texts.map(frame));
}

#[test]
fn a_datagram_holds_as_much_as_cannelloni_puts_in() {
    let classical = frame("123#1122334455667788");
    let fd = Frame::fd(classical.id(), 0, &[1; 64]).unwrap();
    for (frame, count) in [(classical, 112), (fd, 20)] {
        let mut outgoing = Outgoing::new([0; 1472]);
        while outgoing.push(&frame).is_ok() {}
        assert_eq!((outgoing.count(), outgoing.is_full()), (count, false));
        assert!(!outgoing.is_empty());
        let bytes = outgoing.finish(0);
        assert!(Datagram::decode(bytes).unwrap().frames().eq((0..count).map(|_| frame)));
        outgoing.clear();
        assert!(outgoing.is_empty());
        assert_eq!(outgoing.finish(1), [2, 0, 1, 0, 0]);
    }
}

#[test]
fn buffers_of_any_size_do_no_harm() {
    for room in 0..20 {
        let mut outgoing = Outgoing::new(vec![0; room]);
        let fits = outgoing.push(&frame("123#")) == Ok(());
        assert_eq!(fits, room >= 10);
        assert_eq!(outgoing.is_full(), room < 10 || room < 15 && fits);
        assert_eq!(
            outgoing.finish(0).len(),
            if room < 5 {
                0
            } else if fits {
                10
            } else {
                5
            }
        );
    }
}

#[test]
fn what_is_not_right_is_refused_with_the_place() {
    use FrameError::*;
    let illegal = |offset, error| Malformed::new(offset, Reason::Frame(error));
    let cases: [(&[u8], Malformed); 23] = [
        (b"", Malformed::new(0, Reason::Cut(5))),
        (b"\x02\0\0\0", Malformed::new(4, Reason::Cut(1))),
        (b"\x01\0\0\0\0", Malformed::new(0, Reason::Version(1))),
        (b"\x03\0\0\0\0", Malformed::new(0, Reason::Version(3))),
        (b"CANNELLONIv1", Malformed::new(0, Reason::Version(b'C'))),
        (b"\x02\x01\0\0\0", Malformed::new(1, Reason::Operation(1))),
        (b"\x02\xFF\0\0\0", Malformed::new(1, Reason::Operation(255))),
        // The number of frames and the bytes disagree.
        (b"\x02\0\0\0\0\0", Malformed::new(5, Reason::Surplus(1))),
        (b"\x02\0\0\0\x01", Malformed::new(5, Reason::Cut(5))),
        (b"\x02\0\0\0\x01\0\0\0\x01", Malformed::new(9, Reason::Cut(1))),
        (b"\x02\0\0\0\x01\0\0\0\x01\x02\xAA", Malformed::new(11, Reason::Cut(1))),
        (b"\x02\0\0\0\x01\0\0\0\x01\x08\xAA", Malformed::new(11, Reason::Cut(7))),
        (b"\x02\0\0\0\x01\0\0\0\x01\0\0\0\0\x02\0", Malformed::new(10, Reason::Surplus(5))),
        (b"\x02\0\0\xFF\xFF\0\0\0\x01\0", Malformed::new(10, Reason::Cut(5))),
        // A CAN FD frame that ends before its flags, and before its data.
        (b"\x02\0\0\0\x01\0\0\0\x01\x81", Malformed::new(10, Reason::Cut(1))),
        (b"\x02\0\0\0\x01\0\0\0\x01\x81\0", Malformed::new(11, Reason::Cut(1))),
        // Lengths that no frame has: the first is that of CVE-2026-37539.
        (b"\x02\0\0\0\x01\0\0\0\x01\xFF\0", illegal(9, FdLength(127))),
        (b"\x02\0\0\0\x01\0\0\0\x01\x7F", illegal(9, ClassicalTooLong(127))),
        (b"\x02\0\0\0\x01\0\0\0\x01\x09", illegal(9, ClassicalTooLong(9))),
        (b"\x02\0\0\0\x01\0\0\0\x01\x8D\0", illegal(9, FdLength(13))),
        // Identifier words that no frame has.
        (b"\x02\0\0\0\x01\0\0\x08\0\0", illegal(5, StandardIdTooLarge(0x800))),
        (b"\x02\0\0\0\x01\x40\0\0\x01\x80\0", illegal(5, RemoteFd)),
        (b"\x02\0\0\0\x01\x60\0\0\x01\0", Malformed::new(5, Reason::RemoteErrorReport)),
    ];
    for (bytes, error) in cases {
        assert_eq!(Datagram::decode(bytes).map(|_| ()), Err(error), "{bytes:02x?}");
    }
    // A good frame before a bad one does not count.
    let mixed = b"\x02\0\0\0\x02\0\0\0\x01\0\0\0\0\x02\x09";
    assert_eq!(Datagram::decode(mixed).map(|_| ()), Err(illegal(14, ClassicalTooLong(9))));
    // Flags that mean nothing here do no harm: newer kernels set FDF.
    let flags = b"\x02\0\0\0\x01\0\0\0\x01\x80\xFF";
    let frames: Vec<_> = Datagram::decode(flags).unwrap().frames().collect();
    assert_eq!(frames, [frame("001##3")]);
}

#[test]
fn error_reports_that_ask_for_data_are_not_written() {
    let error = Frame::from_parts(ERR_FLAG | RTR_FLAG | 1, &[7], None).unwrap();
    assert_eq!(encode_frame(&error, &mut [0; MAX_FRAME_LEN]), Err(Refused::Unsupported));
}

#[test]
fn gaps_and_late_ones_are_reported() {
    use Order::*;
    let cases: [(&[u8], &[Order]); 7] = [
        (&[9, 10, 11], &[Next, Next, Next]),
        (&[254, 255, 0, 1], &[Next, Next, Next, Next]),
        (&[0, 3, 4], &[Next, Gap(2), Next]),
        // Again, and two in the wrong order.
        (&[5, 5, 6, 8, 7, 9], &[Next, Late, Next, Gap(1), Late, Next]),
        (&[250, 4, 3, 5], &[Next, Gap(9), Late, Next]),
        // Eight late ones that do not follow each other.
        (
            &[40, 0, 1, 2, 3, 5, 6, 7, 8, 41],
            &[Next, Late, Late, Late, Late, Late, Late, Late, Late, Next],
        ),
        // The sender begins anew.
        (
            &[40, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[Next, Late, Late, Late, Late, Late, Late, Late, Late, Next, Next],
        ),
    ];
    for (numbers, expected) in cases {
        let mut sequence = Sequence::default();
        let orders: Vec<_> = numbers.iter().map(|&number| sequence.take(number)).collect();
        assert_eq!(orders, expected, "{numbers:?}");
    }
    // All of a round are missing but this one.
    let mut sequence = Sequence::default();
    assert_eq!((sequence.take(0), sequence.take(192)), (Next, Gap(191)));
    assert_eq!((sequence.take(129), sequence.take(193)), (Late, Next));
}

#[test]
fn frames_before_a_fault_are_reported() {
    let mut outgoing = Outgoing::new([0; 1_472]);
    for _ in 0..200 {
        if outgoing.push(&"123#11".parse().unwrap()).is_err() {
            break;
        }
    }
    let whole = outgoing.finish(0).to_vec();
    assert_eq!(readable_frames(&whole), 200);
    for (len, frames) in [(0, 0), (4, 0), (5, 0), (10, 0), (11, 1), (whole.len() - 1, 199)] {
        assert_eq!(readable_frames(&whole[..len]), frames, "{len} bytes");
    }
    let mut wrong = whole.clone();
    // The length of the fourth frame.
    wrong[HEADER_LEN + 3 * 6 + 4] = 9;
    assert_eq!(readable_frames(&wrong), 3);
    wrong[0] = 1;
    assert_eq!(readable_frames(&wrong), 0);
    // What is behind the frames that it says it has is a fault too.
    let mut surplus = whole;
    surplus.push(0);
    assert!(Datagram::decode(&surplus).is_err());
    assert_eq!(readable_frames(&surplus), 200);
}

#[test]
fn a_stream_is_greeted_by_all_of_the_hello() {
    let mut stream = Stream::default();
    for &byte in &HELLO {
        assert!(!stream.is_greeted());
        stream.decode(&[byte], |_| panic!("it is no frame")).unwrap();
    }
    assert!(stream.is_greeted());
}

/// What a stream gives, piece by piece.
fn read(stream: &[u8], pieces: impl Iterator<Item = usize>) -> (Vec<Frame>, Option<Malformed>) {
    let (mut decoder, mut frames, mut rest) = (Stream::new(), Vec::new(), stream);
    for len in pieces {
        let (now, later) = rest.split_at(len.min(rest.len()));
        if let Err(error) = decoder.decode(now, |frame| frames.push(frame)) {
            return (frames, Some(error));
        }
        rest = later;
    }
    (frames, None)
}

#[test]
fn a_stream_is_refused_where_it_goes_wrong() {
    use FrameError::*;
    let illegal = |offset, error| Malformed::new(offset, Reason::Frame(error));
    let cases: [(&[u8], usize, Malformed); 6] = [
        (b"cANNELLONIv1", 0, Malformed::new(0, Reason::Hello)),
        (b"CANNELLONIv2", 0, Malformed::new(11, Reason::Hello)),
        (b"CANNELLONIv1\0\0\0\x01\xFF", 0, illegal(16, FdLength(127))),
        (b"CANNELLONIv1\0\0\0\x01\0\0\0\0\x02\x09", 1, illegal(21, ClassicalTooLong(9))),
        (b"CANNELLONIv1\0\0\x08\0\0", 0, illegal(12, StandardIdTooLarge(0x800))),
        (b"CANNELLONIv1\x60\0\0\x01\0", 0, Malformed::new(12, Reason::RemoteErrorReport)),
    ];
    for (stream, count, error) in cases {
        for len in [1, 2, 3, 7, 100] {
            let (frames, found) = read(stream, core::iter::repeat_n(len, stream.len()));
            assert_eq!((frames.len(), found), (count, Some(error)), "{stream:02x?} by {len}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        frames in prop::collection::vec(testing::frame(), 0..40),
        sequence: u8,
        pieces in prop::collection::vec(1_usize..200, 1..60),
    ) {
        let frames: Vec<_> = frames.iter().map(testing::without_raw_dlc).collect();
        let mut outgoing = Outgoing::new([0; 4096]);
        let mut stream = HELLO.to_vec();
        for frame in &frames {
            prop_assert_eq!(outgoing.push(frame), Ok(()));
            let mut out = [0; MAX_FRAME_LEN];
            let len = encode_frame(frame, &mut out).unwrap();
            stream.extend(&out[..len]);
        }
        let bytes = outgoing.finish(sequence);
        let datagram = Datagram::decode(bytes).unwrap();
        prop_assert_eq!(datagram.sequence(), sequence);
        prop_assert_eq!(datagram.frames().collect::<Vec<_>>(), frames.clone());
        // Every part of it is refused.
        for end in 0..bytes.len() {
            prop_assert!(Datagram::decode(&bytes[..end]).is_err());
        }
        let len = stream.len();
        let pieces = pieces.into_iter().cycle().take(len);
        prop_assert_eq!(read(&stream, pieces), (frames, None));
    }

    #[test]
    fn the_pieces_of_a_stream_do_not_matter(
        mut stream in prop::collection::vec(prop_oneof![3 => Just(0), 1 => any::<u8>()], 0..120),
        pieces in prop::collection::vec(1_usize..20, 1..20),
    ) {
        stream.splice(0..0, HELLO);
        let whole = read(&stream, core::iter::once(stream.len()));
        let len = stream.len();
        prop_assert_eq!(read(&stream, pieces.into_iter().cycle().take(len)), whole);
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(datagram) = Datagram::decode(&bytes) {
            prop_assert_eq!(datagram.frames().count(), usize::from(datagram.count()));
        }
    }
}
