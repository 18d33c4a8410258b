//! Values that no experiment uses, because every one lays another value over them.
//!
//! Whoever removes what lies over such a value finds its mistake then, far from where it was made. So
//! these values are checked too.

use candor_config::{Table, Value};
use candor_diagnostics::Origin;

use super::leaves::leaves;

/// What is hidden of one table of a file.
pub(super) struct Hidden {
    /// The values.
    pub(super) table: Table,
    /// The tables around them, of which experiments use other parts.
    around: Vec<Origin>,
}

impl Hidden {
    /// What is hidden of `table` under all of `overs`; nothing if nothing is.
    fn under(table: &Table, overs: &[Table]) -> Option<Self> {
        let (first, others) = overs.split_first()?;
        let mut hidden = table.replaced_by(first);
        for over in others {
            if hidden.entries().is_empty() {
                break;
            }
            hidden = hidden.replaced_by(over);
        }
        let mut around = vec![table.origin().clone()];
        overs.iter().for_each(|over| shared(&hidden, over, &mut around));
        (!hidden.entries().is_empty()).then_some(Self { table: hidden, around })
    }

    /// Whether this is the place of a hidden value, and not of a table around it: what that lacks or
    /// has too much is a matter of the experiments.
    pub(super) fn has(&self, origin: &Origin) -> bool {
        self.around.iter().all(|around| around.span() != origin.span())
    }
}

/// Notes the tables of `hidden` that are tables in `over` too.
fn shared(hidden: &Table, over: &Table, found: &mut Vec<Origin>) {
    for entry in hidden.entries() {
        let over = over.get(&entry.key).and_then(Value::as_table);
        if let (Some(hidden), Some(over)) = (entry.value.as_table(), over) {
            found.push(hidden.origin().clone());
            shared(hidden, over, found);
        }
    }
}

/// What is hidden of the file without its `[[experiment]]` tables and matrix, and of each of these
/// tables.
pub(super) fn find(table: &Table, variants: Option<&Value>, matrix: Option<&Value>) -> Vec<Hidden> {
    let matrix = matrix.map(settings);
    let Some(variants) = variants.and_then(Value::as_array) else {
        let overs: Vec<_> = matrix.into_iter().collect();
        return Hidden::under(table, &overs).into_iter().collect();
    };
    let mut overs = Vec::new();
    let mut found = Vec::new();
    for variant in variants.iter().filter_map(Value::as_table) {
        let mut variant = variant.clone();
        let own = variant.remove("matrix");
        let mut over = Table::new(variant.origin().clone());
        let matrices = own.as_ref().map(settings).into_iter().chain(matrix.clone());
        matrices.for_each(|matrix| over.merge(matrix));
        let mut both = variant.clone();
        both.merge(over.clone());
        found.extend(Hidden::under(&variant, &[over]));
        overs.push(both);
    }
    found.extend(Hidden::under(table, &overs));
    found
}

/// What a matrix lays over an experiment: the first value of each axis stands for all.
fn settings(matrix: &Value) -> Table {
    let mut settings = Table::new(matrix.origin.clone());
    let axes = matrix.as_table().map(|axes| leaves(axes, &mut Vec::new()));
    for (path, values) in axes.into_iter().flatten() {
        if let Some(value) = values.as_array().and_then(|values| values.first()) {
            let path: Vec<_> = path.iter().map(String::as_str).collect();
            settings.set_path(&path, value.clone());
        }
    }
    settings
}
