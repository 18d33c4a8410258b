//! Messages out of DBC files: identifier, length, sender and cycle time. Signals come later.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use candor_time::Nanos;
use candor_wire::frame::{EFF_FLAG, EFF_MASK, SFF_MASK, fd_dlc};

use crate::error::Error;
use crate::traffic::Message;

/// The largest file that is read: twenty times the largest published ones.
const MAX_BYTES: u64 = 16 << 20;

/// What a DBC file says about traffic.
#[derive(Debug)]
pub struct DbcMessages {
    /// The messages that can be sent.
    pub messages: Vec<Message>,
    /// How many others have no cycle time.
    pub without_period: usize,
    /// How many others have a cycle time, but a length or an identifier that no frame has.
    pub without_length: usize,
}

/// Not a message: the place where editors of DBC files keep signals that belong to none.
const NO_MESSAGE: &str = "VECTOR__INDEPENDENT_SIG_MSG";

/// The messages of a DBC file that have a cycle time (`GenMsgCycleTime`, in ms).
///
/// # Errors
/// The file is unreadable, no DBC, or none of its messages can be sent.
pub fn load(path: &Path) -> Result<DbcMessages, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| Error::read(path, error))?;
    parse(&path.display().to_string(), &bytes)
}

/// The same from the contents of a file; `name` is what messages call it.
///
/// # Errors
/// It is no DBC, or none of its messages can be sent.
pub fn parse(name: &str, bytes: &[u8]) -> Result<DbcMessages, Error> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::Other(format!(
            "{name}: the file has more than {MAX_BYTES} bytes; split it, or list messages under \
             [[traffic.message]]"
        )));
    }
    // Comments of DBC files are often in the code pages of Windows: what is not UTF-8 becomes `?`.
    let text = String::from_utf8_lossy(bytes);
    let dbc = can_dbc::Dbc::try_from(text.as_ref()).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Error::Other(format!("{name}: this is no DBC file: {reason}"))
    })?;
    let mut messages = Vec::new();
    let (mut without_period, mut without_length) = (0, 0);
    for message in dbc.messages.iter().filter(|message| message.name != NO_MESSAGE) {
        let period_ms = match dbc.resolved_message_attribute(message.id, "GenMsgCycleTime") {
            Some(can_dbc::AttributeValue::Uint(ms)) => *ms,
            Some(can_dbc::AttributeValue::Int(ms)) => u64::try_from(*ms).unwrap_or(0),
            Some(can_dbc::AttributeValue::Double(ms)) if *ms > 0.0 => *ms as u64,
            _ => 0,
        };
        let length = usize::try_from(message.size).unwrap_or(usize::MAX);
        if period_ms == 0 {
            without_period += 1;
            continue;
        }
        let can_id = message.id.raw() & (EFF_FLAG | EFF_MASK);
        let is_standard = can_id & EFF_FLAG == 0;
        if fd_dlc(length).is_none() || is_standard && can_id > SFF_MASK {
            without_length += 1;
            continue;
        }
        messages.push(Message {
            name: message.name.clone(),
            node: message.transmitter.clone().unwrap_or_default(),
            can_id,
            length,
            period: Nanos::from_millis(period_ms),
            offset: None,
            jitter: Nanos::ZERO,
        });
    }
    if messages.is_empty() {
        return Err(Error::Other(format!(
            "{name}: no message has a cycle time; give each a GenMsgCycleTime in ms, or list \
             messages under [[traffic.message]]"
        )));
    }
    Ok(DbcMessages { messages, without_period, without_length })
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
        assert_eq!((found.without_period, found.without_length), (1, 0));
    }

    #[test]
    fn what_is_no_dbc_or_sends_nothing_is_refused() {
        for (text, reason) in [
            ("hello".to_owned(), "t.dbc: this is no DBC file"),
            (dbc("BO_ 5 Silent: 2 A\n", ""), "t.dbc: no message has a cycle time"),
        ] {
            let error = parse("t.dbc", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
