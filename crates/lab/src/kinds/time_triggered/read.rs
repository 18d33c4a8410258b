//! What is read of an experiment with time-triggered Ethernet.
//!
//! ```toml
//! kind = "time-triggered"
//!
//! [network]                       # as in a network file of `candor tte`, or laid over one:
//! file = "one-switch.tte.toml"
//! flow.measured.size = 1518
//!
//! [measure]
//! flow      = "measured"          # needed if there are several
//! receiver  = "receiver"          # needed if it has several
//! framing   = "frame"             # or "preamble": where a latency begins
//! published = "471us"             # what somebody else measured, for tables; or by size: { 64 = "355us", 1518 = "471us" }
//!
//! [driver]                        # of a simulation: what a driver that stamps late adds
//! copied_from = 128
//! copy        = "90us"
//! copy_jitter = "20us"
//! ```

use std::path::Path;
use std::sync::Arc;

use candor_config::{Section, Table, Value};
use candor_diagnostics::{Findings, Origin, Severity, Source, list_of_names};
use candor_time::Nanos;
use candor_tte::check::check;
use candor_tte::file::{Places, read_with_places};
use candor_tte::model::Framing;
use candor_tte::{Network, SIZES};

use super::{TimeStamping, TimeTriggered};
use crate::error::Error;
use crate::experiment::Testbed;
use crate::locate::locate;
use crate::reading::reader::digest;
use crate::reading::{Examined, Reading, read_text};
use crate::result::InputFile;

/// Frames unless a count is given, as in the paper (Bartols and others 2011, V-A).
const DEFAULT_COUNT: u64 = 100;

pub(super) fn read(reading: Reading<'_>) -> Option<Examined> {
    let Reading { mut file, table, common, base, .. } = reading;
    let findings = file.findings();
    file.require(&["network"]);
    let _ = file.value("network");
    let (mut flow, mut receiver, mut framing, mut published) = (None, None, None, None);
    if let Some(mut section) = file.section("measure") {
        flow = section.string("flow").map(|name| (name, section.origin_of("flow")));
        receiver = section.string("receiver").map(|name| (name, section.origin_of("receiver")));
        framing = section
            .one_of("framing", &[("frame", Framing::Frame), ("preamble", Framing::Preamble)]);
        published = section.value("published");
        section.finish();
    }
    let mut instrument = TimeStamping::default();
    if let Some(mut section) = file.section("driver") {
        section.require(&["copied_from", "copy"]);
        instrument = TimeStamping {
            copied_from: section.integer("copied_from", SIZES),
            copy: section.nanos("copy").unwrap_or_default(),
            copy_jitter: section.nanos("copy_jitter").unwrap_or_default(),
        };
        section.finish();
    }
    let origin = file.origin_of("network");
    let driver_origin = file.origin_of("driver");
    file.finish();
    let value = table.get("network").and_then(Value::as_table)?;
    let ((network, places), inputs) = network(value, base, findings)?;
    let schedule_errors = schedule_errors(&network, &places);
    let named = |wanted, names: &[&str], what: &str, key: &str| {
        one_of(wanted, names, (what, key), origin, findings)
    };
    let scheduled: Vec<_> = network.flows.iter().filter(|flow| flow.is_time_triggered()).collect();
    if scheduled.is_empty() {
        findings.error(origin, "no flow is time-triggered, so none can be measured");
        return None;
    }
    let names: Vec<_> = scheduled.iter().map(|flow| flow.name.as_str()).collect();
    let flow = scheduled[named(flow, &names, "time-triggered flow", "flow")?];
    let receivers: Vec<_> = flow.to.iter().map(|&node| network.nodes[node].name.as_str()).collect();
    let receiver = flow.to[named(receiver, &receivers, "receiver", "receiver")?];
    let published = published.and_then(|value| published_for(flow.size, value, findings));
    let flow = network.flow(&flow.name)?;
    let testbed = common.testbed.unwrap_or(Testbed::Sim);
    if testbed == Testbed::Host {
        let has_driver = instrument != TimeStamping::default();
        refuse_on_host(&network, origin, has_driver.then_some(driver_origin), findings);
    }
    let framing = framing.unwrap_or_default();
    let time_triggered = TimeTriggered {
        network,
        flow,
        receiver,
        framing,
        published,
        instrument,
        testbed,
        schedule_errors,
    };
    let conditions = time_triggered.describe();
    let kind = Arc::new(time_triggered);
    Some(Examined { kind, conditions, inputs, count: DEFAULT_COUNT })
}

/// The place of the name that is wanted among these; of the only one, if none is.
fn one_of(
    wanted: Option<(&str, &Origin)>,
    names: &[&str],
    (what, key): (&str, &str),
    origin: &Origin,
    findings: &Findings,
) -> Option<usize> {
    match wanted {
        Some((name, origin)) => {
            let index = names.iter().position(|it| *it == name);
            if index.is_none() {
                let hint = format!("there are {}", list_of_names(names.iter().copied(), "and"));
                findings.error_with_hint(origin, format!("unknown {what} `{name}`"), hint);
            }
            index
        }
        None if names.len() == 1 => Some(0),
        None => {
            let message = format!("there are {} of which one is measured", names.len());
            let hint = format!("say which, as in measure.{key} = \"{}\"", names.first()?);
            findings.error_with_hint(origin, format!("{what}: {message}"), hint);
            None
        }
    }
}

/// What a machine has of its own cannot be set.
fn refuse_on_host(
    network: &Network,
    origin: &Origin,
    driver: Option<&Origin>,
    findings: &Findings,
) {
    let clocks = "`drift` and `synchronisation`: this machine has one clock";
    let refused = [
        (network.has_clocks().then_some(origin), clocks),
        (driver, "`driver`: this machine has drivers of its own"),
    ];
    for (origin, what) in refused {
        if let Some(origin) = origin {
            let message = format!("the testbed `host` cannot have {what}");
            findings.error_with_hint(origin, message, "use testbed = \"sim\", or remove it");
        }
    }
}

/// What was published for frames of that size.
fn published_for(size: u16, value: &Value, findings: &Findings) -> Option<Nanos> {
    let Some(table) = value.as_table() else { return value.nanos("published", findings) };
    let mut found = None;
    for entry in table.entries() {
        let latency = entry.value.nanos(&entry.key, findings);
        match entry.key.parse::<u16>() {
            Ok(of) if of == size => found = latency,
            Ok(_) => {}
            Err(_) => findings.error_with_hint(
                &entry.origin,
                format!("`{}` is no size in bytes", entry.key),
                "write published = { 64 = \"355us\" }",
            ),
        }
    }
    found
}

/// The network of an experiment: its own table, laid over the file that it names.
fn network(
    table: &Table,
    base: &Path,
    findings: &Findings,
) -> Option<((Network, Places), Vec<InputFile>)> {
    let mut own = table.clone();
    let Some(file) = own.remove("file") else {
        return Some((read_with_places(Section::new(&own, findings))?, Vec::new()));
    };
    let Some(name) = file.as_str() else {
        file.wrong_type("file", "the name of a network file", findings);
        return None;
    };
    let path = locate(base, name);
    let read = read_text(&path).and_then(|text| {
        let sha256 = digest(&path).map_err(|error| Error::read(&path, error))?;
        Ok((text, InputFile { path: name.to_owned(), sha256 }))
    });
    let (text, input) = match read {
        Ok(read) => read,
        Err(error) => {
            findings.error(&file.origin, error.to_string());
            return None;
        }
    };
    let source = Source::new(path.display().to_string(), text);
    let mut whole = candor_config::parse(&source, findings)?;
    whole.merge(own);
    Some((read_with_places(Section::new(&whole, findings))?, vec![input]))
}

/// What the checker says is wrong with a schedule.
fn schedule_errors(network: &Network, places: &Places) -> Vec<String> {
    let findings = Findings::new();
    check(network, places, &findings);
    let errors = findings.sorted().into_iter().filter(|it| it.severity == Severity::Error);
    errors.map(|finding| finding.message).collect()
}

impl TimeTriggered {
    /// What is examined, for people.
    fn describe(&self) -> String {
        let flow = &self.network.flows[self.flow];
        let receiver = &self.network.nodes[self.receiver].name;
        let world = match self.testbed {
            Testbed::Host => "veth pairs of this machine, switches that are programs",
            _ => "simulated links, switches and end systems",
        };
        format!(
            "{world}; time-triggered frames of {} bytes, `{}`, from {} to {receiver} every {}",
            flow.size,
            flow.name,
            self.network.nodes[flow.from].name,
            flow.period().unwrap_or(self.network.cycle),
        )
    }
}
