//! The bytes of orders and messages: length, CRC-32 and the value in postcard's format. A damaged
//! or cut one is refused, never half understood.
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | `CNDR` |
//! | 4..8 | length of the value, little-endian |
//! | 8..12 | CRC-32 (IEEE 802.3) of the value, little-endian |
//! | 12.. | the value |

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What every value begins with.
const MAGIC: [u8; 4] = *b"CNDR";
/// Bytes before the value.
pub const HEADER_LEN: usize = 12;
/// Longer values are refused, so that a damaged length allocates nothing.
const MAX_LEN: usize = 256 << 20;

/// Why bytes are no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// They do not begin as a value does.
    NoValue {
        /// The offset.
        at: usize,
    },
    /// They end within a value.
    Cut {
        /// The offset at which the value begins.
        at: usize,
    },
    /// The checksum disagrees.
    Damaged {
        /// The offset at which the value begins.
        at: usize,
    },
    /// The value is none of ours: host and guest are of different versions.
    Foreign {
        /// The offset at which the value begins.
        at: usize,
        /// What the decoder says.
        reason: String,
    },
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue { at } => write!(f, "there is no message at byte {at}"),
            Self::Cut { at } => write!(f, "the message at byte {at} is cut"),
            Self::Damaged { at } => write!(f, "the message at byte {at} is damaged"),
            Self::Foreign { at, reason } => {
                write!(f, "the message at byte {at} is of another version: {reason}")
            }
        }
    }
}

impl std::error::Error for ChannelError {}

/// The bytes of a value.
#[must_use]
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    // Writing plain data into memory cannot fail.
    let body = postcard::to_stdvec(value).unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// Reads the value at `at`; returns it and the offset behind it. `None` at the end of `bytes`.
///
/// # Errors
/// See [`ChannelError`].
pub fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    at: usize,
) -> Result<Option<(T, usize)>, ChannelError> {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(None);
    }
    let Some((header, rest)) = rest.split_first_chunk::<HEADER_LEN>() else {
        return Err(ChannelError::Cut { at });
    };
    let word = |from: usize| {
        u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]])
    };
    let length = word(4) as usize;
    if header[..4] != MAGIC || length > MAX_LEN {
        return Err(ChannelError::NoValue { at });
    }
    let body = rest.get(..length).ok_or(ChannelError::Cut { at })?;
    if crc32fast::hash(body) != word(8) {
        return Err(ChannelError::Damaged { at });
    }
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(Some((value, at + HEADER_LEN + length))),
        Ok(_) => Err(ChannelError::Foreign { at, reason: "bytes are left over".into() }),
        Err(error) => Err(ChannelError::Foreign { at, reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use crate::report::Stamp;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        let stamps = prop::collection::vec((any::<u16>(), any::<u64>()), 0..20).prop_map(|all| {
            all.into_iter().map(|(number, time_ns)| Stamp { number, time_ns }).collect()
        });
        prop_oneof![
            ".{0,20}".prop_map(Message::Note),
            stamps.prop_map(Message::Monitored),
            Just(Message::Done),
        ]
    }

    /// All values in a row.
    fn decode_all(bytes: &[u8]) -> Result<Vec<Message>, ChannelError> {
        let (mut at, mut all) = (0, Vec::new());
        while let Some((value, next)) = decode(bytes, at)? {
            all.push(value);
            at = next;
        }
        Ok(all)
    }

    proptest! {
        #[test]
        fn messages_come_back(messages in prop::collection::vec(message(), 0..6)) {
            let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
            prop_assert_eq!(decode_all(&bytes), Ok(messages));
        }

        #[test]
        fn damage_is_noticed(
            messages in prop::collection::vec(message(), 1..4),
            at: prop::sample::Index,
            flip in 1..=255_u8,
        ) {
            let mut bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(decode_all(&bytes).is_err(), "byte {} was changed", at);
        }

        #[test]
        fn a_cut_is_noticed(messages in prop::collection::vec(message(), 1..4)) {
            let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
            let last = encode(&messages[messages.len() - 1]).len();
            for missing in 1..last {
                let outcome = decode_all(&bytes[..bytes.len() - missing]);
                prop_assert!(matches!(outcome, Err(ChannelError::Cut { .. })), "{:?}", outcome);
            }
        }

        #[test]
        fn rubbish_is_refused(bytes: Vec<u8>) {
            prop_assert!(bytes.is_empty() || decode_all(&bytes).is_err());
        }
    }

    #[test]
    fn a_value_of_another_version_is_foreign() {
        let bytes = encode(&(200_u8, 5_u64));
        assert!(matches!(decode::<Message>(&bytes, 0), Err(ChannelError::Foreign { at: 0, .. })));
        let bytes = encode(&(Message::Done, 5_u8));
        assert!(matches!(decode::<Message>(&bytes, 0), Err(ChannelError::Foreign { at: 0, .. })));
    }

    #[test]
    fn a_huge_length_allocates_nothing() {
        let mut bytes = encode(&Message::Done);
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode::<Message>(&bytes, 0), Err(ChannelError::NoValue { at: 0 }));
    }
}
