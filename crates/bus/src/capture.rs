//! [`Capture`]: the frames of several ports in one stream.
//!
//! ```text
//!  port 0 -- thread --+                       +-- by stamp, as far as they are there --> caller
//!  port 1 -- thread --+--> bounded channel ---+
//! ```
//!
//! A caller that is too slow makes the threads wait, and what waits in front of them is the
//! kernel's: what it drops for want of room is counted ([`Totals::overflow`]). Nothing is dropped
//! here. A port whose interface goes down or away is taken up again when it returns.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use candor_linux::clock;
use candor_linux::wake::{Sleeper, Wake};
use candor_port::{Address, Error, Progress, Received, Receiver, ReceiverCounters, Wanted};
use candor_time::{Instant, Monotonic, Nanos, Realtime};

use crate::counted;
use crate::named::{self, NamedPort};

/// Batches that may wait for the caller.
const WAITING_BATCHES: usize = 1_024;
/// How often a port that went away is looked for.
const RETRY: Nanos = Nanos::from_millis(200);

/// A frame that one of the ports received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Captured {
    /// Which port: its place in the list that was opened.
    pub port: usize,
    /// The stamp of the kernel or the recording; without one, when it was handed over.
    pub time: Instant<Realtime>,
    /// The frame, with its stamps.
    pub received: Received,
}

/// What happened next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Frames were handed over.
    Frames,
    /// Nothing so far.
    Nothing,
    /// This port cannot be used at present, and why; it is taken up again when it returns.
    Lost(usize, Error),
    /// This port works again.
    Returned(usize),
    /// This port cannot be used any more, and why.
    Failed(usize, Error),
    /// All ports have ended.
    Ended,
}

/// What a port counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames, without error reports.
    pub frames: u64,
    /// Error reports of the controller.
    pub error_reports: u64,
    /// What was no frame.
    pub malformed: u64,
    /// Frames that the kernel dropped because nobody fetched them in time.
    pub overflow: u64,
    /// Datagrams that are missing by their sequence numbers.
    pub missing: u64,
    /// Datagrams that came again or late.
    pub out_of_order: u64,
}

impl Totals {
    fn of(counters: &[Arc<ReceiverCounters>]) -> Self {
        let sum = |of: fn(&ReceiverCounters) -> u64| {
            counters.iter().fold(0_u64, |sum, counters| sum.saturating_add(of(counters)))
        };
        let error_reports = sum(|counters| counters.error_reports.get());
        Self {
            frames: sum(|counters| counters.frames.get()).saturating_sub(error_reports),
            error_reports,
            malformed: sum(|counters| counters.malformed.get()),
            overflow: sum(|counters| counters.overflow.get()),
            missing: sum(|counters| counters.missing.get()),
            out_of_order: sum(|counters| counters.out_of_order.get()),
        }
    }

    /// Whether nothing is known to be lost.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.overflow == 0 && self.missing == 0
    }
}

/// All of it in a few words; zeroes other than those of frames and losses are left out.
impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} lost", counted(self.frames, "frame"), self.overflow)?;
        if self.error_reports > 0 {
            write!(f, ", {}", counted(self.error_reports, "error report"))?;
        }
        for (count, what) in [
            (self.malformed, "malformed"),
            (self.missing, "missing, by sequence number"),
            (self.out_of_order, "late or repeated"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Opens the receiver of a port anew; `None` if the old one will do.
pub type Reopen = Box<dyn FnMut() -> Result<Option<Box<dyn Receiver>>, Error> + Send>;

/// A port to receive from.
pub struct Source {
    /// What messages call it.
    pub name: String,
    /// The half of it that receives.
    pub receiver: Box<dyn Receiver>,
    /// How to get it back when it went away; `None` if there is no point in it.
    pub reopen: Option<Reopen>,
}

impl Source {
    /// Opens a port.
    ///
    /// # Errors
    /// It cannot be opened, or receives nothing.
    pub fn open(address: &Address, wanted: Wanted) -> Result<Self, Error> {
        // Before it is opened: if it goes away in between, it is opened once more.
        let mut known = index(address);
        let receiver = open_receiver(address, wanted)?;
        let again = address.clone();
        let reopen: Reopen = Box::new(move || {
            let now = index(&again);
            if now.is_some() && now == known {
                // It was only down. The old socket is still there, and misses nothing.
                return Ok(None);
            }
            let receiver = open_receiver(&again, wanted)?;
            known = now;
            Ok(Some(receiver))
        });
        Ok(Self { name: address.to_string(), receiver, reopen: Some(reopen) })
    }
}

/// The number of the interface that a port is.
fn index(address: &Address) -> Option<u32> {
    candor_linux::interface_index(candor_drivers::interface(address)?).ok()
}

fn open_receiver(address: &Address, wanted: Wanted) -> Result<Box<dyn Receiver>, Error> {
    candor_drivers::open(address, wanted)?.receiver.ok_or_else(|| {
        Error::new(address.to_string(), "this port cannot receive")
            .with_remedy("it can only transmit")
    })
}

/// Several ports that are being received from.
pub struct Capture {
    events: mpsc::Receiver<Event>,
    ports: Vec<State>,
    stop: Arc<AtomicBool>,
    /// What came and was not handed over yet, by port.
    waiting: Vec<VecDeque<Captured>>,
    /// What came behind the frames that wait.
    held: Option<Event>,
    is_over: bool,
}

struct State {
    name: String,
    counters: Arc<Mutex<Vec<Arc<ReceiverCounters>>>>,
    thread: Option<JoinHandle<()>>,
    sleeper: Option<Sleeper>,
}

/// What a thread tells.
enum Event {
    Frames(Vec<Captured>),
    News(Next),
}

impl Capture {
    /// Opens ports and begins to receive.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn open(ports: &[NamedPort], wanted: Wanted) -> Result<Self, Error> {
        let open = |(port, title): (&NamedPort, String)| {
            Ok::<_, Error>(Source { name: title, ..Source::open(&port.address, wanted)? })
        };
        Self::of(ports.iter().zip(named::titles(ports)).map(open).collect::<Result<_, _>>()?)
    }

    /// Begins to receive.
    ///
    /// # Errors
    /// No thread can be started or interrupted.
    pub fn of(sources: Vec<Source>) -> Result<Self, Error> {
        let (tell, events) = mpsc::sync_channel(WAITING_BATCHES);
        let stop = Arc::new(AtomicBool::new(false));
        let mut capture = Self {
            events,
            waiting: sources.iter().map(|_| VecDeque::new()).collect(),
            ports: Vec::new(),
            stop,
            held: None,
            is_over: false,
        };
        for (port, source) in sources.into_iter().enumerate() {
            capture.start(port, source, tell.clone())?;
        }
        Ok(capture)
    }

    fn start(&mut self, port: usize, source: Source, tell: SyncSender<Event>) -> Result<(), Error> {
        let Source { name, receiver, reopen } = source;
        let fail = |reason: String| Error::new(&name, reason);
        let wake = Wake::new().map_err(|error| fail(error.to_string()))?;
        let counters = Arc::new(Mutex::new(vec![receiver.counters()]));
        let stop = Arc::clone(&self.stop);
        let (introduce, introduced) = mpsc::sync_channel(1);
        let worker = Worker { port, receiver, reopen, tell, stop, counters: Arc::clone(&counters) };
        let thread = std::thread::Builder::new()
            .name(format!("receive {name}"))
            .spawn(move || {
                let _ = introduce.send(wake.thread());
                worker.run();
            })
            .map_err(|error| fail(format!("no thread can be started: {error}")))?;
        let sleeper = introduced.recv().ok();
        self.ports.push(State { name, counters, thread: Some(thread), sleeper });
        Ok(())
    }

    /// The names of the ports.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.name.as_str())
    }

    /// What a port counted so far.
    #[must_use]
    pub fn totals(&self, port: usize) -> Totals {
        let counters = self.ports.get(port).map(|port| port.counters.lock());
        match counters {
            Some(Ok(counters)) => Totals::of(&counters),
            _ => Totals::default(),
        }
    }

    /// Waits until frames come or something else happens, at most so long, and hands over the
    /// frames: what is there of all ports, by stamp. The frames of one port keep their order.
    pub fn next(&mut self, most: Nanos, mut take: impl FnMut(&Captured)) -> Next {
        let event = match self.held.take() {
            Some(event) => event,
            None => match self.events.recv_timeout(Duration::from_nanos(most.as_nanos())) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => return Next::Nothing,
                Err(RecvTimeoutError::Disconnected) => {
                    self.is_over = true;
                    return Next::Ended;
                }
            },
        };
        let mut frames = match event {
            Event::News(news) => return news,
            Event::Frames(frames) => frames,
        };
        let mut batches = 0;
        loop {
            if let Some(first) = frames.first() {
                self.waiting[first.port].extend(frames.iter());
            }
            batches += 1;
            match self.events.try_recv() {
                // A bound, so that the caller has its turn whatever comes.
                Ok(Event::Frames(more)) if batches < WAITING_BATCHES => frames = more,
                Ok(event) => break self.held = Some(event),
                Err(_) => break,
            }
        }
        while let Some(captured) = self.earliest() {
            take(&captured);
        }
        Next::Frames
    }

    /// The frame with the earliest stamp of those that are first of their port.
    fn earliest(&mut self) -> Option<Captured> {
        let fronts = self.waiting.iter_mut().filter(|queue| !queue.is_empty());
        fronts.min_by_key(|queue| queue.front().map(|captured| captured.time))?.pop_front()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Whoever waits for room in the channel finds that nobody will read it any more.
        let (_, nobody) = mpsc::sync_channel(0);
        drop(std::mem::replace(&mut self.events, nobody));
        for port in &mut self.ports {
            let Some(thread) = port.thread.take() else { continue };
            let is_over = match &port.sleeper {
                Some(sleeper) => sleeper.interrupt_until(|| thread.is_finished()).is_ok(),
                None => false,
            };
            if is_over || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// What a thread does.
struct Worker {
    port: usize,
    receiver: Box<dyn Receiver>,
    reopen: Option<Reopen>,
    tell: SyncSender<Event>,
    stop: Arc<AtomicBool>,
    counters: Arc<Mutex<Vec<Arc<ReceiverCounters>>>>,
}

impl Worker {
    fn run(mut self) {
        let mut is_lost = false;
        while !self.is_stopped() {
            let mut batch = Vec::new();
            let mut now = None;
            let port = self.port;
            let progress = self.receiver.receive(&mut |received| {
                let handed_over = *now.get_or_insert_with(clock::now::<Realtime>);
                let time = received.stamp.system.unwrap_or(handed_over);
                batch.push(Captured { port, time, received: *received });
            });
            if !batch.is_empty() {
                if is_lost && !self.say(Next::Returned(port)) {
                    return;
                }
                is_lost = false;
                if self.tell.send(Event::Frames(batch)).is_err() {
                    return;
                }
            }
            match progress {
                Ok(Progress::Frames(_) | Progress::Interrupted) => {}
                Ok(Progress::Ended) => return,
                Err(error) if error.is_passing() => {
                    if !is_lost && !self.say(Next::Lost(port, error)) {
                        return;
                    }
                    self.take_up_again(is_lost);
                    is_lost = true;
                }
                Err(error) => {
                    self.say(Next::Failed(port, error));
                    return;
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn say(&self, news: Next) -> bool {
        self.tell.send(Event::News(news)).is_ok()
    }

    /// Opens the port anew if that is needed, as soon as that is possible. From the second time on
    /// it waits a moment before.
    fn take_up_again(&mut self, is_lost: bool) {
        let mut waits = is_lost;
        while !self.is_stopped() {
            if waits {
                // Interrupted or not: it looks whether to stop.
                let _ = clock::sleep_until_or_signal(clock::now::<Monotonic>() + RETRY);
            }
            waits = true;
            match self.reopen.as_mut().map(|reopen| reopen()) {
                None | Some(Ok(None)) => return,
                Some(Err(_)) => {}
                Some(Ok(Some(receiver))) => {
                    self.receiver = receiver;
                    if let Ok(mut counters) = self.counters.lock() {
                        counters.push(self.receiver.counters());
                    }
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_port::{Origin, Stamp};

    /// A port that plays a script.
    struct Script {
        steps: VecDeque<Step>,
        counters: Arc<ReceiverCounters>,
    }

    enum Step {
        /// Frames with their stamps.
        Frames(&'static [(u64, &'static str)]),
        Down,
        Broken,
        /// Waits until a signal comes.
        Silence,
    }

    impl Receiver for Script {
        fn receive(&mut self, take: &mut dyn FnMut(&Received)) -> Result<Progress, Error> {
            match self.steps.pop_front() {
                None => Ok(Progress::Ended),
                Some(Step::Frames(frames)) => {
                    for &(time, frame) in frames {
                        let system = Some(Instant::from_nanos(time)).filter(|_| time > 0);
                        let stamp = Stamp { system, hardware: None };
                        let frame = frame.parse().unwrap();
                        take(&Received { frame, stamp, origin: Origin::Bus });
                        self.counters.frames.add(1);
                    }
                    Ok(Progress::Frames(frames.len()))
                }
                Some(Step::Down) => Err(Error::new("test", "it is down").passing()),
                Some(Step::Broken) => Err(Error::new("test", "it is broken")),
                Some(Step::Silence) => {
                    let far = clock::now::<Monotonic>() + Nanos::from_secs(1_000);
                    clock::sleep_until_or_signal(far).unwrap();
                    self.steps.push_front(Step::Silence);
                    Ok(Progress::Interrupted)
                }
            }
        }

        fn counters(&self) -> Arc<ReceiverCounters> {
            Arc::clone(&self.counters)
        }
    }

    fn script(steps: impl IntoIterator<Item = Step>) -> Box<dyn Receiver> {
        Box::new(Script { steps: steps.into_iter().collect(), counters: Arc::default() })
    }

    fn source(name: &str, steps: impl IntoIterator<Item = Step>) -> Source {
        Source { name: name.into(), receiver: script(steps), reopen: None }
    }

    /// Everything that comes, as text: `port:frame`, or news.
    fn collect(capture: &mut Capture) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let next = capture.next(Nanos::from_secs(100), |captured| {
                seen.push(format!("{}:{}", captured.port, captured.received.frame));
            });
            match next {
                Next::Frames => {}
                Next::Nothing => panic!("nothing came: {seen:?}"),
                Next::Lost(port, error) => seen.push(format!("{port} lost: {error}")),
                Next::Returned(port) => seen.push(format!("{port} returned")),
                Next::Failed(port, error) => seen.push(format!("{port} failed: {error}")),
                Next::Ended => return seen,
            }
        }
    }

    #[test]
    fn frames_of_one_port_keep_their_order() {
        // Even if a clock steps back.
        let frames = Step::Frames(&[(5, "001#"), (3, "002#"), (4, "003#")]);
        let mut capture = Capture::of(vec![source("a", [frames])]).unwrap();
        assert_eq!(collect(&mut capture), ["0:001#", "0:002#", "0:003#"]);
        assert_eq!(capture.totals(0).to_string(), "3 frames, 0 lost");
        assert_eq!(capture.next(Nanos::ZERO, |_| ()), Next::Ended);
    }

    #[test]
    fn ports_are_merged_by_stamp() {
        let mut capture = Capture::of(Vec::new()).unwrap();
        capture.waiting = vec![VecDeque::new(), VecDeque::new()];
        let captured = |port, time| {
            let received = Received {
                frame: "001#".parse().unwrap(),
                stamp: Stamp::default(),
                origin: Origin::Bus,
            };
            Captured { port, time: Instant::from_nanos(time), received }
        };
        capture.waiting[0].extend([captured(0, 1), captured(0, 4), captured(0, 2)]);
        capture.waiting[1].extend([captured(1, 2), captured(1, 3), captured(1, 5)]);
        let order: Vec<_> = std::iter::from_fn(|| capture.earliest())
            .map(|captured| (captured.port, captured.time.as_nanos()))
            .collect();
        assert_eq!(order, [(0, 1), (1, 2), (1, 3), (0, 4), (0, 2), (1, 5)]);
    }

    #[test]
    fn a_port_that_was_away_is_taken_up_again() {
        let mut replacements = VecDeque::from([script([
            Step::Frames(&[(2, "002#")]),
            Step::Down, // and nothing to replace it with: the same one goes on
            Step::Down,
            Step::Frames(&[(3, "003#")]),
            Step::Broken,
        ])]);
        let mut attempts = 0;
        let reopen: Reopen = Box::new(move || {
            attempts += 1;
            // Until it is there again, the old one would say nothing any more.
            let is_away = attempts == 1;
            if is_away { Err(Error::new("test", "away")) } else { Ok(replacements.pop_front()) }
        });
        let receiver = script([Step::Frames(&[(1, "001#")]), Step::Down]);
        let source = Source { name: "a".into(), receiver, reopen: Some(reopen) };
        let mut capture = Capture::of(vec![source]).unwrap();
        assert_eq!(
            collect(&mut capture),
            [
                "0:001#",
                "0 lost: test: it is down",
                "0 returned",
                "0:002#",
                "0 lost: test: it is down",
                "0 returned",
                "0:003#",
                "0 failed: test: it is broken",
            ]
        );
        // Those of the one before count too.
        assert_eq!(capture.totals(0).frames, 3);
    }

    #[test]
    fn without_a_stamp_frames_have_the_time_of_their_arrival() {
        let before = clock::now::<Realtime>();
        let mut capture = Capture::of(vec![source("a", [Step::Frames(&[(0, "001#")])])]).unwrap();
        let mut times = Vec::new();
        capture.next(Nanos::from_secs(100), |captured| times.push(captured.time));
        assert!(times.len() == 1 && times[0] >= before && times[0] <= clock::now::<Realtime>());
    }

    #[test]
    fn silent_ports_do_not_keep_it_from_ending() {
        let silent = || source("silent", [Step::Silence]);
        let mut capture = Capture::of(vec![silent(), silent()]).unwrap();
        assert_eq!(capture.next(Nanos::from_millis(1), |_| ()), Next::Nothing);
        drop(capture); // returns
    }

    #[test]
    fn nobody_waits_for_a_caller_that_left() {
        // More batches than there is room for.
        let steps = (0..2 * WAITING_BATCHES).map(|_| Step::Frames(&[(1, "001#")]));
        drop(Capture::of(vec![source("busy", steps)]).unwrap());
    }

    #[test]
    fn totals_tell_what_was_lost() {
        let totals = Totals { frames: 10, overflow: 2, malformed: 1, ..Totals::default() };
        assert_eq!(totals.to_string(), "10 frames, 2 lost, 1 malformed");
        assert!(!totals.is_complete());
    }
}
