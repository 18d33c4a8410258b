//! What is read of an experiment with round trips.
//!
//! ```toml
//! kind    = "ping"
//! testbed = "vm"
//!
//! [bus.can]
//! bitrate = "1M"
//!
//! [ping]
//! length   = 8        # bytes of data
//! period   = "1ms"    # each request at a random instant of its period; "0s": as soon as the answer is there
//! paced    = false    # true: also while others wait for their answers
//! timeout  = "100ms"  # an answer after this is late
//! priority = 60       # SCHED_FIFO, of master and slave
//! virtual  = false    # true: both on one virtual device, where frames take no time
//! ```
//!
//! `[vm]` and `[load]` are as in experiments with gateways.

use std::sync::Arc;

use candor_config::Section;
use candor_diagnostics::Findings;
use candor_protocol::order::{self, Controller, Settings, Tester};
use candor_time::Nanos;
use candor_vm::Speed;

use super::Ping;
use crate::experiment::{KernelChoice, MachineChoice, Vm};
use crate::reading::machine::DEFAULT_KERNEL;
use crate::reading::reader::Reader;
use crate::reading::{Examined, Reading, read_load};

/// Requests unless a count is given, as in the paper (Sojka and Pisa 2010, 4.1).
const DEFAULT_COUNT: u64 = 10_000;
const DEFAULT_PERIOD: Nanos = Nanos::from_millis(1);
const DEFAULT_TIMEOUT: Nanos = Nanos::from_millis(100);
/// When the bus is silent for 200 ms, the measurement is over.
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
    priority: u8,
}

impl Trips {
    fn read(mut table: Option<Section<'_>>, findings: &Findings) -> Self {
        let mut nanos = |key: &'static str, most: Nanos| {
            let section = table.as_mut()?;
            let value = section.nanos(key)?;
            if value > most {
                let message =
                    format!("`{key}` is {value}, but the bus must not be silent for so long");
                let hint = format!("use {most} at most");
                findings.error_with_hint(section.origin_of(key), message, hint);
            }
            Some(value)
        };
        let mut trips = Self {
            length: 8,
            period: nanos("period", MOST_PERIOD).unwrap_or(DEFAULT_PERIOD),
            timeout: nanos("timeout", MOST_TIMEOUT).unwrap_or(DEFAULT_TIMEOUT),
            is_open_loop: false,
            is_virtual: false,
            priority: DEFAULT_PRIORITY,
        };
        if let Some(mut section) = table {
            trips.length = section.integer("length", 1..=8).unwrap_or(trips.length);
            trips.is_open_loop = section.boolean("paced").unwrap_or_default();
            trips.priority = section.integer("priority", 0..=99).unwrap_or(trips.priority);
            trips.is_virtual = section.boolean("virtual").unwrap_or_default();
            if trips.is_open_loop && trips.period == Nanos::ZERO {
                let message = "without a period requests can only be sent one at a time";
                let hint = "write period = \"1ms\"";
                findings.error_with_hint(section.origin_of("period"), message, hint);
            }
            section.finish();
        }
        trips
    }
}

/// Reads one.
pub(super) fn read(reading: Reading<'_>) -> Option<Examined> {
    let Reading { mut file, common, base, .. } = reading;
    let findings = file.findings();
    file.require(&["testbed", "bus"]);
    let mut reader = Reader::new(base, findings, &mut file);
    if reader.network.buses.len() > 1 {
        let hint = "master and slave are on one bus: remove the others";
        findings.error_with_hint(file.origin_of("bus"), "there are several buses", hint);
    }
    if let Some(count) = common.count.filter(|&count| count > MOST_COUNT) {
        let message = format!("`count` is {count}, but there can be {MOST_COUNT} requests");
        findings.error_with_hint(file.origin_of("count"), message, "use several seeds");
    }
    let Trips { length, period, timeout, is_open_loop, is_virtual, priority } =
        Trips::read(file.section("ping"), findings);
    let (load, size) = file.section("load").map(read_load).unwrap_or_default();
    let origin = file.origin_of("vm").clone();
    let said = reader.machine(file.section("vm"));
    if said.tester.is_some() || said.controller == Some(Controller::CtuCanFd) {
        let message = "round trips have SJA1000 controllers and a tester of their own";
        findings.error_with_hint(&origin, message, "remove `tester` and `controller`");
    }
    file.finish();
    let bus = reader.network.buses.pop()?;
    if bus.is_fd {
        let hint = "use a bus without data_bitrate";
        findings.error_with_hint(&origin, "an SJA1000 does not support CAN FD", hint);
    }
    let machine = MachineChoice {
        kernel: said.kernel.unwrap_or_else(|| KernelChoice::Named(DEFAULT_KERNEL.into())),
        mips: said.mips.unwrap_or(Speed::default().mips()),
        parameters: said.parameters.unwrap_or_default(),
        tester: Tester::Master,
    };
    let settings = Settings {
        gateway_priority: priority,
        interrupt_priority: said.interrupt_priority,
        napi_thread_priority: said.napi_thread_priority,
        backlog_priority: said.backlog_priority,
        netdev_budget: said.netdev_budget,
        ..Settings::default()
    };
    let driver = said.driver.describe();
    let bus_of_both = if is_virtual { "one virtual device" } else { "one bus" };
    let description =
        format!("master and slave on {driver}, on {bus_of_both}; {}", load.describe());
    let conditions = format!(
        "Linux {} in QEMU, {}: path lengths, not a forecast for a board; {description}",
        machine.kernel,
        Speed::from_mips(machine.mips).unwrap_or_default(),
    );
    let load = order::Load {
        hackbench_groups: load.cpu.then_some(size.groups),
        ethernet: load.ethernet.then_some(size.ethernet),
    };
    let vm = Vm {
        machine,
        faults: reader.faults,
        controller: Controller::Sja1000,
        driver: said.driver,
        gateway: order::Gateway::Slave,
        load,
        settings,
        files: Vec::new(),
        description,
    };
    let ping = Ping { bus, length, period, is_open_loop, timeout, is_virtual, vm };
    let kind = Arc::new(ping);
    Some(Examined { kind, conditions, inputs: reader.inputs, count: DEFAULT_COUNT })
}
