//! Which frames a rule takes by their data and their time, and what it converts.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use candor_config::{Data, Section, Value, quoted};
use candor_time::Nanos;
use candor_wire::can::frame::FD_LENGTHS;

use crate::file::MOST_BURST;
use crate::file::edit::data_size;
use candor_engine::Gate;
use candor_engine::extension::Conversion;
use candor_engine::extension::pace::{DEFAULT_IDS, OnChange, Pace, Per};
use candor_engine::extension::payload::{Bytes, Payload};

use super::positive;

pub(super) fn payload(section: &mut Section<'_>, gate: Gate) -> Payload {
    let mut payload = Payload::default();
    let size = data_size(gate);
    for key in ["data", "length"] {
        section.refuse_empty(key, format!("remove `{key}` to take every frame"));
    }
    for value in section.values("data") {
        let Some(text) = value.as_str() else {
            value.wrong_type("data", "bytes such as \"11 ?? 4?\"", section.findings());
            continue;
        };
        let (excludes, rest) = match text.trim_start().strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        match bytes(rest) {
            Ok(bytes) if usize::from(bytes.len) > size => {
                let message =
                    format!("{} bytes, but a frame of this rule has at most {size}", bytes.len);
                let hint = "add frames = \"fd\" for CAN FD";
                section.findings().error_with_hint(&value.origin, message, hint);
            }
            Ok(bytes) if excludes => payload.not_data.push(bytes),
            Ok(bytes) => payload.data.push(bytes),
            Err(reason) => {
                let hint = "a byte is two hex digits; ? stands for any digit; 10/F0 compares only \
                            the bits of the mask: \"11 ?? 4? 10/F0\"";
                section.findings().error_with_hint(&value.origin, reason, hint);
            }
        }
    }
    for value in section.values("length") {
        match length(value) {
            Some((first, last)) if !has_length(gate, first, last) => {
                let message = if first == last {
                    format!("no frame of this rule can have {first} bytes")
                } else {
                    format!("no frame of this rule can have {first} to {last} bytes")
                };
                let hint = "classical frames have 0 to 8 bytes; CAN FD frames also 12, 16, 20, \
                            24, 32, 48 or 64";
                section.findings().error_with_hint(&value.origin, message, hint);
            }
            Some(range) => payload.lengths.push(range),
            None => section.findings().error_with_hint(
                &value.origin,
                "`length` must be 0 to 64 bytes, or a range",
                "such as 8 or \"2-8\"",
            ),
        }
    }
    refuse_never(section, &payload);
    payload
}

/// Refuses patterns of which each is longer than every length that is allowed.
fn refuse_never(section: &Section<'_>, payload: &Payload) {
    let most = payload.lengths.iter().map(|&(_, last)| last).max();
    let shortest = payload.data.iter().map(|bytes| bytes.len).min();
    if let Some((shortest, most)) = shortest.zip(most).filter(|(shortest, most)| shortest > most) {
        let message = format!("`data` needs {shortest} bytes, but `length` allows {most} at most");
        let hint = "the rule takes no frame; a pattern needs every byte that it has, also `??`";
        section.findings().error_with_hint(section.origin_of("data"), message, hint);
    }
}

/// Whether frames of that kind have such a length.
fn has_length(gate: Gate, first: u8, last: u8) -> bool {
    let longest = data_size(gate) as u8;
    FD_LENGTHS.iter().any(|length| (first..=last.min(longest)).contains(length))
}

/// `11 ?? 4? 10/F0`.
fn bytes(text: &str) -> Result<Bytes, String> {
    let mut pairs = Vec::new();
    for word in text.split_ascii_whitespace() {
        let pair = match word.split_once('/') {
            Some((value, mask)) => hex_pair(value).zip(hex_pair(mask)).and_then(|(value, mask)| {
                // Digits that are given as `?` do not count.
                (mask.1 == 0xFF).then_some((value.0, value.1 & mask.0))
            }),
            None => hex_pair(word),
        };
        pairs.push(pair.ok_or_else(|| format!("`{word}` is not a byte"))?);
    }
    if pairs.is_empty() || pairs.len() > 64 {
        return Err(format!("{} bytes, but a pattern has 1 to 64", pairs.len()));
    }
    if pairs.iter().all(|(_, mask)| *mask == 0) {
        return Err("the pattern compares no bit".into());
    }
    Ok(Bytes::new(&pairs))
}

/// Two hex digits or question marks: value and mask.
fn hex_pair(text: &str) -> Option<(u8, u8)> {
    let mut digits = text.chars();
    let mut digit = || match digits.next()? {
        '?' => Some((0, 0)),
        c => Some((c.to_digit(16)? as u8, 0xF)),
    };
    let (high, low) = (digit()?, digit()?);
    digits.next().is_none().then_some((high.0 << 4 | low.0, high.1 << 4 | low.1))
}

fn length(value: &Value) -> Option<(u8, u8)> {
    let number = |text: &str| text.trim().parse::<u8>().ok().filter(|&length| length <= 64);
    if let Some(length) = value.as_integer() {
        let length = u8::try_from(length).ok().filter(|&length| length <= 64)?;
        return Some((length, length));
    }
    let text = value.as_str()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

pub(super) fn pace(section: &mut Section<'_>, gate: Gate) -> Pace {
    let mut pace = Pace::default();
    let rate = section.string("rate").and_then(|text| {
        let interval = interval_of(text);
        if interval.is_none() {
            let origin = section.origin_of("rate");
            let message = format!("{} is not a rate", quoted(text));
            let hint = "write frames per time, such as \"100/s\" or \"6/min\"";
            section.findings().error_with_hint(origin, message, hint);
        }
        interval
    });
    let least = positive(section, "min_interval");
    if section.has("rate") && section.has("min_interval") {
        let origin = section.origin_of("min_interval");
        let hint = "both limit the rate: remove one of them";
        let message = "`min_interval` and `rate` in one rule";
        section.findings().error_with_hint(origin, message, hint);
    }
    pace.interval_ns = rate.or(least).map_or(0, Nanos::as_nanos);
    // A message at the nominal rate passes in spite of its jitter; the least time between two frames is strict.
    let usual_ns = if rate.is_some() { pace.interval_ns } else { 0 };
    pace.tolerance_ns = tolerance(section, pace.interval_ns).unwrap_or(usual_ns);
    pace.every = section.integer("every", 2..=1_000_000_000).unwrap_or(0);
    pace.on_change = on_change(section, gate);
    let per = section.one_of("per", &[("id", Per::Id), ("rule", Per::Rule)]);
    pace.per = per.unwrap_or_default();
    pace.ids = section.integer("ids", 1..=u16::MAX / 2).unwrap_or(DEFAULT_IDS);
    for key in ["per", "ids"] {
        needs(section, key, &["rate", "min_interval", "every", "on_change", "edit"]);
    }
    pace
}

/// How much too early a frame may come, in ns.
fn tolerance(section: &mut Section<'_>, interval_ns: u64) -> Option<u64> {
    let burst = section.integer("burst", 1..=MOST_BURST);
    let tolerance = section.nanos("tolerance");
    for key in ["burst", "tolerance"] {
        needs(section, key, &["rate", "min_interval"]);
    }
    if section.has("burst") && section.has("tolerance") {
        let message = "`burst` and `tolerance` in one rule";
        let hint = "remove one of them: `burst` is a tolerance of one interval for each frame but the first";
        section.findings().error_with_hint(section.origin_of("tolerance"), message, hint);
    }
    // An interval that cannot be read has no tolerance.
    let tolerance = tolerance.filter(|_| interval_ns != 0).map(Nanos::as_nanos);
    tolerance.or_else(|| burst.map(|burst| Pace::tolerance_of_burst(interval_ns, burst)))
}

/// A key that does nothing without any of the others.
fn needs(section: &mut Section<'_>, key: &'static str, others: &[&'static str]) {
    let has_one = others.iter().fold(false, |any, other| any | section.has(other));
    if section.has(key) && !has_one {
        let message = format!("`{key}` has no effect here");
        let hint = format!("it only works together with `{}`", others.join("`, `"));
        section.findings().error_with_hint(section.origin_of(key), message, hint);
    }
}

/// The time from frame to frame of `100/s`.
fn interval_of(text: &str) -> Option<Nanos> {
    let (count, unit) = text.split_once('/')?;
    let count = count.trim().parse::<u64>().ok().filter(|&count| count > 0)?;
    let unit = match unit.trim() {
        "s" => Nanos::from_secs(1),
        "min" => Nanos::from_secs(60),
        "h" => Nanos::from_secs(3_600),
        _ => return None,
    };
    let interval_ns = unit.as_nanos() / count;
    (interval_ns > 0).then(|| Nanos::from_nanos(interval_ns))
}

fn on_change(section: &mut Section<'_>, gate: Gate) -> Option<OnChange> {
    let at_least_every = positive(section, "at_least_every");
    needs(section, "at_least_every", &["on_change"]);
    let value = section.value("on_change")?;
    let mask = match &value.data {
        Data::Boolean(true) => Box::new([0xFF; 64]),
        Data::Boolean(false) => return None,
        _ => {
            let bytes = value.hex_bytes("on_change", section.findings())?;
            if bytes.is_empty() || bytes.len() > data_size(gate) {
                let message = format!("{} bytes, expected 1 to {}", bytes.len(), data_size(gate));
                section.findings().error(&value.origin, message);
                return None;
            }
            let mut mask = Box::new([0; 64]);
            mask[..bytes.len()].copy_from_slice(&bytes);
            mask
        }
    };
    Some(OnChange { mask, at_least_every_ns: at_least_every.map_or(0, Nanos::as_nanos) })
}

pub(super) fn convert(section: &mut Section<'_>, gate: Gate) -> Option<Conversion> {
    let all = [Conversion::Fd, Conversion::FdWithSwitch, Conversion::Classical];
    let choices = all.map(|conversion| (conversion.name(), conversion));
    let conversion = section.one_of("convert", &choices)?;
    let is_idle = match gate {
        Gate::Classical => !conversion.is_fd(),
        Gate::Fd => conversion.is_fd(),
        Gate::Any => false,
    };
    if is_idle {
        let message = "`convert` has no effect: all frames of this rule have that format already";
        let hint = "set `frames` to the frames that the rule takes";
        section.findings().error_with_hint(section.origin_of("convert"), message, hint);
    }
    Some(conversion)
}
