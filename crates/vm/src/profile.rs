//! Where the instructions go: every instruction between the first frame and the last one, counted by
//! function.
//!
//! The guest stops itself before the first frame and after the last. In between QEMU executes one
//! instruction at a time and names the address of each. That takes QEMU longer, but not the guest:
//! its time is the number of instructions, so the latencies are those of an undisturbed run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use candor_bed::report::Symbol;
use candor_bed::{Order, Report};
use object::{Object, ObjectSymbol, SymbolKind};
use rustc_demangle::demangle;

use crate::error::Error;
use crate::machine::{Machine, Watch};
use crate::qmp::Process;

/// Instructions of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Of the whole time between the first frame and the last.
    pub instructions: u64,
    /// By function, most first.
    pub functions: Vec<Function>,
}

/// A function and how many instructions were executed in it (not in those it calls).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name; the address where none is known.
    pub name: String,
    /// `kernel`, the name of a module, `program` (the guest's: gateway and tester), or `library`.
    pub place: String,
    /// How many.
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
}

/// Counts by address.
type Counts = Arc<Mutex<HashMap<u64, u64>>>;

impl Machine {
    /// Performs `order`, a measurement, and counts its instructions.
    ///
    /// # Errors
    /// As [`Machine::run`]; the order is no measurement, or QEMU cannot count.
    pub fn profile(&self, order: &Order, watch: &dyn Watch) -> Result<(Report, Profile), Error> {
        let mut order = order.clone();
        match &mut order {
            Order::Measure(measurement) => measurement.wants_stops = true,
            _ => return Err(Error::Other("only a measurement can be profiled".into())),
        }
        let counts = Counts::default();
        let counting = Arc::clone(&counts);
        let take_line = Box::new(move |line: &[u8]| {
            let Some(address) = traced(line) else { return false };
            if let Ok(mut counts) = counting.lock() {
                *counts.entry(address).or_insert(0) += 1;
            }
            true
        });
        let mut stopped = |process: &mut Process, stops: u32| match stops {
            1 => {
                one_by_one(process, true, watch)?;
                process.human("log exec,nochain", watch).map(drop)
            }
            _ => {
                process.human("log none", watch)?;
                one_by_one(process, false, watch)
            }
        };
        let (report, _) = self.run_with(&order, watch, take_line, &mut stopped)?;
        let counts = counts.lock().map(|counts| counts.clone()).unwrap_or_default();
        if counts.is_empty() {
            let reason = "this QEMU does not trace instructions (log exec); \
                          use a version that Candor was tried with, 7.2 or later";
            return Err(Error::Other(reason.into()));
        }
        let mut symbols = report.symbols.clone();
        symbols.extend(program_symbols(self.init));
        Ok((report, by_function(&counts, &symbols)))
    }
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

/// Executes one instruction at a time, or as many as QEMU likes.
fn one_by_one(process: &mut Process, is_on: bool, watch: &dyn Watch) -> Result<(), Error> {
    let state = if is_on { "on" } else { "off" };
    // Renamed in QEMU 8.1.
    let answer = process.human(&format!("one-insn-per-tb {state}"), watch)?;
    if answer.is_empty() {
        return Ok(());
    }
    match process.human(&format!("singlestep {state}"), watch)? {
        answer if answer.is_empty() => Ok(()),
        answer => Err(Error::Other(format!("this QEMU cannot count instructions: {answer}"))),
    }
}

/// The address in a line such as
/// `Trace 0: 0x7f8 [0000000000000000/ffffffff81000000/00c0b0b3/ff000201] name`.
fn traced(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"Trace ")?;
    let bracket = rest.iter().position(|&byte| byte == b'[')?;
    let mut fields = rest.get(bracket + 1..)?.split(|&byte| byte == b'/');
    let address = fields.nth(1)?;
    u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()
}

/// Where the kernel places what it shares with programs, such as the reading of clocks, and the
/// libraries of a command; nobody tells their functions.
const LIBRARIES: u64 = 0x7F00_0000_0000;

/// Looks addresses up in `symbols`.
fn by_function(counts: &HashMap<u64, u64>, symbols: &[Symbol]) -> Profile {
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
    fn traced_lines_are_read() {
        let line =
            b"Trace 0: 0x7f8b4c000100 [0000000000000000/ffffffff8108c0d0/00c0b0b3/ff000201] \n";
        assert_eq!(traced(line), Some(0xFFFF_FFFF_8108_C0D0));
        for line in [&b"qemu: fatal"[..], b"Trace 0: x", b"Trace 0: 0x1 [0/zz/0/0]", b""] {
            assert_eq!(traced(line), None);
        }
    }

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
