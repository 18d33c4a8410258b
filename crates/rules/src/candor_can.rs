//! What rules the driver `candor_can` carries out in its interrupt handler.

use alloc::format;
use alloc::string::String;

use candor_engine::{Gate, Rule, Table};
use candor_wire::can::frame::ERR_FLAG;

/// Why the driver cannot carry out a rule, wherever its buses are; `None` if it can.
#[must_use]
pub fn obstacle(table: &Table, rule: &Rule) -> Option<String> {
    if table.refuses_others {
        return Some("it does not report the frames that `default = \"refuse\"` refuses".into());
    }
    if let Some(key) = rule.extension.keys().first() {
        return Some(format!("it does not support `{key}`"));
    }
    if rule.gate == Gate::Fd {
        return Some("its devices have no CAN FD".into());
    }
    let takes_errors = rule.filters.iter().any(|filter| filter.mask & ERR_FLAG != 0);
    takes_errors.then(|| "it does not pass on error reports".into())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use candor_engine::{BusIndex, Filter};

    use super::*;

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
