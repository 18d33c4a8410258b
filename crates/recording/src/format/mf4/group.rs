//! Channel groups: what their records are, and the frame in one.

use memchr::memmem;

use super::block::{Block, Blocks, Fault};
use super::field::Field;
use crate::decode::Reason;
use crate::format::order::Order::Little;
use crate::format::{classical, error_report};
use crate::record::Direction;
use candor_wire::can::Frame;
use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, ESI, FD_LENGTHS, RTR_FLAG};

/// How deep channels are composed of others.
const MAX_DEPTH: u8 = 4;
/// `cn_type` and `cn_sync_type` of the channel of the time.
const MASTER: u8 = 2;
const TIME: u8 = 1;
/// Bit of `cg_flags`: each record is one value of variable length.
const VARIABLE_LENGTH: u16 = 1;
/// The longest frame.
const MAX_DATA: usize = 64;

/// What the records of a group are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    Data,
    Remote,
    Error,
    #[default]
    Other,
}

/// What a record of a group needs to be read.
#[derive(Default)]
pub(super) struct Group {
    /// Its place in the file, by which channels of variable length name it.
    pub(super) at: u64,
    kind: Kind,
    /// Whether its comment names the language that python-can is written in, as asammdf's default comment does.
    is_of_python: bool,
    /// What a record begins with in data that several groups share.
    pub(super) record_id: u64,
    /// Without that.
    pub(super) record_len: usize,
    /// How many of the records that the file counts were not read yet.
    pub(super) unread: u64,
    /// Each record has a length of its own, and is a value for another group.
    pub(super) has_values: bool,
    time: Field,
    id: Field,
    is_extended: Field,
    channel: Field,
    length: Field,
    dlc: Field,
    data: Field,
    direction: Field,
    is_fd: Field,
    switches_rate: Field,
    indicates_error: Field,
}

/// The data of a frame: in its record, or elsewhere in a stream of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Here([u8; MAX_DATA]),
    /// The stream, and how many bytes of it come before.
    Elsewhere(u64, u64),
}

/// A frame whose data may still have to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw {
    kind: Kind,
    can_id: u32,
    fd_flags: Option<u8>,
    dlc: u8,
    len: usize,
    pub(super) data: Data,
}

impl Group {
    /// The group of the CGBLOCK at this place.
    pub(super) fn read(blocks: &mut Blocks, at: u64, block: &Block) -> Result<Self, Fault> {
        let head: [u8; 32] = blocks.data(block)?;
        let mut group = Self {
            at,
            record_id: Little.u64(&head, 0),
            unread: Little.u64(&head, 8),
            has_values: Little.u16(&head, 16) & VARIABLE_LENGTH != 0,
            is_of_python: memmem::find(&blocks.comment(block.link(5)), b"Python").is_some(),
            // Its bits of invalidation come behind the data.
            record_len: (Little.u32(&head, 24) as usize)
                .saturating_add(Little.u32(&head, 28) as usize),
            ..Self::default()
        };
        if !group.has_values {
            group.read_channels(blocks, block.link(1), 0)?;
        }
        group.check()?;
        Ok(group)
    }

    /// Refuses a group whose frames would not be what was on the bus: no field for what each frame has, or one that its records
    /// do not hold.
    fn check(&self) -> Result<(), Fault> {
        let has_data = self.data.is_there() || self.data.elsewhere.is_some();
        let has_len = self.length.is_there() || self.dlc.is_there();
        let is_whole = match self.kind {
            Kind::Data => self.id.is_there() && has_len && has_data,
            Kind::Remote => self.id.is_there(),
            Kind::Error | Kind::Other => true,
        };
        if !is_whole {
            let reason = "a group of frames has no channel for their identifier, length or data; the file is damaged";
            return Err((self.at, Reason::Text(reason)));
        }
        let mut fields = [
            &self.time,
            &self.id,
            &self.is_extended,
            &self.channel,
            &self.length,
            &self.dlc,
            &self.data,
            &self.direction,
            &self.is_fd,
            &self.switches_rate,
            &self.indicates_error,
        ]
        .into_iter();
        if self.is_can() && !fields.all(|field| field.is_within(self.record_len)) {
            let reason = "a channel lies behind the end of its records; the file is damaged";
            return Err((self.at, Reason::Text(reason)));
        }
        Ok(())
    }

    /// The stream that the data of its frames are in, if they are not in its records.
    pub(super) fn values(&self) -> Option<u64> {
        self.data.elsewhere
    }

    /// Whether it may be the one of this number, from 0, in a file of python-can.
    pub(super) fn may_be_of_python_can(&self, number: usize) -> bool {
        const KINDS: [Kind; 3] = [Kind::Data, Kind::Error, Kind::Remote];
        self.is_of_python && KINDS.get(number) == Some(&self.kind)
    }

    /// Whether its records are frames of CAN.
    pub(super) fn is_can(&self) -> bool {
        self.kind != Kind::Other
    }

    fn read_channels(&mut self, blocks: &mut Blocks, mut at: u64, depth: u8) -> Result<(), Fault> {
        while at != 0 {
            let channel = blocks.block_of(at, b"CN")?;
            let types: [u8; 2] = blocks.data(&channel)?;
            let name = blocks.text(channel.link(2))?;
            if types == [MASTER, TIME] {
                self.time = Field::read(blocks, &channel)?;
            } else if let Some((kind, member)) = name.split_once('.')
                && let Some(kind) = kind_of(kind)
            {
                self.kind = kind;
                if let Some(field) = self.member(member) {
                    *field = Field::read(blocks, &channel)?;
                }
            } else if let Some(kind) = kind_of(&name) {
                self.kind = kind;
            }
            if depth < MAX_DEPTH {
                self.read_channels(blocks, channel.link(1), depth + 1)?;
            }
            at = channel.link(0);
        }
        Ok(())
    }

    fn member(&mut self, name: &str) -> Option<&mut Field> {
        Some(match name {
            "ID" => &mut self.id,
            "IDE" => &mut self.is_extended,
            "BusChannel" => &mut self.channel,
            "DataLength" => &mut self.length,
            "DLC" => &mut self.dlc,
            "DataBytes" => &mut self.data,
            "Dir" => &mut self.direction,
            "EDL" => &mut self.is_fd,
            "BRS" => &mut self.switches_rate,
            "ESI" => &mut self.indicates_error,
            _ => return None,
        })
    }

    /// Nanoseconds from the start of the measurement on.
    pub(super) fn since_ns(&self, record: &[u8]) -> i64 {
        // Saturates, and what is no number is 0.
        (self.time.value(record) * 1e9).round() as i64
    }

    /// The number of the bus, from 1; 1 if the record does not say.
    pub(super) fn channel(&self, record: &[u8]) -> u32 {
        if !self.channel.is_there() {
            return 1;
        }
        u32::try_from(self.channel.integer(record)).unwrap_or(u32::MAX)
    }

    pub(super) fn direction(&self, record: &[u8]) -> Direction {
        match self.direction.integer(record) == 1 {
            true => Direction::Transmitted,
            false => Direction::Received,
        }
    }

    /// The frame in a record.
    pub(super) fn raw(&self, record: &[u8]) -> Raw {
        let is = |field: &Field| field.integer(record) != 0;
        let flag = |field: &Field, flag: u8| if is(field) { flag } else { 0 };
        let id = self.id.integer(record) as u32;
        // In files without IDE the highest bit of 32 says it.
        let is_extended =
            is(&self.is_extended) || !self.is_extended.is_there() && id & EFF_FLAG != 0;
        let mask = if self.is_extended.is_there() { u32::MAX } else { EFF_MASK };
        let is_fd = is(&self.is_fd);
        let dlc = self.dlc.integer(record).min(15) as u8;
        let len = match self.length.is_there() {
            true => self.length.integer(record).min(MAX_DATA as u64) as usize,
            false => {
                usize::from(FD_LENGTHS[usize::from(dlc)]).min(if is_fd { MAX_DATA } else { 8 })
            }
        };
        Raw {
            kind: self.kind,
            can_id: id & mask | if is_extended { EFF_FLAG } else { 0 },
            fd_flags: is_fd
                .then(|| flag(&self.switches_rate, BRS) | flag(&self.indicates_error, ESI)),
            dlc,
            len,
            data: match self.data.elsewhere {
                Some(stream) => Data::Elsewhere(stream, self.data.integer(record)),
                None => Data::Here(self.bytes(record)),
            },
        }
    }

    /// What the record has of the data; the rest is zero.
    fn bytes(&self, record: &[u8]) -> [u8; MAX_DATA] {
        let mut bytes = [0; MAX_DATA];
        let there = record.get(self.data.byte..).unwrap_or_default();
        let len = there.len().min(MAX_DATA).min(self.data.bits as usize / 8);
        bytes[..len].copy_from_slice(&there[..len]);
        bytes
    }
}

fn kind_of(name: &str) -> Option<Kind> {
    match name {
        "CAN_DataFrame" => Some(Kind::Data),
        "CAN_RemoteFrame" => Some(Kind::Remote),
        "CAN_ErrorFrame" => Some(Kind::Error),
        _ => None,
    }
}

impl Raw {
    /// The frame, if `data` is its data.
    pub(super) fn frame(&self, data: &[u8; MAX_DATA]) -> Result<Frame, Reason> {
        let (short, _) = data.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        match (self.kind, self.fd_flags) {
            (Kind::Error | Kind::Other, _) => error_report(),
            (Kind::Remote, _) => classical(self.can_id | RTR_FLAG, self.dlc, &[0; 8]),
            (Kind::Data, None) if self.len < 8 => {
                Frame::from_parts(self.can_id, &data[..self.len], None)
            }
            (Kind::Data, None) => classical(self.can_id, self.dlc.max(8), short),
            (Kind::Data, flags) => Frame::from_parts(self.can_id, &data[..self.len], flags),
        }
        .map_err(Reason::Frame)
    }
}
