//! `file:drive.log`: a recording, to be replayed or to be written.
//!
//! **Received** is what the recording holds, at the times that it tells: the first frame at once,
//! each other one as long after it as it was recorded, by an absolute schedule, so that delays do
//! not add up. `speed=2` goes twice as fast, `speed=max` does not wait at all. The stamps are those
//! of the recording. Malformed records are counted and passed over as long as their end can be
//! found; else the replay ends with the place.
//!
//! `loop=true` begins again when the recording ends, for ever. Times go on growing, in the stamps and in
//! the schedule: each round begins one usual gap behind the last frame of the round before. The usual
//! gap is the mean one between the frames of the first round, at least 1 ns; a recording of one frame is
//! repeated each second. If the file was missing, empty or could not be read for a while, the next record comes
//! at once, and the others after it as usual: the frames of that time are not made up for. The file is read again for each round, so it must be one: a pipe is refused.
//! A recording without frames ends.
//!
//! A capture of Ethernet is a recording of CAN if it has datagrams of can2udp: those to UDP port 4858, or to the one
//! that `can_udp=5000` names. Its interfaces are called `udp4858.0`, by that port and can2udp's number.
//!
//! [`Wanted::recorded`] ends the replay so long after the first frame, by the stamps: at once, without waiting for a frame that comes
//! later.
//!
//! A file that ends inside a record, since its recorder was stopped, ends there for the replay too,
//! and that record counts as malformed.
//!
//! **Transmitted** frames are written with the time of the machine (`CLOCK_REALTIME`), in the format
//! that the ending of the name stands for: see [`recorder`]. The file grows twice a second, when
//! [`Transmitter::flush`](candor_port::Transmitter::flush) is called, and at the end. A file that is there
//! already is left alone unless `replace=true` is given; then it is replaced by the first write. Who [moves](was_moved) the file
//! away lets the port write on; a port that is opened anew begins another one.
//!
//! No call waits for the file: threads open, read and write it. A pipe without a reader or writer, and a
//! disk that does not answer, are the trouble of the port, and it works as soon as they do.

mod ahead;
mod lock;
mod recorder;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use candor_linux::clock;
use candor_linux::poll::Interest;
use candor_recording::{CanUdp, Record};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Kind;

use self::ahead::{Next, ReadAhead, Request};
use self::recorder::Recorder;
use crate::kernel;
use crate::wait::{self, Wait};
use candor_port::{
    Address, Capabilities, Error, Handover, Message, Origin, Port, Progress, Received, Receiver,
    ReceiverCounters, Stamp, Until, Waker, Wanted,
};
use candor_port::{Driver, Medium};
use candor_recording::RecordingError;

pub(crate) static DRIVER: Driver = Driver {
    name: "file",
    summary: "a recording: receiving replays it, transmitting writes it",
    medium: Medium::Recording,
    example: "file:drive.log",
    options: &[
        ("speed", "the replay speed: 1 as recorded, 2 twice as fast, max without waiting"),
        ("loop", "true: a recording that is received begins again when it ends, for ever"),
        (
            "interface",
            "the interface to replay if there are several; the name to write (default \
                       can0)",
        ),
        (
            "can_udp",
            "the UDP port whose datagrams in a capture of Ethernet are CAN frames of can2udp; \
             default: 4858",
        ),
        ("replace", "true: an existing file may be replaced"),
    ],
    check,
    names: |_| Vec::new(),
    open,
};

/// Whether no file that this process writes is at the path of a recording: somebody has moved or deleted it, as logrotate
/// does, or no port writes it. False of what is no recording. A disk may take its time to tell.
#[must_use]
pub fn was_moved(address: &Address) -> bool {
    address.driver() == DRIVER.name && !lock::is_written(Path::new(address.place()))
}

/// Frames that are handed over at once.
const BATCH: usize = 256;
/// A loop that had to wait for its file, and goes on later than that, does not catch up. Reading is ahead of the
/// replay, so a file that is there is not so late.
const STANDSTILL: Nanos = Nanos::from_millis(20);
/// How long the opening of a port waits for its file.
const OPEN_TIMEOUT: Duration = Duration::from_millis(200);
/// What the trouble is after that.
const OPENING: &str =
    "the file is not open yet: a pipe waits for its other end, or the disk does not answer";

fn check(address: &Address, wanted: Wanted) -> Result<(), Error> {
    let name = address.to_string();
    if wanted.receiver && wanted.transmitter {
        return Err(Error::new(name, "a recording can be read or written, not both")
            .with_remedy("use two files, or only one direction"));
    }
    speed(address)?;
    address.flag("replace")?;
    can_udp(address)?;
    if address.flag("loop")? && wanted.transmitter {
        return Err(Error::new(name, "a recording that is written cannot begin again")
            .with_remedy("remove loop=true"));
    }
    if wanted.transmitter {
        candor_recording::growing_format_of_name(address.place())
            .map_err(|error| failure(&name, &error))?;
    }
    Ok(())
}

fn can_udp(address: &Address) -> Result<CanUdp, Error> {
    Ok(address.parsed("can_udp", "5000 or can_udp=none")?.unwrap_or_default())
}

fn open(address: &Address, wanted: Wanted, _: &Handover) -> Result<Port, Error> {
    let name = address.to_string();
    let mut port = Port::new(Capabilities {
        fd: true,
        remote: true,
        error_reports: true,
        stamps: true,
        ordered: true,
        reliable: true,
        message: Message::Frame,
        ..Capabilities::default()
    });
    if wanted.receiver {
        port.receiver = Some(Box::new(Replay::open(address, wanted)?));
    } else if wanted.transmitter {
        let path = Path::new(address.place());
        let recorder = Recorder::create(&name, path, address.flag("replace")?, address)?;
        port.transmitter = Some(Box::new(recorder));
    }
    Ok(port)
}

fn failure(name: &str, error: &RecordingError) -> Error {
    let failure = Error::new(name, error.to_string());
    match error.io_error() {
        Some(io) => kernel::with_number(failure, io),
        None => failure,
    }
}

/// How fast a recording is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReplaySpeed {
    /// So many times as fast as recorded.
    Times(f64),
    /// Without waiting.
    Max,
}

fn speed(address: &Address) -> Result<ReplaySpeed, Error> {
    match address.option("speed") {
        None => Ok(ReplaySpeed::Times(1.0)),
        Some("max") => Ok(ReplaySpeed::Max),
        Some(_) => match address.parsed("speed", "2 or speed=max")?.unwrap_or(1.0) {
            times if (1e-6..=1e6).contains(&times) => Ok(ReplaySpeed::Times(times)),
            _ => Err(Error::new(address.to_string(), "replay at this speed is not possible")
                .with_remedy("the speed must be 0.000001 to 1000000, or max")),
        },
    }
}

impl ReplaySpeed {
    /// When a record is due that was recorded so long after the first one.
    fn due(self, start: Instant<Monotonic>, since_first: Nanos) -> Instant<Monotonic> {
        match self {
            Self::Max => start,
            // Exact, also for years.
            Self::Times(1.0) => start + since_first,
            Self::Times(times) => {
                start + Nanos::from_nanos((since_first.as_nanos() as f64 / times) as u64)
            }
        }
    }
}

/// The half that receives.
struct Replay {
    name: Box<str>,
    ahead: ReadAhead,
    speed: ReplaySpeed,
    is_loop: bool,
    /// Whether the next record was looked for when it had not been read.
    was_unread: bool,
    wants_stamps: bool,
    /// How long after the first record it ends, by the stamps.
    most: Option<Nanos>,
    /// When the replay began, and at which time of the recording.
    start: Option<(Instant<Monotonic>, u64)>,
    /// What has ended the replay, to be reported after what could be read.
    failure: Option<Error>,
    wait: Wait,
    counters: Arc<ReceiverCounters>,
}

/// What a replay has to do now.
enum Turn {
    Due(Record),
    /// The next one is due later.
    At(Instant<Monotonic>),
    /// The next one has not been read yet.
    Unread,
    /// There is no further one.
    Ended,
}

impl Replay {
    fn open(address: &Address, wanted: Wanted) -> Result<Self, Error> {
        let name = address.to_string();
        let is_loop = address.flag("loop")?;
        let request = Request {
            name: name.clone(),
            path: address.place().into(),
            interface: address.option("interface").map(Into::into),
            wants_reports: wanted.error_reports,
            is_loop,
            can_udp: can_udp(address)?,
        };
        let counters = Arc::<ReceiverCounters>::default();
        Ok(Self {
            ahead: ReadAhead::open(request, Arc::clone(&counters), OPEN_TIMEOUT)?,
            speed: speed(address)?,
            is_loop,
            was_unread: false,
            wants_stamps: wanted.stamps,
            most: wanted.recorded,
            start: None,
            failure: None,
            wait: Wait::new(&name, wanted)?,
            counters,
            name: name.into(),
        })
    }

    /// Takes the next record if it is due.
    fn turn(&mut self, now: Instant<Monotonic>) -> Result<Turn, Error> {
        let record = match self.ahead.next()? {
            Next::Record(record) => record,
            Next::Later => {
                self.was_unread = true;
                return Ok(Turn::Unread);
            }
            Next::Ended => return Ok(Turn::Ended),
        };
        let (start, first) = *self.start.get_or_insert((now, record.time_ns));
        let since_first = Nanos::from_nanos(record.time_ns.saturating_sub(first));
        if self.most.is_some_and(|most| since_first >= most) {
            return Ok(Turn::Ended);
        }
        let mut due = self.speed.due(start, since_first);
        let was_unread = std::mem::take(&mut self.was_unread);
        if self.is_loop && was_unread && now > due + STANDSTILL {
            self.start = Some((start + (now - due), first));
            due = now;
        }
        if due > now {
            return Ok(Turn::At(due));
        }
        let record = *record;
        self.ahead.advance();
        Ok(Turn::Due(record))
    }

    /// Waits until a record is due, but not longer than `until` or a signal.
    fn wait(&mut self, until: Until) -> Result<Turn, Error> {
        let fail = |name: &str, error| kernel::failure(name, &error);
        let mut turn = self.turn(clock::now())?;
        // What the thread that reads tells may be something else.
        while matches!(turn, Turn::Unread) {
            let told = self.wait.for_file(&self.ahead, Interest::Read, until);
            let was_told = told.map_err(|error| fail(&self.name, error))?;
            self.ahead.look();
            turn = self.turn(clock::now())?;
            if !was_told {
                return Ok(turn);
            }
        }
        if let Turn::At(due) = turn {
            let waited = self.wait.for_nothing(wait::earlier(until, due));
            waited.map_err(|error| fail(&self.name, error))?;
            turn = self.turn(clock::now())?;
        }
        Ok(turn)
    }
}

impl Receiver for Replay {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut turn = self.wait(until)?;
        let now = clock::now::<Monotonic>();
        let mut count = 0;
        loop {
            let record = match turn {
                Turn::Due(record) => record,
                Turn::Ended if count == 0 => return Ok(Progress::Ended),
                Turn::At(_) | Turn::Unread if count == 0 => return Ok(Progress::Nothing),
                _ => return Ok(Progress::Frames(count)),
            };
            count += 1;
            self.counters.frames.add(1);
            if record.frame.kind() == Kind::Error {
                self.counters.error_reports.add(1);
            }
            let stamp = self.wants_stamps.then_some(Instant::from_nanos(record.time_ns));
            take(&Received {
                frame: record.frame,
                stamp: Stamp { system: stamp, hardware: None },
                origin: Origin::Bus,
            });
            if count == BATCH {
                return Ok(Progress::Frames(count));
            }
            turn = match self.turn(now) {
                Ok(turn) => turn,
                Err(error) => {
                    self.failure = Some(error);
                    return Ok(Progress::Frames(count));
                }
            };
        }
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::process::Command;

    use super::*;
    use candor_port::Sent;

    const LOG: &str = "\
        (1000.000000) can0 123#11\n\
        (1000.002000) can1 124#22\n\
        (1000.003000) can0 12x#33\n\
        (1000.004000) can0 20000088#0000000000000000\n\
        (1000.003500) can0 125##1AABB\n\
        (1000.006000) can0 126#R\n";

    pub(super) fn port(name: &str, wanted: Wanted) -> Result<Port, Error> {
        crate::open(&name.parse().unwrap(), wanted)
    }

    /// A recording, and the name of its port.
    pub(super) fn recording(contents: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.log");
        fs::write(&path, contents).unwrap();
        (folder, format!("file:{}", path.display()))
    }

    #[test]
    fn a_loop_begins_again_and_its_stamps_grow() {
        const TWO: &str = "(1000.000000) can0 123#11\n(1000.002000) can0 124#22\n";
        for (log, options, frames, millis) in [
            (TWO, "", ["123#11", "124#22", "123#11", "124#22", "123#11"], [0, 2, 4, 6, 8]),
            (
                TWO,
                "&speed=max",
                ["123#11", "124#22", "123#11", "124#22", "123#11"],
                [0, 2, 4, 6, 8],
            ),
            (TWO, "&speed=2", ["123#11", "124#22", "123#11", "124#22", "123#11"], [0, 2, 4, 6, 8]),
            // Four frames in 6 ms, malformed and out of order.
            (LOG, "", ["123#11", "124#22", "125##1AABB", "126#R", "123#11"], [0, 2, 3, 6, 8]),
            (LOG, "&interface=can1&speed=max", ["124#22"; 5], [2, 1_002, 2_002, 3_002, 4_002]),
        ] {
            let (_folder, name) = recording(log);
            let mut port = port(&format!("{name}?loop=true{options}"), Wanted::RECEIVER).unwrap();
            let receiver = port.receiver.as_mut().unwrap();
            let (begin, mut found) = (clock::now::<Monotonic>(), Vec::new());
            while found.len() < 5 {
                let progress = receiver.receive(Until::Woken, &mut |received| {
                    let stamp = received.stamp.system.unwrap().as_nanos();
                    found.push((received.frame.to_string(), stamp, clock::now::<Monotonic>()));
                });
                assert_ne!(progress, Ok(Progress::Ended), "{options}");
            }
            found.truncate(5);
            let texts: Vec<_> = found.iter().map(|(text, ..)| text.as_str()).collect();
            let stamps: Vec<_> =
                found.iter().map(|(_, stamp, _)| stamp / 1_000_000 - 1_000_000).collect();
            assert_eq!((&texts[..], &stamps[..]), (&frames[..], &millis[..]), "{options}");
            // Not one of them came early.
            let speed = match options {
                "" => 1,
                "&speed=2" => 2,
                _ => continue,
            };
            for (text, stamp, came) in &found {
                let since = Nanos::from_nanos((stamp - 1_000_000_000_000) / speed);
                assert!(*came >= begin + since, "{text} at {speed}");
            }
        }
    }

    #[test]
    fn a_replay_ends_by_the_stamps() {
        let day = "(1000.0) can0 123#11\n(1000.5) can0 124#22\n(87400.0) can0 125#33\n";
        for (log, options, most, expected) in [
            (day, "speed=max", None, 3),
            (day, "speed=max", Some(Nanos::from_secs(100_000)), 3),
            (day, "speed=max", Some(Nanos::from_secs(86_400)), 2),
            (day, "speed=max", Some(Nanos::from_millis(500)), 1),
            (day, "speed=max", Some(Nanos::from_nanos(500_000_001)), 2),
            (day, "speed=max", Some(Nanos::ZERO), 0),
            // It does not wait a day for a frame that is too late.
            (day, "speed=100", Some(Nanos::from_secs(1)), 2),
            // Rounds of 1 s: 500 ms, and a gap as long.
            (
                "(1.0) can0 001#\n(1.5) can0 002#\n",
                "loop=true&speed=max",
                Some(Nanos::from_secs(10)),
                20,
            ),
        ] {
            let (_folder, name) = recording(log);
            let wanted = Wanted { recorded: most, ..Wanted::RECEIVER };
            let ((frames, end), _) = replay(&format!("{name}?{options}"), wanted);
            assert_eq!((frames.len(), end), (expected, None), "{options}, {most:?}");
        }
    }

    #[test]
    fn a_loop_over_nothing_ends() {
        for log in ["", "\n", "(1000.0) can0 20000088#0000000000000000\n"] {
            let (_folder, name) = recording(log);
            let ((frames, end), _) = replay(&format!("{name}?loop=true"), Wanted::RECEIVER);
            assert_eq!((frames.len(), end), (0, None), "{log:?}");
        }
    }

    #[test]
    fn a_loop_survives_a_file_that_is_missing_or_empty_for_a_while() {
        let (folder, name) = recording("(1000.000000) can0 123#11\n(1000.010000) can0 124#22\n");
        let path = folder.path().join("drive.log");
        let mut port = port(&format!("{name}?loop=true"), Wanted::RECEIVER).unwrap();
        let receiver = port.receiver.as_mut().unwrap();
        let trouble = receiver.counters().trouble.clone();
        let mut last = String::new();
        let mut receive = |is_over: &dyn Fn(&str) -> bool| {
            while !is_over(&last) {
                let take = &mut |received: &Received| last = received.frame.to_string();
                let until = Until::Instant(clock::now::<Monotonic>() + Nanos::from_millis(5));
                assert_ne!(receiver.receive(until, take).unwrap(), Progress::Ended);
            }
        };
        let away = folder.path().join("away.log");
        fs::rename(&path, &away).unwrap();
        receive(&|_| trouble.get().is_some_and(|why| why.contains("No such file")));
        for nothing in ["", "half a line", "(1000.00", "text\nof two lines\n"] {
            trouble.clear();
            fs::write(&path, nothing).unwrap();
            // Where a line is none of a recording, that is told.
            let none = format!("{} has no frame of a recording now", path.display());
            let other = format!("{}: not a recording: ", path.display());
            let is_expected = |why: String| {
                (why.contains(&none) || why.contains(&other))
                    && why.ends_with("; it is looked for again")
            };
            receive(&|_| trouble.get().is_some_and(is_expected));
        }
        // Nobody writes into it.
        fs::remove_file(&path).unwrap();
        let is_made = Command::new("mkfifo").arg(&path).status().unwrap().success();
        assert!(is_made);
        receive(&|_| trouble.get().is_some_and(|why| why.contains("not a pipe or a device")));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "(5.000000) can0 125#33\n").unwrap();
        receive(&|last| last == "125#33");
        assert!(!trouble.is_there());
        // Its thread ends with it: the file may go for ever.
        fs::remove_file(&path).unwrap();
        receive(&|_| trouble.is_there());
        drop(port);
    }

    #[test]
    fn a_loop_whose_file_was_away_goes_on_now_and_as_usual() {
        const GAP: Nanos = Nanos::from_millis(10);
        // By the clock of this test alone: while the file is there, while it is not, and then.
        const ROUNDS: u64 = 5;
        for (speed, away) in [
            (1, Nanos::from_secs(10)),
            (1, Nanos::from_secs(100_000)),
            (2, Nanos::from_millis(300)),
            // The reader was late, and the file is there: nothing is put off.
            (1, STANDSTILL),
        ] {
            let log: String = (0..10)
                .map(|at| format!("(1000.{:06}) can0 {at:03X}#\n", at * GAP.as_nanos() / 1_000))
                .collect();
            let (folder, name) = recording(&log);
            let [path, elsewhere] = ["drive.log", "away.log"].map(|name| folder.path().join(name));
            let address: Address = format!("{name}?loop=true&speed={speed}").parse().unwrap();
            let mut replay = Replay::open(&address, Wanted::RECEIVER).unwrap();
            let gap = Nanos::from_nanos(GAP.as_nanos() / speed);
            let mut now = Instant::from_nanos(1_000_000_000_000);
            let begin = now;
            let mut frames = 0;
            // Until so many frames have come, or the reader has found nothing more.
            let mut play = |now: &mut Instant<Monotonic>, most: u64, replay: &mut Replay| {
                let mut came = Vec::new();
                while (came.len() as u64) < most {
                    let is_away = replay.counters.trouble.is_there();
                    match replay.turn(*now).unwrap() {
                        Turn::Due(record) => {
                            assert_eq!(u64::from(record.frame.can_id()), frames % 10);
                            frames += 1;
                            came.push(*now);
                        }
                        Turn::At(due) => *now = due,
                        Turn::Unread if is_away => break,
                        Turn::Unread => std::thread::yield_now(),
                        Turn::Ended => panic!("it has ended"),
                    }
                }
                came
            };
            for (came, number) in play(&mut now, 10 * ROUNDS, &mut replay).iter().zip(0..) {
                assert_eq!(*came, begin + gap * number, "frame {number}");
            }
            fs::rename(&path, &elsewhere).unwrap();
            play(&mut now, u64::MAX, &mut replay);
            let last = now;
            now += away;
            fs::rename(&elsewhere, &path).unwrap();
            while replay.counters.trouble.is_there() {
                std::thread::yield_now();
            }
            let back = now;
            for (came, number) in play(&mut now, 10 * ROUNDS, &mut replay).iter().zip(0..) {
                let expected = match away > STANDSTILL {
                    true => back + gap * number,
                    false => back.max(last + gap * (number + 1)),
                };
                assert_eq!(*came, expected, "frame {number} after {away}");
            }
        }
    }

    #[test]
    fn rounds_that_end_with_a_batch_go_on() {
        let log = "(1000.0) can0 123#11\n".repeat(super::BATCH);
        let (_folder, name) = recording(&log);
        let mut port = port(&format!("{name}?loop=true"), Wanted::RECEIVER).unwrap();
        let (receiver, mut count) = (port.receiver.as_mut().unwrap(), 0);
        while count < 20 * super::BATCH {
            receiver.receive(Until::Woken, &mut |_| count += 1).unwrap();
        }
    }

    #[test]
    fn what_cannot_begin_again_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("in.log");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (pipe, file) = (pipe.display().to_string(), folder.path().join("out.log"));
        let file = file.display().to_string();
        for (place, value, wanted, part) in [
            (&pipe, "true", Wanted::RECEIVER, "not a pipe or a device; write it to a file first"),
            (&file, "true", Wanted::TRANSMITTER, "cannot begin again; remove loop=true"),
            (&file, "yes", Wanted::RECEIVER, "`loop=yes` is not a valid value"),
        ] {
            let error = port(&format!("file:{place}?loop={value}"), wanted).err().unwrap();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    /// What is received until the end or an error, with its stamp and when it came.
    type Replayed = (Vec<(String, u64, Instant<Monotonic>)>, Option<Error>);

    fn replay(name: &str, wanted: Wanted) -> (Replayed, Arc<ReceiverCounters>) {
        let mut receiver = port(name, wanted).unwrap().receiver.unwrap();
        let mut frames = Vec::new();
        let end = loop {
            let progress = receiver.receive(Until::Woken, &mut |received| {
                let stamp = received.stamp.system.map_or(0, Instant::as_nanos);
                frames.push((received.frame.to_string(), stamp, clock::now()));
            });
            match progress {
                Ok(Progress::Ended) => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        ((frames, end), receiver.counters())
    }

    #[test]
    fn a_recording_is_replayed_as_it_was_recorded() {
        let (_folder, name) = recording(LOG);
        let begin = clock::now::<Monotonic>();
        let ((frames, end), counters) = replay(&name, Wanted::RECEIVER);
        let (texts, stamps): (Vec<_>, Vec<_>) =
            frames.iter().map(|(text, stamp, _)| (text.as_str(), stamp / 1_000_000)).unzip();
        assert_eq!(texts, ["123#11", "124#22", "125##1AABB", "126#R"]);
        assert_eq!(stamps, [1_000_000, 1_000_002, 1_000_003, 1_000_006]);
        assert_eq!((end, counters.malformed.get(), counters.frames.get()), (None, 1, 4));
        // Not one of them came early.
        for (text, stamp, came) in &frames {
            let since = Nanos::from_nanos(stamp - 1_000_000_000_000);
            assert!(*came >= begin + since, "{text}");
        }
    }

    #[test]
    fn error_reports_and_stamps_come_if_they_are_wanted() {
        let (_folder, name) = recording(LOG);
        let wanted = Wanted { error_reports: true, stamps: false, ..Wanted::RECEIVER };
        let ((frames, _), counters) = replay(&format!("{name}?speed=max"), wanted);
        assert_eq!((frames.len(), counters.error_reports.get()), (5, 1));
        assert!(frames.iter().all(|(_, stamp, _)| *stamp == 0));
    }

    #[test]
    fn one_interface_of_several_is_replayed() {
        let (_folder, name) = recording(LOG);
        let ((frames, _), _) = replay(&format!("{name}?interface=can1"), Wanted::RECEIVER);
        assert_eq!(frames.len(), 1);
        let ((frames, end), _) =
            replay(&format!("{name}?speed=max&interface=can7"), Wanted::RECEIVER);
        assert!(frames.is_empty());
        let error = end.unwrap().to_string();
        assert!(error.ends_with("of interface `can7`; its interfaces are can0, can1"), "{error}");
    }

    #[test]
    fn the_place_ends_a_replay_that_cannot_go_on() {
        // A pcap file with a frame of CAN, and a packet behind which nobody knows where the next one begins.
        let header = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 227];
        let frame = [1, 0, 16, 16, 0x123_u32.swap_bytes(), 1, 0x11, 0];
        let words = header.iter().chain(&frame).chain(&[2, 0, u32::MAX, u32::MAX]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.pcap");
        fs::write(&path, words.flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        let name = format!("file:{}?speed=max", path.display());
        let ((frames, end), counters) = replay(&name, Wanted::RECEIVER);
        assert_eq!((frames.len(), counters.malformed.get()), (1, 1));
        let error = end.unwrap().to_string();
        assert!(error.contains("drive.pcap: byte 56"), "{error}");
    }

    #[test]
    fn a_pipe_without_its_other_end_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = folder.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let path = pipe("in.log");
        let mut port = port(&format!("file:{}", path.display()), Wanted::RECEIVER).unwrap();
        let receiver = port.receiver.as_mut().unwrap();
        let counters = receiver.counters();
        assert_eq!(counters.trouble.get().unwrap(), OPENING);
        let mut frames = Vec::new();
        let mut receive = |until: Until| {
            receiver.receive(until, &mut |received| frames.push(received.frame.to_string()))
        };
        let soon = Until::Instant(clock::now::<Monotonic>() + Nanos::from_millis(10));
        assert_eq!(receive(soon), Ok(Progress::Nothing));
        // A frame comes as soon as its line is there, and not with the end of the pipe.
        let mut writer = fs::File::options().write(true).open(&path).unwrap();
        writer.write_all(b"(1.0) can0 123#11\n").unwrap();
        while receive(Until::Woken) != Ok(Progress::Frames(1)) {}
        assert_eq!(counters.trouble.get(), None);
        writer.write_all(b"(1.0) can0 124#\n").unwrap();
        while receive(Until::Woken) != Ok(Progress::Frames(1)) {}
        drop(writer);
        while receive(Until::Woken) != Ok(Progress::Ended) {}
        assert_eq!(frames, ["123#11", "124#"]);

        let path = pipe("out.log");
        let mut port =
            self::port(&format!("file:{}", path.display()), Wanted::TRANSMITTER).unwrap();
        let transmitter = port.transmitter.as_mut().unwrap();
        let counters = transmitter.counters();
        assert_eq!(counters.trouble.get().unwrap(), OPENING);
        let frame = "123#11".parse().unwrap();
        assert_eq!(transmitter.transmit(&frame, false), Sent::Taken);
        let mut reader = BufReader::new(fs::File::open(&path).unwrap());
        transmitter.flush();
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.ends_with(" can0 123#11 T\n"), "{line}");
        assert_eq!(counters.trouble.get(), None);
    }

    #[test]
    fn what_is_read_is_not_written_under_another_name() {
        let (folder, name) = recording(LOG);
        let alias = folder.path().join("alias.log");
        std::os::unix::fs::symlink(folder.path().join("drive.log"), &alias).unwrap();
        let alias = format!("file:{}?replace=true", alias.display());
        let reader = port(&name, Wanted::RECEIVER).unwrap();
        let error = port(&alias, Wanted::TRANSMITTER).err().unwrap().to_string();
        assert!(error.contains("another port or process uses this recording"), "{error}");
        drop(reader);
        // The thread that reads gives it back when it has ended.
        let writer = loop {
            if let Ok(port) = port(&alias, Wanted::TRANSMITTER) {
                break port;
            }
        };
        let error = port(&name, Wanted::RECEIVER).err().unwrap().to_string();
        assert!(error.contains("is about to replace this recording"), "{error}");
        drop(writer);
        assert_eq!(fs::read_to_string(folder.path().join("drive.log")).unwrap(), LOG);
    }

    #[test]
    fn speeds_scale_the_schedule() {
        let start = Instant::from_nanos(500);
        let year = Nanos::from_secs(31_536_000);
        for (speed, due) in [
            (ReplaySpeed::Times(1.0), 31_536_000_000_000_500),
            (ReplaySpeed::Times(2.0), 15_768_000_000_000_500),
            (ReplaySpeed::Times(0.5), 63_072_000_000_000_500),
            (ReplaySpeed::Max, 500),
        ] {
            assert_eq!(speed.due(start, year).as_nanos(), due, "{speed:?}");
        }
        let (_folder, name) = recording(LOG);
        for speed in ["0", "-1", "nan", "inf", "fast", ""] {
            let port = port(&format!("{name}?speed={speed}"), Wanted::RECEIVER);
            assert!(port.err().unwrap().to_string().contains("speed"), "{speed}");
        }
    }
}
