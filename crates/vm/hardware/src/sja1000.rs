//! [`Sja1000`]: the registers of an SJA1000 in PeliCAN mode (data sheet of 2000 January 4, chapter 6.4).
//!
//! ```text
//!  write MOD, BTR0, BTR1 --> leaves reset: the node joins its bus
//!  write TX buffer, CMR  --> a request     --> Bus --> notices --> SR, IR, ECC, ALC, receive FIFO --> interrupt
//! ```
//!
//! Not modelled: sleep mode and wake-up, the clock output, BasicCAN mode, and the test register. The receive buffer
//! interrupt bit follows the FIFO, as the data sheet says; the others are latched until they are read.

use candor_can::{NodeId, Notice, Request};
use candor_wire::can::frame::{EFF_FLAG, RTR_FLAG};
use candor_wire::can::{ErrorCounters, ErrorState, Frame};

use crate::Bus;

/// Addresses of registers.
pub mod register {
    pub const MOD: u8 = 0;
    pub const CMR: u8 = 1;
    pub const SR: u8 = 2;
    pub const IR: u8 = 3;
    pub const IER: u8 = 4;
    pub const BTR0: u8 = 6;
    pub const BTR1: u8 = 7;
    pub const OCR: u8 = 8;
    pub const ALC: u8 = 11;
    pub const ECC: u8 = 12;
    pub const EWLR: u8 = 13;
    pub const RXERR: u8 = 14;
    pub const TXERR: u8 = 15;
    /// The transmit or receive buffer; in reset, acceptance code and mask.
    pub const BUFFER: u8 = 16;
    pub const AMR: u8 = 20;
    pub const BUFFER_END: u8 = 28;
    pub const RMC: u8 = 29;
    pub const RBSA: u8 = 30;
    pub const CDR: u8 = 31;
}

/// Bits of registers.
pub mod bits {
    pub const MOD_RM: u8 = 0x01;
    pub const MOD_LOM: u8 = 0x02;
    pub const MOD_STM: u8 = 0x04;
    pub const MOD_AFM: u8 = 0x08;
    pub const CMR_TR: u8 = 0x01;
    pub const CMR_AT: u8 = 0x02;
    pub const CMR_RRB: u8 = 0x04;
    pub const CMR_CDO: u8 = 0x08;
    pub const CMR_SRR: u8 = 0x10;
    pub const SR_RBS: u8 = 0x01;
    pub const SR_DOS: u8 = 0x02;
    pub const SR_TBS: u8 = 0x04;
    pub const SR_TCS: u8 = 0x08;
    pub const SR_RS: u8 = 0x10;
    pub const SR_TS: u8 = 0x20;
    pub const SR_ES: u8 = 0x40;
    pub const SR_BS: u8 = 0x80;
    pub const IR_RI: u8 = 0x01;
    pub const IR_TI: u8 = 0x02;
    pub const IR_EI: u8 = 0x04;
    pub const IR_DOI: u8 = 0x08;
    pub const IR_EPI: u8 = 0x20;
    pub const IR_ALI: u8 = 0x40;
    pub const IR_BEI: u8 = 0x80;
}

use bits::*;

/// The oscillator of a Kvaser PCI card in Hz; a time quantum is at least two of its periods.
pub const OSCILLATOR_HZ: u32 = 16_000_000;
/// Bytes of the receive FIFO.
pub const FIFO_BYTES: u8 = 64;
/// Bytes of the transmit buffer, and of the window into the FIFO.
const BUFFER_BYTES: usize = 13;
/// The error warning limit after a hardware reset.
const USUAL_WARNING_LIMIT: u8 = 96;

/// An SJA1000 and the node of the bus that it is.
#[derive(Clone, Copy, Debug)]
pub struct Sja1000 {
    node: NodeId,
    mode: u8,
    interrupts: u8,
    enabled: u8,
    btr: [u8; 2],
    ocr: u8,
    cdr: u8,
    warning_limit: u8,
    acceptance_code: [u8; 4],
    acceptance_mask: [u8; 4],
    transmit_buffer: [u8; BUFFER_BYTES],
    /// Whether the node receives the frame that it sends.
    receives_itself: bool,
    is_complete: bool,
    has_overrun: bool,
    fifo: [u8; FIFO_BYTES as usize],
    fifo_head: u8,
    fifo_used: u8,
    messages: u8,
    arbitration_lost: Option<u8>,
    error_code: Option<u8>,
    is_warning: bool,
    state: ErrorState,
    overruns: u64,
}

impl Sja1000 {
    /// A controller after a hardware reset, as this node of its bus.
    #[must_use]
    pub const fn new(node: NodeId) -> Self {
        Self {
            node,
            mode: MOD_RM,
            interrupts: 0,
            enabled: 0,
            btr: [0; 2],
            ocr: 0,
            cdr: 0,
            warning_limit: USUAL_WARNING_LIMIT,
            acceptance_code: [0; 4],
            acceptance_mask: [0; 4],
            transmit_buffer: [0; BUFFER_BYTES],
            receives_itself: false,
            is_complete: true,
            has_overrun: false,
            fifo: [0; FIFO_BYTES as usize],
            fifo_head: 0,
            fifo_used: 0,
            messages: 0,
            arbitration_lost: None,
            error_code: None,
            is_warning: false,
            state: ErrorState::Active,
            overruns: 0,
        }
    }

    /// It becomes this node of its bus, which takes no part yet.
    pub const fn set_node(&mut self, node: NodeId) {
        self.node = node;
    }

    /// Whether it is in reset, as after power-on: then it takes no part on the bus.
    #[must_use]
    pub const fn is_in_reset(&self) -> bool {
        self.mode & MOD_RM != 0
    }

    /// The node of the bus that it is.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// How many frames did not fit into the receive FIFO. Software sees only that there were some.
    #[must_use]
    pub const fn overruns(&self) -> u64 {
        self.overruns
    }

    /// Counts overruns from here on.
    pub const fn forget_overruns(&mut self) {
        self.overruns = 0;
    }

    /// The bit rate that its bus timing registers give, in bit/s (data sheet, chapter 6.5).
    #[must_use]
    pub fn bits_per_second(&self) -> u32 {
        let [prescaler, _] = self.btr;
        let quantum = 2 * (u32::from(prescaler & 0x3F) + 1);
        let [before, after] = self.segments();
        OSCILLATOR_HZ / (quantum * (1 + before + after))
    }

    /// Where in a bit it samples, in thousandths.
    #[must_use]
    pub fn sample_point_permille(&self) -> u16 {
        let [before, after] = self.segments();
        ((1 + before) * 1_000 / (1 + before + after)) as u16
    }

    /// The time quanta before and after the sample point; the first one of a bit not counted.
    fn segments(&self) -> [u32; 2] {
        let [_, segments] = self.btr;
        [u32::from(segments & 0x0F) + 1, u32::from(segments >> 4 & 0x07) + 1]
    }

    /// Whether its interrupt output is active.
    #[must_use]
    pub const fn is_interrupting(&self) -> bool {
        self.pending() != 0
    }

    /// The interrupt register: the receive interrupt is there while the FIFO is not empty.
    const fn pending(&self) -> u8 {
        let receive = if self.messages > 0 { self.enabled & IR_RI } else { 0 };
        self.interrupts | receive
    }

    fn raise(&mut self, interrupt: u8) {
        self.interrupts |= interrupt & self.enabled;
    }

    /// Software reads a register. Reading the interrupt register and the captured errors clears them.
    pub fn read(&mut self, address: u8, now_ns: u64, bus: &Bus) -> u8 {
        use register::*;
        match address {
            MOD => self.mode,
            SR => self.status(bus),
            IR => {
                let pending = self.pending();
                self.interrupts = 0;
                pending
            }
            IER => self.enabled,
            BTR0 => self.btr[0],
            BTR1 => self.btr[1],
            OCR => self.ocr,
            ALC => self.arbitration_lost.take().unwrap_or(0),
            ECC => self.error_code.take().unwrap_or(0),
            EWLR => self.warning_limit,
            RXERR => bus.error_counters(self.node, now_ns).receive.min(255) as u8,
            TXERR => bus.error_counters(self.node, now_ns).transmit.min(255) as u8,
            BUFFER..=BUFFER_END => {
                let at = usize::from(address - BUFFER);
                match (self.is_in_reset(), at) {
                    (true, 0..4) => self.acceptance_code[at],
                    (true, 4..8) => self.acceptance_mask[at - 4],
                    (true, _) => 0,
                    (false, _) => self.fifo[usize::from((self.fifo_head + at as u8) % FIFO_BYTES)],
                }
            }
            RMC => self.messages,
            RBSA => self.fifo_head,
            CDR => self.cdr,
            _ => 0,
        }
    }

    fn status(&self, bus: &Bus) -> u8 {
        let flags = [
            (self.messages > 0, SR_RBS),
            (self.has_overrun, SR_DOS),
            (!bus.has_request(self.node), SR_TBS),
            (self.is_complete, SR_TCS),
            (bus.is_receiving(self.node), SR_RS),
            (bus.is_sending(self.node), SR_TS),
            (self.is_warning, SR_ES),
            (self.state == ErrorState::BusOff, SR_BS),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit)
    }

    /// Software writes a register.
    pub fn write(&mut self, address: u8, value: u8, now_ns: u64, bus: &mut Bus) {
        use register::*;
        let is_in_reset = self.is_in_reset();
        match address {
            MOD => self.set_mode(value, now_ns, bus),
            CMR if !is_in_reset => self.command(value, now_ns, bus),
            IER => self.enabled = value,
            BTR0 if is_in_reset => self.btr[0] = value,
            BTR1 if is_in_reset => self.btr[1] = value,
            OCR if is_in_reset => self.ocr = value,
            EWLR if is_in_reset => self.warning_limit = value,
            RXERR if is_in_reset => {
                let errors = bus.error_counters(self.node, now_ns);
                let receive = u32::from(value);
                bus.set_error_counters(self.node, ErrorCounters { receive, ..errors });
            }
            // While it is bus-off, its counter is the way back.
            TXERR if is_in_reset && self.state != ErrorState::BusOff => {
                let errors = bus.error_counters(self.node, now_ns);
                let transmit = u32::from(value);
                bus.set_error_counters(self.node, ErrorCounters { transmit, ..errors });
            }
            BUFFER..=BUFFER_END => {
                let at = usize::from(address - BUFFER);
                match (is_in_reset, at) {
                    (true, 0..4) => self.acceptance_code[at] = value,
                    (true, 4..8) => self.acceptance_mask[at - 4] = value,
                    (true, _) => {}
                    (false, _) => self.transmit_buffer[at] = value,
                }
            }
            RBSA if is_in_reset => self.fifo_head = value % FIFO_BYTES,
            CDR => self.cdr = value,
            _ => {}
        }
    }

    fn set_mode(&mut self, value: u8, now_ns: u64, bus: &mut Bus) {
        let was_in_reset = self.is_in_reset();
        // All but the reset bit can only be changed in reset.
        let settable = if was_in_reset { MOD_RM | MOD_LOM | MOD_STM | MOD_AFM } else { MOD_RM };
        self.mode = self.mode & !settable | value & settable;
        match (was_in_reset, self.is_in_reset()) {
            (false, true) => self.enter_reset(now_ns, bus),
            (true, false) => {
                let is_listening = self.mode & MOD_LOM != 0;
                bus.join(self.node, is_listening, self.sample_point_permille(), now_ns);
            }
            _ => {}
        }
    }

    /// What software reset does (data sheet, table 9): the receive FIFO is empty, requests are forgotten.
    fn enter_reset(&mut self, now_ns: u64, bus: &mut Bus) {
        self.mode |= MOD_RM;
        self.interrupts = 0;
        self.is_complete = true;
        self.has_overrun = false;
        (self.fifo_head, self.fifo_used, self.messages) = (0, 0, 0);
        bus.leave(self.node, now_ns);
    }

    fn command(&mut self, value: u8, now_ns: u64, bus: &mut Bus) {
        if value & CMR_RRB != 0 {
            self.release();
        }
        if value & CMR_CDO != 0 {
            self.has_overrun = false;
        }
        let is_request = value & (CMR_TR | CMR_SRR) != 0;
        if value & CMR_AT != 0
            && !is_request
            && bus.has_request(self.node)
            && bus.withdraw(self.node)
        {
            self.raise(IR_TI);
        }
        // One that listens only sends nothing; a second request before the first one is done has no effect.
        if is_request
            && self.mode & MOD_LOM == 0
            && !bus.has_request(self.node)
            && let Some(frame) = self.written()
        {
            // Self reception wins over transmission (data sheet, table 11).
            self.receives_itself = value & CMR_SRR != 0;
            self.is_complete = false;
            // What is in the transmit buffer is no error report.
            if let Ok(request) = Request::new(frame, now_ns) {
                bus.request(self.node, Request { is_single_shot: value & CMR_AT != 0, ..request });
            }
        }
    }

    /// The frame in the transmit buffer.
    fn written(&self) -> Option<Frame> {
        let [information, rest @ ..] = self.transmit_buffer;
        let (word, data) = if information & 0x80 != 0 {
            let [a, b, c, d, data @ ..] = rest;
            (u32::from_be_bytes([a, b, c, d]) >> 3 | EFF_FLAG, data)
        } else {
            let [a, b, data @ ..] = rest;
            let mut all = [0; 8];
            all.copy_from_slice(&data[..8]);
            (u32::from(u16::from_be_bytes([a, b]) >> 5), all)
        };
        let dlc = information & 0x0F;
        let is_remote = information & 0x40 != 0;
        let remote = if is_remote { RTR_FLAG } else { 0 };
        let len = usize::from(dlc.min(8));
        let frame = Frame::from_parts(word | remote, &data[..len], None).ok()?;
        if dlc > 8 { frame.with_raw_dlc(dlc).ok() } else { Some(frame) }
    }

    /// Makes room for the next frame in the window of the FIFO.
    fn release(&mut self) {
        if self.messages == 0 {
            return;
        }
        let information = self.fifo[usize::from(self.fifo_head)];
        let bytes = stored_bytes(information);
        self.fifo_head = (self.fifo_head + bytes) % FIFO_BYTES;
        self.fifo_used -= bytes;
        self.messages -= 1;
    }

    /// Its node learned something on the bus.
    pub fn notice(&mut self, now_ns: u64, notice: Notice, bus: &mut Bus) {
        match notice {
            Notice::Started | Notice::Missed => {}
            Notice::LostArbitration { bit } => {
                // Captured once, until software has read it.
                self.arbitration_lost.get_or_insert(bit);
                self.raise(IR_ALI);
                self.given_up(bus);
            }
            Notice::Received(frame) => self.receive(&frame),
            Notice::Sent(_) => {
                self.is_complete = true;
                if self.receives_itself
                    && let Some(frame) = self.written()
                {
                    self.receive(&frame);
                }
                self.raise(IR_TI);
            }
            Notice::Failed { is_sender, kind, segment } => {
                let direction = if is_sender { 0 } else { 0x20 };
                self.error_code.get_or_insert((kind as u8) << 6 | direction | segment as u8);
                self.raise(IR_BEI);
                if is_sender {
                    self.given_up(bus);
                }
            }
            // An error follows, which it has registers for.
            Notice::SentToOthers(_) | Notice::BusOff | Notice::TakesPart => {}
        }
        self.note_counters(now_ns, bus);
        if notice == Notice::BusOff {
            // It goes into reset by itself; interrupts that are pending stay.
            let pending = self.interrupts;
            self.enter_reset(now_ns, bus);
            self.interrupts = pending;
        }
    }

    /// A single shot that failed leaves the transmit buffer.
    fn given_up(&mut self, bus: &Bus) {
        if !bus.has_request(self.node) && bus.state(self.node) != ErrorState::BusOff {
            self.raise(IR_TI);
        }
    }

    /// Error warning and error passive follow the counters.
    fn note_counters(&mut self, now_ns: u64, bus: &Bus) {
        let state = bus.state(self.node);
        let ErrorCounters { transmit, receive } = bus.error_counters(self.node, now_ns);
        let is_off = state == ErrorState::BusOff;
        let is_warning = is_off || transmit.max(receive) >= u32::from(self.warning_limit);
        let was_off = self.state == ErrorState::BusOff;
        if is_warning != self.is_warning || is_off != was_off {
            self.raise(IR_EI);
        }
        if !is_off && !was_off && state != self.state {
            self.raise(IR_EPI);
        }
        (self.state, self.is_warning) = (state, is_warning);
    }

    /// A frame got through: it goes into the FIFO if it is accepted and there is room.
    fn receive(&mut self, frame: &Frame) {
        let (message, bytes) = stored(frame);
        if !self.accepts(frame) {
            return;
        }
        if FIFO_BYTES - self.fifo_used < bytes {
            self.overruns += 1;
            if !self.has_overrun {
                self.has_overrun = true;
                self.raise(IR_DOI);
            }
            return;
        }
        for (at, &byte) in (0..bytes).zip(&message) {
            self.fifo[usize::from((self.fifo_head + self.fifo_used + at) % FIFO_BYTES)] = byte;
        }
        self.fifo_used += bytes;
        self.messages += 1;
    }

    /// The acceptance filter (data sheet, figures 9 to 12). A mask bit of 1 means that the bit does not matter.
    fn accepts(&self, frame: &Frame) -> bool {
        let [c0, c1, c2, c3] = self.acceptance_code;
        let [m0, m1, m2, m3] = self.acceptance_mask;
        let is_remote = u32::from(frame.can_id() & RTR_FLAG != 0);
        let data = if is_remote != 0 { &[] } else { frame.data() };
        let equal = |value: u32, code: u32, mask: u32| (value ^ code) & !mask == 0;
        let join = |high: u8, low: u8| u32::from(high) << 8 | u32::from(low);
        let is_single = self.mode & MOD_AFM != 0;
        match (is_single, frame.is_extended()) {
            (true, true) => {
                let word = frame.can_id() << 3 | is_remote << 2;
                let (code, mask) = (self.acceptance_code, self.acceptance_mask);
                equal(word, u32::from_be_bytes(code), u32::from_be_bytes(mask) | 0x3)
            }
            (true, false) => {
                let word = (frame.can_id() & 0x7FF) << 5 | is_remote << 4;
                // A byte that is not there is not looked at.
                let byte = |at: usize, code: u8, mask: u8| {
                    data.get(at).is_none_or(|&byte| equal(byte.into(), code.into(), mask.into()))
                };
                equal(word, join(c0, c1), join(m0, m1) | 0x0F) && byte(0, c2, m2) && byte(1, c3, m3)
            }
            (false, true) => {
                let word = frame.can_id() >> 13 & 0xFFFF;
                equal(word, join(c0, c1), join(m0, m1)) || equal(word, join(c2, c3), join(m2, m3))
            }
            (false, false) => {
                let word = (frame.can_id() & 0x7FF) << 5 | is_remote << 4;
                let first_byte = data.first().is_none_or(|&byte| {
                    let (code, mask) = (c1 << 4 | c3 & 0x0F, m1 << 4 | m3 & 0x0F);
                    equal(byte.into(), code.into(), mask.into())
                });
                let first = equal(word, join(c0, c1), join(m0, m1) | 0x0F) && first_byte;
                first || equal(word, join(c2, c3), join(m2, m3) | 0x0F)
            }
        }
    }
}

/// How many bytes of the FIFO a frame with this frame information takes.
const fn stored_bytes(information: u8) -> u8 {
    let identifier = if information & 0x80 != 0 { 4 } else { 2 };
    let dlc = information & 0x0F;
    let data = match (information & 0x40 != 0, dlc > 8) {
        (true, _) => 0,
        (false, true) => 8,
        (false, false) => dlc,
    };
    1 + identifier + data
}

/// A frame as the receive buffer has it, and how many bytes that are.
fn stored(frame: &Frame) -> ([u8; BUFFER_BYTES], u8) {
    let mut out = [0; BUFFER_BYTES];
    let is_remote = frame.can_id() & RTR_FLAG != 0;
    let format = u8::from(frame.is_extended()) << 7 | u8::from(is_remote) << 6;
    out[0] = format | frame.raw_dlc().unwrap_or(frame.dlc()) & 0x0F;
    let identifier = if frame.is_extended() {
        out[1..5].copy_from_slice(&(frame.can_id() << 3).to_be_bytes());
        5
    } else {
        out[1..3].copy_from_slice(&((frame.can_id() & 0x7FF) << 5).to_be_bytes()[2..]);
        3
    };
    if !is_remote {
        for (byte, &data) in out[identifier..].iter_mut().zip(frame.data()) {
            *byte = data;
        }
    }
    (out, stored_bytes(out[0]))
}
