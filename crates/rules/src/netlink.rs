//! The bytes of can-gw jobs on rtnetlink (`include/uapi/linux/can/gw.h`), both ways.
//!
//! ```text
//!  Table -- requests --> payloads of RTM_NEWROUTE --> kernel
//!                        (for RTM_DELROUTE too)          |
//!  Job, Counters <-- decode -- payloads of the dump that answers RTM_GETROUTE
//!
//!  payload:   | family 29 | type 1 | flags (2) |  attributes: | length (2) | kind (2) | value | padding to 4 |
//! ```
//!
//! Numbers are in the order of the machine. Sending them is `candor_linux::netlink`'s part.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use candor_wire::can::frame::ERR_FLAG;

use crate::job::{CLASSICAL_LEN, Inexpressible, Job, plan};
use candor_engine::edit::{Crc8, Crc8Profile, Edit, Operands, Operator, Range, XorChecksum};
use candor_engine::{BusIndex, Filter, Table};

/// `AF_CAN`, `linux/socket.h`.
const FAMILY: u8 = 29;
/// `CGW_TYPE_CAN_CAN`.
const CAN_TO_CAN: u8 = 1;
/// Bytes of `struct rtcanmsg`.
const HEADER_LEN: usize = 4;
/// Bytes before the value of an attribute.
const ATTRIBUTE_LEN: usize = 4;
/// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`, flags in the kind of an attribute (`linux/netlink.h`).
const KIND_FLAGS: u16 = 0xC000;

/// `CGW_FLAGS_CAN_...`
mod flag {
    pub(super) const ECHO: u16 = 0x01;
    pub(super) const SOURCE_STAMP: u16 = 0x02;
    pub(super) const RETURN: u16 = 0x04;
    pub(super) const FD: u16 = 0x08;
}

/// `CGW_...`, the kinds of attributes.
mod kind {
    /// `CGW_MOD_AND`, followed by OR, XOR and SET.
    pub(super) const MODIFICATIONS: u16 = 1;
    pub(super) const XOR_CHECKSUM: u16 = 5;
    pub(super) const CRC8: u16 = 6;
    pub(super) const HANDLED: u16 = 7;
    pub(super) const DROPPED: u16 = 8;
    pub(super) const SOURCE: u16 = 9;
    pub(super) const DESTINATION: u16 = 10;
    pub(super) const FILTER: u16 = 11;
    pub(super) const DELETED: u16 = 12;
    pub(super) const LIMIT_HOPS: u16 = 13;
    pub(super) const UID: u16 = 14;
    /// `CGW_FDMOD_AND`, followed by OR, XOR and SET.
    pub(super) const FD_MODIFICATIONS: u16 = 15;
}

/// `CGW_MOD_...`, what of a frame an operation is for.
mod element {
    pub(super) const ID: u8 = 0x01;
    pub(super) const LEN: u8 = 0x02;
    pub(super) const DATA: u8 = 0x04;
    pub(super) const FLAGS: u8 = 0x08;
}

/// A request for the kernel, and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The index of the rule in its table.
    pub rule: usize,
    /// The index of the destination in [`candor_engine::Rule::to`].
    pub destination: usize,
    /// The job, with the kernel's interfaces.
    pub job: Job<u32>,
    /// The payload of RTM_NEWROUTE, or of RTM_DELROUTE.
    pub payload: Vec<u8>,
}

/// The requests that make can-gw do what the rules say, **in the order in which they must be sent**.
/// `interface` tells the kernel's index of a bus.
///
/// The kernel puts the newest job first in each of its lists; in a table, what is written first
/// fires first. So the last job comes first here, and a dump of the kernel's jobs lists them in the
/// reverse of this order: as they are written.
///
/// # Errors
/// Every rule that the kernel cannot do.
pub fn requests(
    table: &Table,
    interface: impl Fn(BusIndex) -> u32,
) -> Result<Vec<Request>, Vec<Inexpressible>> {
    let planned = plan(table)?.into_iter().rev().map(|planned| {
        let job = planned.job.with_interfaces(&interface);
        let payload = encode(&job);
        Request { rule: planned.rule, destination: planned.destination, job, payload }
    });
    Ok(planned.collect())
}

/// The payload of the RTM_DELROUTE that deletes all jobs of the network namespace.
#[must_use]
pub fn delete_all() -> Vec<u8> {
    let mut payload = vec![FAMILY, CAN_TO_CAN, 0, 0];
    attribute(&mut payload, kind::SOURCE, &[0; 4]);
    attribute(&mut payload, kind::DESTINATION, &[0; 4]);
    payload
}

/// The payload for a job.
#[must_use]
pub fn encode(job: &Job<u32>) -> Vec<u8> {
    let flags = [
        (flag::ECHO, job.echo),
        (flag::SOURCE_STAMP, job.keep_timestamp),
        (flag::RETURN, job.allow_return),
        (flag::FD, job.is_fd),
    ];
    let flags =
        flags.iter().fold(0, |flags, &(bit, is_set)| if is_set { flags | bit } else { flags });
    let mut payload = vec![FAMILY, CAN_TO_CAN];
    payload.extend(u16::to_ne_bytes(flags));
    for (kind, operator) in modifications(job.is_fd) {
        let operands = job.edit.operands(operator);
        if !operands.is_empty() {
            attribute(&mut payload, kind, &encode_operands(operands, job.is_fd));
        }
    }
    if let Some(crc8) = &job.edit.crc8 {
        attribute(&mut payload, kind::CRC8, &encode_crc8(crc8));
    }
    if let Some(XorChecksum { range, init }) = job.edit.xor_checksum {
        let [from, to, result] = encode_range(range);
        attribute(&mut payload, kind::XOR_CHECKSUM, &[from, to, result, init]);
    }
    if job.uid != 0 {
        attribute(&mut payload, kind::UID, &job.uid.to_ne_bytes());
    }
    if let Some(hops) = job.limit_hops {
        attribute(&mut payload, kind::LIMIT_HOPS, &[hops]);
    }
    if job.filter != Filter::ANY {
        attribute(&mut payload, kind::FILTER, &encode_filter(job.filter));
    }
    attribute(&mut payload, kind::SOURCE, &job.from.to_ne_bytes());
    attribute(&mut payload, kind::DESTINATION, &job.to.to_ne_bytes());
    payload
}

/// The attributes for the four operators.
fn modifications(is_fd: bool) -> impl Iterator<Item = (u16, Operator)> {
    let first = if is_fd { kind::FD_MODIFICATIONS } else { kind::MODIFICATIONS };
    (first..).zip(Operator::ALL)
}

fn attribute(payload: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // No value is longer than the 282 bytes of a CRC8.
    payload.extend(((ATTRIBUTE_LEN + value.len()) as u16).to_ne_bytes());
    payload.extend(kind.to_ne_bytes());
    payload.extend_from_slice(value);
    payload.resize(payload.len().next_multiple_of(4), 0);
}

/// `struct cgw_frame_mod` or `struct cgw_fdframe_mod`: a frame made of the operands, and what of it
/// counts.
fn encode_operands(operands: &Operands, is_fd: bool) -> Vec<u8> {
    let data_len = if is_fd { 64 } else { CLASSICAL_LEN };
    let Operands { can_id, len, flags, data } = operands;
    let elements = [
        (element::ID, can_id.is_some()),
        (element::LEN, len.is_some()),
        (element::DATA, data.is_some()),
        (element::FLAGS, flags.is_some() && is_fd),
    ];
    let mut bytes = Vec::with_capacity(8 + data_len + 1);
    bytes.extend(can_id.unwrap_or(0).to_ne_bytes());
    bytes.extend([len.unwrap_or(0), flags.filter(|_| is_fd).unwrap_or(0), 0, 0]);
    let data = data.as_deref().map_or(&[0; 64][..], |data| &data[..]);
    bytes.extend_from_slice(&data[..data_len]);
    let given = elements.iter().filter(|(_, is_given)| *is_given);
    bytes.push(given.fold(0, |all, (bit, _)| all | bit));
    bytes
}

/// The first three bytes of `struct cgw_csum_xor` and `struct cgw_csum_crc8`.
const fn encode_range(range: Range) -> [u8; 3] {
    [range.from.cast_unsigned(), range.to.cast_unsigned(), range.result.cast_unsigned()]
}

/// `struct cgw_csum_crc8`.
fn encode_crc8(crc8: &Crc8) -> Vec<u8> {
    let mut profile_data = [0; 20];
    let profile = match &crc8.profile {
        Crc8Profile::Plain => 0,
        Crc8Profile::OneByte(byte) => {
            profile_data[0] = *byte;
            1
        }
        Crc8Profile::ByCounter(bytes) => {
            profile_data[..16].copy_from_slice(bytes);
            2
        }
        Crc8Profile::IdXor => 3,
    };
    let mut bytes = encode_range(crc8.range).to_vec();
    bytes.extend([crc8.init, crc8.final_xor]);
    bytes.extend_from_slice(&crc8.table[..]);
    bytes.push(profile);
    bytes.extend(profile_data);
    bytes
}

/// `struct can_filter`, in which bit 29 of the identifier inverts (`CAN_INV_FILTER`).
fn encode_filter(filter: Filter) -> [u8; 8] {
    let inverts = if filter.inverted { ERR_FLAG } else { 0 };
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(filter.can_id | inverts).to_ne_bytes());
    bytes[4..].copy_from_slice(&filter.mask.to_ne_bytes());
    bytes
}

/// What a job counted since it was added (modulo 2^32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Copies that the queue of the destination took.
    pub handled: u32,
    /// Copies that it did not take, or for which there was no memory.
    pub dropped: u32,
    /// Frames that had passed too often, or grew too long.
    pub deleted: u32,
}

/// Why bytes are no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The offset in the payload.
    pub at: usize,
    pub reason: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a can-gw job: {} at byte {} of the kernel's answer", self.reason, self.at)
    }
}

impl core::error::Error for DecodeError {}

/// Reads a job of a dump: the payload of a message of RTM_NEWROUTE. Attributes of newer kernels are
/// passed over.
///
/// # Errors
/// Anything that [`encode`] could not have made and that the kernel would not have added.
pub fn decode(payload: &[u8]) -> Result<(Job<u32>, Counters), DecodeError> {
    let fail = |at, reason| Err(DecodeError { at, reason });
    let Some((&[family, gateway, flags @ ..], _)) = payload.split_first_chunk::<HEADER_LEN>()
    else {
        return fail(payload.len(), "the header is incomplete");
    };
    if family != FAMILY {
        return fail(0, "another family");
    }
    if gateway != CAN_TO_CAN {
        return fail(1, "another type of gateway");
    }
    let flags = u16::from_ne_bytes(flags);
    let mut job = Job {
        from: 0,
        to: 0,
        is_fd: flags & flag::FD != 0,
        filter: Filter::ANY,
        edit: Edit::default(),
        echo: flags & flag::ECHO != 0,
        keep_timestamp: flags & flag::SOURCE_STAMP != 0,
        allow_return: flags & flag::RETURN != 0,
        limit_hops: None,
        uid: 0,
    };
    let mut counters = Counters::default();
    let mut at = HEADER_LEN;
    while at < payload.len() {
        let Some((kind, value, next)) = attribute_at(payload, at) else {
            return fail(at, "an attribute is incomplete");
        };
        let is_taken = take(&mut job, &mut counters, kind, value);
        if is_taken.is_none() {
            return fail(at, "an attribute has an unknown form");
        }
        at = next;
    }
    if job.from == 0 || job.to == 0 {
        return fail(at, "an interface is missing");
    }
    Ok((job, counters))
}

/// Kind and value of the attribute at `at`, and where the next one begins.
fn attribute_at(payload: &[u8], at: usize) -> Option<(u16, &[u8], usize)> {
    let rest = payload.get(at..)?;
    let &[l0, l1, k0, k1] = rest.first_chunk::<ATTRIBUTE_LEN>()?;
    let len = usize::from(u16::from_ne_bytes([l0, l1]));
    let kind = u16::from_ne_bytes([k0, k1]) & !KIND_FLAGS;
    Some((kind, rest.get(ATTRIBUTE_LEN..len)?, at + len.next_multiple_of(4)))
}

/// Takes one attribute; `None` if its value is not what it should be.
fn take(job: &mut Job<u32>, counters: &mut Counters, kind: u16, value: &[u8]) -> Option<()> {
    let number = || value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    match kind {
        kind::HANDLED => counters.handled = number()?,
        kind::DROPPED => counters.dropped = number()?,
        kind::DELETED => counters.deleted = number()?,
        kind::SOURCE => job.from = number()?,
        kind::DESTINATION => job.to = number()?,
        kind::UID => job.uid = number()?,
        kind::LIMIT_HOPS => job.limit_hops = Some(*value.first()?),
        kind::FILTER => job.filter = decode_filter(value)?,
        kind::XOR_CHECKSUM => {
            let &[from, to, result, init] = value.first_chunk()?;
            let range = decode_range([from, to, result]);
            job.edit.xor_checksum = Some(XorChecksum { range, init });
        }
        kind::CRC8 => job.edit.crc8 = Some(decode_crc8(value)?),
        _ => {
            let modification = modifications(job.is_fd).find(|(own, _)| *own == kind);
            if let Some((_, operator)) = modification {
                *job.edit.operands_mut(operator) = decode_operands(value, job.is_fd, operator)?;
            }
        }
    }
    Some(())
}

fn decode_operands(value: &[u8], is_fd: bool, operator: Operator) -> Option<Operands> {
    let (&[i0, i1, i2, i3, len, flags, _, _], rest) = value.split_first_chunk()?;
    let (data, rest) = rest.split_at_checked(if is_fd { 64 } else { CLASSICAL_LEN })?;
    let elements = *rest.first()?;
    let has = |element: u8| elements & element != 0;
    Some(Operands {
        can_id: has(element::ID).then_some(u32::from_ne_bytes([i0, i1, i2, i3])),
        len: has(element::LEN).then_some(len),
        flags: (has(element::FLAGS) && is_fd).then_some(flags),
        data: has(element::DATA).then(|| operator.operand(data)),
    })
}

const fn decode_range([from, to, result]: [u8; 3]) -> Range {
    Range { from: from.cast_signed(), to: to.cast_signed(), result: result.cast_signed() }
}

fn decode_crc8(value: &[u8]) -> Option<Crc8> {
    let (&[from, to, result, init, final_xor], rest) = value.split_first_chunk()?;
    let (table, rest) = rest.split_first_chunk::<256>()?;
    let (profile, data) = rest.split_first()?;
    let profile = match profile {
        0 => Crc8Profile::Plain,
        1 => Crc8Profile::OneByte(*data.first()?),
        2 => Crc8Profile::ByCounter(*data.first_chunk()?),
        3 => Crc8Profile::IdXor,
        _ => return None,
    };
    let range = decode_range([from, to, result]);
    Some(Crc8 { range, init, final_xor, table: Box::new(*table), profile })
}

fn decode_filter(value: &[u8]) -> Option<Filter> {
    let (can_id, rest) = value.split_first_chunk()?;
    let (can_id, mask) = (u32::from_ne_bytes(*can_id), u32::from_ne_bytes(*rest.first_chunk()?));
    let inverted = can_id & ERR_FLAG != 0 && mask & ERR_FLAG == 0;
    let can_id = if inverted { can_id & !ERR_FLAG } else { can_id };
    Some(Filter { can_id, mask, inverted })
}

#[cfg(test)]
mod tests;
