//! The bytes of a data group: its blocks one after the other, inflated and put in order.

use flate2::{Decompress, FlushDecompress, Status};

use super::block::{Block, Blocks, Fault, MAX_BLOCK_LEN};
use crate::decode::Reason;
use crate::format::order::Order::Little;

/// How much of a block is read at once that need not be in memory as a whole.
const PIECE_LEN: u64 = 64 << 10;
/// What a DZBLOCK has before its contents: what they are, how they are compressed, and both lengths.
const HEAD_LEN: u64 = 24;
/// How many links to blocks are kept.
const MAX_TODO: usize = 1 << 17;

/// A stream of bytes over a list of blocks.
#[derive(Default)]
pub(super) struct Stream {
    /// Links to what follows, the next one last.
    todo: Vec<u64>,
    /// What is left of the block that is read in pieces: where, and how many bytes.
    rest: Option<(u64, u64)>,
    buffer: Vec<u8>,
    start: usize,
    /// How many bytes were inflated for the buffer.
    inflated: usize,
    /// Where the latest block or piece begins in the file.
    at: u64,
    /// The last block of a file that was not finished has no length.
    may_be_open: bool,
    /// Where a block begins that the file does not hold as a whole.
    cut: Option<u64>,
}

impl Stream {
    /// The stream that begins with the block at `link`.
    pub(super) fn new(link: u64, may_be_open: bool) -> Self {
        Self { todo: vec![link], may_be_open, ..Self::default() }
    }

    /// Where in the file it is, roughly: the block or piece.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Where a block begins that the file does not hold as a whole, once its bytes were read.
    pub(super) fn cut(&self) -> Option<u64> {
        self.cut
    }

    /// The next bytes, if there are so many; all that are left, if there are fewer.
    pub(super) fn peek(&mut self, blocks: &mut Blocks, len: usize) -> Result<&[u8], Fault> {
        while self.buffer.len() - self.start < len && self.fill(blocks)? {}
        let end = self.buffer.len().min(self.start.saturating_add(len));
        Ok(&self.buffer[self.start..end])
    }

    /// Drops bytes that were seen.
    pub(super) fn consume(&mut self, len: usize) {
        self.start = self.buffer.len().min(self.start + len);
    }

    fn fill(&mut self, blocks: &mut Blocks) -> Result<bool, Fault> {
        loop {
            if let Some((at, left)) = self.rest.take() {
                let len = left.min(PIECE_LEN);
                if len == 0 {
                    continue;
                }
                self.rest = Some((at + len, left - len));
                let piece = blocks.bytes(at, len)?;
                blocks.hold(at, self.inflated, 0)?;
                self.inflated = 0;
                self.append(at, piece);
                return Ok(true);
            }
            let Some(at) = self.todo.pop() else {
                return Ok(false);
            };
            if at == 0 {
                continue;
            }
            let block = blocks.block(at)?;
            self.at = at;
            match &block.id {
                b"DT" | b"SD" | b"DV" => {
                    let behind = blocks.len().saturating_sub(block.data_at);
                    let is_open = self.may_be_open && block.data_len == 0;
                    let len = if is_open { behind } else { block.data_len.min(behind) };
                    if !is_open && block.data_len > behind {
                        self.cut = Some(at);
                    }
                    blocks.spend(at, len)?;
                    self.rest = Some((block.data_at, len));
                }
                b"HL" => self.push(at, &[block.link(0)])?,
                b"DL" => self.push(at, block.links())?,
                b"DZ" => {
                    let bytes = inflate(blocks, at, &block)?;
                    blocks.hold(at, self.inflated, bytes.len())?;
                    self.inflated = bytes.len();
                    self.append(at, bytes);
                    return Ok(true);
                }
                _ => {
                    return Err((
                        at,
                        Reason::Text("this is no block of data; the file is damaged"),
                    ));
                }
            }
        }
    }

    /// What the links of a list lead to follows: the first one leads to the next list.
    fn push(&mut self, at: u64, links: &[u64]) -> Result<(), Fault> {
        if self.todo.len() + links.len() > MAX_TODO {
            return Err((at, Reason::Text("lists of blocks run in circles; the file is damaged")));
        }
        let (next, data) = links.split_first().map_or((0, links), |(&next, data)| (next, data));
        self.todo.push(next);
        self.todo.extend(data.iter().rev());
        Ok(())
    }

    fn append(&mut self, at: u64, bytes: Vec<u8>) {
        self.at = at;
        if self.start == self.buffer.len() {
            self.buffer = bytes;
        } else {
            self.buffer.drain(..self.start);
            self.buffer.extend_from_slice(&bytes);
        }
        self.start = 0;
    }
}

/// The contents of a DZBLOCK, if its checksum holds (Adler-32, RFC 1950, 2.2) and it is as long as it says. Type 1 has the bytes of equal places in records together: it is a matrix of so many columns,
/// written column by column, and the bytes that fill no row are behind it.
fn inflate(blocks: &mut Blocks, at: u64, block: &Block) -> Result<Vec<u8>, Fault> {
    let mut head = [0; HEAD_LEN as usize];
    blocks.read(block.data_at, &mut head)?;
    let (kind, columns) = (head[2], Little.u32(&head, 4) as usize);
    let (len, packed_len) = (Little.u64(&head, 8), Little.u64(&head, 16));
    if len > MAX_BLOCK_LEN {
        return Err((
            at,
            Reason::Number(
                "a compressed block holds ",
                len,
                " bytes, more than 16 MiB; write the file again with smaller blocks",
            ),
        ));
    }
    if kind > 1 {
        return Err((
            at,
            Reason::Number(
                "a block is compressed in the way ",
                u64::from(kind),
                ", of which only 0 and 1 (deflate) are known; write the file again with deflate",
            ),
        ));
    }
    if packed_len > block.data_len.saturating_sub(HEAD_LEN) {
        let reason = "a compressed block says that it is longer than the block around it; the file is damaged";
        return Err((at, Reason::Text(reason)));
    }
    blocks.spend(at, packed_len)?;
    let packed = blocks.bytes(block.data_at + HEAD_LEN, packed_len)?;
    // With a byte more than it may hold, so that this shows.
    let mut bytes = Vec::with_capacity(len as usize + 1);
    let status = Decompress::new(true).decompress_vec(&packed, &mut bytes, FlushDecompress::Finish);
    if !matches!(status, Ok(Status::StreamEnd)) || bytes.len() as u64 != len {
        let reason = "a compressed block cannot be inflated, its checksum is wrong, or it is not as long as it says; the file is \
                      damaged";
        return Err((at, Reason::Text(reason)));
    }
    if kind == 0 || columns == 0 {
        return Ok(bytes);
    }
    let rows = bytes.len() / columns;
    let mut ordered = bytes.clone();
    if rows > 0 {
        for (column, values) in bytes.chunks_exact(rows).take(columns).enumerate() {
            for (row, &value) in values.iter().enumerate() {
                ordered[row * columns + column] = value;
            }
        }
    }
    Ok(ordered)
}
