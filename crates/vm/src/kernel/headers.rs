//! What modules for a kernel are built with: its headers, and the compiler that built it.
//!
//! ```text
//!  <cache>/headers/RELEASE/     Debian's linux-headers-RELEASE and what it depends on, unpacked
//!  <cache>/compilers/gcc-14/    Debian's gcc-14, for machines whose Debian is older
//! ```
//!
//! Nothing is installed. Packages expect to be unpacked at `/`: paths in the headers are changed, and programs of a newer C
//! library than that of the machine are started with their own.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::{self, Apt, Progress};
use super::store;
use crate::cache::{COMPILERS, HEADERS};
use crate::{Cache, Error};

/// The compiler that can be fetched.
const FETCHED_GCC: u32 = 14;
/// Its packages: those of Debian 13, whose kernels it built.
const GCC_PACKAGES: [&str; 11] = [
    "gcc-14-x86-64-linux-gnu",
    "cpp-14-x86-64-linux-gnu",
    "libgcc-14-dev",
    "libc6",
    "libelf1t64",
    "libgmp10",
    "libisl23",
    "libmpc3",
    "libmpfr6",
    "libzstd1",
    "zlib1g",
];
/// Programs of the compiler that need its C library.
const GCC_PROGRAMS: [&str; 2] =
    ["usr/bin/x86_64-linux-gnu-gcc-14", "usr/libexec/gcc/x86_64-linux-gnu/14/cc1"];
/// Those of linux-kbuild.
const KBUILD_PROGRAMS: [&str; 2] =
    ["tools/objtool/objtool.real-x86", "scripts/mod/modpost.real-lsb-64"];

/// Headers and compiler that fit a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// The folder of the headers, as `make -C` takes it.
    pub(crate) headers: PathBuf,
    /// The folder with the compiler, if it is not on the path.
    pub(crate) compiler: Option<PathBuf>,
}

impl Toolchain {
    /// What is here for the kernel `release`: in the cache, or installed.
    ///
    /// # Errors
    /// There are no headers, or no compiler for them.
    pub(crate) fn find(cache: &Cache, release: &str) -> Result<Self, Error> {
        let installed = PathBuf::from(format!("/usr/src/linux-headers-{release}"));
        let headers = [in_cache(cache, release), installed].into_iter().find(|it| it.is_dir());
        let headers = headers.ok_or_else(|| {
            Error::Other(format!(
                "the headers of Linux {release} are not here; download them with `candor vm fetch --headers \
                 debian:{release}`"
            ))
        })?;
        let version = gcc_version(&headers)?;
        if apt::require(&gcc_name(version)).is_ok() {
            return Ok(Self { headers, compiler: None });
        }
        let compiler =
            cache.folder().join(COMPILERS).join(format!("gcc-{version}")).join("usr/bin");
        if compiler.is_dir() {
            return Ok(Self { headers, compiler: Some(compiler) });
        }
        let remedy = match version {
            FETCHED_GCC => format!("download it with `candor vm fetch --headers debian:{release}`"),
            version => format!("install the package gcc-{version}"),
        };
        Err(Error::Other(format!(
            "Linux {release} was built by gcc-{version}, which is not here; {remedy}"
        )))
    }

    /// The path on which its programs are found.
    pub(crate) fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.compiler.iter().cloned().chain(std::env::split_paths(&path));
        std::env::join_paths(folders).unwrap_or(path)
    }
}

/// Where the headers of `release` are in the cache.
fn in_cache(cache: &Cache, release: &str) -> PathBuf {
    let name = format!("usr/src/linux-headers-{release}");
    cache.folder().join(HEADERS).join(release).join(name)
}

/// What Debian calls a compiler.
fn gcc_name(version: u32) -> String {
    format!("x86_64-linux-gnu-gcc-{version}")
}

/// The version of the compiler that built the kernel of these headers.
fn gcc_version(headers: &Path) -> Result<u32, Error> {
    let path = headers.join("include/config/auto.conf");
    let text = fs::read_to_string(&path).map_err(|error| Error::read(&path, error))?;
    let version = text.lines().find_map(|line| line.strip_prefix("CONFIG_GCC_VERSION="));
    let version = version.and_then(|version| version.parse::<u32>().ok());
    version.map(|version| version / 10_000).ok_or_else(|| {
        Error::Other(format!("{} names no compiler; download the headers again", path.display()))
    })
}

/// Fetches the headers of the kernel `release` and, if this machine has none, their compiler.
pub(super) fn fetch(
    cache: &Cache,
    apt: &Apt,
    release: &str,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let folder = cache.subfolder(HEADERS)?.join(release);
    let headers = in_cache(cache, release);
    if !headers.is_dir() {
        let name = format!("linux-headers-{release}");
        // Not the compiler, nor the image.
        let mut names = apt.depends(&name);
        // Asked for a package that there is not, apt-cache would blame its lists.
        if names.is_empty() {
            return Err(gone(release));
        }
        names.retain(|name| {
            ["linux-headers-", "linux-kbuild-"].iter().any(|start| name.starts_with(start))
        });
        names.push(name.clone());
        let packages = apt.named(&names)?;
        if packages.len() < names.len() {
            return Err(gone(release));
        }
        store::place(cache, &folder, store::FETCH, |new| {
            apt.unpack(&packages, new, progress)?;
            root_at(&new.join("usr/src"), &folder)
        })?;
    }
    let version = gcc_version(&headers)?;
    if apt::require(&gcc_name(version)).is_ok() || version != FETCHED_GCC {
        return Ok(());
    }
    let compiler = cache.subfolder(COMPILERS)?.join(format!("gcc-{version}"));
    if !compiler.is_dir() {
        let packages = apt.named(&GCC_PACKAGES.map(str::to_owned))?;
        store::place(cache, &compiler, store::FETCH, |new| {
            apt.unpack(&packages, new, progress)?;
            GCC_PROGRAMS.iter().try_for_each(|program| {
                with_own_library(&new.join(program), &compiler.join(program), &compiler)
            })
        })?;
    }
    // Built for the same Debian as the compiler.
    let kbuild = folder.join("usr/lib");
    for entry in fs::read_dir(&kbuild).map_err(|error| Error::read(&kbuild, error))?.flatten() {
        for program in KBUILD_PROGRAMS {
            let path = entry.path().join(program);
            with_own_library(&path, &path, &compiler)?;
        }
    }
    Ok(())
}

fn gone(release: &str) -> Error {
    Error::Other(format!(
        "Debian has no headers of Linux {release}: it keeps those of its newest kernels, and none of 6.16 to 6.18; fetch \
         another kernel, or a newer one of the series with `candor vm fetch --newest --headers`"
    ))
}

/// Makes the makefiles in `sources` (`usr/src`) include each other below `root` instead of `/`.
fn root_at(sources: &Path, root: &Path) -> Result<(), Error> {
    let root = root.display();
    for entry in fs::read_dir(sources).map_err(|error| Error::read(sources, error))?.flatten() {
        let path = entry.path().join("Makefile");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let changed = [" ", "="].iter().fold(text, |text, before| {
            text.replace(&format!("{before}/usr/src/"), &format!("{before}{root}/usr/src/"))
        });
        fs::write(&path, changed).map_err(|error| Error::write(&path, error))?;
    }
    Ok(())
}

/// Starts the program `file`, which will be at `place`, with the C library in the folder `root`.
fn with_own_library(file: &Path, place: &Path, root: &Path) -> Result<(), Error> {
    let program = |path: &Path| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".elf");
        path.with_file_name(name)
    };
    if !file.exists() || program(file).exists() {
        return Ok(());
    }
    fs::rename(file, program(file)).map_err(|error| Error::write(file, error))?;
    let library = root.join("usr/lib/x86_64-linux-gnu");
    let script = format!(
        "#!/bin/sh\nexec '{0}/ld-linux-x86-64.so.2' --library-path '{0}' '{1}' \"$@\"\n",
        library.display(),
        program(place).display()
    );
    fs::write(file, script)
        .and_then(|()| fs::set_permissions(file, Permissions::from_mode(0o755)))
        .map_err(|error| Error::write(file, error))
}

impl Apt {
    /// Fetches packages and unpacks them, all into `folder`.
    fn unpack(
        &self,
        packages: &[apt::Package],
        folder: &Path,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        for package in packages {
            let file = self.download(package, folder, progress)?;
            let mut command = Command::new("dpkg-deb");
            let run = apt::run(command.arg("-x").arg(&file).arg(folder), progress)?;
            if !run.is_success {
                let reason = apt::complaint(&run.stderr);
                return Err(Error::Other(format!(
                    "{} cannot be unpacked: {reason}; free space, or download it again",
                    package.name
                )));
            }
            fs::remove_file(&file).map_err(|error| Error::write(&file, error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makefiles_include_each_other_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let sources = folder.path().join("linux-headers-7.2.1");
        fs::create_dir_all(&sources).unwrap();
        let makefile = sources.join("Makefile");
        let text = "KBUILD_OUTPUT=/usr/src/a\ninclude /usr/src/b/Makefile\n";
        fs::write(&makefile, text).unwrap();
        root_at(folder.path(), Path::new("/c/headers")).unwrap();
        let changed = "KBUILD_OUTPUT=/c/headers/usr/src/a\ninclude /c/headers/usr/src/b/Makefile\n";
        assert_eq!(fs::read_to_string(&makefile).unwrap(), changed);
    }

    #[test]
    fn a_program_is_wrapped_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cc1");
        fs::write(&file, "ELF").unwrap();
        for _ in 0..2 {
            with_own_library(&file, Path::new("/c/cc1"), Path::new("/c")).unwrap();
            let script = fs::read_to_string(&file).unwrap();
            assert!(script.contains("'/c/cc1.elf' \"$@\""), "{script}");
            assert_eq!(fs::read_to_string(folder.path().join("cc1.elf")).unwrap(), "ELF");
        }
        with_own_library(&folder.path().join("absent"), &file, Path::new("/c")).unwrap();
    }

    #[test]
    fn the_compiler_is_that_of_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("include/config");
        fs::create_dir_all(&config).unwrap();
        assert!(gcc_version(folder.path()).unwrap_err().to_string().contains("cannot be read"));
        for (text, expected) in
            [("CONFIG_X=y\nCONFIG_GCC_VERSION=140200\n", Some(14)), ("CONFIG_X=y\n", None)]
        {
            fs::write(config.join("auto.conf"), text).unwrap();
            assert_eq!(gcc_version(folder.path()).ok(), expected);
        }
    }

    #[test]
    fn headers_that_are_not_here_are_to_be_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        let message = Toolchain::find(&cache, "6.12.0-none").unwrap_err().to_string();
        assert!(message.ends_with("`candor vm fetch --headers debian:6.12.0-none`"), "{message}");
    }
}
