//! Debian's apt with a configuration, lists and a cache of our own: nothing of the machine's is
//! changed, nothing is installed, and no rights are needed. The machine's own settings of how to
//! reach the network (`apt.conf`: proxies, certificates, timeouts) apply; settings that allow what is
//! not signed do not. Where root fetches, apt's sandbox user does the work, if it can get at the folder.
//!
//! ```text
//!  <cache>/apt/  apt.conf            what differs from the machine's settings, given with -c
//!                candor.sources      the suites, and the keys they must be signed with
//!                lists/  archives/   what apt keeps
//!                status              no package is installed
//! ```

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use candor_linux::peer::own_user;

use super::sources::Mirror;
use crate::cache::APT;
use crate::{Cache, Error};

/// The suites that have kernels, without security updates.
const SUITES: &str = "bookworm bookworm-backports trixie trixie-backports";
/// Those with security updates.
const SECURITY_SUITES: &str = "bookworm-security trixie-security";
/// Where Debian's package debian-archive-keyring puts its keys.
const KEYRINGS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];
/// What to do where apt cannot help.
pub(crate) const MANUAL: &str = "or do it manually: unpack Debian's linux-image-VERSION-amd64 \
                                 (from \
                                 7.1 on linux-binary-, linux-modules- and linux-base-VERSION-amd64) \
                                 into a folder DIR with `dpkg-deb -x`, or with `ar x` and `tar xf`, \
                                 and use --kernel with the vmlinuz in DIR, and --modules DIR";

/// Is told how far a fetch is.
pub trait Progress: Sync {
    /// Something begins: what is fetched, and how many bytes it has (0: unknown).
    fn step(&self, what: &str, bytes: u64);
    /// How much of it is done.
    fn percent(&self, percent: f64);
    /// Something people want to know.
    fn note(&self, text: &str);
    /// Whether to go on.
    fn proceed(&self) -> bool;
}

#[derive(Clone, Debug, Default)]
pub struct Fetching {
    /// The address of a mirror of Debian, instead of the machine's.
    pub mirror: Option<String>,
    /// The file with Debian's keys, instead of the machine's.
    pub keyring: Option<PathBuf>,
    /// Whether a newer kernel of a series is fetched although there is one in the cache.
    pub wants_newest: bool,
}

/// A package that can be had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Bytes to download.
    pub(crate) size: u64,
    /// Such as `trixie-backports`.
    pub(crate) suite: String,
}

/// Apt with a configuration of our own.
#[derive(Debug)]
pub(crate) struct Apt {
    root: PathBuf,
    runs_as: RunsAs,
}

/// As whom apt talks to the network and unpacks what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunsAs {
    /// As the user that the machine's settings name, `_apt`: root hands over its rights.
    Sandboxed,
    /// As this user, who has no rights to hand over, or only reads lists.
    Itself,
    /// As root, since the user of the sandbox could not get at the files.
    Root,
}

impl RunsAs {
    fn new(user: u32, root: &Path, keyring: &Path) -> Self {
        let may = |path: &Path, bits: u32| {
            fs::metadata(path).is_ok_and(|found| found.mode() & bits == bits)
        };
        let is_reached = |path: &Path| path.ancestors().skip(1).all(|folder| may(folder, 0o001));
        match user {
            0 if is_reached(root)
                && may(root, 0o001)
                && is_reached(keyring)
                && may(keyring, 0o004) =>
            {
                Self::Sandboxed
            }
            0 => Self::Root,
            _ => Self::Itself,
        }
    }
}

impl Apt {
    /// The one whose lists were fetched before, if there is one.
    pub(crate) fn fetched_before(cache: &Cache) -> Option<Self> {
        let root = cache.folder().join(APT);
        let runs_as = RunsAs::Itself;
        root.join("updated").is_file().then_some(Self { root, runs_as })
    }

    /// Writes the configuration.
    pub(crate) fn prepare(cache: &Cache, options: &Fetching) -> Result<Self, Error> {
        for program in ["apt-get", "apt-cache", "dpkg-deb"] {
            require(program)?;
        }
        let keyring = match &options.keyring {
            Some(path) => path.canonicalize().map_err(|error| Error::read(path, error))?,
            None => {
                KEYRINGS.iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| {
                    Error::Other(format!(
                        "Debian's keys, which verify its packages, were not found; install the \
                         package debian-archive-keyring, or name a key file with --keyring; \
                         {MANUAL}"
                    ))
                })?
            }
        };
        let mirror = match &options.mirror {
            Some(address) => Mirror::at(address),
            None => Mirror::of_machine(Path::new("/etc/apt")).ok_or_else(|| {
                Error::Other(format!(
                    "the apt sources of this machine (/etc/apt/sources.list, sources.list.d) name \
                     no Debian archive; name a mirror with --mirror ADDRESS; {MANUAL}"
                ))
            })?,
        };
        let root = cache.subfolder(APT)?;
        for folder in ["lists/partial", "archives/partial", "empty"] {
            cache.subfolder(&format!("apt/{folder}"))?;
        }
        let root_text = plain(&root)?;
        let keyring_text = plain(&keyring)?;
        let paragraph = |address: &str, suites: &str| {
            format!(
                "Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: main\n\
                 Architectures: amd64\nTargets: Packages\nSigned-By: {keyring_text}\n\
                 Allow-Insecure: no\nAllow-Weak: no\nAllow-Downgrade-To-Insecure: no\n"
            )
        };
        let sources = format!(
            "{}\n{}",
            paragraph(&mirror.archive, SUITES),
            paragraph(&mirror.security, SECURITY_SUITES)
        );
        write(&root.join("candor.sources"), &sources)?;
        let runs_as = RunsAs::new(own_user(), &root, &keyring);
        write(&root.join("apt.conf"), &configuration(root_text, runs_as))?;
        write(&root.join("status"), "")?;
        Ok(Self { root, runs_as })
    }

    fn run(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").arg("-c").arg(self.root.join("apt.conf"));
        command
    }

    /// Fetches the lists of packages.
    pub(crate) fn update(&self, progress: &dyn Progress) -> Result<(), Error> {
        if self.runs_as == RunsAs::Root {
            progress.note(&format!(
                "apt runs as root without its sandbox, because its user may not enter {} or read \
                 the keys; name a folder that others may enter with CANDOR_CACHE",
                self.root.display()
            ));
        }
        progress.step("Debian's package lists", 0);
        let update = ["-qq", "-o", "APT::Status-Fd=1", "update"];
        let run = run(self.run("apt-get").args(update), progress)?;
        let stamp = self.root.join("updated");
        let complaints: Vec<_> =
            run.stderr.lines().filter(|line| line.starts_with(['E', 'W'])).collect();
        if run.is_success && complaints.is_empty() {
            return write(&stamp, "");
        }
        // A suite that is gone, or a mirror without security updates, does not stop the others.
        let lists = self.root.join("lists");
        let has_lists = fs::read_dir(&lists).is_ok_and(|entries| {
            entries
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().ends_with("_Packages"))
        });
        if !has_lists || run.stderr.contains("No space left") {
            return Err(explain("Debian's package lists", &run.stderr));
        }
        write(&stamp, "")?;
        let first = complaints.first().copied().unwrap_or("E: apt-get update failed");
        progress.note(&format!(
            "not all Debian package lists could be downloaded; older lists are used where they \
             exist: {}",
            first.get(3..).unwrap_or(first)
        ));
        Ok(())
    }

    /// The packages whose names begin with `linux-image-`, `linux-binary-`, `linux-modules-` or
    /// `linux-base-` and that `wanted` wants, in the newest of their versions.
    pub(crate) fn packages(&self, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Package>, Error> {
        let names = output(self.run("apt-cache").args(["pkgnames", "linux-"]))?;
        let names: Vec<_> = names.lines().filter(|name| wanted(name)).collect();
        self.named(&names)
    }

    /// The packages of these names that there are, in the newest of their versions.
    pub(super) fn named(&self, names: &[impl AsRef<OsStr>]) -> Result<Vec<Package>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let show = ["--no-all-versions", "show"];
        let mut packages = paragraphs(&output(self.run("apt-cache").args(show).args(names))?);
        let suites = output(self.run("apt-cache").arg("madison").args(names))?;
        for package in &mut packages {
            package.suite = suite_of(&suites, package).unwrap_or_default();
        }
        packages.sort_by(|left, right| left.name.cmp(&right.name));
        packages.dedup_by(|next, before| next.name == before.name);
        Ok(packages)
    }

    /// The names of the packages that a package cannot do without; none if there is no such package.
    pub(super) fn depends(&self, package: &str) -> Vec<String> {
        let depends = ["--no-recommends", "--no-suggests", "depends", package];
        // Unlike `show`, it fails for a package that there is not.
        let text = output(self.run("apt-cache").args(depends)).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect()
    }

    /// Fetches a package into `folder`; apt checks it against the signed lists.
    pub(crate) fn download(
        &self,
        package: &Package,
        folder: &Path,
        progress: &dyn Progress,
    ) -> Result<PathBuf, Error> {
        progress.step(&package.name, package.size);
        let place = self.download_place()?;
        let mut command = self.run("apt-get");
        command
            .args(["-qq", "-o", "APT::Status-Fd=1", "download"])
            .arg(format!("{}={}", package.name, package.version))
            .current_dir(place.path());
        let run = run(&mut command, progress)?;
        let what = format!("the package {}", package.name);
        if !run.is_success {
            return Err(explain(&what, &run.stderr));
        }
        let is_package = |path: &PathBuf| path.extension() == Some(OsStr::new("deb"));
        let entries =
            fs::read_dir(place.path()).map_err(|error| Error::read(place.path(), error))?;
        let found = entries.flatten().map(|entry| entry.path()).find(is_package);
        let found = found.ok_or_else(|| explain(&what, &run.stderr))?;
        let path = folder.join(found.file_name().unwrap_or_default());
        fs::rename(&found, &path).map_err(|error| Error::write(&path, error))?;
        let size = path.metadata().map_err(|error| Error::read(&path, error))?.len();
        if size != package.size {
            return Err(broken(&what, &format!("it has {size} bytes instead of {}", package.size)));
        }
        Ok(path)
    }

    /// A folder for one package, of the user that apt hands over to: it is who has `lists/partial`
    /// after an update.
    fn download_place(&self) -> Result<tempfile::TempDir, Error> {
        let mode = Permissions::from_mode(0o700);
        let place = tempfile::Builder::new().permissions(mode).tempdir_in(&self.root);
        let place = place.map_err(|error| Error::write(&self.root, error))?;
        if self.runs_as == RunsAs::Sandboxed {
            let partial = self.root.join("lists/partial");
            let found = fs::metadata(&partial).map_err(|error| Error::read(&partial, error))?;
            chown(place.path(), Some(found.uid()), None)
                .map_err(|error| Error::write(place.path(), error))?;
        }
        Ok(place)
    }
}

/// What a machine may have set to `true`, for apt as a whole or for one of its programs, and must not be.
const REFUSED: [&str; 5] = [
    "APT::Get::AllowUnauthenticated",
    "Acquire::AllowInsecureRepositories",
    "Acquire::AllowWeakRepositories",
    "Acquire::AllowDowngradeToInsecureRepositories",
    "Acquire::AllowUnsizedPackages",
];

/// What differs from the machine's settings.
fn configuration(root: &str, runs_as: RunsAs) -> String {
    let sandbox = match runs_as {
        RunsAs::Sandboxed => "",
        RunsAs::Itself | RunsAs::Root => "APT::Sandbox::User \"root\";\n",
    };
    let refused: String = REFUSED
        .iter()
        .map(|key| format!("{key} \"false\";\nBinary::apt-get::{key} \"false\";\n"))
        .collect();
    format!(
        "// Written again for each download of kernels.\n\
         Dir::Etc::sourcelist \"{root}/candor.sources\";\n\
         Dir::Etc::sourceparts \"{root}/empty\";\n\
         Dir::Etc::preferences \"{root}/empty/preferences\";\n\
         Dir::Etc::preferencesparts \"{root}/empty\";\n\
         Dir::State \"{root}\";\n\
         Dir::State::lists \"{root}/lists\";\n\
         Dir::State::status \"{root}/status\";\n\
         Dir::Cache \"{root}\";\n\
         Dir::Cache::archives \"{root}/archives\";\n\
         Dir::Cache::pkgcache \"{root}/pkgcache.bin\";\n\
         Dir::Cache::srcpkgcache \"\";\n\
         APT::Architecture \"amd64\";\n\
         #clear APT::Architectures;\n\
         APT::Architectures {{ \"amd64\"; }};\n\
         APT::Default-Release \"\";\n\
         {sandbox}\
         // Nothing that is not signed, whatever the machine allows.\n\
         {refused}\
         // What the machine does after its own updates is not to be done.\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear DPkg::Pre-Invoke;\n\
         #clear DPkg::Post-Invoke;\n\
         Acquire::GzipIndexes \"false\";\n\
         Acquire::Languages \"none\";\n"
    )
}

/// A path as it may stand in apt's files.
fn plain(path: &Path) -> Result<&str, Error> {
    path.to_str().filter(|text| !text.contains(|c: char| c == '"' || c.is_whitespace())).ok_or_else(
        || {
            Error::Other(format!(
                "apt cannot work in {}: the name contains spaces or special characters; name \
                 another folder with CANDOR_CACHE",
                path.display()
            ))
        },
    )
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let beside = path.with_extension("new");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| Error::write(path, error))
}

/// Fails if a program is not on the path.
pub(super) fn require(program: &str) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        return Ok(());
    }
    Err(no_program(program))
}

fn no_program(program: &str) -> Error {
    Error::NoProgram {
        program: program.into(),
        purpose: "downloads and verifies Debian's packages",
        remedy: format!("on Debian and Ubuntu, install the packages apt and dpkg; {MANUAL}"),
    }
}

pub(super) struct ProgramOutput {
    pub(super) is_success: bool,
    pub(super) stderr: String,
}

/// Runs a program, tells how far it is, as apt says, and ends it when nobody wants it any more.
pub(super) fn run(command: &mut Command, progress: &dyn Progress) -> Result<ProgramOutput, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|_| no_program(&name))?;
    let (stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let stderr = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stderr) = &mut stderr {
            // What cannot be read is not said.
            let _ = stderr.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        let Ok(line) = line else { break };
        if let Some(percent) = percent(&line) {
            progress.percent(percent);
        }
        if !progress.proceed() {
            // It may have ended by itself.
            let _ = child.kill();
            break;
        }
    }
    let status =
        child.wait().map_err(|error| Error::Other(format!("lost contact with {name}: {error}")))?;
    let stderr = stderr.join().unwrap_or_default();
    if !progress.proceed() {
        return Err(Error::Interrupted);
    }
    Ok(ProgramOutput { is_success: status.success(), stderr })
}

/// What a program prints.
fn output(command: &mut Command) -> Result<String, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|_| no_program(&name))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Other(format!(
            "{name} cannot read Debian's package lists: {}; download them again with `candor vm \
             kernels --update`",
            complaint(&stderr)
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How far apt is: `dlstatus:1:27.4:Retrieving file 1 of 1`.
fn percent(line: &str) -> Option<f64> {
    line.strip_prefix("dlstatus:")?.split(':').nth(1)?.parse().ok()
}

/// The packages that `apt-cache show` lists.
fn paragraphs(text: &str) -> Vec<Package> {
    let package = |paragraph: &str| {
        let value = |name: &str| {
            paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        // Without a file there is nothing to fetch.
        value("Filename")?;
        Some(Package {
            name: value("Package")?.to_owned(),
            version: value("Version")?.to_owned(),
            size: value("Size")?.parse().ok()?,
            suite: String::new(),
        })
    };
    text.split("\n\n").filter_map(package).collect()
}

/// The suite of a package in what `apt-cache madison` lists:
/// ` name | version | ADDRESS SUITE/main amd64 Packages`.
fn suite_of(madison: &str, package: &Package) -> Option<String> {
    madison.lines().find_map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let is_it = cells.next()? == package.name && cells.next()? == package.version;
        let place = cells.next().filter(|_| is_it)?;
        let suite = place.split(' ').nth(1)?.split('/').next()?;
        Some(suite.to_owned())
    })
}

/// The first thing that a program complains about, an error before anything else.
pub(crate) fn complaint(stderr: &str) -> String {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines().find(|line| line.starts_with("E:")).or_else(|| lines().next());
    let line = line.unwrap_or("it gives no reason");
    let line = line.trim_start_matches("E: ").trim_start_matches("W: ");
    line.replace(|c: char| c.is_control(), "?")
}

/// Why apt could not fetch `what`, from what it wrote to standard error.
fn explain(what: &str, stderr: &str) -> Error {
    let said = complaint(stderr);
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| stderr.contains(phrase));
    if says(&["No space left on device", "enough free space"]) {
        return Error::Other(format!(
            "no space for {what}: {said}; free space there, or name another folder with \
             CANDOR_CACHE"
        ));
    }
    if says(&["Hash Sum mismatch", "unexpected size", "Hashes of", "File has unexpected"]) {
        return broken(what, &said);
    }
    if says(&["NO_PUBKEY", "EXPKEYSIG", "is not signed", "BADSIG", "couldn't be verified"]) {
        return Error::Other(format!(
            "{what}: the signature is not from Debian: {said}; update the package \
             debian-archive-keyring, or name another mirror with --mirror ADDRESS"
        ));
    }
    let network = [
        "Could not resolve",
        "Temporary failure",
        "Could not connect",
        "Connection failed",
        "Connection refused",
        "Unable to connect",
        "timed out",
        "unreachable",
        "Cannot initiate",
    ];
    if says(&network) {
        return Error::Other(format!(
            "{what} cannot be downloaded: the mirror cannot be reached: {said}; check the network \
             and apt's proxy settings, or name another mirror with --mirror ADDRESS; {MANUAL}"
        ));
    }
    if says(&["404", "does not have a Release file", "not found"]) {
        return Error::Other(format!(
            "the mirror does not have {what}: {said}; name another one with --mirror ADDRESS, or \
             download the lists again with `candor vm kernels --update`"
        ));
    }
    Error::Other(format!(
        "{what} cannot be downloaded: {said}; name another mirror with --mirror ADDRESS; {MANUAL}"
    ))
}

fn broken(what: &str, said: &str) -> Error {
    Error::Other(format!(
        "{what} is damaged: {said}; try again, or name another mirror with --mirror ADDRESS"
    ))
}

#[cfg(test)]
mod tests;
