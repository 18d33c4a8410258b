//! What commands that receive have in common: ending in order, and news of ports.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use candor_bus::capture::{Capture, Captured, Next, Totals};
use candor_bus::named::NamedPort;
use candor_bus::outlet::Stop;
use candor_bus::words::View;
use candor_diagnostics::Findings;
use candor_linux::signal::others_as_terminate;
use candor_linux::{clock, unfinished};
use candor_output::{messages, say};
use candor_port::{Medium, Wanted};
use candor_signals::Database;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

use crate::LAST_MESSAGES;
use crate::color;
use crate::file_kind::FileKind;

/// Set when somebody wants the command to end.
static STOP: Stop = Stop::new(false);

/// How long to wait for frames before looking whether to end.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(50);

/// Makes the first Ctrl-C, SIGTERM, SIGHUP, SIGQUIT or SIGXCPU end the command in order; a second one ends the
/// program. What was received cannot be received again: unfinished files stay then, and are named.
pub(crate) fn catch_signals() -> &'static Stop {
    // Where no handler can be set, a signal simply ends the program.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            let (done, told) = mpsc::channel();
            std::thread::spawn(move || {
                for path in unfinished::keep() {
                    say!("{}: stopped at once; this is what was written so far", path.display());
                }
                messages::finish(LAST_MESSAGES);
                done.send(())
            });
            // Nobody has to read it.
            let _ = told.recv_timeout(LAST_MESSAGES);
            std::process::exit(130);
        }
    });
    let _ = others_as_terminate();
    &STOP
}

/// Opens ports to receive from: of recordings, so long a time by their stamps.
pub(super) fn capture(
    ports: &[NamedPort],
    errors: bool,
    time: Option<Nanos>,
) -> Result<Capture, String> {
    let wanted = Wanted { error_reports: errors, recorded: time, ..Wanted::RECEIVER };
    Capture::open(ports, wanted).map_err(|error| error.to_string())
}

/// When to end, apart from signals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    at: Option<Instant<Monotonic>>,
}

impl End {
    /// So long after now; recordings end by themselves, by their stamps.
    pub(super) fn after(time: Option<Nanos>, ports: &[NamedPort]) -> Self {
        let is_recorded =
            |port: &NamedPort| candor_drivers::medium(&port.address) == Some(Medium::Recording);
        let time = time.filter(|_| !ports.iter().all(is_recorded));
        Self { at: time.map(|time| clock::now::<Monotonic>() + time) }
    }

    fn is_over(self) -> bool {
        self.at.is_some_and(|at| clock::now::<Monotonic>() >= at)
    }
}

/// What is done with what comes.
pub(super) trait Follower {
    /// A frame came. Break to end.
    fn take(&mut self, captured: &Captured) -> Result<ControlFlow<()>, String>;

    /// There is nothing more to take at present. Break to end.
    fn pause(&mut self) -> Result<ControlFlow<()>, String> {
        Ok(ControlFlow::Continue(()))
    }
}

/// Follows ports until the end: of the ports, of the time, or of the follower's interest. What the ports received before the time was
/// over, or somebody wanted to stop, is handed over still.
///
/// # Errors
/// A port failed, or the follower did.
pub(super) fn follow(
    capture: &mut Capture,
    end: End,
    stop: &Stop,
    follower: &mut impl Follower,
) -> Result<(), String> {
    let names: Vec<_> = capture.names().map(str::to_owned).collect();
    let name = |port: usize| names.get(port).map_or("", String::as_str);
    loop {
        if stop.load(Ordering::Relaxed) || end.is_over() {
            capture.stop();
        }
        let mut flow = Ok(ControlFlow::Continue(()));
        let next = capture.next(STOP_CHECK_INTERVAL, |captured| {
            if matches!(flow, Ok(ControlFlow::Continue(()))) {
                flow = follower.take(captured);
            }
        });
        if flow?.is_break() {
            return follower.pause().map(drop);
        }
        match next {
            Next::Frames | Next::Nothing => {}
            Next::Lost(_, error) => say!("candor: {error}; waiting until it is back"),
            Next::Returned(port) => say!("candor: {} is back", name(port)),
            Next::Failed(_, error) => return Err(error.to_string()),
            Next::Ended => return follower.pause().map(drop),
        }
        if follower.pause()?.is_break() {
            return Ok(());
        }
    }
}

/// Tells on standard error what each port counted.
pub(super) fn tell_totals(capture: &Capture, totals: &[Totals]) {
    for (name, totals) in capture.names().zip(totals) {
        say!("{name}: {totals}");
    }
}

/// What each port counted.
pub(super) fn totals(capture: &Capture) -> Vec<Totals> {
    (0..capture.names().count()).map(|port| capture.totals(port)).collect()
}

/// Reads a DBC file. Warnings go to standard error.
pub(crate) fn database(path: &Path) -> Result<Database, String> {
    let findings = Findings::new();
    match Database::load(path, &findings) {
        Some(database) => {
            color::eprint_findings(&findings);
            Ok(database)
        }
        None => Err(FileKind::Dbc.mix_up(path).unwrap_or_else(|| findings.to_string())),
    }
}

/// What of the messages of a DBC file is wanted: all, without names of messages and signals.
pub(crate) fn view(path: &Path, messages: &[String], signals: &[String]) -> Result<View, String> {
    View::new(database(path)?, messages, signals).map_err(|error| error.to_string())
}

/// A number of bytes such as `100M`; powers of 1000.
pub(super) fn read_size(text: &str) -> Result<u64, String> {
    let expected = || "expected a number of bytes, such as 500k, 100M or 2G".to_owned();
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.filter(|&size| size > 0).ok_or_else(expected)
}

/// An identifier as candump writes it: 3 digits standard, 8 extended.
pub(crate) fn hex_id(frame: &Frame) -> String {
    hex_word(frame.can_id())
}

/// The same from an identifier word.
pub(crate) fn hex_word(can_id: u32) -> String {
    candor_wire::can::notation::Identifier(can_id).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, size) in
            [("1", 1), ("500k", 500_000), ("100M", 100_000_000), ("2G", 2_000_000_000)]
        {
            assert_eq!(read_size(text), Ok(size));
        }
        for text in ["", "0", "M", "-1", "1.5M", "99999999999G"] {
            assert!(read_size(text).is_err(), "{text}");
        }
    }
}
