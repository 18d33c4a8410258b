//! [`Tester`]: the senders of a bed, and when they are done.
//!
//! ```text
//!  timed           due . sent . due . sent . ...                                   over
//!  after arrival   due . sent . arrived or given up . a while . due . sent . ...   over
//!  answer          a request ended . sent . a request ended . sent . ...           never over
//!  no senders      the guest sends . the guest says that it has sent everything    over
//! ```
//!
//! Senders that answer are no reason to wait: where there are no others, the guest says when it is over.
//!
//! Then it waits for frames that are still on their way.
//!
//! A sender that goes bus-off starts again after the time of its bus, and sends its frame again; without such a time it is
//! off for good, and so is what it had to send.

use candor_can::{NodeId, Notice, Request};
use candor_hardware::Bus;
use candor_wire::can::Frame;

use crate::answers::{Answers, Waiting};
use crate::plan::{MOST_SENDERS, Pace, Plan, SenderPlan};

/// When everything is sent, the guest has sent as many frames as the tester, and none has passed for so long, in ns, none
/// will.
pub const QUIET_NS: u64 = 200_000_000;
/// The same while the guest has sent fewer, and the time that a plan waits for a missing frame has passed as well. Linux gives tasks of usual priority 50 ms of each second beside real-time ones
/// (`sched_rt_runtime_us`, and the fair server since 6.12): a gateway that can run waits 0.95 s at most. The rest is for
/// its work.
pub const STARVED_NS: u64 = 1_100_000_000;
/// But no longer than this after it, in ns, or as long as for a missing frame.
const MOST_WAIT_NS: u64 = 10_000_000_000;
/// Where the tester samples a bit, in thousandths: as Linux chooses for up to 500 kbit/s.
pub(crate) const SAMPLE_POINT_PERMILLE: u16 = 875;

#[derive(Clone, Copy, Debug, PartialEq)]
enum SenderWait {
    /// The start; a request, if it answers; or nothing, if it has sent everything.
    Nothing,
    /// The time of its next frame, in ns.
    Due(u64),
    /// That its frame, due at this time, gets through.
    Sent(u64),
    /// That a frame with this number arrives, or this time comes, in ns.
    Arrival([u8; 2], u64),
    /// That its node starts again at this time, in ns, to send its frame due at that one.
    Restart(u64, u64),
    /// Nothing any more: it is off the bus for good.
    Off,
}

/// A sender: a node of a bus, and where it is in the plan.
#[derive(Clone, Copy, Debug)]
struct Sender {
    bus: u8,
    node: NodeId,
    /// Whether it only answers.
    is_answering: bool,
    /// Which of its steps is next, from 0.
    next: u32,
    wait: SenderWait,
}

/// How far the tester is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It was not started.
    Idle,
    /// It sends, or waits for the last frames.
    Running,
    /// Nothing comes any more.
    Done,
}

/// The senders of a bed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tester {
    senders: [Option<Sender>; MOST_SENDERS],
    answers: Answers,
    progress: Progress,
    /// How often it was started, and how often it can be.
    starts: u8,
    rounds: u8,
    started_ns: u64,
    /// How long a sender that goes bus-off is away at most, in ns, if it comes back.
    away_ns: u64,
    /// How long a missing frame is waited for, in ns.
    timeout_ns: u64,
    /// Since when all senders, or without any the guest, have sent everything.
    over_ns: Option<u64>,
    /// When a frame last passed.
    passed_ns: u64,
    /// How many frames of the tester have passed, and of the guest.
    sent: u64,
    sent_by_guest: u64,
}

impl Tester {
    pub(crate) const NEW: Self = Self {
        senders: [None; MOST_SENDERS],
        answers: Answers::NEW,
        progress: Progress::Idle,
        starts: 0,
        rounds: 1,
        started_ns: 0,
        away_ns: 0,
        timeout_ns: 0,
        over_ns: None,
        passed_ns: 0,
        sent: 0,
        sent_by_guest: 0,
    };

    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    /// Adds the next sender of a plan; whether there was room.
    pub(crate) fn add(&mut self, plan: SenderPlan, buses: &mut [Bus], now_ns: u64) -> bool {
        let Some(free) = self.senders.iter_mut().find(|it| it.is_none()) else { return false };
        *free = buses.get_mut(usize::from(plan.bus)).and_then(|bus| {
            let node = bus.nodes_mut().add()?;
            bus.join(node, false, SAMPLE_POINT_PERMILLE, now_ns);
            let is_answering = matches!(plan.pace, Pace::Answer(_));
            Some(Sender { bus: plan.bus, node, is_answering, next: 0, wait: SenderWait::Nothing })
        });
        free.is_some()
    }

    /// Whether this is the last round.
    pub(crate) const fn is_last_round(&self) -> bool {
        self.starts == self.rounds
    }

    /// Whether there is a round that it has not sent.
    pub(crate) fn can_start(&self, plan: &Plan<'_>) -> bool {
        self.progress != Progress::Running && self.starts < plan.rounds()
    }

    /// Begins the next round: times of the plan count from now on.
    pub(crate) fn start(&mut self, plan: &Plan<'_>, now_ns: u64) {
        self.progress = Progress::Running;
        self.starts += 1;
        self.rounds = plan.rounds();
        (self.started_ns, self.passed_ns) = (now_ns, now_ns);
        (self.over_ns, self.sent, self.sent_by_guest) = (None, 0, 0);
        self.timeout_ns = plan.timeout_ns();
        self.away_ns = plan.buses().filter_map(|it| it.restart_ns).max().unwrap_or(0);
        for index in 0..MOST_SENDERS {
            self.go_on(index, plan, now_ns);
        }
        self.note_end(now_ns);
    }

    /// When something is to be done next, in ns.
    pub(crate) fn deadline(&self) -> Option<u64> {
        if self.progress != Progress::Running {
            return None;
        }
        let waits = self.senders.iter().flatten().filter_map(|sender| match sender.wait {
            SenderWait::Due(at) | SenderWait::Arrival(_, at) | SenderWait::Restart(at, _) => {
                Some(at)
            }
            SenderWait::Nothing | SenderWait::Sent(_) | SenderWait::Off => None,
        });
        waits.chain(self.quiet_at_ns()).min()
    }

    /// When it is done if nothing passes until then.
    fn quiet_at_ns(&self) -> Option<u64> {
        let Some(over_ns) = self.over_ns else { return self.hopeless_at_ns() };
        let missing_ns = STARVED_NS.saturating_add(self.timeout_ns);
        let quiet_ns = if self.sent_by_guest < self.sent { missing_ns } else { QUIET_NS };
        let quiet_at_ns = over_ns.max(self.passed_ns).saturating_add(quiet_ns);
        Some(quiet_at_ns.min(over_ns.saturating_add(MOST_WAIT_NS.max(missing_ns))))
    }

    /// When it is done although senders want to send, if nothing passes until then: errors destroy whatever they send, also
    /// after they were bus-off twice.
    fn hopeless_at_ns(&self) -> Option<u64> {
        let mut latest_ns = None;
        for sender in self.senders.iter().flatten().filter(|it| !it.is_answering) {
            match sender.wait {
                SenderWait::Sent(due_ns) | SenderWait::Restart(_, due_ns) => {
                    latest_ns = latest_ns.max(Some(due_ns));
                }
                SenderWait::Nothing | SenderWait::Off => {}
                SenderWait::Due(_) | SenderWait::Arrival(..) => return None,
            }
        }
        let patience_ns = self.away_ns.saturating_mul(2).saturating_add(MOST_WAIT_NS);
        Some(latest_ns?.max(self.passed_ns).saturating_add(patience_ns))
    }

    /// What is due at `now_ns`; whether the tester is done with it.
    pub(crate) fn advance(&mut self, plan: &Plan<'_>, now_ns: u64, buses: &mut [Bus]) -> bool {
        if self.progress != Progress::Running {
            return false;
        }
        for index in 0..MOST_SENDERS {
            match self.senders[index].map(|it| it.wait) {
                Some(SenderWait::Arrival(_, until)) if until <= now_ns => {
                    self.advance_sender(index, plan, now_ns);
                }
                Some(SenderWait::Restart(at, due)) if at <= now_ns => {
                    self.restart(index, due, now_ns, buses);
                }
                _ => {}
            }
            if let Some(sender) = &mut self.senders[index]
                && let SenderWait::Due(at) = sender.wait
                && at <= now_ns
            {
                sender.wait = SenderWait::Sent(at);
                self.request(index, plan, buses);
            }
        }
        let is_done = self.quiet_at_ns().is_some_and(|at| at <= now_ns);
        if is_done {
            self.progress = Progress::Done;
        }
        is_done
    }

    /// A node learned something on its bus; whether it is one of the tester's senders.
    pub(crate) fn notice(
        &mut self,
        plan: &Plan<'_>,
        (bus, node): (u8, NodeId),
        now_ns: u64,
        notice: Notice,
        buses: &mut [Bus],
    ) {
        let of = |it: &Option<Sender>| it.is_some_and(|it| (it.bus, it.node) == (bus, node));
        let Some(index) = self.senders.iter().position(of) else { return };
        let Some(sender) = &mut self.senders[index] else { return };
        match notice {
            Notice::Sent(passage) => match plan.sender(index).map(|it| it.pace) {
                Some(Pace::AfterArrival { bus: awaited, timeout_ns }) if awaited != bus => {
                    let SenderWait::Sent(due_ns) = sender.wait else { return };
                    let until = due_ns.saturating_add(timeout_ns).max(now_ns);
                    match number(&passage.frame) {
                        Some(number) => sender.wait = SenderWait::Arrival(number, until),
                        None => sender.wait = SenderWait::Due(until),
                    }
                }
                Some(Pace::Answer(_)) => {
                    self.answers.pop();
                    sender.wait = SenderWait::Nothing;
                    self.answer(index, plan, buses);
                }
                _ => self.advance_sender(index, plan, now_ns),
            },
            Notice::BusOff => {
                let of_bus = plan.buses().nth(usize::from(bus));
                sender.wait = match (sender.wait, of_bus.and_then(|it| it.restart_ns)) {
                    (SenderWait::Sent(due), Some(after_ns)) => {
                        SenderWait::Restart(now_ns.saturating_add(after_ns), due)
                    }
                    _ => SenderWait::Off,
                };
                self.note_end(now_ns);
            }
            Notice::TakesPart if matches!(sender.wait, SenderWait::Sent(_)) => {
                self.request(index, plan, buses);
            }
            _ => {}
        }
    }

    /// The node of a sender takes part again, once it has seen that the bus is idle, and sends its frame again then.
    fn restart(&mut self, index: usize, due_ns: u64, now_ns: u64, buses: &mut [Bus]) {
        let Some(sender) = &mut self.senders[index] else { return };
        sender.wait = SenderWait::Sent(due_ns);
        if let Some(bus) = buses.get_mut(usize::from(sender.bus)) {
            bus.join(sender.node, false, SAMPLE_POINT_PERMILLE, now_ns);
        }
    }

    /// A frame passed on a bus, sent by the guest.
    pub(crate) fn passed(
        &mut self,
        plan: &Plan<'_>,
        bus: u8,
        now_ns: u64,
        frame: &Frame,
        buses: &mut [Bus],
    ) {
        let arrived = number(frame);
        for index in 0..MOST_SENDERS {
            let Some(of_plan) = plan.sender(index) else { continue };
            match (of_plan.pace, self.senders[index].map(|it| it.wait)) {
                (Pace::AfterArrival { bus: awaited, .. }, Some(SenderWait::Arrival(number, _)))
                    if awaited == bus && arrived == Some(number) =>
                {
                    self.advance_sender(index, plan, now_ns);
                }
                (Pace::Answer(_), Some(SenderWait::Off)) => {}
                (Pace::Answer(answer), Some(_)) if of_plan.bus == bus => {
                    if let Some(frame) = answer.to(frame) {
                        self.answers.push(Waiting { frame, at_ns: now_ns });
                        self.answer(index, plan, buses);
                    }
                }
                _ => {}
            }
        }
    }

    /// The sender that answers wants to send its next answer, unless it is sending one.
    fn answer(&mut self, index: usize, plan: &Plan<'_>, buses: &mut [Bus]) {
        let Some(sender) = &mut self.senders[index] else { return };
        if sender.wait == SenderWait::Nothing
            && let Some(next) = self.answers.next()
        {
            sender.wait = SenderWait::Sent(next.at_ns);
            self.request(index, plan, buses);
        }
    }

    /// A sender wants to send the frame of its present step, or its present answer.
    fn request(&self, index: usize, plan: &Plan<'_>, buses: &mut [Bus]) {
        let (Some(sender), Some(of_plan)) = (self.senders[index], plan.sender(index)) else {
            return;
        };
        let frame = match of_plan.pace {
            Pace::Answer(_) => self.answers.next().map(|it| it.frame),
            Pace::Timed | Pace::AfterArrival { .. } => {
                plan.step(of_plan.first.wrapping_add(sender.next)).map(|it| it.frame)
            }
        };
        let (Some(frame), SenderWait::Sent(at_ns)) = (frame, sender.wait) else { return };
        if let Some(bus) = buses.get_mut(usize::from(sender.bus)) {
            // A plan has no error reports.
            if let Ok(request) = Request::new(frame, at_ns) {
                bus.request(sender.node, request);
            }
        }
    }

    /// For how many requests of the guest there was no room, and the sender that should have answered them: its bus and
    /// its node.
    pub(crate) fn refused(&self) -> Option<(u8, NodeId, u64)> {
        let sender = self.senders.iter().flatten().find(|it| it.is_answering)?;
        Some((sender.bus, sender.node, self.answers.refused())).filter(|it| it.2 > 0)
    }

    /// Something passed on a bus.
    pub(crate) fn note_passage(&mut self, now_ns: u64, is_guest: bool) {
        self.passed_ns = now_ns;
        *if is_guest { &mut self.sent_by_guest } else { &mut self.sent } += 1;
    }

    /// A sender is through with a step.
    fn advance_sender(&mut self, index: usize, plan: &Plan<'_>, now_ns: u64) {
        if let Some(sender) = &mut self.senders[index] {
            sender.next += 1;
        }
        self.go_on(index, plan, now_ns);
        self.note_end(now_ns);
    }

    /// A sender waits for the time of its next step, if it has one.
    fn go_on(&mut self, index: usize, plan: &Plan<'_>, now_ns: u64) {
        let (Some(sender), Some(of_plan)) = (&mut self.senders[index], plan.sender(index)) else {
            return;
        };
        if of_plan.round.checked_add(1) != Some(self.starts) {
            return;
        }
        let begin_ns = match of_plan.pace {
            Pace::Timed => self.started_ns,
            Pace::AfterArrival { .. } => now_ns,
            // It waits for a request.
            Pace::Answer(_) => return,
        };
        let step = (sender.next < of_plan.count)
            .then(|| plan.step(of_plan.first.wrapping_add(sender.next)))
            .flatten();
        sender.wait = step.map_or(SenderWait::Nothing, |step| {
            SenderWait::Due(begin_ns.saturating_add(step.at_ns))
        });
    }

    fn note_end(&mut self, now_ns: u64) {
        let mut own = self.senders.iter().flatten().filter(|it| !it.is_answering);
        let is_over = own.all(|it| matches!(it.wait, SenderWait::Nothing | SenderWait::Off));
        if self.has_senders() && is_over && self.over_ns.is_none() {
            self.over_ns = Some(now_ns);
        }
    }

    /// Whether there are senders that send by themselves.
    fn has_senders(&self) -> bool {
        self.senders.iter().flatten().any(|it| !it.is_answering)
    }

    /// The guest has sent everything. With senders that send by themselves the tester knows its end itself.
    pub(crate) fn guest_is_over(&mut self, now_ns: u64) {
        if self.progress == Progress::Running && !self.has_senders() && self.over_ns.is_none() {
            self.over_ns = Some(now_ns);
        }
    }
}

/// The number of a frame: its first two bytes.
fn number(frame: &Frame) -> Option<[u8; 2]> {
    frame.data().first_chunk().copied()
}
