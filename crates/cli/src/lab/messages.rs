//! `candor lab messages`: what became of each message of periodic traffic, and of each identifier of numbered frames.

use std::path::PathBuf;

use candor_lab::result::ResultFile;
use candor_lab::sections::MESSAGES;
use candor_lat::section::Row;
use clap::Args;

use super::selection::results_in;
use crate::Answer;
use crate::json::lines;
use crate::output::print;

use crate::result::rows_text;

#[derive(Args)]
pub(crate) struct Messages {
    /// The folder with the results
    dir: PathBuf,
    /// Select experiments by name; * stands for any characters, ? for one character; may be repeated
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Print JSON Lines: an object of type "message" per message of an experiment
    #[arg(long)]
    json: bool,
}

/// A table per experiment with messages.
pub(super) fn messages(arguments: &Messages) -> Answer {
    let results = results_in(&arguments.dir, &arguments.only)?;
    let messages = results.iter().map(|result| (result, result.sections.rows(&MESSAGES)));
    let with_messages: Vec<_> = messages.filter(|(_, messages)| !messages.is_empty()).collect();
    if with_messages.is_empty() {
        return Err(format!(
            "{}: no selected result has messages; they come from experiments with traffic.kind = \
             \"periodic\", or with several identifiers in traffic.id",
            arguments.dir.display()
        ));
    }
    if arguments.json {
        let all = with_messages.iter().flat_map(|(result, messages)| {
            messages.iter().map(|message| (result.experiment.as_str(), message))
        });
        print(&lines(all)?)?;
        return Ok(true);
    }
    let tables: Vec<_> =
        with_messages.iter().map(|(result, messages)| tabulated(result, messages)).collect();
    print(&tables.join("\n"))?;
    Ok(true)
}

fn tabulated(result: &ResultFile, messages: &[Row]) -> String {
    let mut out = format!("{}\n\n{}\n", result.experiment, rows_text(MESSAGES.columns, messages));
    out.push_str("response: from when a frame was queued to its end on its bus\n");
    if messages.iter().any(|message| message.contains_key("end_to_end")) {
        out.push_str("end to end: to the end of a copy that a gateway passed on\n");
    }
    out
}
