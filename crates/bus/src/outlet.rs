//! [`Outlet`]: sending so that nothing is lost in silence.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::clock;
use candor_port::{Address, Error, Medium, Sent, Transmitter, TransmitterCounters, Wanted};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

/// The time that sending goes by: a real clock, or one of a test.
pub trait Time {
    /// What the clock says.
    fn now(&mut self) -> Instant<Monotonic>;

    /// Sleeps until then, or until a signal comes.
    fn sleep_until(&mut self, until: Instant<Monotonic>);

    /// Lets a transmitter wait until it may have room.
    fn wait(&mut self, transmitter: &mut dyn Transmitter, most: Nanos) {
        transmitter.wait(most);
    }
}

/// The time of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealTime;

impl Time for RealTime {
    fn now(&mut self) -> Instant<Monotonic> {
        clock::now()
    }

    fn sleep_until(&mut self, until: Instant<Monotonic>) {
        // It cannot fail with this clock; if it did, frames would leave early and say so.
        let _ = clock::sleep_until_or_signal(until);
    }
}

/// Set to end whatever is being done, in order.
pub type Stop = AtomicBool;

/// How long to sleep or wait at most before looking whether to stop.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(50);
/// How long a recording is waited for at the end: a disk that is busy may take seconds.
const DISK_TIMEOUT: Nanos = Nanos::from_secs(10);

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The port took it, after waiting so long for room.
    Taken(Nanos),
    /// The port did not take it.
    Refused(Refusal),
    /// Somebody wants to stop.
    Stopped,
}

/// Why a port did not take a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It carries no such frames.
    Unsupported,
    /// There was no room for longer than one was ready to wait.
    Full,
    /// The interface was down or away for longer than one was ready to wait.
    Down,
    /// Nothing leaves any more until somebody helps ([`Transmitter::has_failed`]).
    Failed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "the port does not support this kind of frame",
            Self::Full => "the port had no room in time",
            Self::Down => "the interface or the peer is down",
            Self::Failed => "the port cannot go on",
        })
    }
}

/// How frames fared, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Frames that the port took.
    pub taken: u64,
    /// Frames that it does not carry.
    pub unsupported: u64,
    /// Frames for which the port had no room in time.
    pub full: u64,
    /// Frames that found the interface down.
    pub down: u64,
    /// Frames that found a port which cannot go on, such as a recording on a full disk.
    pub failed: u64,
    /// Frames that were taken and lost before they left, as far as the port knows.
    pub lost: u64,
    /// How many of those taken had to wait for room.
    pub waited: u64,
    /// How long they waited, all together.
    pub waiting: Nanos,
}

impl Delivery {
    /// Frames that the port took and did not lose, as far as it knows.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.taken.saturating_sub(self.lost)
    }

    /// Frames that the port did not take.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.unsupported + self.full + self.down + self.failed
    }

    /// Whether every frame left.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.refused() + self.lost == 0
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Taken(waited) => {
                self.taken += 1;
                self.waited += u64::from(waited > Nanos::ZERO);
                self.waiting += waited;
            }
            Outcome::Refused(Refusal::Unsupported) => self.unsupported += 1,
            Outcome::Refused(Refusal::Full) => self.full += 1,
            Outcome::Refused(Refusal::Down) => self.down += 1,
            Outcome::Refused(Refusal::Failed) => self.failed += 1,
            Outcome::Stopped => {}
        }
    }
}

/// `3 sent, 1 refused (1 not carried); 2 waited for room, 1.5ms in all`
impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sent, {} refused", self.sent(), self.refused())?;
        let causes: Vec<_> = [
            (self.unsupported, "not supported"),
            (self.full, "no room"),
            (self.down, "down"),
            (self.failed, "failed"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, cause)| format!("{count} {cause}"))
        .collect();
        if !causes.is_empty() {
            write!(f, " ({})", causes.join(", "))?;
        }
        if self.lost > 0 {
            write!(f, ", {} lost after the port took them", self.lost)?;
        }
        if self.waited > 0 {
            write!(f, "; {} waited for room, {} in all", self.waited, rounded(self.waiting))?;
        }
        Ok(())
    }
}

/// A duration in microseconds if it is no shorter.
fn rounded(duration: Nanos) -> Nanos {
    Nanos::from_micros(duration.as_nanos().div_ceil(1_000))
}

/// A port to send to.
pub struct Outlet {
    name: String,
    transmitter: Box<dyn Transmitter>,
    counters: Arc<TransmitterCounters>,
    delivery: Delivery,
    timeout: Nanos,
    drain_timeout: Nanos,
    has_failed: bool,
}

/// What became of a port and its frames in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What messages call the port.
    pub name: String,
    /// How its frames fared.
    pub delivery: Delivery,
    /// Why frames did not leave, as far as the port knows.
    pub trouble: Option<String>,
    /// Whether everything that it took and did not lose has left, as far as it can tell.
    pub is_drained: bool,
}

impl Outlet {
    /// How long a frame waits for room if nothing else is said.
    pub const ROOM_TIMEOUT: Nanos = Nanos::from_secs(1);

    /// Opens a port.
    ///
    /// # Errors
    /// It cannot be opened, or transmits nothing.
    pub fn open(address: &Address, timeout: Nanos) -> Result<Self, Error> {
        let name = address.to_string();
        let port = candor_drivers::open(address, Wanted::TRANSMITTER)?;
        let transmitter = port.transmitter.ok_or_else(|| {
            Error::new(&name, "this port cannot transmit").with_remedy("use another port")
        })?;
        let mut outlet = Self::from_transmitter(name, transmitter, timeout);
        if candor_drivers::medium(address) == Some(Medium::Recording) {
            outlet.drain_timeout = timeout.max(DISK_TIMEOUT);
        }
        Ok(outlet)
    }

    /// Takes over a transmitter.
    #[must_use]
    pub fn from_transmitter(
        name: String,
        transmitter: Box<dyn Transmitter>,
        timeout: Nanos,
    ) -> Self {
        let counters = transmitter.counters();
        let delivery = Delivery::default();
        let drain_timeout = timeout;
        Self { name, transmitter, counters, delivery, timeout, drain_timeout, has_failed: false }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its frames fared so far.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        Delivery { lost: self.counters.lost.get(), ..self.delivery }
    }

    /// Whether nothing leaves any more until somebody helps. It stays so.
    pub fn has_failed(&mut self) -> bool {
        self.has_failed |= self.transmitter.has_failed();
        self.has_failed
    }

    /// Why frames do not leave, if the port knows.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.counters.trouble.get()
    }

    /// Counts frames that are not tried any more, since the port has failed.
    pub fn give_up(&mut self, frames: u64) {
        self.delivery.failed += frames;
    }

    /// Sends a frame. If there is no room, or the interface is down, it waits for that to pass.
    pub fn send(&mut self, frame: &Frame, time: &mut impl Time, stop: &Stop) -> Outcome {
        let outcome = self.attempt(frame, time, stop);
        self.delivery.count(outcome);
        outcome
    }

    fn attempt(&mut self, frame: &Frame, time: &mut impl Time, stop: &Stop) -> Outcome {
        // The usual case asks for no time.
        let Err(mut refusal) = self.offer(frame) else { return Outcome::Taken(Nanos::ZERO) };
        let start = time.now();
        loop {
            if matches!(refusal, Refusal::Unsupported | Refusal::Failed) {
                return Outcome::Refused(refusal);
            }
            if stop.load(Ordering::Relaxed) {
                return Outcome::Stopped;
            }
            let waited = time.now() - start;
            if waited >= self.timeout {
                return Outcome::Refused(refusal);
            }
            let most = (self.timeout - waited).min(STOP_CHECK_INTERVAL);
            match refusal {
                Refusal::Down => time.sleep_until(start + waited + most),
                _ => time.wait(&mut *self.transmitter, most),
            }
            let Err(next) = self.offer(frame) else {
                let waited = time.now() - start;
                return Outcome::Taken(waited.max(Nanos::from_nanos(1)));
            };
            refusal = next;
        }
    }

    fn offer(&mut self, frame: &Frame) -> Result<(), Refusal> {
        if self.has_failed {
            return Err(Refusal::Failed);
        }
        match self.transmitter.transmit(frame, true) {
            Sent::Taken => Ok(()),
            Sent::Unsupported => Err(Refusal::Unsupported),
            Sent::Full => Err(Refusal::Full),
            Sent::Down if self.has_failed() => Err(Refusal::Failed),
            Sent::Down => Err(Refusal::Down),
        }
    }

    /// Sends what the port kept back, and waits until everything has left as far as it can tell, at
    /// most as long as a frame waits, or as the disk of a recording may take. False if something may
    /// still be there.
    pub fn drain(&mut self, time: &mut impl Time, stop: &Stop) -> bool {
        let start = time.now();
        loop {
            let flushed = self.transmitter.flush() == Sent::Taken;
            if flushed && self.transmitter.is_drained() {
                return true;
            }
            let waited = time.now() - start;
            let is_over = waited >= self.drain_timeout || stop.load(Ordering::Relaxed);
            if is_over || self.has_failed() {
                return false;
            }
            let most = (self.drain_timeout - waited).min(Nanos::from_millis(1));
            if flushed {
                time.sleep_until(start + waited + most);
            } else {
                time.wait(&mut *self.transmitter, most);
            }
        }
    }

    /// Drains the port and closes it. Only then is known which of the frames that it took it lost: a
    /// recording is written by another thread.
    pub fn finish(mut self, time: &mut impl Time, stop: &Stop) -> Finished {
        let is_drained = self.drain(time, stop) || self.has_failed;
        let Self { name, transmitter, counters, delivery, .. } = self;
        drop(transmitter);
        let delivery = Delivery { lost: counters.lost.get(), ..delivery };
        let trouble = counters.trouble.get().filter(|_| !delivery.is_complete());
        Finished { name, delivery, trouble, is_drained }
    }
}

/// Sleeps until an instant, or until all ports have failed, and meanwhile sends what ports kept back. False
/// if somebody wants to stop.
pub fn sleep_until(
    outlets: &mut [Outlet],
    instant: Instant<Monotonic>,
    time: &mut impl Time,
    stop: &Stop,
) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let now = time.now();
        let mut look_up = instant.min(now + STOP_CHECK_INTERVAL);
        for outlet in &mut *outlets {
            match outlet.transmitter.flush_due() {
                Some(due) if due <= now => {
                    // What cannot be sent now is kept, or counted as lost.
                    let _ = outlet.transmitter.flush();
                }
                Some(due) => look_up = look_up.min(due),
                None => {}
            }
        }
        if now >= instant || outlets.iter_mut().all(Outlet::has_failed) {
            return true;
        }
        time.sleep_until(look_up);
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outlet").field(&self.name).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A clock that goes on only when somebody sleeps or waits.
    #[derive(Debug, Default)]
    pub(crate) struct TestTime {
        pub(crate) now: Instant<Monotonic>,
        /// Every wake-up is so much late.
        pub(crate) late: Nanos,
    }

    impl Time for TestTime {
        fn now(&mut self) -> Instant<Monotonic> {
            self.now
        }

        fn sleep_until(&mut self, until: Instant<Monotonic>) {
            self.now = self.now.max(until + self.late);
        }

        fn wait(&mut self, transmitter: &mut dyn Transmitter, most: Nanos) {
            transmitter.wait(most);
            self.now += most;
        }
    }

    /// What a port was given.
    pub(crate) type Given = Arc<Mutex<Vec<Frame>>>;

    /// A port that has no room for so many attempts before each frame, and takes no CAN FD.
    pub(crate) struct Narrow {
        pub(crate) given: Given,
        pub(crate) answers: Vec<Sent>,
        pub(crate) kept: Option<Instant<Monotonic>>,
        /// After so many frames it has failed, and these it had lost.
        pub(crate) fails_after: Option<usize>,
        pub(crate) counters: Arc<TransmitterCounters>,
    }

    impl Narrow {
        pub(crate) fn outlet(answers: Vec<Sent>) -> (Outlet, Given) {
            let given = Given::default();
            let narrow = Self {
                given: Arc::clone(&given),
                answers,
                kept: None,
                fails_after: None,
                counters: Arc::default(),
            };
            (
                Outlet::from_transmitter("test".into(), Box::new(narrow), Nanos::from_millis(200)),
                given,
            )
        }
    }

    impl Drop for Narrow {
        fn drop(&mut self) {
            self.counters.lost.add(self.fails_after.unwrap_or(0) as u64);
        }
    }

    impl Transmitter for Narrow {
        fn transmit(&mut self, frame: &Frame, _echo: bool) -> Sent {
            if frame.is_fd() {
                return Sent::Unsupported;
            }
            let answer = match self.has_failed() {
                true => Sent::Down,
                false => self.answers.pop().unwrap_or(Sent::Taken),
            };
            if answer == Sent::Taken {
                self.given.lock().unwrap().push(*frame);
                self.counters.frames.add(1);
            }
            answer
        }

        fn flush_due(&self) -> Option<Instant<Monotonic>> {
            self.kept
        }

        fn flush(&mut self) -> Sent {
            self.kept = None;
            Sent::Taken
        }

        fn wait(&mut self, _most: Nanos) {}

        fn has_failed(&self) -> bool {
            self.fails_after.is_some_and(|frames| self.given.lock().unwrap().len() >= frames)
        }

        fn counters(&self) -> Arc<TransmitterCounters> {
            Arc::clone(&self.counters)
        }
    }

    fn frame(text: &str) -> Frame {
        text.parse().unwrap()
    }

    #[test]
    fn a_frame_waits_for_room() {
        let (mut outlet, given) = Narrow::outlet(vec![Sent::Taken, Sent::Full, Sent::Full]);
        let (mut time, stop) = (TestTime::default(), Stop::new(false));
        let outcome = outlet.send(&frame("123#"), &mut time, &stop);
        assert_eq!(outcome, Outcome::Taken(Nanos::from_millis(100)));
        assert_eq!(outlet.send(&frame("124#"), &mut time, &stop), Outcome::Taken(Nanos::ZERO));
        assert_eq!(*given.lock().unwrap(), [frame("123#"), frame("124#")]);
        assert_eq!(
            outlet.delivery().to_string(),
            "2 sent, 0 refused; 1 waited for room, 100ms in all"
        );
        assert!(outlet.delivery().is_complete());
    }

    #[test]
    fn what_does_not_leave_is_counted_by_cause() {
        let (mut outlet, given) = Narrow::outlet(vec![Sent::Full; 100]);
        let (mut time, stop) = (TestTime::default(), Stop::new(false));
        let mut send = |text: &str| outlet.send(&frame(text), &mut time, &stop);
        assert_eq!(send("123#"), Outcome::Refused(Refusal::Full));
        assert_eq!(send("123##0"), Outcome::Refused(Refusal::Unsupported));
        assert!(given.lock().unwrap().is_empty());
        assert_eq!(time.now.as_nanos(), 200_000_000);
        assert_eq!(outlet.delivery().to_string(), "0 sent, 2 refused (1 not supported, 1 no room)");

        let (mut outlet, _) = Narrow::outlet(vec![Sent::Down; 100]);
        let outcome = outlet.send(&frame("123#"), &mut TestTime::default(), &stop);
        assert_eq!(outcome, Outcome::Refused(Refusal::Down));
    }

    #[test]
    fn a_port_that_has_failed_is_not_waited_for_and_what_it_lost_is_not_sent() {
        let narrow = Narrow {
            given: Given::default(),
            answers: Vec::new(),
            kept: None,
            fails_after: Some(3),
            counters: Arc::default(),
        };
        narrow.counters.trouble.set("the disk is full");
        let timeout = Nanos::from_secs(1);
        let outlet = Outlet::from_transmitter("test".into(), Box::new(narrow), timeout);
        let mut outlets = [outlet];
        let (mut time, stop) = (TestTime::default(), Stop::new(false));
        for number in 0..5 {
            let outcome = outlets[0].send(&frame("123#"), &mut time, &stop);
            let is_taken = outcome == Outcome::Taken(Nanos::ZERO);
            assert!(is_taken || outcome == Outcome::Refused(Refusal::Failed), "{outcome:?}");
            assert_eq!(is_taken, number < 3);
        }
        assert!(sleep_until(&mut outlets, Instant::from_nanos(9_000), &mut time, &stop));
        let [mut outlet] = outlets;
        outlet.give_up(7);
        let finished = outlet.finish(&mut time, &stop);
        assert_eq!(time.now, Instant::ZERO, "it has waited");
        assert_eq!(finished.trouble.as_deref(), Some("the disk is full"));
        assert_eq!(
            finished.delivery.to_string(),
            "0 sent, 9 refused (9 failed), 3 lost after the port took them"
        );
    }

    #[test]
    fn a_recording_is_waited_for_until_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.log");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let address = format!("file:{}", path.display()).parse().unwrap();
        // Much longer than a frame waits.
        let mut outlet = Outlet::open(&address, Nanos::from_millis(1)).unwrap();
        let (mut time, stop) = (RealTime, Stop::new(false));
        assert_eq!(outlet.send(&frame("123#11"), &mut time, &stop), Outcome::Taken(Nanos::ZERO));
        // A pipe that is read late stands for a disk that is late.
        let reader = std::thread::spawn(move || {
            let late = clock::now::<Monotonic>() + Nanos::from_millis(100);
            clock::sleep_until(late).unwrap();
            std::fs::read_to_string(path).unwrap()
        });
        let finished = outlet.finish(&mut time, &stop);
        assert!(finished.is_drained && finished.delivery.is_complete(), "{finished:?}");
        assert_eq!(reader.join().unwrap().lines().count(), 1);
    }

    #[test]
    fn waiting_ends_when_somebody_wants_to_stop() {
        let (mut outlet, _) = Narrow::outlet(vec![Sent::Full; 100]);
        let (mut time, stop) = (TestTime::default(), Stop::new(true));
        assert_eq!(outlet.send(&frame("123#"), &mut time, &stop), Outcome::Stopped);
        assert!(!sleep_until(&mut [outlet], Instant::from_nanos(5), &mut time, &stop));
        assert_eq!(time.now, Instant::ZERO);
    }

    #[test]
    fn what_was_kept_back_is_sent_while_sleeping() {
        let narrow = Narrow {
            given: Given::default(),
            answers: Vec::new(),
            kept: Some(Instant::from_nanos(1_000)),
            fails_after: None,
            counters: Arc::default(),
        };
        let mut outlets =
            [Outlet::from_transmitter("test".into(), Box::new(narrow), Nanos::from_secs(1))];
        let (mut time, stop) = (TestTime::default(), Stop::new(false));
        assert!(sleep_until(&mut outlets, Instant::from_nanos(5_000), &mut time, &stop));
        let [outlet] = &mut outlets;
        assert_eq!(outlet.transmitter.flush_due(), None);
        assert_eq!(time.now, Instant::from_nanos(5_000));
        assert!(outlet.drain(&mut time, &stop));
    }
}
