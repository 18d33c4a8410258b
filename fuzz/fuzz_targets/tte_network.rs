//! The reader of networks of time-triggered Ethernet, and what is computed from one: the checker, the schedule and the model. A
//! schedule without an error and without drift is simulated for some cycles, and no time-triggered frame is lost there.
#![no_main]

use candor_sim::Time;
use candor_sim::tte::{Observer, Record, World};
use candor_tte::check::check;
use candor_tte::file::parse_with_places;
use candor_tte::model::Framing;
use candor_tte::{Network, Relaying, Role};

/// Longer cycles and faster frames take too long here.
const MOST_FRAMES: u64 = 2_000;
const CYCLES: u64 = 3;

struct Scheduled<'a>(&'a Network);

impl Observer for Scheduled<'_> {
    fn record(&mut self, record: &Record) {
        let flow = &self.0.flows[record.flow];
        assert!(!flow.is_time_triggered() || record.fate.is_ok(), "{}: {record:?}", flow.name);
    }
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (network, findings) = parse_with_places("fuzz", text);
    let Some((network, places)) = network else {
        assert!(findings.has_errors());
        return;
    };
    let mut frames = 0_u64;
    for direction in check(&network, &places, &findings) {
        assert!(direction.load.total().is_finite());
        frames = frames.saturating_add(direction.frames(network.cycle));
        if frames > MOST_FRAMES {
            break;
        }
        let occupied = direction.occupied(network.cycle).expect("few are listed");
        assert_eq!(occupied.len() as u64, direction.frames(network.cycle));
        let _ = direction.longest_gap(network.cycle);
    }
    for finding in findings.sorted() {
        assert!(finding.origin.line_column().0 > 0);
    }
    for (index, flow) in network.flows.iter().enumerate() {
        assert!(flow.to.iter().all(|&to| network.latency(index, to, Framing::Frame).is_some()));
    }
    let has_schedules = network.nodes.iter().all(|node| match node.role {
        Role::Switch(switch) => matches!(switch.relaying, Relaying::TimeTriggered(_)),
        Role::EndSystem(_) => true,
    });
    // Others are so many that it would take too long.
    let is_quick = network.flows.iter().all(|flow| flow.is_time_triggered());
    let is_sure = findings.is_empty() && has_schedules && !network.has_clocks();
    if is_sure && is_quick && frames <= MOST_FRAMES && !network.flows.is_empty() {
        let end_ns = network.cycle.as_nanos() * (CYCLES + 1);
        World::new(network.clone(), 1)
            .run_until(Time::from_nanos(end_ns), &mut Scheduled(&network));
    }
});
