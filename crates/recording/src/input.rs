//! [`Input`]: the bytes of a recording, from which its format reads what it needs.

use std::io::{self, ErrorKind, Read, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compression::{Compression, Confirmed};

/// How long the buffer is at first. It is doubled each time that a source fills it.
const FIRST_LEN: usize = 16 << 10;
/// And at last, unless more is asked for at once.
const BUFFER_LEN: usize = 128 << 10;

/// A file that can be read in any place.
pub trait Source: Read + Seek + Send {}

impl<S: Read + Seek + Send> Source for S {}

/// The bytes of one recording.
///
/// They are there in a window, which grows at its end when more is asked for, and shrinks at its start when bytes are consumed. A
/// source that is not ready ([`ErrorKind::WouldBlock`]) costs nothing: the window stays, and later it is asked again.
pub struct Input {
    source: Box<dyn Read + Send>,
    /// The file itself, if it can be read in any place.
    file: Option<Box<dyn Source>>,
    /// What is called before more is read.
    pub(crate) before_reading: Option<BeforeReading>,
    compressed: Option<Compressed>,
    /// The window is `buffer[start..end]`.
    buffer: Vec<u8>,
    /// Where the bytes begin that were consumed last.
    taken: usize,
    start: usize,
    end: usize,
    at_end: bool,
    /// How many bytes came before those in the buffer.
    before: u64,
    /// How many records were found so far, as who reads them says.
    pub(crate) records: u64,
}

type BeforeReading = Box<dyn FnMut() -> io::Result<()> + Send>;

/// What an input is compressed with.
struct Compressed {
    compression: Compression,
    /// How many bytes of the file were read.
    read_bytes: Arc<AtomicU64>,
    confirmed: Confirmed,
    /// How many records there were when that last grew.
    confirmed_records: u64,
    /// Where and why it could not be decompressed further.
    end: Option<(u64, io::Error)>,
    /// Whether its source was not ready inside a block, which cannot be begun again.
    is_stuck: bool,
}

/// Counts what is read.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(out)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Input {
    /// What `source` gives, byte after byte.
    pub fn new(source: impl Read + Send + 'static) -> Self {
        Self {
            source: Box::new(source),
            file: None,
            before_reading: None,
            compressed: None,
            buffer: Vec::new(),
            taken: 0,
            start: 0,
            end: 0,
            at_end: false,
            before: 0,
            records: 0,
        }
    }

    /// These bytes, and nothing behind them; or, unless that is known, nothing yet.
    pub(crate) fn of_head(head: &[u8], at_end: bool) -> Self {
        let not_ready: BeforeReading = Box::new(|| Err(ErrorKind::WouldBlock.into()));
        let (buffer, end, before_reading) = (head.to_vec(), head.len(), Some(not_ready));
        Self { buffer, end, at_end, before_reading, ..Self::new(io::empty()) }
    }

    /// Of a file that can be read in any place: this is the same file.
    #[must_use]
    pub fn with_file(mut self, file: impl Source + 'static) -> Self {
        self.file = Some(Box::new(file));
        self
    }

    /// The bytes read and not yet consumed.
    #[inline(always)]
    #[must_use]
    pub fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether nothing follows the window.
    #[inline]
    #[must_use]
    pub fn at_end(&self) -> bool {
        self.at_end
    }

    /// How many bytes were consumed: where the window begins.
    #[inline(always)]
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// The window, once it has so many bytes; all that are left, if there are fewer.
    ///
    /// # Errors
    /// The source cannot be read, or is not ready.
    #[inline(always)]
    pub fn fill(&mut self, len: usize) -> io::Result<&[u8]> {
        if self.end - self.start < len {
            self.fill_by_reading(len)?;
        }
        Ok(self.window())
    }

    #[cold]
    fn fill_by_reading(&mut self, len: usize) -> io::Result<()> {
        while self.end - self.start < len && self.more()? {}
        Ok(())
    }

    /// Drops bytes from the start of the window.
    #[inline(always)]
    pub fn consume(&mut self, len: usize) {
        self.taken = self.start;
        self.start += len;
    }

    /// The bytes consumed last, and those behind them, until more are read.
    #[inline(always)]
    #[must_use]
    pub fn taken(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// The file itself, for a format that is read in places all over it; `None` of a pipe, of what is compressed, and once it was taken.
    pub fn take_file(&mut self) -> Option<Box<dyn Source>> {
        self.file.take()
    }

    /// Who took the file says how far he has come in it.
    pub fn reach(&mut self, offset: u64) {
        (self.taken, self.start, self.end, self.at_end) = (0, 0, 0, true);
        self.before = offset;
    }

    /// Reads once, behind the window; false at the end. No more than one piece is waited for, as a pipe may be live.
    ///
    /// # Errors
    /// The source cannot be read, or is not ready.
    #[cold]
    pub fn more(&mut self) -> io::Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        if self.compressed.as_ref().is_some_and(|compressed| compressed.is_stuck) {
            let stuck = "it was interrupted inside a block";
            return Err(io::Error::new(ErrorKind::WouldBlock, stuck));
        }
        self.before_reading.as_mut().map_or(Ok(()), |look| look())?;
        self.make_room();
        let confirmed = |it: &Self| it.compressed.as_ref().map(|it| it.confirmed.count());
        let before = confirmed(self);
        loop {
            let read = self.source.read(&mut self.buffer[self.end..]);
            if confirmed(self) != before
                && let Some(compressed) = &mut self.compressed
            {
                compressed.confirmed_records = self.records;
            }
            match read {
                Ok(count) => {
                    self.end += count;
                    self.at_end = count == 0;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.unreadable(error).map(|()| false),
            }
        }
    }

    fn make_room(&mut self) {
        let len = self.buffer.len();
        let is_full = self.end == len && (self.start == 0 || len < BUFFER_LEN);
        self.before += self.start as u64;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        (self.taken, self.start) = (0, 0);
        if is_full {
            self.buffer.resize((2 * len).max(FIRST_LEN), 0);
        }
    }

    /// What a decompressor made of its bytes before it failed counts, so the input ends there.
    fn unreadable(&mut self, error: io::Error) -> io::Result<()> {
        let is_compressed =
            matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData);
        if let Some(compressed) = &mut self.compressed {
            compressed.is_stuck = error.kind() == ErrorKind::WouldBlock
                && compressed.compression == Compression::Zstd;
        }
        let Some(compressed) = self.compressed.as_mut().filter(|_| is_compressed) else {
            return Err(error);
        };
        compressed.end = Some((compressed.read_bytes.load(Ordering::Relaxed), error));
        self.at_end = true;
        Ok(())
    }

    /// Puts a decompressor before the source if what it gives first is compressed. `Err` tells what it is compressed with again.
    pub(crate) fn decompress(&mut self) -> io::Result<Result<(), Compression>> {
        let head = self.fill(Compression::MAGIC_LEN)?;
        let Some(compression) = Compression::by_content(head) else {
            return Ok(Ok(()));
        };
        let head = io::Cursor::new(head.to_vec());
        // What is compressed cannot be sought in.
        self.file = None;
        let source = std::mem::replace(&mut self.source, Box::new(io::empty()));
        let read_bytes = Arc::<AtomicU64>::default();
        let confirmed = Confirmed::default();
        let source = Counted(head.chain(source), read_bytes.clone());
        self.source = compression.reader(source, confirmed.clone());
        self.compressed = Some(Compressed {
            compression,
            read_bytes,
            confirmed,
            confirmed_records: 0,
            end: None,
            is_stuck: false,
        });
        (self.end, self.at_end) = (0, false);
        Ok(Compression::by_content(self.fill(Compression::MAGIC_LEN)?).map_or(Ok(()), Err))
    }

    /// What it is compressed with as a whole.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compressed.as_ref().map(|compressed| compressed.compression)
    }

    /// How many bytes of the file were consumed; of a compressed one, how many were read.
    pub(crate) fn consumed_bytes(&self) -> u64 {
        match &self.compressed {
            Some(compressed) => compressed.read_bytes.load(Ordering::Relaxed),
            None => self.offset(),
        }
    }

    /// Where and why it was decompressed no further, to be told once, and how many of the records that were read no checksum confirms.
    pub(crate) fn take_end(&mut self) -> Option<(u64, io::Error, u64)> {
        let compressed = self.compressed.as_mut()?;
        let (offset, error) = compressed.end.take()?;
        Some((offset, error, self.records - compressed.confirmed_records))
    }
}
