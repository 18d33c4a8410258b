//! `candor lab show`: latency profiles, histograms and sweeps as text.

use std::path::PathBuf;

use candor_diagnostics::{list_of_names, visible};
use candor_lab::result::ResultFile;
use candor_lab::sweep::{self, Sweep};
use candor_lat::histogram::classic;
use candor_lat::text::{self, Canvas, Scale, Series};
use candor_lat::{Metric, TapPath};
use clap::Args;

use super::overview::about_maxima;
use super::selection::results_in;
use crate::Answer;
use crate::output::print;

/// Bars of a classic histogram.
const HISTOGRAM_BINS: usize = 20;

#[derive(Args)]
pub(crate) struct Show {
    /// The folder with the results
    dir: PathBuf,
    /// Select experiments by name; * stands for any characters, ? for one character; may be repeated
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// The metric: total_latency, egress_wait, ... [default: gateway_latency, or the latency that the results have]
    #[arg(long, value_parser = parse_metric)]
    metric: Option<Metric>,
    /// Use a linear time axis instead of a logarithmic one
    #[arg(long)]
    linear: bool,
    /// Show histograms, one after the other
    #[arg(long)]
    histogram: bool,
    /// Show the smallest, the median and the largest latency over the values of an axis of the matrix, such as
    /// relay_delay
    #[arg(long, value_name = "AXIS", conflicts_with = "histogram")]
    over: Option<String>,
}

fn parse_metric(key: &str) -> Result<Metric, String> {
    Metric::from_key(key).ok_or_else(|| {
        let keys: Vec<_> = Metric::ALL.iter().map(|metric| metric.key()).collect();
        format!("expected one of {}", keys.join(", "))
    })
}

/// Profiles over one another, or histograms one after the other.
pub(super) fn show(arguments: &Show) -> Answer {
    let results = results_in(&arguments.dir, &arguments.only)?;
    let selected: Vec<_> = results.iter().collect();
    let metric = arguments.metric.unwrap_or_else(|| usual(&selected));
    if let Some(axis) = &arguments.over {
        print(&ranges(arguments, metric, &selected, axis)?)?;
        return Ok(true);
    }
    let series: Vec<_> = selected
        .iter()
        .filter_map(|result| {
            let figures = result.metric(metric)?;
            Some(Series { name: &result.experiment, profile: &figures.profile })
        })
        .collect();
    if series.is_empty() {
        return Err(no_metric(arguments, metric));
    }
    let time = if arguments.linear { Scale::Linear } else { Scale::Logarithmic };
    let canvas = Canvas { time, height: 18 + series.len(), ..Canvas::default() };
    let text = if arguments.histogram {
        let of = |series: &Series<'_>| {
            let label = format!("{}: {}", visible(series.name), metric.label());
            text::histogram(&label, &classic(series.profile, HISTOGRAM_BINS), canvas)
        };
        series.iter().map(of).collect::<Vec<_>>().join("\n")
    } else {
        text::profile(metric.label(), &series, canvas)
    };
    print(&text)?;
    Ok(true)
}

/// The latency that people ask for: that which the path of the frames is about, or else the first one that a result has.
fn usual(results: &[&ResultFile]) -> Metric {
    let main = |result: &ResultFile| TapPath::by_name(&result.path)?.main_metric();
    let mut main = results.iter().filter_map(|result| Some((result, main(result)?)));
    let main = main.find(|(result, metric)| result.metric(*metric).is_some());
    let has = |metric: &Metric| results.iter().any(|result| result.metric(*metric).is_some());
    let any = || Metric::ALL.into_iter().find(has);
    main.map(|(_, metric)| metric).or_else(any).unwrap_or(Metric::GatewayLatency)
}

fn no_metric(arguments: &Show, metric: Metric) -> String {
    let key = metric.key();
    format!(
        "{}: no selected result has the metric {key}; `candor lab report` lists the metrics",
        arguments.dir.display()
    )
}

/// Latencies over an axis.
fn ranges(
    arguments: &Show,
    metric: Metric,
    results: &[&ResultFile],
    axis: &str,
) -> Result<String, String> {
    let axes = sweep::axes(results);
    let names = || list_of_names(axes.iter().map(String::as_str), "and");
    let dir = arguments.dir.display();
    let axis = match sweep::named(&axes, axis)[..] {
        [axis] => axis,
        [] if axes.is_empty() => {
            return Err(format!("{dir}: the selected results have no axis; `matrix` makes them"));
        }
        [] => return Err(format!("{dir}: there is no axis `{axis}`; the axes are {}", names())),
        _ => {
            return Err(format!(
                "{dir}: several axes end in `{axis}`; use the whole name: {}",
                names()
            ));
        }
    };
    let sweeps = sweep::sweeps(results, axis, metric);
    if sweeps.is_empty() {
        return Err(no_metric(arguments, metric));
    }
    let blocks: Vec<_> = sweeps.into_iter().map(|Sweep { name, ranges }| (name, ranges)).collect();
    let time = if arguments.linear { Scale::Linear } else { Scale::Logarithmic };
    let canvas = Canvas { time, ..Canvas::default() };
    let short = axis.rsplit('.').next().unwrap_or(axis);
    let label = format!("{} over {short}", metric.label());
    let maxima = about_maxima(results.iter().copied()).unwrap_or_default();
    Ok(text::ranges(&label, &blocks, canvas) + &maxima)
}
