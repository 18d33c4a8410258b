//! HTTP/1.1 for a program that says what the answers are.
//!
//! A request has to come, and its answer has to be taken, within [`Limits::timeout`]. The body of an answer may take
//! as long as it wants to come; a client that takes nothing of it for [`Limits::unread`] is hung up on. What is no
//! request is refused with a reason.

mod origin;
mod socket;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use candor_time::Nanos;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::clients::{self, Client, Room};
use crate::listen::Listener;
use crate::stream::Stream;

pub use origin::{Guard, WebOrigin, check as check_origin};
pub use socket::Socket;

/// Lines of the head of a request.
const MAX_HEADERS: usize = 64;
/// The shortest limit for the head of a request.
pub const MIN_HEAD: usize = 8 << 10;

/// How much clients may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections.
    pub room: Room,
    /// Bytes of the head of a request; [`MIN_HEAD`] at least.
    pub head: usize,
    /// How long the head of a request may take to come, and an answer to be taken.
    pub timeout: Nanos,
    /// For how long a client may take nothing of what was sent to it while the body of an answer comes.
    pub unread: Nanos,
    /// Whether a connection may have several requests. If not, a client may end its half of the connection after the
    /// request.
    pub keeps_alive: bool,
}

/// Why a request has no answer of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Malformed,
    TooSlow,
    TooLong,
    TooMany,
    Version,
}

impl Refusal {
    fn of(error: &hyper::Error) -> Option<Self> {
        // hyper has no other way to tell them apart.
        let is_version = || error.to_string().starts_with("invalid HTTP version");
        match error {
            error if error.is_parse_too_large() => Some(Self::TooLong),
            error if error.is_parse() && is_version() => Some(Self::Version),
            error if error.is_parse() => Some(Self::Malformed),
            _ => None,
        }
    }

    /// The whole answer.
    const fn answer(self) -> &'static str {
        /// The end of a head, with the length of the text.
        macro_rules! answer {
            ($status:literal, $length:literal, $text:literal) => {{
                assert!($text.len() + 1 == $length);
                concat!(
                    "HTTP/1.1 ",
                    $status,
                    "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ",
                    $length,
                    "\r\nConnection: close\r\n\r\n",
                    $text,
                    "\n"
                )
            }};
        }
        match self {
            Self::Malformed => answer!("400 Bad Request", 28, "this is not an HTTP request"),
            Self::TooSlow => {
                answer!("408 Request Timeout", 36, "the request took too long to arrive")
            }
            Self::TooLong => {
                answer!("431 Request Header Fields Too Large", 24, "the request is too long")
            }
            Self::TooMany => {
                answer!("503 Service Unavailable", 32, "too many connections; try again")
            }
            Self::Version => answer!("505 HTTP Version Not Supported", 13, "use HTTP/1.1"),
        }
    }
}

/// Serves a listener, for ever. The handler runs in the event loop. While it makes an answer, something is being done for the client.
/// Handlers begin one by one: between two of them, whoever asks and however often at once, the event loop does everything else that
/// there is.
pub async fn serve<B, F>(
    listener: impl Into<Listener>,
    limits: Limits,
    handler: impl Fn(Request<Incoming>, Client) -> F + Send + Sync + 'static,
) where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
{
    let handler = Arc::new(handler);
    let turned_away = Refusal::TooMany.answer().as_bytes();
    let turns = ClientOrder::new();
    let client = move |stream, client| {
        converse(stream, client, limits, Arc::clone(&handler), Arc::clone(&turns))
    };
    clients::take(listener.into(), limits.room, client, turned_away).await;
}

/// What a client gets that sends these pieces one after the other, and then nothing: for tests.
///
/// # Errors
/// Too many files are open.
pub fn exchange<B, F>(
    pieces: &[&[u8]],
    limits: Limits,
    handler: impl Fn(Request<Incoming>, Client) -> F + Send + Sync + 'static,
) -> io::Result<Vec<u8>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (near, far) = tokio::net::UnixStream::pair()?;
        let (mut reader, mut writer) = near.into_split();
        let send = async {
            for piece in pieces {
                // It may have refused what came before.
                let _ = writer.write_all(piece).await;
                tokio::task::yield_now().await;
            }
            drop(writer);
        };
        let mut answer = Vec::new();
        let client = Client::only(limits.room);
        let serve =
            converse(Stream::Unix(far), client, limits, Arc::new(handler), ClientOrder::new());
        let ((), (), received) = tokio::join!(serve, send, reader.read_to_end(&mut answer));
        received.map(|_| answer)
    })
}

/// Who begins next.
#[derive(Debug)]
struct ClientOrder(Semaphore);

impl ClientOrder {
    fn new() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(1)))
    }

    /// Waits until all who came before have begun, and the event loop has looked at everything once since.
    async fn next(&self) {
        // It is never closed.
        let turn = self.0.acquire().await;
        yield_now().await;
        drop(turn);
    }
}

/// Answers one client.
async fn converse<B, F>(
    stream: Stream,
    client: Client,
    limits: Limits,
    handler: Arc<impl Fn(Request<Incoming>, Client) -> F + Send + Sync + 'static>,
    turns: Arc<ClientOrder>,
) where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
{
    let stream = Arc::new(stream);
    let socket = Socket::new(Arc::clone(&stream), client.clone());
    let gauge = socket.gauge();
    let service = {
        let client = client.clone();
        service_fn(move |request| {
            client.busy();
            let (client, turns) = (client.clone(), Arc::clone(&turns));
            let handler = Arc::clone(&handler);
            async move {
                turns.next().await;
                let answer = handler(request, client.clone()).await;
                Ok::<_, Infallible>(answer.map(|body| Answer { body, client }))
            }
        })
    };
    let connection = http1::Builder::new()
        .keep_alive(limits.keeps_alive)
        .half_close(!limits.keeps_alive)
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(limits.head.max(MIN_HEAD))
        .auto_date_header(false)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    let (refusal, is_hurried) = tokio::select! {
        outcome = connection => (outcome.err().as_ref().and_then(Refusal::of), false),
        () = client.displaced() => (Some(Refusal::TooSlow), true),
        () = client.overdue(limits.timeout) => (Some(Refusal::TooSlow), false),
        () = gauge.stuck(limits.unread) => (None, true),
    };
    let is_due = match refusal {
        Some(Refusal::TooSlow) => client.had_nothing(),
        _ => client.asks_nothing(),
    };
    let last = refusal.filter(|_| is_due).map_or("", Refusal::answer).as_bytes();
    // After an upgrade the connection is somebody else's.
    let Some(stream) = Arc::into_inner(stream) else { return };
    match is_hurried {
        true => stream.dismiss(last).await,
        false => stream.finish(last).await,
    }
}

/// An answer: while its body comes, something is being done for the client.
struct Answer<B> {
    body: B,
    client: Client,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.client.answered();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn everybody_else_has_a_turn_between_two_handlers() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let order = runtime.block_on(async {
            let (turns, order) = (ClientOrder::new(), Arc::new(Mutex::new(String::new())));
            let mut tasks = Vec::new();
            for _ in 0..50 {
                let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
                tasks.push(tokio::spawn(async move {
                    turns.next().await;
                    order.lock().unwrap().push('h');
                }));
            }
            let others = Arc::clone(&order);
            let other = tokio::spawn(async move {
                loop {
                    others.lock().unwrap().push('o');
                    yield_now().await;
                }
            });
            for task in tasks {
                task.await.unwrap();
            }
            other.abort();
            order.lock().unwrap().clone()
        });
        assert_eq!(order.matches('h').count(), 50, "{order}");
        // Who waits for the loop is woken in no certain order: two may follow each other, but not three.
        assert!(!order.contains("hhh"), "{order}");
    }
}
