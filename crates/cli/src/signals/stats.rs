//! `candor signals stats`: what a running signal service has counted.
//!
//! `candor help json signals stats` describes what `--json` prints.

use candor_diagnostics::{counted, visible};
use candor_signal_service::client::Client;
use candor_signal_service::stats::{BusStats, Stats};
use candor_time::Nanos;
use clap::Args;
use serde_json::Value;

use crate::Answer;
use crate::health::{self, HealthArgs};
use crate::json;
use crate::output::{Table, age, list, print, thousands};

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// The service: its WebSocket, or its Unix socket as unix:PATH
    #[arg(value_name = "URL", default_value = "ws://127.0.0.1:1234/api")]
    url: String,
    #[command(flatten)]
    health: HealthArgs,
    /// Print JSON Lines: objects of type "bus" and "subscriber", then one of type "summary"; with
    /// --check objects of type "problem", then one of type "health"
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &StatsArgs) -> Answer {
    let url = &args.url;
    if url.starts_with("dbus:") {
        let remedy = "name its WebSocket or its Unix socket, such as ws://127.0.0.1:1234/api";
        return Err(format!("{url}: a message bus has no statistics of the service; {remedy}"));
    }
    let mut client = Client::connect(url).map_err(|error| error.to_string())?;
    let stats = client.call("stats", &Value::Null).map_err(|error| error.to_string())?;
    let stats: Stats = serde_json::from_value(stats)
        .map_err(|error| format!("{url}: this is no signal service of this version: {error}"))?;
    if args.health.check {
        return health::report(stats.problems(&args.health.max_silence), args.json);
    }
    print(&if args.json { lines(&stats)? } else { text(&stats) }).map(|()| true)
}

fn lines(stats: &Stats) -> Result<String, String> {
    Ok(json::lines(&stats.buses)? + &json::lines(&stats.subscribers)? + &json::line(stats)?)
}

/// Everything as tables.
fn text(stats: &Stats) -> String {
    let changes = match stats.changes {
        0 => "buses never changed".to_owned(),
        times => format!("buses changed {}", counted(times, "time")),
    };
    let mut text = format!("running for {}, {changes}\n", age(stats.uptime_ns));
    let rejected = stats.rejected.iter().flat_map(|why| why.lines().next());
    for line in rejected.map(|why| format!("the file on disk is not in use: {why}")) {
        text += &format!("{}\n", visible(&line));
    }
    for trouble in &stats.troubles {
        text += &format!("{}\n", visible(trouble));
    }
    text += &format!("\n{}", buses(&stats.buses));
    if !stats.subscribers.is_empty() {
        let subscribers = Table::of(&stats.subscribers)
            .column(">subscriber", |it| thousands(it.id))
            .column("format", |it| visible(&it.format).into_owned())
            .column(">topics", |it| thousands(it.topics))
            .column(">delivered", |it| thousands(it.delivered))
            .column(">missed", |it| thousands(it.missed))
            .column(">waiting", |it| thousands(it.waiting))
            .text();
        text += &format!("\n{subscribers}");
    }
    text
}

fn buses(buses: &[BusStats]) -> String {
    let title = |bus: &&BusStats| match bus.name == bus.port {
        true => visible(&bus.name).into_owned(),
        false => format!("{} ({})", visible(&bus.name), visible(&bus.port)),
    };
    let silence = |bus: &&BusStats| {
        let silence = Nanos::from_nanos(bus.silent_ns);
        format!("{:.1} s", silence.as_secs_f64())
    };
    Table::of(buses)
        .column("bus", title)
        .column(">frames", |it| thousands(it.frames))
        .column(">lost", |it| thousands(it.lost))
        .column(">malformed", |it| thousands(it.malformed))
        .column(">foreign", |it| thousands(it.foreign))
        .column(">unlisted", |it| thousands(it.unlisted))
        .column(">displaced", |it| thousands(it.displaced))
        .column(">silent for", silence)
        .column("trouble", |it| {
            list(it.trouble.iter().map(|trouble| visible(trouble).into_owned()))
        })
        .text()
}

#[cfg(test)]
mod tests {
    use candor_signal_service::stats::SubscriberStats;

    use super::*;

    pub(super) fn stats() -> Stats {
        let body = BusStats {
            name: "body".into(),
            port: "can2udp:".into(),
            frames: 12_345,
            foreign: 3,
            trouble: Some("the address is in use".into()),
            silent_ns: 2_345_000_000,
            ..BusStats::default()
        };
        let can0 = BusStats { name: "can0".into(), port: "can0".into(), ..BusStats::default() };
        let format = "candor.cbor".to_owned();
        let subscriber = SubscriberStats { id: 7, format, missed: 5, ..SubscriberStats::default() };
        Stats {
            buses: vec![body, can0],
            changes: 2,
            subscribers: vec![subscriber],
            uptime_ns: 123_000_000_000,
            rejected: Some("a.toml:1:1: error: no\n  more".into()),
            troubles: vec!["D-Bus session: nobody is there".into()],
        }
    }

    #[test]
    fn everything_is_in_the_tables() {
        let expected = "\
running for 2 min 3 s, buses changed 2 times
the file on disk is not in use: a.toml:1:1: error: no
D-Bus session: nobody is there

bus              frames  lost  malformed  foreign  unlisted  displaced  silent for  trouble
---------------  ------  ----  ---------  -------  --------  ---------  ----------  ---------------------
body (can2udp:)  12,345     0          0        3         0          0       2.3 s  the address is in use
can0                  0     0          0        0         0          0       0.0 s  -

subscriber  format       topics  delivered  missed  waiting
----------  -----------  ------  ---------  ------  -------
         7  candor.cbor       0          0       5        0
";
        assert_eq!(text(&stats()), expected);
    }

    #[test]
    fn json_has_an_object_for_each() {
        let lines = lines(&stats()).unwrap();
        let types: Vec<String> = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].to_string())
            .collect();
        assert_eq!(types, ["\"bus\"", "\"bus\"", "\"subscriber\"", "\"summary\""]);
    }
}
