//! [`LastingReceiver`]: the receiver of a port that lasts, whatever becomes of what it is opened on.
//!
//! ```text
//!  whoever receives -- LastingReceiver -- Receiver, then the next one on the same port ...
//!                            |
//!                        Reception: what all of them counted, why nothing comes, what wakes the present one
//!                            |
//!  whoever asks -------------+
//! ```
//!
//! When a receiver makes an error, that is the port's trouble until it works again. Who receives decides how to wait in
//! between (a thread that can be woken, a task, a supervisor that knows when an interface returns), and opens the port
//! again by [`LastingReceiver::reopen`] or puts another receiver in by [`LastingReceiver::replace`]. Counters go on.

use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candor_port::{
    Address, Endpoint, Error, Progress, Received, Receiver, ReceiverCounters, Until, Waker, Wanted,
};

/// What receivers counted; the fields are those of [`ReceiverCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverTotals {
    pub frames: u64,
    pub error_reports: u64,
    pub datagrams: u64,
    pub malformed: u64,
    pub malformed_frames: u64,
    pub foreign: u64,
    pub displaced: u64,
    pub overflow: u64,
    pub missing: u64,
    pub out_of_order: u64,
}

impl ReceiverTotals {
    /// What did not come, as far as that is known.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.overflow + self.missing
    }
}

impl AddAssign<&ReceiverCounters> for ReceiverTotals {
    fn add_assign(&mut self, of: &ReceiverCounters) {
        self.frames += of.frames.get();
        self.error_reports += of.error_reports.get();
        self.datagrams += of.datagrams.get();
        self.malformed += of.malformed.get();
        self.malformed_frames += of.malformed_frames.get();
        self.foreign += of.foreign.get();
        self.displaced += of.displaced.get();
        self.overflow += of.overflow.get();
        self.missing += of.missing.get();
        self.out_of_order += of.out_of_order.get();
    }
}

/// What is known of the receivers that a port has had, for any thread.
#[derive(Debug, Default)]
pub struct Reception(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// What receivers counted that are closed.
    closed: ReceiverTotals,
    /// The counters of the others, the present one last.
    counters: Vec<Arc<ReceiverCounters>>,
    waker: Option<Waker>,
    endpoint: Option<Endpoint>,
    trouble: Option<String>,
    reopened: u64,
}

impl Known {
    /// Closed receivers count no more: their counters are added up, so that those that are kept stay few.
    fn add_up(&mut self) {
        let closed = &mut self.closed;
        self.counters.retain(|counters| {
            let is_closed = Arc::strong_count(counters) == 1;
            if is_closed {
                *closed += counters;
            }
            !is_closed
        });
    }

    fn adopt(&mut self, receiver: &dyn Receiver, endpoint: Option<Endpoint>) {
        self.add_up();
        self.counters.push(receiver.counters());
        self.waker = receiver.waker();
        self.endpoint = endpoint;
    }
}

impl Reception {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all of them counted.
    #[must_use]
    pub fn totals(&self) -> ReceiverTotals {
        let known = self.known();
        let mut totals = known.closed;
        known.counters.iter().for_each(|counters| totals += counters);
        totals
    }

    /// Why nothing comes at present, if so.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let known = self.known();
        let of_receiver = || known.counters.last().and_then(|counters| counters.trouble.get());
        known.trouble.clone().or_else(of_receiver)
    }

    /// Nothing comes, and why; `None`: it works.
    pub fn set_trouble(&self, trouble: Option<String>) {
        self.known().trouble = trouble;
    }

    /// How often the port was opened again.
    #[must_use]
    pub fn reopened(&self) -> u64 {
        self.known().reopened
    }

    /// What the present one leaves to a port that replaces it.
    #[must_use]
    pub fn endpoint(&self) -> Option<Endpoint> {
        self.known().endpoint.clone()
    }

    /// The present one leaves nothing any more.
    pub fn forget_endpoint(&self) {
        self.known().endpoint = None;
    }

    /// Ends the waiting of the present one, if it has a waker.
    pub fn wake(&self) {
        // Not while it is locked: whoever is woken may want it.
        let waker = self.known().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Goes on counting where another port ended, which this one replaces.
    pub fn inherit(&self, other: &Self) {
        let (closed, counters, reopened) = {
            let mut other = other.known();
            other.add_up();
            (other.closed, other.counters.clone(), other.reopened)
        };
        let mut known = self.known();
        (known.closed, known.reopened) = (closed, reopened);
        known.counters.splice(0..0, counters);
    }
}

/// A receiver and what it leaves to a port that replaces it.
pub type Opened = (Box<dyn Receiver>, Option<Endpoint>);

/// Opens the receiver of a port again; `None` if the old one will do. Any thread may call it.
pub type Reopen = Arc<Mutex<dyn FnMut() -> Result<Option<Opened>, Error> + Send>>;

/// What opens a port again by `open`. If its interface was only down, the old socket is still there and misses nothing.
/// Call this before the port is opened for the first time: if its interface goes away in between, it is opened once more.
pub fn reopen(
    address: &Address,
    mut open: impl FnMut() -> Result<Opened, Error> + Send + 'static,
) -> Reopen {
    let address = address.clone();
    let mut known = index(&address);
    Arc::new(Mutex::new(move || {
        let now = index(&address);
        if now.is_some() && now == known {
            return Ok(None);
        }
        let opened = open()?;
        known = now;
        Ok(Some(opened))
    }))
}

/// Opens the receiver of a port again; `None` if the old one will do.
///
/// # Errors
/// It cannot be opened now.
pub fn open_again(reopen: &Reopen) -> Result<Option<Opened>, Error> {
    reopen.lock().unwrap_or_else(PoisonError::into_inner)()
}

/// The number of the interface that a port is.
fn index(address: &Address) -> Option<u32> {
    candor_linux::interface_index(crate::interface(address)?).ok()
}

/// Opens the receiver of a port.
///
/// # Errors
/// It cannot be opened, or receives nothing.
pub fn open_receiver(
    address: &Address,
    wanted: Wanted,
    handover: &candor_port::Handover,
) -> Result<Opened, Error> {
    let port = crate::open_after(address, wanted, handover)?;
    let receiver = port.receiver.ok_or_else(|| {
        Error::new(address.to_string(), "this port receives nothing")
            .with_remedy("use another port; `candor bus list` shows the kinds")
    });
    Ok((receiver?, port.endpoint))
}

/// The receiver of a port, one after the other.
pub struct LastingReceiver {
    receiver: Box<dyn Receiver>,
    reception: Arc<Reception>,
    reopen: Option<Reopen>,
    /// Nothing has come since the last error.
    is_lost: bool,
    /// That error does not pass by itself.
    is_broken: bool,
    /// Only a frame shows that it works again.
    waits_for_frames: bool,
}

impl LastingReceiver {
    /// One that is opened again by `reopen`, or never.
    #[must_use]
    pub fn new((receiver, endpoint): Opened, reopen: Option<Reopen>) -> Self {
        Self::known_as(Arc::default(), (receiver, endpoint), reopen)
    }

    /// The same, of a port that others know already.
    #[must_use]
    pub fn known_as(
        reception: Arc<Reception>,
        (receiver, endpoint): Opened,
        reopen: Option<Reopen>,
    ) -> Self {
        reception.known().adopt(&*receiver, endpoint);
        let waits_for_frames = false;
        Self { receiver, reception, reopen, is_lost: false, is_broken: false, waits_for_frames }
    }

    /// After an error only a frame shows that it works again: an interface that is down is as silent as a bus on which
    /// nobody sends.
    #[must_use]
    pub fn until_frames(mut self) -> Self {
        self.waits_for_frames = true;
        self
    }

    /// What is known of it.
    #[must_use]
    pub const fn reception(&self) -> &Arc<Reception> {
        &self.reception
    }

    #[must_use]
    pub fn present(&self) -> &dyn Receiver {
        &*self.receiver
    }

    /// As [`Receiver::receive`]. An error is the port's trouble until something comes, or nothing without another error: after
    /// one it does not wait, so that this is known soon.
    ///
    /// # Errors
    /// The port cannot go on now.
    #[inline]
    pub fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let is_tried = self.is_lost && !self.is_broken && !self.waits_for_frames;
        let until = if is_tried { Until::Now } else { until };
        match self.receiver.receive(until, take) {
            Ok(progress) => {
                let works = match progress {
                    Progress::Frames(_) => true,
                    Progress::Nothing => is_tried,
                    Progress::Ended => false,
                };
                if self.is_lost && works {
                    self.works();
                }
                Ok(progress)
            }
            Err(error) => {
                self.fail(error.without_port());
                self.is_broken = !error.is_passing();
                Err(error)
            }
        }
    }

    /// What is around the receiver has failed: that is the port's trouble until something comes, or nothing without an error.
    pub fn fail(&mut self, reason: String) {
        self.is_lost = true;
        self.reception.set_trouble(Some(reason));
    }

    /// Whether it has made an error and does not work again yet.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn works(&mut self) {
        (self.is_lost, self.is_broken) = (false, false);
        self.reception.set_trouble(None);
    }

    /// What opens it again, for another thread, whose result [`LastingReceiver::replace`] takes.
    #[must_use]
    pub fn opening(&self) -> Option<Reopen> {
        self.reopen.clone()
    }

    /// Opens the port again, if that is of use; whether there is something to receive from.
    pub fn reopen(&mut self) -> bool {
        let Some(reopen) = self.opening() else { return true };
        match open_again(&reopen) {
            Ok(None) => true,
            Ok(Some(opened)) => {
                self.replace(opened);
                true
            }
            Err(_) => false,
        }
    }

    /// Goes on with another receiver. Whether it works is known when it has received.
    pub fn replace(&mut self, (receiver, endpoint): Opened) {
        self.receiver = receiver;
        self.is_broken = false;
        let mut known = self.reception.known();
        known.adopt(&*self.receiver, endpoint);
        known.reopened += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What a receiver does next.
    #[derive(Clone, Copy)]
    enum Step {
        Frame,
        Nothing,
        Down,
        Broken,
    }

    struct Script(VecDeque<Step>, Arc<ReceiverCounters>);

    impl Receiver for Script {
        fn receive(
            &mut self,
            _: Until,
            take: &mut dyn FnMut(&Received),
        ) -> Result<Progress, Error> {
            match self.0.pop_front() {
                Some(Step::Frame) => {
                    self.1.frames.add(1);
                    take(&Received {
                        frame: "001#".parse().unwrap(),
                        stamp: candor_port::Stamp::default(),
                        origin: candor_port::Origin::Bus,
                    });
                    Ok(Progress::Frames(1))
                }
                Some(Step::Nothing) => Ok(Progress::Nothing),
                Some(Step::Down) => Err(Error::new("test", "it is down").passing()),
                Some(Step::Broken) => Err(Error::new("test", "it is broken")),
                None => Ok(Progress::Ended),
            }
        }

        fn waker(&self) -> Option<Waker> {
            None
        }

        fn counters(&self) -> Arc<ReceiverCounters> {
            Arc::clone(&self.1)
        }
    }

    fn script(steps: &[Step]) -> Opened {
        (Box::new(Script(steps.iter().copied().collect(), Arc::default())), None)
    }

    /// What a receiver of these steps says, one after the other, and its trouble then.
    fn troubles(steps: &[Step]) -> Vec<Option<String>> {
        let mut receiver = LastingReceiver::new(script(steps), None);
        let mut after = |_: &Step| {
            let _ = receiver.receive(Until::Woken, &mut |_| ());
            receiver.reception().trouble()
        };
        steps.iter().map(&mut after).collect()
    }

    #[test]
    fn trouble_lasts_until_it_works_again() {
        let (down, broken) = (Some("it is down".to_owned()), Some("it is broken".to_owned()));
        use Step::{Broken, Down, Frame, Nothing};
        for (steps, expected) in [
            (&[Down, Down, Nothing, Frame][..], vec![down.clone(), down.clone(), None, None]),
            (&[Down, Frame, Down][..], vec![down.clone(), None, down]),
            // What does not pass by itself is over when something comes.
            (&[Broken, Nothing, Frame][..], vec![broken.clone(), broken, None]),
        ] {
            assert_eq!(troubles(steps), expected);
        }
    }

    #[test]
    fn counters_go_on_and_stay_few() {
        let mut receiver = LastingReceiver::new(script(&[Step::Frame]), None);
        for _ in 0..100 {
            let _ = receiver.receive(Until::Now, &mut |_| ());
            receiver.replace(script(&[Step::Frame]));
        }
        let reception = Arc::clone(receiver.reception());
        assert_eq!((reception.totals().frames, reception.reopened()), (100, 100));
        assert!(reception.known().counters.len() <= 2);
        // A port that replaces it goes on, also with what the one before counts after that.
        let mut next = LastingReceiver::new(script(&[Step::Frame]), None);
        next.reception().inherit(&reception);
        let _ = receiver.receive(Until::Now, &mut |_| ());
        let _ = next.receive(Until::Now, &mut |_| ());
        assert_eq!(next.reception().totals().frames, 102);
        drop((receiver, reception));
        let last = LastingReceiver::new(script(&[]), None);
        last.reception().inherit(next.reception());
        assert_eq!(last.reception().totals().frames, 102);
    }
}
