//! TOML files read with positions: every finding at once, with a hint.
//!
//! Rule files, experiments and host profiles are TOML, and they are written by hand. What is wrong
//! with one is reported at once, each finding with its place, the line and what to do about it:
//!
//! ```text
//! rules.toml:14:8: error: unknown bus `can7`
//!   from = "can7"
//!          ^^^^^^
//!   hint: did you mean `can1`?
//! ```
//!
//! A [`Value`] is a piece of TOML that knows its place. A [`Section`] reads a table key by key: whatever has
//! the wrong type, is out of range, missing or unknown becomes a finding (`candor-diagnostics`), and
//! reading goes on.
//!
//! ```
//! use candor_config::Section;
//! use candor_diagnostics::{Findings, Source};
//!
//! let findings = Findings::new();
//! let source = Source::new("bus.toml", "bitrate = \"500k\"\nqueue = 70\nqueu = 7\n");
//! let table = candor_config::parse(&source, &findings).ok_or("no TOML")?;
//!
//! let mut bus = Section::new(&table, &findings);
//! let bitrate = bus.bitrate("bitrate");
//! let queue = bus.integer("queue", 1..=64_u8);
//! bus.finish();
//!
//! assert_eq!(bitrate.map(|rate| rate.bits_per_second()), Some(500_000));
//! assert_eq!(queue, None);
//! assert_eq!(
//!     findings.to_string(),
//!     "bus.toml:2:9: error: `queue` is 70, but must be 1 to 64\n\
//!      \x20 queue = 70\n\
//!      \x20         ^^\n\
//!      bus.toml:3:1: error: unknown key `queu`\n\
//!      \x20 queu = 7\n\
//!      \x20 ^^^^\n\
//!      \x20 hint: did you mean `queue`?\n"
//! );
//! # Ok::<(), &str>(())
//! ```
//!
//! Experiments lay tables over one another ([`Table::merge`]), take values from the command line
//! ([`setting`]) and keep the outcome as text ([`Table::to_toml_string`]).
//!
//! Untrusted text is bounded: [`MAX_BYTES`] per file, [`MAX_DEPTH`] levels.

mod parse;
mod section;
mod setting;
mod value;
mod write;

pub use parse::{MAX_BYTES, MAX_DEPTH, parse};
pub use section::Section;
pub use setting::setting;
pub use value::{Data, Entry, Table, Value};
pub use write::{quoted, quoted_key};
