//! A WebSocket connection: calls in, replies and events out.
//!
//! The protocol is tungstenite's, on memory: what is read from the socket goes in, what is to be written comes out. So
//! events, which have their frame headers already, are put between its frames as they are, and everything
//! leaves in one write.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BytesMut};
use candor_events::afb::{Violation, missed_event, parse};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tungstenite::protocol::frame::{CloseFrame, coding::CloseCode};
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Message, Utf8Bytes};

use crate::Shared;
use crate::framing::framing;
use crate::verbs::{Subscriptions, answer};

/// The longest message of a client.
const MAX_MESSAGE: usize = 64 << 10;
/// How much is taken from the log at once.
const MOST_BYTES: usize = 128 << 10;

/// All connections, and what each has been given.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Arc<Counters>>>,
    last: AtomicU64,
}

/// What a connection has been given.
#[derive(Default)]
struct Counters {
    topics: AtomicU64,
    delivered: AtomicU64,
    missed: AtomicU64,
    waiting: AtomicU64,
}

impl Sessions {
    fn enter(&self) -> (u64, Arc<Counters>) {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let counters = Arc::<Counters>::default();
        self.open().insert(id, Arc::clone(&counters));
        (id, counters)
    }

    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Counters>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are subscribed to something.
    pub(crate) fn stats(&self) -> Value {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let open = self.open();
        let subscribed = open.iter().filter(|(_, counters)| get(&counters.topics) > 0);
        subscribed
            .map(|(id, counters)| {
                json!({
                    "id": id,
                    "format": "json",
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
    events: Vec<u8>,
    /// A closing frame was sent or received: what is there is written, and that is the end.
    is_closing: bool,
}

/// Serves a connection whose handshake is over. `input` are bytes that came behind it.
pub(crate) async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    input: &[u8],
    shared: Arc<Shared>,
) {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(MAX_MESSAGE);
    config.max_frame_size = Some(MAX_MESSAGE);
    let (id, counters) = shared.sessions.enter();
    let mut connection = Connection {
        shared: Arc::clone(&shared),
        protocol: WebSocketContext::new(Role::Server, Some(config)),
        memory: Memory { input: BytesMut::from(input), output: Vec::new() },
        subscriptions: Subscriptions::default(),
        counters,
        events: Vec::new(),
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
        let mut changed = self.shared.changed.subscribe();
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
                    Ok(_) => {}
                },
                count = to_client.write(&output[written..]), if is_writing => match count {
                    Ok(0) | Err(_) => return,
                    Ok(count) => {
                        written += count;
                        if written == output.len() {
                            output.clear();
                            written = 0;
                        }
                    }
                },
                outcome = changed.changed(), if !is_writing && !has_more => if outcome.is_err() {
                    return;
                },
            }
        }
    }

    /// Does what the messages say that have come.
    fn take_messages(&mut self) {
        // Who does not read the answers gets no more of them.
        while !self.is_closing && self.memory.output.len() < MOST_BYTES {
            match self.protocol.read(&mut self.memory) {
                Ok(Message::Text(text)) => self.take_text(&text),
                Ok(Message::Binary(_)) => self.violate(Violation::InvalidFrame),
                Ok(Message::Close(_)) => self.is_closing = true,
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    break;
                }
                Err(_) => self.is_closing = true,
            }
        }
        // Answers of the protocol itself.
        let _ = self.protocol.flush(&mut self.memory);
    }

    fn take_text(&mut self, text: &Utf8Bytes) {
        match parse(text) {
            Ok(Some(call)) => {
                let reply = answer(&self.shared, &mut self.subscriptions, &call);
                let _ = self.protocol.write(&mut self.memory, Message::text(reply));
                let _ = self.protocol.flush(&mut self.memory);
                let topics =
                    self.subscriptions.subscribers.iter().map(|(_, it)| it.topics() as u64);
                self.counters.topics.store(topics.sum(), Ordering::Relaxed);
            }
            Ok(None) => {}
            Err(violation) => self.violate(violation),
        }
    }

    /// Ends the connection as AGL's binder does.
    fn violate(&mut self, violation: Violation) {
        let frame = CloseFrame { code: CloseCode::Policy, reason: violation.reason().into() };
        let _ = self.protocol.close(&mut self.memory, Some(frame));
        self.is_closing = true;
    }

    /// Puts events behind what is to be written. True if more wait.
    fn deliver(&mut self) -> bool {
        if self.is_closing || self.subscriptions.subscribers.is_empty() {
            return false;
        }
        let hub = self.shared.hub();
        let (mut has_more, mut delivered, mut missed, mut waiting) = (false, 0, 0, 0);
        for (_, subscriber) in &mut self.subscriptions.subscribers {
            self.events.clear();
            let delivery = subscriber.deliver(&hub, MOST_BYTES, &mut self.events);
            let counts = subscriber.counts();
            if delivery.missed > 0 {
                let event = missed_event(delivery.missed, counts.missed);
                framing(event.len(), &mut self.memory.output);
                self.memory.output.extend_from_slice(event.as_bytes());
            }
            self.memory.output.extend_from_slice(&self.events);
            has_more |= delivery.has_more;
            delivered += counts.delivered;
            missed += counts.missed;
            waiting += subscriber.behind(&hub);
        }
        drop(hub);
        self.counters.delivered.store(delivered, Ordering::Relaxed);
        self.counters.missed.store(missed, Ordering::Relaxed);
        self.counters.waiting.store(waiting, Ordering::Relaxed);
        has_more
    }
}
