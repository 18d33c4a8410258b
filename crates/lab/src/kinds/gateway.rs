//! CAN buses, with a gateway or without.
//!
//! ```text
//!  table -- reader, traffic, gateway --> what is said, in any world
//!                                          |-- sim --> World::Sim -- simulated --> ResultFile   a model, in virtual time
//!                                          \-- vm  --> World::Vm  -- guest     --> ResultFile   real kernels in QEMU
//! ```
//!
//! Every setting is read and checked in every world; a world takes what it needs, leaves alone what
//! is another's, and refuses what it cannot host.

mod columns;
mod doubt;
mod guest;
mod keys;
mod messages;
mod profile;
mod rules;
mod said;
mod settings;
mod sim;
mod simulated;
mod sources;
mod traffic;
mod vm;
mod vm_limits;

use std::path::Path;
use std::sync::Arc;

use candor_config::{Section, Table};
use candor_diagnostics::Findings;
use candor_lat::TapPath;
use candor_network::{Gateway, Network};
use candor_protocol::order::{self, Tester};

use self::said::{Hosted, Said};
use super::{Key, KindEntry};
use crate::error::Error;
use crate::experiment::{Experiment, InGuest, Kind, Run, Testbed, Vm};
use crate::reading::reader::Reader;
use crate::reading::{Common, Examined, Reading, read_load};
use crate::result::ResultFile;

pub use self::rules::{FilterKind, Generated, Modification};
pub use self::settings::{CanGateway, Pace, Sim, Traffic, World};
pub use self::sources::Numbered;

/// Frames sent unless a count is given; a recording is sent whole.
const DEFAULT_COUNT: u64 = 10_000;
/// A frame has at least so many bytes in a recording, to guess how many there are.
const LEAST_RECORDED_LEN: u64 = 32;

pub(super) static KIND: KindEntry = KindEntry {
    name: "can-gateway",
    testbeds: &[Testbed::Sim, Testbed::Vm],
    has_own_network: false,
    read,
    check_parts: Some(check_parts),
    keys: &KEYS,
    tables: &[(TapPath::CAN_GATEWAY, columns::columns), (TapPath::RECEPTION, columns::columns)],
};

static KEYS: [Key; 40] = [
    on_vm("vm"),
    on_vm("vm.*"),
    on_vm("load.groups"),
    on_vm("load.ping_bytes"),
    outside("load.datagrams"),
    outside("load.period"),
    outside("load.link"),
    on_vm("gateway.priority"),
    on_vm("gateway.receive_buffer"),
    on_vm("gateway.port"),
    on_vm("gateway.measures"),
    on_vm("gateway.command"),
    on_vm("gateway.files"),
    in_sim("gateway.profile"),
    in_sim("gateway.delay"),
    in_sim("gateway.egress"),
    in_sim("instrument"),
    with_errors("bus.*.bit_error_rate"),
    with_errors("bus.*.restart"),
    periodic("bus.*.dbc"),
    numbered("traffic.id"),
    numbered("traffic.length"),
    numbered("traffic.fd"),
    Key {
        pattern: "traffic.fill",
        uses: |it| sends(it, |traffic| !matches!(traffic, Traffic::Replay { .. })),
        advice: "no experiment generates frames; set traffic.kind=one-at-a-time, half, flood or periodic",
    },
    Key {
        pattern: "traffic.timeout",
        // On real kernels, a run waits so long for what is missing, and what comes later is late.
        uses: |it| {
            sends(it, |it| matches!(it, Traffic::Numbered { pace: Pace::OneAtATime { .. }, .. }))
                || runs(it, |world| matches!(world, World::Vm(_)))
                    && sends(it, |it| matches!(it, Traffic::Numbered { .. }))
        },
        advice: "no experiment waits for a frame to arrive; set traffic.kind=one-at-a-time, half, flood or open-loop",
    },
    Key {
        pattern: "traffic.turnaround_*",
        uses: |it| {
            let pace = |it: &Traffic| {
                let is_random =
                    |pace: &Pace| matches!(pace, Pace::OneAtATime { .. } | Pace::OpenLoop { .. });
                matches!(it, Traffic::Numbered { pace, .. } if is_random(pace))
            };
            sends(it, pace)
        },
        advice: "no experiment sends at random times; set traffic.kind=one-at-a-time or open-loop",
    },
    periodic("traffic.nodes*"),
    periodic("traffic.node"),
    periodic("traffic.node.*"),
    periodic("traffic.queue_depth"),
    periodic("traffic.offset"),
    periodic("traffic.offsets"),
    periodic("traffic.offsets.*"),
    periodic("traffic.dbc"),
    periodic("traffic.message"),
    periodic("traffic.queue"),
    replayed("traffic.log"),
    replayed("traffic.interface"),
    replayed("traffic.speed"),
    replayed("traffic.bus"),
];

fn sends(experiment: &Experiment, is_such: fn(&Traffic) -> bool) -> bool {
    experiment.of::<CanGateway>().is_some_and(|can| is_such(&can.traffic))
}

fn runs(experiment: &Experiment, is_there: fn(&World) -> bool) -> bool {
    experiment.of::<CanGateway>().is_some_and(|can| is_there(&can.world))
}

fn is_outside(world: &World) -> bool {
    matches!(world, World::Vm(vm) if vm.machine.tester == Tester::Outside)
}

const fn in_sim(pattern: &'static str) -> Key {
    let advice = "no experiment runs on the sim testbed; add --testbed sim";
    Key { pattern, uses: |it| runs(it, |world| matches!(world, World::Sim(_))), advice }
}

const fn on_vm(pattern: &'static str) -> Key {
    let advice = "no experiment runs on the vm testbed; add --testbed vm";
    Key { pattern, uses: |it| runs(it, |world| matches!(world, World::Vm(_))), advice }
}

const fn outside(pattern: &'static str) -> Key {
    let advice = "no experiment has its tester outside of the guest; remove vm.tester = \"inside\"";
    Key { pattern, uses: |it| runs(it, is_outside), advice }
}

const fn with_errors(pattern: &'static str) -> Key {
    let advice = "no experiment runs on buses that can have errors; add --testbed sim, or remove \
                  vm.tester = \"inside\"";
    let uses: fn(&Experiment) -> bool =
        |it| runs(it, |world| matches!(world, World::Sim(_)) || is_outside(world));
    Key { pattern, uses, advice }
}

const fn numbered(pattern: &'static str) -> Key {
    let advice =
        "no experiment sends numbered frames; set traffic.kind=one-at-a-time, half or flood";
    Key { pattern, uses: |it| sends(it, |it| matches!(it, Traffic::Numbered { .. })), advice }
}

const fn periodic(pattern: &'static str) -> Key {
    let advice = "no experiment sends periodic messages; set traffic.kind=periodic";
    Key { pattern, uses: |it| sends(it, |it| matches!(it, Traffic::Periodic)), advice }
}

const fn replayed(pattern: &'static str) -> Key {
    let advice = "no experiment replays a recording; set traffic.kind=replay";
    Key { pattern, uses: |it| sends(it, |it| matches!(it, Traffic::Replay { .. })), advice }
}

impl Kind for CanGateway {
    fn path(&self) -> &'static TapPath {
        match &self.world {
            World::Vm(vm) if matches!(vm.gateway, order::Gateway::Reader) => TapPath::RECEPTION,
            World::Vm(_) | World::Sim(_) => TapPath::CAN_GATEWAY,
        }
    }

    fn testbed(&self) -> Testbed {
        self.world.testbed()
    }

    fn frames_at_most(&self, count: u64) -> u64 {
        let Traffic::Replay { log, .. } = &self.traffic else { return count };
        let bytes = std::fs::metadata(log).map_or(0, |log| log.len());
        count.min(bytes / LEAST_RECORDED_LEN)
    }

    fn simulate<'a>(&'a self, run: Run<'a>) -> Option<Result<ResultFile, Error>> {
        let World::Sim(settings) = &self.world else { return None };
        Some(simulated::run(run, (self, settings)))
    }

    fn in_guest(&self) -> Option<(&dyn InGuest, &Vm)> {
        let World::Vm(vm) = &self.world else { return None };
        Some((self, vm))
    }
}

/// More frames of a warm-up warm nothing more.
const MOST_WARM_UP: u64 = 10_000;

impl<'a> Said<'a> {
    fn read(
        mut file: Section<'a>,
        table: &'a Table,
        reader: &mut Reader<'_>,
        testbed: Testbed,
    ) -> Self {
        let (load, load_size) = file.section("load").map(read_load).unwrap_or_default();
        let machine = reader.machine(file.section("vm"));
        let tester = said::place_of_tester(&machine, &reader.network.buses);
        let turnaround = match (testbed, tester) {
            (Testbed::Vm, Tester::Outside) => traffic::turnaround_outside(load, load_size),
            _ => traffic::SHORT_TURNAROUND,
        };
        let traffic =
            file.section("traffic").and_then(|section| reader.traffic(section, turnaround));
        let gateway =
            file.section("gateway").map(|section| reader.gateway(section, traffic.as_ref()));
        let warm_up = file.integer("warm_up", 0..=MOST_WARM_UP);
        let wants_tester = file.one_of("instrument", &[("wire", false), ("tester", true)]);
        let wants_tester = wants_tester == Some(true);
        let tester_origin = file.origin_of("instrument");
        file.finish();
        Self {
            gateway,
            load,
            load_size,
            machine,
            tester,
            traffic,
            warm_up,
            wants_tester,
            tester_origin,
            table,
        }
    }
}

fn read(reading: Reading<'_>) -> Option<Examined> {
    let Reading { mut file, table, common, base, network } = reading;
    let findings = file.findings();
    file.require(&["bus", "traffic"]);
    let mut reader = Reader::new(base, findings, &mut file);
    if let Some((name, path)) = &network.input {
        reader.input(name, path);
        reader.has_network = true;
    }
    network.doubt_gateway(table, findings);
    let testbed = common.testbed.unwrap_or(Testbed::Sim);
    let said = Said::read(file, table, &mut reader, testbed);
    let hosted = match testbed {
        Testbed::Sim => reader.sim(said),
        Testbed::Vm => reader.vm(said, common),
        // Refused above.
        Testbed::Host => None,
    };
    let Hosted { world, traffic, rules, conditions } = hosted?;
    let count = if matches!(traffic, Traffic::Replay { .. }) { u64::MAX } else { DEFAULT_COUNT };
    let gateway = rules.map(|rules| Gateway::new("gateway", rules));
    let network = Network { gateways: gateway.into_iter().collect(), ..reader.network };
    let kind = Arc::new(CanGateway { network, traffic, world });
    Some(Examined { kind, conditions, inputs: reader.inputs, count })
}

fn check_parts(table: &Table, base: &Path, findings: &Findings) {
    let mut file = Section::new(table, findings);
    Common::read(&mut file, &[KIND.name]);
    let mut reader = Reader::new(base, findings, &mut file);
    reader.network.buses.clear();
    Said::read(file, table, &mut reader, Testbed::Sim);
}
