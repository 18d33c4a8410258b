//! A kind of experiments of somebody else is one file, and one place in a list of kinds: this file has both. It echoes
//! frames after a constant delay.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use candor_lab::builder::{Copied, ResultBuilder, Sight};
use candor_lab::campaign::{self, Options};
use candor_lab::columns::{Column, Columns, Shown};
use candor_lab::experiment::{Experiment, Kind, Run, Testbed};
use candor_lab::kinds::{Examined, KINDS, Key, KindEntry, Kinds, Reading};
use candor_lab::quantity::Quantity;
use candor_lab::result::ResultFile;
use candor_lab::run::{self, Ended, Outcome, Progress, Settings};
use candor_lab::testbed::Testbeds;
use candor_lab::{Error, report};
use candor_lat::account::{End, Terms};
use candor_lat::{Metric, Tap, TapPath, Taps};
use candor_time::Nanos;

/// The list.
static ALL: Kinds = &[KINDS[0], &ECHO];

static ECHO: KindEntry = KindEntry {
    name: "echo",
    testbeds: &[Testbed::Sim],
    has_own_network: false,
    read,
    check_parts: None,
    keys: &[Key {
        pattern: "echo.*",
        uses: |it| it.of::<Echo>().is_some(),
        advice: "nothing echoes",
    }],
    tables: &[(TapPath::ROUND_TRIP, columns)],
};

/// Its settings.
#[derive(Debug)]
struct Echo {
    delay: Nanos,
}

fn read(reading: Reading<'_>) -> Option<Examined> {
    let mut file = reading.file;
    file.require(&["echo"]);
    let mut section = file.section("echo")?;
    let delay = section.nanos("delay").unwrap_or(Nanos::from_micros(1));
    section.finish();
    file.finish();
    let conditions = format!("an echo after {delay}");
    Some(Examined { kind: Arc::new(Echo { delay }), conditions, inputs: Vec::new(), count: 10 })
}

impl Kind for Echo {
    fn path(&self) -> &'static TapPath {
        TapPath::ROUND_TRIP
    }

    fn testbed(&self) -> Testbed {
        Testbed::Sim
    }

    fn simulate<'a>(&'a self, run: Run<'a>) -> Option<Result<ResultFile, Error>> {
        let count = run.experiment.count;
        let terms = Terms { is_exact: true, ..Terms::new(self.path()) };
        let sight = Sight { taps: self.path().taps(), has_rules: false };
        let mut builder = ResultBuilder::new(terms, sight, run);
        for number in 0..count {
            let sent_ns = number * 1_000_000;
            let taps = Taps::new(self.path()).with(Tap::Queued, sent_ns);
            let taps = taps.with(Tap::Answered, sent_ns + self.delay.as_nanos());
            let end = End::received(number, &taps);
            let (passed, received) = ("delivered", Some(&"echo" as &dyn std::fmt::Display));
            builder.add(&Copied { end, sent: None, received, passed, rule: "" });
        }
        Some(builder.finish())
    }
}

fn columns(_: &[&ResultFile]) -> Columns {
    let longest = Quantity::Latency(Metric::RoundTrip, "max");
    let columns = vec![Column::quantity("longest", Shown::Duration, longest)];
    Columns { has_runs: false, columns, legend: String::new() }
}

/// What uses it.
const FILE: &str = "\
name = 'one'
kind = 'echo'
[echo]
delay = '5us'
[[claim]]
id = 'A'
says = 'an echo takes 5 us'
value = 'one round_trip max'
at_least = 5
at_most = 5
";

struct Silent;
impl Progress for Silent {
    fn proceed(&self, _: &Experiment, _: Nanos, _: u64) -> bool {
        true
    }
    fn finished(&self, _: &Experiment, _: &Ended) {}
}

fn run(set: &[&str], out: &Path) -> Result<(Outcome, bool), Error> {
    let set = set.iter().map(ToString::to_string).collect();
    let options = Options { set, kinds: ALL, ..Options::default() };
    let campaign = campaign::parse("t.toml", FILE, Path::new("."), &options)?;
    let testbeds = Testbeds::default();
    let command = |_: &Experiment| "again".into();
    let settings =
        Settings { testbeds: &testbeds, command: &command, out, jobs: 1, verifies: true };
    let outcome = run::run(&campaign.experiments, &settings, &Silent)?;
    let agrees = campaign.claims[0].judge(&outcome.results()).agrees();
    Ok((outcome, agrees))
}

#[test]
fn a_kind_of_somebody_else_runs_reports_and_has_a_claim() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, agrees) = run(&[], folder.path()).unwrap();
    assert!(agrees && outcome.differences.is_empty());
    let [ran] = &outcome.finished[..] else { panic!("{outcome:?}") };
    assert_eq!((ran.result.counts.received, ran.result.path.as_str()), (10, "round-trip"));
    assert!(report::write(folder.path(), report::Besides::default()).unwrap().index.is_file());
    let csv = fs::read_to_string(folder.path().join("results/one.csv")).unwrap();
    assert_eq!(csv.lines().nth(1), Some("0,,echo,delivered,0,5000,5000"));
    let (_, agrees) = run(&["echo.delay=6us"], folder.path()).unwrap();
    assert!(!agrees, "what was set has an effect");
    for (set, reason) in [
        ("echo.dely=1us", "unknown key `dely`"),
        ("testbed=host", "has no experiments of the kind `echo`"),
    ] {
        let error = run(&[set], folder.path()).unwrap_err().to_string();
        assert!(error.contains(reason), "{set}: {error}");
    }
}
