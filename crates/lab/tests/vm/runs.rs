//! Many experiments: what is kept, what is repeated, and what fails alone.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use candor_lab::campaign::{self, Options};
use candor_lab::result::is_loaded;
use candor_lab::run::{self, Difference};
use candor_lab::{Error, Experiment};
use candor_protocol::Report;
use candor_protocol::order::Measurement;

use crate::by_hand::{Lab, Noting, TWO, experiments, perfect, refused};

#[test]
fn an_unchanged_experiment_is_not_run_again() {
    let mut lab = Lab::new(perfect);
    lab.keeps = true;
    let counted = |lab: &Lab, text: &str| {
        let noting = Noting::default();
        lab.try_run(&experiments(text, lab.folder.path()), &noting).unwrap();
        (noting.cached.into_inner(), noting.fresh.into_inner())
    };
    assert_eq!(counted(&lab, TWO), (0, 1));
    let first = lab.files();
    assert_eq!(counted(&lab, TWO), (1, 0));
    assert!(lab.files() == first);
    assert_eq!((lab.orders(), lab.log.boots.lock().unwrap().len()), (1, 1));
    // What it is called does not matter to a machine.
    assert_eq!(counted(&lab, &format!("title = 'other'\nper_frame = false\n{TWO}")), (1, 0));
    for changed in [
        TWO.replace("= 100", "= 101"),
        TWO.replace("'500k'", "'250k'"),
        TWO.replace("'kernel'", "'live'"),
        format!("seed = 2\n{TWO}"),
        format!("{TWO}vm.kernel = '6.1'"),
        format!("{TWO}vm.mips = 250"),
        format!("{TWO}vm.parameters = 'threadirqs'"),
        format!("{TWO}vm.netdev_budget = 64"),
        format!("{TWO}gateway.generate.modify = 'and'"),
        format!("{TWO}load.kind = 'cpu'"),
    ] {
        assert_eq!(counted(&lab, &changed), (0, 1), "{changed}");
        assert_eq!(counted(&lab, &changed), (1, 0), "{changed}");
    }
    lab.keeps = false;
    assert_eq!(counted(&lab, TWO), (0, 1));
}

#[test]
fn a_damaged_entry_is_run_again_and_replaced() {
    fn all_files(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
    }
    let mut lab = Lab::new(perfect);
    lab.keeps = true;
    lab.run(TWO);
    let first = lab.files();
    let mut kept = all_files(&lab.reports());
    kept.retain(|path| !path.ends_with(candor_vm::ABOUT));
    let [entry] = kept.as_slice() else { panic!("{kept:?}") };
    let whole = fs::read(entry).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(entry, damaged).unwrap();
    let outcome = lab.run(TWO);
    assert!(!outcome.finished[0].is_cached);
    assert!(lab.files() == first);
    assert!(fs::read(entry).unwrap() == whole);
    assert!(lab.run(TWO).finished[0].is_cached);
}

/// Twelve experiments on two machines.
const MANY: &str = "\
testbed = 'vm'
seeds = 1
vm.boots = 1
count = 20
bus.in.bitrate = '1M'
bus.out.bitrate = '1M'
gateway.kind = 'kernel'
traffic.kind = 'flood'
[[experiment]]
name = 'k'
[matrix]
\"vm.kernel\" = ['6.12', '6.12-rt']
seed = [1, 2, 3, 4, 5, 6]
";

/// Latencies that depend on the order alone.
fn seeded(measurement: &Measurement) -> Report {
    let mut report = perfect(measurement);
    let late = measurement.seed * 100;
    report.received.iter_mut().for_each(|stamp| stamp.time_ns += late);
    report
}

#[test]
fn results_depend_neither_on_jobs_nor_on_the_order_nor_on_shards() {
    let whole = Lab::new(seeded);
    whole.run(MANY);
    let expected = whole.files();
    assert_eq!(expected.len(), 24);

    let mut crowded = Lab::new(seeded);
    crowded.jobs = 6;
    crowded.run(MANY);
    assert!(crowded.files() == expected);
    let mut boots = crowded.log.boots.lock().unwrap().clone();
    boots.sort();
    assert_eq!(boots, ["Linux 6.12, 500 MIPS", "Linux 6.12-rt, 500 MIPS"]);

    let permuted = Lab::new(seeded);
    let mut backwards = experiments(MANY, permuted.folder.path());
    backwards.reverse();
    backwards.swap(2, 7);
    permuted.try_run(&backwards, &Noting::default()).unwrap();
    assert!(permuted.files() == expected);

    // Shards copied into one folder.
    let merged = Lab::new(seeded);
    for number in 1..=5 {
        let shard = run::shard(experiments(MANY, merged.folder.path()), number, 5);
        merged.try_run(&shard, &Noting::default()).unwrap();
    }
    assert!(merged.files() == expected);
}

#[test]
fn a_campaign_goes_on_where_it_was() {
    let limit = Arc::new(AtomicU64::new(5));
    let left = Arc::clone(&limit);
    let mut lab = Lab::failing(move |measurement| {
        let has_time =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        has_time.map(|_| seeded(measurement)).map_err(|_| Error::Interrupted)
    });
    lab.keeps = true;
    let outcome = lab.run(MANY);
    assert!(outcome.is_interrupted && outcome.failures.is_empty());
    assert_eq!(outcome.finished.len(), 5);
    limit.store(100, Ordering::Relaxed);
    let outcome = lab.run(MANY);
    let cached = outcome.finished.iter().filter(|ran| ran.is_cached).count();
    assert_eq!((outcome.finished.len(), cached), (12, 5));
    let whole = Lab::new(seeded);
    whole.run(MANY);
    assert!(lab.files() == whole.files());
}

#[test]
fn runs_that_differ_are_named_with_the_first_line() {
    let runs = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&runs);
    let mut lab = Lab::new(move |measurement| {
        let mut report = perfect(measurement);
        let is_second = count.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        // One frame of one experiment, as late as another one: figures stay, lines do not.
        if measurement.seed == 2 {
            let late = if is_second { 4 } else { 3 };
            report.received[late].time_ns += 500;
        }
        report
    });
    lab.verifies = true;
    lab.keeps = true;
    let outcome = lab.run(&format!("{MANY}\n").replace("['6.12', '6.12-rt']", "['6.12']"));
    assert_eq!(outcome.finished.len(), 5);
    let [(name, difference)] = outcome.differences.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(name, "k-6.12-2");
    let Difference { file, line, first, second } = difference;
    assert_eq!((*file, *line), ("csv", 5));
    assert!(first.as_ref().unwrap().ends_with(",14500,14500"), "{first:?}");
    assert!(second.as_ref().unwrap().ends_with(",14000,14000"), "{second:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 12);
    assert!(!lab.files().iter().any(|(name, _)| name.starts_with("k-6.12-2.")));
    // Verifying does not look into the store.
    lab.run(&format!("{MANY}\n").replace("['6.12', '6.12-rt']", "['6.12']"));
    assert_eq!(runs.load(Ordering::Relaxed), 24);
}

#[test]
fn what_a_machine_lacks_is_reported_before_anything_runs() {
    let lab = Lab::new(perfect);
    let text = MANY.replace("'6.12-rt'", "'9.9'");
    let error = lab.try_run(&experiments(&text, lab.folder.path()), &Noting::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("candor vm fetch 9.9"), "{error}");
    assert_eq!((lab.orders(), lab.files()), (0, Vec::new()));
}

#[test]
fn a_machine_that_does_not_come_up_fails_its_experiments_alone() {
    let mut lab = Lab::new(perfect);
    lab.jobs = 3;
    let text =
        MANY.replace("\"vm.kernel\" = ['6.12', '6.12-rt']", "\"vm.parameters\" = ['', 'broken']");
    let outcome = lab.run(&text);
    assert_eq!((outcome.finished.len(), outcome.failures.len()), (6, 6));
    for (name, error) in &outcome.failures {
        assert!(error.to_string().contains("panicked at boot"), "{name}: {error}");
    }
    let broken =
        lab.log.boots.lock().unwrap().iter().filter(|boot| boot.contains("broken")).count();
    assert_eq!(broken, 1, "a machine that is broken is not booted again");
}

#[test]
fn a_guest_that_dies_ends_its_own_experiment_only() {
    let lab = Lab::failing(|measurement| match measurement.seed {
        3 => Err(Error::Other("the guest died: kernel panic".into())),
        _ => Ok(perfect(measurement)),
    });
    let outcome = lab.run(MANY);
    assert_eq!((outcome.finished.len(), outcome.failures.len()), (10, 2));
    assert_eq!(outcome.failures[0].0, "k-6.12-3");
}

#[test]
fn an_experiment_in_a_guest_runs_with_a_seed_for_each_boot() {
    let names = |text: &str, options: &Options| -> Vec<(String, String, u64)> {
        let campaign = campaign::parse("t.toml", text, Path::new("."), options).unwrap();
        let named = |e: Experiment| (e.name, e.group, e.seed);
        campaign.experiments.into_iter().map(named).collect()
    };
    let two = TWO.replace("seeds = 1\n", "");
    let busy = format!("name = 'busy'\n{two}load.kind = 'cpu'\n");
    let all = names(&busy, &Options::default());
    assert_eq!(all.len(), 5);
    assert_eq!(all[4], ("busy-seed-5".into(), "busy".into(), 5));
    // One seed keeps its name, so that the command of a result gives the same files again.
    let one = Options { seed: Some(4), ..Options::default() };
    assert_eq!(names(&busy, &one), [("busy-seed-4".into(), "busy".into(), 4)]);
    for only in ["busy", "bus*"] {
        let options = Options { only: vec![only.into()], ..Options::default() };
        assert_eq!(names(&busy, &options).len(), 5, "{only}");
    }
    let options = Options { only: vec!["busy-seed-2".into()], ..Options::default() };
    assert_eq!(names(&busy, &options), [("busy-seed-2".into(), "busy".into(), 2)]);

    for (text, count) in [
        (format!("{busy}seeds = 1\n"), 1),
        (format!("{busy}seeds = 3\n"), 3),
        (
            busy.replace("'vm'", "'sim'")
                .replace("gateway.kind = 'kernel'", "gateway.delay = '1us'"),
            1,
        ),
        (format!("name = 'calm'\n{two}"), 5),
        (format!("name = 'calm'\n{two}seeds = 2\n"), 2),
        (format!("name = 'calm'\nseed = 7\n{two}seeds = 2\n"), 2),
    ] {
        assert_eq!(names(&text, &Options::default()).len(), count, "{text}");
    }
    assert_eq!(
        names(&format!("name = 'calm'\nseed = 7\nseeds = 2\n{two}"), &Options::default())[1].2,
        8
    );
    let message = refused(&format!("seeds = 0\n{two}"));
    assert!(message.contains("`seeds` is 0, but must be 1 to 100"), "{message}");
}

#[test]
fn runs_with_several_seeds_have_results_of_their_own() {
    let lab = Lab::new(seeded);
    let outcome = lab.run(&format!(
        "name = 'busy'\n{}load.kind = 'ethernet'\n",
        TWO.replace("seeds = 1", "seeds = 3")
    ));
    let results = outcome.results();
    let seeds: Vec<_> = lab.log.orders.lock().unwrap().iter().map(|order| order.seed).collect();
    assert_eq!(seeds, [1, 2, 3]);
    let groups = candor_lab::group::groups(&results);
    assert_eq!((groups.len(), groups[0].name, groups[0].runs.len()), (1, "busy", 3));
    assert!(results.iter().all(is_loaded));
    assert_eq!(results[1].axes.get("seed").map(String::as_str), Some("2"));
    assert_eq!(lab.files().len(), 6, "JSON and CSV of each");
}
