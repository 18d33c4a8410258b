//! [`Context`]: what readers of nodes need to know.

use candor_diagnostics::Origin;

use super::Include;
use super::listed::Fill;
use crate::Bus;

/// What readers of nodes need to know.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The buses.
    pub buses: &'a [Bus],
    /// The names of buses that could not be read: there are findings about them already.
    pub unread: &'a [String],
    /// The DBC files of buses: the index of the bus, the file, and where it is named.
    pub databases: &'a [(usize, &'a str, &'a Origin)],
    /// What stands before `nodes`, `message` and so on in the names of tables: nothing, or `traffic.`.
    pub prefix: &'a str,
    /// What is in messages that do not say it themselves.
    pub fill: Option<Fill>,
    /// Reads DBC files.
    pub include: Include<'a>,
    /// Whether anybody wants the nodes: if not, the keys are only known, and no other file is read.
    pub is_used: bool,
}

impl Context<'_> {
    /// The table that lists messages.
    pub(super) fn list(&self) -> String {
        format!("[[{}message]]", self.prefix)
    }

    /// What to do about a node that is on no bus.
    pub(super) fn where_nodes_are_placed(&self) -> String {
        format!("list it under [{}nodes], as in powertrain = [\"Engine\"]", self.prefix)
    }
}
