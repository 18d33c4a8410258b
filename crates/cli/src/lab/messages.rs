//! `candor lab messages`: what became of each message of periodic traffic, and of each identifier of numbered frames.

use std::path::PathBuf;

use candor_lab::result::{MessageFigures, ResultFile};
use candor_lab::{glob, report};
use candor_lat::Metric;
use clap::Args;

use crate::Answer;
use crate::json::lab::message::MessageResult;
use crate::json::lab::result::Figures;
use crate::json::lines;
use crate::output::{duration, print, table, thousands};

#[derive(Args)]
pub(crate) struct Messages {
    /// The folder with the results
    dir: PathBuf,
    /// Select experiments by name; * stands for any characters, ? for one character
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Print JSON Lines: an object of type "message" per message of an experiment
    #[arg(long)]
    json: bool,
}

/// A table per experiment with messages.
pub(super) fn messages(arguments: &Messages) -> Answer {
    let results = report::results(&arguments.dir).map_err(|error| error.to_string())?;
    let is_selected = |result: &&ResultFile| {
        arguments.only.as_deref().is_none_or(|glob| glob::matches(glob, &result.experiment))
    };
    let with_messages: Vec<_> =
        results.iter().filter(is_selected).filter(|result| !result.messages.is_empty()).collect();
    if with_messages.is_empty() {
        return Err(format!(
            "{}: no selected result has messages; they come from experiments with traffic.kind = \
             \"periodic\", or with several identifiers in traffic.id",
            arguments.dir.display()
        ));
    }
    if arguments.json {
        let all = with_messages.iter().flat_map(|result| {
            result.messages.iter().map(|message| object(&result.experiment, message))
        });
        print(&lines(all)?)?;
        return Ok(true);
    }
    let tables: Vec<_> = with_messages.iter().map(|result| tabulated(result)).collect();
    print(&tables.join("\n"))?;
    Ok(true)
}

fn tabulated(result: &ResultFile) -> String {
    let has_way =
        result.messages.iter().any(|message| figures(message, Metric::EndToEnd).is_some());
    let mut head = vec!["message", "id", "node", "bus", ">sent", ">received"];
    head.extend([">min", ">p50", ">p99", ">max"]);
    if has_way {
        head.extend([">e2e p50", ">e2e p99", ">e2e max"]);
    }
    let rows: Vec<_> = result.messages.iter().map(|message| row(message, has_way)).collect();
    let mut out = format!("{}\n\n{}\n", result.experiment, table(&head, &rows));
    out.push_str("min to max: response time, from when a frame was queued to its end on its bus\n");
    if has_way {
        out.push_str("e2e: end to end, to the end of a copy that a gateway passed on\n");
    }
    out
}

fn figures(message: &MessageFigures, metric: Metric) -> Option<&candor_lab::result::Figures> {
    message.metrics.get(metric.key())
}

fn row(message: &MessageFigures, has_way: bool) -> Vec<String> {
    let time = |metric, figure: &str| {
        let ns = figures(message, metric).and_then(|figures| figures.figure_ns(figure));
        ns.map_or_else(|| "-".to_owned(), duration)
    };
    let mut row: Vec<_> =
        [&message.name, &message.id, &message.node, &message.bus].map(String::clone).into();
    row.extend([message.sent, message.received].map(thousands));
    row.extend(["min", "p50", "p99", "max"].map(|figure| time(Metric::ResponseTime, figure)));
    if has_way {
        row.extend(["p50", "p99", "max"].map(|figure| time(Metric::EndToEnd, figure)));
    }
    row
}

fn object<'a>(experiment: &'a str, message: &'a MessageFigures) -> MessageResult<'a> {
    MessageResult {
        experiment,
        message: &message.name,
        id: &message.id,
        node: &message.node,
        bus: &message.bus,
        sent: message.sent,
        received: message.received,
        response_time: figures(message, Metric::ResponseTime).map(Figures::from),
        end_to_end: figures(message, Metric::EndToEnd).map(Figures::from),
    }
}
