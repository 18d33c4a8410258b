//! Which frames a rule takes, as people write it.
//!
//! | pattern | frames |
//! |---|---|
//! | `0x123` | data frames with this standard identifier |
//! | `0x18FEF100x` | data frames with this extended identifier |
//! | `0x120/0x7F0` | standard identifiers that agree with 0x120 in the bits of 0x7F0 |
//! | `0x18FEF100x/0x1FFFFF00` | extended ones likewise |
//! | `0x300-0x30F`, `0x100x-0x1FFx` | all identifiers from the first to the last |
//! | `standard`, `extended` | all data frames with such an identifier |
//! | `remote 0x123`, `remote` | remote frames instead of data frames |
//! | `any 0x123`, `any` | data and remote frames |
//! | `error` | error reports of the driver |
//! | `123:C00007FF`, `123~7FF` | a filter of `cangw -f`, both numbers in hex |
//! | `!0x123` | everything but this |

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};

use candor_engine::Filter;

/// What a pattern stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Whether it began with `!`.
    pub excludes: bool,
    /// Any of these matches; they do not overlap.
    pub filters: Vec<Filter>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// The bytes of the text that are wrong.
    pub span: Range<usize>,
    pub message: String,
    /// What to write instead.
    pub hint: Cow<'static, str>,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.hint)
    }
}
impl core::error::Error for PatternError {}

/// Reads a pattern.
///
/// # Errors
/// What is wrong, where in `text`, and a remedy.
///
/// ```
/// use candor_engine::Filter;
/// use candor_rules::pattern;
/// assert_eq!(pattern::parse("0x123")?.filters, [Filter::standard(0x123)]);
/// assert_eq!(pattern::parse("0x300-0x30F")?.filters.len(), 1);
/// assert!(pattern::parse("0x1800").is_err(), "extended identifiers end with an x");
/// # Ok::<(), pattern::PatternError>(())
/// ```
pub fn parse(text: &str) -> Result<Pattern, PatternError> {
    let mut words = PatternWords { text, at: 0 };
    let excludes = words.skip_bang();
    let filters = filters(&mut words)?;
    let rest = words.rest();
    if !rest.is_empty() {
        return Err(PatternError {
            span: words.at..text.len(),
            message: "nothing may follow the identifiers".into(),
            hint: "write a list of patterns: [\"0x123\", \"0x124\"]".into(),
        });
    }
    Ok(Pattern { excludes, filters })
}

fn filters(words: &mut PatternWords<'_>) -> Result<Vec<Filter>, PatternError> {
    let (start, word) = words.next();
    if let Some(at) = word.find([':', '~']) {
        return raw(word, at).map(|filter| [filter].into()).ok_or_else(|| PatternError {
            span: start..start + word.len(),
            message: format!("`{word}` is not a cangw filter"),
            hint: "write two hex numbers of up to 8 digits, such as 123:C00007FF or 123~7FF".into(),
        });
    }
    let (rtr_value, rtr_mask, ids) = match word {
        "error" => {
            return Ok([Filter { can_id: 0, mask: ERR_FLAG | EFF_MASK, inverted: false }].into());
        }
        "remote" => (RTR_FLAG, RTR_FLAG, words.next()),
        "any" => (0, 0, words.next()),
        _ => (0, RTR_FLAG, (start, word)),
    };
    let filter = |id: u32, mask: u32| Filter {
        can_id: id | rtr_value,
        mask: mask | rtr_mask,
        inverted: false,
    };
    match ids {
        (_, "") if word == "remote" || word == "any" => Ok([filter(0, 0)].into()),
        (_, "standard") => Ok([filter(0, EFF_FLAG)].into()),
        (_, "extended") => Ok([filter(EFF_FLAG, EFF_FLAG)].into()),
        (start, ids) => {
            let ids = identifiers(ids).map_err(|error| error.shifted(start))?;
            Ok(ids.into_iter().map(|(id, mask)| filter(id, mask | EFF_FLAG)).collect())
        }
    }
}

/// The words of a pattern, with their places.
struct PatternWords<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> PatternWords<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or("");
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed.trim_end()
    }

    fn skip_bang(&mut self) -> bool {
        let is_bang = self.rest().starts_with('!');
        self.at += usize::from(is_bang);
        is_bang
    }

    /// The next word and where it starts; empty at the end.
    fn next(&mut self) -> (usize, &'a str) {
        let word = self.rest().split_whitespace().next().unwrap_or("");
        let start = self.at;
        self.at += word.len();
        (start, word)
    }
}

impl PatternError {
    fn shifted(self, by: usize) -> Self {
        Self { span: self.span.start + by..self.span.end + by, ..self }
    }
}

/// A hex number of at most so many digits, with `0x` before it or without.
pub(crate) fn hex(text: &str, digits: usize) -> Option<u32> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = (1..=digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(text, 16).ok())?
}

/// A filter of `cangw -f`, split at the byte `at`.
pub(crate) fn raw(text: &str, at: usize) -> Option<Filter> {
    let can_id = hex(text.get(..at)?, 8)?;
    let mask = hex(text.get(at + 1..)?, 8)?;
    let inverted = text.get(at..=at)? == "~";
    // In a filter's identifier, bit 29 inverts (`CAN_INV_FILTER`).
    if can_id & ERR_FLAG != 0 && mask & ERR_FLAG == 0 {
        return Some(Filter { can_id: can_id & !ERR_FLAG, mask, inverted: true });
    }
    Some(Filter { can_id, mask, inverted })
}

/// An identifier, a masked one or a range, as identifier words with masks.
fn identifiers(text: &str) -> Result<Vec<(u32, u32)>, PatternError> {
    if let Some(at) = text.find('/') {
        let (id, mask) = (&text[..at], &text[at + 1..]);
        let id = identifier(id)?;
        let limit = if id & EFF_FLAG != 0 { EFF_MASK } else { SFF_MASK };
        let digits = mask.strip_suffix('x').unwrap_or(mask);
        let mask = number(digits).filter(|&mask| mask <= limit).ok_or_else(|| PatternError {
            span: at + 1..text.len(),
            message: format!("`{mask}` is not a mask"),
            hint: format!("a mask is 0x0 to {limit:#X}; the bits that are set are compared")
                .replace("0X", "0x")
                .into(),
        })?;
        return Ok([(id, mask)].into());
    }
    let Some(at) = text.find('-') else {
        let id = identifier(text)?;
        let mask = if id & EFF_FLAG != 0 { EFF_MASK } else { SFF_MASK };
        return Ok([(id, mask)].into());
    };
    let first = identifier(&text[..at])?;
    let last = identifier(&text[at + 1..]).map_err(|error| error.shifted(at + 1))?;
    let fail = |message: &str, hint: String| {
        Err(PatternError { span: 0..text.len(), message: message.into(), hint: hint.into() })
    };
    if (first ^ last) & EFF_FLAG != 0 {
        let hint = "write x at both ends, as in 0x100x-0x1FFx, or at none";
        return fail("one end of the range is standard, the other is extended", hint.into());
    }
    if first > last {
        let hint =
            format!("write the smaller identifier first: {}-{}", &text[at + 1..], &text[..at]);
        return fail("the range is empty", hint);
    }
    Ok(prefixes(first, last))
}

/// The fewest aligned blocks that make up the words `first..=last`, which differ in identifier
/// bits only.
fn prefixes(first: u32, last: u32) -> Vec<(u32, u32)> {
    let width = if first & EFF_FLAG != 0 { EFF_MASK } else { SFF_MASK };
    let (flags, last) = (first & EFF_FLAG, last & EFF_MASK);
    let mut next = first & EFF_MASK;
    let mut blocks = Vec::new();
    loop {
        let mut size = 1_u32;
        while next & size == 0 && size <= width / 2 + 1 && next + (size * 2 - 1) <= last {
            size *= 2;
        }
        blocks.push((next | flags, width & !(size - 1)));
        match next.checked_add(size) {
            Some(after) if after <= last => next = after,
            _ => return blocks,
        }
    }
}

/// The identifier word of `0x123` or `0x18FEF100x`.
///
/// # Errors
/// What is wrong with it.
pub fn identifier(text: &str) -> Result<u32, PatternError> {
    let fail = |message: String, hint: Cow<'static, str>| {
        Err(PatternError { span: 0..text.len(), message, hint })
    };
    let digits = text.strip_suffix('x').unwrap_or(text);
    let is_extended = digits.len() < text.len();
    let Some(id) = number(digits) else {
        let bare = !text.starts_with("0x")
            && (1..=8).contains(&digits.len())
            && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let hint = if bare {
            format!("write identifiers in hex with 0x: 0x{text}").into()
        } else {
            "write 0x123, or 0x18FEF100x for an extended identifier".into()
        };
        return fail(format!("`{text}` is not an identifier"), hint);
    };
    match id {
        0..=SFF_MASK if !is_extended => Ok(id),
        0..=EFF_MASK if is_extended => Ok(id | EFF_FLAG),
        0..=EFF_MASK => fail(
            format!("`{text}` has more than the 11 bits of a standard identifier"),
            format!("for an extended identifier, write {text}x").into(),
        ),
        _ => fail(
            format!("`{text}` has more than the 29 bits of an extended identifier"),
            "identifiers go up to 0x7FF, extended ones up to 0x1FFFFFFFx".into(),
        ),
    }
}

/// A number in hex, with `0x`.
pub(crate) fn number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// An identifier word as [`identifier`] reads it; words with other flags, or flags that do not fit
/// the identifier, have no such form.
#[must_use]
pub fn show_identifier(word: u32) -> Option<String> {
    match word {
        0..=SFF_MASK => Some(format!("0x{word:03X}")),
        _ if word & !EFF_MASK == EFF_FLAG => Some(format!("0x{:X}x", word & EFF_MASK)),
        _ => None,
    }
}

/// A filter as a pattern that [`parse`] reads back as the same filter.
#[must_use]
pub fn show(filter: Filter) -> String {
    words_for(filter).unwrap_or_else(|| show_raw(filter))
}

/// A filter in the notation of `cangw -f`.
#[must_use]
pub fn show_raw(filter: Filter) -> String {
    let sign = if filter.inverted { '~' } else { ':' };
    format!("{:03X}{sign}{:X}", filter.can_id, filter.mask)
}

fn words_for(filter: Filter) -> Option<String> {
    let Filter { can_id, mask, inverted } = filter;
    if inverted || can_id & ERR_FLAG != 0 {
        return None;
    }
    if mask & ERR_FLAG != 0 {
        return (can_id == 0 && mask == ERR_FLAG | EFF_MASK).then(|| "error".to_string());
    }
    let kind = match (mask & RTR_FLAG, can_id & RTR_FLAG) {
        (0, 0) => "any ",
        (RTR_FLAG, 0) => "",
        (RTR_FLAG, RTR_FLAG) => "remote ",
        _ => return None,
    };
    let (id, bits) = (can_id & !RTR_FLAG, mask & EFF_MASK);
    if mask & EFF_FLAG == 0 {
        return (id == 0 && bits == 0 && !kind.is_empty()).then(|| kind.trim().to_string());
    }
    let width = if id & EFF_FLAG != 0 { EFF_MASK } else { SFF_MASK };
    let ids = match bits {
        0 if id == 0 => "standard".to_string(),
        0 if id == EFF_FLAG => "extended".to_string(),
        _ if bits == width => show_identifier(id)?,
        _ if bits <= width => format!("{}/0x{bits:03X}", show_identifier(id)?),
        _ => return None,
    };
    Some(format!("{kind}{ids}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn masked(can_id: u32, mask: u32) -> Filter {
        Filter { can_id, mask, inverted: false }
    }

    #[test]
    fn patterns_are_read_and_shown() {
        for (text, filter) in [
            ("0x123", Filter::standard(0x123)),
            ("0x000", Filter::standard(0)),
            ("0x18FEF100x", Filter::extended(0x18FE_F100)),
            ("0x1x", Filter::extended(1)),
            ("0x120/0x7F0", masked(0x120, 0xC000_07F0)),
            ("0x18FEF100x/0x1FFFFF00", masked(0x98FE_F100, 0xDFFF_FF00)),
            ("standard", masked(0, 0xC000_0000)),
            ("extended", masked(0x8000_0000, 0xC000_0000)),
            ("remote 0x123", masked(0x4000_0123, 0xC000_07FF)),
            ("remote", masked(0x4000_0000, 0x4000_0000)),
            ("remote extended", masked(0xC000_0000, 0xC000_0000)),
            ("any 0x123", masked(0x123, 0x8000_07FF)),
            ("any 0x1x/0x001", masked(0x8000_0001, 0x8000_0001)),
            ("any", Filter::ANY),
            ("error", masked(0, 0x3FFF_FFFF)),
            ("123:7FF", masked(0x123, 0x7FF)),
            ("123~7FF", Filter { inverted: true, ..masked(0x123, 0x7FF) }),
            ("000:20000004", masked(0, 0x2000_0004)),
            ("000:123", masked(0, 0x123)),
            ("005:0", masked(5, 0)),
            ("40000000:40000123", masked(0x4000_0000, 0x4000_0123)),
        ] {
            let pattern = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(pattern, Pattern { excludes: false, filters: [filter].into() }, "{text}");
            assert_eq!(show(filter), text);
            let excluded = parse(&format!(" ! {text} ")).unwrap();
            assert_eq!(excluded, Pattern { excludes: true, filters: [filter].into() });
        }
        // The same in other words.
        for (text, shown) in [
            ("0x123:0xC00007FF", "0x123"),
            ("20000123:7FF", "123~7FF"),
            ("0x0x/0x0", "extended"),
            ("0x18fef100x/0x1FFFFF00x", "0x18FEF100x/0x1FFFFF00"),
            ("0X123", "0x123"),
        ] {
            assert_eq!(show(parse(text).unwrap().filters[0]), shown, "{text}");
        }
    }

    #[test]
    fn ranges_become_the_fewest_masks() {
        for (text, masks) in [
            ("0x300-0x30F", &["0x300/0x7F0"][..]),
            ("0x300-0x300", &["0x300"]),
            ("0x301-0x306", &["0x301", "0x302/0x7FE", "0x304/0x7FE", "0x306"]),
            ("0x000-0x7FF", &["standard"]),
            ("0x0x-0x1FFFFFFFx", &["extended"]),
            ("0x1FFFFFFEx-0x1FFFFFFFx", &["0x1FFFFFFEx/0x1FFFFFFE"]),
            ("remote 0x7FE-0x7FF", &["remote 0x7FE/0x7FE"]),
        ] {
            let shown: Vec<_> = parse(text).unwrap().filters.into_iter().map(show).collect();
            assert_eq!(shown, masks, "{text}");
        }
        assert_eq!(parse("0x1x-0x1FFFFFFEx").unwrap().filters.len(), 56);
    }

    #[test]
    fn what_is_no_pattern_says_why_and_where() {
        for (text, span, message, hint) in [
            ("123", 0..3, "`123` is not an identifier", "write identifiers in hex with 0x: 0x123"),
            (
                "0x",
                0..2,
                "`0x` is not an identifier",
                "write 0x123, or 0x18FEF100x for an extended identifier",
            ),
            (
                "",
                0..0,
                "`` is not an identifier",
                "write 0x123, or 0x18FEF100x for an extended \
                                               identifier",
            ),
            (
                "0x800",
                0..5,
                "`0x800` has more than the 11 bits of a standard identifier",
                "for an extended identifier, write 0x800x",
            ),
            (
                "0x20000000x",
                0..11,
                "`0x20000000x` has more than the 29 bits of an extended identifier",
                "identifiers go up to 0x7FF, extended ones up to 0x1FFFFFFFx",
            ),
            (
                "remote 0x120/0xFFF",
                13..18,
                "`0xFFF` is not a mask",
                "a mask is 0x0 to 0x7FF; the bits that are set are compared",
            ),
            (
                "0x1-0x1FFx",
                0..10,
                "one end of the range is standard, the other is extended",
                "write x at both ends, as in 0x100x-0x1FFx, or at none",
            ),
            (
                "!0x10-0xG1",
                6..10,
                "`0xG1` is not an identifier",
                "write 0x123, or 0x18FEF100x for an extended identifier",
            ),
            ("!0x2-0x1", 1..8, "the range is empty", "write the smaller identifier first: 0x1-0x2"),
            (
                "123:C00007FFF",
                0..13,
                "`123:C00007FFF` is not a cangw filter",
                "write two hex numbers of up to 8 digits, such as 123:C00007FF or 123~7FF",
            ),
            (
                "0x1 0x2",
                4..7,
                "nothing may follow the identifiers",
                "write a list of patterns: [\"0x123\", \"0x124\"]",
            ),
            (
                "any é",
                4..6,
                "`é` is not an identifier",
                "write 0x123, or 0x18FEF100x for an extended identifier",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.to_string(), format!("{message} ({hint})"));
            assert_eq!(error, PatternError { span, message: message.into(), hint: hint.into() });
        }
    }

    proptest! {
        #[test]
        fn every_filter_can_be_written(
            can_id in prop_oneof![any::<u32>(), 0..0x800_u32],
            mask in prop_oneof![any::<u32>(), Just(0xC000_07FF), Just(0xDFFF_FFFF), Just(0x8000_07F0)],
            inverted in any::<bool>(),
        ) {
            prop_assume!(can_id & ERR_FLAG == 0 || mask & ERR_FLAG != 0);
            let filter = Filter { can_id, mask, inverted };
            prop_assert_eq!(parse(&show(filter)).unwrap().filters, [filter]);
        }

        #[test]
        fn ranges_take_their_members(a in 0..0x800_u32, b in 0..0x800_u32, id in 0..0x800_u32) {
            let (first, last) = (a.min(b), a.max(b));
            let filters = parse(&format!("{first:#x}-{last:#x}")).unwrap().filters;
            let matching = filters.iter().filter(|filter| filter.matches(id)).count();
            prop_assert_eq!(matching, usize::from((first..=last).contains(&id)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}|[!0-9a-fx/~: -]{0,20}") {
            if let Err(error) = parse(&text) {
                prop_assert!(text.get(error.span).is_some());
            }
        }
    }

    #[test]
    fn raw_filters_have_up_to_eight_hex_digits() {
        for (text, is_read) in [
            ("00000123:000007FF", true),
            ("000000123:7FF", false),
            ("123:0000007FF", false),
            ("+123:7FF", false),
            (":7FF", false),
        ] {
            assert_eq!(parse(text).is_ok(), is_read, "{text}");
        }
    }

    #[test]
    fn numbers_are_digits_only() {
        for text in ["0x", "0x+1", "0x-1", "0x1_0", "0x 1"] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(number("0X1fF"), Some(0x1FF));
    }
}
