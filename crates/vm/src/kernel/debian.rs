//! Debian's kernels: which there are, and how one gets into the cache.
//!
//! | until 7.0 | from 7.1 on | holds |
//! |---|---|---|
//! | `linux-image-V` | `linux-binary-V` | the image |
//! | `linux-image-V` | `linux-modules-V` | the modules |
//! | `linux-image-V` | `linux-base-V` | `modules.builtin`, `System.map` |
//!
//! Of packages that are not signed yet the names are `linux-image-V-unsigned` and
//! `linux-binary-unsigned-V`: they are taken where there is nothing else, since a guest does not
//! ask for signatures. Versions that are not complete are not offered.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use super::apt::{Apt, Package, Progress, complaint};
use super::modules::{Tree, module_name};
use super::spec::{Flavour, Spec};
use super::store::{self, Kernel, Origin};
use super::{image, version};
use crate::cache::KERNELS;
use crate::{Cache, Error};

/// A smaller `linux-image` holds nothing: it only names other packages.
const SMALLEST_IMAGE: u64 = 1 << 20;
/// Larger files in packages are refused: no kernel comes near it.
const MAX_LEN: u64 = 256 << 20;
/// Folders with modules that the needed ones may depend on.
const LIKELY: &[&str] = &[
    "/kernel/net/",
    "/kernel/lib/",
    "/kernel/crypto/",
    "/kernel/drivers/net/can/",
    "/kernel/drivers/net/ethernet/intel/e1000/",
    "/kernel/drivers/net/vxcan",
];

/// A kernel that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Such as `6.12`.
    pub series: String,
    /// Whether with PREEMPT_RT.
    pub is_rt: bool,
    /// Such as `6.12.117+deb13-rt-amd64`.
    pub release: String,
    /// The version of its packages, such as `6.12.117-1`.
    pub version: String,
    /// Such as `trixie-security`.
    pub suite: String,
    /// Bytes to download.
    pub size: u64,
    /// Whether its series asks for it: the newest one that is signed.
    pub is_newest: bool,
    /// The packages, that with the image first.
    packages: Vec<Package>,
    is_signed: bool,
}

impl Available {
    /// The shortest that asks for it.
    #[must_use]
    pub fn spec(&self) -> Spec {
        match self.is_newest {
            true => Spec::Series { series: self.series.clone(), is_rt: self.is_rt },
            false => Spec::Debian(self.release.clone()),
        }
    }

    /// The package with the image, and its version.
    fn package(&self) -> String {
        let name = self.packages.first().map_or("", |package| package.name.as_str());
        format!("{name} {}", self.version)
    }
}

/// The release that a package belongs to, and the kind of the package.
fn kind_of(name: &str) -> Option<(&str, Kind)> {
    let name = name.strip_prefix("linux-")?;
    let (release, kind) = if let Some(rest) = name.strip_prefix("image-") {
        match rest.strip_suffix("-unsigned") {
            Some(release) => (release, Kind::UnsignedImage),
            None => (rest, Kind::Image),
        }
    } else if let Some(rest) = name.strip_prefix("binary-") {
        match rest.strip_prefix("unsigned-") {
            Some(release) => (release, Kind::UnsignedBinary),
            None => (rest, Kind::Binary),
        }
    } else if let Some(release) = name.strip_prefix("modules-") {
        (release, Kind::Modules)
    } else {
        (name.strip_prefix("base-")?, Kind::Base)
    };
    Flavour::from_release(release)?;
    Some((release, kind))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Image,
    UnsignedImage,
    Binary,
    UnsignedBinary,
    Modules,
    Base,
}

/// Every complete kernel among `packages`, the newest of a series first.
fn complete(packages: Vec<Package>) -> Vec<Available> {
    let mut releases: BTreeMap<String, BTreeMap<Kind, Package>> = BTreeMap::new();
    for package in packages {
        if let Some((release, kind)) = kind_of(&package.name) {
            releases.entry(release.to_owned()).or_default().insert(kind, package);
        }
    }
    let mut all: Vec<_> =
        releases.iter().filter_map(|(release, kinds)| assemble(release, kinds)).collect();
    all.sort_by(|left, right| {
        let series = version::compare(&right.series, &left.series);
        series
            .then(left.is_rt.cmp(&right.is_rt))
            .then(right.is_signed.cmp(&left.is_signed))
            .then_with(|| version::compare(&right.release, &left.release))
    });
    for first in
        all.chunk_by_mut(|one, next| (&one.series, one.is_rt) == (&next.series, next.is_rt))
    {
        first[0].is_newest = true;
    }
    all
}

/// The kernel in the packages of one release, if it is complete.
fn assemble(release: &str, kinds: &BTreeMap<Kind, Package>) -> Option<Available> {
    let flavour = Flavour::from_release(release)?;
    let whole = |kind| kinds.get(&kind).filter(|package| package.size >= SMALLEST_IMAGE);
    let alike =
        |first: &Package, kind| kinds.get(&kind).filter(|package| package.version == first.version);
    // Image and modules in two packages, or in one.
    let split = |binary| {
        let binary = whole(binary)?;
        let modules = alike(binary, Kind::Modules)
            .or_else(|| whole(Kind::Image).filter(|image| image.version == binary.version))?;
        Some(vec![binary.clone(), modules.clone()])
    };
    let one = |image| Some(vec![whole(image)?.clone()]);
    let (mut packages, is_signed) = split(Kind::Binary)
        .or_else(|| one(Kind::Image))
        .map(|packages| (packages, true))
        .or_else(|| {
            let packages = split(Kind::UnsignedBinary).or_else(|| one(Kind::UnsignedImage))?;
            Some((packages, false))
        })?;
    let first = packages.first()?.clone();
    packages.extend(alike(&first, Kind::Base).cloned());
    Some(Available {
        series: flavour.series,
        is_rt: flavour.is_rt,
        release: release.to_owned(),
        version: first.version,
        suite: first.suite,
        size: packages.iter().map(|package| package.size).sum(),
        is_newest: false,
        packages,
        is_signed,
    })
}

/// Every kernel that the lists name.
pub(crate) fn all(apt: &Apt) -> Result<Vec<Available>, Error> {
    Ok(complete(apt.packages(&|name| kind_of(name).is_some())?))
}

/// Fetches `wanted` into the cache.
pub(crate) fn fetch(
    cache: &Cache,
    apt: &Apt,
    wanted: &Available,
    name: String,
    progress: &dyn Progress,
) -> Result<Kernel, Error> {
    let folder = cache.subfolder(KERNELS)?.join(&wanted.release);
    store::place(cache, &folder, store::FETCH, |new| {
        let work = new.join("work");
        fs::create_dir(&work).map_err(|error| Error::write(&work, error))?;
        for package in &wanted.packages {
            let file = apt.download(package, &work, progress)?;
            unpack(&file, &work, &is_likely, progress)?;
            fs::remove_file(&file).map_err(|error| Error::write(&file, error))?;
        }
        let path = work.join("image");
        let bytes = fs::read(&path).map_err(|_| {
            Error::Other(format!(
                "{} contains no kernel image; choose another version, see `candor vm kernels`",
                wanted.package()
            ))
        })?;
        let release = image::release(&path, &bytes)?;
        let set = Tree::read(&work)?.closure(&release)?;
        let system_map = fs::read(work.join("System.map")).ok();
        let origin = Origin { package: Some(wanted.package()), suite: Some(wanted.suite.clone()) };
        store::Parts {
            release: &release,
            origin,
            image: &bytes,
            set: &set,
            system_map: system_map.as_deref(),
        }
        .write(new)?;
        fs::remove_dir_all(&work).map_err(|error| Error::write(&work, error))
    })?;
    store::read(&folder, name)
}

/// Whether a file of a package may be needed.
fn is_likely(path: &str) -> bool {
    LIKELY.iter().any(|folder| path.contains(folder))
}

/// Takes what is needed out of a package: the image as `image`, `System.map`, `modules.builtin`,
/// and the modules that `is_wanted` by their paths; all flat into `folder`.
fn unpack(
    package: &Path,
    folder: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let broken = |reason: &str| {
        Error::Other(format!(
            "{} cannot be unpacked: {reason}; download it again",
            package.file_name().unwrap_or_default().to_string_lossy()
        ))
    };
    let mut child = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| broken(&format!("dpkg-deb cannot be started: {error}")))?;
    let taken = child
        .stdout
        .take()
        .map_or(Ok(Ok(())), |stdout| take_files(stdout, folder, is_wanted, progress));
    let output = child.wait_with_output().map_err(|error| broken(&error.to_string()))?;
    if !progress.proceed() {
        return Err(Error::Interrupted);
    }
    // What cannot be written here comes first, then what dpkg-deb says, then what we could not read.
    let read = taken?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(broken(&complaint(&stderr)));
    }
    // Its own words would quote what it read.
    read.map_err(|_| broken("its archive is damaged"))
}

/// The outer error is of our own files, the inner one of the archive.
fn take_files(
    archive: impl Read,
    folder: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
    progress: &dyn Progress,
) -> Result<io::Result<()>, Error> {
    let mut archive = tar::Archive::new(archive);
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return Ok(Err(error)),
    };
    for entry in entries {
        if !progress.proceed() {
            return Err(Error::Interrupted);
        }
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(error)),
        };
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(name) = path.rsplit('/').next().filter(|_| entry.header().entry_type().is_file())
        else {
            continue;
        };
        let is_large = entry.size() >= store::SMALLEST_SYSTEM_MAP;
        let target = match name {
            _ if name == "vmlinuz" || name.starts_with("vmlinuz-") => "image",
            "modules.builtin" => name,
            _ if name.starts_with("System.map") && is_large => "System.map",
            _ if module_name(name).is_some() && is_wanted(&path) => name,
            _ => continue,
        };
        if entry.size() > MAX_LEN {
            return Err(Error::Other(format!(
                "{path} in the package has {} bytes, more than the limit of {MAX_LEN}; choose \
                 another version, see `candor vm kernels`",
                entry.size()
            )));
        }
        let target = folder.join(target);
        let mut file = File::create(&target).map_err(|error| Error::write(&target, error))?;
        let mut bytes = Vec::new();
        if let Err(error) = entry.read_to_end(&mut bytes) {
            return Ok(Err(error));
        }
        io::Write::write_all(&mut file, &bytes).map_err(|error| Error::write(&target, error))?;
    }
    // Whoever writes the archive shall not find us gone before its padding.
    Ok(io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages `NAME VERSION MEGABYTES`.
    fn packages(lines: &[&str]) -> Vec<Package> {
        let package = |line: &&str| {
            let mut words = line.split(' ').map(str::to_owned);
            let mut word = || words.next().unwrap();
            Package {
                name: word(),
                version: word(),
                size: word().parse::<u64>().unwrap() << 20,
                suite: "s".into(),
            }
        };
        lines.iter().map(package).collect()
    }

    fn names(all: &[Available]) -> Vec<Vec<&str>> {
        all.iter()
            .map(|one| one.packages.iter().map(|package| package.name.as_str()).collect())
            .collect()
    }

    #[test]
    fn only_complete_kernels_are_offered() {
        let all = complete(packages(&[
            // In one package; the other one only names it.
            "linux-image-6.12.9+deb13-amd64 6.12.9-1 100",
            "linux-image-6.12-amd64 6.12.9-1 0",
            "linux-image-6.12.10+deb13-amd64-unsigned 6.12.10-1 100",
            "linux-image-6.12.8+deb13-rt-amd64 6.12.8-1 100",
            "linux-image-6.12.9+deb13-cloud-amd64 6.12.9-1 100",
            // Split; of the newer one the modules are of another build.
            "linux-image-7.2.1+deb13-amd64 7.2.1-1 0",
            "linux-binary-7.2.1+deb13-amd64 7.2.1-1 14",
            "linux-modules-7.2.1+deb13-amd64 7.2.1-1 160",
            "linux-base-7.2.1+deb13-amd64 7.2.1-1 1",
            "linux-binary-7.2.2+deb13-amd64 7.2.2-1 14",
            "linux-modules-7.2.2+deb13-amd64 7.2.2-2 160",
            // Without modules, or with nothing but what is for debuggers.
            "linux-image-7.1.1+deb13-amd64 7.1.1-1 0",
            "linux-binary-7.1.1+deb13-amd64 7.1.1-1 14",
            "linux-image-7.4.1+deb13-amd64-dbg 7.4.1-1 900",
            // Not signed yet.
            "linux-binary-unsigned-7.3.4+deb13-amd64 7.3.4-1 14",
            "linux-modules-7.3.4+deb13-amd64 7.3.4-1 160",
            // The image apart, the modules as before.
            "linux-image-6.19.1+deb13-amd64 6.19.1-1 150",
            "linux-binary-6.19.1+deb13-amd64 6.19.1-1 14",
        ]));
        let releases: Vec<_> = all.iter().map(|one| one.release.as_str()).collect();
        let expected = [
            "7.3.4+deb13-amd64",
            "7.2.1+deb13-amd64",
            "6.19.1+deb13-amd64",
            "6.12.9+deb13-amd64",
            "6.12.10+deb13-amd64",
            "6.12.8+deb13-rt-amd64",
        ];
        assert_eq!(releases, expected);
        assert_eq!(
            names(&all)[..4],
            [
                vec!["linux-binary-unsigned-7.3.4+deb13-amd64", "linux-modules-7.3.4+deb13-amd64"],
                vec![
                    "linux-binary-7.2.1+deb13-amd64",
                    "linux-modules-7.2.1+deb13-amd64",
                    "linux-base-7.2.1+deb13-amd64"
                ],
                vec!["linux-binary-6.19.1+deb13-amd64", "linux-image-6.19.1+deb13-amd64"],
                vec!["linux-image-6.12.9+deb13-amd64"],
            ]
        );
        let first = &all[1];
        assert_eq!(first.size, 175 << 20);
        let specs: Vec<_> = all.iter().map(|one| one.spec().to_string()).collect();
        // One that is not signed yet is the newest only if nothing else is there.
        let expected = ["7.3", "7.2", "6.19", "6.12", "debian:6.12.10+deb13-amd64", "6.12-rt"];
        assert_eq!(specs, expected);
        assert_eq!(first.package(), "linux-binary-7.2.1+deb13-amd64 7.2.1-1");
    }

    /// A progress that wants no more after so many questions.
    struct Patience(std::sync::atomic::AtomicUsize);

    impl Progress for Patience {
        fn step(&self, _what: &str, _bytes: u64) {}
        fn percent(&self, _percent: f64) {}
        fn note(&self, _text: &str) {}
        fn proceed(&self) -> bool {
            let order = std::sync::atomic::Ordering::Relaxed;
            self.0.fetch_update(order, order, |left| left.checked_sub(1)).is_ok()
        }
    }

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn only_what_is_needed_is_taken_out_of_a_package() {
        let real_map = vec![b'f'; store::SMALLEST_SYSTEM_MAP as usize];
        let bytes = archive(&[
            ("boot/vmlinuz-6.12.1", b"image"),
            ("boot/config-6.12.1", b"config"),
            ("boot/System.map-6.12.1", b"The real System.map is elsewhere"),
            ("lib/modules/6.12.1/modules.builtin", b"builtin"),
            ("lib/modules/6.12.1/kernel/net/can/can.ko.xz", b"can"),
            ("lib/modules/6.12.1/kernel/sound/noise.ko.xz", b"noise"),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let patient = Patience(1000.into());
        take_files(bytes.as_slice(), folder.path(), &is_likely, &patient).unwrap().unwrap();
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["can.ko.xz", "image", "modules.builtin"]);

        let bytes = archive(&[("usr/lib/modules/7.2.1/System.map", &real_map)]);
        take_files(bytes.as_slice(), folder.path(), &is_likely, &patient).unwrap().unwrap();
        assert_eq!(fs::read(folder.path().join("System.map")).unwrap(), real_map);
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_and_not_cut() {
        let mut header = tar::Header::new_gnu();
        header.set_path("boot/vmlinuz-1").unwrap();
        header.set_size(MAX_LEN + 1);
        header.set_mode(0o644);
        header.set_cksum();
        // What would come is not even read.
        let bytes = header.as_bytes().as_slice();
        let folder = tempfile::tempdir().unwrap();
        let outcome = take_files(bytes, folder.path(), &is_likely, &Patience(1000.into()));
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("boot/vmlinuz-1 in the package has 268435457 bytes"), "{message}");
        assert!(message.contains("candor vm kernels"), "{message}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_archive_is_read_to_its_end() {
        let mut bytes = archive(&[("boot/vmlinuz-1", b"image")]);
        bytes.resize(bytes.len() + 10_240, 0);
        let mut reader = bytes.as_slice();
        let folder = tempfile::tempdir().unwrap();
        let patient = Patience(1000.into());
        take_files(&mut reader, folder.path(), &is_likely, &patient).unwrap().unwrap();
        assert_eq!(reader.len(), 0, "who writes it is not cut off");
    }

    #[test]
    fn unpacking_ends_when_nobody_wants_it() {
        let bytes = archive(&[("boot/vmlinuz-1", b"image"), ("boot/vmlinuz-2", b"image")]);
        let folder = tempfile::tempdir().unwrap();
        let answer = take_files(bytes.as_slice(), folder.path(), &is_likely, &Patience(1.into()));
        assert!(matches!(answer, Err(Error::Interrupted)), "{answer:?}");
    }

    #[test]
    fn a_cut_archive_is_distinguished_from_a_folder_that_cannot_be_written() {
        let bytes = archive(&[("boot/vmlinuz-1", &[7; 2000])]);
        let folder = tempfile::tempdir().unwrap();
        let patient = Patience(1000.into());
        let cut = take_files(&bytes[..1500], folder.path(), &is_likely, &patient);
        assert!(cut.unwrap().is_err());
        let gone = folder.path().join("gone");
        let message = take_files(bytes.as_slice(), &gone, &is_likely, &patient).unwrap_err();
        assert!(message.to_string().contains("gone/image cannot be written"), "{message}");
    }
}
