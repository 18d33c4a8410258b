//! What the kernel says about what was received, beside its bytes: control messages (`cmsg(3)`).
//!
//! ```text
//!  | length (word) | level (4) | kind (4) | data ... | padding to a word |   and so on
//! ```

use candor_time::{Clock, Instant};

/// Bytes of a machine word: `size_t` and `long` of the kernel.
pub(crate) const WORD: usize = size_of::<usize>();
/// Bytes before the data of a control message.
pub(crate) const HEADER_LEN: usize = WORD + 8;
/// Room for one control message of each kind: 32 bytes for `SO_TIMESTAMPNS`, 64 for
/// `SO_TIMESTAMPING`, 24 for `SO_RXQ_OVFL`, 32 for `PACKET_TX_TIMESTAMP`, which comes with
/// `SO_TIMESTAMPING` only; in words of eight bytes, for their alignment.
pub(crate) const CONTROL_WORDS: usize = 16;
/// Room for control messages.
pub(crate) type Control = [u64; CONTROL_WORDS];

/// Level, kind and data of the control messages; ends before the first one that is cut.
pub(crate) fn messages(control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    let mut rest = control;
    std::iter::from_fn(move || {
        let (header, _) = rest.split_at_checked(HEADER_LEN)?;
        let (len, kinds) = header.split_first_chunk::<WORD>()?;
        let (level, kind) = kinds.split_first_chunk::<4>()?;
        let len = usize::from_ne_bytes(*len);
        let data = rest.get(HEADER_LEN..len)?;
        rest = len.checked_next_multiple_of(WORD).and_then(|len| rest.get(len..)).unwrap_or(&[]);
        Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind.first_chunk()?), data))
    })
}

/// The `struct timespec` number `index` in `data`; zero stands for no stamp.
pub(crate) fn instant<C: Clock>(data: &[u8], index: usize) -> Option<Instant<C>> {
    let word = |at: usize| -> Option<u64> {
        let bytes = data.get(at * WORD..)?.first_chunk::<WORD>()?;
        u64::try_from(isize::from_ne_bytes(*bytes)).ok()
    };
    let (seconds, nanos) = (word(index * 2)?, word(index * 2 + 1)?);
    let nanos = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    (nanos != 0).then_some(Instant::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_end(control in prop::collection::vec(any::<u8>(), 0..128)) {
            prop_assert!(messages(&control).count() <= control.len() / HEADER_LEN);
        }
    }
}
