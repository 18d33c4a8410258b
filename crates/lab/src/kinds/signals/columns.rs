//! The signal service, by processes of this machine.

use candor_lat::Metric;

use super::super::RANGES;
use crate::columns::{Column, Columns, Shown};
use crate::quantity::Quantity;
use crate::result::ResultFile;

const PROCESSES: [&str; 3] = ["server", "subscriber", "dbus-daemon"];

pub(super) fn columns(_: &[&ResultFile]) -> Columns {
    let mut columns = vec![
        Column::total("sent", |run| run.counts.sent),
        Column::total("lost", |run| run.counts.lost),
    ];
    columns.extend(["p50", "p99", "max"].map(|figure| {
        Column::quantity(figure, Shown::Duration, Quantity::Latency(Metric::Delivery, figure))
    }));
    columns.extend(PROCESSES.map(|process| {
        Column::micros(process, Shown::Number(2, "us"), &[process, "cpu_per_event"])
    }));
    columns.push(Column::words("event", Shown::Number(1, ""), &["bytes_per_event"]));
    columns.push(Column::words("stolen", Shown::Number(1, " %"), &["stolen_percent"]));
    let says = "p50, p99, max: from when a frame is sent to when a subscriber has its event decoded\n\
                server, subscriber, dbus-daemon: CPU time per event, of all subscribers together\n\
                event: bytes on the WebSocket; stolen: time that the hypervisor gave to others\n";
    Columns { has_runs: true, columns, legend: format!("{says}{RANGES}") }
}
