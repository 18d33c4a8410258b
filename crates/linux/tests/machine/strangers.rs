//! What another user of this machine can do to us: processes that were root and became `nobody`.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use candor_linux::folder::{Folder, Writers};
use candor_linux::lock::{Lock, Outcome};

use crate::harness::stranger::{NOBODY, Shared, Stranger, as_stranger};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 3] = [
    ("a_lock_cannot_be_held_by_a_stranger", Need::OtherUser, out_of_reach),
    ("a_strangers_folder_is_no_place_for_locks", Need::OtherUser, strange_folders),
    ("a_folder_knows_whose_it_is", Need::OtherUser, whose),
];

fn take(places: &[PathBuf], key: &str) -> Outcome {
    Lock::take_in(places, key).unwrap()
}

fn out_of_reach() {
    let shared = Shared::new();
    let places = [shared.path("candor")];
    let Outcome::Taken(lock) = take(&places, "key") else { panic!("nobody else") };
    let file = lock.path().to_owned();
    let nothing_to_hold = as_stranger(|| {
        for path in [&file, &places[0]] {
            assert!(File::open(path).is_err(), "{path:?} can be opened, and so be locked");
        }
        fs::remove_file(&file).unwrap_err();
        fs::rename(&places[0], places[0].with_extension("away")).unwrap_err();
        // Only a place of one's own is left.
        assert!(Lock::take_in(&places, "key").is_err());
    });
    assert!(nothing_to_hold);
    drop(lock);
    assert!(matches!(take(&places, "key"), Outcome::Taken(_)));
}

/// The name of the lock file for `key`.
fn name_of(key: &str) -> String {
    let place = std::env::temp_dir().join(format!("candor-name-{}", std::process::id()));
    let Outcome::Taken(lock) = take(std::slice::from_ref(&place), key) else { panic!() };
    let name = lock.path().file_name().unwrap().to_str().unwrap().to_owned();
    fs::remove_dir_all(place).unwrap();
    name
}

/// A folder that everybody can write to, with a lock file in it that is locked; and one further down.
fn lay_traps(folder: &Path, name: &str) -> Vec<File> {
    let inner = folder.join("service");
    let make = |path: &Path| {
        DirBuilder::new().create(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    };
    let lock = |path: PathBuf| {
        fs::write(&path, "1\nkey\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let file = File::open(path).unwrap();
        file.lock().unwrap();
        file
    };
    make(folder);
    make(&inner);
    vec![lock(folder.join(name)), lock(inner.join(name))]
}

fn strange_folders() {
    let shared = Shared::new();
    let name = name_of("key");
    let (trap, link, own) = (shared.path("candor-0"), shared.path("link"), shared.path("own"));
    let stranger = Stranger::that(|| {
        symlink(&own, &link).unwrap();
        lay_traps(&trap, &name)
    });
    let reason = |place: &PathBuf| {
        Lock::take_in(std::slice::from_ref(place), "key").unwrap_err().to_string()
    };
    let whose = format!("it belongs to another user ({NOBODY})");
    assert!(reason(&trap).contains(&whose), "{}", reason(&trap));
    assert!(reason(&trap).contains("XDG_RUNTIME_DIR"), "{}", reason(&trap));
    let places = [trap.clone(), link.clone(), own.clone()];
    {
        let Outcome::Taken(lock) = take(&places, "key") else { panic!("held by a stranger") };
        assert_eq!(lock.path().parent(), Some(&*own));
        assert!(reason(&link).contains("symbolic link"), "{}", reason(&link));
        let Outcome::Held(holder) = take(&places, "key") else { panic!("taken twice") };
        assert_eq!(holder.process, Some(std::process::id()));
    }
    drop(stranger);

    // A folder of a service belongs to the service; if others can write to it, it tells nothing.
    let services = shared.path("services");
    DirBuilder::new().mode(0o755).create(&services).unwrap();
    let trap = services.join("open");
    DirBuilder::new().create(&trap).unwrap();
    fs::set_permissions(&trap, Permissions::from_mode(0o777)).unwrap();
    let stranger = Stranger::that(|| lay_traps(&trap.join("x"), &name));
    let place = std::slice::from_ref(&services);
    assert!(matches!(take(place, "key"), Outcome::Taken(_)));
    drop(stranger);
    let stranger = Stranger::that(|| {
        fs::write(trap.join(&name), "").unwrap();
        let file = File::open(trap.join(&name)).unwrap();
        file.lock().unwrap();
        file
    });
    assert!(matches!(take(place, "key"), Outcome::Taken(_)));
    drop(stranger);
}

fn whose() {
    let shared = Shared::new();
    let (mine, other) = (shared.path("mine"), shared.path("other"));
    Folder::open_or_make(&mine, 0o755).unwrap().check(Writers::Owner).unwrap();
    let made = as_stranger(|| {
        let folder = Folder::open_or_make(&other, 0o700).unwrap();
        folder.check(Writers::Owner).unwrap();
        // What is root's is trusted by everybody.
        Folder::open(&mine).unwrap().check(Writers::Owner).unwrap();
    });
    assert!(made);
    for writers in [Writers::Owner, Writers::Group] {
        let error = Folder::open_or_make(&other, 0o700).unwrap().check(writers).unwrap_err();
        assert_eq!(error.to_string(), format!("it belongs to another user ({NOBODY})"));
    }
    // A file that a stranger made before is not used.
    fs::set_permissions(&mine, Permissions::from_mode(0o1777)).unwrap();
    assert!(as_stranger(|| fs::write(mine.join("file"), "").unwrap()));
    let folder = Folder::open(&mine).unwrap();
    assert!(
        folder
            .open_own_file("file")
            .unwrap_err()
            .to_string()
            .contains("does not belong to this user")
    );
}
