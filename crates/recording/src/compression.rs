//! [`Compression`]: gzip and zstd around recordings of every format.
//!
//! What is read needs no bound on the ratio, since nothing is collected: the memory of gzip is constant, and a zstd frame that asks
//! for a window of more than 128 MiB is refused. Of a zstd frame that is cut the last window is lost. Members of gzip (RFC 1952, 2.2) and frames of zstd (RFC 8878, 3.1) may follow
//! one another, those of gzip with zeros between and behind them. Their checksums come last, behind what they are of: CRC-32 and length of gzip (RFC 1952, 2.3.1), the low half of XXH64
//! of zstd (RFC 8878, 3.1.1), if it has one. So what is read counts as [`Confirmed`] only at the end of its member or frame.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

#[cfg(any(test, feature = "create"))]
mod write;
#[cfg(any(test, feature = "create"))]
pub(crate) use write::Compressor;

/// How much of a zstd frame is decoded at once, unless a block has more.
const DECODED_LEN: usize = 128 << 10;

/// How a recording is compressed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Gzip, Self::Zstd];
    /// How many bytes tell what something is compressed with.
    pub(crate) const MAGIC_LEN: usize = 4;

    /// The name in sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The ending of file names, without the dot.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zstd => "zst",
        }
    }

    /// What a file is compressed with that begins like this.
    #[must_use]
    pub fn by_content(head: &[u8]) -> Option<Self> {
        match *head {
            [0x1F, 0x8B, 8, ..] => Some(Self::Gzip),
            // A frame, or one to be skipped.
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The name of a file without the ending of a compression, and which one it had.
    pub(crate) fn of_file_name(file_name: &str) -> (&str, Option<Self>) {
        if let Some((name, ending)) = file_name.rsplit_once('.') {
            let is_it = |it: &Self| it.ending().eq_ignore_ascii_case(ending);
            if let Some(found) = Self::ALL.into_iter().find(is_it) {
                return (name, Some(found));
            }
        }
        (file_name, None)
    }

    /// What is compressed in `source`. An error of the kind `UnexpectedEof` says that it is cut, one of the kind `InvalidData`
    /// that it is damaged; all others are those of `source`.
    pub(crate) fn reader(
        self,
        source: impl Read + Send + 'static,
        confirmed: Confirmed,
    ) -> Box<dyn Read + Send> {
        match self {
            Self::Gzip => Box::new(GzipReader {
                member: Some(GzDecoder::new(BufReader::new(source))),
                is_over: false,
                confirmed,
            }),
            Self::Zstd => {
                Box::new(ZstdReader { source, decoder: Box::default(), frame: None, confirmed })
            }
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many members or frames ended as they should: with them all is confirmed that was read until then.
#[derive(Clone, Default)]
pub(crate) struct Confirmed(Arc<AtomicU64>);

impl Confirmed {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// All that was to be read was, but its checksum is another one.
#[derive(Debug)]
struct WrongChecksum;

impl WrongChecksum {
    fn error() -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Self)
    }
}

impl fmt::Display for WrongChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its checksum is wrong")
    }
}
impl std::error::Error for WrongChecksum {}

/// Whether all was read that a checksum is of, which is wrong.
pub(crate) fn is_wrong_checksum(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<WrongChecksum>())
}

/// What is read with gzip, member by member.
struct GzipReader<R> {
    /// `None` after the last one.
    member: Option<GzDecoder<BufReader<R>>>,
    is_over: bool,
    confirmed: Confirmed,
}

impl<R: Read> GzipReader<R> {
    /// The member is over, and its checksum held: goes on to the next one, if there is one. Zeros behind a member fill the last block of
    /// a tape or flash memory, and are passed over as `gzip -d` does.
    fn next_member(&mut self) -> io::Result<()> {
        let Some(member) = &mut self.member else { return Ok(()) };
        let is_end = loop {
            let buffered = member.get_mut().fill_buf()?;
            let (zeros, len) =
                (buffered.iter().take_while(|&&byte| byte == 0).count(), buffered.len());
            member.get_mut().consume(zeros);
            if zeros < len || len == 0 {
                break len == 0;
            }
        };
        if is_end {
            self.is_over = true;
        } else if let Some(member) = self.member.take() {
            self.member = Some(GzDecoder::new(member.into_inner()));
        }
        self.confirmed.add();
        Ok(())
    }

    fn fail(&mut self, error: io::Error) -> io::Error {
        // What only was not ready is read on.
        let is_pause =
            matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock);
        self.is_over |= !is_pause;
        match error.kind() {
            // The library has no other mark for it.
            io::ErrorKind::InvalidInput if error.to_string().contains("matching checksum") => {
                WrongChecksum::error()
            }
            // A wrong header; the inflater has the other kind.
            io::ErrorKind::InvalidInput => io::Error::new(io::ErrorKind::InvalidData, error),
            _ => error,
        }
    }
}

impl<R: Read> Read for GzipReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = self.member.as_mut().filter(|_| !self.is_over && !out.is_empty()) {
            match member.read(out) {
                Ok(0) => self.next_member()?,
                Ok(count) => return Ok(count),
                Err(error) => return Err(self.fail(error)),
            }
        }
        Ok(0)
    }
}

/// What is read with zstd, frame by frame.
struct ZstdReader<R> {
    source: R,
    decoder: Box<FrameDecoder>,
    frame: Option<ZstdFrame>,
    confirmed: Confirmed,
}

/// The frame that is read.
struct ZstdFrame {
    /// How many bytes it says that it has, if it does.
    claimed_len: Option<u64>,
    /// How many were read.
    len: u64,
}

impl<R: Read> ZstdReader<R> {
    /// Begins the next frame, if there is one.
    fn begin(&mut self) -> io::Result<Option<ZstdFrame>> {
        loop {
            // Behind the last frame nothing follows; an end inside the header is a cut.
            let mut head = [0; Compression::MAGIC_LEN + 1];
            let len = read_as_far_as_it_goes(&mut self.source, &mut head)?;
            if len == 0 {
                return Ok(None);
            }
            let mut source = Watched::new(head[..len].chain(&mut self.source));
            let begun = self.decoder.reset(&mut source);
            let length = match begun {
                Ok(()) => {
                    // The descriptor says whether there is a length (RFC 8878, 3.1.1.1.1).
                    let has_len = head[Compression::MAGIC_LEN] & 0xE0 != 0;
                    let claimed_len = has_len.then(|| self.decoder.content_size());
                    return Ok(Some(ZstdFrame { claimed_len, len: 0 }));
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => u64::from(length),
                Err(error) => return Err(source.why(&error)),
            };
            let skipped = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
            if skipped < length {
                return Err(cut());
            }
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.frame.is_none() {
                self.frame = self.begin()?;
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let mut source = Watched::new(&mut self.source);
                let strategy = ruzstd::decoding::BlockDecodingStrategy::UptoBytes(DECODED_LEN);
                if let Err(error) = self.decoder.decode_blocks(&mut source, strategy) {
                    return Err(source.why(&error));
                }
            }
            let count = self.decoder.read(out)?;
            frame.len += count as u64;
            if count > 0 {
                return Ok(count);
            }
            let checksums =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if let (Some(written), Some(found)) = checksums
                && written != found
            {
                return Err(WrongChecksum::error());
            }
            if frame.claimed_len.is_some_and(|claimed| claimed != frame.len) {
                return Err(damaged("a frame is longer or shorter than it says"));
            }
            self.frame = None;
            self.confirmed.add();
        }
    }
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A source that remembers why it could not be read.
struct Watched<R> {
    source: R,
    has_ended: bool,
    error: Option<io::Error>,
}

impl<R: Read> Watched<R> {
    fn new(source: R) -> Self {
        Self { source, has_ended: false, error: None }
    }

    /// Why a decoder failed that read from it and says `error`.
    fn why(self, error: &FrameDecoderError) -> io::Error {
        match self.error {
            Some(error) => error,
            None if self.has_ended => cut(),
            None => damaged(&error.to_string()),
        }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.source.read(out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.error = Some(error);
                Err(kind.into())
            }
            Ok(count) => {
                self.has_ended |= count == 0 && !out.is_empty();
                Ok(count)
            }
        }
    }
}

/// As many bytes as there are, up to the length of `out`.
fn read_as_far_as_it_goes(source: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < out.len() {
        match source.read(&mut out[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compressed(bytes: &[u8], compression: Compression) -> Vec<u8> {
        let mut out = Compressor::new(Vec::new(), Some(compression));
        for piece in bytes.chunks(65_000) {
            out.write_all(piece).unwrap();
            out.flush().unwrap();
        }
        let (out, can_be_replaced) = out.finish().unwrap();
        assert!(!can_be_replaced);
        out
    }

    /// Gives at most 700 bytes at a time.
    struct Slow(io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = out.len().min(700);
            self.0.read(&mut out[..len])
        }
    }

    fn read(bytes: Vec<u8>, compression: Compression) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut read = Vec::new();
        let mut reader = compression.reader(Slow(io::Cursor::new(bytes)), Confirmed::default());
        let error = reader.read_to_end(&mut read).err();
        (read, error.map(|error| error.kind()))
    }

    fn text() -> Vec<u8> {
        (0..200_000_u32)
            .flat_map(|number| (number ^ (number / 7)).to_string().into_bytes())
            .collect()
    }

    #[test]
    fn what_is_compressed_is_read() {
        let text = text();
        for compression in Compression::ALL {
            let once = compressed(&text, compression);
            assert!(once.len() < text.len() * 2 / 3, "{compression}: {}", once.len());
            assert_eq!(Compression::by_content(&once), Some(compression));
            let mut twice = once.clone();
            if compression == Compression::Zstd {
                twice.extend_from_slice(&[0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3]);
            }
            twice.extend_from_slice(&once);
            for (bytes, expected) in [(once, text.clone()), (twice, [&text[..], &text].concat())] {
                let (found, error) = read(bytes, compression);
                assert!(found == expected && error.is_none(), "{compression}: {error:?}");
            }
            assert_eq!(read(compressed(b"", compression), compression), (vec![], None));
        }
    }

    /// Of gzip only: `zstd -d` refuses them.
    #[test]
    fn zeros_behind_a_gzip_member_are_padding() {
        let member = compressed(b"text", Compression::Gzip);
        for zeros in [1, 511, 100_000] {
            let padded = [&member[..], &vec![0; zeros]].concat();
            for (bytes, expected) in
                [(padded.clone(), "text"), ([&padded[..], &member, &[0]].concat(), "texttext")]
            {
                assert_eq!(read(bytes, Compression::Gzip), (expected.into(), None), "{zeros}");
            }
            assert!(
                read(
                    [&compressed(b"text", Compression::Zstd)[..], &[0; 9]].concat(),
                    Compression::Zstd
                )
                .1
                .is_some()
            );
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_told_apart() {
        let text = text();
        for compression in Compression::ALL {
            let whole = compressed(&text, compression);
            for len in [5, 20, whole.len() / 2, whole.len() - 1] {
                let (found, error) = read(whole[..len].to_vec(), compression);
                assert_eq!(error, Some(io::ErrorKind::UnexpectedEof), "{compression}: {len}");
                assert!(text.starts_with(&found));
            }
            let mut damaged = whole.clone();
            let middle = damaged.len() / 2;
            damaged[middle..middle + 64].fill(0xFF);
            let (found, error) = read(damaged, compression);
            assert_eq!(error, Some(io::ErrorKind::InvalidData), "{compression}");
            assert!(found != text || compression == Compression::Zstd);
            for behind in [&b"no member"[..], b"\0\0no member"] {
                let behind = [&whole[..], behind].concat();
                assert!(read(behind, compression).1.is_some(), "{compression}");
            }
        }
    }

    #[test]
    fn a_window_that_is_too_large_is_refused() {
        // A frame header (RFC 8878, 3.1.1.1) without a content size whose window is 2^41 bytes.
        let bytes = vec![0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xF8, 0x01, 0x00, 0x00];
        assert_eq!(read(bytes, Compression::Zstd), (vec![], Some(io::ErrorKind::InvalidData)));
    }

    #[test]
    fn names_of_files_say_how_they_are_compressed() {
        for (name, expected) in [
            ("a.log.gz", ("a.log", Some(Compression::Gzip))),
            ("a.blf.ZST", ("a.blf", Some(Compression::Zstd))),
            ("a.log", ("a.log", None)),
            ("gz", ("gz", None)),
        ] {
            assert_eq!(Compression::of_file_name(name), expected);
        }
    }
}
