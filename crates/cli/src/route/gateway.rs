//! Finding a running gateway and speaking with it.

use std::fs;
use std::path::Path;

use candor_gateway::control::place::{Places, Wanted, find};
use candor_gateway::control::{Client, ClientError};

/// Connects to the gateway that is meant: by its control socket, its rule file, or since it is the
/// only one.
pub(super) fn connect(file: Option<&Path>, control: Option<&Path>) -> Result<Client, String> {
    let wanted = match (control, file) {
        (Some(control), _) => Wanted::Control(control),
        (None, Some(file)) => Wanted::File(file),
        (None, None) => Wanted::Any,
    };
    let path = find(&Places::of_process(), wanted)?;
    Client::connect(&path).map_err(describe)
}

/// A failure as a sentence.
pub(super) fn describe(error: ClientError) -> String {
    error.to_string()
}

/// Whether the gateway that has the name of `file` has other rules than those in it.
pub(super) fn other_file<'a>(client: &'a Client, file: Option<&Path>) -> Option<&'a str> {
    let file = fs::canonicalize(file?).ok()?;
    let theirs = client.version().file.as_str();
    let is_other = fs::canonicalize(theirs).is_ok_and(|theirs| theirs != file);
    is_other.then_some(theirs)
}
