//! `candor route explain`: what the rules do with one frame, and why.
//!
//! `candor help json route explain` describes what `--json` prints.

mod json;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use candor_diagnostics::{counted, meant_or};
use candor_engine::{Bus, BusIndex, Rule, Table};
use candor_rules::explain::{self, Copy, Explained, Explanation, Pass, Taken, Verdict};
use candor_rules::file;
use candor_signals::{Database, Decoded};
use candor_wire::can::Frame;
use clap::Args;

use self::words::{reason, refusal, step_object};
use super::{Notation, Rules, read, read_bytes, read_rules};
use crate::Answer;
use crate::color;
use crate::output::print;

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// The rule file or output of `cangw -L`, or - for standard input
    file: PathBuf,
    /// The bus that receives the frame: its name, or its interface
    bus: String,
    /// The frame, such as 123#DEADBEEF
    frame: Frame,
    /// For every rule that does not take the frame, say why
    #[arg(long)]
    all: bool,
    /// Print JSON Lines: one object of type "verdict", then one of type "rule" for each rule of the
    /// buses that the frame meets
    #[arg(long, conflicts_with = "all")]
    json: bool,
}

pub(super) fn run(args: &ExplainArgs) -> Answer {
    let Rules { name, table, findings, notation, .. } = read_rules(&args.file)?;
    let Some(table) = table else {
        color::eprint_findings(&findings);
        return Ok(false);
    };
    let bus = bus(&table, &args.bus).map_err(|reason| format!("{name}: {reason}"))?;
    let databases = match notation {
        Notation::Toml => databases(&args.file),
        Notation::Cangw => BTreeMap::new(),
    };
    let explanation = explain::explain(&table, bus, &args.frame);
    let scene = Scene { table: &table, file: &name, databases, explanation: &explanation };
    print(&if args.json { scene.json()? } else { scene.text(args.all) })?;
    Ok(true)
}

/// The DBC files of buses. What cannot be read was reported with the rules.
fn databases(path: &Path) -> BTreeMap<BusIndex, Rc<Database>> {
    if path.as_os_str() == "-" {
        return BTreeMap::new();
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |included: &str| read_bytes(&folder.join(included));
    read(path, "rule file")
        .map_or_else(|_| BTreeMap::new(), |text| file::databases("", &text, &include))
}

fn bus(table: &Table, name: &str) -> Result<BusIndex, String> {
    table.bus_or_interface(name).ok_or_else(|| {
        let names = table.buses.iter().flat_map(|bus| [bus.name.as_str(), bus.port.as_str()]);
        let hint = meant_or(name, names.clone(), || {
            let buses: Vec<_> = table.buses.iter().map(|bus| bus.name.as_str()).collect();
            format!("there are {}", buses.join(", "))
        });
        format!("unknown bus `{name}`; {hint}")
    })
}

/// What an explanation is about.
struct Scene<'a> {
    table: &'a Table,
    file: &'a str,
    databases: BTreeMap<BusIndex, Rc<Database>>,
    explanation: &'a Explanation,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Forwarded,
    Refused,
    Ignored,
}

impl Fate {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Forwarded, Self::Refused, Self::Ignored];

    /// The word for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Refused => "refused",
            Self::Ignored => "ignored",
        }
    }
}

/// A rule that a frame meets.
pub(crate) struct Met<'a> {
    /// Of the pass, from 1.
    pub(crate) number: usize,
    pub(crate) bus: &'a Bus,
    pub(crate) pass: &'a Pass,
    pub(crate) rule: &'a Rule,
    pub(crate) taken: Option<&'a Taken>,
    pub(crate) reason: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) copies: Vec<(&'a Bus, &'a Copy, Named<'a>)>,
}

/// What the DBC file of a bus says about a frame.
#[derive(Default)]
pub(crate) struct Named<'a> {
    pub(crate) message: Option<&'a str>,
    pub(crate) signals: Vec<Decoded<'a>>,
}

/// A step of an edit, in words.
pub(crate) struct Step {
    pub(crate) operation: &'static str,
    /// The part of the frame.
    pub(crate) field: String,
    pub(crate) before: String,
    pub(crate) after: String,
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

    fn rule(&self, explained: &Explained) -> Option<&Rule> {
        self.table.rules.get(explained.rule)
    }

    /// Every copy with its rule and what goes out.
    fn copies(&self) -> impl Iterator<Item = (&Rule, &Taken, &Copy)> {
        let rules = self.explanation.passes.iter().flat_map(|pass| &pass.rules);
        rules.flat_map(|explained| {
            let taken = taken(explained).zip(self.rule(explained));
            taken
                .into_iter()
                .flat_map(|(taken, rule)| taken.copies.iter().map(move |copy| (rule, taken, copy)))
        })
    }

    /// What becomes of the frame, and the same as a sentence.
    fn fate(&self) -> (Fate, String) {
        // What rules take from a virtual bus again has not arrived yet.
        let is_virtual = |copy: &Copy| self.bus(copy.to).is_some_and(|bus| bus.is_virtual);
        let goes_on = |copy: &Copy| {
            let next = copy.pass.and_then(|pass| self.explanation.passes.get(pass));
            next.is_some_and(|next| next.rules.iter().any(|explained| taken(explained).is_some()))
        };
        let arrives = |copy: &Copy| copy.refused.is_none() && !(is_virtual(copy) && goes_on(copy));
        let sent: Vec<String> = self
            .copies()
            .filter(|(_, _, copy)| arrives(copy))
            .filter_map(|(_, taken, copy)| Some(self.arrival(taken.result.ok()?, copy)))
            .collect();
        let refused: Vec<String> = self
            .copies()
            .filter_map(|(rule, _, copy)| Some((rule, copy.refused?)))
            .map(|(rule, cause)| format!("rule {:?}: {}", rule.name, refusal(cause)))
            .collect();
        let refuses_others = self.table.refuses_others;
        match (sent.is_empty(), refused.is_empty()) {
            (false, _) => (Fate::Forwarded, format!("forwarded {}", sent.join(", "))),
            (true, false) => (Fate::Refused, format!("refused by {}", refused.join("; "))),
            (true, true) if refuses_others => (Fate::Refused, "refused: no rule takes it".into()),
            (true, true) => (Fate::Ignored, "not forwarded: no rule takes it".into()),
        }
    }

    /// Where a copy goes, and as what if it was changed.
    fn arrival(&self, result: Frame, copy: &Copy) -> String {
        let came_in = self.explanation.passes.first().map(|pass| pass.frame);
        let to = format!("to {}", self.bus_title(copy.to));
        if came_in == Some(result) { to } else { format!("{to} as {result}") }
    }

    fn text(&self, shows_all: bool) -> String {
        let Some(first) = self.explanation.passes.first() else { return String::new() };
        let from = self.bus_title(first.bus);
        let mut out = format!("{} from {from}: {}\n", first.frame, self.fate().1);
        if let Some(words) = self.words(first.bus, &first.frame) {
            out.push_str(&format!("  {words}\n"));
        }
        for (index, pass) in self.explanation.passes.iter().enumerate() {
            if index > 0 {
                let bus = self.bus_title(pass.bus);
                out.push_str(&format!(
                    "\npass {}: {} comes back from {bus}\n",
                    index + 1,
                    pass.frame
                ));
            }
            self.pass(&mut out, pass, shows_all);
        }
        if self.explanation.is_cut {
            out.push_str("\nthe copies come back more often than shown here\n");
        }
        out
    }

    fn pass(&self, out: &mut String, pass: &Pass, shows_all: bool) {
        if pass.rules.is_empty() {
            out.push_str("\nno rule takes frames from this bus\n");
            return;
        }
        let mut others = Vec::new();
        for explained in &pass.rules {
            let Some(rule) = self.rule(explained) else { continue };
            let (line, column) = rule.position;
            let place = format!("{:?} ({}:{line}:{column})", rule.name, self.file);
            let reason = reason(rule, &explained.verdict);
            match taken(explained) {
                Some(taken) => {
                    out.push_str(&format!("\n{place} takes it: {reason}\n"));
                    self.taken(out, &pass.frame, taken);
                }
                None => others.push(format!("  {place}: {reason}\n")),
            }
        }
        let count = others.len();
        match (count, shows_all) {
            (0, _) => {}
            (_, true) => out.push_str(&format!("\nnot taken by\n{}", others.concat())),
            (1, false) => out.push_str("\n1 other rule does not take it; --all says why\n"),
            (_, false) => {
                let rules = counted(count, "other rule");
                out.push_str(&format!("\n{rules} do not take it; --all says why\n"));
            }
        }
    }

    fn taken(&self, out: &mut String, frame: &Frame, taken: &Taken) {
        for step in steps(frame, taken) {
            let Step { operation, field, before, after } = step;
            out.push_str(&format!("  {operation:<4} {field:<7} {before} -> {after}\n"));
        }
        for copy in &taken.copies {
            let bus = self.bus_title(copy.to);
            match (copy.refused, taken.result) {
                (Some(cause), _) | (None, Err(cause)) => {
                    out.push_str(&format!("  not to {bus}: {}\n", refusal(cause)));
                }
                (None, Ok(result)) => {
                    let becomes = if taken.steps.is_empty() {
                        String::new()
                    } else {
                        format!(" as {result}")
                    };
                    out.push_str(&format!("  to {bus}{becomes}\n"));
                    if let Some(words) = self.words(copy.to, &result) {
                        out.push_str(&format!("     {words}\n"));
                    }
                }
            }
        }
    }

    /// A frame by the DBC file of a bus.
    fn words(&self, bus: BusIndex, frame: &Frame) -> Option<String> {
        let Named { message, signals } = self.named(bus, frame);
        let values: Vec<_> = signals.iter().map(candor_bus::words::show_value).collect();
        Some(format!("{}: {}", message?, values.join(", ")))
    }

    /// The message that a frame is on a bus, and its signals.
    fn named<'s>(&'s self, bus: BusIndex, frame: &'s Frame) -> Named<'s> {
        let message = self.databases.get(&bus).and_then(|database| database.message_of(frame));
        message.map_or_else(Named::default, |message| Named {
            message: Some(&message.name),
            signals: message.decode(frame).collect(),
        })
    }
}

fn taken(explained: &Explained) -> Option<&Taken> {
    match &explained.verdict {
        Verdict::Taken(taken) => Some(taken),
        _ => None,
    }
}

fn steps(frame: &Frame, taken: &Taken) -> Vec<Step> {
    let size = if frame.is_fd() { 64 } else { 8 };
    taken.steps.iter().map(|step| step_object(step, size)).collect()
}
