//! Arrays of bytes longer than serde knows, as sequences of bytes of exactly that length.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

fn exactly<const N: usize, E: Error>(bytes: Vec<u8>) -> Result<Box<[u8; N]>, E> {
    let length = bytes.len();
    bytes
        .into_boxed_slice()
        .try_into()
        .map_err(|_| E::custom(format_args!("{length} bytes, expected {N}")))
}

pub(crate) fn serialize<const N: usize, S: Serializer>(
    bytes: &[u8; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    bytes.as_slice().serialize(serializer)
}

pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<[u8; N]>, D::Error> {
    exactly(Vec::deserialize(deserializer)?)
}

/// The same where there may be none.
pub(crate) mod optional {
    use super::{Box, Deserialize, Deserializer, Serialize, Serializer, Vec, exactly};

    pub(crate) fn serialize<const N: usize, S: Serializer>(
        bytes: &Option<Box<[u8; N]>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| bytes.as_slice()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<[u8; N]>>, D::Error> {
        Option::<Vec<u8>>::deserialize(deserializer)?.map(exactly).transpose()
    }
}
