//! [`Measurement`]: the payload of frames that are sent to be measured.

use core::fmt;

/// What the payload begins with, chosen for this project: the letters `CTTE`.
const MAGIC: [u8; 4] = *b"CTTE";
/// The version of the layout.
const VERSION: u8 = 1;

/// The payload of a frame that is sent to be measured. It fits into the shortest frame, with a VLAN tag too. All fields
/// are big-endian:
///
/// | offset in the payload | bytes | field |
/// |---|---|---|
/// | 0 | 4 | the letters `CTTE` |
/// | 4 | 1 | version of this layout, 1 |
/// | 5 | 1 | 0, not looked at |
/// | 6 | 2 | [`stream`](Self::stream) |
/// | 8 | 4 | [`run`](Self::run) |
/// | 12 | 4 | [`sequence`](Self::sequence) |
/// | 16 | 8 | [`scheduled_ns`](Self::scheduled_ns) |
/// | 24 | 8 | [`sent_ns`](Self::sent_ns) |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Measurement {
    /// The run of the program that sent it: frames of other runs do not count.
    pub run: u32,
    /// The stream within the run.
    pub stream: u16,
    /// The number within the stream, which begins at 0 again behind its largest value.
    pub sequence: u32,
    /// When the schedule wanted it to be sent, in nanoseconds of the sender's clock.
    pub scheduled_ns: u64,
    /// When the program handed it to the system, in nanoseconds of the same clock.
    pub sent_ns: u64,
}

impl Measurement {
    /// Bytes of the payload, without padding.
    pub const LEN: usize = 32;

    /// The frame whose payload this is, padding behind it or not.
    ///
    /// # Errors
    /// There are too few bytes, other letters in front, or another version of the layout.
    pub fn parse(payload: &[u8]) -> Result<Self, MeasurementError> {
        let too_short = MeasurementError::TooShort { len: payload.len() };
        let fields = payload.first_chunk::<{ Self::LEN }>().ok_or(too_short)?;
        #[rustfmt::skip]
        let [
            m0, m1, m2, m3, version, _, s0, s1, r0, r1, r2, r3, n0, n1, n2, n3,
            a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7,
        ] = *fields;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(MeasurementError::Magic([m0, m1, m2, m3]));
        }
        if version != VERSION {
            return Err(MeasurementError::Version(version));
        }
        Ok(Self {
            run: u32::from_be_bytes([r0, r1, r2, r3]),
            stream: u16::from_be_bytes([s0, s1]),
            sequence: u32::from_be_bytes([n0, n1, n2, n3]),
            scheduled_ns: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            sent_ns: u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
        })
    }

    /// Writes the payload.
    pub fn write(&self, payload: &mut [u8; Self::LEN]) {
        payload[..4].copy_from_slice(&MAGIC);
        [payload[4], payload[5]] = [VERSION, 0];
        payload[6..8].copy_from_slice(&self.stream.to_be_bytes());
        payload[8..12].copy_from_slice(&self.run.to_be_bytes());
        payload[12..16].copy_from_slice(&self.sequence.to_be_bytes());
        payload[16..24].copy_from_slice(&self.scheduled_ns.to_be_bytes());
        payload[24..].copy_from_slice(&self.sent_ns.to_be_bytes());
    }
}

/// Why bytes are no payload of a frame that was sent to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementError {
    /// They are too few.
    TooShort {
        /// How many there are.
        len: usize,
    },
    /// They begin with something else.
    Magic([u8; 4]),
    /// The layout is of another version.
    Version(u8),
}

impl fmt::Display for MeasurementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => {
                write!(f, "{len} bytes; a measurement frame has {} of payload", Measurement::LEN)
            }
            Self::Magic([a, b, c, d]) => write!(
                f,
                "byte 0: {a:02x} {b:02x} {c:02x} {d:02x} instead of `CTTE`; the frame is not one \
                 of a measurement"
            ),
            Self::Version(version) => write!(
                f,
                "byte 4: version {version} of measurement frames; this program knows version \
                 {VERSION}: use the same one at both ends"
            ),
        }
    }
}

impl core::error::Error for MeasurementError {}

// With a VLAN tag, 42 bytes of payload make the shortest frame.
const _: () = assert!(
    Measurement::LEN + crate::eth::TAG_LEN + crate::eth::HEADER_LEN + crate::eth::FCS_LEN
        <= crate::eth::MIN_LEN
);

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[rustfmt::skip]
    const PAYLOAD: [u8; 32] = [
        0x43, 0x54, 0x54, 0x45, 0x01, 0x00, 0x11, 0x12, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34,
        0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
    ];

    #[test]
    fn a_payload_is_read_and_written() {
        let measurement = Measurement {
            run: 0x2122_2324,
            stream: 0x1112,
            sequence: 0x3132_3334,
            scheduled_ns: 0x4142_4344_4546_4748,
            sent_ns: 0x5152_5354_5556_5758,
        };
        assert_eq!(Measurement::parse(&PAYLOAD), Ok(measurement));
        let mut written = [0xEE; Measurement::LEN];
        measurement.write(&mut written);
        assert_eq!(written, PAYLOAD);
        let mut padded = [0xEE; 46];
        padded[..32].copy_from_slice(&PAYLOAD);
        assert_eq!(Measurement::parse(&padded), Ok(measurement));
    }

    #[test]
    fn what_is_no_such_payload_says_why() {
        for len in 0..Measurement::LEN {
            let error = Measurement::parse(&PAYLOAD[..len]).unwrap_err();
            assert_eq!(error, MeasurementError::TooShort { len });
            assert!(error.to_string().contains("32"), "{error}");
        }
        for (at, error, words) in [
            (0, MeasurementError::Magic(*b"\0TTE"), "00 54 54 45"),
            (3, MeasurementError::Magic(*b"CTT\0"), "43 54 54 00"),
            (4, MeasurementError::Version(0), "version 0"),
        ] {
            let mut payload = PAYLOAD;
            payload[at] = 0;
            assert_eq!(Measurement::parse(&payload), Err(error));
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            run: u32, stream: u16, sequence: u32, scheduled_ns: u64, sent_ns: u64,
        ) {
            let measurement = Measurement { run, stream, sequence, scheduled_ns, sent_ns };
            let mut payload = [0xEE; Measurement::LEN];
            measurement.write(&mut payload);
            prop_assert_eq!(Measurement::parse(&payload), Ok(measurement));
        }

        #[test]
        fn any_bytes_end(
            bytes in prop::collection::vec(any::<u8>(), 0..50),
            begin in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            let bytes = [&b"CTTE\x01"[..], &begin, &bytes].concat();
            for bytes in [&bytes[..], &bytes[5..]] {
                if let Ok(measurement) = Measurement::parse(bytes) {
                    let mut payload = [0; Measurement::LEN];
                    measurement.write(&mut payload);
                    prop_assert_eq!(&payload[..5], &bytes[..5]);
                    prop_assert_eq!(&payload[6..], &bytes[6..Measurement::LEN]);
                }
            }
        }
    }
}
