//! What another user of this machine can do to the control socket of root's gateway.

#[path = "../../linux/tests/harness/mod.rs"]
mod harness;

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use candor_gateway::control::{Access, BindError, Listening, Server};
use candor_linux::process::fork;

use harness::stranger::{NOBODY, Shared, Stranger, as_stranger};
use harness::{Check, Need};

const CHECKS: [Check; 5] = [
    ("a_locked_folder_holds_nobody_up", Need::OtherUser, locked_folder),
    ("names_cannot_be_taken_before", Need::OtherUser, names_taken_before),
    ("a_strangers_folder_is_not_used", Need::OtherUser, strange_folder),
    ("a_strangers_socket_is_not_mistaken_for_a_gateway", Need::OtherUser, strange_socket),
    ("only_who_may_gets_in", Need::OtherUser, access),
];

fn main() -> ExitCode {
    harness::main(&[("control", &CHECKS)], &[])
}

fn bind(path: &Path) -> Result<Listening, BindError> {
    Server::bind(path, Access::Owner)
}

#[track_caller]
fn refused(path: &Path) -> String {
    bind(path).expect_err("it is refused").to_string()
}

/// `/tmp` is such a folder: everybody can open it, and so lock it.
fn locked_folder() {
    let shared = Shared::new();
    let stranger = Stranger::that(|| {
        let folder = File::open(shared.path("")).unwrap();
        folder.lock().unwrap();
        folder
    });
    let path = shared.path("drive.sock");
    let places = [path.clone(), shared.path("other.sock")];
    let listening = Server::bind_first(&places, Access::Owner).unwrap();
    assert_eq!(listening.path(), path);
    drop(stranger);
}

/// The number of a process is easily guessed, so nothing may be named after it alone.
fn names_taken_before() {
    let shared = Shared::new();
    let victim = shared.path("victim");
    DirBuilder::new().mode(0o700).create(&victim).unwrap();
    for name in ["s", "drive.sock"] {
        fs::write(victim.join(name), "precious").unwrap();
    }
    // The check has a process of its own, whose number is known here.
    let own = std::process::id();
    let stranger = Stranger::that(|| {
        for number in own..own + 100 {
            let _ = symlink(&victim, shared.path(&format!(".{number}")));
        }
    });
    for _ in 0..3 {
        let path = shared.path("drive.sock");
        // Each attempt in a process of its own, with the next number.
        let child = fork(|| {
            let listening = bind(&path).unwrap();
            assert_eq!(listening.path(), path);
            0
        });
        assert_eq!(child.unwrap().wait().unwrap().status, Ok(0));
    }
    drop(stranger);
    for name in ["s", "drive.sock"] {
        assert_eq!(fs::read_to_string(victim.join(name)).unwrap(), "precious");
    }
}

fn strange_folder() {
    let shared = Shared::new();
    let (strange, open) = (shared.path("candor-0"), shared.path("open"));
    let (link, own) = (shared.path("link"), shared.path("own"));
    let stranger = Stranger::that(|| {
        DirBuilder::new().create(&strange).unwrap();
        fs::set_permissions(&strange, Permissions::from_mode(0o777)).unwrap();
        symlink(&own, &link).unwrap();
    });
    DirBuilder::new().create(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let socket = |folder: &PathBuf| folder.join("drive.sock");
    let message = refused(&socket(&strange));
    assert!(message.contains(&format!("it belongs to another user ({NOBODY})")), "{message}");
    assert!(message.contains("name another socket with --control"), "{message}");
    let message = refused(&socket(&open));
    assert!(message.contains("other users can write to it (mode 0777)"), "{message}");
    let places = [&strange, &open, &link, &own].map(socket);
    let listening = Server::bind_first(&places, Access::Owner).unwrap();
    assert_eq!(listening.path(), socket(&own));
    drop(stranger);
}

fn strange_socket() {
    let shared = Shared::new();
    let path = shared.path("drive.sock");
    let stranger = Stranger::that(|| {
        let listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        listener
    });
    let message = refused(&path);
    assert!(message.contains("a socket of another user has this name"), "{message}");
    assert!(!message.contains("kill"), "{message}");
    drop(stranger);
}

fn access() {
    let shared = Shared::new();
    let folder = shared.path("candor");
    let path = folder.join("drive.sock");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let listening = bind(&path).unwrap();
    assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
    assert!(as_stranger(|| assert!(UnixStream::connect(&path).is_err())));
    drop(listening);
    // The group may now, which finds the socket in a folder that was made without it.
    let listening = Server::bind(&path, Access::Group).unwrap();
    assert_eq!((mode(&path), mode(&folder)), (0o660, 0o750));
    assert!(as_stranger(|| assert!(UnixStream::connect(&path).is_err())));
    drop(listening);
}
