//! [`Follow`]: when the file of a service is to be read anew.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use candor_linux::watch::Watch;
use candor_linux::{Error, clock};
use candor_time::{Instant, Monotonic, Nanos};

use crate::supervise::Next;

/// A file that is gone for so long is not being replaced: it is read, which says what is wrong.
const REPLACE_TIMEOUT: Nanos = Nanos::from_secs(2);

/// Whether the file is where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    There,
    GoneSince(Instant<Monotonic>),
    /// Gone, and it was read.
    Told,
}

/// The file of a service and those that it names, followed.
#[derive(Debug)]
pub struct Follow {
    watch: Watch,
    path: PathBuf,
    state: State,
}

impl Follow {
    /// Follows a file.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let mut watch = Watch::new()?;
        watch.add(path)?;
        Ok(Self { watch, path: path.to_owned(), state: State::There })
    }

    /// Follows another one, too, which the first one names.
    ///
    /// # Errors
    /// It cannot be watched: it is read again with the next change of another one.
    pub fn also(&mut self, path: &Path) -> Result<(), Error> {
        self.watch.add(path)
    }

    /// Whether the files are to be read now. To be asked when there is something to read, and with every tick: a folder that
    /// went away and returned, and a file that is gone, are noticed by looking.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look(&mut self) -> Result<Next, Error> {
        let is_changed = !self.watch.changes()?.is_empty();
        if !is_changed && self.state == State::There {
            return Ok(Next::Wait);
        }
        let (state, next) = match (self.path.exists(), self.state) {
            (true, _) => (State::There, Next::Reload),
            (false, State::There) => (State::GoneSince(clock::now()), Next::Wait),
            (false, State::GoneSince(since)) if clock::now() - since >= REPLACE_TIMEOUT => {
                (State::Told, Next::Reload)
            }
            (false, state) => (state, Next::Wait),
        };
        self.state = state;
        Ok(next)
    }
}

impl AsFd for Follow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_read_when_it_changes_and_when_it_stays_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        fs::write(&path, "").unwrap();
        let mut follow = Follow::new(&path).unwrap();
        assert_eq!(follow.look(), Ok(Next::Wait));
        fs::write(&path, "x").unwrap();
        assert_eq!(follow.look(), Ok(Next::Reload));
        assert_eq!(follow.look(), Ok(Next::Wait));
        // Away for a moment.
        fs::rename(&path, folder.path().join("b.toml")).unwrap();
        assert_eq!(follow.look(), Ok(Next::Wait));
        fs::rename(folder.path().join("b.toml"), &path).unwrap();
        assert_eq!(follow.look(), Ok(Next::Reload));
        // For good: it is read once, and again when it is there.
        fs::remove_file(&path).unwrap();
        let start = clock::now::<Monotonic>();
        while follow.look() == Ok(Next::Wait) {
            let _ = clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(10));
        }
        assert!(clock::now() - start >= REPLACE_TIMEOUT);
        assert_eq!(follow.state, State::Told);
        assert_eq!(follow.look(), Ok(Next::Wait));
        fs::write(&path, "x").unwrap();
        assert_eq!(follow.look(), Ok(Next::Reload));
    }
}
