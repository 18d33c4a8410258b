//! Clients of a socket, each in a thread of its own, up to a limit.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use candor_linux::clock;
use candor_linux::poll::{self, Interest, Poll};
use candor_time::{Instant, Monotonic, Nanos};

use crate::lock::lock;

/// How long to wait if the kernel has nothing left for one more client.
const PAUSE: Nanos = Nanos::from_millis(100);

/// A socket that clients connect to.
pub(crate) trait Listener: AsFd + Send + 'static {
    type Stream: Stream;

    fn take(&self) -> io::Result<Self::Stream>;
    fn dont_wait(&self) -> io::Result<()>;
}

/// A connection to a client. It does not block: who wants to wait polls, with a limit.
pub(crate) trait Stream: AsFd + Read + Write + Send + Sized + 'static {
    fn copy(&self) -> io::Result<Self>;
    fn end(&self, which: Shutdown);
    fn dont_wait(&self) -> io::Result<()>;
}

macro_rules! listener {
    ($listener:ty, $stream:ty) => {
        impl Listener for $listener {
            type Stream = $stream;

            fn take(&self) -> io::Result<$stream> {
                self.accept().map(|(stream, _)| stream)
            }

            fn dont_wait(&self) -> io::Result<()> {
                self.set_nonblocking(true)
            }
        }

        impl Stream for $stream {
            fn copy(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn end(&self, which: Shutdown) {
                // If it is not connected any more it has ended.
                let _ = self.shutdown(which);
            }

            fn dont_wait(&self) -> io::Result<()> {
                self.set_nonblocking(true)
            }
        }
    };
}
listener!(UnixListener, UnixStream);
listener!(TcpListener, TcpStream);

/// What is done for one client, for one that has to give way, and for one too many.
pub(crate) trait Service<S>: Send + Sync + 'static {
    /// Serves a client; tells by `pulse` when something was done for it.
    fn serve(&self, client: S, pulse: &Pulse);
    /// Tells a client that has to give way to another one.
    fn displace(&self, client: &mut S);
    fn turn_away(&self, client: S);
}

/// How many clients there may be, and which of them give way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Clients at once.
    pub(crate) clients: usize,
    /// How long nothing was done for a client that gives way to a new one if there is no room.
    pub(crate) idle: Nanos,
}

/// When something was done for a client last.
#[derive(Debug)]
pub(crate) struct Pulse(AtomicU64);

/// Something is being done: no instant is as late.
const BUSY: u64 = u64::MAX;

impl Pulse {
    fn new() -> Self {
        Self(AtomicU64::new(clock::now::<Monotonic>().as_nanos()))
    }

    /// Something is being done, however long it takes.
    pub(crate) fn busy(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    /// It has been done.
    pub(crate) fn beat(&self) {
        self.0.store(clock::now::<Monotonic>().as_nanos(), Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Clients being served. Dropping it ends their connections and takes no more; their threads end by
/// themselves as soon as they look.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Closing it ends the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    pub(crate) fn serve<L: Listener>(
        name: &str,
        listener: L,
        room: Room,
        service: impl Service<L::Stream>,
    ) -> io::Result<Self> {
        listener.dont_wait()?;
        let (stop, stopped) = UnixStream::pair()?;
        let mut poll = Poll::new().map_err(io::Error::other)?;
        poll.add(&listener, Interest::Read, 0).map_err(io::Error::other)?;
        poll.add(&stopped, Interest::Read, 1).map_err(io::Error::other)?;
        let accepting = Accepting {
            name: name.to_owned(),
            listener,
            stopped,
            room,
            service: Arc::new(service),
            connected: Arc::default(),
            count: 0,
        };
        let thread =
            thread::Builder::new().name(name.to_owned()).spawn(move || accepting.run(poll))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It waits for nothing but its sockets. If it panicked its clients are gone as well.
            let _ = thread.join();
        }
    }
}

/// The connections there are, by number.
type Connected<S> = Arc<Mutex<HashMap<u64, Guest<S>>>>;

/// A connection, and when something was done for it last.
struct Guest<S> {
    stream: S,
    pulse: Arc<Pulse>,
}

struct Accepting<L: Listener, S> {
    name: String,
    listener: L,
    stopped: UnixStream,
    room: Room,
    service: Arc<S>,
    connected: Connected<L::Stream>,
    count: u64,
}

impl<L: Listener, S: Service<L::Stream>> Accepting<L, S> {
    fn run(mut self, mut poll: Poll) {
        while let Ok(ready) = poll.wait(None) {
            if ready.into_iter().any(|token| token == 1) {
                break;
            }
            match self.listener.take() {
                Ok(client) => self.admit(client),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock
                    | ErrorKind::Interrupted
                    | ErrorKind::ConnectionAborted => {}
                    // Too many files are open, or there is no memory: later perhaps.
                    _ => {
                        let _ = poll::wait(&self.stopped, Interest::Read, Some(PAUSE));
                    }
                },
            }
        }
    }

    fn admit(&mut self, client: L::Stream) {
        let Ok(copy) = client.copy().and_then(|copy| client.dont_wait().map(|()| copy)) else {
            return;
        };
        let pulse = Arc::new(Pulse::new());
        if lock(&self.connected).len() >= self.room.clients && !self.make_room() {
            self.service.turn_away(client);
            return;
        }
        self.count += 1;
        let guest = Guest { stream: copy, pulse: Arc::clone(&pulse) };
        lock(&self.connected).insert(self.count, guest);
        let place = Place { connected: Arc::clone(&self.connected), number: self.count };
        let service = Arc::clone(&self.service);
        // If there can be no thread the closure is dropped, and the connection with it.
        let _ = thread::Builder::new().name(self.name.clone()).spawn(move || {
            let _place = place;
            service.serve(client, &pulse);
        });
    }

    /// Ends the connection for which nothing was done for the longest time, if that was long enough.
    fn make_room(&self) -> bool {
        let mut connected = lock(&self.connected);
        let pulses = connected.iter().map(|(&number, guest)| (number, guest.pulse.last()));
        let now = clock::now::<Monotonic>().as_nanos();
        let Some(number) = longest_idle(pulses, now, self.room.idle) else { return false };
        if let Some(mut guest) = connected.remove(&number) {
            self.service.displace(&mut guest.stream);
            guest.stream.end(Shutdown::Both);
        }
        true
    }
}

/// Of connections with their pulses, the one that has been idle for the longest time, and for so long
/// at least.
fn longest_idle(pulses: impl Iterator<Item = (u64, u64)>, now: u64, idle: Nanos) -> Option<u64> {
    let (number, last) = pulses.min_by_key(|&(_, last)| last)?;
    (now.checked_sub(last)? >= idle.as_nanos()).then_some(number)
}

impl<L: Listener, S> Drop for Accepting<L, S> {
    fn drop(&mut self) {
        for guest in lock(&self.connected).values() {
            guest.stream.end(Shutdown::Both);
        }
    }
}

/// The place of one client; the next one may have it in the end.
struct Place<S: Stream> {
    connected: Connected<S>,
    number: u64,
}

impl<S: Stream> Drop for Place<S> {
    fn drop(&mut self) {
        if let Some(guest) = lock(&self.connected).remove(&self.number) {
            guest.stream.end(Shutdown::Both);
        }
    }
}

/// Writes all of `bytes`, within `patience` altogether. False if the client does not take them.
pub(crate) fn write_all(client: &mut impl Stream, bytes: &[u8], patience: Nanos) -> bool {
    let end = clock::now::<Monotonic>() + patience;
    let mut rest = bytes;
    while !rest.is_empty() {
        match client.write(rest) {
            Ok(0) => return false,
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = left_until(end);
                if left == Nanos::ZERO || poll::wait(client, Interest::Write, Some(left)).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}

/// What came next from a client.
pub(crate) enum Came {
    /// So many bytes.
    Bytes(usize),
    /// Nothing in that time.
    Nothing,
    /// It went away.
    End,
}

/// Waits for bytes of a client until then at most.
pub(crate) fn read(client: &mut impl Stream, bytes: &mut [u8], until: Instant<Monotonic>) -> Came {
    loop {
        match client.read(bytes) {
            Ok(0) => return Came::End,
            Ok(count) => return Came::Bytes(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = left_until(until);
                if left == Nanos::ZERO {
                    return Came::Nothing;
                }
                if poll::wait(client, Interest::Read, Some(left)).is_err() {
                    return Came::End;
                }
            }
            Err(_) => return Came::End,
        }
    }
}

/// How long it is until then; zero if it is over.
pub(crate) fn left_until(end: Instant<Monotonic>) -> Nanos {
    let left = end.as_nanos().saturating_sub(clock::now::<Monotonic>().as_nanos());
    Nanos::from_nanos(left)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_one_that_was_idle_longest_gives_way() {
        let chosen = |pulses: &[(u64, u64)]| {
            longest_idle(pulses.iter().copied(), 1_000, Nanos::from_nanos(100))
        };
        for (pulses, expected) in [
            (&[][..], None),
            (&[(1, 900)], Some(1)),
            (&[(1, 901)], None),
            (&[(1, 800), (2, 10), (3, 900)], Some(2)),
            // What is busy stays, whatever the time.
            (&[(1, BUSY)], None),
            (&[(1, BUSY), (2, 5)], Some(2)),
            // Something was done just now.
            (&[(1, 1_001)], None),
        ] {
            assert_eq!(chosen(pulses), expected, "{pulses:?}");
        }
    }
}
