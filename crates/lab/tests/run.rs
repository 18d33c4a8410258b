//! Campaigns and what they leave in their folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use candor_lab::campaign::{self, Options};
use candor_lab::run::{self, Ended, Outcome, Progress, Settings, results_of};
use candor_lab::testbed::Testbeds;
use candor_lab::{Error, Experiment};
use candor_time::Nanos;

const TWO: &str = "\
count = 300
bus.in.bitrate = '1M'
bus.out.bitrate = '1M'
gateway.delay = '35us'
traffic.kind = 'flood'
[[experiment]]
name = 'a'
[[experiment]]
name = 'b'
";

struct Silent;
impl Progress for Silent {
    fn proceed(&self, _: &Experiment, _: Nanos, _: u64) -> bool {
        true
    }
    fn finished(&self, _: &Experiment, _: &Ended) {}
}

fn run_with(text: &str, folder: &Path, jobs: usize, verifies: bool) -> Result<Outcome, Error> {
    let campaign = campaign::parse("t.toml", text, folder, &Options::default()).unwrap();
    let out = folder.join("out");
    let settings = Settings {
        testbeds: &Testbeds::default(),
        command: &|_| "again".into(),
        out: &out,
        jobs,
        verifies,
    };
    run::run(&campaign.experiments, &settings, &Silent)
}

fn run_text(text: &str, folder: &Path, jobs: usize) -> Outcome {
    run_with(text, folder, jobs, false).unwrap()
}

/// The names and contents of a folder's files, in order; those of hidden files too.
fn contents(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let text = fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn results_do_not_depend_on_how_many_run_at_a_time() {
    let [one, many] = [1, 8].map(|jobs| {
        let folder = tempfile::tempdir().unwrap();
        let results = run_text(TWO, folder.path(), jobs).results();
        let names: Vec<_> = results.iter().map(|result| result.experiment.clone()).collect();
        assert_eq!(names, ["a", "b"]);
        contents(&results_of(&folder.path().join("out")))
    });
    let names: Vec<_> = one.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a.csv", "a.json", "b.csv", "b.json"]);
    assert!(one == many);
}

/// Whether the kernel has somebody in the queue for the lock of a file: a line of `/proc/locks` with `->`.
fn somebody_waits_for(path: &Path) -> bool {
    let end = format!(":{} 0 EOF", fs::metadata(path).unwrap().ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains(" -> ") && line.ends_with(&end))
}

/// Two runs may write the same result at once: each puts its two files into their places alone.
#[test]
fn both_files_of_a_result_come_while_the_folder_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let results = results_of(&folder.path().join("out"));
    run_text(TWO, folder.path(), 1);
    let before = contents(&results);
    let other = TWO.replace("35us", "90us");
    thread::scope(|scope| {
        let lock = fs::File::open(&results).unwrap();
        lock.lock().unwrap();
        let run = scope.spawn(|| run_text(&other, folder.path(), 1));
        while !somebody_waits_for(&results) {
            assert!(!run.is_finished(), "the run did not wait for the lock");
            thread::yield_now();
        }
        let now: Vec<_> =
            contents(&results).into_iter().filter(|(name, _)| !name.starts_with('.')).collect();
        assert!(now == before, "one file of the other run is there already");
        lock.unlock().unwrap();
        run.join().unwrap();
    });
    let after = contents(&results);
    assert!(
        after.iter().zip(&before).all(|(after, before)| after.0 == before.0 && after != before)
    );
}

#[test]
fn without_lines_per_frame_an_older_table_goes() {
    let folder = tempfile::tempdir().unwrap();
    run_text(TWO, folder.path(), 1);
    let results = results_of(&folder.path().join("out"));
    let before = contents(&results);
    run_text(&format!("per_frame = false\n{TWO}"), folder.path(), 1);
    let after = contents(&results);
    let names: Vec<_> = after.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a.json", "b.json"]);
    // All but the setting itself is the same.
    let without_setting = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains("\"config\"")).map(str::to_owned).collect()
    };
    assert_eq!(without_setting(&after[0].1), without_setting(&before[1].1));
}

/// Which experiments of a file write a line per frame, and the number that says why not.
fn lines_of(text: &str, folder: &Path) -> (Vec<bool>, Option<u64>) {
    let campaign = campaign::parse("t.toml", text, folder, &Options::default()).unwrap();
    let lines = campaign.experiments.iter().map(|experiment| experiment.per_frame).collect();
    (lines, campaign.too_many_for_lines)
}

#[test]
fn large_campaigns_write_no_line_per_frame_unless_they_are_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let of = |count: u64| TWO.replace("count = 300", &format!("count = {count}"));
    for (text, expected) in [
        (of(50_000), (vec![true, true], None)),
        (of(50_001), (vec![false, false], Some(100_002))),
        (format!("per_frame = true\n{}", of(50_001)), (vec![true, true], None)),
        (format!("per_frame = false\n{}", of(10)), (vec![false, false], None)),
        (
            of(60_000).replace("name = 'b'", "name = 'b'\nper_frame = true"),
            (vec![false, true], Some(120_000)),
        ),
    ] {
        assert_eq!(lines_of(&text, folder.path()), expected, "{text}");
    }
    // A recording counts with as many frames as it may have.
    let replay = "name = 'a'\nbus.in.bitrate = '1M'\n\
                  traffic = { kind = 'replay', log = 'a.log' }\n";
    for (frames, has_lines) in [(10, true), (110_000, false)] {
        let log = "(1.000000) can0 123#0011223344\n".repeat(frames);
        fs::write(folder.path().join("a.log"), log).unwrap();
        let (lines, too_many) = lines_of(replay, folder.path());
        assert_eq!((lines, too_many.is_some()), (vec![has_lines], !has_lines), "{frames}");
    }
}

#[test]
fn a_broken_input_keeps_the_older_result() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    fs::write(&log, "(1.000000) can0 123#0000\n(1.010000) can0 123#0001\n").unwrap();
    for per_frame in [true, false] {
        let text = format!(
            "name = 'a'\nper_frame = {per_frame}\n\
             bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\ngateway.delay = '35us'\n\
             traffic = {{ kind = 'replay', log = 'a.log' }}\n"
        );
        fs::write(&log, "(1.000000) can0 123#0000\n(1.010000) can0 123#0001\n").unwrap();
        run_text(&text.replace("= false", "= true"), folder.path(), 1);
        let results = results_of(&folder.path().join("out"));
        let before = contents(&results);
        assert_eq!(before.len(), 2);
        fs::write(&log, "(1.000000) can0 123#0000\n(1.010000) can0 12\n").unwrap();
        let outcome = run_text(&text, folder.path(), 1);
        assert!(outcome.finished.is_empty() && !outcome.is_interrupted);
        let [(name, error)] = outcome.failures.as_slice() else { panic!("{outcome:?}") };
        assert_eq!(name, "a");
        let error = error.to_string();
        assert!(error.contains("a.log:2:"), "{error}");
        assert!(contents(&results) == before, "per_frame = {per_frame}");
    }
}

#[test]
fn a_file_in_the_way_is_reported_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("out"), "a file").unwrap();
    let error = run::prepare(&folder.path().join("out")).unwrap_err().to_string();
    assert!(error.contains("out/results cannot be written: "), "{error}");
    assert!(error.contains("--out"), "{error}");
    let good = folder.path().join("new/out");
    run::prepare(&good).unwrap();
    assert_eq!(contents(&results_of(&good)), []);
}

#[test]
fn an_experiment_that_fails_does_not_end_the_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.log"), "(1.000000) can0 12").unwrap();
    let text = format!(
        "{TWO}[[experiment]]\nname = 'c'\n[[experiment]]\nname = 'd'\n\
         traffic = {{ kind = 'replay', log = 'a.log' }}\n[[experiment]]\nname = 'e'\n"
    );
    let outcome = run_text(&text, folder.path(), 1);
    let names: Vec<_> = outcome.results().into_iter().map(|result| result.experiment).collect();
    assert_eq!(names, ["a", "b", "c", "e"]);
    assert_eq!(outcome.failures.len(), 1);
}

#[test]
fn a_simulation_verified_is_a_simulation() {
    let [once, twice] = [false, true].map(|verifies| {
        let folder = tempfile::tempdir().unwrap();
        let outcome = run_with(TWO, folder.path(), 2, verifies).unwrap();
        assert!(outcome.differences.is_empty() && outcome.failures.is_empty());
        contents(&results_of(&folder.path().join("out")))
    });
    assert!(once == twice);
}
