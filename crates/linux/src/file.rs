//! Opening and reading files.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use candor_time::Nanos;

use crate::poll::{self, Interest};

/// Opens a file for reading, and does not wait for a writer if it is a pipe (`O_NONBLOCK`, fifo(7)). Reading what is no file does
/// not wait either.
///
/// # Errors
/// It is not there, or may not be read.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Opens a pipe or a terminal, which is open already, anew for writing that does not wait (`O_NONBLOCK`). The flag is not set for
/// everybody else who has it open.
///
/// # Errors
/// It is something else, may not be opened, or there is no `/proc`.
pub fn reopen_at_once(file: &File) -> io::Result<File> {
    if !file.metadata()?.file_type().is_fifo() && !file.is_terminal() {
        return Err(ErrorKind::Unsupported.into());
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().write(true).custom_flags(flags).open(path)
}

/// How long is waited for what a pipe brings between two looks.
const LOOK: Nanos = Nanos::from_millis(50);

/// A file whose reading does not outlast what it is for: while nothing comes, `look` is called again and again, and its error ends the
/// waiting. A regular file is read as it is.
pub struct Interruptible<L> {
    file: File,
    is_regular: bool,
    look: L,
}

impl<L: FnMut() -> io::Result<()>> Interruptible<L> {
    /// Reads this file; a pipe is best opened by [`open_at_once`].
    pub fn new(file: File, look: L) -> Self {
        let is_regular = file.metadata().is_ok_and(|it| it.is_file());
        Self { file, is_regular, look }
    }
}

impl<L: FnMut() -> io::Result<()>> Read for Interruptible<L> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_regular {
                return self.file.read(out);
            }
            (self.look)()?;
            let is_ready = poll::wait_or_signal(&self.file, Interest::Read, Some(LOOK));
            if !is_ready.map_err(io::Error::other)? {
                continue;
            }
            match self.file.read(out) {
                // Somebody else was faster.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_full_pipe_that_was_opened_anew_is_not_waited_for() {
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut anew = reopen_at_once(&file).unwrap();
        let error = loop {
            if let Err(error) = anew.write(&[0; 4_096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(reader);
        assert_eq!(anew.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        let program = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(reopen_at_once(&program).is_err());
    }

    #[test]
    fn a_pipe_that_is_silent_is_read_until_a_look_ends_it() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"abc").unwrap();
        let mut looks = 0;
        let look = || {
            looks += 1;
            if looks > 3 { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut read = Interruptible::new(file, look);
        let mut bytes = [0; 8];
        assert_eq!(read.read(&mut bytes).unwrap(), 3);
        assert_eq!(read.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(read);
        assert_eq!(looks, 4);
    }
}
