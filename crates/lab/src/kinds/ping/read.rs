//! What is read of an experiment with round trips.
//!
//! ```toml
//! kind    = "ping"
//! testbed = "vm"      # or "sim", "host"
//!
//! [bus.can]
//! bitrate = "1M"
//!
//! [ping]
//! length   = 8        # bytes of data
//! period   = "1ms"    # each request at a random instant of its period; "0s": as soon as the answer is there
//! paced    = false    # true: also while others wait for their answers
//! timeout  = "100ms"  # an answer after this is late
//! priority = 60       # SCHED_FIFO, of master and slave; vm and host
//! virtual  = false    # true: both on one virtual device, where frames take no time; vm
//! partner  = "guest"  # or "outside": who answers is no program of the guest, and answers at once; vm
//! ```
//!
//! `[vm]` and `[load]` are as in experiments with gateways.

use std::sync::Arc;

use candor_config::Section;
use candor_diagnostics::Findings;
use candor_protocol::order::{self, Controller, Settings, Tester};
use candor_time::Nanos;

use super::{Partner, Ping, PingWorld};
use crate::experiment::{Load, Testbed, Vm};
use crate::reading::machine::{LoadSize, Said, conditions};
use crate::reading::reader::Reader;
use crate::reading::{Common, Examined, Reading, read_load};

/// Requests unless a count is given, as in the paper (Sojka and Pisa 2010, 4.1).
const DEFAULT_COUNT: u64 = 10_000;
const DEFAULT_PERIOD: Nanos = Nanos::from_millis(1);
const DEFAULT_TIMEOUT: Nanos = Nanos::from_millis(100);
/// In a guest the measurement is over when the bus is silent for 200 ms.
const MOST_PERIOD: Nanos = Nanos::from_millis(50);
const MOST_TIMEOUT: Nanos = Nanos::from_millis(150);
/// SCHED_FIFO, of master and slave.
const DEFAULT_PRIORITY: u8 = 60;
/// A guest keeps all time stamps in memory, and requests have numbers of 16 bits.
const MOST_COUNT: u64 = 65_536;

/// What the table `ping` says.
struct Trips {
    length: u8,
    period: Nanos,
    timeout: Nanos,
    is_open_loop: bool,
    is_virtual: bool,
    partner: Partner,
    priority: u8,
}

impl Trips {
    fn read(table: Option<Section<'_>>, testbed: Testbed, findings: &Findings) -> Self {
        let mut trips = Self {
            length: 8,
            period: DEFAULT_PERIOD,
            timeout: DEFAULT_TIMEOUT,
            is_open_loop: false,
            is_virtual: false,
            partner: Partner::Guest,
            priority: DEFAULT_PRIORITY,
        };
        let Some(mut section) = table else { return trips };
        let mut nanos = |key: &'static str, most: Nanos| {
            let value = section.nanos(key)?;
            if value > most && testbed == Testbed::Vm {
                let message =
                    format!("`{key}` is {value}, but the bus must not be silent for so long");
                let hint = format!("use {most} at most");
                findings.error_with_hint(section.origin_of(key), message, hint);
            }
            Some(value)
        };
        trips.period = nanos("period", MOST_PERIOD).unwrap_or(trips.period);
        trips.timeout = nanos("timeout", MOST_TIMEOUT).unwrap_or(trips.timeout);
        trips.length = section.integer("length", 1..=8).unwrap_or(trips.length);
        trips.is_open_loop = section.boolean("paced").unwrap_or_default();
        trips.priority = section.integer("priority", 0..=99).unwrap_or(trips.priority);
        trips.is_virtual = section.boolean("virtual").unwrap_or_default();
        if trips.timeout == Nanos::ZERO {
            let message = "`timeout` is 0, so every answer would be late";
            let hint = "give more than a round trip takes";
            findings.error_with_hint(section.origin_of("timeout"), message, hint);
        }
        if trips.is_open_loop && trips.period == Nanos::ZERO {
            let message = "without a period requests can only be sent one at a time";
            let hint = "write period = \"1ms\"";
            findings.error_with_hint(section.origin_of("period"), message, hint);
        }
        if trips.is_virtual && testbed != Testbed::Vm {
            let message = format!("the testbed `{testbed}` has no virtual device");
            let hint = "use testbed = \"vm\", or remove `virtual`";
            findings.error_with_hint(section.origin_of("virtual"), message, hint);
        }
        trips.read_partner(&mut section, testbed, findings);
        section.finish();
        trips
    }
}

/// The words for who answers.
const PARTNERS: [(&str, Partner); 2] = [("guest", Partner::Guest), ("outside", Partner::Outside)];

impl Trips {
    /// Who answers, and whether that can be.
    fn read_partner(&mut self, section: &mut Section<'_>, testbed: Testbed, findings: &Findings) {
        self.partner = section.one_of("partner", &PARTNERS).unwrap_or(self.partner);
        if self.partner == Partner::Guest {
            return;
        }
        let origin = section.origin_of("partner");
        if testbed != Testbed::Vm {
            let message =
                format!("the testbed `{testbed}` has no guest that a partner could be outside of");
            findings.error_with_hint(origin, message, "use testbed = \"vm\", or remove `partner`");
        } else if self.is_virtual {
            let message = "a partner outside of the guest does not see its virtual device";
            findings.error_with_hint(
                origin,
                message,
                "remove `virtual`, or use partner = \"guest\"",
            );
        }
    }
}

pub(super) fn read(reading: Reading<'_>) -> Option<Examined> {
    let Reading { mut file, common, base, .. } = reading;
    let findings = file.findings();
    let testbed = common.testbed.unwrap_or(Testbed::Sim);
    file.require(&["bus"]);
    let mut reader = Reader::new(base, findings, &mut file);
    if reader.network.buses.len() > 1 {
        let hint = "master and slave are on one bus: remove the others";
        findings.error_with_hint(file.origin_of("bus"), "there are several buses", hint);
    }
    let trips = Trips::read(file.section("ping"), testbed, findings);
    let load = file.section("load").map(read_load).unwrap_or_default();
    let said = reader.machine(file.section("vm"));
    let (world, conditions) = match testbed {
        Testbed::Vm => vm(&trips, load, said, (&file, common, &reader)),
        Testbed::Sim | Testbed::Host => {
            if load.0 != Load::default() {
                let message = format!("the testbed `{testbed}` has no load for round trips");
                let hint = "use testbed = \"vm\", or load.kind = \"none\"";
                findings.error_with_hint(file.origin_of("load"), message, hint);
            }
            match testbed {
                Testbed::Sim => {
                    let faults = reader.faults.first().copied().unwrap_or_default();
                    let conditions = "simulation, virtual time; master and slave on one bus, programs that take no time";
                    (PingWorld::Sim(faults), conditions.to_owned())
                }
                _ => {
                    let conditions =
                        "threads of this machine; master and slave on one bus of the driver sim:";
                    (PingWorld::Host { priority: trips.priority }, conditions.to_owned())
                }
            }
        }
    };
    let bus_origin = file.origin_of("bus").clone();
    file.finish();
    let bus = reader.network.buses.pop()?;
    if bus.is_fd {
        let hint = "use a bus without data_bitrate";
        findings.error_with_hint(&bus_origin, "requests and answers are classical frames", hint);
    }
    let Trips { length, period, timeout, is_open_loop, .. } = trips;
    let ping = Ping { bus, length, period, is_open_loop, timeout, world };
    let kind = Arc::new(ping);
    Some(Examined { kind, conditions, inputs: reader.inputs, count: DEFAULT_COUNT })
}

/// The guest, and what it is, for people.
fn vm(
    trips: &Trips,
    (load, size): (Load, LoadSize),
    said: Said,
    (file, common, reader): (&Section<'_>, &Common<'_>, &Reader<'_>),
) -> (PingWorld, String) {
    let findings = reader.findings;
    if let Some(count) = common.count.filter(|&count| count > MOST_COUNT) {
        let message = format!("`count` is {count}, but there can be {MOST_COUNT} requests");
        findings.error_with_hint(file.origin_of("count"), message, "use several seeds");
    }
    if said.tester.is_some() || said.controller == Some(Controller::CtuCanFd) {
        let message = "round trips have SJA1000 controllers and a tester of their own";
        findings.error_with_hint(file.origin_of("vm"), message, "remove `tester` and `controller`");
    }
    // With a partner outside no other controller of the guest is on the bus.
    let tester = match trips.partner {
        Partner::Guest => Tester::Master,
        Partner::Outside => Tester::Outside,
    };
    let machine = said.choice(tester, common.seed);
    let settings = Settings { gateway_priority: trips.priority, ..said.settings() };
    let driver = said.driver.describe();
    let who = match (trips.partner, trips.is_virtual) {
        (Partner::Guest, true) => format!("master and slave on {driver}, on one virtual device"),
        (Partner::Guest, false) => format!("master and slave on {driver}, on one bus"),
        (Partner::Outside, _) => {
            format!("master on {driver}, its partner outside of the guest, which answers at once")
        }
    };
    let description = format!("{who}; {}", load.describe());
    let conditions = conditions(&machine, &description);
    let vm = Box::new(Vm {
        machine,
        faults: reader.faults.clone(),
        controller: Controller::Sja1000,
        driver: said.driver,
        gateway: match trips.partner {
            Partner::Guest => order::Gateway::Slave,
            Partner::Outside => order::Gateway::None,
        },
        load: size.order(load),
        settings,
        files: Vec::new(),
        warm_up: None,
        description,
    });
    (PingWorld::Vm { is_virtual: trips.is_virtual, partner: trips.partner, vm }, conditions)
}
