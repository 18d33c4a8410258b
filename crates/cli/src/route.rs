//! `candor route`: rule files checked, explained, converted and compiled; gateways run, watched and asked what
//! to do.

mod apply;
mod check;
mod compile;
mod convert;
mod explain;
mod gateway;
mod image;
pub(crate) mod json;
mod load;
mod run;
mod stats;
mod top;

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use candor_diagnostics::{Findings, Source};
use candor_engine::Table;
use candor_gateway::plan::Choice;
use candor_gateway::plane::PLANES;
use candor_rules::cangw;
use candor_rules::file::disk;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};

use crate::Answer;
use crate::file_kind::FileKind;
use crate::output::print;

/// Run and watch a gateway; check, explain, convert and load its rules
#[derive(Subcommand)]
pub(crate) enum RouteCommand {
    /// Report all errors and warnings in a rule file
    ///
    /// Exits with 1 if there are errors, with 0 if there are only warnings or none.
    ///
    /// Example: candor route check gateway.rules.toml
    Check(check::CheckArgs),
    /// Show what the rules do with one frame, and why
    ///
    /// Example: candor route explain gateway.rules.toml powertrain 123#DEADBEEF
    Explain(explain::ExplainArgs),
    /// Apply rules to a recording, in the time of the recording
    ///
    /// Writes what a gateway with these rules would have sent, each frame at the time of the one that it was made of. Exits
    /// with 1 if the rules have errors, if no interface of the recording is a bus of the rules, or if --sort could not mend its order.
    ///
    /// Example: candor route apply gateway.rules.toml drive.log sent.log --map can0=powertrain
    Apply(apply::ApplyArgs),
    /// Convert a rule file to cangw commands, or the output of `cangw -L` to a rule file
    ///
    /// Example: cangw -L | candor route convert - gateway.rules.toml
    Convert(convert::ConvertArgs),
    /// Compile rules to a program image, for kernel modules, eBPF and other readers
    ///
    /// docs/program-image.md describes the format. Exits with 1 if the rules have errors.
    ///
    /// Example: candor route compile gateway.rules.toml -o gateway.image
    Compile(compile::CompileArgs),
    /// Show what a program image holds: sections, buses, rules and the checksum
    ///
    /// Exits with 1 if the image is damaged.
    ///
    /// Example: candor route image gateway.image
    Image(image::ImageArgs),
    /// Run a gateway until Ctrl-C or SIGTERM
    ///
    /// To change the rules while it runs: save the rule file, send SIGHUP, or use
    /// `candor route load`.
    ///
    /// Example: candor route run gateway.rules.toml
    Run(run::RunArgs),
    /// Show the counters of a running gateway: frames, causes of refusals, queues, latencies
    ///
    /// With --check, says whether the gateway is well, and exits with 1 if a port does not work, if the
    /// rules on disk were refused, or if a bus is silent for longer than --max-silence.
    ///
    /// Examples:
    ///   candor route stats
    ///   candor route stats drive.rules.toml --watch
    ///   candor route stats --json --watch 100ms
    ///   candor route stats --check --max-silence 2s
    #[command(verbatim_doc_comment)]
    Stats(stats::StatsArgs),
    /// Watch a running gateway live: rates, drops, queues and latencies
    ///
    /// Keys: q quits, s sorts the rules by the next column, / filters them, the arrow keys scroll,
    /// space pauses the display.
    ///
    /// Example: candor route top
    Top(top::TopArgs),
    /// Load rules into a running gateway: its own file again, or another file
    ///
    /// The gateway checks the rules first. If they have errors, the old rules stay in use and the
    /// exit code is 1.
    ///
    /// Examples:
    ///   candor route load drive.rules.toml
    ///   candor route load other.rules.toml --control drive
    #[command(verbatim_doc_comment)]
    Load(load::LoadArgs),
    /// Print the JSON Schema of rule files, for editors
    ///
    /// Example: candor route schema > rules.schema.json
    Schema,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// A rule file
    Toml,
    /// A shell script of cangw commands
    Cangw,
}

/// What may be in a rule file.
const SCHEMA: &str = include_str!("../../../schemas/rules.schema.json");

/// Runs `candor route`. False stands for "no": the rules have errors, or cannot be converted.
///
/// # Errors
/// One sentence that names the file, the reason and the remedy.
pub(crate) fn run(command: RouteCommand) -> Answer {
    match command {
        RouteCommand::Check(args) => check::run(&args),
        RouteCommand::Explain(args) => explain::run(&args),
        RouteCommand::Apply(args) => apply::run(&args),
        RouteCommand::Convert(args) => convert::run(&args),
        RouteCommand::Compile(args) => compile::run(&args),
        RouteCommand::Image(args) => image::run(&args),
        RouteCommand::Run(args) => run::run(&args),
        RouteCommand::Stats(args) => stats::run(&args),
        RouteCommand::Top(args) => top::run(&args),
        RouteCommand::Load(args) => load::run(&args),
        RouteCommand::Schema => print(SCHEMA).map(|()| true),
    }
}

/// The data planes to choose from.
fn planes() -> impl TypedValueParser<Value = Choice> {
    let one = PLANES.iter().rev().map(|plane| PossibleValue::new(plane.name).help(plane.help));
    let auto = PossibleValue::new("auto").help(
        "The kernel runs the rules that it can, threads run the others; see `candor route check --plan`",
    );
    PossibleValuesParser::new(one.chain([auto])).map(|name| {
        let chosen = PLANES.iter().find(|plane| plane.name == name);
        chosen.map_or(Choice::Auto, |plane| Choice::Only(plane))
    })
}

/// The rules of a file, in whichever notation.
struct Rules {
    name: String,
    notation: Notation,
    table: Option<Table>,
    findings: Findings,
    source: Arc<Source>,
}

fn read_rules(path: &Path) -> Result<Rules, String> {
    let name = path.display().to_string();
    let text = read(path, "rule file").map_err(|reason| format!("{name}: {reason}"))?;
    let notation = if cangw::is_cangw(&text) { Notation::Cangw } else { Notation::Toml };
    let (table, findings) = match notation {
        Notation::Toml => candor_gateway::parse_rules(&name, &text, &|included| {
            disk::read(&path.parent().unwrap_or(Path::new("")).join(included), disk::MOST_BYTES)
        }),
        Notation::Cangw => cangw::import(&name, &text),
    };
    if table.is_none()
        && let Some(message) = FileKind::Rules.mix_up(path)
    {
        return Err(message);
    }
    let source = Source::new(name.as_str(), text);
    Ok(Rules { name, notation, table, findings, source })
}

/// The text of a file of TOML, or of what `cangw` prints.
pub(crate) fn read(path: &Path, kind: &str) -> Result<String, String> {
    disk::text(read_bytes(path)?, kind)
}

/// What the user names may be a pipe, such as the `<(cangw -L)` of a shell.
fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let open = || -> io::Result<Box<dyn Read>> {
        Ok(if path.as_os_str() == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(fs::File::open(path)?)
        })
    };
    let mut bytes = Vec::new();
    open()
        .and_then(|input| input.take(disk::MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| disk::unreadable(&error))?;
    Ok(bytes)
}
