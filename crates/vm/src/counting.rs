//! The plugin that counts instructions (`plugin/lib.rs`): made fit for the QEMU that is there, named
//! to it, and what it has counted.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol};
use tempfile::TempDir;

use crate::error::Error;
use crate::options::option;
use crate::scratch;

/// The plugin; empty where it cannot be built (see `build.rs`).
pub(crate) static PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/count.so"));
/// The number in it that QEMU compares with its own.
const VERSION: &str = "qemu_plugin_version";

/// Counts by address.
pub(crate) type Counts = HashMap<u64, u64>;

/// The files of one run that is counted.
pub(crate) struct Counting {
    folder: TempDir,
    marks: [u64; 2],
}

impl Counting {
    /// Counts between the functions at these addresses, in a QEMU of that version.
    pub(crate) fn new(marks: [u64; 2], qemu: &str) -> Result<Self, Error> {
        let number = interface(qemu).ok_or_else(|| {
            Error::Other(format!(
                "instructions cannot be counted with QEMU {qemu}; use a tested version, 7.2 or \
                 later"
            ))
        })?;
        let library = with_interface(PLUGIN, number).ok_or_else(|| {
            let reason = "this candor has no QEMU plugin: instructions are counted only on Linux";
            Error::Other(reason.into())
        })?;
        let counting = Self { folder: scratch::folder()?, marks };
        let path = counting.library();
        fs::write(&path, library).map_err(|error| Error::write(&path, error))?;
        Ok(counting)
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("count.so")
    }

    fn counts_file(&self) -> PathBuf {
        self.folder.path().join("counts")
    }

    /// The options of QEMU that make it count.
    pub(crate) fn options(&self) -> [String; 2] {
        let path = |path: &Path| option(&path.display().to_string());
        let [begin, end] = self.marks;
        let (library, counts) = (path(&self.library()), path(&self.counts_file()));
        ["-plugin".into(), format!("{library},begin={begin},end={end},counts={counts}")]
    }

    /// What was counted, after the end of QEMU.
    pub(crate) fn counts(&self) -> Result<Counts, Error> {
        let path = self.counts_file();
        let bytes = fs::read(&path).map_err(|error| Error::read(&path, error))?;
        counts(&bytes).map_err(|reason| Error::Other(format!("{}: {reason}", path.display())))
    }
}

/// The number of the plugin interface that QEMU of this version takes: 6.0 to 8.2 take 1, 9.0 to 10.2
/// take 2 and above, 11.1 takes 7 only.
fn interface(qemu: &str) -> Option<i32> {
    match qemu.split('.').next()?.parse().ok()? {
        6..=8 => Some(1),
        9..=10 => Some(2),
        11.. => Some(7),
        0..=5_u32 => None,
    }
}

/// `library` with another number of the interface.
fn with_interface(library: &[u8], number: i32) -> Option<Vec<u8>> {
    let file = object::File::parse(library).ok()?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(VERSION))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let (start, _) = section.file_range()?;
    let at = usize::try_from(start + symbol.address().checked_sub(section.address())?).ok()?;
    let mut library = library.to_vec();
    library.get_mut(at..at + 4)?.copy_from_slice(&number.to_le_bytes());
    Some(library)
}

/// Reads pairs of address and count. The last one is of address 0: instructions that found no room.
fn counts(bytes: &[u8]) -> Result<Counts, &'static str> {
    let (pairs, rest) = bytes.as_chunks::<16>();
    let pairs: Vec<_> = pairs.iter().map(|pair| u128::from_le_bytes(*pair)).collect();
    let pairs = pairs.iter().map(|pair| (*pair as u64, (*pair >> 64) as u64));
    let mut counts: Counts = pairs.collect();
    match counts.remove(&0) {
        Some(0) if rest.is_empty() => Ok(counts),
        Some(0) | None => {
            Err("it is not complete: the disk may be full; free space for temporary files")
        }
        Some(_) => Err("the guest has more instructions than the plugin has counters; profile a \
                        smaller gateway"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_qemu_gets_the_interface_that_it_takes() {
        for (version, number) in [
            ("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", Some(1)),
            ("8.2.0", Some(1)),
            ("10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", Some(2)),
            ("11.1.3", Some(7)),
            ("5.2.0", None),
            ("seven", None),
        ] {
            assert_eq!(interface(version), number, "{version}");
        }
        for number in [1, 2, 7] {
            let library = with_interface(PLUGIN, number).unwrap();
            let differing = library.iter().zip(PLUGIN).filter(|(new, old)| new != old).count();
            assert_eq!(differing, usize::from(number != 1), "one byte of the number");
            assert_eq!(with_interface(&library, 1).unwrap(), PLUGIN);
        }
        assert_eq!(with_interface(b"", 1), None);
    }

    #[test]
    fn qemu_gets_options_without_stray_commas() {
        let counting = Counting::new([4_198_400, 4_198_464], "7.2.22").unwrap();
        let [name, value] = counting.options();
        assert_eq!(name, "-plugin");
        assert!(value.contains("count.so,begin=4198400,end=4198464,counts="), "{value}");
        let reason = Counting::new([1, 2], "5.2.0").err().unwrap().to_string();
        assert!(reason.contains("QEMU 5.2.0; use a tested version"), "{reason}");
    }

    #[test]
    fn counts_are_whole_or_none() {
        let pair = |address: u64, count: u64| [address.to_le_bytes(), count.to_le_bytes()].concat();
        let whole = [pair(0xFFFF_FFFF_8100_0000, 3), pair(0x40_1000, 1 << 40), pair(0, 0)].concat();
        let expected = [(0xFFFF_FFFF_8100_0000, 3), (0x40_1000, 1 << 40)].into_iter().collect();
        assert_eq!(counts(&whole), Ok(expected));
        for (bytes, says) in [
            (&whole[..32], "not complete"),
            (&whole[..40], "not complete"),
            (&[][..], "not complete"),
            (&[whole.clone(), vec![1]].concat()[..], "not complete"),
            (&[whole[..16].to_vec(), pair(0, 1)].concat()[..], "more instructions"),
        ] {
            assert!(counts(bytes).is_err_and(|reason| reason.contains(says)), "{bytes:?}");
        }
    }
}
