//! Where the values of a step are: signals by their names in DBC files, or fields by their bits.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use candor_config::{Data, Section, Value};
use candor_signals::{Message as DbcMessage, Scaling, Signal as DbcSignal, ValueType};
use candor_wire::can::frame::{self, fd_dlc};
use candor_wire::can::{ByteOrder, Field};

use crate::file::edit::{data_size, id_word};
use candor_engine::Gate;
use candor_engine::extension::Conversion;
use candor_engine::extension::action::{Action, Message, Place};

use super::{Layout, StepReader, finite};
use crate::file::extension::{RuleContext, length_of};

/// Where a signal is: in the frame that was received, or in the one that is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Received,
    Sent,
}

impl StepReader<'_> {
    /// A signal by name, or by its bits.
    pub(super) fn place(&self, value: &Value, side: Side) -> Option<Place> {
        match &value.data {
            Data::String(name) => self.named(name, value, side),
            Data::Table(table) => {
                let mut section = Section::new(table, self.findings);
                let name = section.string("name").unwrap_or("signal").to_owned();
                let field = self.field(&mut section);
                let (scale, offset) =
                    (finite(&mut section, "scale"), finite(&mut section, "offset"));
                let (least, most) = (finite(&mut section, "min"), finite(&mut section, "max"));
                section.finish();
                let (scale, offset) = (scale?.unwrap_or(1.0), offset?.unwrap_or(0.0));
                if scale == 0.0 {
                    let message = "`scale` is zero, so all values are the same";
                    self.findings.error(&value.origin, message);
                    return None;
                }
                let (least, most) = (least?, most?);
                if least.zip(most).is_some_and(|(least, most)| least > most) {
                    let message = "`min` is greater than `max`";
                    self.findings.error(&value.origin, message);
                    return None;
                }
                let range = match (least, most) {
                    (None, None) => None,
                    (least, most) => Some((least.unwrap_or(f64::MIN), most.unwrap_or(f64::MAX))),
                };
                Some(Place { name, field: field?, scale, offset, range })
            }
            _ => {
                let expected = "the name of a signal, or { bit = 0, bits = 8, ... }";
                value.wrong_type("signal", expected, self.findings);
                None
            }
        }
    }

    pub(super) fn named(&self, name: &str, value: &Value, side: Side) -> Option<Place> {
        let fail = |message: String, hint: String| {
            self.findings.error_with_hint(&value.origin, message, hint);
            None
        };
        if side == Side::Sent && !name.contains('.') {
            match &self.layout {
                Layout::Received => {}
                Layout::Message(message) => {
                    return match message.signal_named(name) {
                        Ok(signal) => self.place_of(signal, value),
                        Err(error) => fail(
                            error.to_string(),
                            format!(
                                "after the step `message`, the frame \
                                                             is a {}",
                                message.name
                            ),
                        ),
                    };
                }
                Layout::Unknown => {
                    let message =
                        format!("the place of the signal `{name}` in the new frame is not known");
                    let hint = "add a step { message = \"EngineData\" } before this one, or write \
                                Message.Signal, or { bit = 0, bits = 8 }";
                    return fail(message, hint.into());
                }
            }
        }
        if name.contains('.') {
            return self.of_message(name, value, side);
        }
        if self.context.files.database(self.context.from).is_none() {
            return self.no_database(name, value);
        }
        let taken = self.taken();
        let mut found: Vec<&DbcSignal> = Vec::new();
        for message in &taken {
            match message.signal_named(name) {
                Ok(signal) => found.push(signal),
                Err(error) => {
                    let hint = "let `match` take only messages that have this signal";
                    return fail(error.to_string(), hint.into());
                }
            }
        }
        let Some(&signal) = found.first() else {
            let message = format!("`match` names no message that has the signal `{name}`");
            let hint = "match messages by name: match = [\"message EngineData\"]; or write \
                        Message.Signal";
            return fail(message, hint.into());
        };
        let of = |signal: &DbcSignal| (signal.field, signal.scaling);
        if found.iter().any(|other| of(other) != of(signal)) {
            let message = format!("signal `{name}` differs between the messages of this rule");
            return fail(message, "write a rule for each".into());
        }
        self.place_of(signal, value)
    }

    pub(super) fn no_database(&self, name: &str, value: &Value) -> Option<Place> {
        let message = format!("no DBC file describes the signal `{name}`");
        let hint = "add a DBC file to its bus: [bus] name = { port = \"can0\", dbc = \"car.dbc\" \
                    }; or write { bit = 0, bits = 8 }";
        self.findings.error_with_hint(&value.origin, message, hint);
        None
    }

    /// The signal `Message.Signal`: of the bus that the frame comes from, or of those that it goes
    /// to, if they tell.
    pub(super) fn of_message(&self, name: &str, value: &Value, side: Side) -> Option<Place> {
        let RuleContext { from, to, files, .. } = *self.context;
        let received = files.database(from).into_iter();
        let databases: Vec<_> = match side {
            Side::Received => received.collect(),
            Side::Sent => {
                let sent = files.databases(to).into_iter().map(|database| &**database);
                let sent: Vec<_> = sent.collect();
                if sent.is_empty() { received.collect() } else { sent }
            }
        };
        let Some(first) = databases.first() else { return self.no_database(name, value) };
        let place = match first.signal_named(name) {
            Ok((_, signal)) => self.place_of(signal, value)?,
            Err(error) => {
                let hint = "write the signal as Message.Signal";
                self.findings.error_with_hint(&value.origin, error.to_string(), hint);
                return None;
            }
        };
        let others = databases.iter().skip(1).filter_map(|other| other.signal_named(name).ok());
        let is_same = |signal: &DbcSignal| {
            let Place { field, scale, offset, .. } = place;
            (signal.field, signal.scaling) == (field, Scaling::new(scale, offset))
        };
        if others.into_iter().any(|(_, signal)| !is_same(signal)) {
            let message = format!("signal `{name}` differs between the destinations");
            let hint = "write a rule for each";
            self.findings.error_with_hint(&value.origin, message, hint);
            return None;
        }
        Some(place)
    }

    pub(super) fn place_of(&self, signal: &DbcSignal, value: &Value) -> Option<Place> {
        let refuse = |reason: &str| {
            let message = format!("signal `{}` {reason}", signal.name);
            self.findings.error(&value.origin, message);
            None
        };
        if signal.value_type != ValueType::Integer {
            return refuse("is a floating point number, and rules cannot compute with those");
        }
        if signal.selection.is_some() {
            return refuse("is multiplexed, and rules cannot compute with those");
        }
        if signal.scaling.scale() == 0.0 {
            return refuse("has the scale 0, so all its values are the same");
        }
        Some(Place {
            name: signal.name.clone(),
            field: signal.field,
            scale: signal.scaling.scale(),
            offset: signal.scaling.offset(),
            range: signal.limits.as_ref().map(|limits| (*limits.start(), *limits.end())),
        })
    }

    /// `bit`, `bits`, `order`, `signed`.
    pub(super) fn field(&self, section: &mut Section<'_>) -> Option<Field> {
        section.require(&["bit", "bits"]);
        let bit = section.integer("bit", 0..=511_u16);
        let bits = section.integer("bits", 1..=64_u8);
        let orders = [("intel", ByteOrder::Intel), ("motorola", ByteOrder::Motorola)];
        let order = section.one_of("order", &orders).unwrap_or(ByteOrder::Intel);
        let is_signed = section.boolean("signed").unwrap_or(false);
        let field = Field::new(bit?, bits?, order, is_signed)
            .and_then(|field| field.within(usize::from(self.size())));
        field.map_err(|error| self.findings.error(section.origin(), error.to_string())).ok()
    }

    pub(super) fn message(
        &mut self,
        step: &mut Section<'_>,
        conversion: Option<Conversion>,
    ) -> Option<Action> {
        let value = step.value("message")?;
        let fail = |message: String, hint: &str| {
            self.findings.error_with_hint(&value.origin, message, hint);
            None
        };
        let message = match &value.data {
            Data::String(name) => {
                let databases = self.context.files.databases(self.context.to);
                let Some((first, others)) = databases.split_first() else {
                    let message = format!(
                        "no DBC file of the destination describes message \
                                           `{name}`"
                    );
                    return fail(
                        message,
                        "add a DBC file to the destination's bus, or write { id \
                                          = ... }",
                    );
                };
                match first.message_named(name) {
                    Ok(message) => {
                        let others = others.iter().filter_map(|it| it.message_named(name).ok());
                        let of = |it: &DbcMessage| (it.id, it.length);
                        if others.into_iter().any(|other| of(other) != of(message)) {
                            let message =
                                format!("message `{name}` differs between the destinations");
                            return fail(message, "write a rule for each");
                        }
                        self.layout = Layout::Message(Box::new(message.clone()));
                        Message {
                            name: message.name.clone(),
                            can_id: frame::id_word(message.id),
                            len: length_of(message),
                        }
                    }
                    Err(error) => return fail(error.to_string(), "check the DBC file"),
                }
            }
            Data::Table(table) => {
                let mut section = Section::new(table, self.findings);
                section.require(&["id", "length"]);
                let name = section.string("name").unwrap_or("message").to_owned();
                let id = section.value("id").and_then(|value| id_word(value, self.findings));
                let len = section.integer("length", 0..=64_u8);
                section.finish();
                self.layout = Layout::Unknown;
                Message { name, can_id: id?, len: len? }
            }
            _ => {
                let expected = "the name of a message, or { id = \"0x123\", length = 8 }";
                value.wrong_type("message", expected, self.findings);
                return None;
            }
        };
        let is_fd = match conversion {
            Some(conversion) => conversion.is_fd(),
            None => self.context.gate == Gate::Fd,
        };
        let len = usize::from(message.len);
        let size = data_size(self.context.gate);
        if !is_fd && len > 8 || len > size || fd_dlc(len).is_none() {
            let text = format!("message `{}` has {len} bytes", message.name);
            let hint = match (is_fd, len > size) {
                (false, _) if self.context.gate == Gate::Fd => "classical frames have at most 8",
                (false, _) => "classical frames have at most 8; add frames = \"fd\"",
                (true, true) => "a frame that is converted to classical has at most 8",
                (true, false) => "CAN FD frames have 0 to 8, 12, 16, 20, 24, 32, 48 or 64",
            };
            return fail(text, hint);
        }
        Some(Action::Message(message))
    }
}
