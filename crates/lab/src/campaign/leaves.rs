//! The values of a table, tables within it taken apart.

use candor_config::{Table, Value};

/// Every value of a table that is no table, with its path. A quoted key may hold dots.
pub(super) fn leaves<'a>(
    table: &'a Table,
    path: &mut Vec<String>,
) -> Vec<(Vec<String>, &'a Value)> {
    let mut found = Vec::new();
    for entry in table.entries() {
        let depth = path.len();
        path.extend(entry.key.split('.').map(str::to_owned));
        match entry.value.as_table() {
            Some(table) => found.extend(leaves(table, path)),
            None => found.push((path.clone(), &entry.value)),
        }
        path.truncate(depth);
    }
    found
}
