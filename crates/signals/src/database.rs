//! [`Database`]: the messages of a DBC file, by identifier and by name.

use std::collections::{HashMap, HashSet};

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, id_word};
use candor_wire::can::{Frame, Id, Kind};

use crate::{Decoded, Message, NotFound, Signal};

/// The messages of a DBC file.
#[derive(Clone, Debug)]
pub struct Database {
    name: String,
    messages: Vec<Message>,
    left_out: usize,
    by_name: HashMap<String, usize>,
    /// For each standard identifier the index of its message, or [`NONE`].
    standard: Box<[u32]>,
    /// SocketCAN's identifier words of extended identifiers and the messages, in order.
    extended: Vec<(u32, u32)>,
    /// The groups of J1939 and the messages, in order.
    groups: Vec<(u32, u32)>,
}

const NONE: u32 = u32::MAX;

/// What tells the group (PGN) of an identifier of J1939: page and format; also the lower byte, if it
/// is not the address of a receiver. Neither priority nor source address.
const fn group(can_id: u32) -> u32 {
    let has_receiver = can_id >> 16 & 0xFF < 240;
    can_id & if has_receiver { 0x03FF_0000 } else { 0x03FF_FF00 }
}

/// The value next to `key` in a list in the order of keys.
fn find(list: &[(u32, u32)], key: u32) -> Option<u32> {
    let index = list.binary_search_by_key(&key, |&(key, _)| key).ok()?;
    list.get(index).map(|&(_, value)| value)
}

impl Database {
    pub(crate) fn new(name: String, messages: Vec<Message>, left_out: usize) -> Self {
        let mut standard = vec![NONE; 1 << 11].into_boxed_slice();
        let (mut extended, mut groups) = (Vec::new(), Vec::new());
        let mut by_name = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            by_name.entry(message.name.clone()).or_insert(index);
            let word = id_word(message.id);
            match message.id {
                Id::Standard(id) => {
                    if let Some(slot) = standard.get_mut(usize::from(id.as_raw())) {
                        *slot = index as u32;
                    }
                }
                Id::Extended(_) => extended.push((word & EFF_MASK, index as u32)),
            }
            if message.is_j1939 && word & EFF_FLAG != 0 {
                groups.push((group(word), index as u32));
            }
        }
        extended.sort_unstable();
        groups.sort_unstable();
        // Of several messages of a group, the first is recognised by the group.
        groups.dedup_by_key(|&mut (group, _)| group);
        Self { name, messages, left_out, by_name, standard, extended, groups }
    }

    /// The messages of two files. Those of the other one whose identifier or name one of these has are left out and
    /// returned.
    #[must_use]
    pub fn join(self, other: Self) -> (Self, Vec<Message>) {
        let Self { name, mut messages, left_out, by_name, .. } = self;
        let words: HashSet<u32> = messages.iter().map(|message| id_word(message.id)).collect();
        let is_new = |message: &Message| {
            !words.contains(&id_word(message.id)) && !by_name.contains_key(&message.name)
        };
        let (new, doubled): (Vec<_>, Vec<_>) = other.messages.into_iter().partition(is_new);
        messages.extend(new);
        let left_out = left_out + other.left_out + doubled.len();
        (Self::new(name, messages, left_out), doubled)
    }

    /// What the file is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The messages, as written.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// How many further messages there are in the file that no frame can be, or that have the
    /// identifier of another.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// The message that a frame is: with its identifier, else with its group of J1939. An error
    /// report is none.
    #[inline]
    #[must_use]
    pub fn message_of(&self, frame: &Frame) -> Option<&Message> {
        self.messages.get(self.position_of(frame)?)
    }

    /// Where in [`Database::messages`] that message is.
    #[inline]
    #[must_use]
    pub fn position_of(&self, frame: &Frame) -> Option<usize> {
        if frame.kind() == Kind::Error {
            return None;
        }
        self.position_with_word(frame.can_id())
    }

    /// The message whose frames have this identifier, or its group of J1939.
    #[must_use]
    pub fn message_with(&self, id: Id) -> Option<&Message> {
        self.messages.get(self.position_with_word(id_word(id))?)
    }

    #[inline]
    fn position_with_word(&self, can_id: u32) -> Option<usize> {
        let id = can_id & EFF_MASK;
        let index = if can_id & EFF_FLAG == 0 {
            *self.standard.get(id as usize)?
        } else {
            match find(&self.extended, id) {
                Some(index) => index,
                None => find(&self.groups, group(id))?,
            }
        };
        // Identifiers of no message have a number behind those of messages.
        Some(index as usize).filter(|&index| index < self.messages.len())
    }

    /// The values of the signals in a frame, if it is one of the messages.
    #[inline]
    pub fn decode<'a>(
        &'a self,
        frame: &'a Frame,
    ) -> Option<(&'a Message, impl Iterator<Item = Decoded<'a>>)> {
        let message = self.message_of(frame)?;
        Some((message, message.decode(frame)))
    }

    /// The message with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn message_named(&self, name: &str) -> Result<&Message, NotFound> {
        let index = self.by_name.get(name);
        index.and_then(|&index| self.messages.get(index)).ok_or_else(|| {
            let known = self.messages.iter().map(|message| message.name.as_str());
            NotFound::new("message", name, &self.name, known)
        })
    }

    /// The signal that is called so: `Message.Signal`.
    ///
    /// # Errors
    /// There is none.
    pub fn signal_named(&self, path: &str) -> Result<(&Message, &Signal), NotFound> {
        let (message, signal) = path.split_once('.').unwrap_or((path, ""));
        let message = self.message_named(message)?;
        Ok((message, message.signal_named(signal)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_diagnostics::Findings;

    const CARS: &str = "\
BO_ 291 Standard: 8 A
BO_ 2147483939 Extended: 8 A
BO_ 2364540158 EEC1: 8 A
BO_ 2364539902 TSC1: 8 A
BO_ 2566844672 Exact: 8 A
BO_ 2566844673 EEC1: 1 A
BA_DEF_ BO_ \"VFrameFormat\" ENUM \"StandardCAN\",\"ExtendedCAN\",\"reserved\",\"J1939PG\";
BA_ \"VFrameFormat\" BO_ 2364540158 3;
BA_ \"VFrameFormat\" BO_ 2364539902 \"J1939PG\";
BA_ \"VFrameFormat\" BO_ 2566844672 1;
";

    fn database(text: &str) -> Database {
        Database::parse("t.dbc", text.as_bytes(), &Findings::new()).unwrap()
    }

    #[test]
    fn messages_are_found_by_identifier() {
        let database = database(CARS);
        for (frame, expected) in [
            ("123#", Some("Standard")),
            ("123#R8", Some("Standard")),
            ("123##0", Some("Standard")),
            ("124#", None),
            ("00000123#", Some("Extended")),
            // An error report is no message, whatever its class is.
            ("20000123#", None),
            // The identifier in the file is 0CF004FE: priority 3, group 0F004, source FE.
            ("0CF004FE#", Some("EEC1")),
            ("18F00421#", Some("EEC1")),
            ("00F00400#", Some("EEC1")),
            ("0CF005FE#", None),
            ("0DF004FE#", None),
            // 0CF003FE has a format of 240 or more: the lower byte belongs to the group.
            ("0CF003FE#", Some("TSC1")),
            ("0CF00321#", Some("TSC1")),
            // Not of J1939: this identifier and no other.
            ("18FEF100#", Some("Exact")),
            ("18FEF102#", None),
            ("0CFEF100#", None),
        ] {
            let frame = frame.parse().unwrap();
            let name = database.message_of(&frame).map(|message| message.name.as_str());
            assert_eq!(name, expected, "{frame}");
        }
        let exact = database.message_named("Exact").unwrap();
        assert!(!exact.is_j1939);
        assert_eq!(database.message_with(exact.id), Some(exact));
        // Of two messages with one name, the first one has it.
        assert_eq!(database.message_named("EEC1").unwrap().length, 8);
    }

    #[test]
    fn a_receiver_does_not_belong_to_the_group() {
        // 0x98EAFF00: group 0EA00 (request), to all (FF). Its format is below 240.
        let text = "BO_ 2565537536 Request: 3 A\nBA_ \"ProtocolType\" \"J1939\";\n";
        let database = database(text);
        for (frame, is_known) in [
            ("18EAFF00#", true),
            ("18EA2103#", true),
            ("0CEAFFF9#", true),
            ("18EBFF00#", false),
            ("19EAFF00#", false),
        ] {
            let frame = frame.parse().unwrap();
            assert_eq!(database.message_of(&frame).is_some(), is_known, "{frame}");
        }
    }

    #[test]
    fn the_exact_identifier_goes_before_its_group() {
        let text = "BO_ 2566844926 Any: 8 A\nBO_ 2566844673 One: 8 A\n\
                    BA_DEF_DEF_ \"ProtocolType\" \"J1939\";\n";
        let database = database(text);
        for (frame, name) in [("18FEF101#", "One"), ("18FEF1FE#", "Any"), ("18FEF102#", "Any")] {
            let frame = frame.parse().unwrap();
            assert_eq!(database.message_of(&frame).unwrap().name, name);
        }
    }

    #[test]
    fn names_that_do_not_exist_are_guessed() {
        let database = database("BO_ 1 Motor: 8 A\n SG_ Speed : 0|8@1+ (1,0) [0|0] \"\" B\n");
        let (message, signal) = database.signal_named("Motor.Speed").unwrap();
        assert_eq!((message.name.as_str(), signal.name.as_str()), ("Motor", "Speed"));
        for (path, error) in [
            ("Motr.Speed", "no message of t.dbc is called `Motr`; did you mean `Motor`?"),
            ("Motor.Sped", "no signal of `Motor` is called `Sped`; did you mean `Speed`?"),
            ("Motor", "no signal of `Motor` is called ``"),
            ("Wheel.Speed", "no message of t.dbc is called `Wheel`"),
        ] {
            assert_eq!(database.signal_named(path).unwrap_err().to_string(), error);
        }
    }
}
