//! The notation of `cangw`, the tool of can-utils for the kernel's gateway: import and export.
//!
//! [`import`] reads what `cangw -L` prints, and scripts of `cangw -A` commands. The two differ in
//! their order: the kernel puts the newest rule first, so a listing begins with the rule that
//! fires first and a script ends with it. A text with counters (`# 7 handled 0 dropped 0 deleted`)
//! is a listing. (Hence a listing that is replayed as a script turns the order around.)
//!
//! A script is read as long as it says the same without a shell. Where it does not, such as in a loop or behind a
//! variable, there is an error with the way out: let the shell print the commands.
//!
//! [`export`] writes a script. A rule with several destinations or patterns becomes several
//! commands, which together take exactly the same frames, each once. What the kernel cannot do is
//! named and nothing is written.

mod arguments;
mod export;
mod getopt;
mod import;
mod notation;
mod shell;
mod words;

pub use self::export::export;
pub use self::import::import;
pub use self::notation::is_cangw;
pub use crate::job::Inexpressible;
