//! A WebSocket connection: calls in, replies and events out.
//!
//! The protocol is tungstenite's, on memory: what is read from the socket goes in, what is to be written comes out. So
//! events, which have their frame headers already, are put between its frames as they are, and everything
//! leaves in one write.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use candor_events::afb::{self, Violation};
use candor_events::binary::{self, Encoding};
use candor_events::{Hub, Subscriber};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tungstenite::protocol::frame::{CloseFrame, coding::CloseCode};
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Message, Utf8Bytes};

use crate::Shared;
use crate::verbs::{Subscriptions, answer, answer_binary};

/// The longest message of a client.
const MAX_MESSAGE: usize = 64 << 10;
/// What the protocol reads at once. It has room for that, which it clears for every read.
const READ_SIZE: usize = 2 << 10;
/// The room for what is to be written that stays with a connection. More of it goes if it is no longer needed.
const KEPT: usize = 8 << 10;
/// How much is taken from the log at once.
pub(crate) const MOST_BYTES: usize = 128 << 10;

/// All connections, and what each has been given.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Arc<Counters>>>,
    last: AtomicU64,
    /// How many wait for the progress of subscribers, and what tells them.
    waiting: AtomicU64,
    progress: Condvar,
}

/// The connections, locked.
pub(crate) type Open<'a> = MutexGuard<'a, BTreeMap<u64, Arc<Counters>>>;

/// What a connection has been given.
pub(crate) struct Counters {
    format: &'static str,
    is_subscribed: AtomicBool,
    /// [`Hub::changes`] when the topics of the subscribers were counted.
    known: AtomicU64,
    topics: AtomicU64,
    delivered: AtomicU64,
    missed: AtomicU64,
    waiting: AtomicU64,
    /// [`Hub::written`] when nothing waited last.
    reached: AtomicU64,
}

impl Counters {
    /// Notes how many topics subscribers have, after that has changed.
    pub(crate) fn note_topics(&self, subscriptions: &Subscriptions, hub: &Hub) {
        let subscribers = || subscriptions.subscribers.iter().map(|(_, subscriber)| subscriber);
        let topics: usize = subscribers().map(|subscriber| subscriber.topics(hub)).sum();
        self.topics.store(topics as u64, Ordering::Relaxed);
        let is_subscribed = subscribers().any(Subscriber::is_subscribed);
        // Nothing before now is of interest to who begins.
        if is_subscribed && !self.is_subscribed.swap(is_subscribed, Ordering::Relaxed) {
            self.reached.store(hub.written(), Ordering::Relaxed);
        }
        self.is_subscribed.store(is_subscribed, Ordering::Relaxed);
    }

    /// Notes what subscribers have got by now.
    fn note(&self, subscriptions: &Subscriptions, hub: &Hub) {
        let known = hub.changes();
        if self.known.swap(known, Ordering::Relaxed) != known {
            self.note_topics(subscriptions, hub);
        }
        let (mut delivered, mut missed, mut waiting) = (0, 0, 0);
        for (_, subscriber) in &subscriptions.subscribers {
            let counts = subscriber.counts();
            delivered += counts.delivered;
            missed += counts.missed;
            waiting += subscriber.behind(hub);
        }
        self.delivered.store(delivered, Ordering::Relaxed);
        self.missed.store(missed, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
        if waiting == 0 {
            self.reached.store(hub.written(), Ordering::Relaxed);
        }
    }

    /// Its progress, if it is subscribed: [`Hub::written`] when nothing waited last, and what waits.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let progress = (get(&self.reached), get(&self.waiting));
        self.is_subscribed.load(Ordering::Relaxed).then_some(progress)
    }
}

impl Sessions {
    /// Whether there are connections of clients; those of message buses are others', and who is in this process looks itself.
    pub(crate) fn has_streams(&self) -> bool {
        self.open().values().any(|counters| !matches!(counters.format, "dbus" | "plain"))
    }

    /// Notes what the subscribers of a connection have got by now.
    pub(crate) fn note(&self, counters: &Counters, subscriptions: &Subscriptions, hub: &Hub) {
        counters.note(subscriptions, hub);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Who looks at the counters now begins to wait before it is told.
            drop(self.open());
            self.progress.notify_all();
        }
    }

    /// Waits until a connection makes progress, or for so long.
    pub(crate) fn wait<'a>(&'a self, open: Open<'a>, time: Duration) -> Open<'a> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = self.progress.wait_timeout(open, time);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A number for a connection whose events have the format of this name, and its counters.
    pub(crate) fn enter(&self, format: &'static str) -> (u64, Arc<Counters>) {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let count = AtomicU64::default;
        let counters = Arc::new(Counters {
            format,
            is_subscribed: AtomicBool::new(false),
            known: count(),
            topics: count(),
            delivered: count(),
            missed: count(),
            waiting: count(),
            reached: count(),
        });
        self.open().insert(id, Arc::clone(&counters));
        (id, counters)
    }

    pub(crate) fn open(&self) -> Open<'_> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are subscribed to something.
    pub(crate) fn stats(&self) -> Value {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let open = self.open();
        let subscribed =
            open.iter().filter(|(_, counters)| counters.is_subscribed.load(Ordering::Relaxed));
        subscribed
            .map(|(id, counters)| {
                json!({
                    "id": id,
                    "format": counters.format,
                    "topics": get(&counters.topics),
                    "delivered": get(&counters.delivered),
                    "missed": get(&counters.missed),
                    "waiting": get(&counters.waiting),
                })
            })
            .collect::<Vec<_>>()
            .into()
    }
}

/// What tungstenite reads from and writes to.
#[derive(Default)]
struct Memory {
    input: BytesMut,
    output: Vec<u8>,
}

impl Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = buffer.len().min(self.input.len());
        self.input.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Connection {
    shared: Arc<Shared>,
    protocol: WebSocketContext,
    memory: Memory,
    subscriptions: Subscriptions,
    counters: Arc<Counters>,
    /// What it speaks; `None` for AGL's protocol.
    encoding: Option<Encoding>,
    /// Something has come that the protocol has not read yet.
    has_input: bool,
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
    let (id, counters) = shared.sessions.enter(encoding.map_or("json", Encoding::name));
    let mut connection = Connection {
        shared: Arc::clone(&shared),
        protocol: WebSocketContext::new(Role::Server, Some(config)),
        memory: Memory { input: BytesMut::from(input), output: Vec::new() },
        subscriptions: Subscriptions::default(),
        counters,
        encoding,
        has_input: true,
        is_closing: false,
    };
    connection.work(socket).await;
    connection.subscriptions.leave(&mut shared.hub());
    shared.sessions.open().remove(&id);
}

impl Connection {
    /// Reads, answers and delivers until one of both ends.
    async fn work(&mut self, socket: impl AsyncRead + AsyncWrite + Unpin) {
        let (mut from_client, mut to_client) = tokio::io::split(socket);
        let mut stop = self.shared.stop.subscribe();
        let mut written = 0;
        loop {
            self.take_messages();
            let has_more = written == 0 && self.memory.output.is_empty() && self.deliver();
            if self.is_closing && self.memory.output.is_empty() {
                return;
            }
            let is_writing = !self.memory.output.is_empty();
            let is_full = self.memory.output.len() >= MOST_BYTES;
            let Memory { input, output } = &mut self.memory;
            tokio::select! {
                count = from_client.read_buf(input), if !self.is_closing && !is_full => match count {
                    Ok(0) | Err(_) => return,
                    Ok(_) => self.has_input = true,
                },
                count = to_client.write(&output[written..]), if is_writing => match count {
                    Ok(0) | Err(_) => return,
                    Ok(count) => {
                        written += count;
                        if written == output.len() {
                            output.clear();
                            // Who was behind for a while does not keep the room for that.
                            if output.capacity() / 4 > written.max(KEPT) {
                                output.shrink_to(written.max(KEPT));
                            }
                            written = 0;
                        }
                    }
                },
                _ = stop.wait_for(|is_over| *is_over), if !self.is_closing => {
                    self.close(CloseCode::Away, "the service ends");
                }
                () = self.subscriptions.due(), if !is_writing && !has_more => {}
            }
        }
    }

    /// Does what the messages say that have come.
    fn take_messages(&mut self) {
        // Who does not read the answers gets no more of them.
        while self.has_input && !self.is_closing && self.memory.output.len() < MOST_BYTES {
            match self.protocol.read(&mut self.memory) {
                Ok(Message::Text(text)) if self.encoding.is_none() => self.take_text(&text),
                Ok(Message::Binary(bytes)) if self.encoding.is_some() => self.take_binary(&bytes),
                Ok(Message::Text(_) | Message::Binary(_)) => {
                    self.violate(Violation::InvalidFrame);
                }
                Ok(Message::Close(_)) => self.is_closing = true,
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

    fn take_text(&mut self, text: &Utf8Bytes) {
        match afb::parse(text) {
            Ok(Some(call)) => {
                let reply = answer(&self.shared, &mut self.subscriptions, &call);
                self.reply(Message::text(reply));
            }
            Ok(None) => {}
            Err(violation) => self.violate(violation),
        }
    }

    fn take_binary(&mut self, bytes: &[u8]) {
        let Some(encoding) = self.encoding else { return };
        match binary::parse(encoding, bytes) {
            Ok(call) => {
                let reply = answer_binary(&self.shared, &mut self.subscriptions, encoding, &call);
                self.reply(Message::binary(reply));
            }
            Err(violation) => self.violate(violation),
        }
    }

    fn reply(&mut self, reply: Message) {
        let _ = self.protocol.write(&mut self.memory, reply);
        let _ = self.protocol.flush(&mut self.memory);
        self.counters.note_topics(&self.subscriptions, &self.shared.hub());
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

    /// Puts events behind what is to be written. True if more wait.
    fn deliver(&mut self) -> bool {
        if self.is_closing || self.subscriptions.subscribers.is_empty() {
            return false;
        }
        let hub = self.shared.hub();
        let mut has_more = false;
        for (_, subscriber) in &mut self.subscriptions.subscribers {
            let most = self.memory.output.len() + MOST_BYTES;
            has_more |= subscriber.deliver(&hub, most, &mut self.memory.output).has_more;
        }
        self.shared.sessions.note(&self.counters, &self.subscriptions, &hub);
        has_more
    }
}
