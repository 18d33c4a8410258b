//! [`Stream`]: a connection of one kind or another.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use candor_linux::{Error, tcp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// How much more is read of a client that has its last answer, so that the answer arrives.
const MAX_REST: usize = 64 << 10;
const REST_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The same for each kind of stream.
macro_rules! each {
    ($self:expr, $stream:ident => $does:expr) => {
        match $self {
            Stream::Tcp($stream) => $does,
            Stream::Unix($stream) => $does,
        }
    };
}

impl Stream {
    pub(crate) async fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        each!(self, stream => stream.read(bytes).await)
    }

    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        each!(self, stream => stream.write_all(bytes).await)
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        each!(self, stream => stream.shutdown().await)
    }

    pub(crate) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read_ready(context))
    }

    pub(crate) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_write_ready(context))
    }

    pub(crate) fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        each!(self, stream => stream.try_read(bytes))
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => stream.try_write(bytes))
    }

    /// How much of what was written the client has not taken: of TCP, bytes that its kernel has not acknowledged; of a Unix
    /// socket, the memory of what the client has not read.
    pub(crate) fn unread(&self) -> Result<u32, Error> {
        each!(self, stream => tcp::unsent(stream))
    }

    /// Sends last words and their end, and waits a moment until the client has seen them: what it sent and nobody
    /// read would make the kernel take them back.
    pub(crate) async fn finish(mut self, last: &[u8]) {
        let sending = async {
            self.write_all(last).await?;
            self.shutdown().await
        };
        if !matches!(tokio::time::timeout(REST_TIMEOUT, sending).await, Ok(Ok(()))) {
            return;
        }
        let reading = async {
            let mut piece = [0; 2_048];
            let mut rest = 0;
            while rest < MAX_REST {
                match self.read(&mut piece).await {
                    Ok(count @ 1..) => rest += count,
                    _ => return,
                }
            }
        };
        let _ = tokio::time::timeout(REST_TIMEOUT, reading).await;
    }

    /// Sends last words as far as they go at once.
    pub(crate) async fn dismiss(mut self, last: &[u8]) {
        let _ = self.try_write(last);
        let _ = self.shutdown().await;
    }
}
