//! Programs that are asked line by line, and answer so.
//!
//! Requests of a client are answered in their order. What does so may take its time: it runs in a thread of its own,
//! one request at a time, and the event loop goes on. Requests that take long have another thread ([`THREADS`]). A client that does not take an answer in time is
//! disconnected; so is one that watches nothing and asks nothing for a long time.

use std::sync::Arc;
use std::time::Duration;

use candor_linux::clock;
use candor_time::{Instant, Monotonic, Nanos};

use crate::clients::{self, Client, Room};
use crate::listen::Listener;
use crate::reactor::begin_beside;
use crate::stream::Stream;

/// How much clients may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at once.
    pub clients: usize,
    /// Bytes of a request, its line feed apart.
    pub line_bytes: usize,
    /// How long a client may take to take an answer.
    pub timeout: Nanos,
    /// How long a client may ask for nothing, and watch nothing.
    pub idle: Nanos,
    /// If there is no room for one more client, the one that has been without an answer or news
    /// for the longest time gives way, if that is so long.
    pub gives_way: Nanos,
    /// The same of a client that never asked for anything. Lines that are not complete do not count.
    ///
    /// One that asks at once needs a processor between connecting and writing: with a slice of 3 ms
    /// (`sysctl_sched_base_slice` on 8 processors, `kernel/sched/fair.c`), 50 ms are the turns of 16 others. And while
    /// 300 connections that ask nothing wait for 16 places, one that comes then has its place within
    /// 300 / 16 × (50 ms + 3 ms to look what came) = 1 s.
    pub asks_within: Nanos,
}

/// 16 clients, 32 KiB, 5 s, 10 min, 1 s, 50 ms.
impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 16,
            line_bytes: 32 << 10,
            timeout: Nanos::from_secs(5),
            idle: Nanos::from_secs(600),
            gives_way: Nanos::from_secs(1),
            asks_within: Nanos::from_millis(50),
        }
    }
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line, with its line feed.
    Line(Vec<u8>),
    /// News at once, and then always after so long; none from now on.
    Watch(Option<Nanos>),
    /// A line, after which the program is to end.
    Last(Vec<u8>),
}

/// The threads that answer: one for requests that take long, one for all others.
pub const THREADS: usize = 2;

/// What requests mean. Up to [`THREADS`] threads call it at once.
pub trait Protocol: Send + Sync + 'static {
    /// Whether what a line asks for takes long: it is done after all others of that kind, beside those of the other.
    fn takes_long(&self, line: &[u8]) -> bool {
        let _ = line;
        false
    }

    /// Does what a line asks for.
    fn reply(&self, line: &[u8]) -> Reply;

    /// What is told to who watches: a line.
    fn news(&self) -> Vec<u8>;

    /// The client of [`Reply::Last`] has its line, if it wanted it.
    fn end(&self);

    /// That something is wrong, as a line.
    fn error(message: String) -> Vec<u8>;
}

/// Serves a listener, for ever.
pub async fn serve<P: Protocol>(listener: impl Into<Listener>, limits: Limits, protocol: P) {
    let limit = clients::most(limits.clients);
    let turned_away = P::error(format!(
        "{limit} clients are connected, which is the limit; disconnect one of them"
    ));
    let Limits { gives_way, asks_within, .. } = limits;
    let room = Room { clients: limit, gives_way, asks_within };
    let protocol = Arc::new(protocol);
    let long = Arc::<Turn>::default();
    let converse = move |stream, client| {
        converse(stream, client, limits, Arc::clone(&protocol), Arc::clone(&long))
    };
    clients::take(listener.into(), room, converse, &turned_away).await;
}

/// Who has it does what takes long.
type Turn = tokio::sync::Mutex<()>;

async fn converse<P: Protocol>(
    stream: Stream,
    client: Client,
    limits: Limits,
    protocol: Arc<P>,
    long: Arc<Turn>,
) {
    let lines = Lines::new(limits.line_bytes);
    let mut session =
        LineSession { stream, client: client.clone(), limits, protocol, long, lines, watch: None };
    tokio::select! {
        _ = session.run() => {}
        () = client.displaced() => {
            let limit = clients::most(limits.clients);
            let message = format!("disconnected: a new client connected, and {limit} is the limit");
            session.stream.dismiss(&P::error(message)).await;
        }
    }
}

/// When news of a watch come.
#[derive(Clone, Copy)]
struct Watch {
    next: Instant<Monotonic>,
    interval: Nanos,
}

struct LineSession<P> {
    stream: Stream,
    client: Client,
    limits: Limits,
    protocol: Arc<P>,
    long: Arc<Turn>,
    lines: Lines,
    watch: Option<Watch>,
}

impl<P: Protocol> LineSession<P> {
    /// Until the connection is to end: `None`.
    async fn run(&mut self) -> Option<()> {
        let mut silent_since = clock::now::<Monotonic>();
        let mut piece = [0; 4_096];
        loop {
            let until = self.watch.map_or(silent_since + self.limits.idle, |watch| watch.next);
            let left = until.as_nanos().saturating_sub(clock::now::<Monotonic>().as_nanos());
            let read = self.stream.read(&mut piece);
            match tokio::time::timeout(Duration::from_nanos(left), read).await {
                Ok(Ok(count @ 1..)) => {
                    silent_since = clock::now();
                    self.lines.push(piece.get(..count).unwrap_or_default());
                    self.requests().await?;
                }
                Err(_) if self.watch.is_some() => {}
                Err(_) => {
                    let idle = self.limits.idle.as_secs_f64();
                    self.refuse(format!("no request came for {idle} s")).await?;
                    return None;
                }
                Ok(Ok(0)) if self.lines.has_rest() => {
                    self.refuse("the last line is not complete; end it with \\n".to_owned())
                        .await?;
                    return None;
                }
                Ok(_) => return None,
            }
            self.tick().await?;
            self.client.rests();
        }
    }

    /// Answers the requests that are there.
    async fn requests(&mut self) -> Option<()> {
        while let Some(line) = self.lines.next_line() {
            let line = match line {
                Ok(line) if line.trim_ascii().is_empty() => continue,
                Ok(line) => line.to_owned(),
                Err(TooLong) => {
                    let limit = self.limits.line_bytes;
                    let reason = "bytes, the limit for a request";
                    self.client.busy();
                    self.refuse(format!("the line is longer than {limit} {reason}")).await?;
                    continue;
                }
            };
            self.client.busy();
            let long = self.protocol.takes_long(&line).then(|| Arc::clone(&self.long));
            let _turn = match &long {
                Some(long) => Some(long.lock().await),
                None => None,
            };
            match self.ask(move |protocol| protocol.reply(&line)).await? {
                Reply::Line(line) => self.send(&line).await?,
                Reply::Watch(interval) => {
                    let next = clock::now();
                    self.watch = interval.map(|interval| Watch { next, interval });
                    self.tick().await?;
                }
                Reply::Last(line) => {
                    // First, since there may be nobody to tell it afterwards.
                    let _ = self.send(&line).await;
                    self.ask(|protocol| protocol.end()).await?;
                    return None;
                }
            }
        }
        Some(())
    }

    /// Sends the news of a watch if it is time.
    async fn tick(&mut self) -> Option<()> {
        let now = clock::now::<Monotonic>();
        let Some(watch) = self.watch.as_mut().filter(|watch| now >= watch.next) else {
            return Some(());
        };
        // Those that are missed are left out.
        let missed = (now - watch.next).as_nanos() / watch.interval.as_nanos().max(1);
        watch.next += watch.interval * (missed + 1);
        self.client.busy();
        let news = self.ask(|protocol| protocol.news()).await?;
        self.send(&news).await
    }

    /// What the program says, outside of the event loop; nothing if it panics. If there is no thread for it, the client is told.
    async fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&P) -> T + Send + 'static,
    ) -> Option<T> {
        let protocol = Arc::clone(&self.protocol);
        if let Some(asked) = begin_beside(move || question(&protocol)) {
            return asked.await.ok();
        }
        let reason = "there is no thread or no memory for an answer; raise the limits of the process (`ulimit -v`, `-u`)";
        self.refuse(reason.to_owned()).await?;
        None
    }

    async fn refuse(&mut self, message: String) -> Option<()> {
        self.send(&P::error(message)).await
    }

    async fn send(&mut self, line: &[u8]) -> Option<()> {
        let timeout = Duration::from_nanos(self.limits.timeout.as_nanos());
        tokio::time::timeout(timeout, self.stream.write_all(line)).await.ok()?.ok()
    }
}

/// Cuts what comes in pieces into lines, none longer than a limit.
#[derive(Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Up to here there is no line feed.
    searched: usize,
    /// Up to here it has been given out.
    taken: usize,
    max_len: usize,
    /// The rest of a line that was too long is passed over.
    is_skipping: bool,
}

/// A line was longer than the limit; the next line is whole again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    /// For lines of at most so many bytes, line feed apart.
    #[must_use]
    pub const fn new(max_len: usize) -> Self {
        Self { bytes: Vec::new(), searched: 0, taken: 0, max_len, is_skipping: false }
    }

    /// Takes the next piece. Keeps no more of it than the lines that are not fetched yet need:
    /// fetch them all before the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// The next whole line, without its line feed.
    pub fn next_line(&mut self) -> Option<Result<&[u8], TooLong>> {
        loop {
            let feed = self.bytes.get(self.searched..)?.iter().position(|&byte| byte == b'\n');
            let Some(feed) = feed else {
                self.searched = self.bytes.len();
                if self.is_skipping {
                    self.taken = self.searched;
                } else if self.searched - self.taken > self.max_len {
                    self.taken = self.searched;
                    self.is_skipping = true;
                    return Some(Err(TooLong));
                }
                return None;
            };
            let (start, end) = (self.taken, self.searched + feed);
            (self.taken, self.searched) = (end + 1, end + 1);
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if end - start > self.max_len {
                return Some(Err(TooLong));
            }
            return self.bytes.get(start..end).map(Ok);
        }
    }

    /// Whether a line has begun that did not end yet.
    #[must_use]
    pub const fn has_rest(&self) -> bool {
        self.is_skipping || self.bytes.len() > self.taken
    }

    /// How many bytes are held.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines in what comes in these pieces; `None` for one that is too long.
    fn cut(pieces: &[&[u8]], max_len: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(max_len);
        let mut out = Vec::new();
        for piece in pieces {
            lines.push(piece);
            while let Some(line) = lines.next_line() {
                out.push(line.ok().map(<[u8]>::to_vec));
            }
            assert!(lines.held() <= max_len + piece.len(), "{} bytes held", lines.held());
        }
        out
    }

    #[test]
    fn lines_are_cut_however_they_come() {
        let text = b"one\n\ntwo two\nfar too long a line\nx\nrest";
        let expected: Vec<Option<Vec<u8>>> = vec![
            Some(b"one".into()),
            Some(b"".into()),
            Some(b"two two".into()),
            None,
            Some(b"x".into()),
        ];
        assert_eq!(cut(&[text], 8), expected);
        for size in 1..text.len() {
            let pieces: Vec<_> = text.chunks(size).collect();
            assert_eq!(cut(&pieces, 8), expected, "pieces of {size}");
        }
        assert_eq!(cut(&[b"12345678\n123456789\n"], 8), [Some(b"12345678".to_vec()), None]);
    }
}
