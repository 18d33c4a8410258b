//! Writes a BLF recording as python-can does, so that whoever reads its files reads these.

use candor_wire::can::frame::{BRS, EFF_MASK, ESI};
use candor_wire::can::{Frame, Kind};
use flate2::{Compress, Compression, FlushCompress};

use super::object::{
    CONTROLLER_SAYS, ERROR_EXT, EXTENDED, FD_MESSAGE, MESSAGE, NANOS, TIMED_HEADER_LEN,
    TRANSMITTED_ERROR,
};
use super::{
    CONTAINER, CONTAINER_HEADER_LEN, FILE_SIGNATURE, OBJECT_HEADER_LEN, OBJECT_SIGNATURE, ZLIB,
};
use crate::encode::{EncodeError, Encoder};
use crate::format::channels::Numbers;
use crate::format::start::{DateTime, Start};
use crate::record::{Direction, Record};

const FILE_HEADER_LEN: usize = 144;
/// How much of the stream is in a container.
const CONTAINER_LEN: usize = 128 << 10;
/// As zlib's default.
const LEVEL: u32 = 6;

pub(super) struct BlfEncoder {
    start: Start,
    numbers: Numbers,
    /// The stream since the last container.
    stream: Vec<u8>,
    deflate: Compress,
    /// With the header of the file.
    len: u64,
    /// With the headers of containers, and that of the file.
    inflated_len: u64,
    objects: u32,
    latest_ns: u64,
    has_header: bool,
}

impl BlfEncoder {
    pub(super) fn new() -> Self {
        Self {
            start: Start::default(),
            numbers: Numbers::default(),
            stream: Vec::with_capacity(CONTAINER_LEN + 256),
            deflate: Compress::new(Compression::new(LEVEL), true),
            len: FILE_HEADER_LEN as u64,
            inflated_len: FILE_HEADER_LEN as u64,
            objects: 0,
            latest_ns: 0,
            has_header: false,
        }
    }

    /// Puts the header before the first container, when the start is known. What it counts is written again at the end, if
    /// that is possible.
    fn put_first_header(&mut self, out: &mut Vec<u8>) {
        if !self.has_header {
            self.put_header(out);
            self.has_header = true;
        }
    }

    fn put_header(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(FILE_SIGNATURE);
        out.extend_from_slice(&(FILE_HEADER_LEN as u32).to_le_bytes());
        // The application and its version, and the version of the format, as python-can has them.
        out.extend_from_slice(&[5, 0, 0, 0, 2, 6, 8, 1]);
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.inflated_len.to_le_bytes());
        out.extend_from_slice(&self.objects.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for time_ns in [self.start.ns(), self.latest_ns] {
            DateTime::of(time_ns).put_system_time(out);
        }
        out.resize(from + FILE_HEADER_LEN, 0);
    }

    /// Compresses what there is of the stream into a container, at most one of the usual size.
    fn put_container(&mut self, out: &mut Vec<u8>) {
        self.put_first_header(out);
        let count = self.stream.len().min(CONTAINER_LEN);
        let from = out.len();
        out.resize(from + CONTAINER_HEADER_LEN, 0);
        self.deflate.reset();
        // The bound of zlib's compressBound for its default settings.
        out.reserve(count + (count >> 12) + (count >> 14) + (count >> 25) + 13);
        let _ = self.deflate.compress_vec(&self.stream[..count], out, FlushCompress::Finish);
        self.stream.drain(..count);
        let len = out.len() - from;
        let header = &mut out[from..];
        header[..4].copy_from_slice(OBJECT_SIGNATURE);
        header[4..6].copy_from_slice(&(OBJECT_HEADER_LEN as u16).to_le_bytes());
        header[6..8].copy_from_slice(&1_u16.to_le_bytes());
        header[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        header[12..16].copy_from_slice(&CONTAINER.to_le_bytes());
        header[16..18].copy_from_slice(&ZLIB.to_le_bytes());
        header[24..28].copy_from_slice(&(count as u32).to_le_bytes());
        out.resize(out.len() + len % 4, 0);
        self.len += (len + len % 4) as u64;
        self.inflated_len += (CONTAINER_HEADER_LEN + count) as u64;
    }

    fn put_object(&mut self, kind: u32, since_ns: u64, body: &[u8]) {
        let len = TIMED_HEADER_LEN + body.len();
        let stream = &mut self.stream;
        stream.extend_from_slice(OBJECT_SIGNATURE);
        stream.extend_from_slice(&(TIMED_HEADER_LEN as u16).to_le_bytes());
        stream.extend_from_slice(&1_u16.to_le_bytes());
        stream.extend_from_slice(&(len as u32).to_le_bytes());
        stream.extend_from_slice(&kind.to_le_bytes());
        stream.extend_from_slice(&NANOS.to_le_bytes());
        stream.extend_from_slice(&[0; 4]);
        stream.extend_from_slice(&since_ns.to_le_bytes());
        stream.extend_from_slice(body);
        stream.resize(stream.len() + len % 4, 0);
        self.objects = self.objects.saturating_add(1);
    }
}

/// The type of the object of a frame, and how long its body is.
fn body(frame: &Frame, channel: u16, direction: Option<Direction>) -> (u32, [u8; 84], usize) {
    let mut body = [0; 84];
    let is_transmitted = direction == Some(Direction::Transmitted);
    let flags = u8::from(is_transmitted) | if frame.kind() == Kind::Remote { 0x80 } else { 0 };
    let id = frame.can_id() & EFF_MASK | if frame.is_extended() { EXTENDED } else { 0 };
    body[..2].copy_from_slice(&channel.to_le_bytes());
    if frame.kind() == Kind::Error {
        if is_transmitted {
            // Another error than bit, form and stuff (3) of a sender that was acknowledged (3).
            body[4..6].copy_from_slice(&CONTROLLER_SAYS.to_le_bytes());
            body[8] = (3 << 6) | 3;
            body[20..22].copy_from_slice(&((TRANSMITTED_ERROR * 3) | (3 << 6)).to_le_bytes());
        }
        return (ERROR_EXT, body, 32);
    }
    body[2] = flags;
    body[3] = frame.dlc();
    body[4..8].copy_from_slice(&id.to_le_bytes());
    let data = frame.data();
    if frame.is_fd() {
        let bit = |flag: u8, bit: u8| if frame.fd_flags() & flag != 0 { bit } else { 0 };
        body[13] = 1 | bit(BRS, 2) | bit(ESI, 4);
        body[14] = data.len() as u8;
        body[20..20 + data.len()].copy_from_slice(data);
        return (FD_MESSAGE, body, 84);
    }
    body[8..8 + data.len()].copy_from_slice(data);
    (MESSAGE, body, 16)
}

impl Encoder for BlfEncoder {
    fn encode(
        &mut self,
        record: &Record,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let channel = self.numbers.channel(interface)?;
        let (since_ns, _) = self.start.since(record.time_ns)?;
        self.latest_ns = self.latest_ns.max(record.time_ns);
        let (kind, body, len) = body(&record.frame, channel, record.direction);
        self.put_object(kind, since_ns, &body[..len]);
        if self.stream.len() >= CONTAINER_LEN {
            self.put_container(out);
        }
        Ok(())
    }

    fn start(&mut self, start_ns: u64) {
        self.start.announce(start_ns);
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        self.put_first_header(out);
        while !self.stream.is_empty() {
            self.put_container(out);
        }
        let mut header = Vec::with_capacity(FILE_HEADER_LEN);
        self.put_header(&mut header);
        Some(header)
    }
}
