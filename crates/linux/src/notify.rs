//! Telling the service manager how a service is doing (`sd_notify(3)`).
//!
//! ```text
//!  systemd -- $NOTIFY_SOCKET, $WATCHDOG_USEC --> service
//!     ^                                             |
//!     +--- datagrams: READY=1, RELOADING=1 ... -----+
//! ```
//!
//! A service that was started by something else, so without `$NOTIFY_SOCKET`, says the same, and
//! nobody receives it. Sending never blocks for long: a manager that does not read must not stop a
//! gateway. That is why the crate `sd-notify` is not used: its sends block until the manager reads.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use candor_time::{Monotonic, Nanos};

use crate::clock;
use crate::{Errno, Error};

/// How long a datagram may wait for room in the manager's socket.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// What a service tells its manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// It has started, or has finished reloading.
    Ready,
    /// It reads its configuration anew; to be followed by [`State::Ready`].
    Reloading,
    /// It is about to end.
    Stopping,
    /// It is alive; to be said at least twice per [`watchdog`] period.
    Alive,
    /// One line for people, shown by `systemctl status`.
    Status(&'a str),
}

impl State<'_> {
    /// Adds the lines of the protocol.
    fn write(self, out: &mut String, now: Nanos) {
        match self {
            Self::Ready => out.push_str("READY=1\n"),
            // Type=notify-reload wants to know when the reload began.
            Self::Reloading => {
                let micros = now.as_nanos() / 1_000;
                out.push_str(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"));
            }
            Self::Stopping => out.push_str("STOPPING=1\n"),
            Self::Alive => out.push_str("WATCHDOG=1\n"),
            // A line break would begin another assignment.
            Self::Status(text) => {
                let line: String =
                    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                out.push_str(&format!("STATUS={line}\n"));
            }
        }
    }
}

/// The way to the service manager; leads nowhere if there is none.
#[derive(Debug)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
}

impl Notifier {
    /// To the manager that `$NOTIFY_SOCKET` names, to nobody if it names none.
    ///
    /// # Errors
    /// It names something that is no such socket.
    pub fn from_environment() -> Result<Self, Error> {
        match env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) {
            Some(name) => Self::to(&name),
            None => Ok(Self::to_nobody()),
        }
    }

    #[must_use]
    pub const fn to_nobody() -> Self {
        Self { socket: None }
    }

    /// To a socket: a path, or a name in the abstract namespace behind `@`.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn to(name: &OsStr) -> Result<Self, Error> {
        let fail = |error: std::io::Error| {
            let (attempt, subject) = ("notify the service manager at", name.to_string_lossy());
            let error = match error.raw_os_error() {
                Some(number) => Error::new(attempt, subject, Errno(number)),
                None => Error::other(attempt, subject, error.to_string()),
            };
            error.with_remedy("unset NOTIFY_SOCKET if the program is not run as a service")
        };
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
            [b'/', ..] => SocketAddr::from_pathname(name),
            _ => Err(std::io::Error::other("the name must begin with / or @")),
        };
        let connect = |address: &SocketAddr| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(address)?;
            socket.set_write_timeout(Some(SEND_TIMEOUT))?;
            Ok(socket)
        };
        let socket = address.and_then(|address| connect(&address)).map_err(fail)?;
        Ok(Self { socket: Some(socket) })
    }

    /// Whether there is a manager.
    #[must_use]
    pub const fn has_manager(&self) -> bool {
        self.socket.is_some()
    }

    /// Tells all of it at once.
    ///
    /// # Errors
    /// The manager went away, or did not listen for 100 ms.
    pub fn tell(&self, states: &[State<'_>]) -> Result<(), Error> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let now = clock::now::<Monotonic>().as_nanos();
        let mut text = String::new();
        for state in states {
            state.write(&mut text, Nanos::from_nanos(now));
        }
        socket.send(text.as_bytes()).map(drop).map_err(|error| {
            let errno = Errno(error.raw_os_error().unwrap_or(libc::EIO));
            Error::new("tell", "the service manager", errno)
        })
    }
}

/// How often the manager wants to receive [`State::Alive`], at the latest, by `$WATCHDOG_USEC` and
/// `$WATCHDOG_PID`; `None` if it does not watch this process. Tell it twice as often.
#[must_use]
pub fn watchdog() -> Option<Nanos> {
    watchdog_by(|name| env::var_os(name), std::process::id())
}

fn watchdog_by(variable: impl Fn(&str) -> Option<OsString>, own: u32) -> Option<Nanos> {
    let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
    let period = variable("WATCHDOG_USEC").and_then(number).filter(|&micros| micros > 0)?;
    let is_meant = match variable("WATCHDOG_PID") {
        Some(process) => number(process) == Some(u64::from(own)),
        None => true,
    };
    is_meant.then(|| Nanos::from_nanos(period.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 4096];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    /// A manager with an abstract name of its own, and the name.
    fn manager(test: &str) -> (UnixDatagram, OsString) {
        let name = format!("candor-test-{}-{test}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (socket, format!("@{name}").into())
    }

    #[test]
    fn states_are_reported_in_the_words_of_the_protocol() {
        let cases: [(&[State<'_>], &str); 5] = [
            (&[State::Ready, State::Status("4 rules")], "READY=1\nSTATUS=4 rules\n"),
            (&[State::Reloading], "RELOADING=1\nMONOTONIC_USEC=1500000\n"),
            (&[State::Stopping], "STOPPING=1\n"),
            (&[State::Alive], "WATCHDOG=1\n"),
            (&[State::Status("a\nREADY=1\u{7}")], "STATUS=a READY=1 \n"),
        ];
        for (states, expected) in cases {
            let mut out = String::new();
            for state in states {
                state.write(&mut out, Nanos::from_millis(1_500));
            }
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn an_abstract_name_is_reached() {
        let (manager, name) = manager("abstract");
        let notifier = Notifier::to(&name).unwrap();
        assert!(notifier.has_manager());
        notifier.tell(&[State::Ready, State::Alive]).unwrap();
        assert_eq!(received(&manager), "READY=1\nWATCHDOG=1\n");
        let before = clock::now::<Monotonic>().as_nanos() / 1_000;
        notifier.tell(&[State::Reloading]).unwrap();
        let reported = received(&manager);
        let micros = reported.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().trim_end();
        let after = clock::now::<Monotonic>().as_nanos() / 1_000;
        assert!((before..=after).contains(&micros.parse().unwrap()), "{reported}");
        drop(manager);
        assert!(notifier.tell(&[State::Ready]).unwrap_err().is(libc::ECONNREFUSED));
    }

    #[test]
    fn a_path_is_reached() {
        let file = format!("candor-test-notify-{}", std::process::id());
        let path = env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        Notifier::to(path.as_os_str()).unwrap().tell(&[State::Stopping]).unwrap();
        assert_eq!(received(&manager), "STOPPING=1\n");
        std::fs::remove_file(&path).unwrap();
        let error = Notifier::to(path.as_os_str()).unwrap_err();
        assert!(error.is(libc::ENOENT) && error.remedy().is_some(), "{error}");
    }

    #[test]
    fn a_manager_that_does_not_listen_stops_nobody() {
        let (_manager, name) = manager("deaf");
        let notifier = Notifier::to(&name).unwrap();
        // The kernel holds some datagrams, then there is no room.
        let errors = (0..100_000).map(|_| notifier.tell(&[State::Alive]));
        let error = errors.filter_map(Result::err).next().expect("there is a bound");
        assert!(error.is(libc::EAGAIN), "{error}");
    }

    #[test]
    fn without_a_manager_nothing_is_sent() {
        let notifier = Notifier::to_nobody();
        assert!(!notifier.has_manager());
        notifier.tell(&[State::Ready]).unwrap();
        for name in ["vsock:2:1234", "relative"] {
            let error = Notifier::to(OsStr::new(name)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("must begin with / or @"), "{error}");
        }
    }

    #[test]
    fn the_watchdog_is_for_one_process() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, Option<u64>); 7] = [
            (&[], None),
            (&[("WATCHDOG_PID", "7")], None),
            (&[("WATCHDOG_USEC", "3000000")], Some(3_000)),
            (&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "7")], Some(3_000)),
            (&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "8")], None),
            (&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "x")], None),
            (&[("WATCHDOG_USEC", "0")], None),
        ];
        for (variables, millis) in cases {
            let variable = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            };
            assert_eq!(watchdog_by(variable, 7), millis.map(Nanos::from_millis), "{variables:?}");
        }
    }
}
