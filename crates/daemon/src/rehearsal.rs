//! [`Rehearsal`]: whether a change fits into the memory that a service may have.
//!
//! An allocation that fails ends a process, and with it a service that runs well. What a configuration takes follows from
//! it in no simple way. So, where memory is limited, another process of the same program reads it first, with the same
//! limits, and tells how much it took; the service reserves that, and reads it only then.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use candor_linux::limits;

/// What may be needed beside what was measured: the stacks of threads, messages, answers.
const OTHER_BYTES: usize = 8 << 20;
/// So much more than was measured is reserved, in parts of it: memory that is free may be in pieces.
const MORE: usize = 4;

/// How another process of the same program rehearses a change: its arguments. It calls [`measure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// The arguments; the file follows them.
    pub arguments: Vec<OsString>,
}

impl Rehearsal {
    /// Whether there is memory for what is in `file`. True where memory is not limited, or nothing can be rehearsed.
    ///
    /// # Errors
    /// There is not: a sentence with the remedy, for the place of `file`.
    pub fn check(&self, file: &std::path::Path) -> Result<(), String> {
        if !limits::memory_is_limited() {
            return Ok(());
        }
        let Ok(program) = std::env::current_exe() else { return Ok(()) };
        let rehearsed = Command::new(program)
            .args(&self.arguments)
            .arg(file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let Ok(rehearsed) = rehearsed else { return Ok(()) };
        let said = String::from_utf8_lossy(&rehearsed.stdout);
        let needed = said.lines().last().and_then(|line| line.trim().parse::<usize>().ok());
        let Some(needed) = needed else {
            return Err("to read it takes more memory than a process gets here; raise the limit \
                        (`ulimit -v`), or use less"
                .to_owned());
        };
        let needed = needed.saturating_add(needed / MORE).saturating_add(OTHER_BYTES);
        // Memory that is not touched costs nothing, but counts where a limit holds. Where all memory is locked, it is
        // touched, and given back at once.
        Vec::<u8>::new().try_reserve_exact(needed).map_err(|_| {
            let megabytes = needed.div_ceil(1 << 20);
            format!(
                "it takes up to {megabytes} MB more, which the process does not get; raise its limit (`ulimit -v`), or \
                 use less"
            )
        })
    }
}

/// In the process that rehearses: the memory that `work` takes at its most, in bytes.
///
/// # Errors
/// `/proc` is not mounted.
pub fn measure<T>(work: impl FnOnce() -> T) -> Result<(T, usize), candor_linux::Error> {
    let (before, _) = limits::resident_bytes()?;
    let outcome = work();
    let (_, most) = limits::resident_bytes()?;
    Ok((outcome, most.saturating_sub(before)))
}
