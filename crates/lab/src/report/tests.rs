//! What a page contains, for results of all kinds.

use super::*;
use crate::result::Counts;
use crate::result::SCHEMA;
use crate::results::RUN_AGAIN;
use candor_lat::section::Sections;
use candor_lat::{Latencies, TapPath};

/// A result of three frames, one of them lost.
fn result() -> String {
    three_frames().to_json()
}

/// The same as data.
pub(crate) fn three_frames() -> ResultFile {
    let latencies = Latencies::Exact(vec![40_000, 90_000]);
    let metrics = latencies.with_profile(10).map(|figures| ("total_latency".to_owned(), figures));
    ResultFile {
        schema: SCHEMA.into(),
        experiment: "one".into(),
        group: None,
        title: "</script><b>One</b>".into(),
        candor: "0.1.0".into(),
        command: "candor lab run one.toml".into(),
        testbed: "sim".into(),
        conditions: String::new(),
        path: TapPath::CAN_GATEWAY.name().into(),
        seed: u64::MAX,
        random: false,
        axes: BTreeMap::new(),
        config: String::new(),
        inputs: Vec::new(),
        duration_ns: 93_000,
        counts: Counts { sent: 3, received: 2, lost: 1, ..Counts::default() },
        stopped: Vec::new(),
        metrics: metrics.into_iter().collect(),
        sections: Sections::default(),
        notes: Vec::new(),
    }
}

/// The same of an experiment of that name.
fn named(name: &str) -> String {
    result().replace("\"experiment\": \"one\"", &format!("\"experiment\": \"{name}\""))
}

const FRAMES: &str = "\
number,sent,received,outcome,source_end_ns,target_end_ns,total_latency_ns,gateway_latency_ns
1,123#0001,123#0001,forwarded,1000,41000,40000,10000
2,123#0002,,rx_overflow,2000,,,
3,123#0003,123#0003,forwarded,3000,93000,90000,60000
";

/// A folder with these files under `results`.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("results")).unwrap();
    for (name, text) in files {
        fs::write(dir.path().join("results").join(name), text).unwrap();
    }
    dir
}

/// Every file of the report by name.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for part in ["", "report", "report/charts", "report/frames"] {
        for entry in fs::read_dir(dir.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                files.insert(path.strip_prefix(dir).unwrap().into(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn text(files: &BTreeMap<PathBuf, Vec<u8>>, name: &str) -> String {
    String::from_utf8(files[Path::new(name)].clone()).unwrap()
}

#[test]
fn a_report_is_complete_and_the_same_every_time() {
    let dir = folder(&[("b.json", &named("b")), ("b.csv", FRAMES), ("a.json", &named("a"))]);
    let report = write(dir.path(), Besides::default()).unwrap();
    assert_eq!(report, Report { index: dir.path().join("index.html"), experiments: 2 });
    let first = files(dir.path());
    let names: Vec<_> = first.keys().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "index.html",
            "report/app.js",
            "report/charts/a.js",
            "report/charts/b.js",
            "report/data.js",
            "report/frames/b.js",
            "report/plotly.min.js",
            "report/style.css",
        ]
    );
    write(dir.path(), Besides::default()).unwrap();
    assert!(files(dir.path()) == first, "the second report differs");
}

#[test]
fn data_say_what_the_results_say() {
    let dir = folder(&[("one.json", &result()), ("one.csv", FRAMES)]);
    write(dir.path(), Besides::default()).unwrap();
    let files = files(dir.path());
    let data = text(&files, "report/data.js");
    assert!(data.starts_with("candorReport({\"metrics\":[{\"key\":\"total_latency\","), "{data}");
    assert!(data.contains(r#""seed_text":"18446744073709551615""#), "{data}");
    assert!(data.contains(r#""title":"\u003c/script>\u003cb>One\u003c/b>""#), "{data}");
    assert!(!data.contains("profile"), "{data}");
    assert_eq!(
        text(&files, "report/charts/one.js"),
        "candorProfiles(\"one\", {\"total_latency\":[[40000,2],[90000,1]]});\n"
    );
    assert_eq!(
        text(&files, "report/frames/one.js"),
        concat!(
            r#"candorFrames("one", {"count":3,"frames_per_bucket":1,"latencies":{"#,
            r#""gateway_latency":{"number":[1,2],"time_ns":[1000,2000],"latency_ns":[10000,60000]},"#,
            r#""total_latency":{"number":[1,2],"time_ns":[1000,2000],"latency_ns":[40000,90000]}},"#,
            r#""stopped":{"rx_overflow":{"number":[2],"time_ns":[2000],"frames":[1]}}});"#,
            "\n"
        )
    );
}

#[test]
fn figures_are_kept_and_show_what_is_there() {
    let figure = |title: &str, only: &[&str]| Figure {
        title: title.into(),
        only: only.iter().map(|glob| (*glob).to_owned()).collect(),
        metric: "total_latency".into(),
    };
    let dir = folder(&[("a.json", &named("a")), ("b.json", &named("b"))]);
    let figures = [figure("all", &["?"]), figure("none", &["c", "d*"]), figure("one", &["b", "c"])];
    write(dir.path(), Besides { figures: Some(&figures), ..Besides::default() }).unwrap();
    let expected = concat!(
        r#""figures":[{"title":"all","metric":"total_latency","experiments":["a","b"]},"#,
        r#"{"title":"one","metric":"total_latency","experiments":["b"]}]"#
    );
    for figures in [None, Some(&figures[..])] {
        let data = text(&files(dir.path()), "report/data.js");
        assert!(data.contains(expected), "{data}");
        write(dir.path(), Besides { figures, ..Besides::default() }).unwrap();
    }
    write(dir.path(), Besides { figures: Some(&[]), ..Besides::default() }).unwrap();
    assert!(text(&files(dir.path()), "report/data.js").contains(r#""figures":[]"#));
}

#[test]
fn claims_are_kept_as_they_were_judged() {
    let dir = folder(&[("a.json", &named("a"))]);
    let claim = JudgedClaim {
        id: "G1".into(),
        says: "<b>fast".into(),
        published: "35 us".into(),
        found: "35.1".into(),
        bounds: "at most 35".into(),
        agreement: "no".into(),
        ..JudgedClaim::default()
    };
    let expected = concat!(
        r#""claims":[{"id":"G1","says":"\u003cb>fast","published":"35 us","found":"35.1","#,
        r#""bounds":"at most 35","agreement":"no","alternative":null,"note":""}]"#
    );
    for claims in [Some(std::slice::from_ref(&claim)), None] {
        write(dir.path(), Besides { claims, ..Besides::default() }).unwrap();
        let data = text(&files(dir.path()), "report/data.js");
        assert!(data.contains(expected), "{data}");
    }
    write(dir.path(), Besides { claims: Some(&[]), ..Besides::default() }).unwrap();
    assert!(text(&files(dir.path()), "report/data.js").contains(r#""claims":[]"#));
}

#[test]
fn charts_of_removed_experiments_go() {
    let dir = folder(&[("a.json", &named("a")), ("b.json", &named("b"))]);
    write(dir.path(), Besides::default()).unwrap();
    fs::remove_file(dir.path().join("results/a.json")).unwrap();
    write(dir.path(), Besides::default()).unwrap();
    let charts: Vec<_> = files_in(&dir.path().join("report/charts"), "js").unwrap();
    assert_eq!(charts, [dir.path().join("report/charts/b.js")]);
}

/// The experiments in the order of the page, those that ran last, and the name of their run.
fn order(dir: &Path) -> (Vec<String>, Vec<String>, String) {
    let script = fs::read_to_string(dir.join("report/data.js")).unwrap();
    let data = script.trim_start_matches("candorReport(").trim_end_matches(");\n");
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let all = data["experiments"].as_array().unwrap();
    let ids = all.iter().map(|experiment| text(&experiment["id"])).collect();
    let latest = data["latest"].as_array().unwrap().iter().map(text).collect();
    (ids, latest, text(&data["run"]))
}

#[test]
fn what_ran_last_comes_first_and_stays_known() {
    let dir = folder(&[("a.json", &named("a")), ("b.json", &named("b")), ("c.json", &named("c"))]);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    write(dir.path(), Besides::default()).unwrap();
    let (ids, latest, nothing) = order(dir.path());
    assert_eq!((ids, latest), (names(&["a", "b", "c"]), names(&[])));
    write(dir.path(), Besides { latest: Some(&names(&["c", "a"])), ..Besides::default() }).unwrap();
    let (ids, latest, run) = order(dir.path());
    assert_eq!((ids, latest), (names(&["c", "a", "b"]), names(&["c", "a"])));
    assert_ne!(run, nothing);
    // Written again without a run, also after a result is gone.
    write(dir.path(), Besides::default()).unwrap();
    assert_eq!(order(dir.path()).2, run);
    fs::remove_file(dir.path().join("results/c.json")).unwrap();
    write(dir.path(), Besides::default()).unwrap();
    let (ids, latest, _) = order(dir.path());
    assert_eq!((ids, latest), (names(&["a", "b"]), names(&["a"])));
    fs::write(dir.path().join("report/latest.json"), "[3").unwrap();
    write(dir.path(), Besides::default()).unwrap();
    assert_eq!(order(dir.path()).1, names(&[]));
}

#[test]
fn what_cannot_be_read_says_where_and_why() {
    let header = FRAMES.lines().next().unwrap();
    let wrong_number = format!("{header}\n1,123#,,forwarded,1000,x1,,\n");
    let result = result();
    let short_line = format!("{header}\n1,123#\n");
    let long_line = format!("{header}\n{}\n", "1".repeat(5_000));
    for (files, message) in [
        (
            &[][..],
            "results: the folder contains no results; run `candor lab run FILE --out DIR` \
             first",
        ),
        (
            &[("one.json", "{\n  \"schema\": \"candor-result/3\",\n")],
            "results/one.json:3:1: this is not a complete result: EOF while parsing a value; \
             delete the file or run the experiment again",
        ),
        (
            &[("one.json", r#"{"schema": "candor-result/3", "experiment": 3}"#)],
            "results/one.json:1:45: this is not a complete result: invalid type: integer `3`, \
             expected a string; delete the file or run the experiment again",
        ),
        (
            &[("one.json", r#"{"schema": "candor-result/1"}"#)],
            "results/one.json: the schema is \"candor-result/1\", but this version reads \
             \"candor-result/3\"; delete the file or run the experiment again",
        ),
        (
            &[("one.json", &result), ("one.csv", "")],
            "results/one.csv:1:1: the header line is missing; \
             delete the file or run the experiment again",
        ),
        (
            &[("one.json", &result), ("one.csv", "number,sent\n")],
            "results/one.csv:1:1: the column `outcome` is missing; \
             delete the file or run the experiment again",
        ),
        (
            &[("one.json", &result), ("one.csv", &wrong_number)],
            "results/one.csv:2:24: `x1` is not a target_end_ns; \
             delete the file or run the experiment again",
        ),
        (
            &[("one.json", &result), ("one.csv", &short_line)],
            "results/one.csv:2:1: 2 columns, expected 8; \
             delete the file or run the experiment again",
        ),
        (
            &[("one.json", &result), ("one.csv", &long_line)],
            "results/one.csv:2:4096: the line is longer than 4096 bytes; \
             delete the file or run the experiment again",
        ),
    ] {
        let dir = folder(files);
        let error = write(dir.path(), Besides::default()).unwrap_err().to_string();
        let prefix = format!("{}/", dir.path().display());
        assert_eq!(error.strip_prefix(&prefix), Some(message), "{error}");
    }
}

#[test]
fn a_folder_without_results_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = write(dir.path(), Besides::default()).unwrap_err();
    assert_eq!(error.path, dir.path().join("results"));
    assert!(error.to_string().contains("the folder does not exist"), "{error}");
}

#[test]
fn an_error_leaves_the_page_as_it_was() {
    let dir = folder(&[("one.json", &result())]);
    write(dir.path(), Besides::default()).unwrap();
    let before = files(dir.path());
    fs::write(dir.path().join("results/two.json"), "{").unwrap();
    write(dir.path(), Besides::default()).unwrap_err();
    assert!(files(dir.path()) == before);
}

#[test]
fn nothing_half_written_stays() {
    let dir = tempfile::tempdir().unwrap();
    // A folder stands where the file should be.
    let target = dir.path().join("data.js");
    fs::create_dir_all(target.join("occupied")).unwrap();
    let error = replace(&target, b"candorReport()").unwrap_err();
    assert!(error.to_string().contains("data.js: cannot be written: "), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn two_results_of_one_run_are_refused_with_both_files() {
    let dir = folder(&[("one.json", &result()), ("copy.json", &result())]);
    let error = crate::results::read(dir.path()).unwrap_err().to_string();
    for part in ["one.json: ", "copy.json is a result of `one` with seed ", "delete one of them"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let other = result().replace("\"seed\": 18446744073709551615", "\"seed\": 2");
    let dir = folder(&[("one.json", &result()), ("other.json", &other)]);
    assert_eq!(crate::results::read(dir.path()).unwrap().len(), 2);
}

#[test]
fn a_cell_of_a_wrong_type_has_its_place_and_what_is_unknown_is_passed_over() {
    let with = |more: &str| result().replacen("\"counts\":", &format!("{more},\n\"counts\":"), 1);
    for (more, part) in [
        (r#""buses": [{"name": "a"}, {"bitrate": "x"}]"#, "`bitrate` in row 2 of section `buses`"),
        (r#""rules": [{"handled": -1}]"#, "`handled` in row 1 of section `rules`"),
        (r#""effort": {"gateway_waits": "x"}"#, "`gateway_waits` in row 1 of section `effort`"),
    ] {
        let dir = folder(&[("one.json", &with(more))]);
        let error = crate::results::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("one.json: "), "{error}");
        assert!(error.contains(RUN_AGAIN), "{error}");
    }
    for more in [r#""later": [{"a": "x"}]"#, r#""buses": [{"zzz": "x", "name": "a"}]"#] {
        let dir = folder(&[("one.json", &with(more))]);
        assert_eq!(crate::results::read(dir.path()).unwrap().len(), 1, "{more}");
    }
}
