//! The ingest: what ports receive becomes events.
//!
//! | file | for which ports |
//! |---|---|
//! | `task.rs` | those with a descriptor: a task beside the connections. While frames flow, the reactor does not wait for the port, which would wake it up for each of them, but for a timer: once a tick one thread receives, publishes, and writes to all connections |
//! | `thread.rs` | the others: a thread each |
//! | `pace.rs` | recordings that wait for their subscribers |

mod pace;
mod task;
mod thread;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use candor_daemon::Reactor;
use candor_diagnostics::counted;
use candor_drivers::lasting::{self, LastingReceiver, Reception, Reopen};
use candor_linux::clock;
use candor_port::{Address, Error, Handover, Medium, Progress, Until, Wanted};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::Frame;
use tokio::task::AbortHandle;

use self::pace::Pacer;
use crate::{Pace, Shared, Source};

/// Frames that are published at most before connections are woken: a full port starves nobody.
const MOST_FRAMES: usize = 1_024;
/// A call that gives fewer frames has taken what was there; what came since is taken in the next tick.
const FEW_FRAMES: usize = 8;
/// How long frames are waited for before it is looked whether to end, and whether the port works.
const PORT_CHECK_INTERVAL: Nanos = Nanos::from_secs(1);
/// How often a port that does not work is tried again.
const RETRY: Nanos = Nanos::from_millis(200);

const WANTED: Wanted = Wanted { error_reports: false, waker: true, ..Wanted::RECEIVER };

/// The place of no bus.
const NO_BUS: usize = usize::MAX;

/// What is known of a port.
#[derive(Default)]
pub(crate) struct Intake {
    /// Its address.
    pub(crate) port: String,
    /// The bus, by its place in the hub; [`NO_BUS`] when the port is not used any more.
    bus: AtomicUsize,
    /// What is known of its receivers.
    pub(crate) reception: Arc<Reception>,
    /// What is to be told once.
    notes: Mutex<Vec<String>>,
    /// Batches published.
    pub(crate) batches: AtomicU64,
    /// When the last one was published, or since when the port is there, as monotonic ns.
    heard_ns: AtomicU64,
}

impl Intake {
    /// For how long no frame has come; since its port is there if none ever came.
    pub(crate) fn silence(&self) -> Nanos {
        let heard = Instant::ZERO + Nanos::from_nanos(self.heard_ns.load(Ordering::Relaxed));
        clock::now::<Monotonic>() - heard
    }

    /// Notes that a frame has come.
    fn note_frame(&self) {
        self.heard_ns.store(clock::now::<Monotonic>().as_nanos(), Ordering::Relaxed);
    }

    /// The bus, by its place in the hub.
    pub(crate) fn bus(&self) -> usize {
        self.bus.load(Ordering::Relaxed)
    }

    /// Goes on counting where another port of the bus ended.
    pub(crate) fn inherit(&self, other: &Self) {
        self.reception.inherit(&other.reception);
        if self.batches.fetch_add(other.batches.load(Ordering::Relaxed), Ordering::Relaxed) == 0 {
            self.heard_ns.store(other.heard_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Its frames are of this bus from now on.
    pub(crate) fn set_bus(&self, place: usize) {
        self.bus.store(place, Ordering::Relaxed);
    }

    /// Something is to be told once.
    fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// What is to be told and was not yet.
    fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A port that is open.
pub(crate) struct Opened {
    address: Address,
    pace: Pace,
    receiver: LastingReceiver,
    pub(crate) intake: Arc<Intake>,
}

/// Whether a port can be what its address says, as far as that is known without the machine.
///
/// # Errors
/// Why not.
pub(crate) fn check(address: &Address, pace: Pace) -> Result<(), Error> {
    candor_drivers::check(address, WANTED)?;
    let fail = |reason: &str, remedy: &str| {
        Err(Error::new(address.to_string(), reason).with_remedy(remedy))
    };
    match pace {
        Pace::Subscribers if candor_drivers::medium(address) != Some(Medium::Recording) => {
            fail("only a recording can wait for subscribers", "remove the pace of this port")
        }
        Pace::Subscribers if address.option("speed").is_some() => {
            fail("`speed` and the pace of subscribers exclude each other", "remove one of them")
        }
        _ => Ok(()),
    }
}

/// The port that a driver opens: who waits for subscribers waits for no clock.
fn at_pace(address: &Address, pace: Pace) -> Result<Address, Error> {
    if pace == Pace::Received {
        return Ok(address.clone());
    }
    let mark = if address.options().is_empty() { '?' } else { '&' };
    Ok(format!("{address}{mark}speed=max").parse()?)
}

/// What opens a port again after an error. A recording would begin again; its end is next.
fn reopen(address: &Address) -> Option<Reopen> {
    let again = address.clone();
    let open = move || lasting::open_receiver(&again, WANTED, &Handover::default());
    let is_recording = candor_drivers::medium(address) == Some(Medium::Recording);
    (!is_recording).then(|| lasting::reopen(address, open))
}

/// Opens a port to receive from. It may take over what others leave that will not be used any more. With `waits`, one that
/// is not there yet is waited for as when it goes away later.
pub(crate) fn open(source: &Source, handover: &Handover, waits: bool) -> Result<Opened, Error> {
    let Source { address, pace, .. } = source;
    check(address, *pace)?;
    let reopen = reopen(address);
    let opened = lasting::open_receiver(&at_pace(address, *pace)?, WANTED, handover);
    let opened = opened.or_else(|error| match candor_drivers::absent(&error, WANTED).receiver {
        Some(receiver) if waits && candor_drivers::may_come(address, &error) => {
            Ok((receiver, None))
        }
        _ => Err(error),
    });
    let receiver = LastingReceiver::new(opened?, reopen);
    let (port, reception) = (address.to_string(), Arc::clone(receiver.reception()));
    let intake = Intake { port, bus: AtomicUsize::new(NO_BUS), reception, ..Intake::default() };
    intake.note_frame();
    Ok(Opened { address: address.clone(), pace: *pace, receiver, intake: Arc::new(intake) })
}

/// What takes frames from a port.
pub(crate) struct Ingest {
    pub(crate) address: Address,
    pub(crate) pace: Pace,
    pub(crate) intake: Arc<Intake>,
    is_ending: Arc<AtomicBool>,
    thread: Option<thread::Thread>,
    task: Option<AbortHandle>,
    /// Hangs up when the port is closed.
    closed: Mutex<mpsc::Receiver<()>>,
    reported: Option<String>,
    pub(crate) misfit: Misfit,
}

/// What was said of a database that describes none of the frames of a port.
#[derive(Default)]
pub(crate) struct Misfit {
    /// When the first of them was looked at.
    pub(crate) first: Option<Instant<Monotonic>>,
    pub(crate) is_told: bool,
}

impl Opened {
    /// Begins to publish its frames. A task ends with the reactor.
    pub(crate) fn start(
        self,
        coalesce: Nanos,
        shared: Arc<Shared>,
        reactor: &Reactor,
    ) -> io::Result<Ingest> {
        let intake = Arc::clone(&self.intake);
        let (address, pace) = (self.address.clone(), self.pace);
        let is_ending = Arc::new(AtomicBool::new(false));
        let is_waited_for =
            self.receiver.present().descriptor().is_some() && pace == Pace::Received;
        let (open, closed) = mpsc::channel();
        let worker = Worker { opened: self, coalesce, shared, _open: open };
        let (thread, task) = match is_waited_for {
            true => (None, Some(reactor.spawn(task::IngestTask::new(worker).work()))),
            false => (Some(thread::start(worker, Arc::clone(&is_ending))?), None),
        };
        let closed = Mutex::new(closed);
        Ok(Ingest {
            address,
            pace,
            intake,
            is_ending,
            thread,
            task,
            closed,
            reported: None,
            misfit: Misfit::default(),
        })
    }
}

impl Ingest {
    /// What it still takes becomes no events.
    pub(crate) fn mute(&self) {
        self.intake.set_bus(NO_BUS);
    }

    /// Lets it end. What it has taken it publishes.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(task) = &self.task {
            task.abort();
        }
        if let Some(thread) = &self.thread {
            thread.wake();
        }
    }

    /// Waits until the port of one that was ended is closed, but not for longer than this. Whether it is.
    pub(crate) fn wait_closed(&mut self, patience: Duration) -> bool {
        let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_closed = closed.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected);
        // A port that was opened again in the meantime has left something, too.
        self.intake.reception.forget_endpoint();
        is_closed
    }

    pub(crate) fn join(self) {
        if let Some(thread) = self.thread {
            thread.join();
        }
    }

    /// What is new about whether the port works, and what else is to be told.
    pub(crate) fn news(&mut self) -> Vec<String> {
        let port = &self.intake.port;
        let mut news = self.intake.take_notes();
        news.iter_mut().for_each(|note| *note = format!("{port}: {note}"));
        let trouble = self.intake.reception.trouble();
        if trouble != self.reported {
            self.reported.clone_from(&trouble);
            news.push(match trouble {
                Some(trouble) => format!("{port}: {trouble}"),
                None => format!("{port} works again"),
            });
        }
        news
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    /// There is more.
    Some,
    /// Nothing comes any more.
    Ended,
}

/// A port and where its frames go.
struct Worker {
    opened: Opened,
    coalesce: Nanos,
    shared: Arc<Shared>,
    /// The last field: it hangs up after the port is closed.
    _open: mpsc::Sender<()>,
}

impl Worker {
    /// Takes what has come.
    fn take(&mut self, until: Until, batch: &mut Vec<(u64, Frame)>) -> Result<Taken, Error> {
        let mut until = until;
        loop {
            let before = batch.len();
            let mut last = None;
            let progress = self.opened.receiver.receive(until, &mut |received| {
                let stamp = received.stamp.system.map(Instant::as_nanos);
                let stamp = stamp.or(last);
                let stamp = stamp.unwrap_or_else(|| clock::now::<Realtime>().as_nanos());
                // Frames of a batch without stamps came at the same time, as far as anybody knows.
                last = Some(stamp);
                batch.push((stamp, received.frame));
            })?;
            let is_little =
                batch.len() - before < FEW_FRAMES && !self.opened.receiver.present().has_more();
            match progress {
                Progress::Ended => return Ok(Taken::Ended),
                Progress::Nothing => return Ok(Taken::All),
                Progress::Frames(_) if batch.len() >= MOST_FRAMES => return Ok(Taken::Some),
                // With a tick, the next one comes soon.
                Progress::Frames(_) if is_little && self.coalesce > Nanos::ZERO => {
                    return Ok(Taken::All);
                }
                Progress::Frames(_) => until = Until::Now,
            }
        }
    }

    fn publish(&self, batch: &mut Vec<(u64, Frame)>) {
        if batch.is_empty() {
            return;
        }
        let mut hub = self.shared.hub();
        // Changed with the hub locked.
        let bus = self.opened.intake.bus();
        for (time_ns, frame) in batch.drain(..) {
            hub.publish(bus, time_ns, &frame);
        }
        hub.notify();
        drop(hub);
        let intake = &self.opened.intake;
        intake.batches.fetch_add(1, Ordering::Relaxed);
        intake.note_frame();
    }

    /// Nothing comes any more.
    fn set_ended(&self) {
        let malformed = self.opened.receiver.present().counters().malformed.get();
        let trouble = match malformed {
            0 => "no more frames come".to_owned(),
            count => {
                format!("no more frames come; {} passed over", counted(count, "malformed record"))
            }
        };
        self.opened.intake.reception.set_trouble(Some(trouble));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;

    use candor_events::{Bus, Hub};
    use candor_port::{Origin, Received, Receiver, ReceiverCounters, Sent, Stamp, Waker};
    use candor_time::Monotonic;

    use super::*;

    fn pause() {
        clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1)).unwrap();
    }

    /// A port that makes errors, and then receives a frame a millisecond.
    struct Failing {
        errors: u64,
        counters: Arc<ReceiverCounters>,
        /// Something to read at one end, always.
        ends: [UnixStream; 2],
    }

    impl Failing {
        fn new(errors: u64) -> Self {
            let (one, mut other) = UnixStream::pair().unwrap();
            other.write_all(&[0]).unwrap();
            Self { errors, counters: Arc::default(), ends: [one, other] }
        }
    }

    impl Receiver for Failing {
        fn receive(
            &mut self,
            _: Until,
            take: &mut dyn FnMut(&Received),
        ) -> Result<Progress, Error> {
            if let Some(left) = self.errors.checked_sub(1) {
                self.errors = left;
                return Err(Error::new("the port", "it is broken"));
            }
            pause();
            let frame = "123#01".parse().unwrap();
            take(&Received { frame, stamp: Stamp::default(), origin: Origin::Bus });
            Ok(Progress::Frames(1))
        }

        fn waker(&self) -> Option<Waker> {
            None
        }

        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            Some(self.ends[0].as_fd())
        }

        fn counters(&self) -> Arc<ReceiverCounters> {
            Arc::clone(&self.counters)
        }
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared::new(Hub::new(vec![Bus { name: "car".into(), database: None }])))
    }

    /// A worker whose port makes so many errors.
    fn worker(address: &str, errors: u64) -> Worker {
        let port = address.into();
        let address = address.parse().unwrap();
        let opened = (Box::new(Failing::new(errors)) as Box<dyn Receiver>, None);
        let receiver = LastingReceiver::new(opened, reopen(&address));
        let reception = Arc::clone(receiver.reception());
        let intake = Arc::new(Intake { port, reception, ..Intake::default() });
        intake.set_bus(0);
        let opened = Opened { address, pace: Pace::Received, receiver, intake };
        let (open, _) = mpsc::channel();
        Worker { opened, coalesce: Nanos::ZERO, shared: shared(), _open: open }
    }

    /// Lets a thread or a task work until frames were published behind the errors; `poke` is called when the first one
    /// was told, and again. How often it was opened again, and whether it was told.
    fn mended(address: &str, errors: u64, is_task: bool, mut poke: impl FnMut()) -> (u64, bool) {
        let worker = worker(address, errors);
        let intake = Arc::clone(&worker.opened.intake);
        let is_ending = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (thread, task) = match is_task {
            true => (None, Some(runtime.spawn(task::IngestTask::new(worker).work()))),
            false => (Some(thread::start(worker, Arc::clone(&is_ending)).unwrap()), None),
        };
        let abort = task.as_ref().map(tokio::task::JoinHandle::abort_handle);
        let task = task.map(|task| std::thread::spawn(move || runtime.block_on(task)));
        let mut is_told = false;
        let end = clock::now::<Monotonic>() + Nanos::from_secs(20);
        while intake.batches.load(Ordering::Relaxed) == 0 || intake.reception.trouble().is_some() {
            assert!(clock::now::<Monotonic>() < end, "still {:?}", intake.reception.trouble());
            is_told |=
                intake.reception.trouble().is_some_and(|trouble| trouble.contains("it is broken"));
            if is_told {
                poke();
            }
            pause();
        }
        is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = thread {
            thread.wake();
            thread.join();
        }
        if let Some((task, abort)) = task.zip(abort) {
            abort.abort();
            assert!(task.join().unwrap().unwrap_err().is_cancelled());
        }
        (intake.reception.reopened(), is_told)
    }

    #[test]
    fn a_port_that_makes_errors_is_opened_again() {
        for is_task in [false, true] {
            let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            let [here, there] = sockets.map(|socket| socket.local_addr().unwrap());
            let name = format!("can2udp:{there}?peer={here}").parse().unwrap();
            let sender = candor_drivers::open(&name, Wanted::TRANSMITTER).unwrap().transmitter;
            let mut sender = sender.unwrap();
            let frame: Frame = "123#AA".parse().unwrap();
            let poke = || assert_eq!(sender.transmit(&frame, true), Sent::Taken);
            // It never works by itself.
            let address = format!("can2udp:{here}?peer={there}");
            let mended = mended(&address, u64::MAX, is_task, poke);
            assert_eq!(mended, (1, true), "{is_task}");
        }
    }

    #[test]
    fn a_recording_that_makes_an_error_goes_on_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        std::fs::write(&log, "(1.0) can0 321#\n").unwrap();
        for is_task in [false, true] {
            let address = format!("file:{}?speed=max", log.display());
            assert_eq!(mended(&address, 1, is_task, || ()), (0, true), "{is_task}");
        }
    }
}
