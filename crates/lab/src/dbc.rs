//! Messages out of DBC files that are sent again and again.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use candor_diagnostics::{Findings, Severity};
use candor_signals::{Database, MAX_BYTES};
use candor_time::Nanos;
use candor_wire::frame::{fd_dlc, id_word};

use crate::error::Error;
use crate::traffic::Message;

/// What a DBC file says about traffic.
#[derive(Debug)]
pub struct DbcMessages {
    /// The messages that can be sent.
    pub messages: Vec<Message>,
    /// How many others have no cycle time.
    pub without_period: usize,
    /// How many others have a length that no frame has, or an identifier that no frame or another
    /// message has.
    pub without_frame: usize,
}

/// The messages of a DBC file that have a cycle time (`GenMsgCycleTime`, in ms).
///
/// # Errors
/// The file is unreadable, no DBC, or none of its messages can be sent.
pub fn load(path: &Path) -> Result<DbcMessages, Error> {
    let mut bytes = Vec::new();
    let most = MAX_BYTES as u64 + 1; // one more tells that the file is too large
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| Error::read(path, error))?;
    parse(&path.display().to_string(), &bytes)
}

/// The same from the contents of a file; `name` is what messages call it.
///
/// # Errors
/// It is no DBC, or none of its messages can be sent.
pub fn parse(name: &str, bytes: &[u8]) -> Result<DbcMessages, Error> {
    // What is wrong with signals does not matter here.
    let findings = Findings::new();
    let Some(database) = Database::parse(name, bytes, &findings) else {
        return Err(refused(name, &findings));
    };
    let mut messages = Vec::new();
    let (mut without_period, mut without_frame) = (0, database.left_out());
    for message in database.messages() {
        let Some(period) = message.cycle_time else {
            without_period += 1;
            continue;
        };
        if fd_dlc(message.length).is_none() {
            without_frame += 1;
            continue;
        }
        messages.push(Message {
            name: message.name.clone(),
            node: message.sender.clone().unwrap_or_default(),
            can_id: id_word(message.id),
            length: message.length,
            period,
            offset: None,
            jitter: Nanos::ZERO,
        });
    }
    if messages.is_empty() {
        return Err(Error::Other(format!(
            "{name}: no message has a cycle time; add a GenMsgCycleTime in ms to each, or list \
             messages under [[traffic.message]]"
        )));
    }
    Ok(DbcMessages { messages, without_period, without_frame })
}

/// The reason why the file cannot be used, in one sentence.
fn refused(name: &str, findings: &Findings) -> Error {
    let mut errors = findings.sorted().into_iter();
    let Some(error) = errors.find(|it| it.severity == Severity::Error) else {
        return Error::Other(format!("{name}: this is no DBC file"));
    };
    let place = match error.origin.line_column() {
        (0, _) => String::new(),
        (line, column) => format!(" (line {line}, column {column})"),
    };
    let remedy = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    Error::Other(format!("{name}: {}{place}{remedy}", error.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dbc(messages: &str, cycle_times: &str) -> String {
        format!(
            "VERSION \"\"\n\nNS_ :\n\nBS_:\n\nBU_: A B\n\n{messages}\n\
             BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 10000;\n\
             BA_DEF_DEF_ \"GenMsgCycleTime\" 0;\n{cycle_times}\n"
        )
    }

    #[test]
    fn messages_with_a_cycle_time_are_found() {
        let text = dbc(
            "BO_ 291 Speed: 8 A\n\nBO_ 2566834942 Engine: 8 B\n\nBO_ 5 Silent: 2 A\n",
            "BA_ \"GenMsgCycleTime\" BO_ 291 10;\nBA_ \"GenMsgCycleTime\" BO_ 2566834942 100;",
        );
        let found = parse("t.dbc", text.as_bytes()).unwrap();
        let messages: Vec<_> = found
            .messages
            .iter()
            .map(|m| (m.name.as_str(), m.node.as_str(), m.can_id, m.period.to_string()))
            .collect();
        assert_eq!(
            messages,
            [("Speed", "A", 0x123, "10ms".into()), ("Engine", "B", 0x98FE_CAFE, "100ms".into())]
        );
        assert_eq!((found.without_period, found.without_frame), (1, 0));
    }

    #[test]
    fn what_is_no_dbc_or_sends_nothing_is_refused() {
        for (text, reason) in [
            ("hello".to_owned(), "t.dbc: this is not a DBC file"),
            (dbc("BO_ 5 Silent: 2 A\n", ""), "t.dbc: no message has a cycle time"),
        ] {
            let error = parse("t.dbc", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
