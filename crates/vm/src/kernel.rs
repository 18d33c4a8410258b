//! Kernels: Debian's, fetched and checked with apt, and anybody's own. Nothing is installed.
//!
//! ```text
//!  6.12-rt, debian:VERSION -- apt, dpkg-deb --+
//!                                             +-- image, needed modules --> cache --> Kernel
//!  bzImage, lib/modules/RELEASE --------------+
//! ```
//!
//! A kernel in the cache is held against its sums whenever it is used.

mod apt;
mod debian;
pub mod driver;
#[cfg(test)]
mod fabricated;
mod headers;
mod image;
mod modules;
mod own;
mod sources;
mod spec;
mod store;
mod version;

use std::cell::OnceCell;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use self::apt::Apt;
pub use self::apt::{Fetching, Progress};
pub use self::debian::Available;
use self::spec::Flavour;
pub use self::spec::Spec;
pub use self::store::Kernel;
use crate::cache::{FETCH_LOCK, KERNELS};
use crate::{Cache, Error};

pub(crate) use self::store::INDEX;

#[derive(Debug)]
pub struct Cached {
    /// What to ask for, such as `6.12-rt`; the folder's name for an own build.
    pub name: String,
    pub folder: PathBuf,
    /// Bytes that it takes.
    pub size: u64,
    /// The kernel, or what is wrong with it.
    pub kernel: Result<Kernel, Error>,
}

/// The kernels in the cache, in order of their folders' names.
///
/// # Errors
/// If the cache cannot be read.
pub fn cached(cache: &Cache) -> Result<Vec<Cached>, Error> {
    let all = folders(cache)?.into_iter().map(|(name, folder)| Cached {
        size: store::size(&folder),
        kernel: store::read(&folder, name_of(&name)),
        name: name_of(&name),
        folder,
    });
    Ok(all.collect())
}

/// The shortest name by which the kernel in a folder of this name may be asked for.
fn name_of(folder: &str) -> String {
    Flavour::from_release(folder).map_or_else(|| folder.to_owned(), |flavour| flavour.to_string())
}

/// The folders of kernels and their names, in order of the versions.
fn folders(cache: &Cache) -> Result<Vec<(String, PathBuf)>, Error> {
    let kernels = cache.subfolder(KERNELS)?;
    let entries = fs::read_dir(&kernels).map_err(|error| Error::read(&kernels, error))?;
    let mut folders: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, path)| !name.starts_with('.') && path.is_dir())
        .collect();
    folders.sort_by(|(left, _), (right, _)| version::compare(left, right).then(left.cmp(right)));
    Ok(folders)
}

/// The kernels that can be fetched, the newest of a series first, by the lists of packages that were fetched last; `None`
/// if they never were.
///
/// # Errors
/// If the lists cannot be read.
pub fn available(cache: &Cache) -> Result<Option<Vec<Available>>, Error> {
    let Some(apt) = Apt::fetched_before(cache) else { return Ok(None) };
    debian::all(&apt).map(Some)
}

/// The kernel that `spec` asks for, from the cache; an own build is brought into it.
///
/// # Errors
/// If it is not there, damaged, or none that a guest can run.
pub fn find(cache: &Cache, spec: &Spec) -> Result<Kernel, Error> {
    if let Spec::Files { image, modules } = spec {
        return own::import(cache, image, modules);
    }
    look(cache, spec)?.ok_or_else(|| {
        Error::Other(format!(
            "the kernel {spec} is not in the cache {}; download it with `candor vm fetch {spec}`",
            cache.folder().display()
        ))
    })
}

/// The newest kernel in the cache that `spec` asks for.
fn look(cache: &Cache, spec: &Spec) -> Result<Option<Kernel>, Error> {
    let fits = |folder: &str| match spec {
        Spec::Series { series, is_rt } => {
            Flavour::from_release(folder).is_some_and(|flavour| flavour.fits(series, *is_rt))
        }
        Spec::Debian(release) => folder == release,
        Spec::Files { .. } => false,
    };
    match folders(cache)?.into_iter().rfind(|(name, _)| fits(name)) {
        Some((_, folder)) => store::read(&folder, spec.to_string()).map(Some),
        None => Ok(None),
    }
}

/// Fetches kernels. Others that fetch into the same cache wait.
pub struct Fetcher<'a> {
    cache: &'a Cache,
    options: Fetching,
    progress: &'a dyn Progress,
    session: OnceCell<DownloadSession>,
}

/// What is needed once for all kernels.
struct DownloadSession {
    apt: Apt,
    all: Vec<Available>,
    _lock: File,
}

impl<'a> Fetcher<'a> {
    /// One that has done nothing yet.
    #[must_use]
    pub fn new(cache: &'a Cache, options: Fetching, progress: &'a dyn Progress) -> Self {
        Self { cache, options, progress, session: OnceCell::new() }
    }

    /// Fetches the lists of packages.
    ///
    /// # Errors
    /// If that fails.
    pub fn update(&self) -> Result<(), Error> {
        self.session().map(|_| ())
    }

    /// The kernel that `spec` asks for; fetched, unless it is in the cache.
    ///
    /// # Errors
    /// If there is none, or if it cannot be fetched.
    pub fn fetch(&self, spec: &Spec) -> Result<Kernel, Error> {
        if let Spec::Files { image, modules } = spec {
            return own::import(self.cache, image, modules);
        }
        let is_open = matches!(spec, Spec::Series { .. }) && self.options.wants_newest;
        if !is_open && let Some(kernel) = look(self.cache, spec)? {
            return Ok(kernel);
        }
        let session = self.session()?;
        // Somebody else may have fetched it while we waited.
        if !is_open && let Some(kernel) = look(self.cache, spec)? {
            return Ok(kernel);
        }
        let fits = |available: &&Available| match spec {
            Spec::Series { series, is_rt } => {
                available.series == *series && available.is_rt == *is_rt
            }
            Spec::Debian(release) => available.release == *release,
            Spec::Files { .. } => false,
        };
        let wanted = session.all.iter().find(fits).ok_or_else(|| self.unknown(spec, session))?;
        let exact = Spec::Debian(wanted.release.clone());
        if let Some(kernel) = look(self.cache, &exact)? {
            return Ok(Kernel { name: spec.to_string(), ..kernel });
        }
        debian::fetch(self.cache, &session.apt, wanted, spec.to_string(), self.progress)
    }

    /// Fetches what drivers for `kernel` are built with: its headers and, if this machine has none, their compiler.
    ///
    /// # Errors
    /// It is nobody's package, its headers are gone, or they cannot be fetched.
    pub fn fetch_headers(&self, kernel: &Kernel) -> Result<(), Error> {
        if headers::Toolchain::find(self.cache, &kernel.release).is_ok() {
            return Ok(());
        }
        if kernel.package.is_none() {
            return Err(Error::Other(format!(
                "{} is an own build, whose headers Debian does not have; build the driver where it was built",
                kernel.name
            )));
        }
        headers::fetch(self.cache, &self.session()?.apt, &kernel.release, self.progress)
    }

    fn unknown(&self, spec: &Spec, session: &DownloadSession) -> Error {
        let wanted = match spec {
            Spec::Debian(release) => Flavour::from_release(release),
            _ => None,
        };
        let mut near: Vec<String> = match wanted {
            Some(flavour) => session
                .all
                .iter()
                .filter(|available| flavour.fits(&available.series, available.is_rt))
                .map(|available| format!("debian:{}", available.release))
                .collect(),
            None => Vec::new(),
        };
        if near.is_empty() {
            near = session.all.iter().map(|available| available.spec().to_string()).collect();
            near.dedup();
        }
        near.truncate(12);
        Error::Other(format!(
            "Debian has no complete kernel {spec} in bookworm, trixie and their backports; the \
             kernels are {}",
            if near.is_empty() { "none".into() } else { near.join(", ") }
        ))
    }

    /// Waits for others, then fetches the lists of packages.
    fn session(&self) -> Result<&DownloadSession, Error> {
        if let Some(session) = self.session.get() {
            return Ok(session);
        }
        let lock = self.lock()?;
        let folder = self.cache.folder();
        let free = candor_linux::mount::free_bytes(folder);
        check_room(folder, free.map_err(|error| Error::Other(error.to_string()))?)?;
        let apt = Apt::prepare(self.cache, &self.options)?;
        store::remove_leftovers(self.cache)?;
        apt.update(self.progress)?;
        // Ctrl-C ends apt too.
        let all = match debian::all(&apt) {
            Err(_) if !self.progress.proceed() => return Err(Error::Interrupted),
            all => all?,
        };
        Ok(self.session.get_or_init(|| DownloadSession { apt, all, _lock: lock }))
    }

    /// The lock goes when the file is closed, also if this program dies.
    fn lock(&self) -> Result<File, Error> {
        let path = self.cache.folder().join(FETCH_LOCK);
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(|error| Error::write(&path, error))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                self.progress.note("another download uses this cache; waiting until it ends");
            }
            Err(TryLockError::Error(error)) => return Err(Error::write(&path, error)),
        }
        file.lock().map_err(|error| Error::write(&path, error))?;
        Ok(file)
    }
}

/// The room that apt's lists and one kernel take at least. With next to none, apt waits for ever.
const ROOM_MB: u64 = 128;

fn check_room(folder: &Path, free: u64) -> Result<(), Error> {
    let free_mb = free / 1_000_000;
    if free_mb >= ROOM_MB {
        return Ok(());
    }
    Err(Error::Other(format!(
        "{} has {free_mb} MB free, but a kernel and Debian's package lists need {ROOM_MB}; free \
         space there, or name another folder with CANDOR_CACHE",
        folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::store::Origin;
    use super::*;

    #[test]
    fn a_folder_without_room_is_reported_before_apt_is_asked() {
        let folder = Path::new("/cache");
        assert!(check_room(folder, 128_000_000).is_ok());
        let reason = check_room(folder, 127_999_999).unwrap_err().to_string();
        assert!(reason.starts_with("/cache has 127 MB free"), "{reason}");
        assert!(reason.contains("CANDOR_CACHE"), "{reason}");
    }

    #[test]
    fn what_is_not_in_the_cache_is_to_be_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        for spec in ["6.12-rt", "debian:6.12.117+deb13-rt-amd64"] {
            let message = find(&cache, &spec.parse().unwrap()).unwrap_err().to_string();
            assert!(message.contains(&format!("kernel {spec} is not in the cache")), "{message}");
            assert!(message.ends_with(&format!("`candor vm fetch {spec}`")), "{message}");
        }
        assert!(cached(&cache).unwrap().is_empty());
        assert_eq!(available(&cache).unwrap(), None);
    }

    #[test]
    fn the_newest_of_a_series_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        let releases = [
            "6.12.9+deb13-amd64",
            "6.12.10+deb13-amd64",
            "6.12.11+deb13-rt-amd64",
            "6.1.0-56-amd64",
            "own-0123456789abcdef",
        ];
        for release in releases {
            let set = modules::Set::default();
            let parts = store::Parts {
                release,
                origin: Origin { package: Some("linux-image".into()), suite: None },
                image: b"image",
                set: &set,
                system_map: None,
            };
            let place = folder.path().join("kernels").join(release);
            store::place(&cache, &place, store::FETCH, |new| parts.write(new)).unwrap();
        }
        for (spec, release) in [
            ("6.12", "6.12.10+deb13-amd64"),
            ("6.12-rt", "6.12.11+deb13-rt-amd64"),
            ("6.1", "6.1.0-56-amd64"),
            ("debian:6.12.9+deb13-amd64", "6.12.9+deb13-amd64"),
        ] {
            let kernel = find(&cache, &spec.parse().unwrap()).unwrap();
            assert_eq!((kernel.release.as_str(), kernel.name.as_str()), (release, spec));
        }
        assert!(find(&cache, &"6.1-rt".parse().unwrap()).is_err());
        let names: Vec<_> = cached(&cache).unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["6.1", "6.12", "6.12", "6.12-rt", "own-0123456789abcdef"]);
    }

    #[test]
    fn what_dead_fetches_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        let kernels = cache.subfolder("kernels").unwrap();
        let left = kernels.join(".fetch-dead");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("part.deb"), "half").unwrap();
        fs::create_dir(kernels.join(".own-alive")).unwrap();
        assert!(cached(&cache).unwrap().is_empty());
        store::remove_leftovers(&cache).unwrap();
        assert!(!left.exists() && kernels.join(".own-alive").exists());
    }

    #[test]
    fn a_fetch_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        let place = folder.path().join("kernels").join("x");
        let answer = store::place(&cache, &place, store::FETCH, |new| {
            fs::write(new.join("part"), "half").unwrap();
            Err(Error::Interrupted)
        });
        assert!(matches!(answer, Err(Error::Interrupted)));
        assert_eq!(fs::read_dir(folder.path().join("kernels")).unwrap().count(), 0);
    }
}
