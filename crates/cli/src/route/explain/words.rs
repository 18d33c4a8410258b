//! The words of an explanation: why a rule takes a frame or not, and what it does.

use candor_causes::Cause;
use candor_diagnostics::counted;
use candor_engine::edit;
use candor_engine::{Filter, Gate, Rule};
use candor_rules::explain::{Mismatch, Verdict};
use candor_rules::pattern;
use candor_wire::can::frame::{BRS, ESI};

use super::Step;

/// Why a rule takes a frame, or why not.
pub(super) fn reason(rule: &Rule, verdict: &Verdict) -> String {
    match verdict {
        Verdict::OtherKind if rule.gate == Gate::Fd => "it is for CAN FD frames".into(),
        Verdict::OtherKind => "it is for classical frames".into(),
        Verdict::NoFilter(reasons) => no_filter(reasons),
        Verdict::Excluded(filter, except) => {
            let except = pattern::show(*except);
            format!("{} matches, but \"{except}\" is excluded", filter_title(rule, *filter))
        }
        Verdict::OtherPayload(filter) => {
            let title = filter_title(rule, *filter);
            format!("{title} matches, but the rule takes other data or lengths")
        }
        Verdict::Taken(taken) => format!("{} matches", filter_title(rule, taken.filter)),
    }
}

fn filter_title(rule: &Rule, filter: Filter) -> String {
    if rule.filters.is_empty() {
        "every frame except error reports".into()
    } else {
        show_filter(filter)
    }
}

fn show_filter(filter: Filter) -> String {
    if filter.inverted {
        let plain = Filter { inverted: false, ..filter };
        format!("everything except \"{}\"", pattern::show(plain))
    } else {
        format!("\"{}\"", pattern::show(filter))
    }
}

/// The first reasons of a long list.
fn no_filter(reasons: &[(Filter, Mismatch)]) -> String {
    const SHOWN: usize = 3;
    let reported = reasons.iter().take(SHOWN).map(|&(filter, mismatch)| {
        let reason = match mismatch {
            Mismatch::ErrorReport => "one of them is an error report, the other is not".into(),
            Mismatch::IdLength => "one identifier is standard, the other is extended".into(),
            Mismatch::Remote => "one of them is a remote frame, the other is not".into(),
            Mismatch::Bits(bits) => format!("the identifier differs in 0x{bits:X}"),
            Mismatch::Inverted => "the pattern excludes this identifier".into(),
        };
        format!("{} does not match: {reason}", show_filter(filter))
    });
    let more = reasons.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("{more} more do not match either"));
    reported.chain(more).collect::<Vec<_>>().join("; ")
}

/// Why a copy is refused.
pub(super) fn refusal(cause: Cause) -> &'static str {
    match cause {
        Cause::Returning => "a frame is not sent back to the bus that it came from",
        Cause::HopLimit => "it has reached max_hops, the limit of passes through the gateway",
        Cause::TooLong => "the edit made the frame too long, so it is deleted",
        Cause::TooShort => "it has fewer bytes than the edit needs",
        Cause::OutOfRange => "the value of a signal is out of range at the destination",
        Cause::Unmapped => "its identifier is not in the table of the rule",
        Cause::Unconvertible => "the other kind of frame has no equivalent",
        // The other causes depend on more than the frame; an explanation does not give them.
        other => other.name(),
    }
}

/// A step for people.
pub(super) fn step_object(step: &edit::Step, size: usize) -> Step {
    let line = |operation: &'static str, field: &str, before: String, after: String| Step {
        operation,
        field: field.to_owned(),
        before,
        after,
    };
    let word = |word: u32| pattern::show_identifier(word).unwrap_or(format!("word 0x{word:X}"));
    let bytes = |bytes: &[u8; 64]| {
        let bytes: Vec<_> = bytes.iter().take(size).map(|byte| format!("{byte:02X}")).collect();
        bytes.join(" ")
    };
    let checksum = |name, done: &Option<(usize, u8, u8)>| match done {
        Some((index, before, after)) => {
            line(name, &format!("byte {index}"), format!("{before:02X}"), format!("{after:02X}"))
        }
        None => line(name, "none", "an index lies before the first byte".into(), "skipped".into()),
    };
    match step {
        edit::Step::Id(operator, before, after) => {
            line(operator.name(), "id", word(*before), word(*after))
        }
        edit::Step::Len(operator, before, after) => {
            line(operator.name(), "length", before.to_string(), after.to_string())
        }
        edit::Step::Flags(operator, before, after) => {
            line(operator.name(), "flags", show_flags(*before), show_flags(*after))
        }
        edit::Step::Data(operator, before, after) => {
            line(operator.name(), "data", bytes(before), bytes(after))
        }
        edit::Step::Crc8(done) => checksum("crc8", done),
        edit::Step::XorChecksum(done) => checksum("xor_checksum", done),
        edit::Step::TooLong(len) => line("end", "length", len.to_string(), "deleted".into()),
        edit::Step::Message(before, after, len) => line(
            "message",
            "id",
            word(*before),
            format!("{}, {}", word(*after), counted(*len, "byte")),
        ),
        edit::Step::Remap(before, after) => line("remap", "id", word(*before), word(*after)),
        edit::Step::Bytes(key, before, after) => line(key, "data", bytes(before), bytes(after)),
        edit::Step::Converted(is_fd) => {
            let kinds = ["classical", "fd"];
            let [before, after] = if *is_fd { kinds } else { [kinds[1], kinds[0]] };
            line("convert", "kind", before.into(), after.into())
        }
    }
}

fn show_flags(flags: u8) -> String {
    let names = [(BRS, "brs"), (ESI, "esi")];
    let set: Vec<_> =
        names.iter().filter(|(bit, _)| flags & bit != 0).map(|&(_, name)| name).collect();
    if set.is_empty() { "none".into() } else { set.join("+") }
}
