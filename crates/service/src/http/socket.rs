//! [`Socket`]: a connection that is shared by who speaks HTTP on it and who watches over it.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clients::Client;
use crate::stream::Stream;

/// The connection to a client, as HTTP has it, and who takes it over after an upgrade.
#[derive(Debug)]
pub struct Socket {
    stream: Arc<Stream>,
    client: Client,
}

impl Socket {
    pub(crate) fn new(stream: Arc<Stream>, client: Client) -> Self {
        Self { stream, client }
    }
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
                written => return Poll::Ready(written),
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
