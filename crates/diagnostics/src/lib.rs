//! What is wrong with a text: every finding at once, with its place and a hint.
//!
//! Rule files, experiments and DBC files are written by people. Whatever is wrong with one is shown
//! together, each [`Finding`] with its place, the line, and what to do about it:
//!
//! ```
//! use candor_diagnostics::{Findings, Origin, Source, did_you_mean};
//!
//! let source = Source::new("rules.toml", "from = \"can7\"\n");
//! let findings = Findings::new();
//! let hint = did_you_mean("can7", ["body", "can1"]).ok_or("none is near")?;
//! let origin = Origin::new(&source, 7..13);
//! findings.error_with_hint(&origin, "unknown bus `can7`", format!("did you mean `{hint}`?"));
//! assert_eq!(
//!     findings.to_string(),
//!     "rules.toml:1:8: error: unknown bus `can7`\n\
//!      \x20 from = \"can7\"\n\
//!      \x20        ^^^^^^\n\
//!      \x20 hint: did you mean `can1`?\n"
//! );
//! # Ok::<(), &str>(())
//! ```
//!
//! [`counted`] and its neighbours put numbers into sentences: `1 frame`, `2 frames`.
//!
//! A [`Source`] is a text with its name, an [`Origin`] is a place in it. This crate knows no file format
//! and reads no file. [`MAX_FINDINGS`] bounds what is kept, however much is wrong.

mod count;
mod finding;
mod hint;
mod source;
mod visible;

pub use count::{by_count, counted, noun, part_of};
pub use finding::{Finding, Findings, MAX_FINDINGS, Severity};
pub use hint::{did_you_mean, list_of_names, meant_or, nearest};
pub use source::{Origin, Source};
pub use visible::{is_hidden, visible};
