//! A WebSocket connection: calls in, replies and events out.
//!
//! The protocol is tungstenite's, on memory: what is read from the socket goes in, what is to be written comes out. So
//! events, which have their frame headers already, are put between its frames as they are, and everything
//! leaves in one write.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use candor_events::afb::{self, Violation};
use candor_events::binary::{self, Encoding};
use candor_linux::clock;
use candor_time::{Instant, Monotonic, Nanos};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::yield_now;
use tokio::time::sleep;
use tungstenite::protocol::frame::{CloseFrame, coding::CloseCode};
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Message, Utf8Bytes};

use crate::Shared;
use crate::framing::Framed;
use crate::session::Session;
use crate::verbs::{answer, answer_binary};

/// The longest message of a client.
const MAX_MESSAGE: usize = 64 << 10;
/// What the protocol reads at once. It has room for that, which it clears for every read.
const READ_SIZE: usize = 2 << 10;
/// The room for what is to be written that stays with a connection. More of it goes if it is no longer needed.
const KEPT: usize = 8 << 10;
/// Who wants newest events alone gets no more of them while so much of what was sent is unread. At 400 kB/s that takes 0.16 s.
const MOST_UNREAD: u64 = 64 << 10;
/// A ping goes behind so much.
const ASK_AFTER: u64 = MOST_UNREAD / 4;
/// How much is taken from the log at once.
pub(crate) const MOST_BYTES: usize = 128 << 10;

/// What tungstenite reads from and writes to.
#[derive(Default)]
struct SocketBuffers {
    input: BytesMut,
    output: Vec<u8>,
    /// How much of the output is written to the socket.
    written: usize,
}

impl Read for SocketBuffers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = buffer.len().min(self.input.len());
        self.input.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

impl Write for SocketBuffers {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a client that is silent is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chance {
    /// More time.
    Time,
    /// A ping to answer.
    Ping,
    /// Nothing: it is gone.
    None,
}

/// For how long no whole message came from a client.
#[derive(Debug)]
struct Silence {
    limit: Nanos,
    since: Instant<Monotonic>,
    /// When it was sent a ping, and whether what had come by the end was looked at.
    asked: Option<Instant<Monotonic>>,
    has_looked: bool,
}

/// How long the event loop gets to look at what has come: its shortest time.
const LOOK: Nanos = Nanos::from_millis(1);

impl Silence {
    fn new(limit: Nanos) -> Self {
        Self { limit, since: clock::now(), asked: None, has_looked: false }
    }

    /// A message came, or something was read that it was behind with.
    fn end(&mut self) {
        *self = Self::new(self.limit);
    }

    /// When to decide.
    fn due(&self) -> Instant<Monotonic> {
        let half = Nanos::from_nanos(self.limit.as_nanos() / 2);
        match (self.asked, self.has_looked) {
            (None, _) => self.since + half,
            (Some(asked), false) => asked + half,
            (Some(asked), true) => asked + half + LOOK,
        }
    }

    /// How long that is.
    fn left(&self) -> Duration {
        let (due, now) = (self.due().as_nanos(), clock::now::<Monotonic>().as_nanos());
        Duration::from_nanos(due.saturating_sub(now))
    }

    fn decide(&mut self, now: Instant<Monotonic>) -> Chance {
        if now < self.due() {
            return Chance::Time;
        }
        match (self.asked, self.has_looked) {
            (None, _) => {
                self.asked = Some(now);
                Chance::Ping
            }
            // After this process was stopped for a while, an answer may be there.
            (Some(_), false) => {
                self.has_looked = true;
                Chance::Time
            }
            (Some(_), true) => Chance::None,
        }
    }
}

/// When a connection looks for events again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Due,
    /// When everybody else had a turn: it is still looking at what came up.
    Soon,
    /// When all is written, or something has come.
    Later,
}

/// How much of what was sent the program at the other end has read, by its pongs: what its kernel acknowledges it may not have
/// read for long, and the buffer there may grow to megabytes.
#[derive(Debug, Default)]
struct ReadProgress {
    /// Bytes that were written to the socket.
    written: u64,
    /// Those before the last ping that was answered.
    read: u64,
    /// Those before the last ping, while it is not answered.
    asked: Option<u64>,
}

impl ReadProgress {
    /// A pong has come.
    fn confirm(&mut self, pong: &[u8]) {
        let Ok(count) = pong.try_into().map(u64::from_be_bytes) else { return };
        if self.asked == Some(count) {
            self.asked = None;
        }
        if count <= self.written {
            self.read = self.read.max(count);
        }
    }

    const fn unread(&self) -> u64 {
        self.written - self.read
    }
}

struct Connection {
    protocol: WebSocketContext,
    memory: SocketBuffers,
    session: Session,
    reading: ReadProgress,
    /// What it speaks; `None` for AGL's protocol.
    encoding: Option<Encoding>,
    /// Something has come that the protocol has not read yet.
    has_input: bool,
    /// A whole message has come since that was looked at last. Who sends a byte of one now and then is silent.
    is_heard: bool,
    /// A closing frame was sent or received: what is there is written, and that is the end.
    is_closing: bool,
}

/// Serves a connection whose handshake is over. `input` are bytes that came behind it.
pub(crate) async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    input: &[u8],
    encoding: Option<Encoding>,
    shared: Arc<Shared>,
) {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(MAX_MESSAGE);
    config.max_frame_size = Some(MAX_MESSAGE);
    config.read_buffer_size = READ_SIZE;
    let mut connection = Connection {
        protocol: WebSocketContext::new(Role::Server, Some(config)),
        memory: SocketBuffers { input: BytesMut::from(input), ..SocketBuffers::default() },
        session: Session::enter(&shared, encoding.map_or("json", Encoding::name)),
        reading: ReadProgress::default(),
        encoding,
        has_input: true,
        is_heard: false,
        is_closing: false,
    };
    connection.work(socket).await;
}

impl Connection {
    /// Reads, answers and delivers until one of both ends.
    async fn work(&mut self, socket: impl AsyncRead + AsyncWrite + Unpin) {
        let (mut from_client, mut to_client) = tokio::io::split(socket);
        let mut stop = self.session.shared().stop.subscribe();
        let limit = self.session.shared().client_timeouts.websocket_silence;
        let mut silence = Silence::new(limit);
        let mut alarm = pin!(sleep(silence.left()));
        let mut is_behind = false;
        loop {
            self.take_messages().await;
            if std::mem::take(&mut self.is_heard) {
                silence.end();
            }
            let mut next = Next::Later;
            if self.memory.output.is_empty() {
                next = self.deliver();
            }
            if self.is_closing && self.memory.output.is_empty() {
                return;
            }
            let is_writing = !self.memory.output.is_empty();
            let is_full = self.memory.output.len() >= MOST_BYTES;
            let SocketBuffers { input, output, written } = &mut self.memory;
            tokio::select! {
                count = from_client.read_buf(input), if !self.is_closing && !is_full => match count {
                    Ok(0) | Err(_) => return,
                    Ok(_) => self.has_input = true,
                },
                count = poll_fn(|context| {
                    let outcome = Pin::new(&mut to_client).poll_write(context, &output[*written..]);
                    is_behind |= outcome.is_pending();
                    outcome
                }), if is_writing => match count {
                    Ok(0) | Err(_) => return,
                    Ok(count) => {
                        // The answer to a ping may be far behind what it reads now.
                        if std::mem::take(&mut is_behind) {
                            silence.end();
                        }
                        *written += count;
                        self.reading.written += count as u64;
                        if *written == output.len() {
                            output.clear();
                            // Who was behind for a while does not keep the room for that.
                            if output.capacity() / 4 > (*written).max(KEPT) {
                                output.shrink_to((*written).max(KEPT));
                            }
                            *written = 0;
                        }
                    }
                },
                _ = stop.wait_for(|is_over| *is_over), if !self.is_closing => {
                    self.close(CloseCode::Away, "the service ends");
                }
                () = self.session.due(), if !is_writing && next == Next::Due => {}
                () = yield_now(), if next == Next::Soon => {}
                () = alarm.as_mut() => {
                    match silence.decide(clock::now()) {
                        Chance::Time => {}
                        Chance::Ping => {
                            let left = self.memory.output.len() - self.memory.written;
                            self.ping(self.reading.written + left as u64);
                        }
                        Chance::None => break,
                    }
                    alarm.set(sleep(silence.left()));
                }
            }
        }
        self.leave(&mut to_client).await;
    }

    /// Does what the messages say that have come.
    async fn take_messages(&mut self) {
        // Who does not read the answers gets no more of them.
        while self.has_input && !self.is_closing && self.memory.output.len() < MOST_BYTES {
            let read = self.protocol.read(&mut self.memory);
            self.is_heard |= read.is_ok();
            match read {
                Ok(Message::Text(text)) if self.encoding.is_none() => {
                    self.take_text(&text).await;
                    // Others have their turn, too.
                    yield_now().await;
                }
                Ok(Message::Binary(bytes)) if self.encoding.is_some() => {
                    self.take_binary(&bytes).await;
                    yield_now().await;
                }
                Ok(Message::Text(_) | Message::Binary(_)) => {
                    self.violate(Violation::InvalidFrame);
                }
                Ok(Message::Close(_)) => self.is_closing = true,
                Ok(Message::Pong(pong)) => self.reading.confirm(&pong),
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.has_input = false;
                }
                Err(_) => self.is_closing = true,
            }
        }
        // Answers of the protocol itself.
        let _ = self.protocol.flush(&mut self.memory);
    }

    async fn take_text(&mut self, text: &Utf8Bytes) {
        match afb::parse(text) {
            Ok(Some(call)) => {
                let reply = answer(&self.session, call).await;
                self.reply(reply);
            }
            Ok(None) => {}
            Err(violation) => self.violate(violation),
        }
    }

    async fn take_binary(&mut self, bytes: &[u8]) {
        let Some(encoding) = self.encoding else { return };
        match binary::parse(encoding, bytes) {
            Ok(call) => {
                let reply = answer_binary(&self.session, encoding, call).await;
                self.reply(reply);
            }
            Err(violation) => self.violate(violation),
        }
    }

    /// Answers a call, or ends with the service. Not by the protocol: it would keep room for the longest answer.
    fn reply(&mut self, reply: Option<Framed>) {
        let Some(Framed { bytes, start }) = reply else {
            self.is_closing = true;
            return;
        };
        let SocketBuffers { output, written, .. } = &mut self.memory;
        // To copy a long one takes some milliseconds.
        if output.is_empty() {
            (*output, *written) = (bytes, start);
        } else {
            let frame = bytes.get(start..).unwrap_or_default();
            output.reserve_exact(frame.len());
            output.extend_from_slice(frame);
        }
    }

    /// Asks whether it is there. It says how much was sent before, so the answer says that this was read.
    fn ping(&mut self, sent: u64) {
        self.reading.asked = Some(sent);
        let ping = Message::Ping(Bytes::copy_from_slice(&sent.to_be_bytes()));
        let _ = self.protocol.write(&mut self.memory, ping);
        let _ = self.protocol.flush(&mut self.memory);
    }

    /// Ends the connection as AGL's binder does.
    fn violate(&mut self, violation: Violation) {
        self.close(CloseCode::Policy, violation.reason());
    }

    fn close(&mut self, code: CloseCode, reason: &'static str) {
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = self.protocol.close(&mut self.memory, Some(frame));
        self.is_closing = true;
    }

    /// Ends the connection to a client that is gone, or sees this when it goes on.
    async fn leave(&mut self, to_client: &mut (impl AsyncWrite + Unpin)) {
        if self.memory.output.is_empty() {
            self.close(CloseCode::Policy, "no answer to a ping");
            let output = &self.memory.output;
            poll_fn(|context| {
                let _ = Pin::new(&mut *to_client).poll_write(context, output);
                Poll::Ready(())
            })
            .await;
        }
    }

    /// Puts events behind what is to be written, of which there is nothing.
    fn deliver(&mut self) -> Next {
        if self.is_closing {
            return Next::Later;
        }
        let hub = self.session.shared().hub();
        let mut subscriptions = self.session.subscriptions();
        let is_latest = subscriptions.are_latest();
        let mut next = Next::Due;
        if is_latest && self.reading.unread() >= MOST_UNREAD {
            next = Next::Later;
        } else {
            for subscriber in subscriptions.all() {
                let most = self.memory.output.len() + MOST_BYTES;
                if subscriber.deliver(&hub, most, &mut self.memory.output).has_more {
                    next = Next::Later;
                }
            }
            if next == Next::Later && self.memory.output.is_empty() {
                next = Next::Soon;
            }
            self.session.note(&subscriptions, &hub);
        }
        drop((subscriptions, hub));
        let sent = self.reading.written + self.memory.output.len() as u64;
        if is_latest && self.reading.asked.is_none() && sent - self.reading.read >= ASK_AFTER {
            self.ping(sent);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_gets_a_ping_and_then_half_of_the_time_to_answer() {
        let mut silence = Silence::new(Nanos::from_secs(20));
        let since = silence.since;
        let at = |ms: u64| since + Nanos::from_millis(ms);
        for (ms, expected) in [
            (9_999, Chance::Time),
            (10_000, Chance::Ping),
            (19_999, Chance::Time),
            // What has come is looked at first.
            (20_000, Chance::Time),
            (20_001, Chance::None),
        ] {
            assert_eq!(silence.decide(at(ms)), expected, "{ms} ms");
        }
        // This process was stopped: no client is gone for that.
        let mut silence = Silence { since, ..Silence::new(silence.limit) };
        assert_eq!(silence.decide(at(100_000)), Chance::Ping);
        assert_eq!(silence.decide(at(109_999)), Chance::Time);
        assert_eq!(silence.decide(at(110_000)), Chance::Time);
        silence.end();
        assert_eq!(silence.asked, None);
    }
}
