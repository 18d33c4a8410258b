//! Messages and their signals: `BO_` and `SG_`, and what becomes of them when every statement is read.

use std::collections::HashSet;

use candor_diagnostics::Origin;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, id_word};
use candor_wire::can::notation::Identifier;
use candor_wire::can::{ByteOrder, ExtendedId, Field, Id, StandardId};

use super::grammar::{MessagePart, SignalPart};
use super::multiplex::{self, DraftSignal, Indicator};
use super::reader::{MessageDraft, Reader};
use super::token::Token;
use crate::{Message, Scaling, Signal, ValueNames, ValueType};

/// The most messages in a file.
pub const MAX_MESSAGES: usize = 1 << 16;
pub const MAX_SIGNALS: usize = 1 << 14;

/// Not a message: the place where editors of DBC files keep signals that belong to none.
const NO_MESSAGE: &str = "VECTOR__INDEPENDENT_SIG_MSG";
/// What stands for no node.
const NO_NODE: [&str; 4] = ["", "Vector__XXX", "VectorXXX", "VECTOR__XXX"];

impl<'a> Reader<'a> {
    /// `BO_ 291 Motor: 8 Engine` and its signals. `None` if the file cannot be used.
    pub(super) fn message(&mut self, part: MessagePart<'a>) -> Option<()> {
        let origin = self.line(part.at);
        if self.drafts.len() >= MAX_MESSAGES || part.signals.len() > MAX_SIGNALS {
            self.findings.error_with_hint(
                &origin,
                format!(
                    "more than {MAX_MESSAGES} messages, or {MAX_SIGNALS} signals in one message"
                ),
                "split the file",
            );
            return None;
        }
        let key = part.number.text.parse().unwrap_or(u64::MAX);
        if part.name.text == NO_MESSAGE {
            self.by_number.insert(key, None);
            return Some(());
        }
        let Some((id, length)) = self.kept(&part, key, &origin) else {
            self.left_out += 1;
            return Some(());
        };
        let index = self.drafts.len();
        self.by_number.insert(key, Some(index));
        let signals = self.signals_of(index, &part.signals, length);
        self.drafts.push(MessageDraft {
            message: Message {
                name: part.name.text.to_owned(),
                id,
                is_j1939: false,
                length,
                is_fd: false,
                sender: node(part.sender.text),
                cycle_time: None,
                signals: Vec::new(),
            },
            origin,
            signals,
            frame_format: None,
            cycle_time: None,
            long_name: None,
        });
        Some(())
    }

    /// The identifier and the length of a message; `None` if it makes no sense and is left out.
    fn kept(&mut self, part: &MessagePart<'a>, key: u64, origin: &Origin) -> Option<(Id, usize)> {
        let [number, name, length] = [part.number, part.name, part.length].map(|it| it.text);
        let Some(id) = identifier(key) else {
            self.warn(
                origin,
                format!("{number} is not an identifier; `{name}` is skipped"),
                "standard identifiers end at 2047; for an extended one, add 2147483648",
            );
            self.by_number.entry(key).or_insert(None);
            return None;
        };
        if self.by_number.contains_key(&key) {
            self.warn(
                origin,
                format!("identifier {number} is already used; `{name}` is skipped"),
                "give each message a different identifier",
            );
            return None;
        }
        let Ok(length) = length.parse::<usize>() else {
            self.warn(
                origin,
                format!("`{name}` cannot have {length} bytes; it is skipped"),
                "a message has 0 to 64 bytes; more only if it is sent in several frames",
            );
            self.by_number.insert(key, None);
            return None;
        };
        Some((id, length))
    }

    /// The signals of the message of that index, each name once.
    fn signals_of(
        &mut self,
        message: usize,
        written: &[SignalPart<'a>],
        length: usize,
    ) -> Vec<DraftSignal> {
        let mut signals: Vec<DraftSignal> = Vec::new();
        for part in written {
            let Some(draft) = self.signal(part, length) else { continue };
            let place = (message, draft.signal.name.clone());
            if self.signals.contains_key(&place) {
                self.warn(
                    &draft.origin,
                    format!("`{}` is already defined; this one is skipped", draft.signal.name),
                    "give each signal of a message a different name",
                );
                continue;
            }
            self.signals.insert(place, signals.len());
            signals.push(draft);
        }
        signals
    }

    /// `SG_ Speed : 7|16@0+ (0.25,0) [0|16000] "rpm" Dashboard`
    fn signal(&self, part: &SignalPart<'a>, length: usize) -> Option<DraftSignal> {
        let origin = self.line(part.at);
        let (name, start_bit) = (part.name.text, part.start_bit.text);
        let order = if part.is_big_endian { ByteOrder::Motorola } else { ByteOrder::Intel };
        let (scale, offset) = (number(part.scale), number(part.offset));
        let (min, max) = (number(part.min), number(part.max));
        let indicator = match part.indicator {
            Some(indicator) => Indicator::parse(indicator.text),
            None => Some(Indicator::default()),
        };
        let left_out = |reason: String, hint: &str| {
            self.warn(&origin, format!("{reason}; `{name}` is skipped"), hint);
            None
        };
        let bits = part.bits.map_or(Ok(1), |bits| bits.text.parse::<u64>()).unwrap_or(u64::MAX);
        let Some((start_bit, bits)) = start_bit.parse().ok().zip(u8::try_from(bits).ok()) else {
            let reason = format!("bit {start_bit} with {bits} bits does not fit into a frame");
            return left_out(reason, "a frame has at most 512 bits, a signal at most 64");
        };
        let field = Field::new(start_bit, bits, order, part.is_signed);
        let field = match field.and_then(|field| field.within(length)) {
            Ok(field) => field,
            Err(error) => {
                return left_out(
                    error.to_string(),
                    "correct the start bit, the number of bits or the length of the message",
                );
            }
        };
        let Some(indicator) = indicator else {
            return left_out(
                "the number after `m` is too large".to_owned(),
                "a selector has at most 64 bits",
            );
        };
        if !(scale.is_finite() && offset.is_finite()) {
            return left_out(
                "the scale or the offset is too large".to_owned(),
                "correct the \
                                                                                number",
            );
        }
        let signal = Signal {
            name: name.to_owned(),
            field,
            value_type: ValueType::Integer,
            scaling: Scaling::new(scale, offset),
            limits: (min != max).then_some(min..=max),
            unit: part.unit.unescaped().into_owned(),
            value_names: ValueNames::default(),
            is_selector: indicator.is_selector,
            selection: None,
            receivers: part.receivers.iter().filter_map(|it| node(it.text)).collect(),
        };
        Some(DraftSignal { signal, origin, indicator, selection: None, long_name: None })
    }

    /// The messages, when every statement is read.
    pub(super) fn finish(mut self) -> Vec<Message> {
        let drafts = std::mem::take(&mut self.drafts);
        let mut names = HashSet::new();
        drafts
            .into_iter()
            .map(|draft| {
                let origin = draft.origin.clone();
                let mut message = self.complete(draft);
                let identifier = Identifier(id_word(message.id));
                let is_new = names.insert(message.name.clone());
                let written = message.name.clone();
                while !is_new && !names.insert(message.name.clone()) {
                    message.name = format!("{}_0x{identifier}", message.name);
                }
                if !is_new {
                    self.warn(
                        &origin,
                        format!(
                            "`{written}` is already defined; this one is called `{}`",
                            message.name
                        ),
                        "give each message a different name; the first one keeps it",
                    );
                }
                message
            })
            .collect()
    }

    /// The message with everything that was said about it.
    fn complete(&self, draft: MessageDraft) -> Message {
        let MessageDraft { mut message, signals, frame_format, cycle_time, long_name, .. } = draft;
        let format = frame_format.as_ref().or(self.default_frame_format.as_ref());
        let protocol = self.protocol.as_ref().or(self.default_protocol.as_ref());
        message.is_fd = message.length > 8 && message.length <= 64
            || format.is_some_and(|format| format.ends_with("_FD"));
        message.is_j1939 = matches!(message.id, Id::Extended(_))
            && match format {
                Some(format) => format == "J1939PG",
                None => protocol.is_some_and(|protocol| protocol == "J1939"),
            };
        message.cycle_time = cycle_time.unwrap_or(self.default_cycle_time);
        message.signals = multiplex::select(signals, self.findings);
        if let Some(name) = long_name.filter(|name| !name.is_empty()) {
            message.name = name;
        }
        message
    }
}

/// The identifier that a number in a file stands for.
fn identifier(number: u64) -> Option<Id> {
    let number = u32::try_from(number).ok()?;
    if number & EFF_FLAG == 0 {
        StandardId::new(u16::try_from(number).ok()?).map(Id::Standard)
    } else {
        // Some editors set the bits between as flags of their own.
        ExtendedId::new(number & EFF_MASK).map(Id::Extended)
    }
}

/// A node, unless it is a name that stands for none.
fn node(name: &str) -> Option<String> {
    (!NO_NODE.contains(&name)).then(|| name.to_owned())
}

/// The grammar lets only numbers pass; those that are too large for `f64` are infinite.
fn number(token: Token<'_>) -> f64 {
    token.text.parse().unwrap_or(f64::NAN)
}
