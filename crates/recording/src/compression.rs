//! [`Compression`]: gzip and zstd around recordings of every format.
//!
//! What is read needs no bound on the ratio, since nothing is collected: the memory of gzip is constant, and a zstd frame that asks
//! for a window of more than 128 MiB is refused. Of a zstd frame that is cut the last window is lost. Members of gzip (RFC 1952, 2.2) and frames of zstd (RFC 8878, 3.1) may follow
//! one another.

use std::fmt;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
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
    pub(crate) fn reader(self, source: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        match self {
            Self::Gzip => Box::new(GzipReader(MultiGzDecoder::new(source))),
            Self::Zstd => {
                Box::new(ZstdReader { source, decoder: Box::default(), is_in_frame: false })
            }
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is read with gzip.
struct GzipReader<R>(MultiGzDecoder<R>);

impl<R: Read> Read for GzipReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(|error| match error.kind() {
            // A wrong header or checksum; the inflater has the other kind.
            io::ErrorKind::InvalidInput => io::Error::new(io::ErrorKind::InvalidData, error),
            _ => error,
        })
    }
}

/// What is read with zstd, frame by frame.
struct ZstdReader<R> {
    source: R,
    decoder: Box<FrameDecoder>,
    is_in_frame: bool,
}

impl<R: Read> ZstdReader<R> {
    /// Begins the next frame and says whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            // Behind the last frame nothing follows; an end inside the header is a cut.
            let mut head = [0; Compression::MAGIC_LEN];
            let len = read_as_far_as_it_goes(&mut self.source, &mut head)?;
            if len == 0 {
                return Ok(false);
            }
            let mut source = Watched::new(head[..len].chain(&mut self.source));
            let begun = self.decoder.reset(&mut source);
            let length = match begun {
                Ok(()) => return Ok(true),
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
            if !self.is_in_frame {
                if !self.begin()? {
                    return Ok(0);
                }
                self.is_in_frame = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let mut source = Watched::new(&mut self.source);
                let strategy = ruzstd::decoding::BlockDecodingStrategy::UptoBytes(DECODED_LEN);
                if let Err(error) = self.decoder.decode_blocks(&mut source, strategy) {
                    return Err(source.why(&error));
                }
            }
            let count = self.decoder.read(out)?;
            if count > 0 {
                return Ok(count);
            }
            let checksums =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if let (Some(written), Some(found)) = checksums
                && written != found
            {
                return Err(damaged("the checksum of a frame is wrong"));
            }
            self.is_in_frame = false;
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
        let mut reader = compression.reader(Slow(io::Cursor::new(bytes)));
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
            let behind = [&whole[..], b"no member"].concat();
            assert!(read(behind, compression).1.is_some(), "{compression}");
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
