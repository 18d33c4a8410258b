//! The results of experiments with time-triggered Ethernet in the terminal.

use candor_lab::result::{Figures, Instrument, ResultFile};
use candor_lat::Metric;

use crate::output::{duration, table, thousands};

/// What else is known of one experiment; nothing of other kinds.
pub(super) fn details(result: &ResultFile) -> String {
    let Some(figures) = &result.time_triggered else { return String::new() };
    let rows: Vec<_> = figures
        .links
        .iter()
        .map(|it| vec![it.link.clone(), it.from.clone(), format!("{:.2} %", it.load_percent)])
        .collect();
    let mut out = String::new();
    if !rows.is_empty() {
        out.push_str(&table(&["link", "from", ">load"], &rows));
    }
    if let Some(it) = &figures.clock_difference {
        out.push_str(&format!(
            "clocks differ by {} at most in half of {} cycles, by {} in the worst; stated precision {}\n",
            duration(it.p50_ns as f64),
            thousands(it.count),
            duration(it.max_ns as f64),
            duration(figures.precision_ns as f64),
        ));
    }
    if let Some(instrument) = &figures.instrument {
        out.push_str(&of_instrument(instrument));
    }
    out
}

/// What measured it, and how well it could.
fn of_instrument(instrument: &Instrument) -> String {
    let row = |name: &str, figures: Option<&Figures>| {
        let us = |ns: i64| format!("{:.3}", ns as f64 / 1_000.0);
        let cells = figures.map(|it| [it.min_ns, it.p50_ns, it.p90_ns, it.p99_ns, it.max_ns]);
        let cells = cells.map_or([const { String::new() }; 5], |cells| cells.map(us));
        [vec![name.to_owned()], cells.to_vec()].concat()
    };
    let unmarked = |metric: Metric| instrument.unmarked.get(metric.key());
    let rows = [
        row("network latency", unmarked(Metric::NetworkLatency)),
        row("residual", unmarked(Metric::Residual)),
    ];
    let mut out =
        table(&["frames that are not marked", ">min", ">p50", ">p90", ">p99", ">max"], &rows);
    let host = &instrument.host;
    out.push_str(&format!(
        "\n{} marked: the thread that sends was stopped {} times, for {} at most, those that relay {} times, for {} at most\n\
         {} frames of other flows relayed\n\
         {} taken off each latency: what the stamps at both ends of a pair of interfaces differ by without a switch\n\
         {}, {} processors, Linux {}, clock {}; busy {} %, stolen {} %\n",
        thousands(instrument.marked),
        thousands(instrument.send_stops),
        duration(instrument.send_longest_stop_ns as f64),
        thousands(instrument.relay_stops),
        duration(instrument.relay_longest_stop_ns as f64),
        thousands(instrument.others),
        duration(instrument.bias_ns as f64),
        host.cpu,
        host.cpus,
        host.kernel,
        host.clock,
        host.busy_percent,
        host.stolen_percent
    ));
    out
}
