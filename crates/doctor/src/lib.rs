//! What this machine can do for Candor.
//!
//! ```text
//!  /proc, /sys, sockets -- collect --> facts -- judge --> items: found, meaning, fix
//! ```
//!
//! A check is one file in `checks/`: what it collects touches the machine and judges nothing, what it
//! judges touches nothing, so each of its sentences is tested with facts that are made up. To add a
//! check: write its file and name it in [`CHECKS`].
//!
//! Nothing is changed. Trying a CAN socket may load the modules for it, as any program that opens
//! one does.

mod checks;
mod files;
mod system;

pub use checks::{CHECKS, Check, Laboratory};
pub use files::Files;

/// Where facts come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The files of the machine.
    pub files: Files,
    /// What is there to run other kernels.
    pub laboratory: Option<Laboratory>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// As it should be.
    Good,
    /// It works, but not as well as it could.
    Limited,
    /// It does not work.
    Missing,
}

impl State {
    pub const ALL: [Self; 3] = [Self::Good, Self::Limited, Self::Missing];

    /// `ok`, `limited` or `missing`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What was looked at, such as `kernel`.
    pub name: &'static str,
    /// Which one, such as `can0`, if there are several.
    pub subject: Option<String>,
    pub state: State,
    /// The fact, a sentence without a full stop.
    pub found: String,
    /// What that means for the user, likewise.
    pub meaning: String,
    /// The command that changes it, if one does.
    pub fix: Option<String>,
    /// Whether no gateway on CAN interfaces runs while this is missing.
    pub is_needed: bool,
}

impl Item {
    fn new(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        Self {
            name,
            subject: None,
            state,
            found: found.into(),
            meaning: meaning.into(),
            fix: None,
            is_needed: false,
        }
    }

    fn good(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(name, State::Good, found, meaning)
    }

    fn limited(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(name, State::Limited, found, meaning)
    }

    fn missing(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(name, State::Missing, found, meaning)
    }

    fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    fn fix(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(command.into());
        self
    }

    /// Adds the command if there is one.
    fn maybe_fix(mut self, command: Option<impl Into<String>>) -> Self {
        self.fix = command.map(Into::into);
        self
    }

    fn needed(mut self) -> Self {
        self.is_needed = true;
        self
    }
}

/// Looks at everything, in the order of [`CHECKS`].
#[must_use]
pub fn examine(sources: &Sources) -> Vec<Item> {
    CHECKS.iter().flat_map(|check| (check.examine)(sources)).collect()
}

/// Whether a gateway on CAN interfaces could run here.
#[must_use]
pub fn can_run(items: &[Item]) -> bool {
    !items.iter().any(|item| item.is_needed && item.state == State::Missing)
}

/// Items as tests compare them: a line for what was found, one for what it means, one for the fix.
#[cfg(test)]
fn reported(items: &[Item]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for item in items {
        let Item { name, subject, state, found, meaning, fix, is_needed } = item;
        let subject = subject.as_ref().map(|subject| format!(" {subject}")).unwrap_or_default();
        let needed = if *is_needed { " needed" } else { "" };
        writeln!(out, "{}{needed} {name}{subject}: {found}", state.name()).unwrap();
        writeln!(out, "  {meaning}").unwrap();
        if let Some(fix) = fix {
            writeln!(out, "  $ {fix}").unwrap();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_and_missing_stops_a_gateway() {
        let good = Item::good("a", "", "");
        let missing = Item::missing("b", "", "");
        assert!(can_run(&[]));
        assert!(can_run(&[good.clone().needed(), missing.clone()]));
        assert!(can_run(&[Item::limited("c", "", "").needed()]));
        assert!(!can_run(&[good, missing.needed()]));
    }

    /// Whatever this machine is like, every check comes to an end and says something.
    #[test]
    fn this_machine_is_examined() {
        let laboratory = Laboratory {
            qemu: Err("not looked for".into()),
            tester_outside: None,
            kernels: Vec::new(),
        };
        let sources = Sources { files: Files::of_this_machine(), laboratory: Some(laboratory) };
        for check in CHECKS {
            for item in (check.examine)(&sources) {
                assert!(!item.found.is_empty() && !item.meaning.is_empty(), "{item:?}");
                assert!(!item.found.ends_with('.') && !item.meaning.ends_with('.'), "{item:?}");
                assert!(!item.fix.as_deref().is_some_and(|fix| fix.contains('\n')), "{item:?}");
            }
        }
        let names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name} is there twice");
        }
    }

    /// A machine of which nothing is known: the files are not there.
    #[test]
    fn an_empty_machine_is_examined() {
        let folder = tempfile::tempdir().unwrap();
        let items = examine(&Sources { files: Files::at(folder.path()), laboratory: None });
        let kernel = items.iter().find(|item| item.name == "kernel").unwrap();
        assert_eq!(kernel.state, State::Limited);
        assert!(kernel.found.contains("unknown"), "{kernel:?}");
    }
}
