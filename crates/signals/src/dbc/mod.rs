//! DBC files: their statements become messages, and what makes no sense a finding.
//!
//! ```text
//!  text -- cut --> statement -- token, grammar --> part -- messages: BO_, SG_ ------+--> Reader
//!                                                     \---- attributes: BA_, VAL_ ... --+      |
//!                                                                                             v
//!                                            messages that can be decoded <-- multiplex -- drafts
//! ```

mod attributes;
mod cut;
mod grammar;
mod messages;
mod multiplex;
mod reader;
mod statement;
mod token;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use candor_diagnostics::{Findings, Origin, Source};

use self::cut::{Statement, statements, text};
use self::reader::Reader;
use crate::Database;

pub use self::messages::{MAX_MESSAGES, MAX_SIGNALS};

/// The largest file that is read, in bytes: twenty times the largest published ones.
pub const MAX_BYTES: usize = 16 << 20;

/// Statements about messages and signals, which may stand before these.
const LATE: [&str; 4] = ["BA_", "VAL_", "SIG_VALTYPE_", "SG_MUL_VAL_"];

impl Database {
    /// Reads a DBC file. What is wrong with it is added to `findings`; `None` if it cannot be used.
    #[must_use]
    pub fn load(path: &Path, findings: &Findings) -> Option<Self> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let most = MAX_BYTES as u64 + 1; // one more tells that the file is too large
        match File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
            Ok(_) => Self::parse(&name, &bytes, findings),
            Err(error) => {
                findings.error_with_hint(
                    &Origin::whole(&Source::argument(name)),
                    format!("the file cannot be read: {error}"),
                    match error.kind() {
                        ErrorKind::OutOfMemory => {
                            "the process needs more: raise its limit (`ulimit -v`)"
                        }
                        _ => "check the name of the file and its permissions",
                    },
                );
                None
            }
        }
    }

    /// The same from the contents of a file that messages call `name`.
    #[must_use]
    pub fn parse(name: &str, bytes: &[u8], findings: &Findings) -> Option<Self> {
        if bytes.len() > MAX_BYTES {
            findings.error_with_hint(
                &Origin::whole(&Source::argument(name)),
                format!("the file has more than {MAX_BYTES} bytes"),
                "split it, or remove what is not needed",
            );
            return None;
        }
        let source = Source::new(name, text(bytes));
        let mut reader = Reader::new(&source, findings);
        let is_late = |statement: &&Statement<'_>| LATE.contains(&statement.keyword());
        let statements = statements(source.text());
        let early = statements.iter().filter(|statement| !is_late(statement));
        let late = statements.iter().filter(is_late);
        let mut is_usable = true;
        for statement in early.chain(late) {
            if findings.is_full() && !is_usable {
                break;
            }
            is_usable &= reader.read(statement);
        }
        let left_out = reader.left_out;
        let messages = reader.finish();
        if is_usable && messages.is_empty() {
            let hint = "is it the right file? Messages begin with `BO_`";
            findings.warning(&Origin::whole(&source), "the file describes no message", hint);
        }
        is_usable.then(|| Self::new(name.to_owned(), messages, left_out))
    }
}

#[cfg(test)]
mod tests;
