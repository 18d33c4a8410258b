//! Buses.

use candor_config::Section;
use candor_diagnostics::{Findings, Origin, meant_or};
use candor_wire::can::{Bitrate, Timing};

use super::listed::{name_of, require};
use crate::Bus;

/// The bus that a table describes. Keys that it does not know are left to the caller, and so is
/// [`Section::finish`].
pub fn bus(section: &mut Section<'_>, name: &str) -> Bus {
    require(section, &[("bitrate", "write its bit rate, as in bitrate = \"500k\"")]);
    name_of("bus", name, section.origin(), section.findings());
    let nominal = section.bitrate("bitrate");
    let data = section.bitrate("data_bitrate");
    if let Some(nominal) = nominal {
        check_rates(section, Timing { nominal, data: data.unwrap_or(nominal) });
    }
    let nominal = nominal.unwrap_or(Bitrate::MAX);
    let is_fd = section.boolean("fd");
    if data.is_some() && is_fd == Some(false) {
        let message =
            format!("bus `{name}` has a `data_bitrate`, but no CAN FD frames: `fd` is false");
        let hint = "remove one of the two keys";
        section.findings().warning(section.origin_of("fd"), message, hint);
    }
    Bus {
        name: name.into(),
        timing: Timing { nominal, data: data.unwrap_or(nominal) },
        is_fd: is_fd.unwrap_or(data.is_some()),
    }
}

/// Refuses data that is slower than the arbitration, and warns of bit rates that no bus has.
fn check_rates(bus: &Section<'_>, timing: Timing) {
    if timing.data.bits_per_second() < timing.nominal.bits_per_second() {
        let message = format!(
            "the bit rate of the data is {}bit/s, less than that of the arbitration",
            timing.data
        );
        let hint = "CAN FD sends data at the same bit rate or a higher one (ISO 11898-1)";
        bus.findings().error_with_hint(bus.origin_of("data_bitrate"), message, hint);
        return;
    }
    let Some(unusual) = timing.unusual() else { return };
    let key = if unusual.is_data() { "data_bitrate" } else { "bitrate" };
    let hint = match unusual.meant() {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => "check the bit rate".into(),
    };
    bus.findings().warning(bus.origin_of(key), unusual.to_string(), hint);
}

/// The index of the bus of that name. If it is one of `unread`, or if there are no buses at all, there is a
/// finding about that already.
#[must_use]
pub fn bus_named(
    buses: &[Bus],
    unread: &[String],
    name: &str,
    origin: &Origin,
    findings: &Findings,
) -> Option<usize> {
    let names = buses.iter().map(|bus| bus.name.as_str());
    let found = names.clone().position(|known| known == name);
    let is_unread = buses.is_empty() || unread.iter().any(|known| known == name);
    if found.is_none() && !is_unread {
        let hint = meant_or(name, names.clone(), || {
            format!("there are {}", names.collect::<Vec<_>>().join(", "))
        });
        findings.error_with_hint(origin, format!("unknown bus `{name}`"), hint);
    }
    found
}
