//! `candor route explain`: what the rules do with one frame, and why.
//!
//! `--json` prints one object of type `rule` for every rule of the bus, in the order in which the
//! kernel meets them:
//!
//! | field | |
//! |---|---|
//! | `rule`, `line`, `column` | name and place |
//! | `taken`, `reason` | whether it takes the frame, and why |
//! | `list` | the kernel's receive list of the filter that matched, or null |
//! | `steps` | of the edit: `operation`, `field`, `before` and `after` |
//! | `result` | the frame that goes out; null if none does |
//! | `copies` | `bus`, `interface`, `refused` (a cause, or null) and `hops_left` if it comes back |

use std::fmt::Write as _;
use std::path::PathBuf;

use candor_config::did_you_mean;
use candor_route::counters::Cause;
use candor_route::edit::Step;
use candor_route::explain::{self, Explained, Mismatch, Taken, Verdict};
use candor_route::table::List;
use candor_route::{Bus, BusIndex, Filter, Gate, Rule, Table, pattern};
use candor_wire::Frame;
use candor_wire::frame::{BRS, ESI};
use clap::Args;
use serde::Serialize;

use super::{Rules, json_lines, read_rules};
use crate::Answer;
use crate::output::print;

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// The rule file or output of `cangw -L`, or - for standard input
    file: PathBuf,
    /// The bus on which the frame comes in: its name, or its interface
    bus: String,
    /// The frame, such as 123#DEADBEEF
    frame: Frame,
    /// Print JSON Lines: one object of type "rule" for every rule of the bus
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ExplainArgs) -> Answer {
    let Rules { name, table, findings, .. } = read_rules(&args.file)?;
    let Some(table) = table else {
        eprint!("{findings}");
        return Ok(false);
    };
    let bus = bus(&table, &args.bus).map_err(|reason| format!("{name}: {reason}"))?;
    let explanation = explain::explain(&table, bus, &args.frame);
    let scene = Scene { table: &table, file: &name, frame: &args.frame };
    if args.json {
        let lines = explanation.rules.iter().filter_map(|rule| Some(Line::Rule(scene.line(rule)?)));
        print(&json_lines(lines)?)?;
    } else {
        print(&scene.text(bus, &explanation.rules))?;
    }
    Ok(true)
}

fn bus(table: &Table, name: &str) -> Result<BusIndex, String> {
    let by_interface = || {
        let index =
            table.buses.iter().position(|bus| bus.port == name || bus.interface() == name)?;
        u16::try_from(index).ok().map(BusIndex)
    };
    table.bus(name).or_else(by_interface).ok_or_else(|| {
        let names = table.buses.iter().flat_map(|bus| [bus.name.as_str(), bus.port.as_str()]);
        let hint = match did_you_mean(name, names.clone()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => {
                let buses: Vec<_> = table.buses.iter().map(|bus| bus.name.as_str()).collect();
                format!("there are {}", buses.join(", "))
            }
        };
        format!("unknown bus `{name}`; {hint}")
    })
}

/// What an explanation is about.
struct Scene<'a> {
    table: &'a Table,
    file: &'a str,
    frame: &'a Frame,
}

impl Scene<'_> {
    fn bus(&self, bus: BusIndex) -> Option<&Bus> {
        self.table.buses.get(usize::from(bus.0))
    }

    /// Name and interface, which are often the same.
    fn bus_title(&self, bus: BusIndex) -> String {
        self.bus(bus).map_or_else(String::new, |bus| {
            if bus.name == bus.port {
                bus.name.clone()
            } else {
                format!("{} ({})", bus.name, bus.port)
            }
        })
    }

    fn text(&self, bus: BusIndex, rules: &[Explained]) -> String {
        let mut out = format!("{} from {}\n", self.frame, self.bus_title(bus));
        if rules.is_empty() {
            out.push_str("no rule takes frames from this bus\n");
        }
        for explained in rules {
            let Some(rule) = self.table.rules.get(explained.rule) else { continue };
            let (line, column) = rule.position;
            let is_taken = matches!(explained.verdict, Verdict::Taken(_));
            let verb = if is_taken { "takes it" } else { "does not take it" };
            push(
                &mut out,
                format_args!("\n{:?} {verb} ({}:{line}:{column})\n", rule.name, self.file),
            );
            push(&mut out, format_args!("  because {}\n", self.reason(rule, &explained.verdict)));
            if let Verdict::Taken(taken) = &explained.verdict {
                self.taken(&mut out, taken);
            }
        }
        out
    }

    fn taken(&self, out: &mut String, taken: &Taken) {
        for step in self.steps(taken) {
            let StepLine { operation, field, before, after } = step;
            push(out, format_args!("  {operation:<4} {field:<7} {before} -> {after}\n"));
        }
        if let (Ok(result), false) = (taken.result, taken.steps.is_empty()) {
            push(out, format_args!("  becomes {result}\n"));
        }
        for copy in &taken.copies {
            let bus = self.bus_title(copy.to);
            match copy.refused {
                Some(cause) => push(out, format_args!("  not to {bus}: {}\n", refusal(cause))),
                None => push(out, format_args!("  to {bus}\n")),
            }
        }
    }

    fn reason(&self, rule: &Rule, verdict: &Verdict) -> String {
        match verdict {
            Verdict::OtherKind if rule.gate == Gate::Fd => "it is for CAN FD frames".into(),
            Verdict::OtherKind => "it is for classical frames".into(),
            Verdict::NoFilter(reasons) => no_filter(reasons),
            Verdict::Excluded(filter, except) => {
                let except = pattern::show(*except);
                format!("{} matches, but \"{except}\" is excluded", filter_title(rule, *filter))
            }
            Verdict::OtherPayload(filter) => {
                let title = filter_title(rule, *filter);
                format!("{title} matches, but the rule takes other data or lengths")
            }
            Verdict::Taken(taken) => {
                let title = filter_title(rule, taken.filter);
                format!("{title} matches, among the kernel's {}", list_title(taken.list))
            }
        }
    }

    fn steps(&self, taken: &Taken) -> Vec<StepLine> {
        let size = if self.frame.is_fd() { 64 } else { 8 };
        taken.steps.iter().map(|step| step_line(step, size)).collect()
    }

    fn line(&self, explained: &Explained) -> Option<RuleLine<'_>> {
        let rule = self.table.rules.get(explained.rule)?;
        let taken = match &explained.verdict {
            Verdict::Taken(taken) => Some(taken),
            _ => None,
        };
        let copies = taken.map_or(&[][..], |taken| &taken.copies).iter().filter_map(|copy| {
            let bus = self.bus(copy.to)?;
            Some(CopyLine {
                bus: &bus.name,
                interface: &bus.port,
                refused: copy.refused.map(|cause| cause.name()),
                hops_left: copy.hops_left,
            })
        });
        Some(RuleLine {
            rule: &rule.name,
            line: rule.position.0,
            column: rule.position.1,
            taken: taken.is_some(),
            reason: self.reason(rule, &explained.verdict),
            list: taken.map(|taken| list_name(taken.list)),
            steps: taken.map_or_else(Vec::new, |taken| self.steps(taken)),
            result: taken.and_then(|taken| Some(taken.result.ok()?.to_string())),
            copies: copies.collect(),
        })
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

fn filter_title(rule: &Rule, filter: Filter) -> String {
    if rule.filters.is_empty() {
        "every frame but error reports".into()
    } else {
        show_filter(filter)
    }
}

fn show_filter(filter: Filter) -> String {
    if filter.inverted {
        let plain = Filter { inverted: false, ..filter };
        format!("everything but \"{}\"", pattern::show(plain))
    } else {
        format!("\"{}\"", pattern::show(filter))
    }
}

/// The first reasons of a long list.
fn no_filter(reasons: &[(Filter, Mismatch)]) -> String {
    const SHOWN: usize = 3;
    let told = reasons.iter().take(SHOWN).map(|&(filter, mismatch)| {
        let reason = match mismatch {
            Mismatch::ErrorReport => "one of them is an error report, the other is not".into(),
            Mismatch::IdLength => "the identifier has the other length".into(),
            Mismatch::Remote => "one of them is a remote frame, the other is not".into(),
            Mismatch::Bits(bits) => format!("the identifier differs in 0x{bits:X}"),
            Mismatch::Inverted => "this is what it leaves out".into(),
        };
        format!("{} does not match: {reason}", show_filter(filter))
    });
    let more = reasons.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("nor do {more} more"));
    told.chain(more).collect::<Vec<_>>().join("; ")
}

fn list_title(list: List) -> &'static str {
    match list {
        List::Error => "filters for error reports",
        List::All => "filters without a mask",
        List::Masked => "masked filters",
        List::Inverted => "inverted filters",
        List::Extended => "single extended identifiers",
        List::Standard => "single standard identifiers",
    }
}

fn list_name(list: List) -> &'static str {
    match list {
        List::Error => "error",
        List::All => "all",
        List::Masked => "masked",
        List::Inverted => "inverted",
        List::Extended => "extended",
        List::Standard => "standard",
    }
}

fn refusal(cause: Cause) -> &'static str {
    match cause {
        Cause::Returning => "frames do not leave where they came in",
        Cause::TooLong => "the frame became too long and is deleted",
        Cause::TooShort => "it has fewer bytes than the edit works on",
        Cause::OutOfRange => "a signal takes a value that it cannot have there",
        Cause::Unmapped => "its identifier is not in the table of the rule",
        Cause::Unconvertible => "the other kind of frame has nothing like it",
        // The other causes depend on more than the frame; an explanation does not give them.
        other => other.name(),
    }
}

fn step_line(step: &Step, size: usize) -> StepLine {
    let line = |operation: &'static str, field: &str, before: String, after: String| StepLine {
        operation,
        field: field.to_owned(),
        before,
        after,
    };
    let word = |word: u32| pattern::show_identifier(word).unwrap_or(format!("word 0x{word:X}"));
    let bytes = |bytes: &[u8; 64]| {
        let bytes: Vec<_> = bytes.iter().take(size).map(|byte| format!("{byte:02X}")).collect();
        bytes.join(" ")
    };
    let checksum = |name, done: &Option<(usize, u8, u8)>| match done {
        Some((index, before, after)) => {
            line(name, &format!("byte {index}"), format!("{before:02X}"), format!("{after:02X}"))
        }
        None => line(name, "none", "an index lies before the first byte".into(), "skipped".into()),
    };
    match step {
        Step::Id(operator, before, after) => {
            line(operator.name(), "id", word(*before), word(*after))
        }
        Step::Len(operator, before, after) => {
            line(operator.name(), "length", before.to_string(), after.to_string())
        }
        Step::Flags(operator, before, after) => {
            line(operator.name(), "flags", show_flags(*before), show_flags(*after))
        }
        Step::Data(operator, before, after) => {
            line(operator.name(), "data", bytes(before), bytes(after))
        }
        Step::Crc8(done) => checksum("crc8", done),
        Step::XorChecksum(done) => checksum("xor_checksum", done),
        Step::TooLong(len) => line("end", "length", len.to_string(), "deleted".into()),
        Step::Message(before, after, len) => {
            line("message", "id", word(*before), format!("{}, {len} bytes", word(*after)))
        }
        Step::Remap(before, after) => line("remap", "id", word(*before), word(*after)),
        Step::Bytes(key, before, after) => line(key, "data", bytes(before), bytes(after)),
        Step::Converted(is_fd) => {
            let kinds = ["classical", "fd"];
            let [before, after] = if *is_fd { kinds } else { [kinds[1], kinds[0]] };
            line("convert", "kind", before.into(), after.into())
        }
    }
}

fn show_flags(flags: u8) -> String {
    let names = [(BRS, "brs"), (ESI, "esi")];
    let set: Vec<_> =
        names.iter().filter(|(bit, _)| flags & bit != 0).map(|&(_, name)| name).collect();
    if set.is_empty() { "none".into() } else { set.join("+") }
}

#[derive(Serialize)]
#[serde(tag = "type", content = "data", rename_all = "lowercase")]
enum Line<'a> {
    Rule(RuleLine<'a>),
}

#[derive(Serialize)]
struct RuleLine<'a> {
    rule: &'a str,
    line: u32,
    column: u32,
    taken: bool,
    reason: String,
    list: Option<&'static str>,
    steps: Vec<StepLine>,
    result: Option<String>,
    copies: Vec<CopyLine<'a>>,
}

#[derive(Serialize)]
struct StepLine {
    operation: &'static str,
    field: String,
    before: String,
    after: String,
}

#[derive(Serialize)]
struct CopyLine<'a> {
    bus: &'a str,
    interface: &'a str,
    refused: Option<&'static str>,
    hops_left: u8,
}
