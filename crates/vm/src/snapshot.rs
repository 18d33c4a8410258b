//! A machine that was booted once and saved where its `/init` waits for an order.
//!
//! | in its folder | |
//! |---|---|
//! | `state` | the state, as QEMU writes it for a migration |
//! | `state.sum` | length and checksum of the state |
//! | `initramfs` | the initramfs |
//! | `machine.json` | what it is made of |
//! | `lock` | held by whoever boots it |
//!
//! Length and checksum are compared before each restore. A damaged machine is not run: it is booted
//! again.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::Crc;
use serde_json::{Value, json};

use crate::cache::{MACHINES, folder_name};
use crate::ending::{boot_failure, is_past};
use crate::error::Error;
use crate::machine::Machine;
use crate::options::quoted;
use crate::outside;
use crate::qmp::{Event, Process};
use crate::scratch::Scratch;
use crate::watch::Watch;

/// A kernel that has not reached `/init` after so much of its own time never will.
const BOOT_LIMIT_S: u64 = 120;

/// The file of a machine's folder that is locked while it boots.
pub(crate) const LOCK: &str = "lock";
/// The file that says what the machine is made of.
pub const ABOUT: &str = "machine.json";

/// So often a machine is booted at most.
const MOST_BOOTS: usize = 20;

/// The files of a machine in the cache.
pub(crate) struct SavedMachine {
    /// The state, as QEMU writes it for a migration.
    pub(crate) state: PathBuf,
    /// Its length and checksum.
    sum: PathBuf,
    /// The initramfs: QEMU wants it again although the guest has read it long ago.
    pub(crate) initramfs: PathBuf,
}

impl SavedMachine {
    /// What is wrong with its files.
    fn damage(&self, initramfs: &[u8]) -> Option<String> {
        let said = match fs::read_to_string(&self.sum) {
            Ok(said) => said,
            Err(error) => return Some(format!("its checksum cannot be read ({error})")),
        };
        match checksum(&self.state) {
            Ok(sum) if sum != said => return Some("its checksum is wrong".into()),
            Ok(_) => {}
            Err(error) => return Some(format!("it cannot be read ({error})")),
        }
        let is_whole = fs::read(&self.initramfs).is_ok_and(|bytes| bytes == initramfs);
        (!is_whole).then(|| "its initramfs is not the one it was booted with".into())
    }
}

/// Length and CRC-32 of a file, as they are kept beside it. This is against damage, not against people;
/// it takes a tenth of the time of a restore.
fn checksum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut crc = Crc::new();
    let mut length = 0;
    let mut block = vec![0; 1 << 18];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(format!("{length} {:08x}\n", crc.sum())),
            read => {
                crc.update(&block[..read]);
                length += read as u64;
            }
        }
    }
}

impl Machine {
    fn folder(&self) -> PathBuf {
        self.cache.join(MACHINES).join(folder_name(self.hash()))
    }

    fn saved(&self) -> SavedMachine {
        let folder = self.folder();
        let file = |name: &str| folder.join(name);
        SavedMachine { state: file("state"), sum: file("state.sum"), initramfs: file("initramfs") }
    }

    /// Waits until nobody else boots this machine, and keeps others from it.
    fn lock(&self) -> Result<File, Error> {
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(|error| Error::write(&folder, error))?;
        let path = folder.join(LOCK);
        let file = File::create(&path).map_err(|error| Error::write(&path, error))?;
        file.lock().map_err(|error| Error::write(&path, error))?;
        Ok(file)
    }

    /// Boots the machine and saves it, unless that was done before. Several processes may ask at
    /// once: one boots, the others wait.
    ///
    /// # Errors
    /// The cache cannot be written, QEMU does not start, or the guest dies.
    pub fn ready(&self, watch: &dyn Watch) -> Result<(), Error> {
        let saved = self.saved();
        if saved.state.exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        if saved.state.exists() {
            return Ok(());
        }
        let write = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(|error| Error::write(path, error))
        };
        write(&saved.initramfs, &self.initramfs)?;
        let identity = serde_json::to_string_pretty(self.identity()).unwrap_or_default();
        let folder = self.folder();
        write(&folder.join(ABOUT), format!("{identity}\n").as_bytes())?;
        let state = self.agreed(&saved.initramfs, &folder, watch)?;
        let sum = checksum(&state).map_err(|error| Error::read(&state, error))?;
        write(&saved.sum, sum.as_bytes())?;
        fs::rename(&state, &saved.state).map_err(|error| Error::write(&saved.state, error))
    }

    /// Boots once if nothing can disturb it, or else until two boots took the same time, and returns the state.
    ///
    /// QEMU may skip too much of an idle time (see [`crate::reserved_cpu`]); in the long time of a boot, that
    /// is not rare enough. A boot that went wrong in this way has a time of its own. And see
    /// [`StopInstant::has_skipped`].
    fn agreed(&self, initramfs: &Path, folder: &Path, watch: &dyn Watch) -> Result<PathBuf, Error> {
        let mut booted: Vec<Booted> = Vec::new();
        for round in 0..MOST_BOOTS {
            // Beside its place, so that nobody finds half a state.
            let state = folder.join(format!("state.part{round}"));
            booted.push(Booted::new(self, initramfs, state, watch)?);
            if let Some(mut best) = take_agreed(&mut booted) {
                return Ok(best.keep());
            }
        }
        let release = &self.identity().release;
        Err(Error::Other(format!("Linux {release} cannot be saved: {}", disagreement(&booted))))
    }

    /// Where the machine was saved. One that was damaged since then is booted and saved again.
    pub(crate) fn saved_state(&self, watch: &dyn Watch) -> Result<SavedMachine, Error> {
        self.ready(watch)?;
        let saved = self.saved();
        if saved.damage(&self.initramfs).is_none() {
            return Ok(saved);
        }
        self.discard_damaged(watch)?;
        self.ready(watch)?;
        match saved.damage(&self.initramfs) {
            None => Ok(saved),
            Some(damage) => Err(Error::Other(format!(
                "{} was saved again and is damaged again: {damage}; check the disk and the memory, \
                 or name another folder with CANDOR_CACHE",
                saved.state.display()
            ))),
        }
    }

    /// Removes the saved state, unless somebody else has replaced it meanwhile.
    fn discard_damaged(&self, watch: &dyn Watch) -> Result<(), Error> {
        let _lock = self.lock()?;
        let saved = self.saved();
        let Some(damage) = saved.damage(&self.initramfs) else { return Ok(()) };
        watch.note(&format!(
            "the saved machine {} is damaged: {damage}; Linux {} is booted again",
            saved.state.display(),
            self.identity().release
        ));
        match fs::remove_file(&saved.state) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::write(&saved.state, error))
            }
            _ => Ok(()),
        }
    }

    /// Boots and saves.
    fn boot(
        &self,
        initramfs: &Path,
        state: &Path,
        watch: &dyn Watch,
    ) -> Result<StopInstant, Error> {
        // Nobody reads the order before the machine is restored with another one.
        let mut scratch = Scratch::new(b"none")?;
        let mut command = self.command(initramfs, &scratch.files());
        if let Some(library) = &self.timed_bus {
            command.args(outside::options(library, &mut scratch, None)?);
        }
        let mut process = Process::start(&mut command, watch)?;
        scratch.hide();
        process.go_on(watch)?;
        loop {
            match process.event_or_idle(watch)? {
                Some(Event::Named(name)) if name == "GUEST_PANICKED" => break,
                Some(Event::Named(_)) => {}
                Some(Event::Ended) => {
                    let status = process.wait()?.code();
                    let bytes = scratch.report()?;
                    let release = &self.identity().release;
                    let console = || scratch.console();
                    return Err(boot_failure(release, status, &bytes, console));
                }
                None if is_past(&mut process, BOOT_LIMIT_S, watch)? => {
                    let reason = format!(
                        "Linux {} did not boot within {BOOT_LIMIT_S} s of guest time",
                        self.identity().release
                    );
                    return Err(Error::Guest { reason, console: scratch.console() });
                }
                None => {}
            }
        }
        let has_skipped = has_skipped(&process.human("info lapic", watch)?);
        let is_undisturbed = process.is_undisturbed();
        save(&mut process, state, watch)?;
        let bytes = scratch.report()?;
        let time_ns = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        time_ns.map(|time_ns| StopInstant { time_ns, has_skipped, is_undisturbed }).ok_or_else(
            || {
                let reason = "the guest stopped without reporting its time".into();
                Error::Guest { reason, console: scratch.console() }
            },
        )
    }
}

/// When a guest stopped to be saved.
#[derive(Clone, Copy, Default)]
struct StopInstant {
    time_ns: u64,
    /// Whether QEMU took the stop for an idle time and skipped to the next timer. It does unless its
    /// main thread comes first, and the two states differ.
    has_skipped: bool,
    /// Whether nothing could come between the instructions of the guest and their accounting.
    is_undisturbed: bool,
}

/// Whether the timer of the processor that was to expire right behind the stop has expired already,
/// in what QEMU tells of the interrupt controller. If it tells nothing, that is as good as can be.
fn has_skipped(lapic: &str) -> bool {
    let count = lapic.split("current_count = ").nth(1);
    count.is_none_or(|count| count.split_whitespace().next() == Some("0"))
}

/// A boot that skipped, and that nothing could disturb or another one took the same time as, if there is one.
fn take_agreed(booted: &mut Vec<Booted>) -> Option<Booted> {
    let agrees = |at: usize| {
        let mine = booted[at].moment;
        mine.is_undisturbed
            || booted.iter().filter(|other| other.moment.time_ns == mine.time_ns).count() > 1
    };
    let best = (0..booted.len()).find(|&at| booted[at].moment.has_skipped && agrees(at))?;
    Some(booted.swap_remove(best))
}

/// Why none of these boots is taken, and what to do.
fn disagreement(booted: &[Booted]) -> String {
    let skipped = booted.iter().filter(|boot| boot.moment.has_skipped);
    let times: Vec<_> = skipped.map(|boot| boot.moment.time_ns.to_string()).collect();
    let why = match times.len() {
        0 => format!(
            "in none of {} boots did QEMU go on to its next timer before it stopped",
            booted.len()
        ),
        _ => format!("no boot took the same time as another one ({} ns)", times.join(", ")),
    };
    format!("{why}; stop other work on this machine, and try again as root")
}

/// A boot and its state, which is removed unless it is kept.
struct Booted {
    moment: StopInstant,
    state: Option<PathBuf>,
}

impl Booted {
    fn new(
        machine: &Machine,
        initramfs: &Path,
        state: PathBuf,
        watch: &dyn Watch,
    ) -> Result<Self, Error> {
        // So that a boot that fails leaves nothing either.
        let mut booted = Self { moment: StopInstant::default(), state: Some(state.clone()) };
        booted.moment = machine.boot(initramfs, &state, watch)?;
        Ok(booted)
    }

    fn keep(&mut self) -> PathBuf {
        self.state.take().unwrap_or_default()
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        if let Some(state) = &self.state {
            let _ = fs::remove_file(state);
        }
    }
}

/// Writes the state of a stopped machine into a file.
fn save(process: &mut Process, state: &Path, watch: &dyn Watch) -> Result<(), Error> {
    File::create(state).map_err(|error| Error::write(state, error))?;
    let uri = format!("exec:cat > {}", quoted(state));
    // There is no network in between that would have to be spared.
    process.execute("migrate-set-parameters", json!({"max-bandwidth": 1_u64 << 40}), watch)?;
    process.execute("migrate", json!({"uri": uri}), watch)?;
    loop {
        let status = process.execute("query-migrate", json!({}), watch)?;
        match status.get("status").and_then(Value::as_str) {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let reason = "the machine cannot be saved: the disk may be full; free space, or \
                              name another folder with CANDOR_CACHE";
                return Err(Error::Other(format!("{}: {reason}", state.display())));
            }
            _ => process.idle(watch)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_seen_in_the_timer_of_the_processor() {
        let reported = |count: u32| {
            format!(
                "Timer\t DCR=0x3 (divide by 16) initial_count = 1548 current_count = {count}\r\nSPIV"
            )
        };
        assert!(has_skipped(&reported(0)));
        assert!(!has_skipped(&reported(230)));
        assert!(!has_skipped(&reported(5)));
        assert!(has_skipped("current_count = 0"));
        assert!(has_skipped("nothing about it"));
    }

    #[test]
    fn damage_of_a_saved_machine_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let saved = SavedMachine {
            state: file("state"),
            sum: file("state.sum"),
            initramfs: file("initramfs"),
        };
        let state: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let write = |bytes: &[u8]| fs::write(&saved.state, bytes).unwrap();
        write(&state);
        fs::write(&saved.initramfs, "initramfs").unwrap();
        let damage = || saved.damage(b"initramfs").unwrap_or_default();
        assert!(damage().starts_with("its checksum cannot be read"), "{}", damage());
        fs::write(&saved.sum, checksum(&saved.state).unwrap()).unwrap();
        assert_eq!(damage(), "");

        for at in (0..40).map(|number| number * 24_983) {
            let mut damaged = state.clone();
            damaged[at] ^= 1;
            write(&damaged);
            assert_eq!(damage(), "its checksum is wrong", "byte {at}");
        }
        for length in [0, 1, state.len() - 1] {
            write(&state[..length]);
            assert_eq!(damage(), "its checksum is wrong", "cut at {length}");
        }
        // Zeros at the end of a file change no CRC of some kinds.
        write(&[&state[..], &[0]].concat());
        assert_eq!(damage(), "its checksum is wrong");
        fs::remove_file(&saved.state).unwrap();
        assert!(damage().starts_with("it cannot be read"), "{}", damage());
        write(&state);
        assert_eq!(damage(), "");
        assert!(saved.damage(b"another").unwrap().starts_with("its initramfs"));
    }

    #[test]
    fn a_boot_must_skip_and_be_undisturbed_or_agree_with_another() {
        let boots = |moments: &[(u64, bool)], is_undisturbed| -> Vec<Booted> {
            let boot = |&(time_ns, has_skipped)| Booted {
                moment: StopInstant { time_ns, has_skipped, is_undisturbed },
                state: None,
            };
            moments.iter().map(boot).collect()
        };
        for (moments, expected) in [
            (&[(1, true)][..], None),
            (&[(1, true), (2, true)], None),
            (&[(1, false), (1, false)], None),
            (&[(1, false), (1, true)], Some(1)),
            (&[(3, true), (1, false), (2, true), (2, true)], Some(2)),
        ] {
            let best = take_agreed(&mut boots(moments, false));
            assert_eq!(best.map(|best| best.moment.time_ns), expected, "{moments:?}");
        }
        assert!(disagreement(&boots(&[(1, false), (1, false)], false)).contains("none of 2 boots"));
        let told = disagreement(&boots(&[(1, true), (3, false), (2, true)], false));
        assert!(told.contains("(1, 2 ns)"), "{told}");
        for (moments, expected) in [
            (&[(1, true)][..], Some(1)),
            (&[(1, false)], None),
            (&[(1, false), (2, true)], Some(2)),
        ] {
            let best = take_agreed(&mut boots(moments, true));
            assert_eq!(best.map(|best| best.moment.time_ns), expected, "undisturbed {moments:?}");
        }
    }
}
