//! [`Settings`]: what is read of an experiment in any world.

use candor_config::Section;
use candor_diagnostics::Origin;

use super::gateway;
use super::machine::{self, LoadSize};
use super::reader::Reader;
use super::seeds;
use crate::experiment::{Load, Testbed, Traffic};

/// What is read of an experiment in any world.
pub(super) struct Settings<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) testbed: Option<Testbed>,
    pub(super) seed: Option<u64>,
    pub(super) count: Option<u64>,
    pub(super) per_frame: Option<bool>,
    pub(super) load: Load,
    pub(super) load_size: LoadSize,
    pub(super) traffic: Option<Traffic>,
    pub(super) gateway: Option<gateway::Said<'a>>,
    pub(super) machine: machine::Said,
    pub(super) wants_tester: Option<bool>,
    pub(super) tester_origin: &'a Origin,
}

impl<'a> Settings<'a> {
    pub(super) fn read(mut file: Section<'a>, reader: &mut Reader<'_>) -> Self {
        file.string("name");
        let title = file.string("title");
        let testbeds = Testbed::ALL.map(|testbed| (testbed.name(), testbed));
        let testbed = file.one_of("testbed", &testbeds);
        let seed = file.integer("seed", 0..=i64::MAX.unsigned_abs());
        let _ = file.integer("seeds", 1..=seeds::MOST);
        let count = file.integer("count", 1..=i64::MAX.unsigned_abs());
        let per_frame = file.boolean("per_frame");
        let (load, load_size) = file.section("load").map(read_load).unwrap_or_default();
        let traffic = file.section("traffic").and_then(|section| reader.traffic(section));
        let gateway =
            file.section("gateway").map(|section| reader.gateway(section, traffic.as_ref()));
        let machine = reader.machine(file.section("vm"));
        let wants_tester = file.one_of("instrument", &[("wire", false), ("tester", true)]);
        let tester_origin = file.origin_of("instrument");
        file.finish();
        Self {
            title,
            testbed,
            seed,
            count,
            per_frame,
            load,
            load_size,
            traffic,
            gateway,
            machine,
            wants_tester,
            tester_origin,
        }
    }
}

/// Which load, and how much of it.
fn read_load(mut section: Section<'_>) -> (Load, LoadSize) {
    section.require(&["kind"]);
    let load = |cpu, ethernet| Load { cpu, ethernet };
    let kinds = [
        ("none", load(false, false)),
        ("cpu", load(true, false)),
        ("ethernet", load(false, true)),
        ("both", load(true, true)),
    ];
    let load = section.one_of("kind", &kinds).unwrap_or_default();
    let size = LoadSize::read(&mut section);
    section.finish();
    (load, size)
}
