//! How guests end: with a report, with a reason, with the last words of their kernel, or not in time.

use candor_protocol::{Report, channel, meeting};
use candor_time::civil;
use serde_json::{Value, json};

use crate::error::Error;
use crate::qmp::Process;
use crate::watch::Watch;

/// Lines of the console that are shown when a guest dies.
const CONSOLE_LINES: usize = 20;
/// How a kernel begins when it cannot go on.
const COMPLAINTS: [&str; 5] =
    ["Kernel panic", "BUG:", "Oops", "Unable to mount root", "soft lockup"];
/// 2026-01-01, when every guest boots, in days since 1970.
const BASE_DAYS: u64 = 20_454;

/// Why there is no report.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    /// The guest says so.
    Failed(String),
    /// The guest cannot say anything any more.
    Died(String),
}

/// Why a guest ended that was only to boot.
pub(crate) fn boot_failure(
    release: &str,
    status: Option<i32>,
    report: &[u8],
    console: impl FnOnce() -> Vec<String>,
) -> Error {
    match evaluate(release, status, report) {
        Err(Ended::Failed(reason)) => Error::Other(reason),
        Ok(_) | Err(Ended::Died(_)) => {
            let console = console();
            let hint = match console.is_empty() {
                true => {
                    "; it printed nothing: to see why, set CONFIG_PRINTK=y and \
                     CONFIG_SERIAL_8250_CONSOLE=y in its configuration"
                }
                false => "",
            };
            let reason =
                format!("Linux {release} did not boot: it ended before its /init was ready{hint}");
            Error::Guest { reason, console }
        }
    }
}

/// The report in what a guest wrote before QEMU ended with `status`.
pub(crate) fn evaluate(release: &str, status: Option<i32>, bytes: &[u8]) -> Result<Report, Ended> {
    let exit = |value: u8| Some(i32::from(value) << 1 | 1);
    let mut report = Report::default();
    let mut at = 0;
    loop {
        match channel::decode(bytes, at) {
            Ok(None) => break,
            Ok(Some((message, next))) => {
                report.take(message);
                at = next;
            }
            // It was cut off while it was writing, or there was no room.
            Err(_) => break,
        }
    }
    if let Some(reason) = report.failure {
        return Err(Ended::Failed(format!("the guest with Linux {release} reports: {reason}")));
    }
    if status == exit(meeting::EXIT_DONE) && report.is_done {
        return Ok(report);
    }
    Err(Ended::Died(match status {
        Some(0) => format!("the guest with Linux {release} panicked or powered off"),
        status if status == exit(meeting::EXIT_DONE) => format!(
            "the report of the guest with Linux {release} is not complete: the disk may be full; \
             free space for temporary files, or name another folder with TMPDIR"
        ),
        Some(code) => format!("the guest with Linux {release} died: QEMU ended with status {code}"),
        None => format!("the guest with Linux {release} died: QEMU was ended by a signal"),
    }))
}

/// A fault of some versions of QEMU that a guest may have died of, for the end of a sentence.
///
/// Before 8.0, `cmpxchg16b` takes its flags from what the CPU did earlier (target/i386/tcg/translate.c, without
/// `gen_update_cc_op`). If an interrupt ends a few instructions before it, the guest goes on with flags that it never had,
/// such as the direction flag, and panics: once in about 40 million packets of a flood.
pub(crate) fn known_fault(qemu: &str, status: Option<i32>) -> Option<&'static str> {
    let major = qemu.split('.').next()?.parse::<u32>().ok()?;
    let has_panicked = status == Some(0);
    (has_panicked && major < 8).then_some(
        "; QEMU before 8.0 has a rare fault that ends guests so: try a newer one, or another seed",
    )
}

/// Whether the guest runs past a time of its own, in seconds since it was switched on.
pub(crate) fn is_past(
    process: &mut Process,
    limit_s: u64,
    watch: &dyn Watch,
) -> Result<bool, Error> {
    match guest_seconds(process, watch) {
        Ok(seconds) => Ok(seconds > limit_s),
        // It came to its end just now: that is an event of its own.
        Err(_) if process.has_ended() => Ok(false),
        Err(error) => Err(error),
    }
}

/// What time it is in the guest, in seconds since it was switched on. Reading it does not change
/// anything that the guest could notice.
pub(crate) fn guest_seconds(process: &mut Process, watch: &dyn Watch) -> Result<u64, Error> {
    let arguments = json!({"path": "/machine", "property": "rtc-time"});
    let time = process.execute("qom-get", arguments, watch)?;
    let field = |name: &str| time.get(name).and_then(Value::as_u64).unwrap_or(0);
    let date = (field("tm_year") + 1900, field("tm_mon") + 1, field("tm_mday"));
    let hours = civil::days(date).unwrap_or(0) * 24 + field("tm_hour");
    let seconds = (hours * 60 + field("tm_min")) * 60 + field("tm_sec");
    Ok(seconds.saturating_sub(BASE_DAYS * 86_400))
}

/// What a console says about the end: from where the kernel complains, or else the last lines.
pub(crate) fn console(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let complains = |line: &&str| COMPLAINTS.iter().any(|complaint| line.contains(complaint));
    let last = lines.len().saturating_sub(CONSOLE_LINES);
    let from = lines.iter().position(complains).unwrap_or(last);
    lines.iter().skip(from).take(CONSOLE_LINES).map(|&line| printable(line)).collect()
}

/// A line of a guest for a terminal of ours.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_protocol::Message;

    fn hello() -> Vec<u8> {
        channel::encode(&Message::Hello { release: "6.12".into(), version: "#1".into() })
    }

    #[test]
    fn a_report_is_whole_or_none() {
        let done = [hello(), channel::encode(&Message::Done)].concat();
        let report = evaluate("6.12", Some(33), &done).unwrap();
        assert_eq!((report.release.as_str(), report.is_done), ("6.12", true));

        let mut damaged = done.clone();
        damaged[20] ^= 1;
        let failed = [hello(), channel::encode(&Message::Failed("no can0".into()))].concat();
        for (status, bytes, says) in [
            (Some(33), &damaged[..], "is not complete"),
            (Some(33), &done[..done.len() - 1], "is not complete"),
            (Some(33), &hello()[..], "is not complete"),
            (Some(33), &[][..], "another folder with TMPDIR"),
            (Some(0), &done[..], "panicked"),
            (Some(0), &[][..], "panicked"),
            (Some(1), &hello()[..], "status 1"),
            (None, &[][..], "signal"),
        ] {
            match evaluate("6.12", status, bytes) {
                Err(Ended::Died(reason)) => assert!(reason.contains(says), "{reason}"),
                other => panic!("{status:?}: {other:?}"),
            }
        }
        let reason = evaluate("6.12", Some(35), &failed).unwrap_err();
        assert_eq!(reason, Ended::Failed("the guest with Linux 6.12 reports: no can0".into()));
    }

    #[test]
    fn a_boot_that_fails_says_why() {
        let failed = [channel::encode(&Message::Failed("boot: no /proc".into()))].concat();
        let reported = |status, bytes: &[u8], console: &[&str]| {
            let lines = || console.iter().map(|&line| line.to_owned()).collect();
            boot_failure("6.12", status, bytes, lines).to_string()
        };
        assert_eq!(
            reported(Some(35), &failed, &[]),
            "the guest with Linux 6.12 reports: boot: no /proc"
        );
        let panicked = reported(Some(0), b"", &["Kernel panic"]);
        assert!(panicked.starts_with("Linux 6.12 did not boot: it ended before"), "{panicked}");
        assert!(!panicked.contains("it printed nothing"), "{panicked}");
        let mute = reported(Some(0), b"", &[]);
        assert!(
            mute.contains("it printed nothing: to see why, set CONFIG_PRINTK=y and CONFIG_S"),
            "{mute}"
        );
    }

    #[test]
    fn old_versions_of_qemu_are_suspected() {
        for (version, status, is_suspected) in [
            ("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", Some(0), true),
            ("7.2.22", Some(1), false),
            ("7.2.22", None, false),
            ("8.0.0", Some(0), false),
            ("10.0.13", Some(0), false),
            ("unknown", Some(0), false),
        ] {
            assert_eq!(known_fault(version, status).is_some(), is_suspected, "{version}");
        }
    }

    #[test]
    fn guests_begin_at_the_turn_of_the_year() {
        assert_eq!(civil::days((2026, 1, 1)), Some(BASE_DAYS));
    }

    #[test]
    fn the_console_ends_with_its_last_lines() {
        let lines: String = (0..30).map(|line| format!("line {line}\x1b\r\n\n")).collect();
        let shown = console(lines.as_bytes());
        assert_eq!((shown.len(), shown[19].as_str()), (20, "line 29 "));
        assert_eq!(console(b""), Vec::<String>::new());
        let panic = "all is well\nKernel panic - not syncing: no init\n".to_owned();
        let shown = console((panic + &"trace\n".repeat(40)).as_bytes());
        assert_eq!((shown.len(), shown[0].as_str()), (20, "Kernel panic - not syncing: no init"));
    }
}
