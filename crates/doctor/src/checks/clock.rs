//! What the kernel reads the time from.

use crate::{Item, Sources};

/// Read by the processor itself, without leaving the program.
const FAST: [&str; 5] =
    ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource"];

struct Facts {
    current: Option<String>,
    available: String,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let text = |name: &str| {
        let folder = "sys/devices/system/clocksource/clocksource0";
        sources.files.text(&format!("{folder}/{name}"))
    };
    vec![judge(&Facts {
        current: text("current_clocksource"),
        available: text("available_clocksource").unwrap_or_default(),
    })]
}

fn judge(facts: &Facts) -> Item {
    let Some(current) = &facts.current else {
        let meaning = "the cost of reading the clock is not known";
        return Item::limited("clock", "the clock source is not known", meaning);
    };
    let found = format!("the clock source is {current}");
    if FAST.contains(&&**current) {
        let meaning = "a gateway reads the clock for every frame; this clock is cheap to read";
        return Item::good("clock", found, meaning);
    }
    let better = facts.available.split_whitespace().find(|name| FAST.contains(name));
    Item::limited(
        "clock",
        found,
        "a gateway reads the clock for every frame; this clock is slow, so each frame takes a few \
         microseconds more",
    )
    .maybe_fix(better.map(|name| {
        let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        format!("echo {name} | sudo tee {file}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn a_slow_clock_is_a_limit() {
        let slow = "a gateway reads the clock for every frame; this clock is slow, so each frame \
                    takes a few microseconds more\n";
        for (current, available, expected) in [
            (
                Some("tsc"),
                "tsc hpet",
                "ok clock: the clock source is tsc\n  \
                 a gateway reads the clock for every frame; this clock is cheap to read\n"
                    .to_owned(),
            ),
            (
                Some("hpet"),
                "tsc hpet acpi_pm",
                format!(
                    "limited clock: the clock source is hpet\n  {slow}  $ echo tsc | sudo tee \
                     /sys/devices/system/clocksource/clocksource0/current_clocksource\n"
                ),
            ),
            (
                Some("acpi_pm"),
                "acpi_pm",
                format!("limited clock: the clock source is acpi_pm\n  {slow}"),
            ),
            (
                None,
                "",
                "limited clock: the clock source is not known\n  \
                 the cost of reading the clock is not known\n"
                    .into(),
            ),
        ] {
            let facts = Facts { current: current.map(str::to_owned), available: available.into() };
            assert_eq!(reported(&[judge(&facts)]), expected);
        }
    }
}
