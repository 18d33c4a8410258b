//! Which frames are legal, and how they compare.

extern crate std;
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::can::bits::stream;
use crate::can::tunnel::testing;

fn standard(raw: u16) -> Id {
    StandardId::new(raw).unwrap().into()
}
fn extended(raw: u32) -> Id {
    ExtendedId::new(raw).unwrap().into()
}

#[test]
fn arbitration_is_the_order_of_ids() {
    // From the highest priority to the lowest: an extended identifier loses against the
    // standard one with its base, and wins against the next base.
    let order = [
        standard(0),
        extended(0),
        extended(1),
        standard(1),
        extended(1 << 18),
        standard(0x7FF),
        extended(EFF_MASK),
    ];
    for pair in order.windows(2) {
        assert!(pair[0] < pair[1]);
        let key = |id| Frame::new(id, &[]).unwrap().arbitration_key();
        assert!(key(pair[0]) < key(pair[1]));
    }
}

#[test]
fn a_remote_frame_loses_against_its_data_frame() {
    let data = Frame::new(standard(5), &[1]).unwrap();
    let remote = Frame::remote(standard(5), 1).unwrap();
    let longer = Frame::new(extended(5 << 18), &[]).unwrap();
    assert!(data.arbitration_key() < remote.arbitration_key());
    assert!(remote.arbitration_key() < longer.arbitration_key());
}

#[test]
fn illegal_frames_do_not_exist() {
    use FrameError::*;
    let id = standard(1);
    assert_eq!(Frame::new(id, &[0; 9]), Err(ClassicalTooLong(9)));
    assert_eq!(Frame::remote(id, 9), Err(ClassicalTooLong(9)));
    assert_eq!(Frame::fd(id, 0, &[0; 13]), Err(FdLength(13)));
    assert_eq!(Frame::fd(id, 0, &[0; 65]), Err(FdLength(65)));
    assert_eq!(Frame::from_parts(0x800, &[], None), Err(StandardIdTooLarge(0x800)));
    assert_eq!(Frame::from_parts(RTR_FLAG, &[], Some(0)), Err(RemoteFd));
    assert_eq!(Frame::from_parts(ERR_FLAG, &[], Some(0)), Err(ErrorFd));
    assert_eq!(Frame::new(id, &[0; 7]).unwrap().with_raw_dlc(9), Err(RawDlc(9)));
    assert_eq!(Frame::new(id, &[0; 8]).unwrap().with_raw_dlc(8), Err(RawDlc(8)));
    assert_eq!(Frame::new(id, &[0; 8]).unwrap().with_raw_dlc(16), Err(RawDlc(16)));
}

#[test]
fn bytes_beyond_the_length_do_not_count() {
    let mut buffer = [0; 64];
    buffer[2] = 7;
    let a = Frame::rewritten(1, 2, None, buffer).unwrap();
    let b = Frame::new(standard(1), &[0, 0]).unwrap();
    assert_eq!(a, b);
    assert_eq!(a.buffer()[2], 7);
}

#[test]
fn only_a_remote_frame_loses_its_data() {
    let remote = Frame::from_parts(RTR_FLAG | 1, &[7], None).unwrap();
    assert_eq!((remote.kind(), remote.len(), remote.data()), (Kind::Remote, 1, &[][..]));
    let error = Frame::from_parts(ERR_FLAG | RTR_FLAG | 1, &[7], None).unwrap();
    assert_eq!((error.kind(), error.data()), (Kind::Error, &[7][..]));
}

#[test]
fn the_quick_way_has_the_same_limits() {
    for (can_id, len, is_legal) in [
        (SFF_MASK, 8, true),
        (SFF_MASK + 1, 8, false),
        (EFF_FLAG | EFF_MASK, 8, true),
        (SFF_MASK, 9, false),
        (RTR_FLAG, 0, false),
    ] {
        let made = Frame::classical(can_id, [0; 8], len);
        assert_eq!(made.is_some(), is_legal, "{can_id:x} {len}");
    }
}

#[test]
fn every_dlc_has_its_length() {
    for (dlc, &len) in FD_LENGTHS.iter().enumerate() {
        let frame = Frame::fd(standard(1), 0, &[0; 64][..usize::from(len)]).unwrap();
        assert_eq!(usize::from(frame.dlc()), dlc);
    }
    let raw = Frame::new(standard(1), &[0; 8]).unwrap().with_raw_dlc(13).unwrap();
    assert_eq!((raw.dlc(), raw.len()), (13, 8));
}
#[test]
fn a_frame_is_what_it_was_made_of() {
    let data = Frame::new(standard(0x155), &[1, 2]).unwrap();
    let empty = Frame::new(extended(0x1555_5555), &[]).unwrap();
    let remote = Frame::remote(extended(0x155), 3).unwrap();
    let fd = Frame::fd(standard(0x7FF), 0xFE, &[9; 12]).unwrap();
    let report = Frame::from_parts(ERR_FLAG | 0x1000_0004, &[0; 8], None).unwrap();
    for (frame, id, can_id, kind, flags, (dlc, len), data) in [
        (data, standard(0x155), 0x155, Kind::Data, 0, (2, 2), &[1, 2][..]),
        (empty, extended(0x1555_5555), 0x9555_5555, Kind::Data, 0, (0, 0), &[]),
        (remote, extended(0x155), 0xC000_0155, Kind::Remote, 0, (3, 3), &[]),
        (fd, standard(0x7FF), 0x7FF, Kind::Fd, ESI, (9, 12), &[9; 12]),
        (report, extended(0x1000_0004), 0x3000_0004, Kind::Error, 0, (8, 8), &[0; 8]),
    ] {
        assert_eq!((frame.id(), frame.can_id(), frame.kind()), (id, can_id, kind), "{frame}");
        assert_eq!((frame.dlc(), frame.len(), frame.data()), (dlc, len, data), "{frame}");
        assert_eq!((frame.is_fd(), frame.fd_flags()), (kind == Kind::Fd, flags), "{frame}");
        assert_eq!((frame.is_empty(), frame.raw_dlc()), (len == 0, None), "{frame}");
        let is_extended = can_id & EFF_FLAG != 0;
        assert_eq!(frame.is_extended(), is_extended, "{frame}");
        // The same through the traits of embedded-can, which count lengths in bytes.
        use embedded_can::Frame as Embedded;
        assert_eq!(Embedded::id(&frame), id);
        assert_eq!(Embedded::is_extended(&frame), is_extended);
        assert_eq!(Embedded::is_remote_frame(&frame), kind == Kind::Remote);
        assert_eq!((Embedded::dlc(&frame), Embedded::data(&frame)), (len, data));
    }
}

#[test]
fn embedded_can_makes_the_same_frames() {
    use embedded_can::Frame as Embedded;
    let id = standard(5);
    assert_eq!(<Frame as Embedded>::new(id, &[1]), Frame::new(id, &[1]).ok());
    assert_eq!(<Frame as Embedded>::new(id, &[1; 9]), None);
    assert_eq!(<Frame as Embedded>::new_remote(id, 4), Frame::remote(id, 4).ok());
    assert_eq!(<Frame as Embedded>::new_remote(id, 9), None);
}

#[test]
fn refusals_name_the_numbers() {
    for (error, words) in [
        (
            FrameError::ClassicalTooLong(9),
            "9 bytes of data, but a classical CAN frame has at most 8",
        ),
        (FrameError::StandardIdTooLarge(0x800), "standard identifier 0x800 is greater than 0x7ff"),
        (FrameError::RawDlc(8), "raw DLC 8, but only a classical frame of 8 bytes"),
        (FrameError::RemoteFd, "CAN FD has no remote frames"),
        (FrameError::ErrorFd, "CAN FD has no error reports"),
        (FrameError::Xl, "CAN XL frames are not supported"),
        (FrameError::Short(3, 16), "3 bytes, but the layout needs 16"),
    ] {
        assert!(error.to_string().starts_with(words), "{error}");
    }
}

#[test]
fn rewriting_rounds_and_cuts() {
    let buffer = [0xA5; 64];
    for (can_id, len, fd_flags, shown) in [
        (0x123, 2, None, "123#A5A5"),
        (0xF_FFFF, 0, None, "7FF#"),
        (EFF_FLAG | 0x1FFF_FFFF, 1, None, "1FFFFFFF#A5"),
        (RTR_FLAG | 0x123, 8, None, "123#R8"),
        (ERR_FLAG | 0x1234, 1, None, "20001234#A5"),
        (0x123, 9, None, "123#A5A5A5A5A5A5A5A5_9"),
        (0x123, 15, None, "123#A5A5A5A5A5A5A5A5_F"),
        (0x123, 9, Some(BRS | 0xF0), "123##1A5A5A5A5A5A5A5A5A5A5A5A5"),
        (RTR_FLAG | ERR_FLAG | 0x123, 1, Some(0), "123##0A5"),
    ] {
        let frame = Frame::rewritten(can_id, len, fd_flags, buffer).unwrap();
        assert_eq!(frame.to_string(), shown);
        assert_eq!(frame.buffer(), &buffer);
    }
    let longest = Frame::rewritten(1, 64, Some(0), buffer).unwrap();
    assert_eq!((longest.len(), longest.dlc()), (64, 15));
    assert_eq!(Frame::rewritten(1, 16, None, buffer), Err(FrameError::ClassicalTooLong(16)));
    assert_eq!(Frame::rewritten(1, 65, Some(0), buffer), Err(FrameError::FdLength(65)));
}

#[test]
fn frames_that_differ_in_one_thing_differ() {
    let hash = |frame: &Frame| {
        let mut hasher = std::hash::DefaultHasher::new();
        frame.hash(&mut hasher);
        std::hash::Hasher::finish(&hasher)
    };
    let texts = [
        "123#",
        "124#",
        "00000123#",
        "123#00",
        "123#01",
        "123#R",
        "123#R1",
        "123##0",
        "123##1",
        "123##000",
        "123##100",
        "123#0000000000000000",
        "123#0000000000000000_9",
        "123#0000000000000000_A",
        "00000123#R",
        "20000123#",
    ];
    let frames = texts.map(|text| text.parse::<Frame>().unwrap());
    for (index, frame) in frames.iter().enumerate() {
        let mut buffer = *frame.buffer();
        if !is_remote(frame.can_id()) {
            buffer[frame.len()..].fill(0xEE);
        }
        let fd_flags = frame.is_fd().then_some(frame.fd_flags());
        let len = frame.raw_dlc().unwrap_or(frame.len() as u8);
        let same = Frame::rewritten(frame.can_id(), len, fd_flags, buffer).unwrap();
        assert_eq!((frame, hash(frame)), (&same, hash(&same)));
        for other in &frames[..index] {
            assert_ne!(frame, other);
            assert_ne!(hash(frame), hash(other), "{frame} {other}");
        }
    }
}

/// The arbitration field as the bus sees it, without stuff bits.
fn arbitration_field(frame: &Frame) -> Vec<bool> {
    // Start of frame, 11 bits, RTR or SRR, IDE; 18 more bits and RTR.
    let len = if frame.is_extended() { 33 } else { 14 };
    let mut bits = Vec::new();
    stream::encode(frame, |bit| {
        if !bit.is_stuff {
            bits.push(bit.value);
        }
    })
    .unwrap();
    bits.truncate(len);
    bits
}

proptest! {
    #[test]
    fn arbitration_is_the_order_of_bits_on_the_bus(
        one in testing::frame(),
        other in testing::frame(),
        is_near in any::<bool>(),
        flipped in 0..29_u32,
    ) {
        let mut other = other;
        if is_near {
            // The same frame with one other bit in its identifier.
            let bits = if one.is_extended() { 29 } else { 11 };
            let can_id = one.can_id() ^ 1 << (flipped % bits);
            let fd_flags = one.is_fd().then_some(one.fd_flags());
            other = Frame::rewritten(can_id, one.len() as u8, fd_flags, *one.buffer()).unwrap();
        }
        prop_assume!(one.kind() != Kind::Error && other.kind() != Kind::Error);
        prop_assert_eq!(
            one.arbitration_key().cmp(&other.arbitration_key()),
            arbitration_field(&one).cmp(&arbitration_field(&other))
        );
    }

    #[test]
    fn the_quick_way_makes_the_same_frames(
        id in prop_oneof![0..=0xFFF_u32, any::<u32>()],
        flags in 0..8_u32,
        data in any::<[u8; 8]>(),
        len in 0..=12_u8,
    ) {
        let can_id = id & EFF_MASK | flags << 29;
        let slow = match data.get(..usize::from(len)) {
            Some(data) if !is_remote(can_id) => Frame::from_parts(can_id, data, None).ok(),
            _ => None,
        };
        prop_assert_eq!(Frame::classical(can_id, data, len), slow);
        if let Some(frame) = slow {
            let mut buffer = [0; 64];
            buffer[..usize::from(len)].copy_from_slice(&data[..usize::from(len)]);
            let quick = Frame::classical(can_id, data, len).unwrap();
            prop_assert_eq!(quick.buffer(), &buffer);
            prop_assert_eq!(frame.data(), &data[..usize::from(len)]);
        }
    }
}
