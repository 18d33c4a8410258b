//! Bus logging of ASAM MDF 4, as loggers and measuring tools write it.
//!
//! A file is blocks that are linked by their places, so it must be sought in: a pipe or a compressed file is refused. What is
//! read, as the standard (ASAM MDF 4.1, "Bus Logging") names it:
//!
//! | block | what is read |
//! |---|---|
//! | HD | the start, in nanoseconds since 1970 |
//! | DG, CG | data groups, sorted (one channel group each) or not, with record identifiers of 0 to 8 bytes |
//! | CN, CC | members of `CAN_DataFrame`, `CAN_RemoteFrame`, `CAN_ErrorFrame`; virtual channels; linear and table conversions |
//! | DT, DZ, DL, HL | records, deflated and transposed, too, in blocks of at most 16 MiB, whose checksum must hold |
//! | SD, CG of variable length | `DataBytes` that are not in their record |
//!
//! A file that was not finished (`UnFinMF`) has no length in its last block and no counts of records; both are not needed. Times
//! are counted from the start, and may be negative.
//!
//! The standard counts channels from 1, and so do loggers. python-can writes its own numbers, which begin with 0, and says nowhere that it
//! did. Its files are known by what they are made of: the program is asammdf (`amdf` in the first block), and the file has exactly three
//! groups, of data, error and remote frames, with asammdf's default comment (`Python`). There channel 0 is `can0`, as in the BLF and
//! ASC files of python-can.
//!
//! Data groups are merged by time, and then records are put in order of time
//! within [`WINDOW`] records, since loggers write what several buses receive in no strict order.

mod block;
mod data;
mod field;
mod group;
#[cfg(test)]
pub(super) mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{Blocks, Fault};
use data::Stream;
use group::{Data, Group, Raw};

use super::channels::Channels;
use super::order::Order::Little;
use super::{Format, usual};
use crate::decode::{
    CUT, DecodeError, Decoder, PassedOver, Position, ReadError, Reason, SCATTERED, Step,
};
use crate::input::{Input, Source};
use crate::record::{InterfaceIndex, Interfaces, Record};

pub(super) static FORMAT: Format = Format {
    name: "mf4",
    title: "MF4 recording",
    endings: &["mf4"],
    has_start: true,
    grows_by_record: false,
    begins: |head| [&b"MDF     4"[..], b"UnFinMF 4"].iter().any(|magic| head.starts_with(magic)),
    ..usual(|_| Box::new(Mf4Decoder::default()))
};

/// How many records are kept in order to sort them by time.
const WINDOW: usize = 4_096;
/// How many values of variable length are kept of a stream whose frames may come later: those of a window, and some.
const VALUES: usize = 2 * WINDOW;
/// How many data groups are read at the same time.
const MAX_DATA_GROUPS: usize = 256;
/// How many groups share data at most.
const MAX_GROUPS: usize = 4_096;
/// How many streams of values of variable length there are at most.
const MAX_STREAMS: usize = 64;
/// The longest record.
const MAX_LEN: usize = 1 << 20;

/// A frame that waits for its turn. Ordered by time, then by its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Waiting {
    time_ns: u64,
    number: u64,
    at: u64,
    interface: InterfaceIndex,
    direction: crate::Direction,
    raw: Raw,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time_ns, self.number).cmp(&(other.time_ns, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Frames that wait, given in order of time. Those that come in this order, as nearly all do, stand in a line, the others in a heap.
#[derive(Default)]
struct Window {
    line: VecDeque<Waiting>,
    heap: BinaryHeap<Reverse<Waiting>>,
}

impl Window {
    fn len(&self) -> usize {
        self.line.len() + self.heap.len()
    }

    fn push(&mut self, waiting: Waiting) {
        match self.line.back() {
            Some(last) if *last > waiting => self.heap.push(Reverse(waiting)),
            _ => self.line.push_back(waiting),
        }
    }

    fn pop(&mut self) -> Option<Waiting> {
        match (self.line.front(), self.heap.peek()) {
            (Some(first), Some(Reverse(other))) if other < first => {}
            (Some(_), _) => return self.line.pop_front(),
            (None, _) => {}
        }
        self.heap.pop().map(|Reverse(waiting)| waiting)
    }
}

/// A data group that is being read.
struct Cursor {
    stream: Stream,
    /// How many bytes name the group of a record.
    id_len: usize,
    groups: Vec<Group>,
    /// Their record identifiers, together in memory since each record is looked up.
    record_ids: Vec<u64>,
    /// Its next frame; `None` at its end, or if it is still to be read.
    head: Option<Waiting>,
    /// Whether it is: at first, and behind a record that is damaged.
    is_due: bool,
}

/// Values of variable length by their places in their stream, the latest [`VALUES`].
struct Values {
    /// The group or block that has them.
    of: u64,
    /// If they are in a stream of their own.
    stream: Option<Stream>,
    /// Bytes of the stream that came before.
    len: u64,
    latest: VecDeque<(u64, [u8; 64])>,
}

#[derive(Default)]
struct Mf4Decoder {
    blocks: Option<Blocks>,
    cursors: Vec<Cursor>,
    values: Vec<Values>,
    waiting: Window,
    channels: Channels,
    start_ns: Option<u64>,
    other: u64,
    records: u64,
    frames: u64,
    at: u64,
    /// Where a data group ends inside a record.
    cut: Option<u64>,
    /// A group whose data end before the file's count of its records, and how many frames less there are.
    fewer: Option<(u64, u64)>,
    /// What is added to the numbers of channels so that they count from 1.
    added_to_channels: u32,
    /// Counts of records are not to be trusted in a file that was not finished.
    is_unfinished: bool,
}

impl Decoder for Mf4Decoder {
    fn next(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        let fatal = |decoder: &Self, (offset, reason): Fault, resume| {
            let position = Position::Binary { offset, record: decoder.frames };
            ReadError::Malformed(DecodeError { position, reason, resume })
        };
        if let Some(source) = input.take_file() {
            self.open(source).map_err(|fault| fatal(self, fault, None))?;
        }
        let Some(mut blocks) = self.blocks.take() else {
            return Err(fatal(self, (0, SCATTERED), None));
        };
        let step = self.next_frame(&mut blocks);
        self.blocks = Some(blocks);
        input.reach(self.at);
        match step {
            Ok(Some(record)) => Ok(Step::Record(record)),
            Ok(None) => match (self.cut.take(), self.fewer.take()) {
                (Some(offset), _) => Err(fatal(self, (offset, CUT), Some(0))),
                (None, Some((offset, count))) => {
                    let reason = Reason::Number(
                        FEWER,
                        count,
                        " frames more than its data hold; the file is damaged",
                    );
                    Err(fatal(self, (offset, reason), Some(0)))
                }
                (None, None) => Ok(Step::End),
            },
            // What is damaged costs itself: a frame, or the rest of its data group.
            Err(fault) => Err(fatal(self, fault, Some(0))),
        }
    }

    fn interfaces(&self) -> &Interfaces {
        self.channels.interfaces()
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver { other_packets: self.other, ..PassedOver::default() }
    }

    fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }
}

impl Mf4Decoder {
    /// Reads what the file holds, up to its records.
    fn open(&mut self, source: Box<dyn Source>) -> Result<(), Fault> {
        let mut blocks = Blocks::new(source)?;
        let mut id = [0; 64];
        blocks.read(0, &mut id)?;
        let is_unfinished = id.starts_with(b"UnFin");
        self.is_unfinished = is_unfinished;
        let header = blocks.block_of(64, b"HD")?;
        self.start_ns = Some(Little.u64(&blocks.data::<8>(&header)?, 0));
        // Written by asammdf; of all groups in the file so many, and whether each may be of python-can.
        let (mut count, mut is_python_can) = (0, id[16..].starts_with(b"amdf"));
        let mut at = header.link(0);
        while at != 0 {
            let block = blocks.block_of(at, b"DG")?;
            let id_len = usize::from(blocks.data::<1>(&block)?[0]);
            if ![0, 1, 2, 4, 8].contains(&id_len) {
                let reason = "a data group has record identifiers of another length than 0, 1, 2, 4 or 8 bytes; the file is \
                              damaged";
                return Err((at, Reason::Text(reason)));
            }
            let mut groups = Vec::new();
            let mut group_at = block.link(1);
            while group_at != 0 {
                if groups.len() == MAX_GROUPS {
                    let reason = "a data group has more than 4096 channel groups; split the file";
                    return Err((at, Reason::Text(reason)));
                }
                let block = blocks.block_of(group_at, b"CG")?;
                let group = Group::read(&mut blocks, group_at, &block)?;
                is_python_can &= group.may_be_of_python_can(count);
                count += 1;
                groups.push(group);
                group_at = block.link(0);
            }
            if groups.iter().any(Group::is_can) {
                if self.cursors.len() == MAX_DATA_GROUPS {
                    let reason = "the file has more than 256 data groups with frames; split it";
                    return Err((at, Reason::Text(reason)));
                }
                self.add_values(at, &groups, is_unfinished)?;
                groups.sort_by_key(|group| group.record_id);
                let stream = Stream::new(block.link(2), is_unfinished);
                let record_ids = groups.iter().map(|group| group.record_id).collect();
                let (head, is_due) = (None, true);
                self.cursors.push(Cursor { stream, id_len, groups, record_ids, head, is_due });
            }
            at = block.link(0);
        }
        if self.cursors.is_empty() {
            let reason = "the file has no group of frames on a CAN bus (CAN_DataFrame and others); it is no recording of one, or \
                          damaged";
            return Err((64, Reason::Text(reason)));
        }
        self.added_to_channels = u32::from(is_python_can && count == 3);
        self.at = 64;
        self.blocks = Some(blocks);
        Ok(())
    }

    /// The streams of values that these groups need.
    fn add_values(&mut self, at: u64, groups: &[Group], is_unfinished: bool) -> Result<(), Fault> {
        for of in groups.iter().filter_map(Group::values) {
            if of == 0 || self.values.iter().any(|values| values.of == of) {
                continue;
            }
            if self.values.len() == MAX_STREAMS {
                let reason =
                    "the file has more than 64 streams of data of variable length; split it";
                return Err((at, Reason::Text(reason)));
            }
            let is_group = groups.iter().any(|group| group.has_values && group.at == of);
            let stream = (!is_group).then(|| Stream::new(of, is_unfinished));
            self.values.push(Values { of, stream, len: 0, latest: VecDeque::new() });
        }
        Ok(())
    }

    /// The next frame in order of time.
    fn next_frame(&mut self, blocks: &mut Blocks) -> Result<Option<Record>, Fault> {
        while let Some(number) = self.cursors.iter().position(|cursor| cursor.is_due) {
            self.refill_from(blocks, number)?;
        }
        while self.waiting.len() < WINDOW {
            let heads = self.cursors.iter().enumerate();
            let heads = heads.filter_map(|(number, cursor)| Some((cursor.head.as_ref()?, number)));
            let Some((head, number)) = heads.min() else {
                break;
            };
            self.waiting.push(*head);
            self.refill_from(blocks, number)?;
        }
        let Some(waiting) = self.waiting.pop() else {
            return Ok(None);
        };
        self.frames += 1;
        let at = |reason| (waiting.at, reason);
        let data = match waiting.raw.data {
            Data::Here(data) => data,
            Data::Elsewhere(of, place) => self.value(blocks, of, place)?.ok_or_else(|| {
                at(Reason::Text(
                    "the data of the frame are not where the record says; the file is damaged",
                ))
            })?,
        };
        let frame = waiting.raw.frame(&data).map_err(at)?;
        Ok(Some(Record {
            time_ns: waiting.time_ns,
            interface: waiting.interface,
            direction: Some(waiting.direction),
            frame,
        }))
    }

    /// Reads the next frame of a data group. After an error it is over, unless that is about a frame alone.
    fn refill_from(&mut self, blocks: &mut Blocks, number: usize) -> Result<(), Fault> {
        let Some(cursor) = self.cursors.get_mut(number) else {
            return Ok(());
        };
        (cursor.head, cursor.is_due) = (None, false);
        loop {
            let at = cursor.stream.at();
            let Some(group) = cursor.group(blocks)? else {
                self.at = self.at.max(at);
                let is_inside = !cursor.stream.peek(blocks, 1)?.is_empty();
                let cut = cursor.stream.cut().or(is_inside.then_some(at));
                self.end(number, cut);
                return Ok(());
            };
            let id_len = cursor.id_len;
            let group = &mut cursor.groups[group];
            let len_len = if group.has_values { 4 } else { 0 };
            let head = cursor.stream.peek(blocks, id_len + len_len)?;
            let len = match group.has_values {
                true if head.len() == id_len + 4 => Little.u32(head, id_len) as usize,
                true => usize::MAX,
                false => group.record_len,
            };
            let at = cursor.stream.at();
            if len != usize::MAX && len > MAX_LEN {
                let reason =
                    Reason::Number("a record has ", len as u64, " bytes; the file is damaged");
                cursor.stream = Stream::default();
                return Err((at, reason));
            }
            let whole = id_len.saturating_add(len_len).saturating_add(len);
            let bytes = cursor.stream.peek(blocks, whole)?;
            if bytes.len() < whole || whole == 0 {
                let cut = Some(at).filter(|_| !bytes.is_empty());
                self.end(number, cut);
                return Ok(());
            }
            let record = &bytes[id_len + len_len..];
            if group.has_values {
                if let Some(values) = self.values.iter_mut().find(|values| values.of == group.at) {
                    values.add(record);
                }
            } else if group.is_can() {
                self.records += 1;
                group.unread = group.unread.saturating_sub(1);
                let start_ns = self.start_ns.unwrap_or(0);
                let time_ns = start_ns.checked_add_signed(group.since_ns(record));
                let channel = group.channel(record).saturating_add(self.added_to_channels);
                let channel = self.channels.interface(channel);
                let head = time_ns.ok_or(Reason::Text(BAD_TIME)).and_then(|time_ns| {
                    Ok(Waiting {
                        time_ns,
                        number: self.records,
                        at,
                        interface: channel?,
                        direction: group.direction(record),
                        raw: group.raw(record),
                    })
                });
                cursor.stream.consume(whole);
                self.at = self.at.max(at);
                cursor.is_due = head.is_err();
                cursor.head = Some(head.map_err(|reason| (at, reason))?);
                return Ok(());
            } else {
                self.other += 1;
            }
            cursor.stream.consume(whole);
        }
    }

    /// Notes what a data group that is over lacks.
    fn end(&mut self, number: usize, cut: Option<u64>) {
        self.cut = cut.or(self.cut);
        let groups = self.cursors.get(number).map(|cursor| &cursor.groups[..]).unwrap_or_default();
        let unread = groups
            .iter()
            .filter(|group| group.is_can())
            .fold(0u64, |sum, group| sum.saturating_add(group.unread));
        if let Some(group) = groups.first().filter(|_| unread > 0 && !self.is_unfinished) {
            let before = self.fewer.map_or(0, |(_, count)| count);
            self.fewer = Some((group.at, before.saturating_add(unread)));
        }
    }

    /// The value of variable length at this place of its stream.
    fn value(
        &mut self,
        blocks: &mut Blocks,
        of: u64,
        place: u64,
    ) -> Result<Option<[u8; 64]>, Fault> {
        let Some(values) = self.values.iter_mut().find(|values| values.of == of) else {
            return Ok(None);
        };
        values.read_up_to(blocks, place)?;
        let found = values.latest.binary_search_by_key(&place, |&(at, _)| at);
        Ok(found.ok().and_then(|index| values.latest.get(index)).map(|&(_, value)| value))
    }
}

const FEWER: &str = "a group of frames counts ";
const BAD_TIME: &str = "the time is before 1970 or after 18446744073 s; the file is damaged";

impl Cursor {
    /// Which group the next record is of; `None` at the end, also inside an identifier.
    fn group(&mut self, blocks: &mut Blocks) -> Result<Option<usize>, Fault> {
        let id_len = self.id_len;
        let bytes = self.stream.peek(blocks, id_len.max(1))?;
        if bytes.len() < id_len.max(1) {
            return Ok(None);
        }
        if id_len == 0 {
            return Ok((self.groups.len() == 1).then_some(0));
        }
        let mut id = [0; 8];
        id[..id_len].copy_from_slice(bytes);
        let id = u64::from_le_bytes(id);
        match self.record_ids.binary_search(&id) {
            Ok(index) => Ok(Some(index)),
            Err(_) => {
                let at = self.stream.at();
                self.stream = Stream::default();
                Err((
                    at,
                    Reason::Number(
                        "a record is of the group ",
                        id,
                        ", which the file does not have; it is damaged from here on",
                    ),
                ))
            }
        }
    }
}

impl Values {
    /// Takes the next value of the stream.
    fn add(&mut self, value: &[u8]) {
        let mut kept = [0; 64];
        let len = value.len().min(64);
        kept[..len].copy_from_slice(&value[..len]);
        if self.latest.len() == VALUES {
            self.latest.pop_front();
        }
        self.latest.push_back((self.len, kept));
        self.len += 4 + value.len() as u64;
    }

    /// Reads a stream of its own up to the value at this place.
    fn read_up_to(&mut self, blocks: &mut Blocks, place: u64) -> Result<(), Fault> {
        let Some(mut stream) = self.stream.take() else {
            return Ok(());
        };
        while self.len <= place {
            let head = stream.peek(blocks, 4)?;
            let len = Little.u32(head, 0) as usize;
            if head.len() < 4 || len > MAX_LEN {
                break;
            }
            let whole = stream.peek(blocks, 4 + len)?;
            let Some(value) = whole.get(4..4 + len) else {
                break;
            };
            self.add(value);
            stream.consume(4 + len);
        }
        self.stream = Some(stream);
        Ok(())
    }
}
