//! A file of the signal service, read from disk and followed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candor_daemon::follow::Follow;
use candor_daemon::rehearsal::Rehearsal;
use candor_daemon::supervise::Load;
use candor_diagnostics::{Findings, counted};
use candor_output::say;
use candor_rules::file::disk;
use candor_signal_service::file::{Fixed, KIND, parse};
use candor_signal_service::{Config, Service, Source};

use crate::file_kind::FileKind;

/// What was read.
pub(super) struct Read {
    /// What is to be served, if there are no errors.
    pub(super) config: Option<Config>,
    pub(super) findings: Findings,
    /// The DBC files that it names.
    pub(super) included: Vec<PathBuf>,
}

/// Reads a file and the DBC files that it names, for a new service or for one that runs.
///
/// # Errors
/// It cannot be read, or is clearly something else.
pub(super) fn read(path: &Path, running: Option<&Fixed>) -> Result<Read, String> {
    let text = disk::read_text(path, KIND)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let included = RefCell::new(Vec::new());
    let include = |name: &str| {
        let file = folder.join(name);
        let bytes = disk::read(&file, disk::MOST_BYTES);
        included.borrow_mut().push(file);
        bytes
    };
    let (config, findings) = parse(&path.display().to_string(), &text, &include, running);
    if config.is_none()
        && let Some(message) = FileKind::Signals.mix_up(path)
    {
        return Err(message);
    }
    Ok(Read { config, findings, included: included.into_inner() })
}

/// How many signals a port has.
pub(super) fn signals(source: &Source) -> usize {
    let messages = source.database.iter().flat_map(|database| database.messages());
    messages.map(|message| message.signals.len()).sum()
}

/// The file of a service that runs.
pub(super) struct Followed {
    path: PathBuf,
    fixed: Fixed,
    pub(super) follow: Follow,
    watched: BTreeSet<PathBuf>,
    changes: u64,
}

impl Followed {
    /// Follows a file that was read.
    ///
    /// # Errors
    /// It cannot be watched.
    pub(super) fn new(
        path: &Path,
        config: &Config,
        included: Vec<PathBuf>,
    ) -> Result<Self, String> {
        let follow = Follow::new(path).map_err(|error| error.to_string())?;
        let watched = BTreeSet::from([path.to_owned()]);
        let fixed = Fixed::from(config);
        let mut followed = Self { path: path.to_owned(), fixed, follow, watched, changes: 0 };
        followed.also_watch(included);
        Ok(followed)
    }

    fn also_watch(&mut self, files: Vec<PathBuf>) {
        for file in files {
            if !self.watched.contains(&file) && self.follow.also(&file).is_ok() {
                self.watched.insert(file);
            }
        }
    }

    /// How to read it anew. The hosts that its ports name are looked up, so that nobody waits for them afterwards.
    pub(super) fn reload(&self) -> Load<Result<Read, String>> {
        let (path, fixed) = (self.path.clone(), self.fixed.clone());
        Box::new(move || {
            let arguments = ["signals", "check", "--rehearse"].map(Into::into).into();
            let rehearsed = Rehearsal { arguments }.check(&path);
            rehearsed.map_err(|why| format!("{}: {why}", path.display()))?;
            let read = read(&path, Some(&fixed))?;
            let sources = read.config.iter().flat_map(|config| &config.sources);
            candor_drivers::look_up(sources.map(|source| &source.address));
            Ok(read)
        })
    }

    /// Changes the service to what was read, or says why not. Returns how it is, for the service manager.
    pub(super) fn loaded(&mut self, read: Result<Read, String>, service: &mut Service) -> String {
        match read.and_then(|read| self.change(read, service)) {
            Ok(()) => {
                service.set_rejected(None);
                self.changes += 1;
                say!("changed: {}", summary(service));
                let buses = counted(service.buses().count(), "bus");
                format!("{buses}, changed {}", counted(self.changes, "time"))
            }
            Err(reason) => {
                say!("the old buses stay in use: {}", reason.trim_end());
                service.set_rejected(Some(reason));
                "the file has errors, the old buses stay in use".to_owned()
            }
        }
    }

    fn change(&mut self, read: Read, service: &mut Service) -> Result<(), String> {
        let Read { config, findings, included } = read;
        // Also those that are wrong: they may be corrected.
        self.also_watch(included);
        let Some(config) = config else { return Err(findings.to_string()) };
        service.change(config.sources).map_err(|error| error.to_string())?;
        warn(&findings);
        Ok(())
    }
}

/// Says what is suspicious.
pub(super) fn warn(findings: &Findings) {
    let text = findings.to_string();
    if !text.is_empty() {
        say!("{}", text.trim_end());
    }
}

/// What is served, such as `51 signals, car = can0`.
fn summary(service: &Service) -> String {
    let buses: Vec<_> = service.buses().map(|(name, port)| format!("{name} = {port}")).collect();
    format!("{}, {}", counted(service.signals(), "signal"), buses.join(", "))
}
