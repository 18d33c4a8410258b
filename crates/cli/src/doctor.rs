//! `candor doctor`: what this machine can do.
//!
//! `candor help json doctor` describes what `--json` prints.

use candor_doctor::{Files, Item, Laboratory, Sources, State, can_run, examine};
#[cfg(feature = "lab")]
use candor_vm::{Cache, Qemu, kernel};
use clap::Args;

use crate::Answer;
use crate::json::{line, lines, objects, words};
use crate::output::{print, wrapped};

/// Lines are not longer than this.
const WIDTH: usize = 96;

/// Check what this machine can do: CAN, real time, rights, the laboratory
///
/// For each check, shows the state, what it means, and the command that improves it. Changes
/// nothing. docs/doctor.md explains each check.
///
/// Exits with 0 if a gateway on CAN interfaces can run here, with 1 if not.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Show only what can be improved
    #[arg(long)]
    brief: bool,
    /// Print JSON Lines: objects of type "check", one of type "verdict"
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Doctor) -> Answer {
    let sources = Sources { files: Files::of_this_machine(), laboratory: laboratory() };
    let mut items = examine(&sources);
    let verdict = Verdict::new(&items);
    if arguments.brief {
        items.retain(|item| item.state != State::Good);
    }
    if arguments.json {
        print(&format!("{}{}", lines(&items)?, line(&verdict)?))?;
    } else {
        let text: String = items.iter().map(paragraph).collect();
        print(&format!("{text}{}", verdict.sentence()))?;
    }
    Ok(verdict.can_run)
}

/// What there is to run other kernels; `None` if this build has no laboratory.
#[cfg(not(feature = "lab"))]
fn laboratory() -> Option<Laboratory> {
    None
}

/// What there is to run other kernels.
#[cfg(feature = "lab")]
fn laboratory() -> Option<Laboratory> {
    let cached = Cache::open(None).and_then(|cache| kernel::cached(&cache)).unwrap_or_default();
    let sound = cached.into_iter().filter(|cached| cached.kernel.is_ok());
    let qemu = Qemu::find().map_err(|error| error.to_string());
    let outside = |qemu: &Qemu| qemu.hosts_tester_outside().map_err(|error| error.to_string());
    Some(Laboratory {
        tester_outside: qemu.as_ref().ok().map(outside),
        qemu: qemu.map(|qemu| qemu.version),
        kernels: sound.map(|cached| cached.name).collect(),
    })
}

/// All items taken together.
struct Verdict {
    can_run: bool,
    /// How many are good, limited, missing.
    counts: [usize; 3],
}

impl Verdict {
    fn new(items: &[Item]) -> Self {
        let count = |state| items.iter().filter(|item| item.state == state).count();
        let counts = [State::Good, State::Limited, State::Missing].map(count);
        Self { can_run: can_run(items), counts }
    }

    fn sentence(&self) -> String {
        let [good, limited, missing] = self.counts;
        let can = if self.can_run { "can" } else { "cannot" };
        format!(
            "A gateway on CAN interfaces {can} run here: {good} ok, {limited} limited, {missing} \
             missing.\n"
        )
    }
}

objects! {
    /// A check of this machine.
    "check" of "doctor" for Item as it {
        /// The name of the check, as in docs/doctor.md
        name;
        /// The interface or right that was looked at; null if there is only one
        subject;
        /// How it is
        state;
        /// What was found
        found;
        /// What it means, in sentences
        meaning;
        /// The command that improves it; null if there is none
        fix;
        /// Whether no gateway on CAN interfaces runs while this is missing
        is_needed;
    }

    /// All checks of this machine together; it comes last.
    "verdict" of "doctor" for Verdict as it {
        /// Whether a gateway on CAN interfaces can run here
        can_run;
        /// The number of checks that are ok
        ok = it.counts[0];
        /// The number of checks that are limited
        limited = it.counts[1];
        /// The number of checks where something is missing
        missing = it.counts[2];
    }
}

words! {
    State {
        "ok": "as it should be",
        "limited": "it works, but not as well as it could",
        "missing": "it does not work"
    }
}

/// An item for people: what was found, what it means, and the command, which is never broken.
fn paragraph(item: &Item) -> String {
    const INDENT: usize = 9;
    let name = match &item.subject {
        Some(subject) => format!("{} {subject}", item.name),
        None => item.name.to_owned(),
    };
    let mut out = String::new();
    let found = wrapped(&format!("{name}: {}", item.found), WIDTH - INDENT);
    for (index, line) in found.into_iter().enumerate() {
        let state = if index == 0 { item.state.name() } else { "" };
        out.push_str(&format!("{state:<INDENT$}{line}\n"));
    }
    for line in wrapped(&item.meaning, WIDTH - INDENT) {
        out.push_str(&format!("{:INDENT$}{line}\n", ""));
    }
    if let Some(fix) = &item.fix {
        out.push_str(&format!("{:INDENT$}$ {fix}\n", ""));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(state: State) -> Item {
        Item {
            name: "queue",
            subject: Some("can0".into()),
            state,
            found: "1000 frames may wait".into(),
            meaning: "a long queue hides congestion".into(),
            fix: Some("sudo ip link set can0 txqueuelen 10".into()),
            is_needed: false,
        }
    }

    #[test]
    fn an_item_is_a_paragraph_for_people() {
        assert_eq!(
            paragraph(&item(State::Limited)),
            "limited  queue can0: 1000 frames may wait\n         \
             a long queue hides congestion\n         \
             $ sudo ip link set can0 txqueuelen 10\n"
        );
        let plain = Item { subject: None, fix: None, ..item(State::Good) };
        assert_eq!(
            paragraph(&plain),
            "ok       queue: 1000 frames may wait\n         a long queue hides congestion\n"
        );
        let long = Item { found: "word ".repeat(40).trim_end().into(), ..plain };
        assert!(paragraph(&long).lines().all(|line| line.len() <= WIDTH));
        assert_eq!(paragraph(&long).lines().count(), 4);
    }

    #[test]
    fn the_verdict_counts() {
        let items = [item(State::Good), item(State::Missing), item(State::Good)];
        let verdict = Verdict::new(&items);
        assert_eq!(
            verdict.sentence(),
            "A gateway on CAN interfaces can run here: 2 ok, 0 limited, 1 missing.\n"
        );
        let needed = Item { is_needed: true, ..item(State::Missing) };
        let verdict = Verdict::new(&[needed]);
        assert!(verdict.sentence().starts_with("A gateway on CAN interfaces cannot run here: "));
        assert_eq!(
            line(&verdict).unwrap(),
            "{\"type\":\"verdict\",\
             \"data\":{\"can_run\":false,\"ok\":0,\"limited\":0,\"missing\":1}}\n"
        );
    }
}
