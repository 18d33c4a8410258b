//! `candor route`: rule files checked, explained and converted.
//!
//! `candor route check --json` prints one object per finding, of type `finding` with `severity`,
//! `file`, `line`, `column` (from 1, 0 if it has no place), `message` and `hint` (or null), then one
//! of type `summary` with `file`, `rules` (null if there are errors), `errors` and `warnings`.
//!
//! `candor route explain --json` prints one object of type `rule` for every rule of the bus, in the
//! order in which the kernel meets them:
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
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use candor_config::{Finding, Findings, MAX_BYTES, Severity, did_you_mean};
use candor_lab::output;
use candor_route::counters::Cause;
use candor_route::edit::Step;
use candor_route::explain::{self, Explained, Mismatch, Taken, Verdict};
use candor_route::table::List;
use candor_route::{Bus, BusIndex, Filter, Gate, Rule, Table, cangw, file, pattern};
use candor_wire::Frame;
use candor_wire::frame::{BRS, ESI};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::Answer;
use crate::output::{json_line, print};

/// Check, explain and convert the rules of a gateway
#[derive(Subcommand)]
pub(crate) enum RouteCommand {
    /// Tell everything that is wrong or suspicious about a rule file
    ///
    /// Exits with 1 if there are errors, with 0 if there are none or only warnings.
    ///
    /// Example: candor route check gateway.rules.toml
    Check(CheckArgs),
    /// Show what the rules do with one frame, and why
    ///
    /// Example: candor route explain gateway.rules.toml powertrain 123#DEADBEEF
    Explain(ExplainArgs),
    /// Turn a rule file into commands of cangw, or what `cangw -L` prints into a rule file
    ///
    /// Example: cangw -L | candor route convert - gateway.rules.toml
    Convert(ConvertArgs),
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The rule file or output of `cangw -L`, or - for standard input
    file: PathBuf,
    /// Print JSON Lines: one object of type "finding" each, then one of type "summary"
    #[arg(long)]
    json: bool,
}

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

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// The rule file or commands of cangw to read, or - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write; standard output if not given or -
    #[arg(value_name = "OUT")]
    output: Option<PathBuf>,
    /// What to write; if not given, the ending of OUT tells, else it is the other notation than IN
    #[arg(long, value_name = "NOTATION")]
    to: Option<Notation>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// A rule file
    Toml,
    /// A shell script of cangw commands
    Cangw,
}

/// Runs `candor route`. False stands for "no": the rules have errors, or cannot be converted.
///
/// # Errors
/// One sentence that names the file, the reason and the remedy.
pub(crate) fn run(command: RouteCommand) -> Answer {
    match command {
        RouteCommand::Check(args) => check(&args),
        RouteCommand::Explain(args) => explain(&args),
        RouteCommand::Convert(args) => convert(&args),
    }
}

/// The rules of a file, in whichever notation.
struct Rules {
    name: String,
    notation: Notation,
    table: Option<Table>,
    findings: Findings,
}

fn load(path: &Path) -> Result<Rules, String> {
    let name = path.display().to_string();
    let text = read(path).map_err(|reason| format!("{name}: {reason}"))?;
    let notation = if cangw::is_cangw(&text) { Notation::Cangw } else { Notation::Toml };
    let (table, findings) = match notation {
        Notation::Toml => file::parse(&name, &text),
        Notation::Cangw => cangw::import(&name, &text),
    };
    Ok(Rules { name, notation, table, findings })
}

/// The text of a file, a little beyond the limit at most, so that a reader can refuse it.
fn read(path: &Path) -> Result<String, String> {
    let open = || -> io::Result<Box<dyn Read>> {
        Ok(if path.as_os_str() == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(fs::File::open(path)?)
        })
    };
    let mut bytes = Vec::new();
    open()
        .and_then(|input| input.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}; check the path and its permissions"))?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes, which is no rule file"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        format!("byte {byte} is not UTF-8; rule files are text")
    })
}

fn check(args: &CheckArgs) -> Answer {
    let Rules { name, table, findings, .. } = load(&args.file)?;
    let (errors, warnings) = counts(&findings);
    let rules = table.as_ref().map(|table| table.rules.len());
    if args.json {
        let findings = findings.sorted();
        let lines = findings.iter().map(|finding| Line::Finding(finding_line(finding)));
        let summary = Line::Summary(SummaryLine { file: &name, rules, errors, warnings });
        print(&json_lines(lines.chain([summary]))?)?;
    } else {
        print(&findings.to_string())?;
    }
    let found = format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"));
    match &table {
        Some(table) => {
            let buses = plural(table.buses.len(), "bus");
            eprintln!("{name}: {} on {buses}; {found}", plural(table.rules.len(), "rule"));
        }
        None => eprintln!("{name}: {found}"),
    }
    Ok(table.is_some())
}

fn counts(findings: &Findings) -> (usize, usize) {
    (findings.count(Severity::Error), findings.count(Severity::Warning))
}

fn plural(count: usize, what: &str) -> String {
    let ending = match (count, what) {
        (1, _) => "",
        (_, "bus") => "es",
        _ => "s",
    };
    format!("{count} {what}{ending}")
}

fn finding_line(finding: &Finding) -> FindingLine<'_> {
    let (line, column) = finding.origin.line_column();
    FindingLine {
        severity: finding.severity.name(),
        file: finding.origin.source().name(),
        line,
        column,
        message: &finding.message,
        hint: finding.hint.as_deref(),
    }
}

fn explain(args: &ExplainArgs) -> Answer {
    let Rules { name, table, findings, .. } = load(&args.file)?;
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
        let index = table.buses.iter().position(|bus| bus.interface == name)?;
        u16::try_from(index).ok().map(BusIndex)
    };
    table.bus(name).or_else(by_interface).ok_or_else(|| {
        let names = table.buses.iter().flat_map(|bus| [bus.name.as_str(), bus.interface.as_str()]);
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
            if bus.name == bus.interface {
                bus.name.clone()
            } else {
                format!("{} ({})", bus.name, bus.interface)
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
                interface: &bus.interface,
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
    }
}

fn show_flags(flags: u8) -> String {
    let names = [(BRS, "brs"), (ESI, "esi")];
    let set: Vec<_> =
        names.iter().filter(|(bit, _)| flags & bit != 0).map(|&(_, name)| name).collect();
    if set.is_empty() { "none".into() } else { set.join("+") }
}

fn convert(args: &ConvertArgs) -> Answer {
    let Rules { name, notation, table, findings } = load(&args.input)?;
    eprint!("{findings}");
    let Some(table) = table else { return Ok(false) };
    let output = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    let by_ending = output.and_then(Path::extension).and_then(|ending| match ending.to_str()? {
        "toml" => Some(Notation::Toml),
        "sh" | "cangw" => Some(Notation::Cangw),
        _ => None,
    });
    let other = if notation == Notation::Toml { Notation::Cangw } else { Notation::Toml };
    let text = match args.to.or(by_ending).unwrap_or(other) {
        Notation::Toml => file::write(&table),
        Notation::Cangw => match cangw::export(&table) {
            Ok(text) => text,
            Err(failures) => {
                for failure in failures {
                    let Some(rule) = table.rules.get(failure.rule) else { continue };
                    let (line, column) = rule.position;
                    let place = format!("{name}:{line}:{column}");
                    eprintln!(
                        "{place}: error: cangw cannot do {:?}: {}",
                        rule.name, failure.reason
                    );
                }
                return Ok(false);
            }
        },
    };
    match output {
        None => print(&text)?,
        Some(path) => output::replace(path, text.as_bytes()).map_err(|error| {
            format!("{}: cannot be written: {error}; check the folder", path.display())
        })?,
    }
    eprintln!("{}", plural(table.rules.len(), "rule"));
    Ok(true)
}

fn json_lines<'a>(lines: impl Iterator<Item = Line<'a>>) -> Result<String, String> {
    lines.map(|line| json_line(&line)).collect()
}

#[derive(Serialize)]
#[serde(tag = "type", content = "data", rename_all = "lowercase")]
enum Line<'a> {
    Finding(FindingLine<'a>),
    Summary(SummaryLine<'a>),
    Rule(RuleLine<'a>),
}

#[derive(Serialize)]
struct FindingLine<'a> {
    severity: &'static str,
    file: &'a str,
    line: u32,
    column: u32,
    message: &'a str,
    hint: Option<&'a str>,
}

#[derive(Serialize)]
struct SummaryLine<'a> {
    file: &'a str,
    rules: Option<usize>,
    errors: usize,
    warnings: usize,
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
