//! The bed with a guest that is a few lines of a driver, and its tester against the simulation.

#[path = "../../../can/tests/simulated/mod.rs"]
mod simulated;

use std::collections::VecDeque;

use candor_hardware::sja1000::register;
use candor_random::BitErrors;
use candor_test_bed::{
    Answer, BusPlan, Contents, Event, MOST_ANSWERS, Pace, Plan, QUIET_NS, Record, STARVED_NS,
    SenderPlan, Step, TestBed, TestBedError,
};
use candor_wire::can::bits::{INTERMISSION_BITS, length};
use candor_wire::can::{Frame, Timing};
use simulated::{Offered, simulated};

const STARTS_NS: u64 = 50_000_000;

fn timing(rate: &str) -> Timing {
    Timing::classical(rate.parse().unwrap())
}

/// A bus whose nodes start again at once.
fn bus(rate: &str, bit_error_rate: f64) -> BusPlan {
    BusPlan { timing: timing(rate), bit_error_rate, restart_ns: Some(0) }
}

fn write(rates: &[&str], senders: &[SenderPlan], steps: &[Step]) -> Vec<u8> {
    let buses: Vec<_> = rates.iter().map(|rate| bus(rate, 0.0)).collect();
    candor_test_bed::write(&Contents { buses: &buses, senders, steps, ..Contents::default() })
}

/// Frames with their number in front, one every so many ns.
fn numbered(count: u16, gap_ns: u64) -> Vec<Step> {
    let of = |number: u16| {
        Frame::from_parts(0x123, &[&number.to_be_bytes()[..], &[0x55; 6]].concat(), None)
    };
    (0..count)
        .map(|number| Step { at_ns: u64::from(number) * gap_ns, frame: of(number).unwrap() })
        .collect()
}

/// A guest with two controllers, whose driver takes so long for each interrupt, and passes frames on.
struct Guest {
    bed: TestBed,
    records: Vec<Record>,
    delay_ns: u64,
    queue: VecDeque<[u8; 13]>,
    is_sending: bool,
}

impl Guest {
    /// Sets the bed up for a plan, with controllers at these bit timings (register values for 8 MHz).
    fn new(plan: &Plan<'_>, btr: [[u8; 2]; 2], delay_ns: u64) -> Self {
        let mut bed = TestBed::new(2);
        // Not in the order of slots, as emulators list them.
        assert_eq!(bed.add_controller(1, 9), Some(0));
        assert_eq!(bed.add_controller(0, 8), Some(0));
        bed.set_up(plan, 0).unwrap();
        let (queue, is_sending) = (VecDeque::new(), false);
        let mut guest = Self { bed, records: Vec::new(), delay_ns, queue, is_sending };
        for (controller, [btr0, btr1]) in btr.into_iter().enumerate() {
            for (address, value) in [
                (register::BTR0, btr0),
                (register::BTR1, btr1),
                // Accepts all.
                (register::BUFFER + 4, 0xFF),
                (register::BUFFER + 5, 0xFF),
                (register::BUFFER + 6, 0xFF),
                (register::BUFFER + 7, 0xFF),
                (register::IER, 0x03),
                (register::MOD, 0),
            ] {
                guest.write(controller, address, value, 1_000);
            }
        }
        guest
    }

    fn write(&mut self, controller: usize, address: u8, value: u8, now_ns: u64) {
        let Self { bed, records, .. } = self;
        bed.write(controller, address, value, now_ns, &mut |record| records.push(record));
    }

    fn advance(&mut self, plan: &Plan<'_>, now_ns: u64) {
        let Self { bed, records, .. } = self;
        bed.advance(Some(plan), now_ns, &mut |record| records.push(record));
    }

    /// Starts the tester, unless it has.
    fn start(&mut self, plan: &Plan<'_>) {
        self.advance(plan, STARTS_NS);
        let Self { bed, records, .. } = self;
        bed.start(plan, STARTS_NS, &mut |record| records.push(record));
    }

    /// Starts the tester and lets the guest work until the tester is done.
    fn run(&mut self, plan: &Plan<'_>) {
        self.start(plan);
        while !self.bed.is_done() {
            let at = self.bed.deadline().expect("a tester that is not done waits for something");
            self.work(plan, at);
        }
    }

    /// Lets the guest work until then.
    fn work(&mut self, plan: &Plan<'_>, until_ns: u64) {
        while let Some(at) = self.bed.deadline().filter(|&at| at <= until_ns) {
            self.advance(plan, at);
            let mut now = at;
            for controller in 0..2 {
                self.bed.changed_level(controller);
                if self.bed.level(controller) {
                    now += self.delay_ns;
                    self.advance(plan, now);
                    self.serve(controller, now);
                    self.bed.changed_level(controller);
                }
            }
        }
    }

    /// The interrupt handler.
    fn serve(&mut self, controller: usize, now: u64) {
        let interrupts = self.bed.read(controller, register::IR, now);
        if interrupts & 2 != 0 {
            self.is_sending = false;
        }
        while self.bed.read(controller, register::SR, now) & 1 != 0 {
            let byte = |at| self.bed.read(controller, register::BUFFER + at, now);
            let bytes: Vec<_> = (0..13).map(byte).collect();
            self.queue.push_back(bytes.try_into().unwrap());
            self.write(controller, register::CMR, 0x04, now);
        }
        if !self.is_sending
            && let Some(bytes) = self.queue.pop_front()
        {
            for (at, byte) in (0..).zip(bytes) {
                self.write(1, register::BUFFER + at, byte, now);
            }
            self.write(1, register::CMR, 0x01, now);
            self.is_sending = true;
        }
    }

    /// The first controller shall send the request with this number.
    fn send_request(&mut self, number: u16, now_ns: u64) {
        let [high, low] = number.to_be_bytes();
        let bytes = [8, 0x0E, 0xE0, high, low, 0x55, 0xAA, 0, 0xFF, 0x0F, 0xF0];
        for (at, byte) in (0..).zip(bytes) {
            self.write(0, register::BUFFER + at, byte, now_ns);
        }
        self.write(0, register::CMR, 0x01, now_ns);
    }

    /// Sends so many requests, each as soon as the controller has sent the one before and, if that is wanted, an answer
    /// came; then the guest is over.
    fn send_requests(&mut self, plan: &Plan<'_>, count: u16, waits: bool) {
        // Without interrupts nothing is passed on.
        self.write(0, register::IER, 0, 2_000);
        self.start(plan);
        let mut now = STARTS_NS;
        for number in 0..count {
            self.send_request(number, now);
            let is_there = |guest: &Self| {
                let mut passed = guest.passed(0).into_iter();
                let id = if waits { PARTNER.answer } else { PARTNER.request };
                passed.any(|(it, _, _)| it.can_id() == id && it.data()[..2] == number.to_be_bytes())
            };
            while !is_there(self) || self.bed.read(0, register::SR, now) & 0x04 == 0 {
                // It was bus-off, and has forgotten its frame.
                if self.bed.read(0, register::MOD, now) & 1 != 0 {
                    self.write(0, register::MOD, 0, now);
                    self.send_request(number, now);
                }
                now = self.bed.deadline().unwrap();
                self.advance(plan, now);
            }
        }
        self.bed.guest_is_over(now);
        self.run(plan);
    }

    /// Frames on a bus, with begin and end.
    fn passed(&self, bus: u8) -> Vec<(Frame, u64, u64)> {
        let on_bus = self.records.iter().filter(|record| record.bus == bus);
        let frame = |record: &Record| match record.event {
            Event::Passed { frame, started_ns, .. } => Some((frame, started_ns, record.at_ns)),
            _ => None,
        };
        on_bus.filter_map(frame).collect()
    }
}

const PARTNER: Answer = Answer { request: 0x77, answer: 0x78 };
/// It sends on the first bus.
const ANSWERS: SenderPlan =
    SenderPlan { bus: 0, round: 0, pace: Pace::Answer(PARTNER), first: 0, count: 0 };

/// The bus timing registers for 500 and 250 kbit/s at 8 MHz.
const BTR_500K: [u8; 2] = [0x00, 0x1C];
const BTR_250K: [u8; 2] = [0x01, 0x1C];

/// A warm-up of three frames, one at a time, and then a flood that knows nothing of it.
#[test]
fn each_start_begins_the_next_round() {
    let awaits = Pace::AfterArrival { bus: 1, timeout_ns: 100_000_000 };
    let senders = [
        SenderPlan { bus: 0, round: 1, pace: Pace::Timed, first: 0, count: 20 },
        SenderPlan { bus: 0, round: 0, pace: awaits, first: 20, count: 3 },
    ];
    let steps = [numbered(20, 0), numbered(3, 1_000_000)].concat();
    let mut buses = [bus("500k", 0.0), bus("250k", 0.0)];
    // Errors are those of the frames that count.
    buses[0].bit_error_rate = 1e-3;
    let contents =
        Contents { buses: &buses, senders: &senders, steps: &steps, ..Contents::default() };
    let bytes = candor_test_bed::write(&contents);
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_250K], 5_000);
    guest.run(&plan);
    let counted = |guest: &Guest| {
        let of = |record: &Record| match (record.bus, record.event) {
            (0, Event::Statistics(it)) => Some((it.frames, it.error_frames > 0)),
            _ => None,
        };
        guest.records.iter().filter_map(of).next_back()
    };
    assert_eq!((guest.passed(0).len(), counted(&guest)), (3, Some((3, false))));
    let ends: Vec<_> = guest.passed(1).iter().map(|it| it.2).collect();
    let begins: Vec<_> = guest.passed(0).iter().map(|it| it.1).collect();
    assert!(
        begins[1] == ends[0] + 1_000_000 && begins[2] == ends[1] + 2_000_000,
        "{begins:?} {ends:?}"
    );
    let records = guest.records.len();
    let again_ns = 2_000_000_000;
    guest.advance(&plan, again_ns);
    let Guest { bed, records: seen, .. } = &mut guest;
    bed.start(&plan, again_ns, &mut |record| seen.push(record));
    assert!(!guest.bed.is_done());
    while !guest.bed.is_done() {
        let at = guest.bed.deadline().unwrap();
        guest.work(&plan, at);
    }
    let started = guest.records[records];
    assert_eq!((started.event, started.at_ns), (Event::Started, again_ns));
    let (frames, has_errors) = counted(&guest).unwrap();
    assert!(frames == 20 && has_errors, "{frames}");
    assert_eq!(guest.passed(0).len(), 23);
    // There is no third round.
    let Guest { bed, records: seen, .. } = &mut guest;
    let count = seen.len();
    bed.start(&plan, 9_000_000_000, &mut |record| seen.push(record));
    assert!(bed.is_done() && seen.len() == count);
}

#[test]
fn a_flood_fills_a_slower_bus() {
    let sender = SenderPlan { bus: 0, round: 0, pace: Pace::Timed, first: 0, count: 200 };
    let steps = numbered(200, 0);
    let bytes = write(&["500k", "250k"], &[sender], &steps);
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_250K], 5_000);
    guest.run(&plan);
    let (source, target) = (guest.passed(0), guest.passed(1));
    let sent: Vec<_> = steps.iter().map(|step| step.frame).collect();
    for passed in [&source, &target] {
        assert_eq!(passed.iter().map(|it| it.0).collect::<Vec<_>>(), sent);
    }
    // Back to back on the source bus: three bits of intermission. On the target, the driver's turnaround.
    assert!(source.windows(2).all(|pair| pair[1].1 - pair[0].2 == 3 * 2_000));
    assert!(target.windows(2).all(|pair| (12_000..20_000).contains(&(pair[1].1 - pair[0].2))));
    // Done when nothing has passed for a while.
    let last = guest.records.last().unwrap();
    assert_eq!((last.event, last.at_ns), (Event::Done, target[199].2 + QUIET_NS));
    let counted: Vec<_> = guest
        .records
        .iter()
        .filter_map(|record| match record.event {
            Event::Statistics(it) => Some((it.frames, it.error_frames, it.busy_ns)),
            _ => None,
        })
        .collect();
    let busy = |passed: &[(Frame, u64, u64)], bit_ns: u64| -> u64 {
        passed.iter().map(|(_, start, end)| end - start + 3 * bit_ns).sum()
    };
    assert_eq!(counted, [(200, 0, busy(&source, 2_000)), (200, 0, busy(&target, 4_000))]);
}

#[test]
fn one_at_a_time_waits_for_the_arrival() {
    let pace = Pace::AfterArrival { bus: 1, timeout_ns: 10_000_000 };
    let sender = SenderPlan { bus: 0, round: 0, pace, first: 0, count: 50 };
    let bytes = write(&["500k", "500k"], &[sender], &numbered(50, 1_000));
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 7_000);
    guest.run(&plan);
    let (source, target) = (guest.passed(0), guest.passed(1));
    assert_eq!((source.len(), target.len()), (50, 50));
    for (number, pair) in source.windows(2).enumerate() {
        // The while of step n is n microseconds; the bus needs its intermission at least.
        let due = target[number].2 + (number as u64 + 1) * 1_000;
        assert_eq!(pair[1].1, due, "frame {number}");
    }
    // The latency is the time of the driver: a receiver has a frame one bit before its end.
    assert!(source.iter().zip(&target).all(|(sent, got)| got.1 - sent.2 == 7_000 - 2_000));
}

#[test]
fn a_frame_that_does_not_arrive_is_given_up() {
    let pace = Pace::AfterArrival { bus: 1, timeout_ns: 10_000_000 };
    let sender = SenderPlan { bus: 0, round: 0, pace, first: 0, count: 3 };
    let bytes = write(&["500k", "500k"], &[sender], &numbered(3, 1_000));
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 7_000);
    // Without interrupts of the receiver nothing is passed on.
    guest.write(0, register::IER, 0, 2_000);
    guest.run(&plan);
    let source = guest.passed(0);
    assert_eq!((source.len(), guest.passed(1).len()), (3, 0));
    assert_eq!(source[1].1, source[0].1 + 10_000_000 + 1_000);
    assert_eq!(source[2].1, source[1].1 + 10_000_000 + 2_000);
    let last = guest.records.last().unwrap();
    assert_eq!((last.event, last.at_ns), (Event::Done, source[2].1 + 10_000_000 + STARVED_NS));
}

#[test]
fn a_missing_frame_is_waited_for_as_the_plan_says() {
    let bus = |rate| BusPlan { timing: timing(rate), bit_error_rate: 0.0, restart_ns: None };
    let buses = ["500k", "500k"].map(bus);
    let sender = SenderPlan { bus: 0, round: 0, pace: Pace::Timed, first: 0, count: 3 };
    // Also longer than the tester is patient otherwise.
    for timeout_ns in [0, 1, 1_000_000_000, 60_000_000_000] {
        let steps = numbered(3, 1_000_000);
        let contents = Contents {
            buses: &buses,
            senders: &[sender],
            steps: &steps,
            timeout_ns,
            ..Contents::default()
        };
        let bytes = candor_test_bed::write(&contents);
        let plan = Plan::read(&bytes).unwrap();
        let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 7_000);
        guest.write(0, register::IER, 0, 2_000);
        guest.run(&plan);
        let last_ns = guest.passed(0)[2].2;
        let done = guest.records.last().unwrap();
        assert_eq!((done.event, done.at_ns), (Event::Done, last_ns + STARVED_NS + timeout_ns));
    }
}

#[test]
fn another_bit_rate_and_an_overrun_are_recorded() {
    let sender = SenderPlan { bus: 0, round: 0, pace: Pace::Timed, first: 0, count: 20 };
    let bytes = write(&["500k", "500k"], &[sender], &numbered(20, 0));
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_250K], 7_000);
    guest.write(0, register::IER, 0, 2_000);
    guest.run(&plan);
    let events: Vec<_> = guest
        .records
        .iter()
        .filter(|it| matches!(it.event, Event::OtherBitrate(_) | Event::Overrun(_)))
        .map(|it| (it.bus, it.is_guest, it.event))
        .collect();
    // 64 bytes are four frames of 11 and their 13.
    let overruns = Event::Overrun(20 - 64 / 11);
    assert_eq!(events, [(1, true, Event::OtherBitrate(250_000)), (0, true, overruns)]);
}

/// Each bus draws for itself, from the seed of the plan, for each frame that begins: those that are sent again too.
#[test]
fn bit_errors_are_those_of_the_seed() {
    const RATES: [f64; 2] = [2e-3, 1e-4];
    let sender = SenderPlan { bus: 0, round: 0, pace: Pace::Timed, first: 0, count: 2_000 };
    let buses = RATES.map(|rate| bus("500k", rate));
    let steps = numbered(2_000, 600_000);
    for seed in 1..4 {
        let contents = Contents {
            buses: &buses,
            senders: &[sender],
            seed,
            steps: &steps,
            ..Contents::default()
        };
        let bytes = candor_test_bed::write(&contents);
        let plan = Plan::read(&bytes).unwrap();
        let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 7_000);
        guest.run(&plan);
        for (bus, rate) in (0..).zip(RATES) {
            let mut errors = BitErrors::of_bus(seed, bus, rate);
            let (mut failures, mut passes) = (0_u64, Vec::new());
            // What the others have of a frame whose last bit is wrong passes twice.
            let frames: Vec<_> = match bus {
                0 => steps.iter().map(|step| step.frame).collect(),
                _ => guest.passed(0).iter().map(|it| it.0).collect(),
            };
            for frame in frames {
                let length = length(&frame).unwrap();
                let bits = length.total() - INTERMISSION_BITS;
                while let Some(at) = errors.draw(bits) {
                    failures += 1;
                    passes.extend((at + 1 == bits).then_some(frame));
                }
                passes.push(frame);
            }
            let of_bus = |it: &&Record| it.bus == bus as u8;
            let failed = |it: &&Record| of_bus(it) && matches!(it.event, Event::Failed { .. });
            // Who loses arbitration to nobody, by a wrong bit of the identifier, does not know that it was an error.
            assert!(guest.records.iter().filter(failed).count() as u64 <= failures, "seed {seed}");
            let error_frames = guest.records.iter().filter(of_bus).find_map(|it| match it.event {
                Event::Statistics(it) => Some(it.error_frames),
                _ => None,
            });
            assert_eq!(error_frames, Some(failures), "seed {seed}");
            let passed: Vec<_> = guest.passed(bus as u8).iter().map(|it| it.0).collect();
            assert_eq!(passed, passes, "bus {bus}, seed {seed}");
            let most = if bus == 0 { 300..900 } else { 10..50 };
            assert!(most.contains(&failures), "bus {bus}, seed {seed}: {failures}");
        }
    }
}

#[test]
fn a_bed_is_set_up_before_the_guest_uses_it() {
    let plan_of = |rates: &[&str]| write(rates, &[], &[]);
    let (one, two) = (plan_of(&["500k"]), plan_of(&["500k", "500k"]));
    let (one, two) = (Plan::read(&one).unwrap(), Plan::read(&two).unwrap());
    let mut guest = Guest::new(&two, [BTR_500K, BTR_500K], 0);
    assert!(guest.bed.has_plan(&two) && !guest.bed.has_plan(&one));
    assert_eq!(guest.bed.set_up(&two, 0), Err(TestBedError::InUse));
    assert_eq!(TestBed::new(2).set_up(&one, 0), Err(TestBedError::Buses(1, 2)));
    assert!(guest.bed.is_sound() && TestBed::new(0).is_sound());
}

/// Without senders only the guest knows when everything is sent.
#[test]
fn a_tester_without_senders_waits_for_the_guest() {
    let bytes = write(&["500k", "500k"], &[], &[]);
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 0);
    // Before the start it tells nothing.
    guest.bed.guest_is_over(0);
    guest.start(&plan);
    let frame = |number| {
        let mut bytes = [0; 13];
        bytes[..5].copy_from_slice(&[2, 0x24, 0x60, 0, number]);
        bytes
    };
    // The first frame comes after a longer silence than the one at the end, as on a machine with much to do.
    let mut at = STARTS_NS + 7 * QUIET_NS;
    guest.advance(&plan, at);
    assert!(!guest.bed.is_done());
    guest.queue.push_back(frame(0));
    guest.serve(1, at);
    guest.work(&plan, at + 1_000_000);
    at += 3 * QUIET_NS;
    guest.advance(&plan, at);
    // The last one is told to be sent while it is on the bus.
    guest.queue.push_back(frame(1));
    guest.serve(1, at);
    guest.bed.guest_is_over(at);
    guest.bed.guest_is_over(at + 1);
    guest.run(&plan);
    let passed = guest.passed(1);
    assert_eq!(passed.len(), 2);
    let last = *guest.records.last().unwrap();
    assert_eq!((last.event, last.at_ns), (Event::Done, passed[1].2 + QUIET_NS));
    // What passes afterwards is no longer recorded: the last record is the end.
    guest.queue.push_back(frame(2));
    guest.serve(1, last.at_ns + 1);
    guest.work(&plan, last.at_ns + QUIET_NS);
    assert_eq!(guest.records.last(), Some(&last));
}

/// The partner wants the bus at the end of the request: a round trip takes what both frames take, and the intermission.
#[test]
fn a_partner_answers_as_soon_as_the_bus_allows() {
    let bytes = write(&["500k", "500k"], &[ANSWERS], &[]);
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 0);
    guest.send_requests(&plan, 300, true);
    let passed = guest.passed(0);
    assert_eq!(passed.len(), 600);
    for (number, pair) in passed.chunks(2).enumerate() {
        let [(request, begins, _), (answer, _, ends)] = pair else { panic!("half a pair") };
        assert_eq!((request.can_id(), answer.can_id()), (0x77, 0x78));
        assert_eq!(request.data()[..2], (number as u16).to_be_bytes());
        assert_eq!(request.data(), answer.data());
        let bits = |frame: &Frame| u64::from(length(frame).unwrap().total());
        let shortest = (bits(request) + bits(answer) - u64::from(INTERMISSION_BITS)) * 2_000;
        assert_eq!(ends - begins, shortest, "request {number}");
    }
    let wanted = guest.records.iter().filter_map(|record| match record.event {
        Event::Passed { requested_ns, .. } => (!record.is_guest).then_some(requested_ns),
        _ => None,
    });
    assert!(wanted.eq(passed.iter().step_by(2).map(|it| it.2)));
    let last = guest.records.last().unwrap();
    assert_eq!((last.event, last.at_ns), (Event::Done, passed[599].2 + QUIET_NS));
}

/// Requests win arbitration: their answers wait until no more come.
#[test]
fn answers_wait_in_the_order_of_their_requests() {
    const MOST: u16 = MOST_ANSWERS as u16;
    for (count, too_many) in [(MOST, 0), (MOST + 6, 6)] {
        let bytes = write(&["500k", "500k"], &[ANSWERS], &[]);
        let plan = Plan::read(&bytes).unwrap();
        let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 0);
        guest.send_requests(&plan, count, false);
        let passed = guest.passed(0);
        let (requests, answers) = passed.split_at(count.into());
        assert!(requests.iter().all(|it| it.0.can_id() == 0x77));
        let answered = answers.iter().map(|it| it.0.data());
        assert!(answered.eq(requests[..MOST_ANSWERS].iter().map(|it| it.0.data())));
        let overrun = guest.records.iter().find_map(|record| match record.event {
            Event::Overrun(count) if !record.is_guest => Some(count),
            _ => None,
        });
        assert_eq!(overrun.unwrap_or(0), too_many);
    }
}

/// Bit errors have frames sent again, now and then twice, and take nodes off the bus; nothing is left unanswered.
#[test]
fn a_partner_answers_on_a_disturbed_bus() {
    let mut bus_offs = 0;
    for seed in 1..6 {
        let bus = bus("500k", 3e-3);
        let contents =
            Contents { buses: &[bus, bus], senders: &[ANSWERS], seed, ..Contents::default() };
        let bytes = candor_test_bed::write(&contents);
        let plan = Plan::read(&bytes).unwrap();
        let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 0);
        guest.send_requests(&plan, 200, true);
        let numbers = |id: u32| -> Vec<_> {
            let of = guest.passed(0).into_iter().filter(|it| it.0.can_id() == id);
            let mut numbers: Vec<_> = of.map(|it| it.0.data()[1]).collect();
            numbers.dedup();
            numbers
        };
        let off = guest.records.iter().filter(|it| it.event == Event::BusOff && !it.is_guest);
        bus_offs += off.count();
        assert_eq!(numbers(0x77), (0..200).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(numbers(0x78), (0..200).collect::<Vec<_>>(), "seed {seed}");
    }
    assert!(bus_offs > 0);
}

/// How long a sender is off the bus, and what becomes of its frames: it is back after the time of its bus, or never. Where
/// nothing gets through for 10 s, the tester is done.
#[test]
fn a_sender_that_goes_bus_off_starts_again_when_its_bus_says_so() {
    const COUNT: u16 = 400;
    for (restart_ns, bit_error_rate) in
        [(Some(0), 5e-3), (Some(30_000_000), 5e-3), (None, 5e-3), (Some(1_000_000), 1.0)]
    {
        let buses = [
            BusPlan { restart_ns, ..bus("500k", bit_error_rate) },
            BusPlan { restart_ns: None, ..bus("500k", 0.0) },
        ];
        let sender =
            SenderPlan { bus: 0, round: 0, pace: Pace::Timed, first: 0, count: COUNT.into() };
        let steps = numbered(COUNT, 600_000);
        let contents = Contents {
            buses: &buses,
            senders: &[sender],
            seed: 1,
            steps: &steps,
            ..Contents::default()
        };
        let bytes = candor_test_bed::write(&contents);
        let plan = Plan::read(&bytes).unwrap();
        let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 0);
        guest.run(&plan);
        let about = format!("{restart_ns:?} {bit_error_rate}");
        let at = |event: Event| -> Vec<u64> {
            let of_sender = |it: &&Record| it.event == event && it.bus == 0 && !it.is_guest;
            guest.records.iter().filter(of_sender).map(|it| it.at_ns).collect()
        };
        let (offs, returns) = (at(Event::BusOff), at(Event::TakesPart));
        // The first is that of the start.
        let returns = returns.iter().filter(|&&it| it > offs[0]);
        // 128 times 11 bits of 2 us.
        let away: Vec<_> = offs.iter().zip(returns).map(|(off, back)| back - off).collect();
        let least_ns = restart_ns.unwrap_or(0) + 128 * 11 * 2_000;
        assert!(
            away.iter().all(|&it| it >= least_ns && it < least_ns + 100_000),
            "{about} {away:?}"
        );
        let mut passed: Vec<_> =
            guest.passed(0).iter().map(|it| it.0.data()[..2].to_vec()).collect();
        passed.dedup();
        let last = guest.records.last().unwrap();
        assert_eq!(last.event, Event::Done, "{about}");
        match restart_ns {
            None => assert_eq!((offs.len(), away.len(), passed.len() < COUNT.into()), (1, 0, true)),
            Some(_) if bit_error_rate == 1.0 => {
                assert_eq!(passed.len(), 0, "{about}");
                assert!((10_000_000_000..10_100_000_000).contains(&last.at_ns), "{about} {last:?}");
            }
            Some(_) => assert_eq!((passed.len(), offs.len() > 1), (COUNT.into(), true), "{about}"),
        }
    }
}

/// Another sender has its end, whether somebody answers or not.
#[test]
fn nobody_waits_for_a_partner_without_requests() {
    let sender = SenderPlan { bus: 1, round: 0, pace: Pace::Timed, first: 0, count: 2 };
    let bytes = write(&["500k", "500k"], &[ANSWERS, sender], &numbered(2, 1_000_000));
    let plan = Plan::read(&bytes).unwrap();
    let mut guest = Guest::new(&plan, [BTR_500K, BTR_500K], 0);
    guest.write(1, register::IER, 0, 2_000);
    guest.run(&plan);
    let (last, passed) = (guest.records.last().unwrap(), guest.passed(1));
    assert_eq!((last.event, passed.len()), (Event::Done, 2));
    assert_eq!(last.at_ns, passed[1].2 + STARVED_NS);
}

/// Three nodes with 100,000 frames, at times that overlap, with the seed of the year: each begins and ends when the
/// simulation says, and the load is the same.
#[test]
fn the_tester_is_on_the_wire_when_the_simulation_says() {
    const COUNT: usize = 100_000;
    let mut state = 2026_u64;
    let mut draw = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut offers = Vec::new();
    let mut at_ns = 0;
    for _ in 0..COUNT {
        let node = draw(3) as usize;
        let data: Vec<_> = (0..draw(9)).map(|_| [0, 0xFF, 0xA7][draw(3) as usize]).collect();
        // Identifiers of one node only, so that no two nodes send the same one at once.
        let id = match draw(2) {
            0 => draw(0x2A0) as u32 * 3 + node as u32,
            _ => 0x8000_0000 | (draw(0x0AAA_0000) as u32 * 3 + node as u32),
        };
        at_ns += draw(700_000);
        offers.push(Offered {
            at_ns: STARTS_NS + at_ns,
            node,
            frame: Frame::from_parts(id, &data, None).unwrap(),
        });
    }
    let (mut steps, mut senders, mut of_step) = (Vec::new(), Vec::new(), Vec::new());
    for node in 0..3 {
        let first = steps.len() as u32;
        for (index, offer) in offers.iter().enumerate().filter(|(_, it)| it.node == node) {
            steps.push(Step { at_ns: offer.at_ns - STARTS_NS, frame: offer.frame });
            of_step.push(index);
        }
        let count = steps.len() as u32 - first;
        senders.push(SenderPlan { bus: 0, round: 0, pace: Pace::Timed, first, count });
    }
    let bytes = write(&["500k"], &senders, &steps);
    let plan = Plan::read(&bytes).unwrap();
    let mut bed = TestBed::new(1);
    bed.set_up(&plan, 0).unwrap();
    let (mut passed, mut busy_ns) = (Vec::new(), 0);
    let mut sink = |record: Record| match record.event {
        Event::Passed { frame, started_ns, .. } => passed.push((frame, started_ns, record.at_ns)),
        Event::Statistics(it) => busy_ns = it.busy_ns,
        _ => {}
    };
    bed.advance(Some(&plan), STARTS_NS, &mut sink);
    bed.start(&plan, STARTS_NS, &mut sink);
    bed.advance(Some(&plan), u64::MAX - 1, &mut sink);
    assert!(bed.is_done());
    let (expected, busy) = simulated(timing("500k"), 3, &offers);
    assert_eq!((passed.len(), busy_ns), (COUNT, busy));
    let expected =
        expected.into_iter().map(|(index, start, end)| (offers[index].frame, start, end));
    for (number, (passed, expected)) in passed.into_iter().zip(expected).enumerate() {
        assert_eq!(passed, expected, "frame {number}");
    }
}
