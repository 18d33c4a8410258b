//! The control socket: a Unix stream socket with one JSON object per line in each direction
//! (JSON Lines, UTF-8). Anything that can write a line can ask:
//!
//! ```text
//! $ echo '{"command":"stats"}' | socat - UNIX-CONNECT:/run/candor/drive.sock
//! {"type":"snapshot","file":"/etc/candor/drive.rules.toml","pid":812,...}
//! ```
//!
//! This is version 1 of the protocol ([`PROTOCOL`]). Within a version fields may be added to answers:
//! who reads them passes over what it does not know.
//!
//! # Requests
//!
//! | `command` | further fields | answer |
//! |---|---|---|
//! | `stats` | | `snapshot` |
//! | `watch` | `interval_ms`: 10 to 3,600,000; 1,000 if it is left out; 0 ends it | `snapshot`, at once and then always after so long; none if it is 0 |
//! | `load` | `file`: an absolute path; the same file again if it is left out | `loaded`, or `error` with findings: then the old rules stay |
//! | `plan` | | `plan` |
//! | `version` | | `version` |
//! | `stop` | | `stopping`, then the connection ends |
//!
//! Answers come in the order of the requests. Snapshots of a watch come between them; one that is
//! late does not make the next one late. Empty lines are passed over.
//!
//! # Answers
//!
//! | `type` | fields |
//! |---|---|
//! | `snapshot` | those of [`Snapshot`], each with the name it has there |
//! | `loaded` | `generation`: how often the rules were changed since the start; `rules`: how many there are; `took_us`: how long it took to read, check and swap them |
//! | `plan` | `lines`: of every rule and destination `rule`, `from`, `to`, `plane` (`user` or `kernel`) and `reason` (why not in the kernel, or null) |
//! | `version` | `protocol`: 1; `candor`: version of the program; `pid`; `file`: the rule file |
//! | `stopping` | |
//! | `error` | `message`: one sentence; `findings`: of a rule file that was refused, else empty |
//!
//! A finding has `severity` (`error` or `warning`), `file`, `line` and `column` (from 1; 0 if it has no
//! place), `message`, `hint` (or null), and `text`: all of it as people read it, with the line and a
//! mark below.
//!
//! # Limits
//!
//! See [`Limits`]. A line that is too long, or is no request, is answered with an `error`, and the
//! next line is read as if nothing had been. A client that does not take an answer in time is
//! disconnected; so is one that watches nothing and asks nothing for a long time. If there are as many
//! clients as there may be, a new one takes the place of the one that has been without an answer or a
//! snapshot for the longest time, if that is a second or more; if it is not, the new one gets an answer and
//! disconnected. So clients that only hold connections never keep others out. All clients share an event loop, and a thread for what takes time: none of them can hold up
//! the gateway.
//!
//! # Who may
//!
//! Whoever may write to the socket file: its owner, or with [`Access::Group`] its group as well. That
//! is much: who may load a rule file may also read one with the rights of the gateway. Where the
//! socket is, [`place`] says.

mod client;
pub mod overview;
pub mod place;
pub mod protocol;
pub mod rates;
mod server;

use std::path::Path;

pub use candor_daemon::lines::Limits;
pub use candor_daemon::unix::{Access, Error as BindError, Reason, SocketWatch};
pub use client::{Client, ClientError};
pub use protocol::{Answer, FindingLine, Loaded, PROTOCOL, PlanLine, Rejected, Request, Version};
pub use server::{Listening, Server};

use crate::Snapshot;

/// Who does what clients ask for: the supervisor of the gateway, or something that passes it on to
/// the supervisor. Several threads call it at once: a load that takes time holds up no other client.
pub trait Handler: Send + Sync {
    /// The rule file that the gateway was started with.
    fn file(&self) -> String;

    /// What the gateway tells about itself now.
    fn snapshot(&self) -> Snapshot;

    /// Reads the rules again, or those of another file, and swaps them if they are right.
    ///
    /// # Errors
    /// They are not; those in use stay.
    fn load(&self, file: Option<&Path>) -> Result<Loaded, Rejected>;

    /// Which rule is done where.
    fn plan(&self) -> Vec<PlanLine>;

    /// Begins to end the gateway; the client has its answer already. Does not wait for the end.
    fn stop(&self);
}
