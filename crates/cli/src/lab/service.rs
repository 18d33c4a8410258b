//! The results of experiments with the signal service in the terminal.

use candor_lab::result::ResultFile;

use crate::output::table;

/// What the processes of an experiment used; nothing of other experiments.
pub(super) fn details(result: &ResultFile) -> String {
    let Some(service) = &result.service else { return String::new() };
    let row = |process: &candor_lab::result::ProcessCost| {
        let per_event = service.cpu_ns_per_event(&process.name).unwrap_or_default() / 1_000.0;
        vec![
            process.name.clone(),
            process.processes.to_string(),
            format!("{per_event:.2}us"),
            format!("{:.2} %", process.cpu_percent),
        ]
    };
    let rows: Vec<_> = service.processes.iter().map(row).collect();
    let mut out = table(&["process", ">processes", ">per event", ">of all processors"], &rows);
    let host = &service.host;
    out.push_str(&format!(
        "\n{}, {} processors, Linux {}, clock {}; busy {} %, stolen {} %\n",
        host.cpu, host.cpus, host.kernel, host.clock, host.busy_percent, host.stolen_percent
    ));
    out
}
