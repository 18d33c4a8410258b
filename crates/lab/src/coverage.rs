//! Which part of the papers' matrix a campaign covers.
//!
//! The second gateway paper ran "all possible combinations" of gateway, load, traffic and kernel, "which
//! resulted in 653 experiments". It does not list them. The gateways below are those that the two papers
//! describe; with three traffics, three loads and five kernels they make 675 combinations, so at least 22
//! of these are not among the 653.

use std::collections::BTreeMap;

use crate::experiment::Experiment;
use crate::result::settings;

/// How many experiments the papers report.
pub const PUBLISHED: usize = 653;
/// The kernels they ran on: 2.6.33.7, 2.6.33.7-rt29, 2.6.36.2, 3.0.4 and 3.0.4-rt14.
pub const PUBLISHED_KERNELS: usize = 5;
/// How frames come.
pub const TRAFFICS: [&str; 3] = ["one-at-a-time", "half", "flood"];
/// What else the gateway has to do.
pub const LOADS: [&str; 3] = ["none", "cpu", "ethernet"];
/// The gateways of the papers.
pub const GATEWAYS: [&str; 15] = [
    "simple, 2 bytes",
    "simple, 4 bytes",
    "simple, 8 bytes",
    "user space",
    "2048 standard filters",
    "2048 extended filters",
    "2048 masked filters",
    "modify: and",
    "modify: or",
    "modify: xor",
    "modify: set",
    "modify: checksum",
    "modify: crc8",
    "hops, 1 virtual bus",
    "hops, 2 virtual buses",
];

/// A combination on one kernel: gateway, traffic, load.
type Cell = (usize, usize, usize);

/// What of the matrix is covered, kernel by kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    kernels: BTreeMap<String, Vec<Cell>>,
}

impl Coverage {
    #[must_use]
    pub fn new(experiments: &[Experiment]) -> Self {
        let mut coverage = Self::default();
        for experiment in experiments {
            let settings = settings(&experiment.config);
            coverage.add(&settings);
        }
        coverage
    }

    fn add(&mut self, settings: &BTreeMap<String, String>) {
        let Some((kernel, cell)) = placed(settings) else { return };
        let cells = self.kernels.entry(kernel).or_default();
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }

    /// How many combinations there are on one kernel.
    pub const PER_KERNEL: usize = GATEWAYS.len() * TRAFFICS.len() * LOADS.len();

    /// The kernels, by name.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// How many combinations there are on these kernels.
    #[must_use]
    pub fn size(&self) -> usize {
        self.kernels.len() * Self::PER_KERNEL
    }

    #[must_use]
    pub fn covered(&self) -> usize {
        self.kernels.values().map(Vec::len).sum()
    }

    /// What is missing of a gateway on a kernel: traffic and load.
    #[must_use]
    pub fn missing(&self, kernel: &str, gateway: &str) -> Vec<(&'static str, &'static str)> {
        let cells = self.kernels.get(kernel).map_or(&[][..], Vec::as_slice);
        let is_there = |traffic: usize, load: usize| {
            cells
                .iter()
                .any(|cell| GATEWAYS[cell.0] == gateway && (cell.1, cell.2) == (traffic, load))
        };
        let all = (0..TRAFFICS.len())
            .flat_map(|traffic| (0..LOADS.len()).map(move |load| (traffic, load)));
        all.filter(|&(traffic, load)| !is_there(traffic, load))
            .map(|(traffic, load)| (TRAFFICS[traffic], LOADS[load]))
            .collect()
    }
}

/// The kernel and the combination of an experiment, if it is one of the papers'.
fn placed(settings: &BTreeMap<String, String>) -> Option<(String, Cell)> {
    let said = |key: &str| settings.get(key).map(|value| value.trim_matches('"'));
    let index = |all: &[&str], value: &str| all.iter().position(|&one| one == value);
    let gateway = index(&GATEWAYS, &gateway(&said)?)?;
    let traffic = index(&TRAFFICS, said("traffic.kind")?)?;
    let load = index(&LOADS, said("load.kind").unwrap_or("none"))?;
    // A kernel of one's own is an image and its modules; the model of the simulation is a profile.
    let keys = match said("testbed") {
        Some("vm") => ["vm.kernel", "vm.kernel.image"],
        _ => ["gateway.profile"; 2],
    };
    let kernel = keys.into_iter().find_map(said)?;
    Some((kernel.to_owned(), (gateway, traffic, load)))
}

/// What the papers call the gateway.
fn gateway<'a>(said: &impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let rules = |key: &str| said(&format!("gateway.generate.{key}"));
    let number = |key: &str| rules(key).and_then(|text| text.parse().ok()).unwrap_or(0_u32);
    if said("gateway.rules").is_some() {
        return None;
    }
    match said("gateway.kind").unwrap_or("kernel") {
        "kernel" => {}
        "user" => return Some("user space".into()),
        _ => return None,
    }
    let (hops, filters) = (number("hops"), number("filters"));
    let modify = rules("modify").filter(|modify| *modify != "none");
    Some(match (hops, filters, modify) {
        (0, 0 | 1, None) => format!("simple, {} bytes", said("traffic.length").unwrap_or("8")),
        (0, 0 | 1, Some(modify)) => format!("modify: {modify}"),
        (0, filters, None) => {
            format!("{filters} {} filters", rules("filter_kind").unwrap_or("standard"))
        }
        (_, 0, None) if number("virtual_buses") == 2 => "hops, 2 virtual buses".into(),
        (_, 0, None) => "hops, 1 virtual bus".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(config: &str) -> Option<(String, &'static str, &'static str, &'static str)> {
        let config = format!("testbed = 'vm'\nvm.kernel = '6.12'\n{config}");
        let (kernel, (gateway, traffic, load)) = placed(&settings(&config))?;
        Some((kernel, GATEWAYS[gateway], TRAFFICS[traffic], LOADS[load]))
    }

    #[test]
    fn experiments_find_their_place() {
        let flood = "traffic.kind = 'flood'\n";
        for (config, gateway) in [
            ("gateway.kind = 'kernel'\ntraffic.length = 2", Some("simple, 2 bytes")),
            ("traffic.length = 3", None),
            ("gateway.kind = 'user'", Some("user space")),
            ("gateway.kind = 'live'", None),
            ("gateway.rules = 'my.rules.toml'", None),
            ("gateway.generate.filters = 2048", Some("2048 standard filters")),
            (
                "gateway.generate = { filters = 2048, filter_kind = 'masked' }",
                Some("2048 masked filters"),
            ),
            ("gateway.generate.filters = 512", None),
            ("gateway.generate.modify = 'none'", Some("simple, 8 bytes")),
            ("gateway.generate.modify = 'crc8'", Some("modify: crc8")),
            ("gateway.generate = { hops = 3, virtual_buses = 2 }", Some("hops, 2 virtual buses")),
            ("gateway.generate.hops = 3", Some("hops, 1 virtual bus")),
        ] {
            let found = cell(&format!("{flood}{config}"));
            let expected = gateway.map(|gateway| ("6.12".to_owned(), gateway, "flood", "none"));
            assert_eq!(found, expected, "{config}");
        }
        assert_eq!(cell("traffic.kind = 'replay'"), None);
        assert_eq!(cell("traffic.kind = 'half'\nload.kind = 'both'"), None);
        let (_, _, _, load) = cell("traffic.kind = 'half'\nload.kind = 'ethernet'").unwrap();
        assert_eq!(load, "ethernet");
    }

    #[test]
    fn what_is_missing_is_all_but_what_is_there() {
        let mut coverage = Coverage::default();
        assert_eq!((coverage.covered(), coverage.size()), (0, 0));
        for _ in 0..2 {
            let config = "testbed = 'vm'\nvm.kernel = '6.1'\ntraffic.kind = 'half'";
            coverage.add(&settings(config));
        }
        assert_eq!((coverage.covered(), coverage.size()), (1, 135));
        assert_eq!(coverage.kernels().collect::<Vec<_>>(), ["6.1"]);
        let missing = coverage.missing("6.1", "simple, 8 bytes");
        assert_eq!(missing.len(), 8);
        assert!(!missing.contains(&("half", "none")) && missing.contains(&("half", "cpu")));
        assert_eq!(coverage.missing("6.1", "user space").len(), 9);
        assert_eq!(PUBLISHED_KERNELS * Coverage::PER_KERNEL - PUBLISHED, 22);
    }
}
