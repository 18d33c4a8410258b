//! Many experiments from one file: `[[experiment]]` tables laid over the rest, lists multiplied.

use std::collections::BTreeSet;
use std::path::Path;

use candor_config::{Data, Table, Value};
use candor_diagnostics::Findings;
use candor_lat::result::file_name;

use super::effect::unknown_bus;
use super::leaves::leaves;
use crate::claims::Replacement;

const MAX_EXPERIMENTS: usize = 100_000;

/// The axis of kernels.
const KERNEL: &str = "vm.kernel";

/// An experiment before its settings are read.
#[derive(Clone)]
pub(super) struct Draft {
    /// What name and group begin with, if it is of an alternative.
    pub(super) prefix: String,
    /// Unique, and fit for a file.
    pub(super) name: String,
    /// The same without the seed, if there are several.
    pub(super) group: String,
    /// The seed, if the file does not say it.
    pub(super) seed: Option<u64>,
    /// Its place in the matrix.
    pub(super) axes: Vec<(String, String)>,
    /// Its settings.
    pub(super) table: Table,
    /// What its alternative sets, whatever the command line says.
    pub(super) over: Table,
}

/// All matrices of a file: that for all experiments, and those of `[[experiment]]` tables.
pub(super) fn all(variants: Option<&Value>, matrix: Option<&Value>) -> Vec<Value> {
    let variants = variants.and_then(Value::as_array).into_iter().flatten();
    let own = variants.filter_map(|variant| variant.as_table()?.get("matrix"));
    matrix.into_iter().chain(own).cloned().collect()
}

/// What takes the place of the kernels of matrices.
pub(super) fn replacement(matrices: &[Value], kernels: &[Value]) -> Replacement {
    let tables = matrices.iter().filter_map(Value::as_table);
    let axes = tables.flat_map(|table| leaves(table, &mut Vec::new()));
    let values = axes.filter(|(path, _)| path.join(".") == KERNEL).map(|(_, values)| values);
    let named = |value: &Value| file_name(&shown(value));
    let old = values.filter_map(Value::as_array).flatten().map(named).collect();
    Replacement { old, new: kernels.iter().map(named).collect() }
}

/// Lays `[[experiment]]` tables over the rest and multiplies by `[matrix]`. Where a matrix has kernels, these take their
/// place if there are some.
pub(super) fn multiply(
    table: &Table,
    variants: Option<&Value>,
    matrix: Option<&Value>,
    kernels: &[Value],
    findings: &Findings,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    match variants {
        None => {
            let name = table.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            drafts.push(Draft::new(name, table.clone()));
        }
        Some(Value { data: Data::Array(variants), origin }) => {
            if variants.is_empty() {
                let hint = "remove `experiment`, or write a table [[experiment]] for each";
                findings.error_with_hint(origin, "`experiment` is empty", hint);
            }
            for variant in variants {
                drafts.extend(overlay(table, variant, kernels, findings));
            }
        }
        Some(other) => {
            let message = "`experiment` must be a list of tables";
            findings.error_with_hint(&other.origin, message, "write [[experiment]]");
        }
    }
    let mut drafts = spread(drafts, matrix, kernels, findings);
    for draft in &mut drafts {
        draft.name = file_name(&draft.name);
        draft.group = draft.name.clone();
    }
    drafts
}

/// Results are files, so each experiment needs a name of its own.
pub(super) fn refuse_equal_names(drafts: &[Draft], findings: &Findings) {
    let mut seen = BTreeSet::new();
    for draft in drafts.iter().filter(|draft| !seen.insert(&draft.name)) {
        let message = format!("two experiments are called `{}`", draft.name);
        let hint = "give each a different name; other characters than letters, digits, `.`, `_` and \
                    `-` count as `-`, because results are files of that name";
        let name = draft.table.get("name");
        let origin = name.map_or(draft.table.origin(), |name| &name.origin);
        findings.error_with_hint(origin, message, hint);
    }
}

/// The experiments of one `[[experiment]]` table: it may have a matrix of its own, beside the one
/// for all.
fn overlay(table: &Table, variant: &Value, kernels: &[Value], findings: &Findings) -> Vec<Draft> {
    let Some(over) = variant.as_table() else {
        variant.wrong_type("experiment", "a table", findings);
        return Vec::new();
    };
    let Some(name) = over.get("name").and_then(Value::as_str) else {
        let hint = "give each [[experiment]] a different name";
        findings.error_with_hint(over.origin(), "`name` is missing", hint);
        return Vec::new();
    };
    let mut over = over.clone();
    let matrix = over.remove("matrix");
    let mut table = table.clone();
    let name = name.to_owned();
    table.merge(over);
    spread(vec![Draft::new(name, table)], matrix.as_ref(), kernels, findings)
}

/// Multiplies drafts by the lists of a matrix.
fn spread(
    mut drafts: Vec<Draft>,
    matrix: Option<&Value>,
    kernels: &[Value],
    findings: &Findings,
) -> Vec<Draft> {
    let Some(matrix) = matrix else { return drafts };
    let Some(axes) = matrix.as_table() else {
        matrix.wrong_type("matrix", "a table", findings);
        return drafts;
    };
    for draft in &drafts {
        if let Some((bus, hint)) = unknown_bus(&draft.table, axes) {
            let message =
                format!("the matrix sets bus `{bus}`, which the experiment does not have");
            findings.error_with_hint(&matrix.origin, message, hint);
            return drafts;
        }
    }
    for (path, value) in leaves(axes, &mut Vec::new()) {
        let Some(values) = value.as_array() else {
            value.wrong_type(&path.join("."), "a list of values", findings);
            continue;
        };
        if values.is_empty() {
            let message = format!("`{}` is empty", path.join("."));
            let hint = "write one value or more, or remove it from the matrix";
            findings.error_with_hint(&value.origin, message, hint);
            continue;
        }
        let key = path.join(".");
        let values = if key == KERNEL && !kernels.is_empty() { kernels } else { values };
        if drafts.iter().any(|draft| draft.axes.iter().any(|(known, _)| *known == key)) {
            let message = format!("two lists of a matrix set `{key}`");
            findings.error_with_hint(&value.origin, message, "put all values into one list");
            continue;
        }
        if drafts.len().saturating_mul(values.len()) > MAX_EXPERIMENTS {
            let message = format!("the matrix creates more than {MAX_EXPERIMENTS} experiments");
            findings.error_with_hint(&value.origin, message, "split it over several files");
            return drafts;
        }
        let with = |draft: &Draft, value| draft.with(&path, value);
        drafts =
            drafts.iter().flat_map(|draft| values.iter().map(move |v| with(draft, v))).collect();
    }
    drafts
}

impl Draft {
    fn new(name: String, table: Table) -> Self {
        Self {
            prefix: String::new(),
            group: name.clone(),
            name,
            seed: None,
            axes: Vec::new(),
            over: Table::new(table.origin().clone()),
            table,
        }
    }

    /// The same on each of these kernels, unless it has a place among them already.
    pub(super) fn on(self, kernels: &[Value]) -> Vec<Self> {
        if self.axes.iter().any(|(key, _)| key == KERNEL) {
            return vec![self];
        }
        let path: Vec<_> = KERNEL.split('.').map(str::to_owned).collect();
        let on = |kernel| {
            let mut draft = self.with(&path, kernel);
            draft.group = draft.name.clone();
            draft
        };
        kernels.iter().map(on).collect()
    }

    /// The same at one place further on an axis of the matrix.
    fn with(&self, path: &[String], value: &Value) -> Self {
        let mut draft = self.clone();
        let keys: Vec<_> = path.iter().map(String::as_str).collect();
        draft.table.set_path(&keys, value.clone());
        let shown = shown(value);
        if !draft.name.is_empty() {
            draft.name.push('-');
        }
        draft.name.push_str(&file_name(&shown));
        draft.axes.push((path.join("."), shown));
        draft
    }
}

/// A value in a name; of a list or a table, all that is in it, and of an own kernel the name of its image.
fn shown(value: &Value) -> String {
    let image = value.as_table().and_then(|table| table.get("image")?.as_str());
    if let Some(name) = image.and_then(|image| Path::new(image).file_name()) {
        return name.to_string_lossy().into_owned();
    }
    let joined = |parts: &mut dyn Iterator<Item = String>| match parts.collect::<Vec<_>>() {
        parts if parts.is_empty() => "empty".to_owned(),
        parts => parts.join(","),
    };
    match &value.data {
        Data::String(text) => text.clone(),
        Data::Integer(number) => number.to_string(),
        Data::Float(number) => number.to_string(),
        Data::Boolean(flag) => flag.to_string(),
        Data::Array(values) => joined(&mut values.iter().map(shown)),
        Data::Table(table) => joined(
            &mut table
                .entries()
                .iter()
                .map(|entry| format!("{}={}", entry.key, shown(&entry.value))),
        ),
        Data::Unreadable => "unreadable".into(),
    }
}
