//! Where control sockets are, and how a client finds them.
//!
//! The socket of a gateway is called after its rule file: `drive.sock` for `drive.rules.toml`. It is in the
//! first of these folders that is there or can be made, and can be written:
//!
//! | folder | for |
//! |---|---|
//! | `$RUNTIME_DIRECTORY` | a service: systemd makes this folder. `RuntimeDirectory=candor` or `candor/…`, so that clients find it |
//! | `/run/candor` | root |
//! | `$XDG_RUNTIME_DIR/candor` | a user who is logged in |
//! | `candor-UID` in the folder for temporary files | anybody else |
//!
//! A client looks into the same folders, and into those within `/run/candor`. Folders and sockets of others
//! than root and the user are passed over. Root also looks into those of all users.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use candor_linux::folder;
use candor_linux::peer::own_user;

/// Where root and services have their sockets.
const SYSTEM: &str = "/run/candor";
/// How sockets end.
const ENDING: &str = "sock";
/// How many entries of a folder are looked at.
const MAX_ENTRIES: usize = 1_000;
/// How much of the name of a rule file becomes the name of the gateway: the path of a socket is
/// short.
const MAX_NAME: usize = 40;

/// What a gateway with these rules is called: `drive` for `drive.rules.toml`.
#[must_use]
pub fn name_of(file: &Path) -> String {
    let name =
        file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = [".rules.toml", ".toml", ".rules", ".cangw", ".sh"]
        .into_iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.trim_start_matches('.').chars().take(MAX_NAME).map(plain).collect();
    if name.is_empty() { "gateway".into() } else { name }
}

/// Folders for sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// In this order.
    serving: Vec<PathBuf>,
    /// Where there may be folders of services within.
    system: PathBuf,
    /// Where users have theirs if they are not logged in.
    temporary: PathBuf,
    user: u32,
}

impl Places {
    /// Those of this process, by its environment.
    #[must_use]
    pub fn of_process() -> Self {
        let temporary = env::temp_dir();
        Self::new(|name| env::var_os(name), Path::new(SYSTEM), &temporary, own_user())
    }

    fn new(
        variable: impl Fn(&str) -> Option<OsString>,
        system: &Path,
        temporary: &Path,
        user: u32,
    ) -> Self {
        let absolute = |path: &PathBuf| path.is_absolute();
        // systemd lists several folders with colons; the first one will do.
        let of_service = variable("RUNTIME_DIRECTORY")
            .and_then(|list| Some(PathBuf::from(list.to_str()?.split(':').next()?)))
            .filter(absolute);
        let of_user = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(absolute);
        let mut serving: Vec<_> = of_service.into_iter().collect();
        serving.push(system.to_owned());
        serving.extend(of_user.map(|path| path.join("candor")));
        serving.push(temporary.join(format!("candor-{user}")));
        Self { serving, system: system.to_owned(), temporary: temporary.to_owned(), user }
    }

    /// Where a gateway called `name` may have its socket, the best place first.
    #[must_use]
    pub fn sockets(&self, name: &str) -> Vec<PathBuf> {
        self.serving.iter().map(|folder| folder.join(format!("{name}.{ENDING}"))).collect()
    }

    /// The folders, as people read them, and what is in none of them.
    #[must_use]
    pub fn shown(&self) -> String {
        let folders: Vec<_> =
            self.serving.iter().map(|folder| folder.display().to_string()).collect();
        let others = match self.user {
            0 => "and those of all users",
            _ => "gateways of other users are not visible",
        };
        format!("{}; {others}", folders.join(", "))
    }

    /// The gateways that are running, by name. Sockets that nobody listens to are left out.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        let mut folders = self.serving.clone();
        let within = entries(&self.system).filter(|path| path.is_dir());
        folders.extend(within);
        let mut running: Vec<_> = folders
            .iter()
            .filter(|folder| self.trusts(folder))
            .flat_map(|folder| entries(folder))
            .filter_map(|path| look(path, self.user))
            .collect();
        if self.user == 0 {
            let users = folder::of_users(Path::new("/run/user"), &self.temporary);
            let looked = |(folder, user)| entries(folder).filter_map(move |path| look(path, user));
            running.extend(users.iter().map(|(folder, user)| (&**folder, *user)).flat_map(looked));
        }
        running.sort();
        running.dedup();
        running
    }

    fn trusts(&self, folder: &Path) -> bool {
        fs::symlink_metadata(folder)
            .is_ok_and(|folder| folder.is_dir() && is_trusted(&folder, self.user))
    }
}

/// The gateway with this socket, if it is one of `user` or root.
fn look(path: PathBuf, user: u32) -> Option<Running> {
    if path.extension()? != ENDING {
        return None;
    }
    let metadata = fs::symlink_metadata(&path).ok()?;
    if !metadata.file_type().is_socket() || !is_trusted(&metadata, user) {
        return None;
    }
    let is_permitted = match UnixStream::connect(&path) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => false,
        Err(_) => return None,
    };
    let name = path.file_stem()?.to_str()?.to_owned();
    Some(Running { name, path, is_permitted })
}

/// Whether nobody but `user` and root can have put it there. To root, what any user made for
/// root's use is no more than that user's.
pub(crate) fn is_trusted(metadata: &Metadata, user: u32) -> bool {
    metadata.uid() == user || metadata.uid() == 0
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// A gateway that is running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// What it is called.
    pub name: String,
    /// Its socket.
    pub path: PathBuf,
    /// Whether this user may use it.
    pub is_permitted: bool,
}

/// Which gateway is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The only one.
    Any,
    /// The one with the rules of this file; the name of the gateway alone will do.
    File(&'a Path),
    /// The one with this socket, or with this name if there is no slash in it.
    Control(&'a Path),
}

impl Places {
    /// The socket of the gateway that is meant.
    ///
    /// # Errors
    /// It is not running, or it is not clear which is meant: a sentence with the remedy.
    pub fn find(&self, wanted: Wanted<'_>) -> Result<PathBuf, String> {
        let (name, start) = match wanted {
            Wanted::Control(path) if path.as_os_str().as_encoded_bytes().contains(&b'/') => {
                return Ok(path.to_owned());
            }
            Wanted::Control(path) if path.exists() => return Ok(path.to_owned()),
            Wanted::Control(name) => {
                let name = name.to_string_lossy();
                (Some(name.strip_suffix(".sock").unwrap_or(&name).to_owned()), None)
            }
            Wanted::File(file) => (Some(name_of(file)), Some(file)),
            Wanted::Any => (None, None),
        };
        let running = self.running();
        let start = match start {
            Some(file) if file.is_file() => format!("candor route run {}", file.display()),
            _ => "candor route run FILE".into(),
        };
        let meant: Vec<_> = running
            .iter()
            .filter(|running| name.as_ref().is_none_or(|name| running.name == *name))
            .collect();
        match (meant.as_slice(), name) {
            ([one], _) if !one.is_permitted => Err(format!(
                "the gateway `{}` belongs to another user ({}); try sudo",
                one.name,
                one.path.display()
            )),
            ([one], _) => Ok(one.path.clone()),
            ([], Some(name)) if running.is_empty() => Err(format!(
                "no gateway `{name}` is running, and no other gateway (searched {}); start it with: {start}",
                self.shown()
            )),
            ([], Some(name)) => Err(format!(
                "no gateway `{name}` is running; start it with: {start}; or choose a running one \
                 with --control: {}",
                list(&running.iter().collect::<Vec<_>>())
            )),
            ([], None) => Err(format!(
                "no gateway is running (searched {}); start one with: {start}",
                self.shown()
            )),
            (several, _) => Err(format!(
                "{} gateways are running: {}; choose one with --control",
                several.len(),
                list(several)
            )),
        }
    }
}

/// `drive (/run/candor/drive.sock), rack (/run/candor/rack.sock)`
fn list(running: &[&Running]) -> String {
    let shown: Vec<_> = running
        .iter()
        .map(|running| format!("{} ({})", running.name, running.path.display()))
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn gateways_are_called_after_their_rules() {
        let long = "x".repeat(300);
        for (file, name) in [
            ("/etc/candor/drive.rules.toml", "drive"),
            ("drive.toml", "drive"),
            ("drive.v2.rules.toml", "drive.v2"),
            ("drive", "drive"),
            ("rack.sh", "rack"),
            ("two words/ä b.toml", "__b"),
            (".hidden.toml", "hidden"),
            (".toml", "gateway"),
            ("..", "gateway"),
            ("", "gateway"),
            (&long, &long[..40]),
        ] {
            assert_eq!(name_of(Path::new(file)), name, "{file}");
        }
    }

    #[test]
    fn places_are_found_by_the_environment() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, &[&str]); 3] = [
            (&[], &["/run/candor/a.sock", "/t/candor-7/a.sock"]),
            (
                &[("XDG_RUNTIME_DIR", "/run/user/7")],
                &["/run/candor/a.sock", "/run/user/7/candor/a.sock", "/t/candor-7/a.sock"],
            ),
            (
                &[("RUNTIME_DIRECTORY", "/run/x:/run/y"), ("XDG_RUNTIME_DIR", "relative")],
                &["/run/x/a.sock", "/run/candor/a.sock", "/t/candor-7/a.sock"],
            ),
        ];
        for (variables, expected) in cases {
            let variable = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            };
            let places = Places::new(variable, Path::new(SYSTEM), Path::new("/t"), 7);
            let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(places.sockets("a"), expected);
        }
    }

    #[test]
    fn the_gateway_that_is_meant_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (system, temporary) = (folder.path().join("run"), folder.path().join("tmp"));
        let places = Places::new(|_| None, &system, &temporary, own_user());
        let error = |wanted| places.find(wanted).unwrap_err();
        assert!(error(Wanted::Any).starts_with("no gateway is running (searched "));
        assert!(error(Wanted::Any).ends_with("start one with: candor route run FILE"));
        let rules = folder.path().join("drive.rules.toml");
        fs::write(&rules, "").unwrap();
        let start = format!("start it with: candor route run {}", rules.display());
        assert!(error(Wanted::File(&rules)).ends_with(&start), "{}", error(Wanted::File(&rules)));

        let within = system.join("rack");
        fs::create_dir_all(&within).unwrap();
        let drive = places.sockets("drive").remove(0);
        let listening = UnixListener::bind(&drive).unwrap();
        drop(UnixListener::bind(system.join("stale.sock")).unwrap());
        fs::write(system.join("file.sock"), "").unwrap();
        for wanted in [Wanted::Any, Wanted::File(&rules), Wanted::File(Path::new("drive"))] {
            assert_eq!(places.find(wanted).as_ref(), Ok(&drive), "{wanted:?}");
        }
        assert_eq!(places.find(Wanted::Control(Path::new("drive"))).as_ref(), Ok(&drive));
        assert_eq!(places.find(Wanted::Control(Path::new("drive.sock"))).as_ref(), Ok(&drive));
        let named = Path::new("./any.sock");
        assert_eq!(places.find(Wanted::Control(named)), Ok(named.to_owned()));
        let other = error(Wanted::File(Path::new("rack.toml")));
        assert!(other.starts_with("no gateway `rack` is running; start it with"), "{other}");
        assert!(other.contains("choose a running one with --control: drive ("), "{other}");

        let _rack = UnixListener::bind(within.join("rack.sock")).unwrap();
        let several = error(Wanted::Any);
        assert!(several.starts_with("2 gateways are running: drive ("), "{several}");
        assert!(several.contains("rack (") && several.ends_with("--control"), "{several}");
        assert_eq!(places.find(Wanted::File(&rules)).as_ref(), Ok(&drive));
        drop(listening);
        assert_eq!(places.find(Wanted::Any), Ok(within.join("rack.sock")));

        // Root sees what users run, where it belongs to them.
        let user = if own_user() == 0 { 1_234 } else { own_user() };
        let of_user = temporary.join(format!("candor-{user}"));
        fs::create_dir_all(&of_user).unwrap();
        let _users = UnixListener::bind(of_user.join("users.sock")).unwrap();
        let root = Places { user: 0, ..places.clone() };
        let sees = || root.running().iter().any(|running| running.name == "users");
        for path in [of_user.join("users.sock"), of_user] {
            assert_eq!(sees(), user == own_user());
            chown(&path, Some(user), None).unwrap();
        }
        assert!(sees());

        // Nobody else's folders.
        let stranger = Places { user: own_user() + 1, ..places.clone() };
        assert_eq!(stranger.running().len(), usize::from(own_user() == 0));
    }
}
