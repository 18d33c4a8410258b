//! Reports that are kept: what a machine made of an order, under a hash of both.
//!
//! | part of the key | why |
//! |---|---|
//! | the machine's hash | kernel, modules, guest program, QEMU, its options |
//! | the order's bytes | traffic, rules, gateway, load, settings, files, seed |
//! | [`LAYOUT`] | what a kept report looks like |
//!
//! What an experiment is called, and what is made of its report, is no part of it: reports are
//! evaluated anew each time. An entry that is damaged counts as absent and is replaced.
//!
//! Each machine has a folder. Its `machine.json` says what the machine is made of, so that
//! `candor vm clean` finds the reports of machines that do not exist any more.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use candor_protocol::{Order, Report, channel};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::result;

/// The layout of entries and of keys.
const LAYOUT: &str = "candor-report/2";

/// A folder of reports.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What is there under a key.
#[derive(Debug)]
pub enum Found {
    Report(Box<Report>),
    Nothing,
    /// An entry that is no report, and why.
    Damaged(String),
}

/// An entry: it knows its key, so that one under a wrong name is noticed.
#[derive(Serialize, Deserialize)]
struct Entry<R> {
    key: String,
    report: R,
}

/// The key of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The hash of the machine.
    machine: String,
    /// The hash of machine and order.
    sum: String,
}

/// The key of the report that this machine makes of an order.
pub(super) fn key(machine: &str, order: &Order) -> Key {
    let mut sha256 = Sha256::new();
    for part in [LAYOUT.as_bytes(), machine.as_bytes(), &channel::encode(order)] {
        sha256.update((part.len() as u64).to_le_bytes());
        sha256.update(part);
    }
    let sum = sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Key { machine: machine.into(), sum }
}

impl Store {
    /// Reports in `folder`, which is made when the first is kept.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder of a machine's reports.
    fn folder(&self, key: &Key) -> PathBuf {
        self.folder.join(candor_vm::folder_name(&key.machine))
    }

    /// Where the report of that key is.
    fn path(&self, key: &Key) -> PathBuf {
        self.folder(key).join(&key.sum)
    }

    /// Looks for a report.
    #[must_use]
    pub fn find(&self, key: &Key) -> Found {
        let path = self.path(key);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Damaged(error.to_string()),
        };
        match channel::decode::<Entry<Report>>(&bytes, 0) {
            Ok(Some((entry, end))) if end == bytes.len() && entry.key == key.sum => {
                Found::Report(Box::new(entry.report))
            }
            Ok(_) => Found::Damaged("it belongs to another experiment".into()),
            Err(error) => Found::Damaged(error.to_string()),
        }
    }

    /// Keeps a report of `machine`, in place of an older one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, key: &Key, machine: &result::Machine, report: &Report) -> Result<(), Error> {
        let failed = |path: &Path, error| {
            let remedy = candor_recording::remedy(
                &error,
                "check the permissions, name another folder with CANDOR_CACHE, or store nothing with \
                 --no-cache",
            );
            Error::io(path, "cannot be written", error, remedy)
        };
        let folder = self.folder(key);
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
        let write = |path: &Path, bytes: &[u8]| {
            candor_output::replace(path, bytes).map_err(|error| failed(path, error))
        };
        let about = folder.join(candor_vm::ABOUT);
        if !about.exists() {
            let machine = serde_json::to_string_pretty(machine).unwrap_or_default();
            write(&about, format!("{machine}\n").as_bytes())?;
        }
        write(&self.path(key), &channel::encode(&Entry { key: key.sum.clone(), report }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_protocol::report::Stamp;

    fn machine() -> result::Machine {
        let json = r#"{"kernel": "6.12", "release": "6.12.1", "kernel_sha256": "k",
            "guest_sha256": "g", "qemu": "7.2", "flags": [], "shift": 1, "mips": 500}"#;
        serde_json::from_str(json).unwrap()
    }

    fn report() -> Report {
        let sent = vec![Stamp { number: 7, time_ns: 1_000 }];
        Report { release: "6.12".into(), sent, is_done: true, ..Report::default() }
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("reports"));
        let key = key("machine", &Order::Conform(Vec::new()));
        assert!(matches!(store.find(&key), Found::Nothing));
        store.keep(&key, &machine(), &report()).unwrap();
        assert!(matches!(store.find(&key), Found::Report(found) if *found == report()));
        let about = fs::read(folder.path().join("reports/machine/machine.json")).unwrap();
        assert_eq!(serde_json::from_slice::<result::Machine>(&about).unwrap(), machine());
    }

    #[test]
    fn damage_is_noticed_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let key = key("machine", &Order::Conform(Vec::new()));
        store.keep(&key, &machine(), &report()).unwrap();
        let path = store.path(&key);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert!(matches!(store.find(&key), Found::Damaged(_)), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(store.find(&key), Found::Damaged(_)), "cut at {at}");
        }
        let other = Key { sum: "0".repeat(64), ..key.clone() };
        fs::write(store.path(&other), &whole).unwrap();
        assert!(matches!(store.find(&other), Found::Damaged(_)));
        store.keep(&key, &machine(), &report()).unwrap();
        assert!(matches!(store.find(&key), Found::Report(_)));
    }

    #[test]
    fn machine_and_order_make_the_key() {
        let empty = Order::Conform(Vec::new());
        let command = Order::Command(candor_protocol::order::CommandOrder {
            rules: candor_engine::Table::default(),
            argv: vec!["cangw".into()],
            files: Vec::new(),
        });
        let keys = [key("a", &empty), key("b", &empty), key("a", &command)].map(|key| key.sum);
        assert_eq!(keys[0].len(), 64);
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
        assert_eq!(keys[0], key("a", &empty).sum);
    }
}
