//! DBC files: their statements become messages, and what makes no sense a finding.

mod cut;
mod grammar;
mod multiplex;
mod token;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use candor_diagnostics::{Findings, Origin, Source, did_you_mean};
use candor_time::Nanos;
use candor_wire::frame::{EFF_FLAG, EFF_MASK};
use candor_wire::{ByteOrder, ExtendedId, Field, Id, StandardId};

use self::cut::{Statement, statements, text};
use self::grammar::{MessagePart, Owner, Part, SignalPart};
use self::multiplex::{DraftSignal, Indicator};
use self::token::{Stop, Token, Tokens};
use crate::{Database, Message, Signal, ValueNames, ValueType};

/// The largest file that is read, in bytes: twenty times the largest published ones.
pub const MAX_BYTES: usize = 16 << 20;
/// The longest statement, in bytes; a message with its signals is one.
const MAX_STATEMENT: usize = 1 << 20;
/// The most messages in a file.
pub const MAX_MESSAGES: usize = 1 << 16;
/// The most signals in a message.
pub const MAX_SIGNALS: usize = 1 << 14;
/// How many selectors may decide about one signal, each selected by the next.
pub const MAX_NESTING: usize = 8;

/// Not a message: the place where editors of DBC files keep signals that belong to none.
const NO_MESSAGE: &str = "VECTOR__INDEPENDENT_SIG_MSG";
/// What stands for no node.
const NO_NODE: [&str; 4] = ["", "Vector__XXX", "VectorXXX", "VECTOR__XXX"];

pub(crate) fn load(path: &Path, findings: &Findings) -> Option<Database> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let most = MAX_BYTES as u64 + 1; // one more tells that the file is too large
    match File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        Ok(_) => parse(&name, &bytes, findings),
        Err(error) => {
            findings.error_with_hint(
                &Origin::whole(&Source::argument(name)),
                format!("the file cannot be read: {error}"),
                "check the name of the file and its permissions",
            );
            None
        }
    }
}

pub(crate) fn parse(name: &str, bytes: &[u8], findings: &Findings) -> Option<Database> {
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
    is_usable.then(|| Database::new(name.to_owned(), reader.finish(), left_out))
}

/// Statements about messages and signals, which may stand before these.
const LATE: [&str; 4] = ["BA_", "VAL_", "SIG_VALTYPE_", "SG_MUL_VAL_"];
/// Statements that say nothing about messages.
const UNREAD: [&str; 11] = [
    "CAT_DEF_",
    "CAT_",
    "FILTER",
    "EV_DATA_",
    "SGTYPE_",
    "SGTYPE_VAL_",
    "BA_DEF_SGTYPE_",
    "BA_SGTYPE_",
    "SIG_TYPE_REF_",
    "SIGTYPE_VALTYPE_",
    "SIG_GROUP_",
];

/// Adds a warning, as long as there is room: a file may be wrong a million times.
fn warn(findings: &Findings, origin: &Origin, message: impl Into<String>, hint: &str) {
    if !findings.is_full() {
        findings.warning(origin, message, hint);
    }
}

/// A message while its file is read.
struct Draft {
    message: Message,
    origin: Origin,
    signals: Vec<DraftSignal>,
    /// What attributes of the message say.
    frame_format: Option<String>,
    cycle_time: Option<Option<Nanos>>,
    long_name: Option<String>,
}

/// What the statements read so far say.
struct Reader<'a> {
    source: &'a Arc<Source>,
    findings: &'a Findings,
    drafts: Vec<Draft>,
    /// How many messages make no sense.
    left_out: usize,
    /// The messages by the number in the file; `None` for those that were left out.
    by_number: HashMap<u64, Option<usize>>,
    signals: HashMap<(usize, String), usize>,
    /// The names of the values of VFrameFormat.
    frame_formats: Vec<String>,
    default_frame_format: Option<String>,
    default_cycle_time: Option<Nanos>,
    protocol: Option<String>,
    default_protocol: Option<String>,
}

/// Attributes that are looked at.
const CYCLE_TIME: &str = "GenMsgCycleTime";
const FRAME_FORMAT: &str = "VFrameFormat";
const PROTOCOL: &str = "ProtocolType";
const LONG_MESSAGE_NAME: &str = "SystemMessageLongSymbol";
const LONG_SIGNAL_NAME: &str = "SystemSignalLongSymbol";

impl<'a> Reader<'a> {
    fn new(source: &'a Arc<Source>, findings: &'a Findings) -> Self {
        Self {
            source,
            findings,
            drafts: Vec::new(),
            left_out: 0,
            by_number: HashMap::new(),
            signals: HashMap::new(),
            frame_formats: Vec::new(),
            default_frame_format: None,
            default_cycle_time: None,
            protocol: None,
            default_protocol: None,
        }
    }

    /// A place in the file: the rest of the line, as from here.
    fn line(&self, at: usize) -> Origin {
        let rest = self.source.text().get(at..).unwrap_or("");
        let line = rest.lines().next().unwrap_or("").trim_end();
        Origin::new(self.source, at..at + line.len())
    }

    fn origin(&self, token: &Token<'_>) -> Origin {
        Origin::new(self.source, token.at..token.end())
    }

    fn warn(&self, origin: &Origin, message: impl Into<String>, hint: &str) {
        warn(self.findings, origin, message, hint);
    }

    /// Reads a statement; `false` if the file cannot be used.
    fn read(&mut self, statement: &Statement<'a>) -> bool {
        if UNREAD.contains(&statement.keyword()) {
            return true;
        }
        if statement.text.len() > MAX_STATEMENT {
            self.findings.error_with_hint(
                &Origin::new(self.source, statement.at..statement.at + 1),
                format!("this statement has more than {MAX_STATEMENT} bytes"),
                "check for a missing quotation mark",
            );
            return false;
        }
        let mut tokens = Tokens::new(statement.text, statement.at);
        while let Some(part) = grammar::next(&mut tokens) {
            let is_usable = match part {
                Ok(part) => self.part(part),
                Err(stop) => {
                    self.refuse(&stop);
                    false
                }
            };
            if !is_usable {
                return false;
            }
        }
        true
    }

    /// Adds the finding that a statement cannot be read on from some place.
    fn refuse(&self, stop: &Stop) {
        let expected = match stop.expected {
            [one] => format!(", but `{one}` can"),
            [one, other] => format!(", but `{one}` or `{other}` can"),
            _ => String::new(),
        };
        let start = stop.at;
        let text = self.source.text();
        let rest = text.get(start..).unwrap_or("");
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let found = match rest.chars().next() {
            None => "the end of the file".to_owned(),
            Some('\r' | '\n') => "the end of the line".to_owned(),
            Some(_) => format!("`{}`", rest.chars().take(length.clamp(1, 40)).collect::<String>()),
        };
        self.findings.error_with_hint(
            &Origin::new(self.source, start..start + length.max(1)),
            format!("this is not a DBC file: {found} cannot be here{expected}"),
            "correct it, or save the file again with a DBC editor",
        );
    }

    /// Takes what a statement says; `false` if the file cannot be used.
    fn part(&mut self, part: Part<'a>) -> bool {
        match part {
            Part::Message(part) => return self.message(part).is_some(),
            Part::Definition { attribute, names } => self.definition(attribute, &names),
            Part::Default { attribute, value } => self.default(attribute, value),
            Part::Attribute { attribute, of, value } => self.attribute(attribute, &of, value),
            Part::ValueNames { message, signal, names } => {
                self.value_names(message, signal, &names);
            }
            Part::ValueType { at, message, signal, value_type } => {
                self.value_type(at, message, signal, value_type);
            }
            Part::Selection { message, signal, selector, ranges } => {
                self.selection(message, signal, selector, &ranges);
            }
            Part::Other => {} // comments, nodes, tables of names that signals repeat
        }
        true
    }

    /// `BO_ 291 Motor: 8 Engine` and its signals.
    fn message(&mut self, part: MessagePart<'a>) -> Option<()> {
        let origin = self.line(part.at);
        let MessagePart { number, name, length, sender, signals: written, .. } = part;
        let [number, name, length, sender] = [number, name, length, sender].map(|it| it.text);
        if self.drafts.len() >= MAX_MESSAGES || written.len() > MAX_SIGNALS {
            self.findings.error_with_hint(
                &origin,
                format!(
                    "more than {MAX_MESSAGES} messages, or {MAX_SIGNALS} signals in one message"
                ),
                "split the file",
            );
            return None;
        }
        let key = number.parse().unwrap_or(u64::MAX);
        if name == NO_MESSAGE {
            self.by_number.insert(key, None);
            return Some(());
        }
        let Some(id) = identifier(key) else {
            self.warn(
                &origin,
                format!("{number} is not an identifier; `{name}` is skipped"),
                "standard identifiers end at 2047; for an extended one, add 2147483648",
            );
            self.left_out += 1;
            self.by_number.entry(key).or_insert(None);
            return Some(());
        };
        if self.by_number.contains_key(&key) {
            self.warn(
                &origin,
                format!("identifier {number} is already used; `{name}` is skipped"),
                "give each message a different identifier",
            );
            self.left_out += 1;
            return Some(());
        }
        let Ok(length) = length.parse::<usize>() else {
            self.warn(
                &origin,
                format!("`{name}` cannot have {length} bytes; it is skipped"),
                "a message has 0 to 64 bytes; more only if it is sent in several frames",
            );
            self.left_out += 1;
            self.by_number.insert(key, None);
            return Some(());
        };
        let index = self.drafts.len();
        self.by_number.insert(key, Some(index));
        let mut signals: Vec<DraftSignal> = Vec::new();
        for part in &written {
            if let Some(draft) = self.signal(part, length) {
                let place = (index, draft.signal.name.clone());
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
        }
        self.drafts.push(Draft {
            message: Message {
                name: name.to_owned(),
                id,
                is_j1939: false,
                length,
                is_fd: false,
                sender: node(sender),
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
            scale,
            offset,
            limits: (min != max).then_some(min..=max),
            unit: part.unit.unescaped().into_owned(),
            value_names: ValueNames::default(),
            is_selector: indicator.is_selector,
            selection: None,
            receivers: part.receivers.iter().filter_map(|it| node(it.text)).collect(),
        };
        Some(DraftSignal { signal, origin, indicator, selection: None, long_name: None })
    }

    /// `BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN";`
    fn definition(&mut self, attribute: Token<'a>, names: &[Token<'a>]) {
        if attribute.unescaped() == FRAME_FORMAT {
            self.frame_formats = names.iter().map(|name| name.unescaped().into_owned()).collect();
        }
    }

    /// `BA_DEF_DEF_ "GenMsgCycleTime" 100;`
    fn default(&mut self, attribute: Token<'a>, value: Token<'a>) {
        let text = || Some(value.unescaped().into_owned());
        match attribute.unescaped().as_ref() {
            CYCLE_TIME => self.default_cycle_time = cycle_time(value),
            FRAME_FORMAT => self.default_frame_format = text(),
            PROTOCOL => self.default_protocol = text(),
            _ => {}
        }
    }

    /// The messages, when every statement is read.
    fn finish(mut self) -> Vec<Message> {
        let drafts = std::mem::take(&mut self.drafts);
        let mut names = HashMap::new();
        drafts
            .into_iter()
            .map(|draft| {
                let origin = draft.origin.clone();
                let message = self.complete(draft);
                if names.insert(message.name.clone(), ()).is_some() {
                    self.warn(
                        &origin,
                        format!("`{}` is already defined", message.name),
                        "give each message a different name; the first one keeps it",
                    );
                }
                message
            })
            .collect()
    }

    /// The message that a statement is about, if there is one that was not left out.
    fn message_at(&self, number: Token<'a>) -> Option<usize> {
        match self.by_number.get(&number.text.parse().unwrap_or(u64::MAX)) {
            Some(index) => *index,
            None => {
                self.warn(
                    &self.origin(&number),
                    format!("there is no message {}", number.text),
                    "remove this statement, or correct the identifier",
                );
                None
            }
        }
    }

    /// The signal that a statement is about.
    fn signal_at(&mut self, number: Token<'a>, name: Token<'a>) -> Option<&mut DraftSignal> {
        let message = self.message_at(number)?;
        let Some(&index) = self.signals.get(&(message, name.text.to_owned())) else {
            let draft = self.drafts.get(message)?;
            let known = draft.signals.iter().map(|it| it.signal.name.as_str());
            let hint = match did_you_mean(name.text, known) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "remove this statement, or correct the name".to_owned(),
            };
            self.warn(
                &self.origin(&name),
                format!("`{}` has no signal `{}`", draft.message.name, name.text),
                &hint,
            );
            return None;
        };
        self.drafts.get_mut(message)?.signals.get_mut(index)
    }

    /// `BA_ "GenMsgCycleTime" BO_ 291 10;`
    fn attribute(&mut self, attribute: Token<'a>, of: &Owner<'a>, value: Token<'a>) {
        let text = value.unescaped();
        match (attribute.unescaped().as_ref(), of) {
            (PROTOCOL, Owner::File) => self.protocol = Some(text.into_owned()),
            (name @ (CYCLE_TIME | FRAME_FORMAT | LONG_MESSAGE_NAME), &Owner::Message(number)) => {
                let Some(index) = self.message_at(number) else { return };
                let format = self.frame_format(value);
                let Some(draft) = self.drafts.get_mut(index) else { return };
                match name {
                    CYCLE_TIME => draft.cycle_time = Some(cycle_time(value)),
                    FRAME_FORMAT => draft.frame_format = Some(format),
                    _ => draft.long_name = Some(text.into_owned()),
                }
            }
            (LONG_SIGNAL_NAME, &Owner::Signal(number, signal)) => {
                if let Some(draft) = self.signal_at(number, signal) {
                    draft.long_name = Some(text.into_owned());
                }
            }
            _ => {}
        }
    }

    /// The name of a format, which may be written as its number.
    fn frame_format(&self, value: Token<'a>) -> String {
        let index = value.text.parse::<usize>().ok().filter(|_| !value.is_quoted);
        match index.and_then(|index| self.frame_formats.get(index)) {
            Some(name) => name.clone(),
            None => value.unescaped().into_owned(),
        }
    }

    /// `VAL_ 291 Gear 0 "neutral" 1 "first" ;`
    fn value_names(
        &mut self,
        message: Token<'a>,
        signal: Token<'a>,
        names: &[(Token<'a>, Token<'a>)],
    ) {
        let read = |(raw, name): &(Token<'_>, Token<'_>)| {
            Some((raw.text.parse().ok()?, name.unescaped().into_owned()))
        };
        let names = names.iter().filter_map(read).collect();
        if let Some(draft) = self.signal_at(message, signal) {
            draft.signal.value_names = ValueNames::new(names);
        }
    }

    /// `SIG_VALTYPE_ 291 Torque : 1;`
    fn value_type(
        &mut self,
        at: usize,
        message: Token<'a>,
        signal: Token<'a>,
        value_type: Token<'a>,
    ) {
        let (value_type, bits) = match value_type.text {
            "1" => (ValueType::F32, 32),
            "2" => (ValueType::F64, 64),
            _ => return,
        };
        let Some(draft) = self.signal_at(message, signal) else { return };
        let (has, name) = (draft.signal.field.bits(), draft.signal.name.clone());
        if has == bits {
            draft.signal.value_type = value_type;
        } else {
            self.warn(
                &self.line(at),
                format!(
                    "`{name}` has {has} bits, but this kind of floating-point number needs {bits}"
                ),
                "correct it; until then it is decoded as an integer",
            );
        }
    }

    /// `SG_MUL_VAL_ 291 Torque Page 0-3, 7-7;`
    fn selection(
        &mut self,
        message: Token<'a>,
        signal: Token<'a>,
        selector: Token<'a>,
        written: &[(Token<'a>, Token<'a>)],
    ) {
        let mut ranges = Vec::new();
        for (first, last) in written {
            match (first.text.parse::<u64>(), last.text.parse()) {
                (Ok(from), Ok(to)) if from <= to => ranges.push(from..=to),
                _ => self.warn(
                    &Origin::new(self.source, first.at..last.end()),
                    "this range is empty",
                    "write the smaller value first; a selector has at most 64 bits",
                ),
            }
        }
        if let Some(draft) = self.signal_at(message, signal) {
            draft.selection = Some((selector.text.to_owned(), ranges));
        }
    }

    /// The message with everything that was said about it.
    fn complete(&self, draft: Draft) -> Message {
        let Draft { mut message, signals, frame_format, cycle_time, long_name, .. } = draft;
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

/// A time in milliseconds, if it is more than none.
fn cycle_time(value: Token<'_>) -> Option<Nanos> {
    let text = value.text;
    let time = match text.parse() {
        Ok(millis) => Nanos::from_millis(millis),
        // At the ends of u64 if it is beyond them.
        Err(_) => Nanos::from_nanos((text.parse::<f64>().ok()? * 1e6).round() as u64),
    };
    (time > Nanos::ZERO).then_some(time)
}

#[cfg(test)]
mod tests {
    use candor_wire::frame::id_word;
    use proptest::prelude::*;

    use super::*;

    /// The database, and what is wrong with the file.
    fn read(text: &str) -> (Option<Database>, String) {
        let findings = Findings::new();
        let database = parse("t.dbc", text.as_bytes(), &findings);
        (database, findings.to_string())
    }

    fn good(text: &str) -> Database {
        let (database, findings) = read(text);
        assert_eq!(findings, "");
        database.unwrap()
    }

    #[test]
    fn messages_and_signals_are_read_as_written() {
        let database = good(
            "VERSION \"7\"\r\n\r\nNS_ :\r\n\tCM_\r\n\tBA_\r\n\r\nBS_:\r\n\r\nBU_: A B\r\n\r\n\
             BO_ 291 Motor: 8 A\r\n SG_ Speed : 7|16@0- (0.25,-3e1) [-10.5|16000] \"rpm\" B,C\r\n \
             SG_ Gear : 16|4@1+(1,0)[0|0]\"\" Vector__XXX\r\n\r\n\
             BO_ 2147483939 Other: 64 Vector__XXX\r\n\r\nCM_ \"two\r\nBO_ 5 lines: 8 A\";\r\n\
             CM_ BO_ 291 \"a \\\"quoted\\\" word\"; // and \"a remark\r\n",
        );
        let [motor, other] = database.messages() else { panic!("two messages") };
        assert_eq!((motor.name.as_str(), id_word(motor.id), motor.length), ("Motor", 291, 8));
        assert_eq!((motor.sender.as_deref(), motor.is_fd), (Some("A"), false));
        assert_eq!((id_word(other.id), &other.sender, other.is_fd), (0x8000_0123, &None, true));
        let [speed, gear] = motor.signals.as_slice() else { panic!("two signals") };
        assert_eq!(speed.field, Field::new(7, 16, ByteOrder::Motorola, true).unwrap());
        assert_eq!((speed.scale, speed.offset, speed.unit.as_str()), (0.25, -30.0, "rpm"));
        assert_eq!((speed.limits.clone(), gear.limits.clone()), (Some(-10.5..=16000.0), None));
        assert_eq!(speed.receivers, ["B", "C"]);
        assert_eq!(gear.field, Field::new(16, 4, ByteOrder::Intel, false).unwrap());
        assert!(gear.receivers.is_empty());
    }

    #[test]
    fn attributes_are_looked_at() {
        // Attributes may stand before what they are about.
        let database = good(
            "BA_ \"GenMsgCycleTime\" BO_ 1 20;\nBA_ \"GenMsgCycleTime\" BO_ 2 2.5;\n\
             BA_ \"GenMsgCycleTime\" BO_ 3 0;\nBA_ \"VFrameFormat\" BO_ 2 1;\n\
             BA_ \"SystemMessageLongSymbol\" BO_ 4 \"Four_which_is_long\";\n\
             BA_ \"SystemSignalLongSymbol\" SG_ 4 S \"Signal_which_is_long\";\n\
             BA_ \"Nothing\" 7;\nBA_ \"Nothing\" BU_ A 7;\nBA_ \"Nothing\" EV_ V \"7\";\n\
             BO_ 1 One: 8 A\nBO_ 2 Two: 8 A\nBO_ 3 Three: 12 A\n\
             BO_ 4 Four: 8 A\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n\
             BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 65535;\n\
             BA_DEF_ BO_ \"VFrameFormat\" ENUM \"StandardCAN\",\"StandardCAN_FD\";\n\
             BA_DEF_DEF_ \"GenMsgCycleTime\" 100;\nBA_DEF_DEF_ \"VFrameFormat\" \"StandardCAN\";\n",
        );
        let reported: Vec<_> = database
            .messages()
            .iter()
            .map(|it| (it.name.as_str(), it.cycle_time.map(|time| time.to_string()), it.is_fd))
            .collect();
        assert_eq!(
            reported,
            [
                ("One", Some("20ms".to_owned()), false),
                ("Two", Some("2.5ms".to_owned()), true),
                ("Three", None, true),
                ("Four_which_is_long", Some("100ms".to_owned()), false),
            ]
        );
        assert!(database.signal_named("Four_which_is_long.Signal_which_is_long").is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_reported_and_left_out() {
        let signal =
            |name: &str, place: &str| format!(" SG_ {name} : {place} (1,0) [0|0] \"\" B\n");
        let plain = signal("S", "0|8@1+");
        for (text, messages, signals, findings) in [
            (
                "BO_ 1 A: 8 X\nBO_ 1 B: 8 X\n".to_owned(),
                1,
                0,
                "t.dbc:2:1: warning: identifier 1 is already used; `B` is skipped",
            ),
            (
                "BO_ 1 A: 8 X\nBO_ 2 A: 8 X\n".to_owned(),
                2,
                0,
                "t.dbc:2:1: warning: `A` is already defined",
            ),
            (
                "BO_ 2048 A: 8 X\n".to_owned(),
                0,
                0,
                "t.dbc:1:1: warning: 2048 is not an identifier; `A` is skipped",
            ),
            (
                "BO_ 99999999999999999999 A: 8 X\n".to_owned(),
                0,
                0,
                "t.dbc:1:1: warning: 99999999999999999999 is not an identifier; `A` is skipped",
            ),
            (
                "BO_ 1 A: -8 X\n".to_owned(),
                0,
                0,
                "t.dbc:1:1: warning: `A` cannot have -8 bytes; it is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{plain}{plain}"),
                1,
                1,
                "t.dbc:3:2: warning: `S` is already defined; this one is skipped",
            ),
            (
                format!("BO_ 1 A: 2 X\n{}", signal("S", "9|8@1+")),
                1,
                0,
                "t.dbc:2:2: warning: the field ends in byte 3, but there are 2; `S` is skipped",
            ),
            (
                format!("BO_ 1 A: 99 X\n\n{}", signal("S", "511|9@0+")),
                1,
                0,
                "t.dbc:3:2: warning: the field ends in byte 65, but there are 64; `S` is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{}", signal("S", "0|0@1+")),
                1,
                0,
                "t.dbc:2:2: warning: a field must have 1 to 64 bits, not 0; `S` is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{}", signal("S", "0|300@1+")),
                1,
                0,
                "t.dbc:2:2: warning: bit 0 with 300 bits does not fit into a frame; `S` is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{}", signal("S", "-1|3@1+")),
                1,
                0,
                "t.dbc:2:2: warning: bit -1 with 3 bits does not fit into a frame; `S` is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{}", plain.replace("(1,", "(1e999,")),
                1,
                0,
                "t.dbc:2:2: warning: the scale or the offset is too large; `S` is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{}", signal("S m0", "0|8@1+")),
                1,
                0,
                "t.dbc:2:2: warning: `S` has no selector and is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{}", signal("S m99999999999999999999", "0|8@1+")),
                1,
                0,
                "t.dbc:2:2: warning: the number after `m` is too large; `S` is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{plain}SG_MUL_VAL_ 1 S S 0-1;\n"),
                1,
                0,
                "t.dbc:2:2: warning: `S` has no selector and is skipped",
            ),
            (
                format!("BO_ 1 A: 8 X\n{}{}", signal("S M", "0|8@1+"), signal("T M", "8|8@1+")),
                1,
                2,
                "t.dbc:3:2: warning: `T` is a second selector",
            ),
            (
                format!(
                    "BO_ 1 A: 8 X\n{}{}SG_MUL_VAL_ 1 T S 5-2, 0-1;\n",
                    signal("S M", "0|8@1+"),
                    signal("T m0", "8|8@1+")
                ),
                1,
                2,
                "t.dbc:4:19: warning: this range is empty",
            ),
            (
                format!("BO_ 1 A: 8 X\n{plain}SIG_VALTYPE_ 1 S : 1;\n"),
                1,
                1,
                "t.dbc:3:1: warning: `S` has 8 bits, but this kind of floating-point number needs 32",
            ),
            (
                format!("BO_ 1 A: 8 X\n{plain}VAL_ 1 T 0 \"no\" ;\n"),
                1,
                1,
                "t.dbc:3:8: warning: `A` has no signal `T`",
            ),
            (
                format!("BO_ 1 A: 8 X\n{plain}VAL_ 2 S 0 \"no\" ;\n"),
                1,
                1,
                "t.dbc:3:6: warning: there is no message 2",
            ),
        ] {
            let (database, reported) = read(&text);
            let database = database.unwrap();
            assert_eq!(reported.lines().next(), Some(findings), "{text}");
            assert!(reported.contains("\n  hint: "), "{reported}");
            let count = database.messages().iter().map(|it| it.signals.len()).sum::<usize>();
            assert_eq!((database.messages().len(), count), (messages, signals), "{text}");
        }
    }

    #[test]
    fn what_is_no_dbc_file_is_refused_with_its_places() {
        for (text, findings) in [
            ("hello", &["t.dbc:1:1: error: this is not a DBC file: `hello` cannot be here"][..]),
            (
                "BO_ 1 A: 8 X\n SG_ S : 0|8@1* (1,0) [0|0] \"\" B\nBO_ x\n",
                &[
                    "t.dbc:2:15: error: this is not a DBC file: `*` cannot be here, but `+` or `-` can",
                    "t.dbc:3:5: error: this is not a DBC file: `x` cannot be here",
                ],
            ),
            // Signals whose message is missing do not pass as names of nodes.
            (
                "BU_: A B\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n",
                &["t.dbc:2:8: error: this is not a DBC file: `:` cannot be here"],
            ),
            (
                "BO_ 1 A 8 X\n",
                &["t.dbc:1:9: error: this is not a DBC file: `8` cannot be here, but `:` can"],
            ),
            (
                "BO_ 1 A: 8\n",
                &["t.dbc:1:11: error: this is not a DBC file: the end of the line cannot be here"],
            ),
            (
                "BO_ 1 A: 8 X\n SG_ S mx : 0|8@1+ (1,0) [0|0] \"\" B\n",
                &["t.dbc:2:8: error: this is not a DBC file: `mx` cannot be here, but `:` can"],
            ),
            (
                "VAL_ 1 S 0 \"no\" ,\n",
                &["t.dbc:1:17: error: this is not a DBC file: `,` cannot be here, but `;` can"],
            ),
            (
                "VAL_ V 0 \"no\" ; 5\n",
                &["t.dbc:1:17: error: this is not a DBC file: `5` cannot be here"],
            ),
            (
                "CM_ \"no end\nBO_ 1 A: 8 X\n",
                &["t.dbc:3:1: error: this is not a DBC file: the end of the file cannot be here, \
                   but `\"` can"],
            ),
        ] {
            let (database, reported) = read(text);
            assert!(database.is_none(), "{text}");
            let reported: Vec<_> =
                reported.lines().filter(|line| line.starts_with("t.dbc")).collect();
            assert_eq!(reported, findings, "{text}");
        }
    }

    #[test]
    fn files_are_read_from_disk() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small-car.dbc");
        let findings = Findings::new();
        let database = Database::load(Path::new(path), &findings).unwrap();
        assert_eq!((database.name(), findings.to_string().as_str()), (path, ""));
        assert!(database.message_named("VehicleSpeed").is_ok());
        for (path, reason) in [
            ("/nowhere/car.dbc", "/nowhere/car.dbc: error: the file cannot be read: No such file"),
            // A file without an end is not read without an end.
            ("/dev/zero", "/dev/zero: error: the file has more than 16777216 bytes"),
        ] {
            let findings = Findings::new();
            assert!(Database::load(Path::new(path), &findings).is_none());
            assert!(findings.to_string().starts_with(reason), "{findings}");
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let text = "BO_ 1 A: 8 X\nBO_ 1 B: 8 X\nBO_ 2048 C: 8 X\nBO_ 3 D: -8 X\nBO_ 4 E: 8 X\n";
        let (database, _) = read(text);
        let database = database.unwrap();
        assert_eq!((database.messages().len(), database.left_out()), (2, 3));
    }

    #[test]
    fn findings_mark_what_they_are_about() {
        let marked = |text: &str, name: &str| {
            let (_, reported) = read(text);
            let line = reported.lines().find(|line| line.contains('^')).expect(&reported);
            assert_eq!(line.matches('^').count(), name.len(), "{reported}");
        };
        // The whole line of a message, and a word that cannot be where it is.
        marked("BO_ 1 A: 8 X\nBO_ 1 B: 8 X  \nBO_ 2 C: 8 X\n", "BO_ 1 B: 8 X");
        marked("BO_ 1 A: 8 X\nBO_ word A: 8 X\n", "word");
        marked("BO_ 1 A: 8 X\nVAL_ 2222 S 0 \"no\" ;\n", "2222");
    }

    #[test]
    fn names_of_values_may_lack_their_semicolon() {
        let signal = "BO_ 1 A: 8 X\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n";
        let database = good(&format!("{signal}VAL_ 1 S 0 \"no\" VAL_ 1 S 1 \"yes\"\n"));
        let names = &database.messages()[0].signals[0].value_names;
        assert_eq!(names.iter().collect::<Vec<_>>(), [(1, "yes")]);
    }

    #[test]
    fn the_default_frame_format_holds_for_messages_without_their_own() {
        let database = good(
            "BO_ 1 One: 8 A\nBO_ 2 Two: 8 A\n\
             BA_DEF_ BO_ \"VFrameFormat\" ENUM \"StandardCAN\",\"StandardCAN_FD\";\n\
             BA_DEF_DEF_ \"VFrameFormat\" \"StandardCAN_FD\";\nBA_ \"VFrameFormat\" BO_ 2 0;\n",
        );
        let is_fd: Vec<_> = database.messages().iter().map(|message| message.is_fd).collect();
        assert_eq!(is_fd, [true, false]);
        // A number in quotation marks is a name.
        let database = good(
            "BO_ 1 One: 8 A\nBO_ 2 Two: 8 A\n\
             BA_DEF_ BO_ \"VFrameFormat\" ENUM \"1\",\"StandardCAN_FD\";\n\
             BA_ \"VFrameFormat\" BO_ 1 1;\nBA_ \"VFrameFormat\" BO_ 2 \"1\";\n",
        );
        let is_fd: Vec<_> = database.messages().iter().map(|message| message.is_fd).collect();
        assert_eq!(is_fd, [true, false]);
    }

    #[test]
    fn files_are_bounded() {
        // As much as there may be is read.
        assert_eq!(good(&"\n".repeat(MAX_BYTES)).messages().len(), 0);
        let frame = "CM_ \"\";";
        good(&format!("CM_ \"{}\";", "a".repeat(MAX_STATEMENT - frame.len())));
        let signals = (0..MAX_SIGNALS).map(|n| format!(" SG_ s{n}:0|1@1+(1,0)[0|0]\"\"A\n"));
        let most = good(&format!("BO_ 1 A:8 B\n{}", signals.collect::<String>()));
        assert_eq!(most.messages()[0].signals.len(), MAX_SIGNALS);
        let messages = |count: usize| {
            let line = |n: usize| format!("BO_ {} m{n}:8 B\n", n + 0x8000_0000);
            (0..count).map(line).collect::<String>()
        };
        assert_eq!(good(&messages(MAX_MESSAGES)).messages().len(), MAX_MESSAGES);
        assert!(read(&messages(MAX_MESSAGES + 1)).1.contains("more than 65536 messages"));

        let large = " ".repeat(MAX_BYTES + 1);
        assert!(read(&large).1.starts_with("t.dbc: error: the file has more than 16777216 bytes"));
        let long = format!("CM_ \"{}\";", "a".repeat(MAX_STATEMENT));
        assert!(read(&long).1.contains("this statement has more than 1048576 bytes"));
        let signals = (0..=MAX_SIGNALS).map(|n| format!(" SG_ s{n}:0|1@1+(1,0)[0|0]\"\"A\n"));
        let many = format!("BO_ 1 A:8 B\n{}", signals.collect::<String>());
        assert!(
            read(&many).1.contains("more than 65536 messages, or 16384 signals in one message")
        );
        // Selectors of selectors, one more than are followed.
        let chain = |length: usize| {
            let signal = |n| format!(" SG_ s{n} m0M:{n}|1@1+(1,0)[0|0]\"\"A\n");
            let rule = |n| format!("SG_MUL_VAL_ 1 s{n} s{} 0-0;\n", n + 1);
            let signals: String = (0..length).map(signal).collect();
            let rules: String = (0..length).map(rule).collect();
            format!("BO_ 1 A:8 B\n{signals} SG_ s{length} M:{length}|1@1+(1,0)[0|0]\"\"A\n{rules}")
        };
        let longest = good(&chain(MAX_NESTING));
        let message = &longest.messages()[0];
        assert_eq!(message.decode_data(&[0; 8]).count(), MAX_NESTING + 1);
        let (longer, reported) = read(&chain(MAX_NESTING + 1));
        assert_eq!(longer.unwrap().messages()[0].signals.len(), MAX_NESTING + 1);
        assert!(reported.contains("`s0` has no selector"), "{reported}");
    }

    #[test]
    fn files_without_an_end_of_findings_are_read_to_their_end() {
        let unknown = "VAL_ 9 S 0 \"no\";\n".repeat(2 * candor_diagnostics::MAX_FINDINGS);
        let (database, _) = read(&format!("{unknown}BO_ 1 A: 8 X\n"));
        assert_eq!(database.unwrap().messages().len(), 1);
        let used = "BO_ 1 A: 8 X\n".repeat(2 * candor_diagnostics::MAX_FINDINGS);
        let (database, _) = read(&format!("{used}BO_ 2 B: 8 X\n"));
        assert_eq!(database.unwrap().messages().len(), 2);
    }

    #[test]
    fn what_says_nothing_about_messages_is_passed_over() {
        let database = good(
            "BO_ 3221225472 VECTOR__INDEPENDENT_SIG_MSG: 0 Vector__XXX\n \
             SG_ Nowhere : 0|8@1+ (1,0) [0|0] \"\" Vector__XXX\n\
             BO_ 1 A: 8 X\nVAL_TABLE_ T 0 \"no\" 1 \"yes\";\nVAL_ Variable 0 \"no\";\n\
             VAL_ 3221225472 Nowhere 0 \"no\";\nSIG_TYPE_REF_ 1 S : T;\nSGTYPE_ what: ever;\n\
             EV_ Variable: 0 [0|1] \"\" 0 1 DUMMY_NODE_VECTOR0 A;\nBO_TX_BU_ 1 : A,B;\n",
        );
        assert_eq!((database.messages().len(), database.left_out()), (1, 0));
    }

    proptest! {
        /// Whatever the bytes are, they are read or refused, and a file that is refused has an error.
        #[test]
        fn any_text_is_read_or_refused(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("BO_ 1 A: 8 X\n".to_owned()),
                    Just(" SG_ S M : 0|8@1+ (1,0) [0|0] \"\" B\n".to_owned()),
                    Just("VAL_ 1 S 0 \"".to_owned()),
                    Just("SG_MUL_VAL_ 1 S S 0-1;\n".to_owned()),
                    Just("// \"\n".to_owned()),
                    Just("\\\"".to_owned()),
                    ".{0,8}",
                    "[\"\\\\\r\n a_0;:]{0,8}",
                ],
                0..12,
            ),
        ) {
            let text = parts.concat();
            let findings = Findings::new();
            let database = parse("t.dbc", text.as_bytes(), &findings);
            prop_assert_eq!(database.is_none(), findings.has_errors());
        }
    }
}
