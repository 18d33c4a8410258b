//! [`Edit`]: what a rule does to a frame, in the kernel's fixed order.
//!
//! 1. AND, OR, XOR, SET; within each: identifier, length, flags, data.
//! 2. A length above 8 (classical) or 64 (CAN FD) deletes the frame.
//! 3. CRC8, then the XOR checksum.
//!
//! Identifier operations act on the whole SocketCAN word, flags for extended and remote frames
//! included. Length operations act on bytes; a raw DLC 9..=15 of a classical frame counts as that
//! length. Data operations act on the whole buffer of 8 or 64 bytes, whatever the length is.
//! Everything as in `net/can/gw.c`, with the relative CRC8 as it was meant
//! (fixed by b9c310d72783).

use alloc::boxed::Box;

use candor_wire::can::Frame;
use candor_wire::can::frame::{BRS, ESI};
use candor_wire::can::socketcan::FDF;

/// One of the four operations. They run in the order of this enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Operator {
    /// Keep the bits that are set in the operand.
    And,
    /// Set the bits of the operand.
    Or,
    /// Flip the bits of the operand.
    Xor,
    /// Replace by the operand.
    Set,
}

impl Operator {
    /// All four in the order in which they run.
    pub const ALL: [Self; 4] = [Self::And, Self::Or, Self::Xor, Self::Set];

    /// The name in rule files and explanations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Set => "set",
        }
    }

    /// An operand for the data: `bytes`, then bytes that change nothing.
    pub fn operand(self, bytes: &[u8]) -> Box<[u8; 64]> {
        let neutral = if self == Self::And { 0xFF } else { 0 };
        let mut data = Box::new([neutral; 64]);
        for (byte, &given) in data.iter_mut().zip(bytes) {
            *byte = given;
        }
        data
    }

    const fn word(self, value: u32, operand: u32) -> u32 {
        match self {
            Self::And => value & operand,
            Self::Or => value | operand,
            Self::Xor => value ^ operand,
            Self::Set => operand,
        }
    }

    const fn byte(self, value: u8, operand: u8) -> u8 {
        self.word(value as u32, operand as u32) as u8
    }
}

/// The operands of one operator; a field without operand is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Operands {
    /// For the identifier word.
    pub can_id: Option<u32>,
    /// For the length in bytes.
    pub len: Option<u8>,
    /// For the flags of a CAN FD frame: BRS 1, ESI 2.
    pub flags: Option<u8>,
    /// For the data: 8 bytes count in a classical frame, 64 in a CAN FD frame.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::optional"))]
    pub data: Option<Box<[u8; 64]>>,
}

impl Operands {
    /// Whether no field has an operand.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.can_id.is_none() && self.len.is_none() && self.flags.is_none() && self.data.is_none()
    }
}

/// Where a checksum reads and writes: byte indices, negative ones counted from the end of the
/// frame as it is after the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Range {
    /// First byte that counts.
    pub from: i8,
    /// Last byte that counts; smaller than `from` runs downwards.
    pub to: i8,
    /// The byte that takes the result.
    pub result: i8,
}

impl Range {
    /// The three indices in a frame of `len` bytes; `None` if one lies before the first byte.
    fn resolve(self, len: usize, size: usize) -> Option<[usize; 3]> {
        let index = |index: i8| {
            let index =
                if index < 0 { len as isize + isize::from(index) } else { isize::from(index) };
            usize::try_from(index).ok().filter(|&index| index < size)
        };
        Some([index(self.from)?, index(self.to)?, index(self.result)?])
    }
}

/// XOR over a range (`struct cgw_csum_xor`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct XorChecksum {
    /// Where.
    pub range: Range,
    /// The start value.
    pub init: u8,
}

/// CRC8 over a range (`struct cgw_csum_crc8`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Crc8 {
    /// Where.
    pub range: Range,
    /// The start value.
    pub init: u8,
    /// XORed onto the result.
    pub final_xor: u8,
    /// The next value for each value of register XOR byte.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial"))]
    pub table: Box<[u8; 256]>,
    /// What goes in after the bytes.
    pub profile: Crc8Profile,
}

/// What a CRC8 takes in after the bytes of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Crc8Profile {
    /// Nothing (`CGW_CRC8PRF_UNSPEC`).
    Plain,
    /// One fixed byte (`CGW_CRC8PRF_1U8`).
    OneByte(u8),
    /// One of 16 bytes, chosen by the low four bits of data byte 1 (`CGW_CRC8PRF_16U8`), as in
    /// AUTOSAR E2E.
    ByCounter([u8; 16]),
    /// The low byte of the identifier XOR the next one (`CGW_CRC8PRF_SFFID_XOR`).
    IdXor,
}

impl Crc8 {
    /// The table of a polynomial, most significant bit first.
    #[must_use]
    pub const fn table_of(polynomial: u8) -> [u8; 256] {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut crc = byte as u8;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x80 != 0 { crc << 1 ^ polynomial } else { crc << 1 };
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    }

    pub(crate) fn over(&self, bytes: impl Iterator<Item = u8>, can_id: u32, counter: u8) -> u8 {
        let next = |crc: u8, byte: u8| self.table[usize::from(crc ^ byte)];
        let crc = bytes.fold(self.init, next);
        let crc = match &self.profile {
            Crc8Profile::Plain => crc,
            Crc8Profile::OneByte(byte) => next(crc, *byte),
            Crc8Profile::ByCounter(bytes) => next(crc, bytes[usize::from(counter & 0xF)]),
            Crc8Profile::IdXor => next(crc, (can_id & 0xFF) as u8 ^ (can_id >> 8 & 0xFF) as u8),
        };
        crc ^ self.final_xor
    }
}

/// Everything a rule does to a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Edit {
    /// Operands of [`Operator::And`].
    pub and: Operands,
    /// Operands of [`Operator::Or`].
    pub or: Operands,
    /// Operands of [`Operator::Xor`].
    pub xor: Operands,
    /// Operands of [`Operator::Set`].
    pub set: Operands,
    /// A CRC8 over the result. Only if there is an operation, as in the kernel.
    pub crc8: Option<Crc8>,
    /// An XOR checksum, after the CRC8. Only if there is an operation.
    pub xor_checksum: Option<XorChecksum>,
}

/// The frame outgrew its kind: more than 8 or 64 bytes after the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// One step of an edit, for explanations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An operator on the identifier word; before and after.
    Id(Operator, u32, u32),
    /// An operator on the length; before and after.
    Len(Operator, u8, u8),
    /// An operator on the CAN FD flags; before and after.
    Flags(Operator, u8, u8),
    /// An operator on the data; the buffers before and after.
    Data(Operator, [u8; 64], [u8; 64]),
    /// The CRC8: index, byte before and after; `None` if an index lies before the first byte.
    Crc8(Option<(usize, u8, u8)>),
    /// The XOR checksum, likewise.
    XorChecksum(Option<(usize, u8, u8)>),
    /// The length is more than the kind of frame holds.
    TooLong(u8),
    /// Another message; the identifier words before and after, and its length.
    Message(u32, u32, u8),
    /// An identifier out of a table; the words before and after.
    Remap(u32, u32),
    /// Whatever else writes into the data; its key, the buffers before and after.
    Bytes(&'static str, [u8; 64], [u8; 64]),
    /// The frame changed its kind; whether it is CAN FD now.
    Converted(bool),
}

impl Edit {
    /// The operands of `operator`.
    #[must_use]
    pub const fn operands(&self, operator: Operator) -> &Operands {
        match operator {
            Operator::And => &self.and,
            Operator::Or => &self.or,
            Operator::Xor => &self.xor,
            Operator::Set => &self.set,
        }
    }

    /// The operands of `operator`, to be changed.
    pub const fn operands_mut(&mut self, operator: Operator) -> &mut Operands {
        match operator {
            Operator::And => &mut self.and,
            Operator::Or => &mut self.or,
            Operator::Xor => &mut self.xor,
            Operator::Set => &mut self.set,
        }
    }

    /// Whether there is an operation. Without one the frame passes as it is, checksums or not.
    #[must_use]
    pub fn modifies(&self) -> bool {
        Operator::ALL.iter().any(|&operator| !self.operands(operator).is_empty())
    }

    /// The rewritten frame.
    ///
    /// # Errors
    /// [`TooLong`]: the kernel deletes such a frame.
    // Not within the engine's loop: what an edit prepares would be prepared for every frame.
    #[inline(never)]
    pub fn apply(&self, frame: &Frame) -> Result<Frame, TooLong> {
        self.apply_traced(frame, |_| {})
    }

    /// Like [`Edit::apply`], telling `trace` each step.
    ///
    /// # Errors
    /// [`TooLong`], after a step of that name.
    pub fn apply_traced(
        &self,
        frame: &Frame,
        mut trace: impl FnMut(Step),
    ) -> Result<Frame, TooLong> {
        if !self.modifies() {
            return Ok(*frame);
        }
        let mut working = Working::new(frame);
        for operator in Operator::ALL {
            working.operate(operator, self.operands(operator), &mut trace);
        }
        if working.len > working.longest() {
            trace(Step::TooLong(working.len));
            return Err(TooLong);
        }
        if let Some(crc8) = &self.crc8 {
            working.crc8(crc8, &mut trace);
        }
        if let Some(checksum) = &self.xor_checksum {
            working.xor_checksum(checksum, &mut trace);
        }
        working.finish()
    }
}

/// A frame while it is rewritten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Working {
    /// The identifier word.
    pub(crate) can_id: u32,
    /// The length in bytes; 9 to 15 is a raw DLC of a classical frame.
    pub(crate) len: u8,
    /// The flags of a CAN FD frame; nothing in a classical one.
    pub(crate) flags: u8,
    pub(crate) is_fd: bool,
    /// The whole buffer.
    pub(crate) data: [u8; 64],
}

impl Working {
    pub(crate) const fn new(frame: &Frame) -> Self {
        let is_fd = frame.is_fd();
        let len = match frame.raw_dlc() {
            Some(dlc) => dlc,
            None => frame.len() as u8,
        };
        let flags = if is_fd { frame.fd_flags() | FDF } else { 0 };
        Self { can_id: frame.can_id(), len, flags, is_fd, data: *frame.buffer() }
    }

    /// The size of the buffer that operations work on.
    pub(crate) const fn size(&self) -> usize {
        if self.is_fd { 64 } else { 8 }
    }

    /// The longest length that this kind of frame has.
    pub(crate) const fn longest(&self) -> u8 {
        if self.is_fd { 64 } else { 15 }
    }

    /// The number of bytes that count.
    pub(crate) fn byte_len(&self) -> usize {
        usize::from(if self.is_fd { self.len.min(64) } else { self.len.min(8) })
    }

    pub(crate) fn operate(
        &mut self,
        operator: Operator,
        operands: &Operands,
        trace: &mut impl FnMut(Step),
    ) {
        if let Some(operand) = operands.can_id {
            let before = self.can_id;
            self.can_id = operator.word(before, operand);
            trace(Step::Id(operator, before, self.can_id));
        }
        if let Some(operand) = operands.len {
            let before = self.len;
            self.len = operator.byte(before, operand);
            trace(Step::Len(operator, before, self.len));
        }
        if let (Some(operand), true) = (operands.flags, self.is_fd) {
            let before = self.flags;
            self.flags = operator.byte(before, operand);
            trace(Step::Flags(operator, before & (BRS | ESI), self.flags & (BRS | ESI)));
        }
        if let Some(operand) = &operands.data {
            let before = self.data;
            let size = self.size();
            for (byte, &operand) in self.data[..size].iter_mut().zip(operand.iter()) {
                *byte = operator.byte(*byte, operand);
            }
            trace(Step::Data(operator, before, self.data));
        }
    }

    pub(crate) fn crc8(&mut self, crc8: &Crc8, trace: &mut impl FnMut(Step)) {
        let Self { can_id, data, .. } = *self;
        let done = crc8.range.resolve(self.byte_len(), self.size()).map(|[from, to, result]| {
            let value = crc8.over(in_order(&data, from, to), can_id, data[1]);
            (result, core::mem::replace(&mut self.data[result], value), value)
        });
        trace(Step::Crc8(done));
    }

    pub(crate) fn xor_checksum(&mut self, checksum: &XorChecksum, trace: &mut impl FnMut(Step)) {
        let XorChecksum { range, init } = *checksum;
        let data = self.data;
        let done = range.resolve(self.byte_len(), self.size()).map(|[from, to, result]| {
            let value = in_order(&data, from, to).fold(init, |sum, byte| sum ^ byte);
            (result, core::mem::replace(&mut self.data[result], value), value)
        });
        trace(Step::XorChecksum(done));
    }

    /// The frame. One that turns into a remote frame keeps its length and loses its data on the
    /// wire; an error flag set by an operation turns it into an error report, as in the kernel.
    pub(crate) fn finish(&self) -> Result<Frame, TooLong> {
        let flags = self.is_fd.then_some(self.flags);
        Frame::rewritten(self.can_id, self.len, flags, self.data).map_err(|_| TooLong)
    }
}

/// The bytes from one index to another inclusive, downwards if `to` is smaller.
fn in_order(data: &[u8; 64], from: usize, to: usize) -> impl Iterator<Item = u8> + '_ {
    let (low, high) = if from <= to { (from, to) } else { (to, from) };
    let range = &data[low..=high];
    (0..range.len())
        .map(move |index| range[if from <= to { index } else { range.len() - 1 - index }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        text.parse().unwrap()
    }

    fn bytes(prefix: &[u8]) -> Option<Box<[u8; 64]>> {
        let mut data = [0; 64];
        data[..prefix.len()].copy_from_slice(prefix);
        Some(Box::new(data))
    }

    #[test]
    fn operators_run_in_the_fixed_order() {
        let edit = Edit {
            and: Operands { can_id: Some(0x0F0), ..Operands::default() },
            or: Operands { can_id: Some(0x00F), ..Operands::default() },
            xor: Operands { can_id: Some(0x001), ..Operands::default() },
            ..Edit::default()
        };
        assert_eq!(edit.apply(&frame("123#")), Ok(frame("02E#")));
    }

    #[test]
    fn setting_the_id_of_an_extended_frame_makes_it_standard() {
        let edit = Edit {
            set: Operands { can_id: Some(0x333), ..Operands::default() },
            ..Edit::default()
        };
        assert_eq!(edit.apply(&frame("12345678#11")), Ok(frame("333#11")));
        assert_eq!(edit.apply(&frame("123#R4")), Ok(frame("333#00000000")));
    }

    #[test]
    fn lengths_take_raw_dlcs_and_refuse_more() {
        let set = |len| Edit {
            set: Operands { len: Some(len), ..Operands::default() },
            ..Edit::default()
        };
        let eight = frame("123#1122334455667788");
        assert_eq!(set(3).apply(&eight), Ok(frame("123#112233")));
        assert_eq!(set(12).apply(&eight), Ok(frame("123#1122334455667788_C")));
        assert_eq!(set(16).apply(&eight), Err(TooLong));
        // The raw DLC is the length that the operation starts from.
        let and =
            Edit { and: Operands { len: Some(0b0111), ..Operands::default() }, ..Edit::default() };
        assert_eq!(and.apply(&frame("123#1122334455667788_C")), Ok(frame("123#11223344")));
        // CAN FD rounds up to a length there is.
        assert_eq!(set(9).apply(&frame("123##0")), Ok(frame("123##0000000000000000000000000")));
        assert_eq!(set(65).apply(&frame("123##0")), Err(TooLong));
        // The longest there are.
        assert_eq!(set(15).apply(&eight), Ok(frame("123#1122334455667788_F")));
        let longest = set(64).apply(&frame("123##0")).unwrap();
        assert_eq!(longest, Frame::fd(longest.id(), 0, &[0; 64]).unwrap());
        assert_eq!(set(64).apply(&longest), Ok(longest));
    }

    #[test]
    fn data_beyond_the_length_changes_too() {
        let hidden = Edit {
            set: Operands { data: bytes(&[1, 2, 3, 4]), ..Operands::default() },
            ..Edit::default()
        };
        let longer =
            Edit { set: Operands { len: Some(4), ..Operands::default() }, ..Edit::default() };
        let once = hidden.apply(&frame("123#FF")).unwrap();
        assert_eq!(once, frame("123#01"));
        assert_eq!(longer.apply(&once), Ok(frame("123#01020304")));
    }

    #[test]
    fn checksums_need_an_operation() {
        let checksum = XorChecksum { range: Range { from: 0, to: -2, result: -1 }, init: 0 };
        let alone = Edit { xor_checksum: Some(checksum), ..Edit::default() };
        assert_eq!(alone.apply(&frame("123#010200")), Ok(frame("123#010200")));
        let identity = Operands { can_id: Some(0), ..Operands::default() };
        let with = Edit { or: identity.clone(), xor_checksum: Some(checksum), ..Edit::default() };
        assert_eq!(with.apply(&frame("123#010200")), Ok(frame("123#010203")));
        // Before the first byte: skipped in silence, as in the kernel.
        assert_eq!(with.apply(&frame("123#01")), Ok(frame("123#01")));
        // Behind the last one that such a frame can have, too.
        let range = |to| Range { from: 0, to, result: 2 };
        for (to, sum) in [(7, 0x03), (8, 0x00)] {
            let checksum = XorChecksum { range: range(to), init: 0 };
            let with =
                Edit { or: identity.clone(), xor_checksum: Some(checksum), ..Edit::default() };
            let expected = frame(&alloc::format!("123#0102{sum:02X}"));
            assert_eq!(with.apply(&frame("123#010200")), Ok(expected));
        }
    }

    #[test]
    fn crc8_profiles() {
        // CRC-8 SAE J1850 of "123456789" is 0x4B: polynomial 0x1D, start and final XOR 0xFF.
        let crc = |profile, range| Edit {
            or: Operands { can_id: Some(0), ..Operands::default() },
            crc8: Some(Crc8 {
                range,
                init: 0xFF,
                final_xor: 0xFF,
                table: Box::new(Crc8::table_of(0x1D)),
                profile,
            }),
            ..Edit::default()
        };
        let check = frame("123##0313233343536373839000000");
        let nine = Range { from: 0, to: 8, result: 11 };
        let result = |edit: &Edit, frame: &Frame| edit.apply(frame).unwrap().data().last().copied();
        assert_eq!(result(&crc(Crc8Profile::Plain, nine), &check), Some(0x4B));
        // The extra byte of a profile is one more byte of the sequence.
        let eight = Range { from: 0, to: 7, result: 11 };
        assert_eq!(result(&crc(Crc8Profile::OneByte(0x39), eight), &check), Some(0x4B));
        let mut table = [0; 16];
        table[2] = 0x39;
        assert_eq!(result(&crc(Crc8Profile::ByCounter(table), eight), &check), Some(0x4B));
        let id = frame("038##0313233343536373839000000"); // 0x38 ^ 0x00 is not 0x39 ...
        assert_ne!(result(&crc(Crc8Profile::IdXor, eight), &id), Some(0x4B));
        let id = frame("138##0313233343536373839000000"); // ... but 0x38 ^ 0x01 is
        assert_eq!(result(&crc(Crc8Profile::IdXor, eight), &id), Some(0x4B));
        // Relative to the end, and downwards.
        let relative = Range { from: -12, to: -4, result: -1 };
        assert_eq!(result(&crc(Crc8Profile::Plain, relative), &check), Some(0x4B));
        let down = Range { from: 8, to: 0, result: 11 };
        let reversed = frame("123##0393837363534333231000000");
        assert_eq!(result(&crc(Crc8Profile::Plain, down), &reversed), Some(0x4B));
    }

    #[test]
    fn flags_of_can_fd() {
        let edit =
            Edit { set: Operands { flags: Some(BRS), ..Operands::default() }, ..Edit::default() };
        assert_eq!(edit.apply(&frame("123##2AA")), Ok(frame("123##1AA")));
        assert_eq!(edit.apply(&frame("123#AA")), Ok(frame("123#AA")));

        // Only the two flags that are on the bus are shown.
        let edit =
            Edit { xor: Operands { flags: Some(0xFF), ..Operands::default() }, ..Edit::default() };
        for (before, after) in [(0, BRS | ESI), (BRS, ESI), (ESI, BRS), (BRS | ESI, 0)] {
            let mut steps = alloc::vec::Vec::new();
            let frame = frame(&alloc::format!("123##{before:X}AA"));
            let _ = edit.apply_traced(&frame, |step| steps.push(step));
            assert_eq!(steps, [Step::Flags(Operator::Xor, before, after)]);
        }
    }

    #[test]
    fn the_checksum_of_an_identifier_is_of_both_its_bytes() {
        let crc8 = Crc8 {
            range: Range { from: 0, to: 0, result: 0 },
            init: 0,
            final_xor: 0,
            table: Box::new(core::array::from_fn(|byte| byte as u8)),
            profile: Crc8Profile::IdXor,
        };
        for (can_id, expected) in [(0x0FF, 0xFF), (0x103, 0x02), (0x7F0, 0xF7)] {
            let crc = crc8.over(core::iter::empty(), can_id, 0);
            assert_eq!(crc, expected, "{can_id:x}");
        }
    }
}
