//! [`Offline`]: rules applied to frames that were recorded, in the time of the recording.
//!
//! The decisions are those of the user plane: the same engine, fed with the stamps of the recording, so `rate`, `every`,
//! `on_change`, counters and checksums see its time. Nothing waits on a bus: each copy leaves at the time of the frame that it
//! was made of, a `deadline` is always met, and no queue is full.

use candor_engine::counters::Outcome;
use candor_engine::{BusIndex, Engine, Forward, Hops, Table};
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::plane::USER;
use crate::snapshot::{PortSnapshot, RuleSnapshot, Snapshot};

/// Rules that are applied to recorded frames.
#[derive(Debug)]
pub struct Offline {
    table: Table,
    engine: Engine,
    hops: Hops,
    /// The latest time so far; nothing before the first frame.
    now: Option<Nanos>,
    backwards: u64,
    /// Copies to each bus.
    copies: Box<[u64]>,
}

impl Offline {
    /// Rules that have seen nothing yet.
    #[must_use]
    pub fn new(table: Table) -> Self {
        let copies = table.buses.iter().map(|_| 0).collect();
        let (engine, hops) = (Engine::new(&table), Hops::default());
        Self { table, engine, hops, now: None, backwards: 0, copies }
    }

    /// Applies the rules to a frame that came in on `bus` at `time_ns`, and to its copies that come back; hands each copy that
    /// leaves to `take`, with its bus, in the order in which a gateway sends them.
    ///
    /// Time does not go back for rules: a frame that is stamped earlier than one before it is seen at the time of that one.
    pub fn apply(
        &mut self,
        time_ns: u64,
        bus: BusIndex,
        frame: &Frame,
        mut take: impl FnMut(BusIndex, &Frame),
    ) {
        let stamp = Nanos::from_nanos(time_ns);
        let now = self.now.map_or(stamp, |now| now.max(stamp));
        self.backwards += u64::from(stamp < now);
        self.now = Some(now);
        let Self { engine, hops, copies, .. } = self;
        engine.follow(now, bus, frame, hops, &mut |copy: Forward<'_>| {
            if let Some(count) = copies.get_mut(usize::from(copy.to.0)) {
                *count += 1;
            }
            take(copy.to, copy.frame);
            Outcome::Handled
        });
    }

    /// The rules.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How many frames so far were stamped earlier than one before them.
    #[must_use]
    pub fn backwards(&self) -> u64 {
        self.backwards
    }

    /// What was counted so far, as a gateway tells it; of the rules of `file`.
    #[must_use]
    pub fn snapshot(&self, file: &str) -> Snapshot {
        let counters = self.engine.counters();
        let name = |bus: BusIndex| {
            self.table.buses.get(usize::from(bus.0)).map(|bus| bus.name.clone()).unwrap_or_default()
        };
        let buses = self.table.buses.iter().zip(counters.buses()).zip(&self.copies);
        let port = |((bus, counted), &transmitted): ((&candor_engine::Bus, _), &u64)| {
            let mut port = PortSnapshot {
                bus: bus.name.clone(),
                port: bus.port.clone(),
                refuses_unmatched: self.table.refuses_others,
                transmitted,
                ..PortSnapshot::default()
            };
            port.count(counted);
            port
        };
        let jobs = self.engine.program().jobs().iter().zip(counters.jobs());
        let rule = |(job, counted): (&candor_engine::program::Job, _)| {
            let mut rule = RuleSnapshot {
                rule: job.rule.clone(),
                from: name(job.from),
                to: name(job.to),
                plane: USER.name.to_owned(),
                in_use: true,
                ..RuleSnapshot::default()
            };
            rule.count(&counted);
            rule
        };
        Snapshot {
            file: file.to_owned(),
            pid: std::process::id(),
            ports: buses.map(port).collect(),
            rules: jobs.map(rule).collect(),
            ..Snapshot::default()
        }
    }
}

#[cfg(all(test, feature = "daemon"))]
mod tests {
    use candor_causes::Cause;

    use super::*;

    fn offline(rule: &str) -> Offline {
        let text = format!("[bus]\na = \"can0\"\nb = \"can1\"\nc = \"can2\"\n{rule}");
        let (table, findings) = candor_rules::file::parse("t", &text);
        Offline::new(table.unwrap_or_else(|| panic!("{findings}")))
    }

    /// What leaves for frames at these milliseconds, all on the first bus.
    fn apply(offline: &mut Offline, frames: &[(u64, &str)]) -> Vec<(u64, u16, String)> {
        let mut found = Vec::new();
        for &(millis, frame) in frames {
            let frame = frame.parse().unwrap();
            offline.apply(millis * 1_000_000, BusIndex(0), &frame, |bus, copy| {
                found.push((millis, bus.0, copy.to_string()));
            });
        }
        found
    }

    #[test]
    fn rules_see_the_time_of_the_recording() {
        let rule = "[[rule]]\nname = \"r\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10/s\"\nburst = 1\n";
        let mut offline = offline(rule);
        let frames: Vec<_> = (0..100).map(|number| (1_000_000 + 30 * number, "123#11")).collect();
        let left = apply(&mut offline, &frames);
        // One in 100 ms: the first one after each 100 ms, so every fourth in 2,970 ms.
        assert_eq!(left.len(), 25);
        let Snapshot { ports, rules, .. } = offline.snapshot("t");
        assert_eq!((ports[0].received, ports[1].transmitted, offline.backwards()), (100, 25, 0));
        let refused = (Cause::Rate.name().to_owned(), 75);
        assert_eq!((rules[0].handled, rules[0].stopped.clone()), (25, [refused].into()));
    }

    #[test]
    fn time_that_goes_back_stands_still() {
        let rule = "[[rule]]\nname = \"r\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10/s\"\nburst = 1\n";
        let mut offline = offline(rule);
        let left = apply(
            &mut offline,
            &[(500, "123#01"), (100, "123#02"), (550, "123#03"), (600, "123#04"), (0, "123#05")],
        );
        let numbers: Vec<_> = left.iter().map(|(.., frame)| frame.as_str()).collect();
        assert_eq!((numbers, offline.backwards()), (vec!["123#01", "123#04"], 2));
    }

    #[test]
    fn copies_that_come_back_are_seen_by_the_rules_of_their_bus() {
        let rules = "[[rule]]\nname = \"in\"\nfrom = \"a\"\nto = \"b\"\necho = true\n\
                     [[rule]]\nname = \"on\"\nfrom = \"b\"\nto = \"c\"\n";
        let text =
            format!("max_hops = 2\n[bus]\na = \"can0\"\nb = \"can1\"\nc = \"can2\"\n{rules}");
        let (table, findings) = candor_rules::file::parse("t", &text);
        let mut offline = Offline::new(table.unwrap_or_else(|| panic!("{findings}")));
        let left = apply(&mut offline, &[(1, "123#11")]);
        assert_eq!(left, [(1, 1, "123#11".to_owned()), (1, 2, "123#11".to_owned())]);
    }
}
