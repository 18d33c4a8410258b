//! [`Pcf`]: protocol control frames.

use core::fmt;

/// The low bits of the byte with the type; the others are reserved.
const KIND_MASK: u8 = 0x0F;
/// How many units of [`Pcf::transparent_clock`] a nanosecond has, as a power of two.
const FRACTION_BITS: u32 = 16;

/// The payload of a protocol control frame, whose EtherType is
/// [`TTETHERNET_PCF`](crate::eth::ether_type::TTETHERNET_PCF). All fields are big-endian:
///
/// | offset in the payload | bytes | field |
/// |---|---|---|
/// | 0 | 4 | [`integration_cycle`](Self::integration_cycle) |
/// | 4 | 4 | [`membership_new`](Self::membership_new) |
/// | 8 | 4 | reserved |
/// | 12 | 1 | [`sync_priority`](Self::sync_priority) |
/// | 13 | 1 | [`sync_domain`](Self::sync_domain) |
/// | 14 | 1 | [`kind`](Self::kind) in the low four bits; the others are reserved |
/// | 15 | 5 | reserved |
/// | 20 | 8 | [`transparent_clock`](Self::transparent_clock) |
///
/// (Wireshark, `epan/dissectors/packet-tte.h`; t-crest/patmos, `c/ethlib/tte.c`.) Reserved bits are written as zero and
/// not looked at. The frame is padded to the length of the shortest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pcf {
    /// The number of the integration cycle.
    pub integration_cycle: u32,
    /// One bit for each synchronisation master that takes part.
    pub membership_new: u32,
    /// The priority of the synchronisation domain.
    pub sync_priority: u8,
    /// The synchronisation domain.
    pub sync_domain: u8,
    /// What the frame is for.
    pub kind: PcfKind,
    /// The delay that the frame has had so far, in units of 2^-16 ns; see [`Pcf::transparent_clock_ns`].
    pub transparent_clock: u64,
}

/// What a protocol control frame is for. The values on the wire are those of t-crest/patmos, `c/ethlib/tte.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PcfKind {
    /// IN: clocks are kept synchronised.
    Integration = 0x2,
    /// CS: a master begins to synchronise.
    Coldstart = 0x4,
    /// CA: a coldstart is acknowledged.
    ColdstartAcknowledge = 0x8,
}

impl PcfKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Integration, Self::Coldstart, Self::ColdstartAcknowledge];

    /// Its value on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this value on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Its name: `IN`, `CS` or `CA`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integration => "IN",
            Self::Coldstart => "CS",
            Self::ColdstartAcknowledge => "CA",
        }
    }
}

impl Pcf {
    /// Bytes of the payload, without padding.
    pub const LEN: usize = 28;
    /// The largest value of [`Pcf::transparent_clock_ns`]: 78 hours.
    pub const MAX_TRANSPARENT_CLOCK_NS: u64 = u64::MAX >> FRACTION_BITS;

    /// The frame whose payload this is, padding behind it or not.
    ///
    /// # Errors
    /// There are too few bytes, or the type is not known.
    pub fn parse(payload: &[u8]) -> Result<Self, PcfError> {
        let payload = payload
            .first_chunk::<{ Self::LEN }>()
            .ok_or(PcfError::TooShort { len: payload.len() })?;
        #[rustfmt::skip]
        let [
            i0, i1, i2, i3, m0, m1, m2, m3, _, _, _, _, sync_priority, sync_domain, kind,
            _, _, _, _, _, t0, t1, t2, t3, t4, t5, t6, t7,
        ] = *payload;
        let code = kind & KIND_MASK;
        Ok(Self {
            integration_cycle: u32::from_be_bytes([i0, i1, i2, i3]),
            membership_new: u32::from_be_bytes([m0, m1, m2, m3]),
            sync_priority,
            sync_domain,
            kind: PcfKind::from_code(code).ok_or(PcfError::Kind(code))?,
            transparent_clock: u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
        })
    }

    /// Writes the payload.
    pub fn write(&self, payload: &mut [u8; Self::LEN]) {
        *payload = [0; Self::LEN];
        payload[..4].copy_from_slice(&self.integration_cycle.to_be_bytes());
        payload[4..8].copy_from_slice(&self.membership_new.to_be_bytes());
        [payload[12], payload[13]] = [self.sync_priority, self.sync_domain];
        payload[14] = self.kind.code();
        payload[20..].copy_from_slice(&self.transparent_clock.to_be_bytes());
    }

    /// [`transparent_clock`](Self::transparent_clock) in nanoseconds, rounded down.
    #[must_use]
    pub const fn transparent_clock_ns(&self) -> u64 {
        self.transparent_clock >> FRACTION_BITS
    }

    /// The value of [`transparent_clock`](Self::transparent_clock) for a delay in nanoseconds; `None` for more than
    /// [`MAX_TRANSPARENT_CLOCK_NS`](Self::MAX_TRANSPARENT_CLOCK_NS).
    #[must_use]
    pub const fn transparent_clock_from_ns(ns: u64) -> Option<u64> {
        if ns > Self::MAX_TRANSPARENT_CLOCK_NS { None } else { Some(ns << FRACTION_BITS) }
    }
}

/// Why bytes are no payload of a protocol control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcfError {
    /// They are too few.
    TooShort {
        /// How many there are.
        len: usize,
    },
    /// The type at offset 14 is none of those of [`PcfKind`].
    Kind(u8),
}

impl fmt::Display for PcfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => {
                write!(f, "{len} bytes; a protocol control frame has {} of payload", Pcf::LEN)
            }
            Self::Kind(code) => write!(
                f,
                "byte 14: a protocol control frame of type {code:#x}; 0x2 (IN), 0x4 (CS) and 0x8 \
                 (CA) are known"
            ),
        }
    }
}

impl core::error::Error for PcfError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;
    use crate::eth::{Frame, ether_type};

    /// A whole frame. Each byte of the transparent clock, at offset 34, has a value of its own.
    #[rustfmt::skip]
    const FRAME: [u8; 60] = [
        0x03, 0x04, 0x05, 0x06, 0x0F, 0xEE, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x89, 0x1D,
        0x00, 0x00, 0x12, 0x34, 0x80, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00,
        0x06, 0x07, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    const PCF: Pcf = Pcf {
        integration_cycle: 0x1234,
        membership_new: 0x8000_0005,
        sync_priority: 6,
        sync_domain: 7,
        kind: PcfKind::Integration,
        transparent_clock: 0x0123_4567_89AB_CDEF,
    };

    #[test]
    fn a_frame_is_read_and_written() {
        let frame = Frame::parse(&FRAME).unwrap();
        assert_eq!(frame.header.ether_type, ether_type::TTETHERNET_PCF);
        assert_eq!((FRAME[38], FRAME[39]), (0x89, 0xAB), "two bytes that are not to be confused");
        assert_eq!(Pcf::parse(frame.payload), Ok(PCF));
        let mut payload = [0xEE; Pcf::LEN];
        PCF.write(&mut payload);
        assert_eq!(payload, frame.payload[..Pcf::LEN]);
    }

    #[test]
    fn types_have_their_bits() {
        for (byte, kind, name) in [
            (0x02, PcfKind::Integration, "IN"),
            (0x04, PcfKind::Coldstart, "CS"),
            (0x08, PcfKind::ColdstartAcknowledge, "CA"),
            // The high bits are reserved.
            (0xF2, PcfKind::Integration, "IN"),
        ] {
            let mut payload = [0; Pcf::LEN];
            payload[14] = byte;
            assert_eq!(Pcf::parse(&payload).unwrap().kind, kind, "{byte:#04x}");
            assert_eq!(kind.name(), name);
        }
    }

    #[test]
    fn what_is_no_such_frame_says_why() {
        for len in 0..Pcf::LEN {
            let error = Pcf::parse(&FRAME[14..14 + len]).unwrap_err();
            assert_eq!(error, PcfError::TooShort { len });
            assert!(error.to_string().contains("28"), "{error}");
        }
        for code in [0, 1, 3, 5, 0xC, 0xF] {
            let mut payload = [0; Pcf::LEN];
            payload[14] = code;
            let error = Pcf::parse(&payload).unwrap_err();
            assert_eq!(error, PcfError::Kind(code));
            assert!(error.to_string().contains("0x8 (CA)"), "{error}");
        }
    }

    #[test]
    fn the_transparent_clock_has_65536_units_a_nanosecond() {
        for (ns, units) in [
            (0, Some(0)),
            (1, Some(0x1_0000)),
            (5_760, Some(377_487_360)),
            (Pcf::MAX_TRANSPARENT_CLOCK_NS, Some(u64::MAX - 0xFFFF)),
            (Pcf::MAX_TRANSPARENT_CLOCK_NS + 1, None),
        ] {
            assert_eq!(Pcf::transparent_clock_from_ns(ns), units, "{ns}");
            if let Some(transparent_clock) = units {
                assert_eq!(Pcf { transparent_clock, ..PCF }.transparent_clock_ns(), ns);
            }
        }
        assert_eq!(Pcf { transparent_clock: 0x1_FFFF, ..PCF }.transparent_clock_ns(), 1);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            integration_cycle: u32,
            membership_new: u32,
            sync_priority: u8,
            sync_domain: u8,
            kind in prop::sample::select(&PcfKind::ALL[..]),
            transparent_clock: u64,
        ) {
            let pcf = Pcf {
                integration_cycle, membership_new, sync_priority, sync_domain, kind,
                transparent_clock,
            };
            let mut payload = [0xEE; Pcf::LEN];
            pcf.write(&mut payload);
            prop_assert_eq!(Pcf::parse(&payload), Ok(pcf));
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(pcf) = Pcf::parse(&bytes) {
                let mut payload = [0; Pcf::LEN];
                pcf.write(&mut payload);
                for at in (0..8).chain(12..14).chain(20..28) {
                    prop_assert_eq!(payload[at], bytes[at]);
                }
            }
        }
    }
}
