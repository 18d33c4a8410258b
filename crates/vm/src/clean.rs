//! What is in the cache, how large it is, and which of it this Candor can still use.
//!
//! A saved machine, and the reports of a machine, are of use only with the same kernel, the same QEMU,
//! and the same guest program. All three are in the `machine.json` of its folder.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::boot::Boot;
use crate::cache::{APT, COMPILERS, Cache, DRIVERS, FETCH_LOCK, HEADERS, MACHINES, REPORTS};
use crate::digest::hex;
use crate::error::Error;
use crate::kernel::{self, Cached};
use crate::machine::Identity;
use crate::options::devices;
use crate::plugin;
use crate::qemu::Qemu;
use crate::snapshot::{ABOUT, LOCK};
use crate::speed::Speed;

/// A folder of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub kind: Kind,
    /// What it is called: the kernel it belongs to, as far as that is known.
    pub name: String,
    pub folder: PathBuf,
    /// Bytes that it takes.
    pub size: u64,
    /// Why this Candor cannot use it with the QEMU and the kernels that are here.
    pub stale: Option<Stale>,
}

/// What a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Kernel,
    /// A machine that was booted and saved.
    Machine,
    /// Reports of experiments that a machine has run.
    Reports,
    /// The headers of a kernel.
    Headers,
    Compiler,
    /// A driver that was built for a kernel.
    Driver,
    /// apt's lists of packages.
    Lists,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Kernel,
        Self::Machine,
        Self::Reports,
        Self::Headers,
        Self::Compiler,
        Self::Driver,
        Self::Lists,
    ];

    /// As it is written in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Machine => "machine",
            Self::Reports => "results",
            Self::Headers => "headers",
            Self::Compiler => "compiler",
            Self::Driver => "driver",
            Self::Lists => "package lists",
        }
    }
}

/// Why a machine of the cache cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// It was made with a QEMU that is not the one of this computer.
    Qemu,
    /// Its kernel is not in the cache.
    Kernel,
    /// It was made by another version of Candor.
    Candor,
    /// It was never finished, or its description cannot be read.
    Unfinished,
}

impl Stale {
    pub const ALL: [Self; 4] = [Self::Qemu, Self::Kernel, Self::Candor, Self::Unfinished];

    /// As it is written in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qemu => "another QEMU",
            Self::Kernel => "kernel not here",
            Self::Candor => "another Candor",
            Self::Unfinished => "unfinished",
        }
    }
}

/// What machines need to be of use.
struct UsableParts<'a> {
    /// `None`: the QEMU is not looked at.
    qemu: Option<&'a Qemu>,
    kernels: Vec<String>,
    guest_sha256: String,
    plugin_sha256: String,
    timed_bus_sha256: String,
}

impl UsableParts<'_> {
    fn judge(&self, about: &Identity) -> Option<Stale> {
        let is_ours = about.guest_sha256 == self.guest_sha256
            && about.plugin_sha256 == self.plugin_sha256
            && Speed::from_mips(about.mips).is_ok_and(|speed| {
                about.flags.starts_with(&devices(speed, about.bus.tester(), about.boot))
            })
            && about
                .timed_bus_sha256
                .as_ref()
                .is_none_or(|sha256| *sha256 == self.timed_bus_sha256);
        if self.qemu.is_some_and(|qemu| qemu.sha256 != about.qemu_sha256) {
            Some(Stale::Qemu)
        } else if !self.kernels.contains(&about.kernel_sha256) {
            Some(Stale::Kernel)
        } else {
            (!is_ours).then_some(Stale::Candor)
        }
    }
}

/// Everything in the cache. Machines are held against `qemu`, if it is given, against the kernels in
/// the cache, unless `without_kernels`, and against `init`, the program of the guests.
///
/// # Errors
/// The cache cannot be read.
pub fn pieces(
    cache: &Cache,
    qemu: Option<&Qemu>,
    init: &[u8],
    without_kernels: bool,
) -> Result<Vec<Piece>, Error> {
    let kernels = kernel::cached(cache)?;
    let sums = kernels.iter().filter(|_| !without_kernels).filter_map(|cached| {
        let kernel = cached.kernel.as_ref().ok()?;
        Some(kernel.sha256.clone())
    });
    let present = UsableParts {
        qemu,
        kernels: sums.collect(),
        guest_sha256: hex(&Sha256::digest(init)),
        plugin_sha256: plugin::COUNT.sha256(),
        timed_bus_sha256: plugin::TIMED_BUS.sha256(),
    };
    let mut pieces: Vec<_> = kernels.iter().map(of_kernel).collect();
    for (kind, name) in [(Kind::Machine, MACHINES), (Kind::Reports, REPORTS)] {
        for folder in folders(&cache.folder().join(name))? {
            pieces.push(of_machine(kind, folder, &present));
        }
    }
    let releases: Vec<_> = kernels.iter().filter(|_| !without_kernels).map(release).collect();
    for (kind, name) in
        [(Kind::Headers, HEADERS), (Kind::Compiler, COMPILERS), (Kind::Driver, DRIVERS)]
    {
        for folder in folders(&cache.folder().join(name))? {
            pieces.push(of_build(kind, folder, &releases));
        }
    }
    let lists = cache.folder().join(APT);
    if lists.is_dir() {
        let (name, size) = ("Debian".into(), size(&lists));
        pieces.push(Piece { kind: Kind::Lists, name, folder: lists, size, stale: None });
    }
    Ok(pieces)
}

fn of_kernel(cached: &Cached) -> Piece {
    Piece {
        kind: Kind::Kernel,
        name: cached.name.clone(),
        folder: cached.folder.clone(),
        size: cached.size,
        stale: None,
    }
}

/// The release of a kernel: what its folder is called.
fn release(cached: &Cached) -> String {
    cached.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What drivers are built with, and drivers.
fn of_build(kind: Kind, folder: PathBuf, releases: &[String]) -> Piece {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // RELEASE-SUM
    let name = match (kind, name.rsplit_once('-')) {
        (Kind::Driver, Some((release, _))) => release.to_owned(),
        _ => name,
    };
    let is_stale = kind != Kind::Compiler && !releases.contains(&name);
    let stale = is_stale.then_some(Stale::Kernel);
    Piece { kind, size: size(&folder), name, folder, stale }
}

/// What a machine is called: its kernel, and which boot it is.
fn named(about: &Identity) -> String {
    match about.boot {
        Boot::FIRST => about.kernel.clone(),
        boot => format!("{}, boot {boot}", about.kernel),
    }
}

fn of_machine(kind: Kind, folder: PathBuf, present: &UsableParts<'_>) -> Piece {
    let about = fs::read(folder.join(ABOUT)).ok();
    let about = about.and_then(|bytes| serde_json::from_slice::<Identity>(&bytes).ok());
    let size = size(&folder);
    let name = about.as_ref().map_or_else(|| "-".into(), named);
    let stale = about.map_or(Some(Stale::Unfinished), |about| present.judge(&about));
    Piece { kind, name, folder, size, stale }
}

/// The folders in `folder`, by their names.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::read(folder, error)),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut folders: Vec<_> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

/// Bytes of all files in a folder. Links are not followed.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    };
    entries.map(of).sum()
}

/// Removes a folder of the cache. `false` if another process is at work in it: then it stays.
///
/// # Errors
/// It cannot be removed.
pub fn remove(cache: &Cache, piece: &Piece) -> Result<bool, Error> {
    let lock = match piece.kind {
        Kind::Machine | Kind::Reports => piece.folder.join(LOCK),
        Kind::Kernel | Kind::Headers | Kind::Compiler | Kind::Driver | Kind::Lists => {
            cache.folder().join(FETCH_LOCK)
        }
    };
    let lock = File::open(lock);
    if let Ok(lock) = &lock
        && lock.try_lock().is_err()
    {
        return Ok(false);
    }
    match fs::remove_dir_all(&piece.folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::write(&piece.folder, error))
        }
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use candor_protocol::Tester;

    use super::*;
    use crate::machine::BusTime;

    const INIT: &[u8] = b"init";

    fn identity() -> Identity {
        Identity {
            kernel: "6.12".into(),
            release: "6.12.1".into(),
            package: None,
            kernel_sha256: "k".into(),
            guest_sha256: hex(&Sha256::digest(INIT)),
            qemu: "7.2".into(),
            qemu_sha256: "q".into(),
            plugin_sha256: plugin::COUNT.sha256(),
            bus: BusTime::Instant,
            timed_bus_sha256: None,
            boot: Boot::FIRST,
            flags: devices(Speed::default(), Tester::Inside, Boot::FIRST),
            shift: 1,
            mips: 500,
        }
    }

    /// With the tester outside.
    fn outside() -> Identity {
        let flags = devices(Speed::default(), Tester::Outside, Boot::FIRST);
        Identity { bus: BusTime::Timed, timed_bus_sha256: Some("b".into()), flags, ..identity() }
    }

    #[test]
    fn a_machine_is_of_use_with_all_that_it_was_made_with() {
        let qemu = Qemu { program: "qemu".into(), version: "7.2".into(), sha256: "q".into() };
        let present = UsableParts {
            qemu: Some(&qemu),
            kernels: vec!["j".into(), "k".into()],
            guest_sha256: hex(&Sha256::digest(INIT)),
            plugin_sha256: plugin::COUNT.sha256(),
            timed_bus_sha256: "b".into(),
        };
        let fast = Identity {
            flags: [
                devices(Speed::from_mips(1000).unwrap(), Tester::Inside, Boot::FIRST),
                vec!["-append".into()],
            ]
            .concat(),
            mips: 1000,
            ..identity()
        };
        for (about, stale) in [
            (identity(), None),
            (fast, None),
            (Identity { kernel: "own".into(), ..identity() }, None),
            (Identity { qemu_sha256: String::new(), ..identity() }, Some(Stale::Qemu)),
            (Identity { kernel_sha256: "l".into(), ..identity() }, Some(Stale::Kernel)),
            (Identity { guest_sha256: "g".into(), ..identity() }, Some(Stale::Candor)),
            (Identity { plugin_sha256: "p".into(), ..identity() }, Some(Stale::Candor)),
            (Identity { timed_bus_sha256: Some("c".into()), ..outside() }, Some(Stale::Candor)),
            (outside(), None),
            (Identity { flags: vec!["-m".into()], ..identity() }, Some(Stale::Candor)),
        ] {
            assert_eq!(present.judge(&about), stale, "{about:?}");
        }
        let unseen = UsableParts { qemu: None, ..present };
        assert_eq!(unseen.judge(&Identity { qemu_sha256: "r".into(), ..identity() }), None);
    }

    #[test]
    fn the_cache_is_listed_with_sizes_and_removed_unless_it_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        assert_eq!(pieces(&cache, None, INIT, false).unwrap(), []);
        let fill = |name: &str, file: &str, bytes: &[u8]| {
            let path = cache.folder().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(file), bytes).unwrap();
        };
        let about = serde_json::to_vec(&identity()).unwrap();
        fill("machines/1", "state", &[7; 1000]);
        fill("machines/1", ABOUT, &about);
        fill("machines/1", LOCK, b"");
        fill("machines/2", "state.part0", &[7; 10]);
        fill("reports/1", ABOUT, &about);
        fill("apt/lists", "m", &[7; 30]);
        fill("headers/6.12.1", "Makefile", &[7; 5]);
        fill("compilers/gcc-14", "gcc", &[7; 6]);
        fill("drivers/6.12.1-00ff", "a.ko", &[7; 7]);

        let pieces = pieces(&cache, None, INIT, false).unwrap();
        let shown: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.kind, piece.name.as_str(), piece.size, piece.stale))
            .collect();
        let size = about.len() as u64;
        assert_eq!(
            shown,
            [
                (Kind::Machine, "6.12", 1000 + size, Some(Stale::Kernel)),
                (Kind::Machine, "-", 10, Some(Stale::Unfinished)),
                (Kind::Reports, "6.12", size, Some(Stale::Kernel)),
                (Kind::Headers, "6.12.1", 5, Some(Stale::Kernel)),
                (Kind::Compiler, "gcc-14", 6, None),
                (Kind::Driver, "6.12.1", 7, Some(Stale::Kernel)),
                (Kind::Lists, "Debian", 30, None),
            ]
        );

        let booting = File::open(cache.folder().join("machines/1").join(LOCK)).unwrap();
        booting.lock().unwrap();
        assert!(!remove(&cache, &pieces[0]).unwrap());
        assert!(pieces[0].folder.is_dir());
        drop(booting);
        for piece in &pieces {
            assert!(remove(&cache, piece).unwrap());
            assert!(!piece.folder.exists());
        }
        assert!(remove(&cache, &pieces[0]).unwrap(), "it is gone, as it should be");
    }
}
