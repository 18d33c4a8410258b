//! Experiments with time-triggered Ethernet: what is read, and what comes out of a simulation and of this machine.

use std::path::Path;

use candor_lab::campaign::{self, Options};
use candor_lab::experiment::Run;
use candor_lab::host::Host;
use candor_lab::kinds::TimeTriggered;
use candor_lab::result::ResultFile;
use candor_lab::runner::Runner;
use candor_lab::sections::{FLOW, INSTRUMENT, SCHEDULE};
use candor_lab::simulate::Simulation;
use candor_lab::{Campaign, Error, sweep};
use candor_lat::Metric;
use candor_lat::section::Cell;

/// One switch between two end systems, and a third one that sends best-effort frames.
const NETWORK: &str = r#"
    kind = "time-triggered"
    count = 50
    [network]
    cycle = "3ms"
    end_system = { server = {}, analyzer = {}, other = {} }
    switch.switch.processing = "5us"
    link.in = { between = ["server", "switch"], delay = "2ns" }
    link.out = { between = ["switch", "analyzer"], delay = "3ns" }
    link.other = { between = ["other", "switch"] }
    flow.load = { class = "be", from = "other", to = "analyzer", size = 1518, load = 0 }
    [network.flow.measured]
    class = "tt"
    id = 1
    from = "server"
    to = "analyzer"
    send = "800us"
    relay_delay = "350us"
"#;

fn read(text: &str) -> Result<Campaign, Error> {
    campaign::parse("t.toml", &format!("{NETWORK}{text}"), Path::new("."), &Options::default())
}

fn run_each(text: &str, runner: &dyn Runner) -> Result<Vec<ResultFile>, Error> {
    let campaign = read(text).unwrap_or_else(|error| panic!("{error}"));
    let run = |experiment| {
        let run = Run { command: "again".into(), ..Run::unwatched(experiment) };
        runner.run(run, true).map(|ran| ran.result)
    };
    campaign.experiments.iter().map(run).collect()
}

fn simulate(text: &str) -> Vec<ResultFile> {
    run_each(text, &Simulation).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn without_jitter_nothing_is_left_of_the_latency_but_the_model() {
    let results = simulate(
        "[measure]\npublished = { 64 = \"355us\", 1518 = \"471us\" }\n\
         [matrix]\nnetwork.flow.measured.size = [64, 512, 1518]\n",
    );
    for (result, model_ns, published_ns) in [
        (&results[0], 355_125, Some(355_000)),
        (&results[1], 390_965, None),
        (&results[2], 471_445, Some(471_000)),
    ] {
        let of_flow = |key| result.sections.number(&FLOW, key);
        let known = |ns: u64| Some(ns as f64);
        assert_eq!((result.counts.sent, result.counts.received), (50, 50));
        assert_eq!(of_flow("model_ns"), known(model_ns));
        assert_eq!(of_flow("equation_3_ns"), known(model_ns));
        assert_eq!(of_flow("published_ns"), published_ns.and_then(known));
        assert_eq!((of_flow("jitter_ns"), of_flow("relay_delay_ns")), (known(0), known(350_000)));
        assert_eq!(result.counts.late, 0);
        assert!(result.notes.is_empty(), "{:?}", result.notes);
        let schedule = result.sections.rows(&SCHEDULE);
        assert_eq!(schedule.len(), 2, "two directions have time-triggered frames");
        assert!(schedule.iter().all(|it| matches!(&it["frames"], Cell::Rows(it) if it.len() == 1)));
        let latency = result.metric(Metric::NetworkLatency).unwrap();
        assert_eq!((latency.min_ns, latency.max_ns), (model_ns as i64, model_ns as i64));
        for metric in [Metric::Residual, Metric::Departure, Metric::Arrival] {
            let figures = result.metric(metric).unwrap();
            assert_eq!((figures.min_ns, figures.max_ns), (0, 0), "{}", metric.key());
        }
    }
}

#[test]
fn what_misses_its_instant_is_a_cycle_late_or_overwritten() {
    let text = NETWORK
        .replace("server = {}", "server = { jitter = \"10us\" }")
        .replace("relay_delay = \"350us\"", "relay_delay = \"12us\"");
    let options = Options::default();
    let campaign = campaign::parse("t.toml", &text, Path::new("."), &options);
    let campaign = campaign.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let experiment = &campaign.experiments[0];
    let result = Simulation.run(Run::unwatched(experiment), true).unwrap().result;
    let counts = result.counts;
    assert!(counts.late > 0 && counts.lost > 0, "{counts:?}");
    assert_eq!(counts.received + counts.lost, 50);
    assert!(result.stopped.iter().all(|it| it.cause == "overwritten"), "{:?}", result.stopped);
    assert!(result.sections.number(&FLOW, "jitter_ns") > Some(2_900_000.0));
}

#[test]
fn a_schedule_with_errors_is_measured_and_they_are_said() {
    let results = simulate("[matrix]\nnetwork.flow.measured.relay_delay = [\"1us\"]\n");
    let note = "the schedule has 1 error: `measured` can leave switch `switch` 10.76us behind";
    assert!(results[0].notes[0].starts_with(note), "{:?}", results[0].notes);
    assert_eq!(results[0].counts.late, 50);
}

#[test]
fn sweeps_keep_experiments_apart() {
    let results = simulate(
        "[[experiment]]\nname = \"a\"\n[[experiment]]\nname = \"b\"\ntitle = \"Long\"\n\
         [[experiment]]\nname = \"c\"\ntitle = \"Long\"\nmatrix.network.flow.measured.send = [\"900us\"]\n\
         [matrix]\nnetwork.flow.measured.size = [512, 64]\n\
         network.flow.measured.relay_delay = [\"0.2ms\", \"350us\", \"100us\"]\n",
    );
    let results: Vec<_> = results.iter().collect();
    let axes = sweep::axes(&results);
    let axis = sweep::named(&axes, "relay_delay")[0];
    let sweeps = sweep::sweeps(&results, axis, Metric::NetworkLatency);
    let names: Vec<_> = sweeps.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "a · size 64",
            "b · size 64",
            "a · size 512",
            "b · size 512",
            "c · send 900us · size 64",
            "c · send 900us · size 512"
        ]
    );
    for it in &sweeps {
        let values: Vec<_> = it.ranges.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(values, ["100us", "0.2ms", "350us"], "{}", it.name);
    }
}

#[test]
fn a_driver_that_copies_first_stamps_late() {
    let results = simulate(
        "[driver]\ncopied_from = 128\ncopy = \"90us\"\n[matrix]\nnetwork.flow.measured.size = [127, 128]\n",
    );
    let [below, from] = [0, 1].map(|at| results[at].metric(Metric::NetworkLatency).unwrap().min_ns);
    assert_eq!(from - below, 90_000 + 80);
}

#[test]
fn findings_say_where_and_what_to_do() {
    for (text, expected) in [
        ("[measure]\nflow = \"mesured\"\n", "unknown time-triggered flow `mesured`"),
        ("[measure]\nreceiver = \"server\"\n", "unknown receiver `server`"),
        ("[measure]\npublished = { big = \"1us\" }\n", "`big` is no size in bytes"),
        ("[driver]\ncopy = \"90us\"\n", "`copied_from` is missing"),
        ("[matrix]\nnetwork.flow.measured.size = [63]\n", "`size` is 63, but must be 64 to 1518"),
        (
            "[driver]\ncopied_from = 64\ncopy = \"9us\"\n[matrix]\ntestbed = [\"host\"]\n",
            "cannot have `driver`",
        ),
        (
            "[matrix]\ntestbed = [\"host\"]\nnetwork.switch.switch.drift = [5]\n",
            "cannot have `drift` and `synchronisation`",
        ),
        ("[matrix]\ntestbed = [\"vm\"]\n", "no experiments of the kind `time-triggered`"),
    ] {
        let error = read(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// Real frames over pairs of virtual interfaces, where this machine permits it: how fast they are depends on the
/// machine, that they arrive does not.
#[test]
fn frames_cross_a_switch_of_this_machine() {
    let host = Host::new("/proc/self/exe".into());
    // Slow enough for a machine that does other things, too.
    let text = "testbed = [\"host\"]\nnetwork.flow.measured.relay_delay = [\"2ms\"]\n";
    let results = match run_each(&format!("[matrix]\n{text}"), &host) {
        Ok(results) => results,
        Err(error) if error.to_string().contains("EPERM") => {
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_ci, "continuous integration runs as root, so this must run there: {error}");
            println!("not run: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let result = &results[0];
    assert_eq!(result.counts.sent, 50);
    // A machine that is busy otherwise overwrites some in the relay buffer.
    assert!(result.counts.received > 0, "{:?} {:?}", result.counts, result.stopped);
    assert!(result.sections.number(&INSTRUMENT, "bias_ns") > Some(0.0), "{:?}", result.sections);
    let latency = result.metric(Metric::NetworkLatency).unwrap();
    assert!(latency.p50_ns > 1_000_000, "{latency:?}");
}

#[test]
fn a_file_may_be_named_as_the_network() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = "kind = \"time-triggered\"\nnetwork = \"examples/one-switch.tte.toml\"\n";
    let campaign = campaign::parse("t.toml", text, &root, &Options::default());
    let campaign = campaign.unwrap_or_else(|error| panic!("{error}"));
    let settings = campaign.experiments[0].of::<TimeTriggered>().unwrap();
    assert_eq!(settings.network.flows[settings.flow].name, "measured");
    assert_eq!(campaign.experiments[0].inputs.len(), 1);
}
