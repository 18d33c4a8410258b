//! The capture file of Wireshark (draft-ietf-opsawg-pcapng) with packets of CAN, Ethernet, or any interface (`link.rs`).
//!
//! A file is a row of blocks, each with its type and its length, the length repeated at its end:
//!
//! | block | type | what is read |
//! |---|--:|---|
//! | section header | `0a0d0d0a` | order of the bytes; interfaces count from 0 again |
//! | interface description | 1 | link type, name, resolution and offset of times |
//! | enhanced packet | 6 | interface, time, packet, direction |
//! | packet (obsolete) | 2 | the same |
//! | simple packet | 3 | packet; interface 0, at the time of the packet before |
//! | names, statistics, secrets | 4, 5, 10 | passed over |
//! | others | | passed over and counted |
//!
//! Packets of other link types are passed over and counted, and so are those that the recorder flags as wrong on the link, such as by
//! their checksum (bits 16 to 31 of the flags): no receiver took them for a frame. Interfaces of the same name are the same
//! interface, also in different sections; one without a name is called `can0`, `can1`, ... by its number,
//! or `eth0`, `eth1`, ... if it is of Ethernet; packets that have the number of their interface are of `if7`.
//!
//! CAN frames in datagrams of can2udp have interfaces of their own: see [`CanUdp`](crate::CanUdp).
//!
//! Written are little-endian blocks with times in nanoseconds, an interface description before the
//! first packet of each interface.

use super::link::{Found, Link, MORE_THAN_THERE_WAS, original_len, read_can};
use super::order::Order;
use super::{Format, Labels, usual};
use crate::can_udp::CanUdpReader;
use crate::decode::{
    CUT, DecodeError, Decoder, MAX_RECORD_LEN, PassedOver, Position, ReadError, Reason, Step,
};
use crate::encode::{EncodeError, Encoder, NANOS_PER_SECOND};
use crate::input::Input;
use crate::record::{
    Direction, InterfaceIndex, Interfaces, MAX_INTERFACES, Packet, PacketSpan, Record,
};
use candor_wire::can::socketcan::{self, IdOrder};

pub(super) static FORMAT: Format = Format {
    name: "pcapng",
    title: "pcapng capture",
    endings: &["pcapng"],
    labels: Labels::Names,
    keeps_ethernet: true,
    keeps_error_reports: true,
    is_written: true,
    begins: |head| head.starts_with(&SECTION_HEADER.to_be_bytes()),
    encoder: |out| Box::new(PcapngEncoder::new(out)),
    ..usual(|can_udp| {
        Box::new(PcapngDecoder { can_udp: CanUdpReader::new(can_udp), ..PcapngDecoder::default() })
    })
};

/// Reads the same in both orders.
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Blocks without packets and events: headers of sections, names, statistics, secrets.
const SILENT: [u32; 4] = [SECTION_HEADER, 4, 5, 10];
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// Type and length.
const BLOCK_HEADER_LEN: usize = 8;
/// Type, length, and the length again.
const MIN_BLOCK_LEN: u32 = 12;
/// Where the options of an interface description begin.
const INTERFACE_OPTIONS: usize = 16;
/// Where the packet begins in an enhanced packet block, and in the obsolete one.
const PACKET_AT: usize = 28;
/// Where the packet begins in a simple packet block.
const SIMPLE_PACKET_AT: usize = 12;

const OPTION_END: u16 = 0;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_IF_TSOFFSET: u16 = 14;
/// The same number in both packet blocks: bits 0 and 1 are the direction.
const OPTION_FLAGS: u16 = 2;
/// Errors of the link layer, such as a wrong checksum (bit 24) or symbol (31).
const ERRORS: u32 = 0xFFFF_0000;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

#[derive(Default)]
struct PcapngDecoder {
    /// The order of the bytes, once a section header gave it.
    order: Option<Order>,
    /// The interfaces described in this section; `None` if they are neither CAN nor Ethernet.
    section: Vec<Option<SectionInterface>>,
    interfaces: Interfaces,
    can_udp: CanUdpReader,
    other_packets: u64,
    /// The time of the packet before, for blocks that have none.
    latest_ns: u64,
    /// Packets consumed so far, those of other protocols included.
    packets: u64,
    /// How much of a block that does not matter is still to come, and how long the block says that it is.
    skipping: u64,
    skipped_len: u32,
}

#[derive(Clone, Copy)]
struct SectionInterface {
    index: InterfaceIndex,
    link: Link,
    snap_len: u32,
    resolution: Resolution,
    offset_s: i64,
}

impl Decoder for PcapngDecoder {
    fn next(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        if self.skipping > 0 {
            return self.skip(input);
        }
        let Some(block) = self.block_header(input)? else {
            return Ok(Step::End);
        };
        let is_packet = matches!(block.kind, ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET);
        let is_known = SILENT.contains(&block.kind) || block.kind == INTERFACE_DESCRIPTION;
        if !is_packet && !is_known {
            self.other_packets += 1;
        }
        if is_packet || block.kind == INTERFACE_DESCRIPTION {
            if is_packet && self.is_passed_over(block, input.window()) {
                self.other_packets += 1;
                self.packets += 1;
            } else {
                return self.whole_block(block, input);
            }
        }
        (self.skipping, self.skipped_len) = (u64::from(block.len), block.len);
        self.skip(input)
    }

    fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver { other_packets: self.other_packets, ..PassedOver::default() }
    }
}

/// The start of a block.
#[derive(Clone, Copy)]
struct Block {
    order: Order,
    kind: u32,
    /// All of it, a multiple of four.
    len: u32,
}

impl PcapngDecoder {
    /// An error in a packet, or in another block if `is_packet` is false.
    fn error(&self, offset: u64, is_packet: bool, reason: Reason) -> DecodeError {
        let record = if is_packet { self.packets + 1 } else { 0 };
        DecodeError { position: Position::Binary { offset, record }, reason, resume: None }
    }

    fn cut(&self, is_packet: bool, input: &Input) -> ReadError {
        let resume = Some(input.window().len());
        DecodeError { resume, ..self.error(input.offset(), is_packet, CUT) }.into()
    }

    /// The next bytes, which have to be there.
    fn whole<'a>(&self, input: &'a mut Input, len: usize) -> Result<&'a [u8], ReadError> {
        if input.fill(len)?.len() >= len {
            return Ok(&input.window()[..len]);
        }
        if self.order.is_some() {
            return Err(self.cut(true, input));
        }
        let reason = Reason::Text("the file ends inside its header; record it again");
        Err(self.error(input.offset(), false, reason).into())
    }

    fn skip(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        // The length again, at its end.
        let before = self.skipping.saturating_sub(4);
        let window = input.fill(if before > 0 { 1 } else { 4 })?;
        let consumed = if before > 0 { before.min(window.len() as u64) as usize } else { 4 };
        if window.len() < consumed || window.is_empty() {
            self.skipping = 0;
            return Err(self.cut(false, input));
        }
        let has_length = |order: Order| order.u32(window, 0) == self.skipped_len;
        if before == 0 && !self.order.is_some_and(has_length) {
            let begin = input.offset() - (u64::from(self.skipped_len) - 4);
            return Err(self.error(begin, false, TWO_LENGTHS).into());
        }
        self.skipping -= consumed as u64;
        input.consume(consumed);
        Ok(Step::Skip)
    }

    /// Reads the header of the next block, and begins a section if it is one; `None` at the end.
    fn block_header(&mut self, input: &mut Input) -> Result<Option<Block>, ReadError> {
        let offset = input.offset();
        let fatal = |decoder: &Self, reason| decoder.error(offset, false, reason);
        if self.order.is_some() && input.fill(1)?.is_empty() {
            return Ok(None);
        }
        let window = self.whole(input, MIN_BLOCK_LEN as usize)?;
        let is_section = Order::Big.u32(window, 0) == SECTION_HEADER;
        let order = if is_section {
            [Order::Big, Order::Little]
                .into_iter()
                .find(|order| order.u32(window, BLOCK_HEADER_LEN) == BYTE_ORDER_MAGIC)
        } else {
            self.order
        };
        let no_pcapng = "this is not a pcapng file; check the file and name its format";
        let order = order.ok_or_else(|| fatal(self, Reason::Text(no_pcapng)))?;
        let block = Block { order, kind: order.u32(window, 0), len: order.u32(window, 4) };
        if block.len < MIN_BLOCK_LEN || !block.len.is_multiple_of(4) {
            let reason = Reason::Number(
                "the block has ",
                u64::from(block.len),
                " bytes, but they must be at least 12 and a multiple of 4; the file is damaged from here on",
            );
            return Err(fatal(self, reason).into());
        }
        if is_section {
            let major = order.u16(self.whole(input, 16)?, 12);
            if major != 1 {
                let reason = Reason::Number(
                    "pcapng version ",
                    u64::from(major),
                    " is not supported, only 1; convert the file with `editcap -F pcapng`",
                );
                return Err(fatal(self, reason).into());
            }
            self.order = Some(order);
            self.section.clear();
        }
        Ok(Some(block))
    }

    /// Whether this packet block is of another protocol, or longer than any frame of Ethernet. At least 12 bytes
    /// of it are there, which is enough.
    fn is_passed_over(&self, block: Block, bytes: &[u8]) -> bool {
        match self.section.get(block.interface(bytes)) {
            Some(Some(interface)) => {
                interface.link.has_long_packets() && block.len as usize > MAX_RECORD_LEN
            }
            Some(None) => true,
            None => false,
        }
    }

    /// An interface description or a packet: a block that has to be there as a whole.
    fn whole_block(&mut self, block: Block, input: &mut Input) -> Result<Step, ReadError> {
        let is_packet = block.kind != INTERFACE_DESCRIPTION;
        let (len, offset) = (block.len as usize, input.offset());
        if len > MAX_RECORD_LEN {
            let reason = Reason::Number(
                "the block has ",
                u64::from(block.len),
                " bytes, more than any CAN frame; the file is damaged from here on",
            );
            return Err(self.error(offset, is_packet, reason).into());
        }
        let (body, again) = self.whole(input, len)?.split_at(len - 4);
        if block.order.u32(again, 0) != block.len {
            return Err(self.error(offset, is_packet, TWO_LENGTHS).into());
        }
        let step = match is_packet {
            true => self.packet(block, body),
            false => self.interface(block.order, body).map(|()| Step::Skip),
        };
        // Without an interface description the numbers of all later interfaces are wrong.
        let resume = is_packet.then_some(len);
        let step = step.map_err(|it| DecodeError { resume, ..self.error(offset, is_packet, it) });
        self.packets += u64::from(is_packet);
        let step = step?;
        input.consume(len);
        Ok(step)
    }

    /// Reads an interface description without its second length.
    fn interface(&mut self, order: Order, body: &[u8]) -> Result<(), Reason> {
        if self.section.len() == MAX_INTERFACES {
            return Err(Reason::Number(
                "the section has more than ",
                MAX_INTERFACES as u64,
                " interfaces; split the capture",
            ));
        }
        let options = body.get(INTERFACE_OPTIONS..).ok_or(SHORT_BLOCK)?;
        let Some(link) = Link::new(order.u16(body, BLOCK_HEADER_LEN)) else {
            self.section.push(None);
            return Ok(());
        };
        let unnamed = if link == Link::Ethernet { "eth" } else { "can" };
        let index = match option(order, options, OPTION_IF_NAME)? {
            Some(name) if !name.is_empty() => self.interfaces.intern(name),
            _ => self.interfaces.intern(format!("{unnamed}{}", self.section.len()).as_bytes()),
        };
        let resolution = option(order, options, OPTION_IF_TSRESOL)?.and_then(<[u8]>::first);
        let offset_s = option(order, options, OPTION_IF_TSOFFSET)?.filter(|value| value.len() == 8);
        self.section.push(Some(SectionInterface {
            index: index.map_err(Reason::Interface)?,
            link,
            snap_len: order.u32(body, 12),
            resolution: resolution.map_or(Ok(Resolution::MICROS), |&byte| Resolution::new(byte))?,
            offset_s: offset_s.map_or(0, |value| order.u64(value, 0) as i64),
        }));
        Ok(())
    }

    /// Reads a packet block without its second length.
    fn packet(&mut self, block: Block, body: &[u8]) -> Result<Step, Reason> {
        let order = block.order;
        let number = block.interface(body);
        let Some(&Some(interface)) = self.section.get(number) else {
            return Err(Reason::Number(
                "the packet is of interface ",
                number as u64,
                ", which was not described before; the capture is damaged",
            ));
        };
        if block.kind == SIMPLE_PACKET {
            let original_len = order.u32(body, BLOCK_HEADER_LEN);
            let data = body.get(SIMPLE_PACKET_AT..).ok_or(SHORT_BLOCK)?;
            let limit = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
            let captured_len = data.len().min(original_len.min(limit) as usize);
            let frame = PacketSpan { start: SIMPLE_PACKET_AT, len: captured_len, original_len };
            return self.step((order, interface), self.latest_ns, None, frame, body);
        }
        let rest = body.get(PACKET_AT..).ok_or(SHORT_BLOCK)?;
        let original_len = original_len(order.u32(body, 24), order.u32(body, 20));
        let captured_len = order.u32(body, 20) as usize;
        let options = rest.get(captured_len.next_multiple_of(4)..).ok_or(SHORT_BLOCK)?;
        let ticks = u64::from(order.u32(body, 12)) << 32 | u64::from(order.u32(body, 16));
        let time_ns = interface.time_ns(ticks).ok_or(BAD_TIME)?;
        let flags = option(order, options, OPTION_FLAGS)?.filter(|value| value.len() == 4);
        let flags = flags.map_or(0, |value| order.u32(value, 0));
        let direction = match flags & 3 {
            INBOUND => Some(Direction::Received),
            OUTBOUND => Some(Direction::Transmitted),
            _ => None,
        };
        let frame = PacketSpan { start: PACKET_AT, len: captured_len, original_len };
        if captured_len > frame.original_len as usize {
            return Err(MORE_THAN_THERE_WAS);
        }
        if flags & ERRORS != 0 {
            self.other_packets += 1;
            self.latest_ns = time_ns;
            return Ok(Step::Skip);
        }
        let step = self.step((order, interface), time_ns, direction, frame, body)?;
        self.latest_ns = time_ns;
        Ok(step)
    }

    /// What the packet at `span` of the block `body` is.
    fn step(
        &mut self,
        (order, interface): (Order, SectionInterface),
        time_ns: u64,
        direction: Option<Direction>,
        span: PacketSpan,
        body: &[u8],
    ) -> Result<Step, Reason> {
        let record = Record { time_ns, interface: interface.index, direction, frame: span };
        let packet = span.slice(body);
        if interface.link == Link::Ethernet {
            return Ok(match self.can_udp.read(packet, &mut self.interfaces)? {
                Some((interface, frame)) => {
                    let record = Record { time_ns, interface, direction, frame };
                    Step::Record(record)
                }
                None => Step::Ethernet(record),
            });
        }
        if interface.link == Link::Can {
            let frame = read_can(packet.bytes, span.original_len)?;
            return Ok(Step::Record(record.map(|_| frame)));
        }
        let found = interface.link.read_cooked(order, packet.bytes, span.original_len)?;
        let Some(Found { interface: number, direction: way, frame }) = found else {
            self.other_packets += 1;
            return Ok(Step::Skip);
        };
        let interface = match number {
            Some(number) => self.interfaces.intern(format!("if{number}").as_bytes()),
            None => Ok(interface.index),
        };
        let interface = interface.map_err(Reason::Interface)?;
        let record = Record { time_ns, interface, direction: direction.or(way), frame };
        Ok(Step::Record(record))
    }
}

const TWO_LENGTHS: Reason =
    Reason::Text("the two lengths of the block differ; the file is damaged from here on");
const SHORT_BLOCK: Reason =
    Reason::Text("the block is shorter than its lengths say; the capture is damaged");
const BAD_TIME: Reason = Reason::Text(
    "the time is before 1970 or after 18446744073 s; correct the capture with `editcap -t`",
);

impl Block {
    /// The number of the interface a packet block belongs to; 12 bytes of it are there.
    fn interface(self, bytes: &[u8]) -> usize {
        match self.kind {
            ENHANCED_PACKET => self.order.u32(bytes, BLOCK_HEADER_LEN) as usize,
            OBSOLETE_PACKET => usize::from(self.order.u16(bytes, BLOCK_HEADER_LEN)),
            _ => 0,
        }
    }
}

/// The first option with this code.
fn option(order: Order, mut options: &[u8], code: u16) -> Result<Option<&[u8]>, Reason> {
    while options.len() >= 4 {
        let (found, len) = (order.u16(options, 0), usize::from(order.u16(options, 2)));
        if found == OPTION_END {
            break;
        }
        let value = options.get(4..4 + len).ok_or(SHORT_BLOCK)?;
        if found == code {
            return Ok(Some(value));
        }
        options = options.get(4 + len.next_multiple_of(4)..).ok_or(SHORT_BLOCK)?;
    }
    Ok(None)
}

/// How long a tick of an interface's clock is: 10 or 2 to the power of minus something.
#[derive(Clone, Copy)]
enum Resolution {
    Decimal(u32),
    Binary(u32),
}

impl Resolution {
    const MICROS: Self = Self::Decimal(6);
    /// 10 to this power is the last that 128 bits hold.
    const MAX_DECIMAL: u32 = 38;

    fn new(byte: u8) -> Result<Self, Reason> {
        let exponent = u32::from(byte & 0x7F);
        match byte & 0x80 {
            0 if exponent > Self::MAX_DECIMAL => Err(Reason::Number(
                "times in units of 10^-",
                u64::from(exponent),
                " s are finer than any clock; the capture is damaged",
            )),
            0 => Ok(Self::Decimal(exponent)),
            _ => Ok(Self::Binary(exponent)),
        }
    }

    /// So many ticks in nanoseconds, rounded down.
    fn nanos(self, ticks: u64) -> u128 {
        let ticks = u128::from(ticks);
        match self {
            Self::Decimal(exponent @ ..=9) => ticks * 10_u128.pow(9 - exponent),
            Self::Decimal(exponent) => ticks / 10_u128.pow(exponent - 9),
            Self::Binary(exponent) => (ticks * u128::from(NANOS_PER_SECOND)) >> exponent,
        }
    }
}

impl SectionInterface {
    /// Nanoseconds since 1970, if there are such.
    fn time_ns(self, ticks: u64) -> Option<u64> {
        // At most 10^9 times 2^64, so there is room for the sign.
        let nanos = self.resolution.nanos(ticks) as i128;
        let offset = i128::from(self.offset_s) * i128::from(NANOS_PER_SECOND);
        u64::try_from(nanos + offset).ok()
    }
}

struct PcapngEncoder {
    /// The names of the interfaces described so far.
    names: Interfaces,
    /// What was described, by number in the file: name and link type.
    described: Vec<(InterfaceIndex, u16)>,
}

impl PcapngEncoder {
    fn new(out: &mut Vec<u8>) -> Self {
        put_block(SECTION_HEADER, out, |out| {
            out.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
            out.extend_from_slice(&[1, 0, 0, 0]);
            // The length of the section is not known yet.
            out.extend_from_slice(&[0xFF; 8]);
        });
        Self { names: Interfaces::default(), described: Vec::new() }
    }

    /// The number of an interface, which is described if it is new.
    fn interface(
        &mut self,
        name: &str,
        link_type: u16,
        out: &mut Vec<u8>,
    ) -> Result<u32, EncodeError> {
        let index = self.names.intern(name.as_bytes()).map_err(EncodeError::Interface)?;
        let known = self.described.iter().position(|it| *it == (index, link_type));
        let number = known.unwrap_or_else(|| {
            self.described.push((index, link_type));
            put_interface(name, link_type, out);
            self.described.len() - 1
        });
        Ok(number as u32)
    }
}

impl Encoder for PcapngEncoder {
    fn encode(
        &mut self,
        record: &Record,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let number = self.interface(interface, Link::CAN_TYPE, out)?;
        let (bytes, len) = socketcan::encode(&record.frame, IdOrder::BigEndian);
        let packet = Packet { bytes: &bytes[..len], original_len: len as u32 };
        put_packet(number, &record.map(|_| packet), out);
        Ok(())
    }

    fn encode_ethernet(
        &mut self,
        record: &Record<Packet<'_>>,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let number = self.interface(interface, Link::ETHERNET_TYPE, out)?;
        put_packet(number, record, out);
        Ok(())
    }
}

/// Appends a packet of the interface of this number.
fn put_packet(interface: u32, record: &Record<Packet<'_>>, out: &mut Vec<u8>) {
    let Packet { bytes, original_len } = record.frame;
    put_block(ENHANCED_PACKET, out, |out| {
        let (high, low) = ((record.time_ns >> 32) as u32, record.time_ns as u32);
        for number in [interface, high, low, bytes.len() as u32, original_len] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(bytes);
        pad(bytes.len(), out);
        if let Some(direction) = record.direction {
            let flags = match direction {
                Direction::Received => INBOUND,
                Direction::Transmitted => OUTBOUND,
            };
            put_option(OPTION_FLAGS, &flags.to_le_bytes(), out);
            put_option(OPTION_END, &[], out);
        }
    });
}

fn put_interface(name: &str, link_type: u16, out: &mut Vec<u8>) {
    put_block(INTERFACE_DESCRIPTION, out, |out| {
        out.extend_from_slice(&u32::from(link_type).to_le_bytes());
        // No snap length.
        out.extend_from_slice(&[0; 4]);
        put_option(OPTION_IF_NAME, name.as_bytes(), out);
        put_option(OPTION_IF_TSRESOL, &[9], out);
        put_option(OPTION_END, &[], out);
    });
}

/// Appends a block with this body, a multiple of four bytes.
fn put_block(kind: u32, out: &mut Vec<u8>, put_body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    put_body(out);
    let len = ((out.len() - start + 4) as u32).to_le_bytes();
    out.extend_from_slice(&len);
    out[start + 4..start + 8].copy_from_slice(&len);
}

/// Appends an option of at most 65,535 bytes.
fn put_option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(value.len(), out);
}

/// Fills up to the next multiple of four behind `len` bytes.
fn pad(len: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + len.next_multiple_of(4) - len, 0);
}

#[cfg(test)]
mod tests;
