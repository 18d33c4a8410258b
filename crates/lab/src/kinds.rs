//! The kinds of experiments: what tables show of each.

mod gateway;
mod ping;
mod signals;
mod time_triggered;

use candor_lat::TapPath;

use crate::columns::Columns;
use crate::result::ResultFile;

/// Says what tables show of some results.
type OfResults = fn(&[&ResultFile]) -> Columns;

/// What tables show of each kind, by the path of its frames, in the order of tables.
const KINDS: [(&TapPath, OfResults); 4] = [
    (TapPath::CAN_GATEWAY, gateway::columns),
    (TapPath::SIGNAL_SERVICE, signals::columns),
    (TapPath::ROUND_TRIP, ping::columns),
    (TapPath::TIME_TRIGGERED, time_triggered::columns),
];

/// The tables of some results, each with the name of its path.
pub fn tables(results: &[&ResultFile]) -> Vec<(&'static str, Columns)> {
    let table = |(path, columns): (&'static TapPath, OfResults)| {
        let of_path = results.iter().copied().filter(|result| result.path == path.name());
        let of_path: Vec<_> = of_path.collect();
        (!of_path.is_empty()).then(|| (path.name(), columns(&of_path)))
    };
    KINDS.into_iter().filter_map(table).collect()
}

/// Below tables whose values are ranges.
const RANGES: &str = "a..b: the smallest and the largest value over the runs\n";
