//! `[[alternative]]`: all experiments of a file once more, with other settings. Claims about them are shown beside those of the file
//! and are not counted.

use candor_config::{Section, Table, Value};
use candor_diagnostics::{Findings, Origin};
use candor_lat::result::file_name;

use super::effect::unknown_bus;
use super::leaves::leaves;
use super::matrix::Draft;
use crate::experiment::Experiment;
use crate::glob;
use crate::kinds::{self, Kinds};

/// Other settings for all experiments of a file.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// What it is called in tables.
    pub name: String,
    /// Patterns of the names of the experiments that it leaves out, and where they stand.
    except: Vec<(String, Origin)>,
    settings: Table,
}

impl Alternative {
    /// What its experiments are called: this stands before the name of the experiment of the file.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}.", file_name(&self.name))
    }

    /// The experiment with these settings; `None` if it is left out.
    pub(super) fn of(&self, draft: &Draft) -> Option<Draft> {
        if self.except.iter().any(|(glob, _)| glob::matches(glob, &draft.group)) {
            return None;
        }
        let prefix = self.prefix();
        let mut draft = draft.clone();
        draft.name.insert_str(0, &prefix);
        draft.group.insert_str(0, &prefix);
        draft.table.merge(self.settings.clone());
        draft.axes.push(("alternative".into(), self.name.clone()));
        Some(Draft { prefix, over: self.settings.clone(), ..draft })
    }

    /// Reports patterns that match none of the experiments of the file.
    pub(super) fn require_matches(&self, drafts: &[Draft], findings: &Findings) {
        for (glob, origin) in &self.except {
            if !drafts.iter().any(|draft| glob::matches(glob, &draft.group)) {
                let message = format!("no experiment matches `{glob}`");
                let hint = "`candor lab list` shows their names; leave out the seed";
                findings.error_with_hint(origin, message, hint);
            }
        }
    }

    /// Whether it may be laid over the experiments of the file; reports a bus that they have not, and what is different in each.
    pub(super) fn fits(&self, drafts: &[Draft], findings: &Findings) -> bool {
        for (path, value) in leaves(&self.settings, &mut Vec::new()) {
            let key = path.join(".");
            if drafts.iter().any(|draft| draft.axes.iter().any(|(axis, _)| *axis == key)) {
                let message =
                    format!("the alternative `{}` sets `{key}`, as the matrix does", self.name);
                let hint = "set something else, or remove it from the matrix";
                findings.error_with_hint(&value.origin, message, hint);
                return false;
            }
        }
        let unknown = drafts.iter().find_map(|draft| unknown_bus(&draft.table, &self.settings));
        let Some((bus, hint)) = unknown else { return true };
        let name = &self.name;
        let message =
            format!("the alternative `{name}` sets bus `{bus}`, which the experiments do not have");
        findings.error_with_hint(self.settings.origin(), message, hint);
        false
    }

    /// Reports settings that none of its experiments uses.
    pub(super) fn require_use(
        &self,
        kinds: Kinds,
        experiments: &[Experiment],
        findings: &Findings,
    ) {
        for (path, value) in leaves(&self.settings, &mut Vec::new()) {
            if let Err(advice) = kinds::require_use(kinds, &path.join("."), experiments) {
                let message = format!("`{}` in an alternative has no effect", path.join("."));
                findings.error_with_hint(&value.origin, message, advice);
            }
        }
    }
}

/// Reads `[[alternative]]` tables.
pub(super) fn read(value: Option<&Value>, findings: &Findings) -> Vec<Alternative> {
    let mut alternatives: Vec<Alternative> = Vec::new();
    for table in value.into_iter().flat_map(|value| value.tables("alternative", findings)) {
        let mut section = Section::new(table, findings);
        section.require(&["name"]);
        let Some(name) = section.string("name").map(str::to_owned) else { continue };
        let origin = section.origin_of("name");
        if name.trim().is_empty() {
            findings.error_with_hint(origin, "`name` is empty", "name what is different");
        }
        if alternatives.iter().any(|it| file_name(&it.name) == file_name(&name)) {
            let hint = "give each [[alternative]] a different name";
            findings.error_with_hint(origin, format!("two alternatives are called `{name}`"), hint);
        }
        let except = section.strings("except").into_iter();
        let except = except.map(|(glob, origin)| (glob.to_owned(), origin.clone())).collect();
        section.refuse_empty("except", "remove `except` to leave nothing out");
        let mut settings = table.clone();
        settings.remove("name");
        settings.remove("except");
        for key in ["matrix", "experiment", "claim", "figure", "alternative"] {
            if let Some(value) = settings.remove(key) {
                let message = format!("an alternative cannot have `{key}`");
                findings.error_with_hint(
                    &value.origin,
                    message,
                    "write settings of experiments only",
                );
            }
        }
        if settings.entries().is_empty() {
            let hint = "add a setting, such as vm.mips = 125";
            findings.error_with_hint(
                table.origin(),
                "an alternative without settings changes nothing",
                hint,
            );
        }
        alternatives.push(Alternative { name, except, settings });
    }
    alternatives
}
