//! What rules the driver `candor_can` carries out in its interrupt handler.

use alloc::format;
use alloc::string::String;

use candor_engine::program::{Program, Work};
use candor_engine::{BusIndex, Gate, Rule, Table};
use candor_wire::can::frame::ERR_FLAG;

/// Why the driver cannot carry out a rule, wherever its buses are; `None` if it can.
#[must_use]
pub fn obstacle(table: &Table, rule: &Rule) -> Option<String> {
    if table.refuses_others {
        return Some(
            "candor_can does not report the frames that `default = \"refuse\"` refuses".into(),
        );
    }
    if let Some(key) = rule.extension.keys().first() {
        return Some(format!("candor_can does not support `{key}`"));
    }
    if rule.gate == Gate::Fd {
        return Some("devices of candor_can have no CAN FD".into());
    }
    let takes_errors = rule.filters.iter().any(|filter| filter.mask & ERR_FLAG != 0);
    takes_errors.then(|| "candor_can does not pass on error reports".into())
}

/// Rules that an extended identifier may meet (`CANDOR_IMAGE_MATCHES`).
const RULES: u64 = 128;
/// Steps of one frame, without copies that come back (`CANDOR_IMAGE_STEPS`).
const STEPS: u64 = 16_384;

/// The first bus whose rules are too much work for the driver, each of which it could carry out, and why.
#[must_use]
pub fn excess(table: &Table) -> Option<(BusIndex, String)> {
    let program = Program::new(table);
    let buses = (0..).map(BusIndex).zip(&table.buses);
    let excess = buses.filter_map(|(index, bus)| {
        let Work { steps, extended_rules } = program.work(index);
        let name = &bus.name;
        let reason = if extended_rules > RULES {
            format!(
                "an extended identifier of `{name}` may meet {extended_rules} rules, each mask counted with the most that one \
                 identifier meets by it, and it supports {RULES}"
            )
        } else if steps > STEPS {
            format!("a frame of `{name}` may take {steps} steps, and it supports {STEPS}")
        } else {
            return None;
        };
        Some((index, reason))
    });
    excess.into_iter().next()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use candor_engine::{BusIndex, Filter};

    use super::*;

    #[test]
    fn too_much_work_of_a_bus_is_an_excess() {
        let bus = |name: &str| candor_engine::Bus {
            name: name.into(),
            port: name.into(),
            is_virtual: false,
        };
        let table = |count: usize, filter: Filter| Table {
            buses: vec![bus("a"), bus("b")],
            rules: vec![
                Rule { filters: vec![filter], ..Rule::new("r", BusIndex(1), BusIndex(0)) };
                count
            ],
            ..Table::default()
        };
        let standard = Filter::standard(0x123);
        assert_eq!(excess(&table(1_023, standard)), None);
        let (bus, reason) = excess(&table(1_024, standard)).unwrap();
        assert_eq!(bus, BusIndex(1));
        assert!(reason.contains("16385 steps"), "{reason}");
        let extended = Filter::extended(0x123);
        assert_eq!(excess(&table(128, extended)), None);
        assert!(excess(&table(129, extended)).unwrap().1.contains("129 rules"));
    }

    #[test]
    fn what_the_driver_cannot_carry_out_is_refused_by_name() {
        let with = |change: fn(&mut Rule)| {
            let mut rule = Rule::new("r", BusIndex(0), BusIndex(1));
            change(&mut rule);
            rule
        };
        for (rule, expected) in [
            (with(|_| {}), None),
            (with(|rule| rule.gate = Gate::Any), None),
            (with(|rule| rule.echo = true), None),
            (with(|rule| rule.gate = Gate::Fd), Some("CAN FD")),
            (with(|rule| rule.extension.deadline_ns = 5), Some("`deadline`")),
            (
                with(|rule| rule.filters = vec![Filter { mask: ERR_FLAG, ..Filter::standard(0) }]),
                Some("error reports"),
            ),
        ] {
            let found = obstacle(&Table::default(), &rule);
            match expected {
                None => assert_eq!(found, None),
                Some(part) => {
                    assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{found:?}");
                }
            }
        }
        let table = Table { refuses_others: true, ..Table::default() };
        assert!(obstacle(&table, &with(|_| {})).is_some());
    }
}
