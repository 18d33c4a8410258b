//! AUTOSAR end-to-end protection, profiles 1 and 2 (Specification of SW-C End-to-End Communication
//! Protection Library, document 428; R4.x): a counter and a CRC that the receiver checks.
//!
//! | | profile 1 | profile 2 |
//! |---|---|---|
//! | CRC | 8 bits, polynomial 0x1D, start and final value 0 | 8 bits, polynomial 0x2F, both 0xFF |
//! | over | the data identifier, then all bytes but the CRC's own | all bytes but the first, then a byte that the counter chooses |
//! | counter | 4 bits, 0 to 14 | 4 bits, 0 to 15 |
//! | places | anywhere, usually byte 0 and the low half of byte 1 | byte 0 and the low half of byte 1 |

use crate::edit::Crc8;

/// CRC-8-SAE-J1850.
static J1850: [u8; 256] = Crc8::table_of(0x1D);
/// CRC-8H2F.
static H2F: [u8; 256] = Crc8::table_of(0x2F);

/// How a message is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum E2e {
    /// Profile 1.
    Profile1(Profile1),
    /// Profile 2: the bytes of which the counter chooses one (`DataIDList`).
    Profile2([u8; 16]),
}

/// The parameters of profile 1 (`E2E_P01ConfigType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Profile1 {
    /// The data identifier, which is not transmitted as a whole.
    pub data_id: u16,
    /// How it goes into the CRC.
    pub inclusion: Inclusion,
    /// The byte of the CRC (`CRCOffset` is eight times this).
    pub crc_byte: u8,
    /// The half byte of the counter, counted from the low half of byte 0 (`CounterOffset` is four
    /// times this).
    pub counter_nibble: u8,
    /// The half byte that takes the low half of the identifier's high byte, with
    /// [`Inclusion::Nibble`] (`DataIDNibbleOffset` is four times this).
    pub id_nibble: u8,
}

/// How the two bytes of a data identifier go into the CRC (`E2E_P01DataIDMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Inclusion {
    /// Both, the low one first.
    #[default]
    Both,
    /// The low one if the counter is even, else the high one.
    Alternating,
    /// The low one.
    Low,
    /// The low one, then a zero; half of the high one is transmitted.
    Nibble,
}

impl Inclusion {
    /// All of them with their names in rule files.
    pub const ALL: [(&'static str, Self); 4] = [
        ("both", Self::Both),
        ("alternating", Self::Alternating),
        ("low", Self::Low),
        ("nibble", Self::Nibble),
    ];

    /// The name in rule files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, inclusion)| *inclusion == self).map_or("", |(name, _)| name)
    }
}

/// The message is too short for what is to be put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

fn crc(table: &[u8; 256], start: u8, bytes: impl IntoIterator<Item = u8>) -> u8 {
    bytes.into_iter().fold(start, |crc, byte| table[usize::from(crc ^ byte)])
}

/// Writes half a byte; half bytes are counted from the low half of byte 0.
fn put_nibble(data: &mut [u8], nibble: u8, value: u8) -> Result<(), TooShort> {
    let byte = data.get_mut(usize::from(nibble / 2)).ok_or(TooShort)?;
    let shift = u32::from(nibble % 2) * 4;
    *byte = *byte & !(0xF << shift) | (value & 0xF) << shift;
    Ok(())
}

impl E2e {
    /// How many values the counter takes.
    #[must_use]
    pub const fn modulus(&self) -> u64 {
        match self {
            Self::Profile1(_) => 15,
            Self::Profile2(_) => 16,
        }
    }

    /// How many bytes a message must have.
    #[must_use]
    pub fn least_len(&self) -> usize {
        match self {
            Self::Profile1(profile) => {
                let nibble = match profile.inclusion {
                    Inclusion::Nibble => profile.counter_nibble.max(profile.id_nibble),
                    _ => profile.counter_nibble,
                };
                usize::from(profile.crc_byte).max(usize::from(nibble / 2)) + 1
            }
            Self::Profile2(_) => 2,
        }
    }

    /// Puts counter and CRC into `data`, which is as long as the message. `sequence` counts
    /// messages; the counter is what is left of it.
    ///
    /// # Errors
    /// The message has fewer bytes than [`E2e::least_len`].
    pub fn protect(&self, data: &mut [u8], sequence: u64) -> Result<(), TooShort> {
        if data.len() < self.least_len() {
            return Err(TooShort);
        }
        let counter = (sequence % self.modulus()) as u8;
        match self {
            Self::Profile1(profile) => {
                let Profile1 { data_id, inclusion, crc_byte, counter_nibble, id_nibble } = *profile;
                let [low, high] = data_id.to_le_bytes();
                put_nibble(data, counter_nibble, counter)?;
                if inclusion == Inclusion::Nibble {
                    put_nibble(data, id_nibble, high)?;
                }
                let start = match inclusion {
                    Inclusion::Both => crc(&J1850, 0, [low, high]),
                    Inclusion::Alternating if counter.is_multiple_of(2) => crc(&J1850, 0, [low]),
                    Inclusion::Alternating => crc(&J1850, 0, [high]),
                    Inclusion::Low => crc(&J1850, 0, [low]),
                    Inclusion::Nibble => crc(&J1850, 0, [low, 0]),
                };
                let crc_byte = usize::from(crc_byte);
                let (before, rest) = data.split_at(crc_byte);
                let after = rest.get(1..).unwrap_or_default();
                let value = crc(&J1850, start, before.iter().chain(after).copied());
                *data.get_mut(crc_byte).ok_or(TooShort)? = value;
            }
            Self::Profile2(ids) => {
                put_nibble(data, 2, counter)?;
                let rest = data.get(1..).unwrap_or_default().iter().copied();
                let id = ids[usize::from(counter & 0xF)];
                let value = crc(&H2F, 0xFF, rest.chain([id])) ^ 0xFF;
                *data.first_mut().ok_or(TooShort)? = value;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_crcs_are_those_of_the_catalogue() {
        // The check values are the CRCs of these digits.
        let digits = || *b"123456789";
        assert_eq!(crc(&J1850, 0xFF, digits()) ^ 0xFF, 0x4B, "CRC-8/SAE-J1850");
        assert_eq!(crc(&J1850, 0, digits()), 0x37, "CRC-8/GSM-A, that of profile 1");
        assert_eq!(crc(&H2F, 0xFF, digits()) ^ 0xFF, 0xDF, "CRC-8/AUTOSAR");
    }

    /// What the first messages of zeros become.
    fn protected(e2e: &E2e, len: usize, count: u64) -> Vec<Vec<u8>> {
        let protect = |sequence| {
            let mut data = alloc::vec![0; len];
            e2e.protect(&mut data, sequence).unwrap();
            data
        };
        (0..count).map(protect).collect()
    }

    fn profile_1(inclusion: Inclusion) -> Profile1 {
        Profile1 { data_id: 0x123, inclusion, crc_byte: 0, counter_nibble: 2, id_nibble: 3 }
    }

    #[test]
    fn messages_are_protected_as_by_autosar() {
        let counted: [u8; 16] = core::array::from_fn(|index| index as u8 + 1);
        for (e2e, [first, second]) in [
            (E2e::Profile1(profile_1(Inclusion::Both)), [(0xCC, 0x00), (0x91, 0x01)]),
            (E2e::Profile1(profile_1(Inclusion::Alternating)), [(0xCE, 0x00), (0x02, 0x01)]),
            (E2e::Profile1(profile_1(Inclusion::Low)), [(0xCE, 0x00), (0x93, 0x01)]),
            (E2e::Profile1(profile_1(Inclusion::Nibble)), [(0x2A, 0x10), (0x77, 0x11)]),
            (E2e::Profile2(counted), [(0x0E, 0x00), (0x1B, 0x01)]),
        ] {
            let message = |(crc, counter)| [crc, counter, 0, 0, 0, 0, 0, 0];
            assert_eq!(protected(&e2e, 8, 2), [message(first), message(second)], "{e2e:?}");
        }
    }

    #[test]
    fn counters_begin_again_and_leave_their_neighbours_alone() {
        let mut data = [0, 0xA0, 0x55];
        let profile = Profile1 { counter_nibble: 4, ..profile_1(Inclusion::Both) };
        for (sequence, byte) in [(0, 0x50), (14, 0x5E), (15, 0x50), (u64::MAX, 0x50)] {
            E2e::Profile1(profile).protect(&mut data, sequence).unwrap();
            assert_eq!(data[1..], [0xA0, byte], "{sequence}");
        }
        for (sequence, byte) in [(0, 0xA0), (15, 0xAF), (16, 0xA0)] {
            E2e::Profile2([0; 16]).protect(&mut data, sequence).unwrap();
            assert_eq!(data[1], byte, "{sequence}");
        }
    }

    #[test]
    fn short_messages_are_reported_and_left_alone() {
        for (e2e, least) in [
            (E2e::Profile1(profile_1(Inclusion::Both)), 2),
            (E2e::Profile1(Profile1 { crc_byte: 5, ..profile_1(Inclusion::Low) }), 6),
            (E2e::Profile1(Profile1 { counter_nibble: 9, ..profile_1(Inclusion::Low) }), 5),
            (E2e::Profile1(Profile1 { id_nibble: 8, ..profile_1(Inclusion::Nibble) }), 5),
            (E2e::Profile1(Profile1 { id_nibble: 8, ..profile_1(Inclusion::Low) }), 2),
            (E2e::Profile2([0; 16]), 2),
        ] {
            assert_eq!(e2e.least_len(), least);
            let mut data = [7; 64];
            assert_eq!(e2e.protect(&mut data[..least - 1], 0), Err(TooShort));
            assert_eq!(data, [7; 64]);
            assert_eq!(e2e.protect(&mut data[..least], 0), Ok(()));
        }
    }
}
