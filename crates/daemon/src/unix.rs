//! Sockets that are files: made so that nobody else gets at them, and never two of the same name.
//!
//! A socket that nobody listens to any more is replaced. A folder in which other users could replace the socket is
//! refused. A file that somebody deletes is made again, and it is removed in the end. Whoever has a socket holds a
//! [lock](candor_linux::lock) on its path until the end, so nobody else gets it while its file is not there.

use std::fmt;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::clock;
use candor_linux::folder::{Folder, Writers};
use candor_linux::lock::{Lock, Outcome};
use candor_linux::peer::{self, own_group, own_user};
use candor_linux::process::is_alive;
use candor_linux::runtime::mode_of;
use candor_time::{Monotonic, Nanos};

use crate::place::is_trusted;

/// How often, and how long each time, to wait for another program that is about to end, or that looks whether the
/// lock is held.
const ATTEMPTS: u32 = 200;
const PAUSE: Nanos = Nanos::from_millis(5);

/// Who may write to the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Who runs the program: mode 0600.
    #[default]
    Owner,
    /// The group of the process as well: mode 0660.
    Group,
}

impl Access {
    const fn socket_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o660,
        }
    }

    const fn folder_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o750,
        }
    }
}

/// The words for a kind of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What has such a socket: `gateway`.
    pub owner: &'static str,
    /// What it is: `control socket`.
    pub socket: &'static str,
    /// The option that names another one: `--control`.
    pub option: &'static str,
}

/// Why there is no socket.
#[derive(Debug)]
pub struct Error {
    /// The words for it.
    pub kind: Kind,
    /// Where the socket was to be.
    pub path: PathBuf,
    pub reason: Reason,
}

/// What is wrong with a place for a socket.
#[derive(Debug)]
pub enum Reason {
    /// Somebody has it: this process; `None` if the kernel does not tell.
    InUse(Option<u32>),
    /// What is wrong with what is there, or with its folder.
    Taken(&'static str),
    /// The kernel refuses.
    Io {
        /// What was tried.
        attempt: &'static str,
        error: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind { owner, socket, option } = self.kind;
        let path = self.path.display();
        match &self.reason {
            Reason::InUse(process) => {
                write!(f, "{path}: a {owner} already runs with this {socket}")?;
                match process {
                    Some(process) => {
                        write!(f, " (process {process}); stop it with: kill {process}; or")?;
                    }
                    None => write!(f, ";")?,
                }
                write!(f, " name another socket with {option}")
            }
            Reason::Taken(reason) => {
                write!(f, "{path}: {reason}; name another socket with {option}")
            }
            Reason::Io { attempt, error } => {
                write!(f, "{path}: cannot {attempt}: {error}; name another socket with {option}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// A socket that was made; clients that connect wait.
#[derive(Debug)]
pub struct Bound {
    /// Whom they connect to.
    pub listener: UnixListener,
    pub file: SocketFile,
}

impl Kind {
    /// Makes the socket, and its folder.
    ///
    /// # Errors
    /// It is in use, or it cannot be made.
    pub fn bind(self, path: &Path, access: Access) -> Result<Bound, Error> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        // Whoever names a folder may name it by a symbolic link.
        let parent = parent.canonicalize().unwrap_or(parent.to_owned());
        self.bind_in(&parent, path, access)
    }

    fn bind_in(self, parent: &Path, path: &Path, access: Access) -> Result<Bound, Error> {
        let fail = |reason| Error { kind: self, path: path.to_owned(), reason };
        let folder = open(parent, access).map_err(fail)?;
        let lock = hold(parent, path).map_err(fail)?;
        let made = make(&folder, path, access);
        let (listener, identity) = made.map_err(|error| {
            let attempt = "create the socket";
            fail(Reason::Io { attempt, error })
        })?;
        let (parent, path) = (parent.to_owned(), path.to_owned());
        let is_hidden = Arc::default();
        let file =
            SocketFile { kind: self, access, parent, path, identity, is_hidden, _lock: lock };
        Ok(Bound { listener, file })
    }

    /// Makes the socket in the first of these places where that is possible. A folder that is a
    /// symbolic link is not used.
    ///
    /// # Errors
    /// As [`Kind::bind`], of the last place; if somebody has one of them, that.
    pub fn bind_first(self, places: &[PathBuf], access: Access) -> Result<Bound, Error> {
        let mut refused = None;
        for path in places {
            match self.bind_in(path.parent().unwrap_or(Path::new("/")), path, access) {
                Err(error) if matches!(error.reason, Reason::InUse(_)) => return Err(error),
                Err(error) => refused = Some(error),
                Ok(bound) => return Ok(bound),
            }
        }
        Err(refused.unwrap_or_else(|| Error {
            kind: self,
            path: PathBuf::new(),
            reason: Reason::Taken("no folder for a socket was found"),
        }))
    }
}

/// Opens the folder for a socket, made if it is not there.
fn open(parent: &Path, access: Access) -> Result<Folder, Reason> {
    let fail = |attempt| move |error| Reason::Io { attempt, error };
    let folder = Folder::open_or_make(parent, mode_of(parent, access.folder_mode()));
    let folder = folder.map_err(fail("open its folder"))?;
    folder.check(Writers::Group).map_err(fail("open its folder"))?;
    if access == Access::Group {
        let_group_in(&folder).map_err(fail("give the group access to its folder"))?;
    }
    Ok(folder)
}

/// Lets the group of this process find the socket. A folder of another group has to be open to all for
/// that; its files are not.
fn let_group_in(folder: &Folder) -> io::Result<()> {
    let found = folder.metadata()?;
    let needed = if found.gid() == own_group() { 0o050 } else { 0o055 };
    let mode = found.mode() & 0o7777;
    if found.uid() != own_user() || mode & needed == needed {
        return Ok(());
    }
    folder.set_mode(mode | needed)
}

/// The right to this socket, for as long as it is kept, if what is there may be replaced. One lock for sockets of all
/// kinds: only one program can have the path.
fn hold(parent: &Path, path: &Path) -> Result<Lock, Reason> {
    let fail = |error| Reason::Io { attempt: "lock it", error };
    let key = format!("socket {}", parent.join(path.file_name().unwrap_or_default()).display());
    let mut has_it = None;
    for _ in 0..ATTEMPTS {
        let outcome = Lock::take(&key).map_err(|error| fail(io::Error::other(error)))?;
        // Whoever listens has it.
        look(path)?;
        match outcome {
            Outcome::Taken(lock) => return Ok(lock),
            Outcome::Held(holder) => has_it = holder.process,
        }
        let then = clock::now::<Monotonic>() + PAUSE;
        clock::sleep_until(then).map_err(|error| fail(io::Error::other(error)))?;
    }
    Err(Reason::InUse(has_it))
}

/// Whether what is at `path` may be replaced.
fn look(path: &Path) -> Result<(), Reason> {
    let taken = Reason::Taken;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let attempt = "examine the file with this name";
            return Err(Reason::Io { attempt, error });
        }
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(taken("a file that is not a socket has this name"));
        }
        Ok(metadata) if !is_trusted(&metadata, own_user()) => {
            return Err(taken("a socket of another user has this name"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(stream) => {
            let process = peer::peer_of(&stream).ok().map(|peer| peer.process);
            // Another process may have got the socket of one that ended.
            let process = process.filter(|&process| is_alive(process));
            Err(Reason::InUse(process))
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(taken("a socket of another user has this name"))
        }
        Err(error) => {
            let attempt = "find out whether the socket is in use";
            Err(Reason::Io { attempt, error })
        }
    }
}

/// Makes the socket where nobody else gets at it before it has its mode, and then moves it. Gives what tells its file
/// from others, too: read before it is moved, since it may be replaced afterwards.
fn make(folder: &Folder, path: &Path, access: Access) -> io::Result<(UnixListener, Identity)> {
    let private = folder.make_private()?;
    let inside = private.path().join("s");
    let made = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, Permissions::from_mode(access.socket_mode()))?;
        let identity = identity_of(&fs::symlink_metadata(&inside)?);
        fs::rename(&inside, path)?;
        Ok((listener, identity))
    });
    if made.is_err() {
        let _ = fs::remove_file(&inside);
    }
    drop(private);
    // What clients have to write must fit as well.
    match (made, std::os::unix::net::SocketAddr::from_pathname(path)) {
        (Ok(_), Err(error)) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
        (made, _) => made,
    }
}

/// The device and the number of a file.
type Identity = (u64, u64);

fn identity_of(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The file of a socket, removed in the end unless it is another one by then. Nobody else can have the socket before.
#[derive(Debug)]
pub struct SocketFile {
    kind: Kind,
    access: Access,
    parent: PathBuf,
    path: PathBuf,
    identity: Identity,
    /// Another file has its name.
    is_hidden: Arc<AtomicBool>,
    _lock: Lock,
}

/// What people are to hear of the file of a socket while that is served.
#[derive(Debug)]
pub struct SocketWatch {
    kind: Kind,
    path: PathBuf,
    is_hidden: Arc<AtomicBool>,
    was_hidden: bool,
}

impl SocketWatch {
    /// That another file has got the name of the socket since this was asked last.
    pub fn news(&mut self) -> Option<String> {
        let is_hidden = self.is_hidden.load(Ordering::Relaxed);
        let was_hidden = std::mem::replace(&mut self.was_hidden, is_hidden);
        (is_hidden && !was_hidden).then(|| {
            format!(
                "{}: another file has the name of this {}, so nobody can connect to it; delete that file, and it is \
                 made again",
                self.path.display(),
                self.kind.socket
            )
        })
    }
}

impl SocketFile {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What tells what happens to it.
    #[must_use]
    pub fn watch(&self) -> SocketWatch {
        let (path, is_hidden) = (self.path.clone(), Arc::clone(&self.is_hidden));
        SocketWatch { kind: self.kind, path, is_hidden, was_hidden: false }
    }

    /// Makes the socket again if somebody has deleted its file; clients that are connected stay so. `None` if it is
    /// there, another file has its name, or it cannot be made.
    pub fn renew(&mut self) -> Option<UnixListener> {
        let found = fs::symlink_metadata(&self.path);
        let is_other = |found: &Metadata| identity_of(found) != self.identity;
        self.is_hidden.store(found.as_ref().is_ok_and(is_other), Ordering::Relaxed);
        if found.err()?.kind() != ErrorKind::NotFound {
            return None;
        }
        let folder = open(&self.parent, self.access).ok()?;
        let (listener, identity) = make(&folder, &self.path, self.access).ok()?;
        self.identity = identity;
        Some(listener)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let metadata = fs::symlink_metadata(&self.path);
        if metadata.is_ok_and(|metadata| identity_of(&metadata) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
