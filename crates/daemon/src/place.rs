//! Where the sockets of programs are, and how a client finds them.
//!
//! The socket of a program is called after what it does: `drive.sock`. It is in the first of the
//! [run-time folders](candor_linux::runtime) that is there or can be made, and can be written. A service has
//! `RuntimeDirectory=candor` or `candor/…`, so that clients find it.
//!
//! A client looks into the same folders, and into those within `/run/candor`. Folders and sockets of others
//! than root and the user are passed over. Root also looks into those of all users.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use candor_linux::runtime::Folders;

/// How sockets end.
const ENDING: &str = "sock";
/// How many sockets of a folder are looked at, and how many folders of services. Other files do not count, of
/// which the locks of programs are some.
const MAX_LOOKED_AT: usize = 1_000;

/// Folders for sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Folders);

impl From<Folders> for Places {
    fn from(folders: Folders) -> Self {
        Self(folders)
    }
}

impl Places {
    /// Those of this process, by its environment.
    #[must_use]
    pub fn of_process() -> Self {
        Self(Folders::of_process())
    }

    /// Where a program called `name` may have its socket, the best place first.
    #[must_use]
    pub fn sockets(&self, name: &str) -> Vec<PathBuf> {
        let file = format!("{name}.{ENDING}");
        self.0.sockets().iter().map(|folder| folder.join(&file)).collect()
    }

    /// The folders, as people read them, and which others are visible: `what` are their programs.
    #[must_use]
    pub fn shown(&self, what: &str) -> String {
        let folders: Vec<_> =
            self.0.sockets().iter().map(|folder| folder.display().to_string()).collect();
        let folders = folders.join(", ");
        match self.0.user() {
            0 => format!("{folders}; and those of all users"),
            _ => format!("{folders}; {what} of other users are not visible"),
        }
    }

    /// The programs that are running, by name. Sockets that nobody listens to are left out.
    #[must_use]
    pub fn search(&self) -> Found {
        let mut found = Found::default();
        let own = self.0.user();
        let within = found.entries(self.0.system(), Path::is_dir);
        let folders = self.0.sockets().into_iter().chain(within);
        let trusted = folders.filter(|folder| self.trusts(folder)).map(|folder| (folder, own));
        for (folder, user) in trusted.chain(self.0.of_users()) {
            let sockets = found.entries(&folder, is_called_socket);
            found.running.extend(sockets.into_iter().filter_map(|path| look(path, user)));
        }
        found.running.sort();
        found.running.dedup();
        found
    }

    fn trusts(&self, folder: &Path) -> bool {
        fs::symlink_metadata(folder)
            .is_ok_and(|folder| folder.is_dir() && is_trusted(&folder, self.0.user()))
    }
}

fn is_called_socket(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

/// The program with this socket, if it is one of `user` or root.
fn look(path: PathBuf, user: u32) -> Option<Running> {
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

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The programs that are running.
    pub running: Vec<Running>,
    /// Folders with more sockets, or folders of services, than are looked at: there may be more programs in them.
    pub crowded: Vec<PathBuf>,
}

impl Found {
    /// The entries of a folder that are `meant`, as many as are looked at.
    fn entries(&mut self, folder: &Path, meant: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut entries = entries.map(|entry| entry.path()).filter(|path| meant(path));
        let taken = entries.by_ref().take(MAX_LOOKED_AT).collect();
        if entries.next().is_some() && !self.crowded.iter().any(|crowded| crowded == folder) {
            self.crowded.push(folder.to_owned());
        }
        taken
    }

    /// What is to be said of folders in which not all was looked at: a sentence with the remedy.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let folders: Vec<_> =
            self.crowded.iter().map(|folder| folder.display().to_string()).collect();
        (!folders.is_empty()).then(|| {
            format!(
                "not all of {} was searched, since {MAX_LOOKED_AT} sockets or folders of services are looked at; \
                 delete those that nobody uses",
                folders.join(", ")
            )
        })
    }
}

/// A program that is running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    pub name: String,
    /// Its socket.
    pub path: PathBuf,
    /// Whether this user may use it.
    pub is_permitted: bool,
}
