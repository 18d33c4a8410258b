//! The bytes of netlink messages (`linux/netlink.h`): building requests, taking answers apart.
//!
//! ```text
//!  0        4       6        8           12        16
//!  | length | kind  | flags  | sequence  | sender  | payload ...      all in the machine's order
//!
//!  an attribute within a payload:  | length (2) | kind (2) | value ... | up to 3 bytes of padding |
//! ```
//!
//! Pure functions over bytes; nothing in an answer is believed.

// `linux/netlink.h`, `linux/rtnetlink.h`
pub(super) const REQUEST: u16 = 0x1;
pub(super) const ACKNOWLEDGE: u16 = 0x4;
pub(super) const DUMP: u16 = 0x300;
pub(super) const CREATE_NEW: u16 = 0x600;
pub(super) const DUMP_INTERRUPTED: u16 = 0x10;
pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;
pub(super) const NEW_LINK: u16 = 16;
pub(super) const DELETE_LINK: u16 = 17;
pub(super) const GET_LINK: u16 = 18;
pub(super) const NEW_ADDRESS: u16 = 20;
pub(super) const DELETE_ADDRESS: u16 = 21;
pub(super) const NEW_ROUTE: u16 = 24;
pub(super) const DELETE_ROUTE: u16 = 25;
pub(super) const GET_ROUTE: u16 = 26;
pub(super) const NEW_NEIGHBOUR: u16 = 28;
pub(super) const NEW_QUEUE: u16 = 36;
pub(super) const GET_QUEUE: u16 = 38;

/// Bytes before the payload of a message.
pub(super) const HEADER_LEN: usize = 16;
/// Bytes before the value of an attribute.
const ATTRIBUTE_LEN: usize = 4;
/// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`: flags in the kind of an attribute.
const KIND_FLAGS: u16 = 0xC000;
const NESTED: u16 = 0x8000;

/// A request that is being built.
#[derive(Clone, Debug)]
pub(super) struct Request(Vec<u8>);

impl Request {
    /// A request without payload.
    pub(super) fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self(bytes)
    }

    /// Adds plain bytes, as many as make whole words.
    pub(super) fn with(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// Adds an attribute.
    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let len = (ATTRIBUTE_LEN + value.len()) as u16;
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.pad();
        self
    }

    /// Adds an attribute that is a number.
    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute that is a text.
    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// Adds an attribute made of what `fill` adds.
    pub(super) fn nested(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend((kind | NESTED).to_ne_bytes());
        let mut filled = fill(self);
        let len = (filled.0.len() - start) as u16;
        if let Some(place) = filled.0.get_mut(start..start + 2) {
            place.copy_from_slice(&len.to_ne_bytes());
        }
        filled
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// The bytes to send.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// A message of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
}

/// The messages of an answer; ends before the first one that is cut.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let message = rest.get(..len)?;
        let payload = message.get(HEADER_LEN..)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Message {
            kind: u16_at(message, 4)?,
            flags: u16_at(message, 6)?,
            sequence: u32_at(message, 8)?,
            payload,
        })
    })
}

/// An attribute of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attribute<'a> {
    pub(super) kind: u16,
    pub(super) value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The value as a number of four bytes.
    pub(super) fn number(&self) -> Option<u32> {
        u32_at(self.value, 0)
    }

    /// The value as a text, which ends at its first zero.
    pub(super) fn text(&self) -> String {
        let text = self.value.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    /// The attributes that the value is made of.
    pub(super) fn nested(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        attributes(self.value)
    }
}

/// The attributes in `bytes`; ends before the first one that is cut.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & !KIND_FLAGS;
        let value = rest.get(ATTRIBUTE_LEN..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind, value })
    })
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// `NLM_F_ACK_TLVS`: attributes follow.
const ATTRIBUTES_FOLLOW: u16 = 0x200;

/// What the kernel says in an acknowledgement (`struct nlmsgerr`): its error number, 0 for success,
/// and words of its own (`NETLINK_EXT_ACK`).
pub(super) fn acknowledgement(message: &Message<'_>) -> Option<(i32, Option<String>)> {
    /// `NLM_F_CAPPED`: the request's header is repeated, not its payload.
    const CAPPED: u16 = 0x100;
    let error = error_number(message)?;
    if message.flags & ATTRIBUTES_FOLLOW == 0 {
        return Some((error, None));
    }
    let repeated =
        if message.flags & CAPPED != 0 { HEADER_LEN } else { u32_at(message.payload, 4)? as usize };
    let at = repeated.checked_next_multiple_of(4)?.checked_add(4)?;
    Some((error, words_at(message, at)))
}

/// The same at the end of a dump (`NLMSG_DONE`), where the request is not repeated: the attributes
/// follow the error number at once (`netlink_dump_done` in `net/netlink/af_netlink.c`).
pub(super) fn end_of_dump(message: &Message<'_>) -> Option<(i32, Option<String>)> {
    let error = error_number(message)?;
    let has_words = message.flags & ATTRIBUTES_FOLLOW != 0;
    Some((error, has_words.then(|| words_at(message, 4)).flatten()))
}

/// The kernel's number is negative.
fn error_number(message: &Message<'_>) -> Option<i32> {
    u32_at(message.payload, 0)?.cast_signed().checked_neg()
}

/// The words in the attributes from there on.
fn words_at(message: &Message<'_>, at: usize) -> Option<String> {
    /// `NLMSGERR_ATTR_MSG`.
    const WORDS: u16 = 1;
    let rest = message.payload.get(at..).unwrap_or_default();
    let words = attributes(rest).find(|attribute| attribute.kind == WORDS);
    words.map(|words| words.text()).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of 32-bit words and 16-bit halves in the machine's order.
    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
    fn halves(low: u16, high: u16) -> u32 {
        let ([a, b], [c, d]) = (low.to_ne_bytes(), high.to_ne_bytes());
        u32::from_ne_bytes([a, b, c, d])
    }

    #[test]
    fn a_request_has_the_bytes_of_the_header() {
        let request = Request::new(16, 0x605)
            .with(&[0xAA; 3])
            .text(3, "can0")
            .nested(18, |link| link.number(1, 7))
            .finish(9);
        let name = u32::from_ne_bytes(*b"can0");
        let mut expected = words(&[44, halves(16, 0x605), 9, 0]);
        expected.extend([0xAA, 0xAA, 0xAA, 0]);
        expected.extend(words(&[halves(9, 3), name, 0]));
        expected.extend(words(&[halves(12, 18 | 0x8000), halves(8, 1), 7]));
        assert_eq!(request, expected);
    }

    #[test]
    fn an_acknowledgement_carries_the_kernels_words() {
        let mut payload = words(&[(-22_i32).cast_unsigned(), 40, halves(24, 5), 1, 0]);
        fn message(flags: u16, payload: &[u8]) -> Message<'_> {
            Message { kind: 2, flags, sequence: 1, payload }
        }
        assert_eq!(acknowledgement(&message(0, &payload)), Some((22, None)));
        let words_of = |payload: &mut Vec<u8>| {
            payload.extend(words(&[halves(9, 1)]));
            payload.extend(b"oops\0\0\0\0");
        };
        let mut capped = payload.clone();
        words_of(&mut capped);
        assert_eq!(acknowledgement(&message(0x300, &capped)), Some((22, Some("oops".into()))));
        // Not capped: the 24 bytes of the request's payload come first.
        payload.extend([0; 24]);
        words_of(&mut payload);
        assert_eq!(acknowledgement(&message(0x200, &payload)), Some((22, Some("oops".into()))));
        assert_eq!(acknowledgement(&message(0x200, &payload[..3])), None);
        let no_number = i32::MIN.to_ne_bytes();
        assert_eq!(acknowledgement(&message(0, &no_number)), None, "it has no positive one");
        assert_eq!(acknowledgement(&message(0x200, &payload[..8])), Some((22, None)));
    }

    #[test]
    fn the_end_of_a_dump_carries_the_kernels_words() {
        let mut payload = words(&[(-22_i32).cast_unsigned(), halves(9, 1)]);
        payload.extend(b"oops\0\0\0\0");
        let message =
            |flags, len| Message { kind: 3, flags, sequence: 1, payload: &payload[..len] };
        let reported = Some((22, Some("oops".to_owned())));
        assert_eq!(end_of_dump(&message(0x200, payload.len())), reported);
        assert_eq!(end_of_dump(&message(0x202, payload.len())), reported, "of several parts");
        assert_eq!(end_of_dump(&message(0, payload.len())), Some((22, None)));
        assert_eq!(end_of_dump(&message(0x200, 4)), Some((22, None)));
        assert_eq!(end_of_dump(&message(0x200, 3)), None);
        // What an acknowledgement would read there is the length of the words.
        let mistaken = acknowledgement(&message(0x200, payload.len()));
        assert!(mistaken != reported, "{mistaken:?}");
    }

    proptest! {
        #[test]
        fn attributes_round_trip(values in prop::collection::vec(
            (0..0x4000_u16, prop::collection::vec(any::<u8>(), 0..40)), 0..8))
        {
            let mut request = Request::new(0, 0);
            for (kind, value) in &values {
                request = request.attribute(*kind, value);
            }
            let bytes = request.finish(3);
            let message = messages(&bytes).next().unwrap();
            prop_assert_eq!(message.sequence, 3);
            let read: Vec<_> = attributes(message.payload)
                .map(|attribute| (attribute.kind, attribute.value.to_vec()))
                .collect();
            prop_assert_eq!(read, values);
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
            for message in messages(&bytes) {
                let _ = (acknowledgement(&message), end_of_dump(&message));
            }
        }
    }
}
