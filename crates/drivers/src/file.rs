//! `file:drive.log`: a recording, to be replayed or to be written.
//!
//! **Received** is what the recording holds, at the times that it tells: the first frame at once,
//! each other one as long after it as it was recorded, by an absolute schedule, so that delays do
//! not add up. `speed=2` goes twice as fast, `speed=max` does not wait at all. The stamps are those
//! of the recording. Malformed records are counted and passed over as long as their end can be
//! found; else the replay ends with the place.
//!
//! A file that ends inside a record, since its recorder was stopped, ends there for the replay too,
//! and that record counts as malformed.
//!
//! **Transmitted** frames are written with the time of the machine (`CLOCK_REALTIME`), in the format
//! that the ending of the name stands for: see [`recorder`]. The file grows twice a second, when
//! [`Transmitter::flush`](candor_port::Transmitter::flush) is called, and at the end. A file that is there
//! already is left alone unless `replace=true` is given; then it is replaced by the first write.

mod recorder;

use std::path::Path;
use std::sync::Arc;

use candor_linux::clock;
use candor_recording::Record;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Kind;

use self::recorder::Recorder;
use crate::kernel;
use crate::wait::{self, Wait};
use candor_port::{
    Address, Capabilities, Error, Estate, Message, Origin, Port, Progress, Received, Receiver,
    ReceiverCounters, Stamp, Until, Waker, Wanted,
};
use candor_port::{Driver, Medium};
use candor_recording::{Recording, RecordingError};

/// The driver.
pub(crate) static DRIVER: Driver = Driver {
    name: "file",
    summary: "a recording: receiving replays it, transmitting writes it",
    medium: Medium::Recording,
    example: "file:drive.log",
    options: &[
        ("speed", "the replay speed: 1 as recorded, 2 twice as fast, max without waiting"),
        (
            "interface",
            "the interface to replay if there are several; the name to write (default \
                       can0)",
        ),
        ("replace", "true: an existing file may be replaced"),
    ],
    check,
    open,
};

/// Frames that are handed over at once.
const BATCH: usize = 256;

fn check(address: &Address, wanted: Wanted) -> Result<(), Error> {
    let name = address.to_string();
    if wanted.receiver && wanted.transmitter {
        return Err(Error::new(name, "a recording can be read or written, not both")
            .with_remedy("use two files, or only one direction"));
    }
    speed(address)?;
    may_replace(address)?;
    if wanted.transmitter {
        candor_recording::format_of_name(address.place())
            .map_err(|error| failure(&name, &error))?;
    }
    Ok(())
}

fn may_replace(address: &Address) -> Result<bool, Error> {
    Ok(address.parsed("replace", "true")?.unwrap_or(false))
}

fn open(address: &Address, wanted: Wanted, _: &Estate) -> Result<Port, Error> {
    let name = address.to_string();
    let capabilities = Capabilities {
        fd: true,
        remote: true,
        error_reports: true,
        own_frames: false,
        stamps: true,
        hardware_stamps: false,
        ordered: true,
        reliable: true,
        message: Message::Frame,
    };
    let mut port = Port { capabilities, receiver: None, transmitter: None, endpoint: None };
    let path = Path::new(address.place());
    if wanted.receiver {
        let recording =
            candor_recording::open(path, None).map_err(|error| failure(&name, &error))?;
        port.receiver = Some(Box::new(Replay {
            recording: recording.skip_malformed(true),
            interface: address.option("interface").map(Into::into),
            speed: speed(address)?,
            wants_reports: wanted.error_reports,
            wants_stamps: wanted.stamps,
            start: None,
            next: None,
            failure: None,
            wait: Wait::new(&name, wanted)?,
            counters: Arc::default(),
            name: name.into(),
        }));
    } else if wanted.transmitter {
        let recorder = Recorder::create(&name, path, may_replace(address)?, address)?;
        port.transmitter = Some(Box::new(recorder));
    }
    Ok(port)
}

fn failure(name: &str, error: &RecordingError) -> Error {
    Error::new(name, error.to_string())
}

/// How fast a recording is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    /// So many times as fast as recorded.
    Times(f64),
    /// Without waiting.
    Max,
}

fn speed(address: &Address) -> Result<Speed, Error> {
    match address.option("speed") {
        None => Ok(Speed::Times(1.0)),
        Some("max") => Ok(Speed::Max),
        Some(_) => match address.parsed("speed", "2 or speed=max")?.unwrap_or(1.0) {
            times if (1e-6..=1e6).contains(&times) => Ok(Speed::Times(times)),
            _ => Err(Error::new(address.to_string(), "replay at this speed is not possible")
                .with_remedy("the speed must be 0.000001 to 1000000, or max")),
        },
    }
}

impl Speed {
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
    recording: Recording,
    /// The only one whose frames are replayed.
    interface: Option<Box<str>>,
    speed: Speed,
    wants_reports: bool,
    wants_stamps: bool,
    /// When the replay began, and at which time of the recording.
    start: Option<(Instant<Monotonic>, u64)>,
    /// The record that is next, and when it is due.
    next: Option<(Instant<Monotonic>, Record)>,
    /// What has ended the replay, to be reported after what could be read.
    failure: Option<Error>,
    wait: Wait,
    counters: Arc<ReceiverCounters>,
}

impl Replay {
    /// The next record that is to be replayed, and when; `None` at the end.
    fn next(&mut self) -> Result<Option<(Instant<Monotonic>, Record)>, Error> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        loop {
            let record = self.recording.next().transpose();
            let cut = u64::from(self.recording.cut().is_some());
            self.counters.malformed.set(self.recording.skipped().count + cut);
            let record = match record {
                Ok(Some(record)) => record,
                Ok(None) => return self.end(),
                Err(error) => {
                    self.counters.malformed.add(1);
                    return Err(failure(&self.name, &error));
                }
            };
            let is_of_it = self
                .interface
                .as_deref()
                .is_none_or(|wanted| self.recording.interfaces().name(record.interface) == wanted);
            if !is_of_it || record.frame.kind() == Kind::Error && !self.wants_reports {
                continue;
            }
            let (start, first) = *self.start.get_or_insert_with(|| (clock::now(), record.time_ns));
            let since_first = Nanos::from_nanos(record.time_ns.saturating_sub(first));
            return Ok(Some((self.speed.due(start, since_first), record)));
        }
    }
}

impl Replay {
    /// The end of the recording, at which something should have been found.
    fn end(&self) -> Result<Option<(Instant<Monotonic>, Record)>, Error> {
        match &self.interface {
            Some(interface) if self.start.is_none() => {
                let seen: Vec<_> =
                    self.recording.interfaces().iter().map(|(_, name)| name).collect();
                let reason = format!("it contains no frames of interface `{interface}`");
                Err(Error::new(&*self.name, reason)
                    .with_remedy(format!("its interfaces are {}", seen.join(", "))))
            }
            _ => Ok(None),
        }
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
        let Some((due, record)) = self.next()? else { return Ok(Progress::Ended) };
        self.next = Some((due, record));
        let mut now = clock::now::<Monotonic>();
        if due > now {
            let until = wait::earlier(until, due);
            self.wait.for_nothing(until).map_err(|error| kernel::failure(&*self.name, &error))?;
            now = clock::now();
            if due > now {
                return Ok(Progress::Nothing);
            }
        }
        let mut count = 0;
        while count < BATCH {
            let (due, record) = match self.next() {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            };
            if due > now {
                self.next = Some((due, record));
                break;
            }
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
        }
        Ok(Progress::Frames(count))
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

    use super::*;

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
        let log = format!("(1.0) can0 123#11\n(2.0) can0 {}", "1".repeat(9_000));
        let (_folder, name) = recording(&log);
        let ((frames, end), counters) = replay(&format!("{name}?speed=max"), Wanted::RECEIVER);
        assert_eq!((frames.len(), counters.malformed.get()), (1, 1));
        let error = end.unwrap().to_string();
        assert!(error.contains("drive.log:2:"), "{error}");
    }

    #[test]
    fn speeds_scale_the_schedule() {
        let start = Instant::from_nanos(500);
        let year = Nanos::from_secs(31_536_000);
        for (speed, due) in [
            (Speed::Times(1.0), 31_536_000_000_000_500),
            (Speed::Times(2.0), 15_768_000_000_000_500),
            (Speed::Times(0.5), 63_072_000_000_000_500),
            (Speed::Max, 500),
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
