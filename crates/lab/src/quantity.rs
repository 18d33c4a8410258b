//! [`Quantity`]: what a result can be asked for, by words. Claims, comparisons and tables ask in this way, so each quantity
//! has one definition and one unit.
//!
//! | words | unit | what it is |
//! |---|---|---|
//! | `sent`, `received`, `not_routed`, `refused`, `lost` | frames | how they ended |
//! | `not_routed_percent`, `refused_percent`, `lost_percent` | percent | of those sent |
//! | `METRIC FIGURE` | ns | a latency of all frames: see [`Metric`] and [`FIGURES`] |
//! | `MESSAGE METRIC FIGURE` | ns | the same of a message; `BUS.MESSAGE` if several buses have one of this name |
//! | `unmarked METRIC FIGURE` | ns | the same of time-triggered frames that are not marked, on this machine |
//! | `clock_difference FIGURE` | ns | the largest difference of two clocks in an integration cycle |
//! | `gateway_instructions` | instructions | of the gateway's process, for each frame that arrived |
//! | `PROCESS cpu_per_event` | ns | CPU time of the processes of that purpose for each event; `all` for all |
//! | `PROCESS cpu_percent` | percent | the same, of all processors |
//! | `bytes_per_event` | bytes | what a subscriber got |

use candor_causes::Ending;
use candor_diagnostics::did_you_mean;
use candor_lat::figures::FIGURES;
use candor_lat::{Figures, Metric};

use crate::result::ResultFile;

/// What a result can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Frames sent.
    Sent,
    /// Frames that ended so.
    Ended(Ending),
    /// The same in percent of the frames sent.
    EndedPercent(Ending),
    /// A latency, by a name of [`FIGURES`].
    Latency(Metric, &'static str),
    /// The same of a message.
    MessageLatency(String, Metric, &'static str),
    /// The same of time-triggered frames that are not marked.
    UnmarkedLatency(Metric, &'static str),
    /// How far clocks were apart.
    ClockDifference(&'static str),
    /// Instructions of the gateway's process for each frame that arrived.
    GatewayInstructions,
    /// CPU time of processes for each event.
    CpuPerEvent(String),
    /// CPU time of processes in percent of all processors.
    CpuPercent(String),
    /// Bytes that a subscriber got for each event.
    BytesPerEvent,
}

/// What a quantity counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Frames.
    Frames,
    /// Percent of the frames that were sent, or of all processors.
    Percent,
    /// Bytes for each event.
    Bytes,
    /// Instructions for each frame that arrived.
    Instructions,
}

/// Stands for the time-triggered frames that are not marked, so a message of this name needs its bus in front of it.
const UNMARKED: &str = "unmarked";
const CLOCK_DIFFERENCE: &str = "clock_difference";
const CPU_PER_EVENT: &str = "cpu_per_event";
const CPU_PERCENT: &str = "cpu_percent";

impl Quantity {
    /// The quantity of these words; `None` if they have not its form.
    ///
    /// # Errors
    /// A metric or a figure that does not exist, and a hint.
    pub fn parse(words: &[&str]) -> Result<Option<Self>, (String, Option<String>)> {
        Ok(Some(match *words {
            [name] => return Ok(Self::of_frames(name)),
            [process, CPU_PER_EVENT] => Self::CpuPerEvent(process.to_owned()),
            [process, CPU_PERCENT] => Self::CpuPercent(process.to_owned()),
            [CLOCK_DIFFERENCE, figure] => Self::ClockDifference(known_figure(figure)?),
            [metric, figure] => Self::Latency(known_metric(metric)?, known_figure(figure)?),
            [UNMARKED, metric, figure] => {
                Self::UnmarkedLatency(known_metric(metric)?, known_figure(figure)?)
            }
            [message, metric, figure] => {
                let metric = known_metric(metric)?;
                Self::MessageLatency(message.to_owned(), metric, known_figure(figure)?)
            }
            _ => return Ok(None),
        }))
    }

    /// The quantity of that name, if it is not a latency.
    fn of_frames(name: &str) -> Option<Self> {
        let ending = |key: &str| Ending::ALL.into_iter().find(|ending| ending.key() == key);
        match name {
            "sent" => Some(Self::Sent),
            "gateway_instructions" => Some(Self::GatewayInstructions),
            "bytes_per_event" => Some(Self::BytesPerEvent),
            _ => match name.strip_suffix("_percent") {
                Some(key) => ending(key).map(Self::EndedPercent),
                None => ending(name).map(Self::Ended),
            },
        }
    }

    /// Its unit.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Latency(..)
            | Self::MessageLatency(..)
            | Self::UnmarkedLatency(..)
            | Self::CpuPerEvent(_)
            | Self::ClockDifference(_) => Unit::Nanoseconds,
            Self::Ended(_) | Self::Sent => Unit::Frames,
            Self::EndedPercent(_) | Self::CpuPercent(_) => Unit::Percent,
            Self::BytesPerEvent => Unit::Bytes,
            Self::GatewayInstructions => Unit::Instructions,
        }
    }

    /// The figure, if it is one of latencies.
    #[must_use]
    pub const fn figure(&self) -> Option<&'static str> {
        match self {
            Self::Latency(_, figure)
            | Self::MessageLatency(_, _, figure)
            | Self::UnmarkedLatency(_, figure) => Some(figure),
            _ => None,
        }
    }

    /// What a result says; `None` if it says nothing.
    #[must_use]
    pub fn of(&self, result: &ResultFile) -> Option<f64> {
        let counts = result.counts;
        let service = || result.service.as_ref();
        let time_triggered = || result.time_triggered.as_ref();
        let figure = |figures: Option<&Figures>, name: &str| figures?.figure_ns(name);
        match self {
            Self::Sent => Some(counts.sent as f64),
            Self::Ended(ending) => Some(counts.ended(*ending) as f64),
            Self::EndedPercent(ending) => {
                (counts.sent > 0).then(|| counts.ended(*ending) as f64 / counts.sent as f64 * 100.0)
            }
            Self::Latency(metric, name) => figure(result.metric(*metric), name),
            Self::MessageLatency(message, metric, name) => {
                figure(result.message(message)?.metrics.get(metric.key()), name)
            }
            Self::UnmarkedLatency(metric, name) => {
                figure(time_triggered()?.instrument.as_ref()?.unmarked.get(metric.key()), name)
            }
            Self::ClockDifference(name) => {
                figure(time_triggered()?.clock_difference.as_ref(), name)
            }
            Self::GatewayInstructions => result.effort?.gateway_instructions_per_frame,
            Self::CpuPerEvent(process) => service()?.cpu_ns_per_event(process),
            Self::CpuPercent(process) => service()?.cpu_percent(process),
            Self::BytesPerEvent => service()?.event_bytes,
        }
    }
}

fn known_metric(name: &str) -> Result<Metric, (String, Option<String>)> {
    Metric::from_key(name).ok_or_else(|| {
        let metrics = Metric::ALL.iter().map(|metric| metric.key());
        unknown("metric", name, &metrics.chain([CLOCK_DIFFERENCE]).collect::<Vec<_>>())
    })
}

fn known_figure(name: &str) -> Result<&'static str, (String, Option<String>)> {
    let known = FIGURES.into_iter().find(|figure| *figure == name);
    known.ok_or_else(|| unknown("figure", name, &FIGURES))
}

/// That a name is none of the known ones, and a hint.
fn unknown(what: &str, name: &str, known: &[&str]) -> (String, Option<String>) {
    let hint = match did_you_mean(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the {what}s are {}", known.join(", ")),
    };
    (format!("unknown {what} `{name}`"), Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Quantity>, (String, Option<String>)> {
        Quantity::parse(&text.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn words_name_a_quantity_or_are_refused_with_the_reason() {
        for (text, quantity) in [
            ("gateway_latency p99", Quantity::Latency(Metric::GatewayLatency, "p99")),
            ("lost_percent", Quantity::EndedPercent(Ending::Lost)),
            ("refused_percent", Quantity::EndedPercent(Ending::Refused)),
            ("not_routed", Quantity::Ended(Ending::NotRouted)),
            ("received", Quantity::Ended(Ending::Received)),
            ("sent", Quantity::Sent),
            ("clock_difference max", Quantity::ClockDifference("max")),
            ("unmarked residual p50", Quantity::UnmarkedLatency(Metric::Residual, "p50")),
            (
                "can0.unmarked end_to_end max",
                Quantity::MessageLatency("can0.unmarked".into(), Metric::EndToEnd, "max"),
            ),
        ] {
            assert_eq!(parse(text), Ok(Some(quantity)), "{text}");
        }
        for text in ["", "missing", "sent_percent", "a b c d"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
        for (text, reason, hint) in [
            ("clock_differnce max", "metric `clock_differnce`", "did you mean `clock_difference`?"),
            ("gateway_latency p9", "figure `p9`", "did you mean `p90`?"),
            ("clock_difference p98", "figure `p98`", "did you mean `p9"),
            ("b c d", "metric `c`", ""),
        ] {
            let (found, its_hint) = parse(text).unwrap_err();
            assert_eq!(found, format!("unknown {reason}"));
            assert!(its_hint.unwrap().starts_with(hint), "{text}");
        }
        let (_, hint) = parse("speed p99").unwrap_err();
        assert!(hint.unwrap().ends_with(", clock_difference"));
    }
}
