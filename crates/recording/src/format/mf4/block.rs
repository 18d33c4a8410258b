//! The blocks of an MF4 file: where they lie, and what links them.

use std::io::{Read, Seek, SeekFrom};

use crate::decode::Reason;
use crate::format::order::Order::Little;
use crate::input::Source;

/// No block that has to be in memory as a whole is longer.
pub(super) const MAX_BLOCK_LEN: u64 = 16 << 20;
/// How many bytes of inflated blocks are held at the same time, one block for each data group.
const MAX_INFLATED: usize = 64 << 20;
/// How many blocks are visited at most: no list runs in a circle.
const MAX_BLOCKS: u32 = 1 << 20;
/// How many links a block has at most.
const MAX_LINKS: u64 = 1 << 16;
/// Identifier, reserved bytes, length and number of links.
const HEADER_LEN: u64 = 24;
/// How much of a name is looked at.
const MAX_TEXT_LEN: u64 = 256;

/// What is wrong, and at which byte of the file.
pub(super) type Fault = (u64, Reason);

const DAMAGED: &str = "; the file is damaged";

/// A file that is read block by block.
pub(super) struct Blocks {
    source: Box<dyn Source>,
    len: u64,
    visited: u32,
    inflated: usize,
    /// How many bytes of records may still be read: each is in the file once.
    unread: u64,
}

/// A block: its identifier and links, and where its data are.
pub(super) struct Block {
    pub(super) id: [u8; 2],
    links: Vec<u64>,
    pub(super) data_at: u64,
    pub(super) data_len: u64,
}

impl Block {
    /// A link by its number; 0 if there are fewer, as if it led nowhere.
    pub(super) fn link(&self, number: usize) -> u64 {
        self.links.get(number).copied().unwrap_or(0)
    }

    pub(super) fn links(&self) -> &[u64] {
        &self.links
    }
}

impl Blocks {
    pub(super) fn new(mut source: Box<dyn Source>) -> Result<Self, Fault> {
        let len = source.seek(SeekFrom::End(0)).map_err(|error| (0, Reason::Io(error.kind())))?;
        Ok(Self { source, len, visited: 0, inflated: 0, unread: len })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `out` from this place on.
    pub(super) fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.len) {
            return Err((
                at,
                Reason::Text("a block ends behind the file; the file is cut or damaged"),
            ));
        }
        let source = &mut self.source;
        let read = source.seek(SeekFrom::Start(at)).and_then(|_| source.read_exact(out));
        read.map_err(|error| (at, Reason::Io(error.kind())))
    }

    /// So many bytes, at most [`MAX_BLOCK_LEN`].
    pub(super) fn bytes(&mut self, at: u64, len: u64) -> Result<Vec<u8>, Fault> {
        let whole = usize::try_from(len).ok().filter(|_| len <= MAX_BLOCK_LEN && len <= self.len);
        let Some(len) = whole else {
            return Err((at, Reason::Number("a block has ", len, " bytes, more than can be")));
        };
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// The first `N` bytes of the data of a block; zeros behind their end.
    pub(super) fn data<const N: usize>(&mut self, block: &Block) -> Result<[u8; N], Fault> {
        let mut data = [0; N];
        let len = usize::try_from(block.data_len).map_or(N, |len| len.min(N));
        self.read(block.data_at, &mut data[..len])?;
        Ok(data)
    }

    /// The block at this place, which has to be of this kind: what a damaged link leads to must not pass for what is there.
    pub(super) fn block_of(&mut self, at: u64, id: &[u8; 2]) -> Result<Block, Fault> {
        let block = self.block(at)?;
        if block.id != *id {
            let reason =
                "a link leads to a block of another kind than it should; the file is damaged";
            return Err((at, Reason::Text(reason)));
        }
        Ok(block)
    }

    /// The block at this place.
    pub(super) fn block(&mut self, at: u64) -> Result<Block, Fault> {
        self.visited += 1;
        if self.visited > MAX_BLOCKS {
            let reason = Reason::Number(
                "the file has more than ",
                u64::from(MAX_BLOCKS),
                " blocks, or its lists run in circles",
            );
            return Err((at, reason));
        }
        let mut header = [0; HEADER_LEN as usize];
        self.read(at, &mut header)?;
        let [len, count] = [Little.u64(&header, 8), Little.u64(&header, 16)];
        let [b'#', b'#', first, second, ..] = header else {
            return Err((at, Reason::Text("no block begins here; the file is damaged")));
        };
        if count > MAX_LINKS {
            return Err((at, Reason::Number("a block has ", count, DAMAGED)));
        }
        let links = self.bytes(at + HEADER_LEN, count * 8)?;
        let links = links.chunks_exact(8).map(|link| Little.u64(link, 0)).collect();
        let data_at = at + HEADER_LEN + count * 8;
        let data_len = len.saturating_sub(data_at - at);
        Ok(Block { id: [first, second], links, data_at, data_len })
    }

    /// The text of the block at this place, at most [`MAX_TEXT_LEN`] bytes of it; empty if the link leads nowhere.
    pub(super) fn text(&mut self, at: u64) -> Result<String, Fault> {
        if at == 0 {
            return Ok(String::new());
        }
        let block = self.block_of(at, b"TX")?;
        let bytes = self.bytes(block.data_at, block.data_len.min(MAX_TEXT_LEN))?;
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// The start of a comment, plain or within XML; empty if it is not readable, since no frame is in it.
    pub(super) fn comment(&mut self, at: u64) -> Vec<u8> {
        let block = Some(at).filter(|&at| at != 0).and_then(|at| self.block(at).ok());
        let Some(block) = block.filter(|block| [*b"TX", *b"MD"].contains(&block.id)) else {
            return Vec::new();
        };
        self.bytes(block.data_at, block.data_len.min(MAX_TEXT_LEN)).unwrap_or_default()
    }

    /// Counts bytes of records, as they are in the file. Each block is in one list, once; so they are no more than the file has,
    /// unless lists run in circles.
    pub(super) fn spend(&mut self, at: u64, len: u64) -> Result<(), Fault> {
        let circle = "lists of blocks run in circles; the file is damaged";
        self.unread = self.unread.checked_sub(len).ok_or((at, Reason::Text(circle)))?;
        Ok(())
    }

    /// Makes room for an inflated block in place of one of the length `before`.
    pub(super) fn hold(&mut self, at: u64, before: usize, len: usize) -> Result<(), Fault> {
        let held = self.inflated.saturating_sub(before).saturating_add(len);
        if held > MAX_INFLATED {
            let reason = "compressed blocks of more than 64 MiB would be in memory at the same time; write the file again \
                          without compression (asammdf: `save(compression=0)`)";
            return Err((at, Reason::Text(reason)));
        }
        self.inflated = held;
        Ok(())
    }
}
