//! Statements about messages and signals: attributes, names of values, kinds of numbers, selections.

use candor_diagnostics::Origin;
use candor_time::Nanos;

use super::grammar::AttributeOwner;
use super::reader::Reader;
use super::token::Token;
use crate::{ValueNames, ValueType};

/// Attributes that are looked at.
const CYCLE_TIME: &str = "GenMsgCycleTime";
const FRAME_FORMAT: &str = "VFrameFormat";
const PROTOCOL: &str = "ProtocolType";
const LONG_MESSAGE_NAME: &str = "SystemMessageLongSymbol";
const LONG_SIGNAL_NAME: &str = "SystemSignalLongSymbol";

impl<'a> Reader<'a> {
    /// `BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN";`
    pub(super) fn definition(&mut self, attribute: Token<'a>, names: &[Token<'a>]) {
        if attribute.unescaped() == FRAME_FORMAT {
            self.frame_formats = names.iter().map(|name| name.unescaped().into_owned()).collect();
        }
    }

    /// `BA_DEF_DEF_ "GenMsgCycleTime" 100;`
    pub(super) fn default(&mut self, attribute: Token<'a>, value: Token<'a>) {
        let text = || Some(value.unescaped().into_owned());
        match attribute.unescaped().as_ref() {
            CYCLE_TIME => self.default_cycle_time = cycle_time(value),
            FRAME_FORMAT => self.default_frame_format = text(),
            PROTOCOL => self.default_protocol = text(),
            _ => {}
        }
    }

    /// `BA_ "GenMsgCycleTime" BO_ 291 10;`
    pub(super) fn attribute(
        &mut self,
        attribute: Token<'a>,
        of: &AttributeOwner<'a>,
        value: Token<'a>,
    ) {
        let text = value.unescaped();
        match (attribute.unescaped().as_ref(), of) {
            (PROTOCOL, AttributeOwner::File) => self.protocol = Some(text.into_owned()),
            (
                name @ (CYCLE_TIME | FRAME_FORMAT | LONG_MESSAGE_NAME),
                &AttributeOwner::Message(number),
            ) => {
                let Some(index) = self.message_at(number) else { return };
                let format = self.frame_format(value);
                let Some(draft) = self.drafts.get_mut(index) else { return };
                match name {
                    CYCLE_TIME => draft.cycle_time = Some(cycle_time(value)),
                    FRAME_FORMAT => draft.frame_format = Some(format),
                    _ => draft.long_name = Some(text.into_owned()),
                }
            }
            (LONG_SIGNAL_NAME, &AttributeOwner::Signal(number, signal)) => {
                if let Some(draft) = self.signal_at(number, signal) {
                    draft.long_name = Some(text.into_owned());
                }
            }
            _ => {}
        }
    }

    /// The name of a format, which may be written as its number: that of the definition of the file, or the
    /// usual one if there is none.
    fn frame_format(&self, value: Token<'a>) -> String {
        let index = value.text.parse::<usize>().ok().filter(|_| !value.is_quoted);
        let defined = index.and_then(|index| self.frame_formats.get(index));
        match (defined, index) {
            (Some(name), _) => name.clone(),
            (None, Some(14)) if self.frame_formats.is_empty() => "StandardCAN_FD".into(),
            (None, Some(15)) if self.frame_formats.is_empty() => "ExtendedCAN_FD".into(),
            _ => value.unescaped().into_owned(),
        }
    }

    /// `VAL_ 291 Gear 0 "neutral" 1 "first" ;`
    pub(super) fn value_names(
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
    pub(super) fn value_type(
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
    pub(super) fn selection(
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
}

/// A time in milliseconds, if it is more than none.
fn cycle_time(value: Token<'_>) -> Option<Nanos> {
    let text = value.text;
    let time = match text.parse() {
        Ok(millis) => Nanos::from_millis(millis),
        // At the ends of u64 if it is outside.
        Err(_) => Nanos::from_nanos((text.parse::<f64>().ok()? * 1e6).round() as u64),
    };
    (time > Nanos::ZERO).then_some(time)
}
