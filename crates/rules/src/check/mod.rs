//! [`check`]: what is wrong or suspicious about rules that can be read.
//!
//! Errors are rules that the kernel refuses or that cannot do anything; warnings are rules that
//! most likely do something else than was meant. The reasoning about identifiers is exact: two
//! rules overlap if there is a frame that both take, and a loop is reported with such a frame.

mod checker;
mod loops;
mod rate;
mod rule;
mod table;
mod twice;
mod words;

use candor_diagnostics::{Findings, Origin};
use candor_signals::Message;

use self::checker::Checker;
use self::rule::Subject;
use crate::region::Region;
use candor_engine::Table;

pub use self::checker::Place;
pub use self::table::MOST_NAME_CHARACTERS;

/// Adds everything that is wrong or suspicious about `table` to `findings`. `origin` tells where
/// things stand, `messages` which messages the DBC file of each bus describes.
pub fn check(
    table: &Table,
    messages: &[&[Message]],
    origin: &dyn Fn(Place) -> Origin,
    findings: &Findings,
) {
    let regions = table.rules.iter().map(Region::from_rule).collect();
    let checker = Checker { table, regions, messages, origin, findings };
    checker.buses();
    checker.names();
    for (index, rule) in table.rules.iter().enumerate() {
        let rule = Subject { index, rule, checker: &checker };
        rule.ways();
        rule.matching();
        rule.cut_filters();
        rule.operations();
        rule.checksums();
    }
    checker.handles();
    checker.memory();
    checker.rates();
    checker.overlaps();
    checker.loops();
}

#[cfg(test)]
mod tests;
