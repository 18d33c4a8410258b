//! Reading what the kernel's gateway cannot do: payloads, paces, ordered edits, names of DBC files.

mod conditions;
mod files;
mod steps;

use alloc::format;

use candor_config::Section;
use candor_signals::Message as DbcMessage;
use candor_time::Nanos;
use candor_wire::can::Id;
use candor_wire::can::frame::{EFF_FLAG, FD_LENGTHS, RTR_FLAG};

use candor_engine::extension::Extension;
use candor_engine::{BusIndex, Filter, Gate};

use self::conditions::{convert, pace, payload};
pub(super) use self::files::Files;
pub use self::files::Include;
pub use self::steps::STEPS;
use self::steps::actions;

/// What the steps of a rule are read with.
pub(super) struct RuleContext<'a> {
    pub(super) files: &'a Files<'a>,
    pub(super) from: BusIndex,
    pub(super) to: &'a [BusIndex],
    pub(super) gate: Gate,
    pub(super) filters: &'a [Filter],
}

/// Reads the keys of a rule that the kernel does not know.
pub(super) fn read(section: &mut Section<'_>, context: &RuleContext<'_>) -> Extension {
    let payload = payload(section, context.gate);
    let pace = pace(section, context.gate);
    let conversion = convert(section, context.gate);
    let actions = actions(section, context, conversion);
    let deadline_ns = positive(section, "deadline").map_or(0, Nanos::as_nanos);
    Extension { payload, pace, actions, convert: conversion, deadline_ns }
}

/// A time that is not zero.
fn positive(section: &mut Section<'_>, key: &'static str) -> Option<Nanos> {
    let time = section.nanos(key)?;
    if time == Nanos::ZERO {
        let origin = section.origin_of(key);
        let hint = format!("remove `{key}`, or write a duration such as \"5ms\"");
        section.findings().error_with_hint(origin, format!("`{key}` is zero"), hint);
        return None;
    }
    Some(time)
}

/// The filter that takes a message of a DBC file.
pub(super) fn filter_of(message: &DbcMessage) -> Filter {
    match message.id {
        Id::Standard(id) => Filter::standard(id.as_raw()),
        Id::Extended(id) if message.is_j1939 => {
            // Whoever sends it and how urgent it is: the group counts, and for groups below 0xF000
            // not the address that it is sent to (SAE J1939-21, 5.2).
            let group = if id.as_raw() >> 16 & 0xFF < 0xF0 { 0x03FF_0000 } else { 0x03FF_FF00 };
            let mask = EFF_FLAG | RTR_FLAG | group;
            Filter { can_id: (id.as_raw() | EFF_FLAG) & mask, mask, inverted: false }
        }
        Id::Extended(id) => Filter::extended(id.as_raw()),
    }
}

/// How long its frames are; longer than any frame if the message is.
fn length_of(message: &DbcMessage) -> u8 {
    let longer = |length: &&u8| usize::from(**length) >= message.length;
    match FD_LENGTHS.iter().find(longer) {
        Some(&length) => length,
        None => u8::try_from(message.length).unwrap_or(u8::MAX),
    }
}
