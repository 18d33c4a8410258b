//! A kernel in the cache: a folder that is written once, beside its place, and renamed when it is
//! whole.
//!
//! | in it | |
//! |---|---|
//! | `bzImage` | the image |
//! | `modules/NAME.ko` | the modules, uncompressed |
//! | `modules/index` | what each depends on, see [`super::modules::Set::index`] |
//! | `System.map` | the addresses of its functions, if there is one |
//! | `kernel.json` | where it came from |
//! | `SHA256SUMS` | the sums of image, index and modules, as `sha256sum -c` reads them |

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::modules::Set;
use crate::cache::KERNELS;
use crate::digest::hex;
use crate::{Cache, Error};

const IMAGE: &str = "bzImage";
const SYSTEM_MAP: &str = "System.map";
const MODULES: &str = "modules";
pub(crate) const INDEX: &str = "index";
const ABOUT: &str = "kernel.json";
const SUMS: &str = "SHA256SUMS";

/// A smaller `System.map` only says where the real one is.
pub(crate) const SMALLEST_SYSTEM_MAP: u64 = 4096;

/// A kernel that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// As it was asked for, such as `6.12-rt`; the release of somebody's own build.
    pub name: String,
    /// As `uname -r` says it, such as `6.12.117+deb13-rt-amd64`.
    pub release: String,
    /// Debian's packages and their version; none of an own build.
    pub package: Option<String>,
    /// The suite they came from.
    pub suite: Option<String>,
    pub image: PathBuf,
    /// The folder with `NAME.ko`, uncompressed, and the `index`.
    pub modules: PathBuf,
    /// The addresses of its functions, if they are known.
    pub system_map: Option<PathBuf>,
    /// The sum over image, index and modules, in hexadecimal.
    pub sha256: String,
}

/// Where a kernel came from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) package: Option<String>,
    pub(crate) suite: Option<String>,
}

/// What `kernel.json` holds.
#[derive(Serialize, Deserialize)]
struct About {
    release: String,
    #[serde(flatten)]
    origin: Origin,
}

pub(crate) struct Parts<'a> {
    pub(crate) release: &'a str,
    pub(crate) origin: Origin,
    pub(crate) image: &'a [u8],
    pub(crate) set: &'a Set,
    pub(crate) system_map: Option<&'a [u8]>,
}

impl Parts<'_> {
    /// The files that make the kernel what it is, by their paths in the folder, in order.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let index = (format!("{MODULES}/{INDEX}"), self.set.index().into_bytes());
        let modules = self.set.modules.iter();
        let modules = modules.map(|(name, bytes)| (format!("{MODULES}/{name}.ko"), bytes.clone()));
        let mut files: Vec<_> = modules.chain([index, (IMAGE.into(), self.image.into())]).collect();
        files.sort();
        files
    }

    /// The text of the sums, and their sum.
    pub(crate) fn sums(&self) -> (String, String) {
        let line = |(name, bytes): &(String, Vec<u8>)| format!("{}  {name}\n", sum(bytes));
        let sums: String = self.files().iter().map(line).collect();
        let whole = sum(sums.as_bytes());
        (sums, whole)
    }

    /// Writes it into `folder`, which is there already.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let modules = folder.join(MODULES);
        fs::create_dir(&modules).map_err(|error| Error::write(&modules, error))?;
        for (name, bytes) in self.files() {
            write(&folder.join(name), &bytes)?;
        }
        if let Some(bytes) = self.system_map {
            write(&folder.join(SYSTEM_MAP), bytes)?;
        }
        let about = About { release: self.release.into(), origin: self.origin.clone() };
        let about = serde_json::to_string_pretty(&about)
            .map_err(|error| Error::Other(format!("{ABOUT} cannot be written: {error}")))?;
        write(&folder.join(ABOUT), format!("{about}\n").as_bytes())?;
        write(&folder.join(SUMS), self.sums().0.as_bytes())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| Error::write(path, error))
}

pub(crate) fn sum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Reads the kernel in `folder` and holds its files against their sums.
pub(crate) fn read(folder: &Path, name: String) -> Result<Kernel, Error> {
    let bytes = |file: &str| {
        fs::read(folder.join(file)).map_err(|error| damage(folder, file, &error.to_string()))
    };
    let about: About = serde_json::from_slice(&bytes(ABOUT)?)
        .map_err(|error| damage(folder, ABOUT, &error.to_string()))?;
    let sums = String::from_utf8_lossy(&bytes(SUMS)?).into_owned();
    let mut has_image = false;
    for line in sums.lines() {
        let (expected, file) = line
            .split_once("  ")
            .filter(|(_, file)| is_ours(file))
            .ok_or_else(|| damage(folder, SUMS, "a line has the wrong format"))?;
        if sum(&bytes(file)?) != expected {
            return Err(damage(folder, file, "its checksum differs"));
        }
        has_image |= file == IMAGE;
    }
    if !has_image {
        return Err(damage(folder, SUMS, "the image is missing"));
    }
    let system_map = Some(folder.join(SYSTEM_MAP)).filter(|path| path.is_file());
    Ok(Kernel {
        name,
        release: about.release,
        package: about.origin.package,
        suite: about.origin.suite,
        image: folder.join(IMAGE),
        modules: folder.join(MODULES),
        system_map,
        sha256: sum(sums.as_bytes()),
    })
}

/// Whether it is the name of a file as we write them: no other folder is looked into.
fn is_ours(file: &str) -> bool {
    let is_plain = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.is_empty()
    };
    match file.strip_prefix("modules/") {
        Some(module) => module == INDEX || module.strip_suffix(".ko").is_some_and(is_plain),
        None => file == IMAGE,
    }
}

fn damage(folder: &Path, file: &str, reason: &str) -> Error {
    Error::Other(format!(
        "{} is damaged: {reason}; delete {} and download the kernel again",
        folder.join(file).display(),
        folder.display()
    ))
}

/// Bytes that a kernel takes in the cache.
pub(crate) fn size(folder: &Path) -> u64 {
    let files = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    files(folder.to_owned())
        .chain(files(folder.join(MODULES)))
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

/// What the names of folders begin with in which a fetch is at work; there is one at a time.
pub(crate) const FETCH: &str = ".fetch-";
/// What those of folders begin with in which an own build is brought in.
pub(crate) const OWN: &str = ".own-";

/// Makes `folder` with what `fill` writes: beside it first, so that it is there whole or not at
/// all. If another process was quicker, its folder stays.
pub(crate) fn place(
    cache: &Cache,
    folder: &Path,
    prefix: &str,
    fill: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let kernels = cache.subfolder(KERNELS)?;
    let new = tempfile::Builder::new()
        .prefix(prefix)
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(&kernels)
        .map_err(|error| Error::write(&kernels, error))?;
    fill(new.path())?;
    match fs::rename(new.path(), folder) {
        Ok(()) => {
            // It is elsewhere now: there is nothing to remove.
            let _ = new.keep();
            Ok(())
        }
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(Error::write(folder, error)),
    }
}

/// Removes what fetches left that were killed. Only for who holds the lock.
pub(crate) fn remove_leftovers(cache: &Cache) -> Result<(), Error> {
    let kernels = cache.subfolder(KERNELS)?;
    let entries = fs::read_dir(&kernels).map_err(|error| Error::read(&kernels, error))?;
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(FETCH) {
            fs::remove_dir_all(entry.path()).map_err(|error| Error::write(&entry.path(), error))?;
        }
    }
    Ok(())
}
