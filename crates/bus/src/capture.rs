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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use candor_diagnostics::counted;
use candor_drivers::lasting::{self, LastingReceiver, ReceiverTotals, Reception};
use candor_linux::clock;
use candor_port::{Address, Error, Handover, Progress, Received, Until, Wanted};
use candor_time::{Instant, Nanos, Realtime};

use crate::named::{self, NamedPort};

/// Batches that may wait for the caller.
const WAITING_BATCHES: usize = 1_024;
/// How often a port that went away is looked for.
const RETRY: Duration = Duration::from_millis(200);

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
    /// Frames that came and could not be written where they were to go: what a caller counts.
    pub unwritten: u64,
}

impl Totals {
    fn of(counted: ReceiverTotals) -> Self {
        Self {
            frames: counted.frames.saturating_sub(counted.error_reports),
            error_reports: counted.error_reports,
            malformed: counted.malformed,
            overflow: counted.overflow,
            missing: counted.missing,
            out_of_order: counted.out_of_order,
            unwritten: 0,
        }
    }

    /// Whether nothing is known to be lost.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.overflow == 0 && self.missing == 0 && self.unwritten == 0
    }
}

/// All of it in a few words; zeroes other than those of frames and losses are left out.
impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.overflow.saturating_add(self.unwritten);
        write!(f, "{}, {lost} lost", counted(self.frames, "frame"))?;
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

/// A port to receive from.
pub struct Source {
    /// What messages call it.
    pub name: String,
    /// The half of it that receives, which has a waker.
    pub receiver: LastingReceiver,
}

impl Source {
    /// Opens a port.
    ///
    /// # Errors
    /// It cannot be opened, or receives nothing.
    pub fn open(address: &Address, wanted: Wanted) -> Result<Self, Error> {
        let wanted = Wanted { waker: true, ..wanted };
        let again = address.clone();
        let open = move || lasting::open_receiver(&again, wanted, &Handover::default());
        let reopen = lasting::reopen(address, open.clone());
        let receiver = LastingReceiver::new(open()?, Some(reopen)).until_frames();
        Ok(Self { name: address.to_string(), receiver })
    }
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
    reception: Arc<Reception>,
    thread: Option<JoinHandle<()>>,
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
        Self::from_sources(
            ports.iter().zip(named::titles(ports)).map(open).collect::<Result<_, _>>()?,
        )
    }

    /// Begins to receive.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn from_sources(sources: Vec<Source>) -> Result<Self, Error> {
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
        let Source { name, receiver } = source;
        let fail = |reason: String| Error::new(&name, reason);
        let reception = Arc::clone(receiver.reception());
        let worker = Worker { port, receiver, tell, stop: Arc::clone(&self.stop) };
        let thread = std::thread::Builder::new()
            .name(format!("receive {name}"))
            .spawn(move || worker.run())
            .map_err(|error| fail(format!("no thread can be started: {error}")))?;
        self.ports.push(State { name, reception, thread: Some(thread) });
        Ok(())
    }

    /// The names of the ports.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.name.as_str())
    }

    /// What a port counted so far.
    #[must_use]
    pub fn totals(&self, port: usize) -> Totals {
        self.ports
            .get(port)
            .map_or_else(Totals::default, |port| Totals::of(port.reception.totals()))
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

    /// Receives nothing more from any port. What was received is handed over still, and then [`Next::Ended`].
    pub fn stop(&mut self) {
        if self.stop.swap(true, Ordering::Relaxed) {
            return;
        }
        for port in &self.ports {
            // Whether it waits for a frame or for the port.
            port.reception.wake();
            if let Some(thread) = &port.thread {
                thread.thread().unpark();
            }
        }
    }

    /// The frame with the earliest stamp of those that are first of their port.
    fn earliest(&mut self) -> Option<Captured> {
        let fronts = self.waiting.iter_mut().filter(|queue| !queue.is_empty());
        fronts.min_by_key(|queue| queue.front().map(|captured| captured.time))?.pop_front()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop();
        // Whoever waits for room in the channel finds that nobody will read it any more.
        let (_, nobody) = mpsc::sync_channel(0);
        drop(std::mem::replace(&mut self.events, nobody));
        for port in &mut self.ports {
            let Some(thread) = port.thread.take() else { continue };
            let _ = thread.join();
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
    receiver: LastingReceiver,
    tell: SyncSender<Event>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self) {
        while !self.is_stopped() {
            let mut batch = Vec::new();
            let mut now = None;
            let port = self.port;
            let was_lost = self.receiver.is_lost();
            let progress = self.receiver.receive(Until::Woken, &mut |received| {
                let handed_over = *now.get_or_insert_with(clock::now::<Realtime>);
                let time = received.stamp.system.unwrap_or(handed_over);
                batch.push(Captured { port, time, received: *received });
            });
            let is_back = was_lost && !self.receiver.is_lost();
            if is_back && !self.say(Next::Returned(port))
                || !batch.is_empty() && self.tell.send(Event::Frames(batch)).is_err()
            {
                return;
            }
            match progress {
                Ok(Progress::Frames(_) | Progress::Nothing) => {}
                Ok(Progress::Ended) => return,
                Err(error) if error.is_passing() => {
                    if !was_lost && !self.say(Next::Lost(port, error)) {
                        return;
                    }
                    self.take_up_again(was_lost);
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
                // Until whoever stops it unparks it, at most.
                std::thread::park_timeout(RETRY);
            }
            waits = true;
            if self.receiver.reopen() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
