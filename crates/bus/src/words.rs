//! Frames and signals by their names in a DBC file: shown, selected, and made.

use std::sync::Arc;

use candor_signals::{Database, Decoded, Message, NotFound, Wanted};
use candor_wire::can::Frame;

/// A database, and what of it is of interest.
#[derive(Debug)]
pub struct View {
    database: Arc<Database>,
    wanted: Wanted,
}

impl View {
    /// All messages that one of these patterns means, and those that have a signal that one of these patterns means, of
    /// which only such signals are shown. No patterns: everything, known or not. [`Wanted`] has how they are written.
    ///
    /// # Errors
    /// A pattern that means nothing in the database.
    pub fn new(
        database: impl Into<Arc<Database>>,
        messages: &[String],
        signals: &[String],
    ) -> Result<Self, NotFound> {
        let database = database.into();
        let wanted = Wanted::with_messages(&database, messages, signals)?;
        Ok(Self { database, wanted })
    }

    #[must_use]
    pub const fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// What of it is of interest.
    #[must_use]
    pub const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether every frame is of interest.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.wanted.is_all()
    }

    /// Whether a frame is of interest.
    #[must_use]
    pub fn takes(&self, frame: &Frame) -> bool {
        if self.is_everything() {
            return true;
        }
        let is_named = |place| self.wanted.is_named(place);
        self.database.position_of(frame).is_some_and(is_named)
            || self.decode(frame).next().is_some()
    }

    /// The message that a frame is, if it is known.
    #[must_use]
    pub fn message(&self, frame: &Frame) -> Option<&Message> {
        self.database.message_of(frame)
    }

    /// The signals of interest in a frame; none if it is not known.
    pub fn decode<'a>(&'a self, frame: &'a Frame) -> impl Iterator<Item = Decoded<'a>> {
        let place = self.database.position_of(frame);
        let wanted = place.map_or(&[][..], |place| self.wanted.of(place));
        let message = place.and_then(|place| self.database.messages().get(place));
        let signal = move |&place: &usize| {
            let message = message?;
            message.read(message.signals.get(place)?, frame.data())
        };
        wanted.iter().filter_map(signal)
    }

    /// A frame in words, such as `EngineData: EngineSpeed 1200 rpm, Gear first`; `None` if it is
    /// not known.
    #[must_use]
    pub fn describe(&self, frame: &Frame) -> Option<String> {
        let message = self.message(frame)?;
        let values: Vec<_> = self.decode(frame).map(|decoded| show_value(&decoded)).collect();
        Some(format!("{}: {}", message.name, values.join(", ")))
    }
}

/// A signal with its value and unit.
#[must_use]
pub fn show_value(decoded: &Decoded<'_>) -> String {
    let name = &decoded.signal.name;
    match decoded.value_name() {
        Some(value) => format!("{name} {value}"),
        None if decoded.signal.unit.is_empty() => format!("{name} {}", number(decoded.physical)),
        None => format!("{name} {} {}", number(decoded.physical), decoded.signal.unit),
    }
}

/// A number as short as ten digits of it allow: 13.7, though the sum of its bits is
/// 13.700000000000001.
#[must_use]
pub fn number(value: f64) -> String {
    let is_whole = value.fract() == 0.0;
    let rounded = if is_whole { value } else { format!("{value:.9e}").parse().unwrap_or(value) };
    // Not -0.
    let rounded = if rounded == 0.0 { 0.0 } else { rounded };
    if rounded != 0.0 && !(1e-6..1e15).contains(&f64::abs(rounded)) {
        format!("{rounded:e}")
    } else {
        format!("{rounded}")
    }
}

/// Reads frames: `123#DEADBEEF` or the name of a message with values of its signals behind it, such
/// as `EngineData EngineSpeed=1200 Gear=first`.
///
/// # Errors
/// One sentence: what is wrong with which word, and the remedy.
pub fn frames<'a>(
    words: impl IntoIterator<Item = &'a str>,
    database: Option<&Database>,
) -> Result<Vec<Frame>, String> {
    let mut frames = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word.contains('#') {
            frames.push(word.parse().map_err(|error| format!("`{word}` is not a frame: {error}"))?);
            continue;
        }
        let Some(database) = database else {
            return Err(match word.contains('=') {
                true => {
                    format!("`{word}` is a signal value, but there is no DBC file; add --dbc FILE")
                }
                false => format!(
                    "`{word}` is not a frame; write 123#DEADBEEF, or add --dbc FILE to use names"
                ),
            });
        };
        if word.contains('=') {
            return Err(format!(
                "`{word}` is a signal value, but no message comes before it; write Message \
                 Signal=value"
            ));
        }
        let message = database.message_named(word).map_err(|error| error.to_string())?;
        let mut values = Vec::new();
        while let Some(value) = words.next_if(|next| next.contains('=') && !next.contains('#')) {
            values.push(read_value(message, value)?);
        }
        frames.push(message.encode(values).map_err(|error| error.to_string())?);
    }
    Ok(frames)
}

fn read_value<'a>(message: &Message, word: &'a str) -> Result<(&'a str, f64), String> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let signal = message.signal_named(name).map_err(|error| error.to_string())?;
    if let Ok(number) = value.parse::<f64>()
        && number.is_finite()
    {
        return Ok((name, number));
    }
    if signal.value_names.is_empty() {
        return Err(format!(
            "`{value}` is not a value of signal `{name}`; write a number in its unit, such as \
             {name}=1200"
        ));
    }
    let raw = signal.value_named(value).map_err(|error| error.to_string())?;
    Ok((name, signal.physical(raw)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_diagnostics::Findings;

    const DBC: &str = "BU_: Engine\n\nBO_ 291 Motor: 8 Engine\n \
        SG_ Speed : 7|16@0+ (0.25,0) [0|16000] \"rpm\" Vector__XXX\n \
        SG_ Gear : 16|4@1+ (1,0) [0|15] \"\" Vector__XXX\n \
        SG_ Voltage : 24|8@1+ (0.1,0) [0|25] \"V\" Vector__XXX\n\n\
        BO_ 2566834709 Body: 2 Engine\n \
        SG_ Voltage : 0|8@1+ (0.1,0) [0|25] \"V\" Vector__XXX\n\n\
        VAL_ 291 Gear 0 \"neutral\" 1 \"first\" ;\n";

    fn database() -> Database {
        let findings = Findings::new();
        Database::parse("car.dbc", DBC.as_bytes(), &findings).unwrap()
    }

    fn view(messages: &[&str], signals: &[&str]) -> Result<View, NotFound> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        View::new(database(), &owned(messages), &owned(signals))
    }

    #[test]
    fn frames_are_described_with_their_signals() {
        let motor = "123#0FA0018900000000".parse().unwrap();
        let body = "18FECA15#89FF".parse().unwrap();
        let other = "124#".parse().unwrap();
        let all = "Motor: Speed 1000 rpm, Gear first, Voltage 13.7 V";
        for (messages, signals, expected) in [
            (&[][..], &[][..], [Some(all), Some("Body: Voltage 13.7 V"), None]),
            (&["Motor"], &[], [Some(all), None, None]),
            (&[], &["Motor.Gear"], [Some("Motor: Gear first"), None, None]),
            (
                &[],
                &["Voltage"],
                [Some("Motor: Voltage 13.7 V"), Some("Body: Voltage 13.7 V"), None],
            ),
            (
                &["B*"],
                &["M?tor.G*"],
                [Some("Motor: Gear first"), Some("Body: Voltage 13.7 V"), None],
            ),
        ] {
            let view = view(messages, signals).unwrap();
            for (frame, expected) in [motor, body, other].iter().zip(expected) {
                if expected.is_some() {
                    assert_eq!(view.describe(frame).as_deref(), expected);
                }
                let takes = expected.is_some() || (messages.is_empty() && signals.is_empty());
                assert_eq!(view.takes(frame), takes, "{frame} {messages:?} {signals:?}");
            }
        }
    }

    #[test]
    fn names_that_are_not_there_are_reported_with_those_that_are() {
        for (messages, signals, error) in [
            (
                &["Moto"][..],
                &[][..],
                "no message of car.dbc is called `Moto`; did you mean `Motor`?",
            ),
            (&[], &["Motor.Geer"], "no signal of `Motor` is called `Geer`; did you mean `Gear`?"),
            (&[], &["Geer"], "no signal of car.dbc is called `Geer`; did you mean `Gear`?"),
        ] {
            assert_eq!(view(messages, signals).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn frames_are_made_of_words() {
        let read = |words: &str| {
            frames(words.split(' '), Some(&database()))
                .map(|frames| frames.iter().map(Frame::to_string).collect::<Vec<_>>().join(" "))
        };
        for (words, expected) in [
            ("123#DEADBEEF 124#R", "123#DEADBEEF 124#R"),
            ("Motor Speed=1000 Gear=first", "123#0FA0010000000000"),
            (
                "Motor Motor Gear=1 124# Body",
                "123#0000000000000000 123#0000010000000000 124# 18FECA15#0000",
            ),
        ] {
            assert_eq!(read(words).as_deref(), Ok(expected));
        }
        for (words, error) in [
            ("12#", "`12#` is not a frame: an identifier has 3 hex digits"),
            ("Speed=1", "`Speed=1` is a signal value, but no message comes before it"),
            ("Moter", "no message of car.dbc is called `Moter`; did you mean `Motor`?"),
            ("Motor Sped=1", "no signal of `Motor` is called `Sped`; did you mean `Speed`?"),
            ("Motor Gear=frist", "no value of `Gear` is called `frist`; did you mean `first`?"),
            ("Motor Speed=fast", "`fast` is not a value of signal `Speed`; write a number"),
            ("Motor Speed=inf", "`inf` is not a value of signal `Speed`; write a number"),
        ] {
            let reported = read(words).unwrap_err();
            assert!(reported.starts_with(error), "{reported}");
        }
        assert!(read("Motor Speed=99999").is_err());
        assert!(frames(["Motor"], None).unwrap_err().contains("add --dbc FILE to use names"));
        assert!(frames(["Speed=1"], None).unwrap_err().contains("no DBC file; add --dbc FILE"));
    }

    #[test]
    fn numbers_are_shown_short() {
        for (value, shown) in [
            (0.1 + 0.2, "0.3"),
            (137.0 * 0.1, "13.7"),
            (-0.0, "0"),
            (1200.0, "1200"),
            (1e-9, "1e-9"),
            (4_294_967_295.0, "4294967295"),
            (281_474_976_710_655.0, "281474976710655"),
            (1e30, "1e30"),
        ] {
            assert_eq!(number(value), shown);
        }
    }
}
