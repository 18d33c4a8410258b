//! Compressed recordings, written.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress};

use super::Compression;

/// A zstd frame of what is written begins after so many bytes of the recording.
const FRAME_LEN: usize = 1 << 20;

/// Writes a recording to `W`, compressed or as it is. Flushing does not shorten what is compressed together, so it has an effect
/// only on what is not compressed.
pub(crate) enum Compressor<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    /// With what is collected for the next frame.
    Zstd(W, Vec<u8>),
}

impl<W: Write> Compressor<W> {
    pub(crate) fn new(out: W, compression: Option<Compression>) -> Self {
        match compression {
            None => Self::Plain(out),
            Some(Compression::Gzip) => {
                Self::Gzip(GzEncoder::new(out, flate2::Compression::default()))
            }
            Some(Compression::Zstd) => Self::Zstd(out, Vec::new()),
        }
    }

    /// Writes what is left; gives back what it was written to, and whether its beginning can be replaced.
    pub(crate) fn finish(self) -> io::Result<(W, bool)> {
        Ok(match self {
            Self::Plain(out) => (out, true),
            Self::Gzip(encoder) => (encoder.finish()?, false),
            Self::Zstd(mut out, collected) => {
                write_frame(&mut out, &collected)?;
                (out, false)
            }
        })
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(out, collected) => {
                collected.extend_from_slice(bytes);
                if collected.len() >= FRAME_LEN {
                    write_frame(out, collected)?;
                    collected.clear();
                }
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(_) | Self::Zstd(..) => Ok(()),
        }
    }
}

fn write_frame(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut frame = Vec::new();
    compress(bytes, &mut frame, CompressionLevel::Fastest);
    out.write_all(&frame)
}
