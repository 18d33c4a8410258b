//! Where the instructions go: every instruction between the first frame and the last one, counted by
//! function.
//!
//! A plugin of QEMU counts them by address (see `plugin/lib.rs`), between two marks in the guest
//! program. Nothing stops for it, so a profile is one of the very run that [`Machine::run`] makes: the
//! report is the same. The names of functions come from a second run, whose guest reports them.

use std::collections::BTreeMap;

use candor_protocol::order::Measurement;
use candor_protocol::report::Symbol;
use candor_protocol::{Order, Report, meeting};
use object::{Object, ObjectSymbol, SymbolKind};
use rustc_demangle::demangle;
use serde::{Deserialize, Serialize};

use crate::counting::{Counting, Counts};
use crate::error::Error;
use crate::machine::Machine;
use crate::reserved_cpu::agreed;
use crate::watch::Watch;

/// Instructions of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Of the whole time between the first frame and the last.
    pub instructions: u64,
    /// By function, most first.
    pub functions: Vec<Function>,
}

/// A function and how many instructions were executed in it (not in those it calls).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name; the address where none is known.
    pub name: String,
    /// `kernel`, the name of a module, `program` (the guest's: gateway and tester), or `library`.
    pub place: String,
    pub instructions: u64,
}

impl Profile {
    /// By kernel, module and program, most first.
    #[must_use]
    pub fn places(&self) -> Vec<(String, u64)> {
        let mut places = BTreeMap::new();
        for function in &self.functions {
            *places.entry(function.place.clone()).or_insert(0) += function.instructions;
        }
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        places
    }

    /// Adds the instructions of another run.
    pub fn add(&mut self, other: &Self) {
        let mut functions = BTreeMap::new();
        for function in self.functions.drain(..).chain(other.functions.iter().cloned()) {
            *functions.entry((function.place, function.name)).or_insert(0) += function.instructions;
        }
        let all = functions.into_iter();
        let function = |((place, name), instructions)| Function { name, place, instructions };
        self.functions = all.map(function).collect();
        // Stable, so those with equal counts stay in the order of their names.
        self.functions.sort_by_key(|function| std::cmp::Reverse(function.instructions));
        self.instructions += other.instructions;
    }
}

impl Machine {
    /// Performs `order`, a measurement, and counts its instructions. The report is that of a run
    /// that is not counted.
    ///
    /// # Errors
    /// As [`Machine::run`]; the order is no measurement, or QEMU cannot count.
    pub fn profile(&self, order: &Order, watch: &dyn Watch) -> Result<(Report, Profile), Error> {
        let Order::Measure(measurement) = order else {
            return Err(Error::Other("only a measurement can be profiled".into()));
        };
        let mut symbols = program_symbols(self.init);
        let marks = marks(&symbols)?;
        let (report, counts) = agreed(|| self.counted(order, marks, watch))?;
        symbols.extend(self.symbols(measurement, watch)?);
        Ok((report, by_function(&counts, &symbols)))
    }

    /// Performs `order` once and counts between the marks; tells whether nothing could disturb it.
    fn counted(
        &self,
        order: &Order,
        marks: [u64; 2],
        watch: &dyn Watch,
    ) -> Result<((Report, Counts), bool), Error> {
        let counting = Counting::new(marks, &self.identity().qemu)?;
        let (report, is_undisturbed) = self.run_with(order, &counting.options(), watch)?;
        Ok(((report, counting.counts()?), is_undisturbed))
    }

    /// The functions of the kernel, where a run of `measurement` has them.
    fn symbols(&self, measurement: &Measurement, watch: &dyn Watch) -> Result<Vec<Symbol>, Error> {
        let telling = Measurement { wants_symbols: true, ..measurement.clone() };
        let (report, _) = self.run_with(&Order::Measure(Box::new(telling)), &[], watch)?;
        Ok(report.symbols)
    }
}

/// Where the guest program says that the first frame comes, and that the last one has come.
fn marks(symbols: &[Symbol]) -> Result<[u64; 2], Error> {
    let address = |name: &str| {
        let symbol = symbols.iter().find(|symbol| symbol.name == name);
        symbol.map(|symbol| symbol.address).ok_or_else(|| {
            Error::Other(format!("the guest program has no function {name}; please report it"))
        })
    };
    let [begin, end] = meeting::MARKS;
    Ok([address(begin)?, address(end)?])
}

/// The functions of the guest program, which is at fixed addresses.
fn program_symbols(init: &[u8]) -> Vec<Symbol> {
    let Ok(file) = object::File::parse(init) else { return Vec::new() };
    file.symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.address() != 0)
        .filter_map(|symbol| {
            let name = format!("{:#}", demangle(symbol.name().ok()?));
            Some(Symbol { address: symbol.address(), name, place: "program".into() })
        })
        .collect()
}

/// Where the kernel places what it shares with programs, such as the reading of clocks, and the
/// libraries of a command; nobody tells their functions.
const LIBRARIES: u64 = 0x7F00_0000_0000;

/// Looks addresses up in `symbols`.
fn by_function(counts: &Counts, symbols: &[Symbol]) -> Profile {
    let mut symbols: Vec<_> = symbols.iter().collect();
    symbols.sort_by_key(|symbol| symbol.address);
    let mut functions = BTreeMap::new();
    for (&address, &count) in counts {
        let behind = symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = behind.checked_sub(1).and_then(|at| symbols.get(at));
        // The upper half of the addresses is the kernel's.
        let is_kernel = address >> 63 == 1;
        let key = match symbol.filter(|symbol| (symbol.address >> 63 == 1) == is_kernel) {
            _ if (LIBRARIES..1 << 63).contains(&address) => ("(shared)".into(), "library".into()),
            Some(symbol) => (symbol.name.clone(), symbol.place.clone()),
            None => (format!("{address:#x}"), if is_kernel { "kernel" } else { "program" }.into()),
        };
        *functions.entry(key).or_insert(0) += count;
    }
    let mut functions: Vec<_> = functions
        .into_iter()
        .map(|((name, place), instructions)| Function { name, place, instructions })
        .collect();
    functions.sort_by(|a, b| {
        b.instructions
            .cmp(&a.instructions)
            .then_with(|| (&a.place, &a.name).cmp(&(&b.place, &b.name)))
    });
    Profile { instructions: counts.values().sum(), functions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_find_their_functions() {
        let symbol = |address, name: &str, place: &str| Symbol {
            address,
            name: name.into(),
            place: place.into(),
        };
        let symbols = [
            symbol(0xFFFF_FFFF_C000_0000, "can_can_gw_rcv", "can_gw"),
            symbol(0xFFFF_FFFF_8100_0000, "schedule", "kernel"),
            symbol(0x40_1000, "send", "program"),
        ];
        let counts = [
            (0xFFFF_FFFF_8100_0000, 3),
            (0xFFFF_FFFF_8100_0010, 4),
            (0xFFFF_FFFF_C000_0001, 2),
            (0x40_1005, 1),
            (0x3F_0000, 5),
            (0x8000_0000_0000_0000, 6),
            (0x7FFF_F7FC_1000, 8),
        ];
        let profile = by_function(&counts.into_iter().collect(), &symbols);
        let shown: Vec<_> = profile
            .functions
            .iter()
            .map(|function| {
                (function.name.as_str(), function.place.as_str(), function.instructions)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("(shared)", "library", 8),
                ("schedule", "kernel", 7),
                ("0x8000000000000000", "kernel", 6),
                ("0x3f0000", "program", 5),
                ("can_can_gw_rcv", "can_gw", 2),
                ("send", "program", 1),
            ]
        );
        assert_eq!(profile.instructions, 29);
        let places = profile.places();
        assert_eq!(places[0], ("kernel".to_owned(), 13));
    }
}
