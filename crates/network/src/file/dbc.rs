//! Messages out of DBC files that are sent again and again.

use candor_diagnostics::{Findings, Severity};
use candor_signals::Database;
use candor_time::Nanos;
use candor_wire::can::frame::{fd_dlc, id_word};

use crate::{Message, Payload};

/// What a DBC file says about traffic.
#[derive(Debug)]
pub struct DbcMessages {
    /// The messages that can be sent, each with the name of its node.
    pub messages: Vec<(String, Message)>,
    /// The names of others, which have no cycle time.
    pub without_period: Vec<String>,
    /// The names of others, which no node sends.
    pub without_sender: Vec<String>,
    /// How many others have a length that no frame has, or an identifier that no frame or another
    /// message has.
    pub without_frame: usize,
}

impl DbcMessages {
    /// How many messages there are in all.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.messages.len()
            + self.without_period.len()
            + self.without_sender.len()
            + self.without_frame
    }
}

/// The messages of a DBC file that have a cycle time (`GenMsgCycleTime`, in ms). `name` is what the file is
/// called in the reason; `list` is the table that lists messages.
///
/// # Errors
/// It is no DBC file, or none of its messages has a cycle time: the reason.
pub fn dbc_messages(name: &str, bytes: &[u8], list: &str) -> Result<DbcMessages, String> {
    // What is wrong with signals does not matter here.
    let findings = Findings::new();
    let Some(database) = Database::parse(name, bytes, &findings) else {
        return Err(refused(name, &findings));
    };
    let mut found = DbcMessages {
        messages: Vec::new(),
        without_period: Vec::new(),
        without_sender: Vec::new(),
        without_frame: database.left_out(),
    };
    for message in database.messages() {
        let Some(period) = message.cycle_time else {
            found.without_period.push(message.name.clone());
            continue;
        };
        if fd_dlc(message.length).is_none() {
            found.without_frame += 1;
            continue;
        }
        let Some(node) = message.sender.clone() else {
            found.without_sender.push(message.name.clone());
            continue;
        };
        let message = Message {
            name: message.name.clone(),
            can_id: id_word(message.id),
            length: message.length,
            min_length: None,
            is_fd: message.is_fd,
            has_brs: true,
            period,
            offset: None,
            jitter: Nanos::ZERO,
            deadline: None,
            distances: Vec::new(),
            payload: Payload::Signals,
        };
        found.messages.push((node, message));
    }
    if found.count() == found.without_period.len() {
        return Err(format!(
            "{name}: no message has a cycle time; add a GenMsgCycleTime in ms to each, or list \
             messages under {list}"
        ));
    }
    Ok(found)
}

/// The reason why the file cannot be used, in one sentence.
fn refused(name: &str, findings: &Findings) -> String {
    let mut errors = findings.sorted().into_iter();
    let Some(error) = errors.find(|it| it.severity == Severity::Error) else {
        return format!("{name}: this is no DBC file");
    };
    let place = match error.origin.line_column() {
        (0, _) => String::new(),
        (line, column) => format!(" (line {line}, column {column})"),
    };
    let remedy = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{name}: {}{place}{remedy}", error.message)
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
        let found = dbc_messages("t.dbc", text.as_bytes(), "[[message]]").unwrap();
        let messages: Vec<_> = found
            .messages
            .iter()
            .map(|(node, m)| (m.name.as_str(), node.as_str(), m.can_id, m.period.to_string()))
            .collect();
        assert_eq!(
            messages,
            [("Speed", "A", 0x123, "10ms".into()), ("Engine", "B", 0x98FE_CAFE, "100ms".into())]
        );
        assert_eq!((found.without_period, found.without_frame), (vec!["Silent".to_owned()], 0));
    }

    #[test]
    fn what_is_no_dbc_or_sends_nothing_is_refused() {
        for (text, reason) in [
            ("hello".to_owned(), "t.dbc: this is not a DBC file"),
            (dbc("BO_ 5 Silent: 2 A\n", ""), "t.dbc: no message has a cycle time"),
        ] {
            let error = dbc_messages("t.dbc", text.as_bytes(), "[[message]]").unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
