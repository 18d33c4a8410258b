//! Addresses to connect to, and who can reach them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use candor_linux::tcp;

use crate::reactor::begin_beside;
use crate::stream::Stream;
use crate::unix::{Bound, SocketFile, SocketWatch};

/// How many connections wait to be taken. The kernel has a limit of its own (`net.core.somaxconn`).
const WAITING: i32 = 4_096;

/// Bytes that the kernel keeps for a client until that has them; it takes twice as many, as it counts its own administration too.
/// Without a bound it takes some megabytes for one that reads slowly, which then gets what is long past.
const MOST_UNDER_WAY: u32 = 64 << 10;
/// Bytes that the kernel takes before it has sent those it took earlier: what it has not taken can still give way to newer.
const MOST_UNSENT: u32 = 16 << 10;

/// How often it is looked whether the file of a socket is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Who can reach an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Programs on this machine.
    #[default]
    Loopback,
    /// Whoever reaches the address.
    Public,
}

/// Why there can be no listener. The address is known to who asked.
#[derive(Debug)]
pub enum Error {
    /// Other machines would reach this address.
    NotLoopback,
    /// The kernel refuses.
    Io(io::Error),
}

/// Takes an address; port 0 for any. Who connects waits until somebody serves. No interface need have the address yet.
///
/// # Errors
/// It is not to be reached by others but could be, or somebody has it.
pub fn tcp(address: SocketAddr, exposure: Exposure) -> Result<TcpListener, Error> {
    if exposure == Exposure::Loopback && !address.ip().to_canonical().is_loopback() {
        return Err(Error::NotLoopback);
    }
    let listener = TcpListener::bind(address).or_else(|error| match error.kind() {
        // The interface, or its address, may come later, as at power-on.
        io::ErrorKind::AddrNotAvailable => tcp::listen_early(address),
        _ => Err(error),
    });
    let listener = listener.map_err(Error::Io)?;
    // A burst that the queue has no room for is delayed by a second or more, but is not lost.
    let _ = tcp::set_backlog(&listener, WAITING);
    Ok(listener)
}

/// What clients connect to.
#[derive(Debug)]
pub enum Listener {
    /// By an address.
    Tcp(TcpListener),
    /// By a file, which is made again if it is ours and somebody deletes it.
    Unix(UnixListener, Option<SocketFile>),
}

impl Listener {
    /// What tells what happens to its file.
    #[must_use]
    pub fn watch(&self) -> Option<SocketWatch> {
        match self {
            Self::Unix(_, file) => file.as_ref().map(SocketFile::watch),
            Self::Tcp(_) => None,
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener, None)
    }
}

impl From<Bound> for Listener {
    fn from(Bound { listener, file }: Bound) -> Self {
        Self::Unix(listener, Some(file))
    }
}

/// A listener in the event loop.
pub(crate) enum Taking {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener, Option<Arc<Mutex<SocketFile>>>),
}

impl Taking {
    pub(crate) fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Self::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            Listener::Unix(listener, file) => {
                Self::Unix(in_loop(listener)?, file.map(|file| Arc::new(Mutex::new(file))))
            }
        })
    }

    pub(crate) async fn take(&mut self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // What is sent was gathered before, and is not gathered again by the kernel.
                let _ = stream.set_nodelay(true);
                let _ = tcp::set_unsent_bound(&stream, MOST_UNSENT);
                let _ = tcp::set_send_buffer(&stream, MOST_UNDER_WAY);
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener, file) => loop {
                match tokio::time::timeout(LOOK, listener.accept()).await {
                    Ok(accepted) => {
                        let (stream, _) = accepted?;
                        let _ = tcp::set_send_buffer(&stream, MOST_UNDER_WAY);
                        return Ok(Stream::Unix(stream));
                    }
                    Err(_) => {
                        let Some(file) = file.clone() else { continue };
                        let look =
                            move || file.lock().unwrap_or_else(PoisonError::into_inner).renew();
                        // Files may take their time. Without a thread it is for later.
                        let Some(looking) = begin_beside(look) else { continue };
                        let made = looking.await?;
                        if let Some(made) = made {
                            *listener = in_loop(made)?;
                        }
                    }
                }
            },
        }
    }
}

fn in_loop(listener: UnixListener) -> io::Result<tokio::net::UnixListener> {
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}
