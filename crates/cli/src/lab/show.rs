//! `candor lab show`: latency profiles and histograms as text.

use std::path::PathBuf;

use candor_lab::{glob, report};
use candor_lat::Metric;
use candor_lat::histogram::classic;
use candor_lat::text::{self, Canvas, Scale, Series};
use clap::Args;

use crate::Answer;
use crate::output::print;

/// Bars of a classic histogram.
const HISTOGRAM_BINS: usize = 20;

#[derive(Args)]
pub(crate) struct Show {
    /// The folder with the results
    dir: PathBuf,
    /// Select experiments by name; * stands for any characters, ? for one character
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// The metric: total_latency, gateway_latency, egress_wait, ...
    #[arg(long, default_value = "gateway_latency", value_parser = parse_metric)]
    metric: Metric,
    /// Use a linear time axis instead of a logarithmic one
    #[arg(long)]
    linear: bool,
    /// Show histograms, one after the other
    #[arg(long)]
    histogram: bool,
}

fn parse_metric(key: &str) -> Result<Metric, String> {
    Metric::from_key(key).ok_or_else(|| {
        let keys: Vec<_> = Metric::ALL.iter().map(|metric| metric.key()).collect();
        format!("expected one of {}", keys.join(", "))
    })
}

/// Profiles over one another, or histograms one after the other.
pub(super) fn show(arguments: &Show) -> Answer {
    let results = report::results(&arguments.dir).map_err(|error| error.to_string())?;
    let selected = results.iter().filter(|result| {
        arguments.only.as_deref().is_none_or(|glob| glob::matches(glob, &result.experiment))
    });
    let series: Vec<_> = selected
        .filter_map(|result| {
            let figures = result.metric(arguments.metric)?;
            Some(Series { name: &result.experiment, profile: &figures.profile })
        })
        .collect();
    if series.is_empty() {
        let key = arguments.metric.key();
        return Err(format!(
            "{}: no selected result has the metric {key}; `candor lab report` lists the metrics",
            arguments.dir.display()
        ));
    }
    let time = if arguments.linear { Scale::Linear } else { Scale::Logarithmic };
    let canvas = Canvas { time, height: 18 + series.len(), ..Canvas::default() };
    let text = if arguments.histogram {
        let of = |series: &Series<'_>| {
            let label = format!("{}: {}", series.name, arguments.metric.label());
            text::histogram(&label, &classic(series.profile, HISTOGRAM_BINS), canvas)
        };
        series.iter().map(of).collect::<Vec<_>>().join("\n")
    } else {
        text::profile(arguments.metric.label(), &series, canvas)
    };
    print(&text)?;
    Ok(true)
}
