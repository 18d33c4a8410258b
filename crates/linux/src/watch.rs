//! Noticing that a file was saved (`inotify(7)`).
//!
//! ```text
//!  an editor that writes      open, write, close                       --> close
//!  an editor that is careful  write beside it, rename over it          --> moved
//!  a deployment               a link to the file, or to its folder, is renamed
//! ```
//!
//! So it is the folder that is watched, not the file: that one may be replaced by another. A file
//! that is being written is reported when it is closed, not before. If the name is a link, the folder
//! of what it leads to is watched as well, and where it leads is looked at anew when something
//! happens in one of the folders.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno as RawErrno;

use crate::{Errno, Error};

/// Room for a few dozen events; one with the longest name takes 272 bytes.
const BUFFER_LEN: usize = 4096;
/// What is asked for.
const WANTED: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);
/// The folder is gone, or events were lost: nothing is known.
const UNSURE: ReadFlags = ReadFlags::QUEUE_OVERFLOW
    .union(ReadFlags::DELETE_SELF)
    .union(ReadFlags::MOVE_SELF)
    .union(ReadFlags::IGNORED)
    .union(ReadFlags::UNMOUNT);
/// What happened left something to be read.
const COMPLETE: ReadFlags = ReadFlags::CLOSE_WRITE.union(ReadFlags::MOVED_TO).union(UNSURE);

/// Some files that are watched.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    files: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    /// As it was given, absolute.
    path: PathBuf,
    /// Where it leads; `None` if nowhere.
    target: Option<PathBuf>,
    /// The watches on the folders of both, as far as they are there.
    folders: [Option<i32>; 2],
}

impl Watched {
    /// Whether an event in a folder means that this file is to be read anew.
    fn is_changed_by(&self, event: &inotify::Event<'_>) -> bool {
        let paths = [Some(&self.path), self.target.as_ref()];
        self.folders.iter().zip(paths).any(|(folder, path)| {
            let Some(path) = path.filter(|_| *folder == Some(event.wd())) else { return false };
            // The event has no name if it is about the folder itself.
            let name = event.file_name().map_or(&[][..], |name| name.to_bytes());
            event.events().intersects(UNSURE)
                || (path.file_name().is_some_and(|its| its.as_encoded_bytes() == name)
                    && is_complete(path, event.events()))
        })
    }

    /// Whether it leads somewhere else by now. That a plain file came into being is not enough: it
    /// is about to be written.
    fn leads_elsewhere(&self, now: &Self) -> bool {
        now.target != self.target && (self.target.is_some() || self.path.is_symlink())
    }
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// Too many users of `inotify`.
    pub fn new() -> Result<Self, Error> {
        let inotify =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| {
                Error::new("watch", "files", errno.into()).remedy_if(
                    libc::EMFILE,
                    "raise the limit with `sysctl fs.inotify.max_user_instances=1024`",
                )
            })?;
        Ok(Self { inotify, files: Vec::new() })
    }

    /// Watches this file too, which need not be there yet; its folder must.
    ///
    /// # Errors
    /// The folder is not there or not to be read.
    pub fn add(&mut self, path: &Path) -> Result<(), Error> {
        let fail = |errno| Error::new("watch", path.display().to_string(), errno);
        let io = |error: std::io::Error| fail(Errno(error.raw_os_error().unwrap_or(libc::EINVAL)));
        let absolute = std::path::absolute(path).map_err(io)?;
        self.attach_folder(&absolute).map_err(|errno| {
            fail(errno).remedy_if(libc::ENOENT, "its folder must exist").remedy_if(
                libc::ENOSPC,
                "raise the limit with `sysctl fs.inotify.max_user_watches=65536`",
            )
        })?;
        let file = self.attach(absolute);
        self.files.push(file);
        Ok(())
    }

    /// Watches the folders of a file as they are now.
    fn attach(&self, path: PathBuf) -> Watched {
        let target = path.canonicalize().ok();
        let of_target = target.as_deref().and_then(|target| self.attach_folder(target).ok());
        Watched { folders: [self.attach_folder(&path).ok(), of_target], path, target }
    }

    /// Watches the folder of a file; the same number again if it is watched already.
    fn attach_folder(&self, path: &Path) -> Result<i32, Errno> {
        let folder = path.parent().ok_or(Errno(libc::EISDIR))?;
        Ok(inotify::add_watch(&self.inotify, folder, WANTED)?)
    }

    /// The files that were saved, replaced or removed, or led somewhere else since the last call; each once,
    /// in the order in which they were added. Does not wait.
    ///
    /// A file whose folder went away is reported each time until the folder is there again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn changes(&mut self) -> Result<Vec<PathBuf>, Error> {
        let mut is_changed = vec![false; self.files.len()];
        let mut is_any = false;
        let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(RawErrno::AGAIN) => break,
                Err(RawErrno::INTR) => continue,
                Err(errno) => return Err(Error::new("watch", "files", errno.into())),
            };
            is_any = true;
            for (file, is_changed) in self.files.iter().zip(&mut is_changed) {
                *is_changed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                    || file.is_changed_by(&event);
            }
        }
        for (index, is_changed) in is_changed.iter_mut().enumerate() {
            let Some(file) = self.files.get(index) else { continue };
            let is_away = file.folders[0].is_none();
            if !is_any && !is_away {
                continue;
            }
            let now = self.attach(file.path.clone());
            *is_changed |= is_away || now.folders[0].is_none() || file.leads_elsewhere(&now);
            if let Some(file) = self.files.get_mut(index) {
                *file = now;
            }
        }
        let changed = self.files.iter().zip(&is_changed).filter(|(_, is_changed)| **is_changed);
        Ok(changed.map(|(file, _)| file.path.clone()).collect())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Whether the file can be read now. What was just created is about to be written, unless it is a further name of
/// something else.
fn is_complete(path: &Path, events: ReadFlags) -> bool {
    events.intersects(COMPLETE)
        || fs::symlink_metadata(path)
            .is_ok_and(|metadata| metadata.is_symlink() || metadata.nlink() > 1)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use candor_time::Nanos;

    use super::*;
    use crate::poll::{self, Interest};

    /// A folder of its own for each test, removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let name = format!("candor-test-{}-{test}", std::process::id());
            let path = std::env::temp_dir().canonicalize().unwrap().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn watch(files: &[&Path]) -> Watch {
        let mut watch = Watch::new().unwrap();
        for file in files {
            watch.add(file).unwrap();
        }
        watch
    }

    #[test]
    fn saving_is_reported_whichever_way_it_is_done() {
        let folder = Folder::new("watch-saved");
        let (file, other) = (folder.0.join("rules.toml"), folder.0.join("other.toml"));
        fs::write(&file, "1").unwrap();
        let mut watch = watch(&[&file]);
        let is_readable =
            |watch: &Watch| poll::wait(watch, Interest::Read, Some(Nanos::ZERO)).unwrap();
        assert!(!is_readable(&watch));
        assert_eq!(watch.changes().unwrap(), [""; 0].map(PathBuf::from));

        let mut open = OpenOptions::new().append(true).open(&file).unwrap();
        open.write_all(b"2").unwrap();
        assert!(watch.changes().unwrap().is_empty(), "it is not closed");
        drop(open);
        assert!(is_readable(&watch));
        assert_eq!(watch.changes().unwrap(), [&*file], "written");
        assert!(!is_readable(&watch));

        fs::write(&other, "3").unwrap();
        assert!(watch.changes().unwrap().is_empty(), "another file");
        fs::rename(&other, &file).unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "renamed over it");

        // Deleted and written anew, as some editors do.
        fs::remove_file(&file).unwrap();
        fs::write(&file, "4").unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "written anew, reported once");

        fs::remove_file(&file).unwrap();
        fs::write(&other, "5").unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "it leads nowhere now");
        fs::hard_link(&other, &file).unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "linked");
    }

    #[test]
    fn a_file_that_is_just_created_is_not_reported() {
        let folder = Folder::new("watch-created");
        let file = folder.0.join("rules.toml");
        let mut watch = watch(&[&file]);
        let open = OpenOptions::new().create(true).append(true).open(&file).unwrap();
        assert!(watch.changes().unwrap().is_empty());
        drop(open);
        assert_eq!(watch.changes().unwrap(), [&*file]);
    }

    #[test]
    fn links_are_followed() {
        let folder = Folder::new("watch-links");
        let path = |name: &str| folder.0.join(name);
        for version in ["1", "2"] {
            fs::create_dir(path(version)).unwrap();
            fs::write(path(version).join("rules.toml"), version).unwrap();
        }
        // As clusters mount their configuration: the file by way of a folder that is swapped.
        symlink("1", path("now")).unwrap();
        symlink("now/rules.toml", path("rules.toml")).unwrap();
        let file = path("rules.toml");
        let mut watch = watch(&[&file]);
        fs::write(path("1").join("rules.toml"), "one").unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "what it leads to was written");
        symlink("2", path("next")).unwrap();
        assert!(watch.changes().unwrap().is_empty());
        fs::rename(path("next"), path("now")).unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "it leads somewhere else");
        fs::write(path("2").join("rules.toml"), "two").unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "and that is watched");
    }

    #[test]
    fn a_folder_may_go_and_return() {
        let folder = Folder::new("watch-folder");
        let place = folder.0.join("etc");
        let (file, still) = (place.join("rules.toml"), folder.0.join("still.toml"));
        fs::create_dir(&place).unwrap();
        fs::write(&file, "1").unwrap();
        let mut watch = watch(&[&file, &still]);
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file]);
        assert_eq!(watch.changes().unwrap(), [&*file], "still away");
        fs::create_dir(&place).unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file], "here again");
        assert!(watch.changes().unwrap().is_empty());
        fs::write(&file, "2").unwrap();
        assert_eq!(watch.changes().unwrap(), [&*file]);
        let error = watch.add(&folder.0.join("no").join("file")).unwrap_err();
        assert!(error.is(libc::ENOENT) && error.remedy().is_some(), "{error}");
    }

    #[test]
    fn lost_events_count_as_a_change_of_every_file() {
        let folder = Folder::new("watch-overflow");
        let file = folder.0.join("rules.toml");
        let mut watch = watch(&[&file]);
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        if limit > 100_000 {
            println!("not run: the queue holds {limit} events here");
            return;
        }
        // Equal events in a row count once, so two files take turns.
        let others = [folder.0.join("a"), folder.0.join("b")];
        for index in 0..=limit {
            fs::write(&others[index % 2], "").unwrap();
        }
        for other in &others {
            fs::write(other, "").unwrap();
        }
        assert_eq!(watch.changes().unwrap(), [&*file]);
    }
}
