//! [`Socket`]: a connection that is shared by who speaks HTTP on it and who watches over it.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use candor_time::Nanos;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clients::Client;
use crate::stream::Stream;

/// The connection to a client, as HTTP has it, and who takes it over after an upgrade.
#[derive(Debug)]
pub struct Socket {
    stream: Arc<Stream>,
    client: Client,
    written: Arc<AtomicU64>,
}

impl Socket {
    pub(crate) fn new(stream: Arc<Stream>, client: Client) -> Self {
        Self { stream, client, written: Arc::default() }
    }

    /// What watches whether the client reads.
    pub(crate) fn gauge(&self) -> Gauge {
        Gauge { stream: Arc::clone(&self.stream), written: Arc::clone(&self.written) }
    }
}

/// Whether a client takes what is written to it.
pub(crate) struct Gauge {
    stream: Arc<Stream>,
    written: Arc<AtomicU64>,
}

/// How often in the time that a client has is looked whether it reads.
const LOOKS: u32 = 16;

impl Gauge {
    /// Waits until there was something to be read for so long, and the client took nothing of it.
    pub(crate) async fn stuck(self, timeout: Nanos) {
        let pause = Duration::from_nanos(timeout.as_nanos()) / LOOKS;
        let mut before = (0, 0);
        let mut looks = 0;
        // Counted instead of measured: who stops this process stops no client.
        while looks < LOOKS {
            tokio::time::sleep(pause).await;
            let unread = self.stream.unread().map_or(0, u64::from);
            let now = (self.written.load(Ordering::Relaxed), unread);
            looks = if takes(before, now) { 0 } else { looks + 1 };
            before = now;
        }
    }
}

/// Whether a client took something between two looks, each with what was written in all and what was unread; or had nothing
/// to take. What is written adds its bytes at least.
const fn takes(before: (u64, u64), now: (u64, u64)) -> bool {
    now.1 == 0 || now.1 < before.1 + (now.0 - before.0)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let free = buffer.initialize_unfilled();
            match self.stream.try_read(free) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.client.asks_nothing() {
            // What hyper says of its own accord about a bad request has no reason in it: ours follows.
            return Poll::Ready(Ok(bytes.len()));
        }
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => {
                    let count = written.as_ref().map_or(0, |&count| count as u64);
                    self.written.fetch_add(count, Ordering::Relaxed);
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.client.sent();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Who watches over the connection does this, after the last words; else, dropping it does.
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_what_is_less_than_was_written() {
        for (before, now, expected) in [
            // Nothing was written, or all was read.
            ((0, 0), (0, 0), true),
            ((0, 0), (500, 0), true),
            // Written and not read; with the memory around it.
            ((0, 0), (500, 500), false),
            ((0, 0), (500, 768), false),
            ((500, 500), (500, 500), false),
            ((500, 500), (900, 900), false),
            // Some of it was read.
            ((500, 500), (500, 499), true),
            ((500, 500), (900, 899), true),
        ] {
            assert_eq!(takes(before, now), expected, "{before:?} {now:?}");
        }
    }
}
