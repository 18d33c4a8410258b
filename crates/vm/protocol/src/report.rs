//! What a guest reports: a stream of messages, put together to a report.

use serde::{Deserialize, Serialize};

/// One message of the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The order was read. `uname -r` and `uname -v`.
    Hello {
        /// Such as `6.12.117+deb12-amd64`.
        release: String,
        /// Such as `#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1~deb12u1`.
        version: String,
    },
    /// Something people may want to know.
    Note(String),
    /// What the tester sent, in order.
    Sent(Vec<Stamp>),
    /// When each of these was due, in nanoseconds since the experiment began. A sender on another
    /// machine would have sent it then; this one may have had to wait until it could run.
    Due(Vec<u64>),
    /// What the monitor saw on the source bus, in order.
    Monitored(Vec<Stamp>),
    /// What the receiver saw on the target bus, in order.
    Received(Vec<Stamp>),
    /// When a reader had each frame, in order: of the time stamp counter, which is the virtual clock of the machine
    /// in nanoseconds.
    Delivered(Vec<Stamp>),
    /// The frames of the receiver in the same order, if they were wanted: bytes as a socket gives
    /// them, those of a classical frame cut behind the data.
    Frames(Vec<Vec<u8>>),
    /// With a tester inside: the frames of the warm-up.
    Cold(Ways),
    /// What the rules counted, in the order of the rules and their destinations.
    Jobs(Vec<JobCount>),
    /// Figures of the run.
    Totals(Totals),
    /// Functions of the kernel and its modules (`/proc/kallsyms`), if the machine is to be stopped.
    Symbols(Vec<Symbol>),
    /// What became of the frames of one trial, in the order of trials.
    Trial(TrialOutcome),
    /// What a command printed.
    Command(CommandOutcome),
    /// The order could not be performed: place, reason, remedy.
    Failed(String),
    /// The order was performed; nothing follows.
    Done,
}

/// When a frame was somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The number in the first two bytes of its data.
    pub number: u16,
    /// Nanoseconds since the experiment began (of the guest's real-time clock, which never jumps).
    pub time_ns: u64,
}

/// What a rule counted for one of its destinations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCount {
    /// Copies that the queue took.
    pub handled: u64,
    /// As the kernel counts.
    pub dropped: u64,
    /// As the kernel counts.
    pub deleted: u64,
    /// Copies that were stopped, by cause: what a gateway in user space knows. The kernel counts no
    /// causes.
    pub causes: Vec<(String, u64)>,
}

/// Figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// From the first frame to the last.
    pub duration_ns: u64,
    /// Frames that the kernel did not take from the sender (`ENOBUFS`); each was tried once.
    pub refused_by_sender: u64,
    /// Frames that the tester's own sockets lost; unless zero, the run is worth nothing.
    pub overflow_of_tester: u64,
    /// Frames that the sockets of a user-space gateway lost.
    pub overflow_of_gateway: u64,
    /// Frames that controllers of the gateway lost (`rx_over_errors`).
    pub overflow_of_controller: u64,
    /// Frames that the queues in front of the gateway's controllers refused (`ENOBUFS`, qdisc
    /// drops).
    pub overflow_of_queue: u64,
    /// Frames lost before the stack looked at them: `/proc/net/softnet_stat`, dropped.
    pub overflow_of_backlog: u64,
    /// CPU time of the threads of a user-space gateway, interrupts that hit them included.
    pub gateway_cpu_ns: u64,
    /// How often the gateway's threads gave up the CPU, and how often it was taken from them.
    pub gateway_switches: (u64, u64),
    /// CPU time of the tester's sender.
    pub sender_cpu_ns: u64,
    /// Frames that left late, and the longest delay: the tester's own punctuality.
    pub latest_departure_ns: u64,
    /// Echo replies that the flood ping got.
    pub ping_replies: u64,
    /// Messages that hackbench passed.
    pub hackbench_messages: u64,
}

/// A function and where it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    pub address: u64,
    pub name: String,
    /// `kernel`, or the name of a module.
    pub place: String,
}

/// What can-gw did in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialOutcome {
    /// For each frame, the copies that came out: the bus, and the bytes as a socket gives them.
    pub copies: Vec<Vec<(u16, Vec<u8>)>>,
    /// What each job counted, in the order of the rules and their destinations.
    pub jobs: Vec<JobCount>,
    /// Rules that the kernel refused: the index of the rule and the error number.
    pub refused: Vec<(u32, i32)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutcome {
    /// Its exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

/// The ways of some frames through the test bed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// See [`Message::Sent`].
    pub sent: Vec<Stamp>,
    /// See [`Message::Due`].
    pub due: Vec<u64>,
    /// See [`Message::Monitored`].
    pub monitored: Vec<Stamp>,
    /// See [`Message::Received`].
    pub received: Vec<Stamp>,
    /// For each of the received ones, what only a tester outside sees.
    pub target: Vec<OnWire>,
}

/// What only a tester outside of the guest can see. Times are nanoseconds since the tester was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wire {
    /// For each stamp of [`Report::sent`].
    pub source: Vec<OnWire>,
    /// For each stamp of [`Report::received`].
    pub target: Vec<OnWire>,
    pub buses: Vec<BusCount>,
    /// The station that loads the guest over Ethernet, if there is one.
    pub station: Option<StationCount>,
}

/// What a station counted that loads the guest over Ethernet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationCount {
    /// Datagrams that it sent.
    pub datagrams: u64,
    /// Whole answers that it got.
    pub answers: u64,
    /// Frames that arrived at the guest's card.
    pub frames: u64,
    /// Those of them for which the card had no room.
    pub refused: u64,
    /// Frames of the guest.
    pub received: u64,
    /// How long answers took: from the begin of the request to the end of the answer, in nanoseconds.
    pub round_trips_ns: Vec<u64>,
}

/// How a frame came onto the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnWire {
    /// Since when its node wanted to send it: the tester since it was due, a controller since its driver asked for it.
    pub requested_ns: u64,
    /// When its start of frame began.
    pub started_ns: u64,
}

/// What happened on a bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusCount {
    /// Frames that got through.
    pub frames: u64,
    /// Frames that were destroyed.
    pub error_frames: u64,
    /// How often a node went bus-off.
    pub bus_offs: u64,
    /// How long it was occupied, intermissions and error frames included.
    pub busy_ns: u64,
    /// When a controller of the guest was bus-off, from and to: until it took part again, or `u64::MAX`.
    pub off: Vec<(u64, u64)>,
}

/// Everything a guest reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// Notes, in order.
    pub notes: Vec<String>,
    /// See [`Message::Sent`].
    pub sent: Vec<Stamp>,
    /// See [`Message::Due`].
    pub due: Vec<u64>,
    /// See [`Message::Monitored`].
    pub monitored: Vec<Stamp>,
    /// See [`Message::Received`].
    pub received: Vec<Stamp>,
    /// See [`Message::Delivered`]; with a tester outside, nanoseconds since it was started, as its own times.
    pub delivered: Vec<Stamp>,
    /// See [`Message::Frames`].
    pub frames: Vec<Vec<u8>>,
    /// The frames of the warm-up, with which nothing else here has to do.
    pub cold: Option<Ways>,
    /// See [`Message::Jobs`].
    pub jobs: Vec<JobCount>,
    /// See [`Message::Totals`].
    pub totals: Totals,
    /// See [`Message::Symbols`].
    pub symbols: Vec<Symbol>,
    /// See [`Message::Trial`].
    pub trials: Vec<TrialOutcome>,
    /// See [`Message::Command`].
    pub command: Option<CommandOutcome>,
    /// What a tester outside of the guest saw besides; `None` if the tester is inside.
    pub wire: Option<Wire>,
    /// Why the order could not be performed.
    pub failure: Option<String>,
    /// Whether the guest came to its end.
    pub is_done: bool,
}

impl Report {
    /// Takes the next message.
    pub fn take(&mut self, message: Message) {
        match message {
            Message::Hello { release, version } => {
                self.release = release;
                self.version = version;
            }
            Message::Note(note) => self.notes.push(note),
            Message::Sent(stamps) => self.sent.extend(stamps),
            Message::Due(times) => self.due.extend(times),
            Message::Monitored(stamps) => self.monitored.extend(stamps),
            Message::Received(stamps) => self.received.extend(stamps),
            Message::Delivered(stamps) => self.delivered.extend(stamps),
            Message::Frames(frames) => self.frames.extend(frames),
            Message::Cold(ways) => self.cold = Some(ways),
            Message::Jobs(jobs) => self.jobs.extend(jobs),
            Message::Totals(totals) => self.totals = totals,
            Message::Symbols(symbols) => self.symbols.extend(symbols),
            Message::Trial(outcome) => self.trials.push(outcome),
            Message::Command(outcome) => self.command = Some(outcome),
            Message::Failed(reason) => self.failure = Some(reason),
            Message::Done => self.is_done = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{decode, encode};

    #[test]
    fn what_a_reader_notes_survives_the_way() {
        let stamps = vec![Stamp { number: 7, time_ns: u64::MAX }, Stamp { number: 8, time_ns: 0 }];
        let message = Message::Delivered(stamps.clone());
        let bytes = encode(&message);
        assert_eq!(decode(&bytes, 0), Ok(Some((message.clone(), bytes.len()))));
        let mut report = Report::default();
        report.take(message);
        assert_eq!(report.delivered, stamps);
    }
}
