//! The plugin that counts instructions (`plugins/count`): named to QEMU, and what it has counted.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::Error;
use crate::options::option;
use crate::plugin;
use crate::scratch;

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
        let library = plugin::COUNT
            .for_qemu(qemu)
            .map_err(|reason| Error::Other(format!("instructions cannot be counted: {reason}")))?;
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
    fn qemu_gets_options_without_stray_commas() {
        let counting = Counting::new([4_198_400, 4_198_464], "7.2.22").unwrap();
        let [name, value] = counting.options();
        assert_eq!(name, "-plugin");
        assert!(value.contains("count.so,begin=4198400,end=4198464,counts="), "{value}");
        let reason = Counting::new([1, 2], "5.2.0").err().unwrap().to_string();
        assert!(
            reason.contains("QEMU 5.2.0 has another plugin interface; use a tested version"),
            "{reason}"
        );
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
