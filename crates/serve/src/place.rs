//! [`Place`]: where the service is reached, and the listeners there.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use candor_linux::folder::{Folder, Writers};
use candor_linux::lock::{Lock, Outcome};
use candor_linux::peer;
use candor_service::listen::{self, Exposure, Listener};

use crate::Error;

/// Only the user of the service may connect, unless somebody changes that.
const MODE: u32 = 0o600;
/// Of a folder for the socket that is not there yet.
const FOLDER_MODE: u32 = 0o755;

/// Where a service is reached: an address such as `127.0.0.1:1234`, or a socket such as `unix:/run/candor/signals.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address of this machine; port 0 for any.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("there is no path behind `unix:`".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                "this is neither an address such as 127.0.0.1:1234 nor unix:PATH".to_owned()
            }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The file of a socket. It is removed in the end, unless it is another one by then.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    /// Kept as long as the socket is used.
    _lock: Lock,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at a place: the listener, where that really is, and its file.
///
/// # Errors
/// Others would reach it, or it cannot be had.
pub(crate) fn listen(place: &Place) -> Result<(Listener, Place, Option<SocketFile>), Error> {
    match place {
        Place::Tcp(address) => {
            let listener =
                listen::tcp(*address, Exposure::Loopback).map_err(|error| match error {
                    listen::Error::NotLoopback => Error::NotLoopback(*address),
                    listen::Error::Io(error) => Error::Listen(place.clone(), error.to_string()),
                })?;
            let address = listener.local_addr().map_err(Error::Kernel)?;
            Ok((listener.into(), Place::Tcp(address), None))
        }
        Place::Unix(path) => {
            let made = make(path).map_err(|reason| Error::Listen(place.clone(), reason));
            let (listener, file) = made?;
            Ok((listener.into(), place.clone(), Some(file)))
        }
    }
}

/// Makes a Unix socket, and its folder if that is not there. One that nobody listens to any more is replaced.
///
/// # Errors
/// What is in the way, as half a sentence.
fn make(path: &Path) -> Result<(UnixListener, SocketFile), String> {
    let say = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("cannot {what}: {error}")
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    // Whoever names a folder may name it by a symbolic link.
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let folder = Folder::open_or_make(&parent, FOLDER_MODE).map_err(say("open its folder"))?;
    folder.check(Writers::Group).map_err(say("use its folder"))?;
    let name = path.file_name().ok_or("it names no file")?;
    // Also against another service that starts at this moment.
    let key = format!("signal service {}", parent.join(name).display());
    let lock = match Lock::take(&key).map_err(|error| format!("cannot lock it: {error}"))? {
        Outcome::Taken(lock) => lock,
        Outcome::Held(holder) => return Err(in_use(holder.process)),
    };
    look(path)?;
    // Nobody else gets at it before it has its mode.
    let private = folder.make_private().map_err(say("make it"))?;
    let inside = private.path().join("s");
    // What clients have to write must fit as well.
    let made = UnixAddress::from_pathname(path).and_then(|_| UnixListener::bind(&inside)).and_then(
        |listener| {
            fs::set_permissions(&inside, Permissions::from_mode(MODE))?;
            fs::rename(&inside, path)?;
            Ok(listener)
        },
    );
    if made.is_err() {
        let _ = fs::remove_file(&inside);
    }
    drop(private);
    let listener = made.map_err(say("make it"))?;
    let found = fs::symlink_metadata(path).map_err(say("read it"))?;
    let identity = (found.dev(), found.ino());
    Ok((listener, SocketFile { path: path.to_owned(), identity, _lock: lock }))
}

fn in_use(process: Option<u32>) -> String {
    match process {
        Some(process) => format!("process {process} serves there; stop it with: kill {process}"),
        None => "another process serves there; stop it".to_owned(),
    }
}

/// Whether the socket may be made: nothing is there, or a socket that nobody listens to.
fn look(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("cannot examine it: {error}")),
        Ok(found) if !found.file_type().is_socket() => {
            return Err("there is a file that is no socket; remove it".to_owned());
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(stream) => Err(in_use(peer::peer_of(&stream).ok().map(|peer| peer.process))),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(format!("cannot find out whether it is in use: {error}")),
    }
}
