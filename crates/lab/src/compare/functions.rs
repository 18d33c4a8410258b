//! Instructions by function, before and after.

use std::collections::BTreeMap;

use crate::result::ProfileFile;

/// What compilers append to the name of a function that they cut or copied.
const SUFFIXES: [&str; 4] = [".constprop", ".isra", ".part", ".cold"];

/// Instructions per frame in one function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionChange {
    /// The experiment, as it is called after.
    pub experiment: String,
    /// `kernel`, a module, or a program.
    pub place: String,
    /// The function, without what compilers append.
    pub function: String,
    /// Instructions per frame before.
    pub before: f64,
    /// Instructions per frame after.
    pub after: f64,
}

impl FunctionChange {
    /// After without before.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }
}

fn plain(name: &str) -> &str {
    let ends = SUFFIXES.iter().filter_map(|suffix| name.find(suffix));
    ends.min().map_or(name, |end| &name[..end])
}

/// Instructions per frame by place and function.
fn per_frame(profile: &ProfileFile) -> BTreeMap<(&str, &str), f64> {
    let mut functions = BTreeMap::new();
    for function in &profile.profile.functions {
        let key = (function.place.as_str(), plain(&function.name));
        *functions.entry(key).or_insert(0.0) += profile.per_frame(function.instructions);
    }
    functions
}

/// What stands for all functions together.
const ALL: &str = "(all)";

/// The instructions of the whole guest for each frame. Timer interrupts and what they wake are among them,
/// and hit another boot elsewhere: so this is no exact figure.
fn total(old: &ProfileFile, new: &ProfileFile) -> FunctionChange {
    FunctionChange {
        experiment: new.experiment.clone(),
        place: String::new(),
        function: ALL.into(),
        before: old.per_frame(old.profile.instructions),
        after: new.per_frame(new.profile.instructions),
    }
}

/// All functions together, then those that take more or fewer instructions, largest difference first.
pub(super) fn changes(old: &ProfileFile, new: &ProfileFile) -> Vec<FunctionChange> {
    let (before, after) = (per_frame(old), per_frame(new));
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let change = |&&(place, function): &&(&str, &str)| FunctionChange {
        experiment: new.experiment.clone(),
        place: place.to_owned(),
        function: function.to_owned(),
        before: before.get(&(place, function)).copied().unwrap_or(0.0),
        after: after.get(&(place, function)).copied().unwrap_or(0.0),
    };
    let changes = keys.iter().map(change).filter(|change| change.difference() != 0.0);
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    changes.insert(0, total(old, new));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_compilers_append() {
        for (name, shown) in [
            ("can_rcv", "can_rcv"),
            ("can_rcv.isra.0", "can_rcv"),
            ("can_rcv.constprop.0.isra.1", "can_rcv"),
            ("can_rcv.cold", "can_rcv"),
        ] {
            assert_eq!(plain(name), shown);
        }
    }
}
