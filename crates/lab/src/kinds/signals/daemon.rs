//! A message bus of its own for an experiment.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use candor_linux::{clock, process};
use candor_time::Nanos;

use crate::error::Error;

/// A `dbus-daemon`. Dropping it ends it.
pub(super) struct Daemon {
    child: Child,
    pub(super) address: String,
}

impl Daemon {
    /// Starts one whose socket is in this folder.
    pub(super) fn start(folder: &Path) -> Result<Self, Error> {
        let fail = |reason: String| {
            Error::Other(format!(
                "dbus-daemon: {reason}; install it with: sudo apt-get install dbus-daemon"
            ))
        };
        let mut command = Command::new("dbus-daemon");
        command
            .args(["--session", "--nofork", "--print-address", "--address"])
            .arg(format!("unix:path={}", folder.join("bus").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        process::ends_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
        let mut address = String::new();
        if let Some(out) = child.stdout.take() {
            // It says so when it is ready, or ends.
            let read = BufReader::new(out).read_line(&mut address);
            read.map_err(|error| fail(error.to_string()))?;
        }
        let daemon = Self { child, address: address.trim().to_owned() };
        match daemon.address.is_empty() {
            true => Err(fail("it has ended before it was ready".into())),
            false => Ok(daemon),
        }
    }

    /// CPU time so far.
    pub(super) fn cpu_time(&self) -> Result<Nanos, Error> {
        clock::cpu_time_of(self.child.id()).map_err(|error| Error::Other(error.to_string()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
