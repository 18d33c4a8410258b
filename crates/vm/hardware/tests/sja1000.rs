//! The SJA1000, as its data sheet describes it and as a driver uses it.

use candor_can::error::{ErrorKind, Segment};
use candor_can::{Fault, Request};
use candor_hardware::sja1000::{bits::*, register::*};
use candor_hardware::{Bus, Sja1000, bus};
use candor_wire::can::{Frame, Timing};
use proptest::prelude::*;

/// A bus of 500 kbit/s with controllers on it.
struct Bench {
    bus: Bus,
    chips: Vec<Sja1000>,
    now_ns: u64,
}

const BIT_NS: u64 = 2_000;

impl Bench {
    /// Controllers that are up, with all interrupts, taking all frames.
    fn new(chips: usize) -> Self {
        let mut bench = Self::in_reset(chips);
        (0..chips).for_each(|chip| bench.start(chip, MOD_AFM));
        bench.pass(20);
        bench
    }

    fn in_reset(chips: usize) -> Self {
        let mut bus = bus::new(Timing::classical("500k".parse().unwrap()));
        let chips = (0..chips).map(|_| Sja1000::new(bus.nodes_mut().add().unwrap())).collect();
        Self { bus, chips, now_ns: 0 }
    }

    /// As a driver begins: 500 kbit/s from 16 MHz, sample point at 75 %.
    fn start(&mut self, chip: usize, mode: u8) {
        self.write(chip, BTR0, 0x00);
        self.write(chip, BTR1, 0x3A);
        self.write(chip, IER, 0xFF);
        for at in 0..4 {
            self.write(chip, AMR + at, 0xFF);
        }
        self.write(chip, MOD, mode);
    }

    fn write(&mut self, chip: usize, address: u8, value: u8) {
        self.chips[chip].write(address, value, self.now_ns, &mut self.bus);
    }

    fn read(&mut self, chip: usize, address: u8) -> u8 {
        self.chips[chip].read(address, self.now_ns, &self.bus)
    }

    fn pass(&mut self, bits: u64) {
        let until = self.now_ns + bits * BIT_NS;
        while let Some(at) = self.bus.deadline().filter(|&at| at <= until) {
            let mut notices = Vec::new();
            self.bus.advance(at, &mut |node, at, notice| notices.push((node, at, notice)));
            for (node, at, notice) in notices {
                if let Some(chip) = self.chips.iter_mut().find(|chip| chip.node() == node) {
                    chip.notice(at, notice, &mut self.bus);
                }
            }
        }
        self.now_ns = until;
    }

    /// Writes a frame into the transmit buffer and gives a command.
    fn send(&mut self, chip: usize, frame: &str, command: u8) {
        let frame: Frame = frame.parse().unwrap();
        let (id, is_remote) = (frame.can_id(), frame.can_id() & 0x4000_0000 != 0);
        let information =
            u8::from(frame.is_extended()) << 7 | u8::from(is_remote) << 6 | frame.dlc();
        let mut bytes = vec![information];
        match frame.is_extended() {
            true => bytes.extend((id << 3).to_be_bytes()),
            false => bytes.extend(((id & 0x7FF) as u16).wrapping_shl(5).to_be_bytes()),
        }
        bytes.extend(frame.data());
        for (address, byte) in (BUFFER..).zip(bytes) {
            self.write(chip, address, byte);
        }
        self.write(chip, CMR, command);
    }

    /// The frame in the receive buffer, as a driver reads it, which it releases.
    fn receive(&mut self, chip: usize) -> Option<String> {
        if self.read(chip, SR) & SR_RBS == 0 {
            return None;
        }
        let information = self.read(chip, BUFFER);
        let is_extended = information & 0x80 != 0;
        let byte = |bench: &mut Self, at| u32::from(bench.read(chip, BUFFER + at));
        let word =
            |bench: &mut Self, count| (1..=count).fold(0, |all, at| all << 8 | byte(bench, at));
        let id = if is_extended { word(self, 4) >> 3 | 0x8000_0000 } else { word(self, 2) >> 5 };
        let first = if is_extended { 5 } else { 3 };
        let len = (information & 0x0F).min(8);
        let frame = if information & 0x40 != 0 {
            Frame::from_parts(id | 0x4000_0000, &vec![0; len.into()], None)
        } else {
            let data: Vec<_> = (0..len).map(|at| self.read(chip, BUFFER + first + at)).collect();
            Frame::from_parts(id, &data, None)
        };
        self.write(chip, CMR, CMR_RRB);
        Some(frame.unwrap().to_string())
    }
}

/// The error code capture register (data sheet, tables 19 and 20).
const fn capture(kind: ErrorKind, is_sender: bool, segment: Segment) -> u8 {
    (kind as u8) << 6 | (!is_sender as u8) << 5 | segment as u8
}

#[test]
fn an_error_code_has_its_bits_where_the_data_sheet_puts_them() {
    assert_eq!(capture(ErrorKind::Bit, true, Segment::DataField), 0x0A);
    assert_eq!(capture(ErrorKind::Stuff, false, Segment::DataField), 0xAA);
    assert_eq!(capture(ErrorKind::Other, true, Segment::AcknowledgeSlot), 0xD9);
}

#[test]
fn registers_after_a_hardware_reset_are_those_of_the_data_sheet() {
    let mut bench = Bench::in_reset(1);
    for (address, value) in [
        (MOD, MOD_RM),
        (CMR, 0),
        (SR, SR_TBS | SR_TCS),
        (IR, 0),
        (EWLR, 96),
        (RXERR, 0),
        (TXERR, 0),
        (RMC, 0),
        (RBSA, 0),
    ] {
        assert_eq!(bench.read(0, address), value, "register {address}");
    }
}

#[test]
fn bit_rates_are_those_of_the_table_of_linux() {
    // BTR0 and BTR1 that `can_calc_bittiming` chooses at 8 MHz.
    for (btr0, btr1, rate, sample_point) in [
        (0x00, 0x14, 1_000_000, 750),
        (0x00, 0x1C, 500_000, 875),
        (0x01, 0x1C, 250_000, 875),
        (0x03, 0x1C, 125_000, 875),
    ] {
        let mut bench = Bench::in_reset(1);
        bench.write(0, BTR0, btr0);
        bench.write(0, BTR1, btr1);
        assert_eq!(
            (bench.chips[0].bits_per_second(), bench.chips[0].sample_point_permille()),
            (rate, sample_point)
        );
        // Only in reset.
        bench.write(0, MOD, 0);
        bench.write(0, BTR0, 0x3F);
        assert_eq!(bench.read(0, BTR0), btr0);
    }
}

#[test]
fn a_frame_goes_from_one_to_all_others() {
    let mut bench = Bench::new(3);
    for frame in ["123#1122334455667788", "12345678#AABB", "7FF#", "123#R4"] {
        bench.send(0, frame, CMR_TR);
        assert_eq!(bench.read(0, SR) & (SR_TBS | SR_TCS), 0);
        bench.pass(5);
        assert_eq!(bench.read(0, SR) & (SR_TS | SR_RS), SR_TS);
        assert_eq!(bench.read(1, SR) & (SR_TS | SR_RS), SR_RS);
        bench.pass(200);
        assert_eq!(bench.read(0, SR) & (SR_TBS | SR_TCS | SR_TS), SR_TBS | SR_TCS);
        assert_eq!(bench.read(0, IR), IR_TI);
        assert_eq!(bench.read(0, IR), 0, "reading clears");
        for chip in [1, 2] {
            // The receive interrupt stays until the FIFO is empty.
            assert_eq!([bench.read(chip, IR), bench.read(chip, IR)], [IR_RI; 2]);
            assert!(bench.chips[chip].is_interrupting());
            assert_eq!(bench.receive(chip).as_deref(), Some(frame));
            assert!(!bench.chips[chip].is_interrupting());
        }
        assert_eq!(bench.receive(0), None);
    }
}

#[test]
fn with_self_reception_the_sender_has_it_too() {
    let mut bench = Bench::new(2);
    bench.send(0, "123#11", CMR_SRR);
    bench.pass(200);
    assert_eq!(bench.receive(0).as_deref(), Some("123#11"));
    assert_eq!(bench.receive(1).as_deref(), Some("123#11"));
}

#[test]
fn the_fifo_has_64_bytes_and_counts_an_overrun_once() {
    let mut bench = Bench::new(2);
    // 11 bytes each: five fit.
    for number in 0..8 {
        bench.send(0, &format!("10{number}#1122334455667788"), CMR_TR);
        bench.pass(200);
    }
    assert_eq!((bench.read(1, RMC), bench.chips[1].overruns()), (5, 3));
    assert_eq!(bench.read(1, SR) & SR_DOS, SR_DOS);
    assert_eq!(bench.read(1, IR), IR_RI | IR_DOI);
    assert_eq!(bench.receive(1).as_deref(), Some("100#1122334455667788"));
    assert_eq!(bench.read(1, RBSA), 11);
    // The status stays until it is cleared; a frame fits again.
    assert_eq!(bench.read(1, SR) & SR_DOS, SR_DOS);
    bench.write(1, CMR, CMR_CDO);
    assert_eq!(bench.read(1, SR) & SR_DOS, 0);
    bench.send(0, "109#1122334455667788", CMR_TR);
    bench.pass(200);
    let rest: Vec<_> =
        std::iter::from_fn(|| bench.receive(1)).map(|it| it[..3].to_owned()).collect();
    assert_eq!(rest, ["101", "102", "103", "104", "109"]);
}

#[test]
fn arbitration_that_is_lost_is_captured_and_the_frame_follows() {
    let mut bench = Bench::new(3);
    bench.send(0, "555#", CMR_TR);
    bench.send(1, "545#", CMR_TR);
    bench.pass(9);
    assert_eq!(bench.read(0, IR), IR_ALI);
    assert_eq!([bench.read(0, ALC), bench.read(0, ALC)], [6, 0]);
    assert_eq!(bench.read(0, SR) & SR_TBS, 0);
    bench.pass(200);
    assert_eq!([bench.receive(2), bench.receive(2)].map(Option::unwrap), ["545#", "555#"]);
    // A single shot is not repeated.
    bench.send(0, "555#", CMR_TR | CMR_AT);
    bench.send(1, "545#", CMR_TR | CMR_AT);
    bench.pass(200);
    assert_eq!([bench.receive(2).as_deref(), bench.receive(2).as_deref()], [Some("545#"), None]);
    assert_eq!(bench.read(0, SR) & (SR_TBS | SR_TCS), SR_TBS);
    assert_eq!(bench.read(0, IR) & (IR_ALI | IR_TI), IR_ALI | IR_TI);
}

#[test]
fn errors_warn_make_passive_and_take_off() {
    let mut bench = Bench::new(2);
    for frame in 0..32 {
        // In bit 20, of the data.
        assert!(bench.bus.faults_mut().add(Fault { frame, bit: 20 }));
    }
    bench.send(0, "2AA#55", CMR_TR);
    bench.pass(60);
    assert_eq!(bench.read(0, IR), IR_BEI);
    // A bit error while sending data; the receiver notices it as a stuff error.
    assert_eq!(bench.read(0, ECC), capture(ErrorKind::Bit, true, Segment::DataField));
    assert_eq!(bench.read(1, ECC), capture(ErrorKind::Stuff, false, Segment::DataField));
    assert_eq!((bench.read(0, TXERR), bench.read(1, RXERR)), (8, 1));
    let mut seen = Vec::new();
    for _ in 0..4_000 {
        bench.pass(1);
        let interrupts = bench.read(0, IR) & !IR_BEI;
        if interrupts != 0 {
            seen.push((interrupts, bench.read(0, TXERR), bench.read(0, SR) & (SR_ES | SR_BS)));
        }
    }
    let expected = [(IR_EI, 96, SR_ES), (IR_EPI, 128, SR_ES), (IR_EI, 127, SR_ES | SR_BS)];
    assert_eq!(seen, expected);
    assert_eq!(bench.read(0, MOD) & MOD_RM, MOD_RM);
    // Leaving reset, it counts 128 times 11 recessive bits.
    bench.write(0, MOD, MOD_AFM);
    bench.pass(128 * 11 - 1);
    assert_eq!((bench.read(0, SR) & SR_BS, bench.read(0, IR)), (SR_BS, 0));
    bench.pass(1);
    assert_eq!((bench.read(0, SR) & (SR_BS | SR_ES), bench.read(0, IR)), (0, IR_EI));
    bench.send(0, "2AA#55", CMR_TR);
    bench.pass(200);
    assert_eq!(bench.receive(1).as_deref(), Some("2AA#55"));
}

#[test]
fn one_that_listens_neither_acknowledges_nor_sends() {
    let mut bench = Bench::in_reset(2);
    bench.start(0, MOD_AFM);
    bench.start(1, MOD_AFM | MOD_LOM);
    bench.pass(20);
    bench.send(1, "111#", CMR_TR);
    bench.send(0, "123#11", CMR_TR);
    bench.pass(200);
    // No acknowledge: an error of another kind in the acknowledge slot.
    assert_eq!(bench.read(0, ECC), capture(ErrorKind::Other, true, Segment::AcknowledgeSlot));
    assert_eq!(bench.receive(1), None);
    assert_eq!(bench.read(1, RXERR), 0);
}

#[test]
fn an_abort_gives_the_buffer_back_unless_it_is_on_the_wire() {
    let mut bench = Bench::new(3);
    bench.send(0, "100#1122334455667788", CMR_TR);
    bench.pass(1);
    bench.send(1, "200#", CMR_TR);
    bench.write(1, CMR, CMR_AT);
    assert_eq!(bench.read(1, SR) & (SR_TBS | SR_TCS), SR_TBS);
    assert_eq!(bench.read(1, IR), IR_TI);
    bench.write(0, CMR, CMR_AT);
    assert_eq!(bench.read(0, SR) & SR_TBS, 0);
    bench.pass(300);
    assert_eq!(
        [bench.receive(2).as_deref(), bench.receive(2).as_deref()],
        [Some("100#1122334455667788"), None]
    );
}

#[test]
fn acceptance_filters_are_those_of_the_figures() {
    // Mode, code, mask, and of these frames those that pass.
    const FRAMES: [&str; 8] = [
        "123#",
        "123#5501",
        "123#5502",
        "123#R0",
        "124#5501",
        "091A2B3C#",
        "091A2B3C#R0",
        "0A1A2B3C#01",
    ];
    let single = MOD_AFM;
    type Case = (u8, [u8; 4], [u8; 4], &'static [usize]);
    let cases: [Case; 7] = [
        (single, [0; 4], [0xFF; 4], &[0, 1, 2, 3, 4, 5, 6, 7]),
        // Single, standard: 0x123 << 5, not remote; extended frames are held against the same bits: 0x091A2B3C << 3 begins
        // with 0x48.
        (single, [0x24, 0x60, 0, 0], [0, 0x0F, 0xFF, 0xFF], &[0, 1, 2]),
        (single, [0x24, 0x60, 0x55, 0x02], [0, 0x1F, 0, 0], &[0, 2, 3]),
        (single, [0x48, 0xD1, 0x59, 0xE0], [0, 0, 0, 0x03], &[5]),
        (single, [0x48, 0xD1, 0x59, 0xE4], [0, 0, 0, 0x07], &[5, 6]),
        // Dual, standard: 0x123 with a first byte of 0x55 by nibbles, or 0x124.
        (0, [0x24, 0x65, 0x24, 0x85], [0, 0x10, 0, 0x10], &[0, 1, 2, 3, 4]),
        // Dual, extended: the first 16 bits of the identifier.
        (0, [0x48, 0xD1, 0x50, 0xD1], [0; 4], &[5, 6, 7]),
    ];
    for (mode, code, mask, expected) in cases {
        let mut bench = Bench::in_reset(2);
        bench.start(0, MOD_AFM);
        bench.start(1, mode | MOD_RM);
        for at in 0..4 {
            bench.write(1, BUFFER + at, code[usize::from(at)]);
            bench.write(1, AMR + at, mask[usize::from(at)]);
        }
        bench.write(1, MOD, mode);
        bench.pass(20);
        let passed: Vec<_> = (0..FRAMES.len())
            .filter(|&index| {
                bench.send(0, FRAMES[index], CMR_TR);
                bench.pass(200);
                bench.receive(1).is_some()
            })
            .collect();
        assert_eq!(passed, expected, "{mode:#x} {code:x?} {mask:x?}");
    }
}

proptest! {
    /// Whatever software writes and whatever happens on the bus: no panic, and what it says about its FIFO is true.
    #[test]
    fn no_access_is_too_strange(
        accesses in prop::collection::vec((0..2_usize, any::<bool>(), 0..=40_u8, any::<u8>(), 0..50_u64), 0..400),
        faults in prop::collection::vec((0_u64..40, 0_u32..120), 0..32),
    ) {
        let mut bench = Bench::new(2);
        let tester = bench.bus.nodes_mut().add().unwrap();
        bench.bus.join(tester, false, 800, bench.now_ns);
        for (frame, bit) in faults {
            bench.bus.faults_mut().add(Fault { frame, bit });
        }
        for (chip, is_write, address, value, bits) in accesses {
            if is_write {
                bench.write(chip, address, value);
            } else {
                bench.read(chip, address);
            }
            if value > 200 && !bench.bus.has_request(tester) {
                let frame = format!("{value:03X}#1122334455").parse().unwrap();
                bench.bus.request(tester, Request::new(frame, bench.now_ns).unwrap());
            }
            bench.pass(bits);
            let messages = bench.read(chip, RMC);
            prop_assert_eq!(bench.read(chip, SR) & SR_RBS != 0, messages > 0);
            prop_assert!(messages <= 64 / 3);
        }
    }
}
