//! [`Message`]: the layout of a frame.

use candor_time::Nanos;
use candor_wire::can::frame::FD_LENGTHS;
use candor_wire::can::{Frame, Id};

use crate::{Decoded, EncodeError, NotFound, Signal, Value};

/// How many selectors may decide about one signal, each selected by the next.
pub const MAX_NESTING: usize = 8;

/// The layout of the frames with one identifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What the file calls it; the long name if there is one.
    pub name: String,
    /// The identifier of its frames.
    pub id: Id,
    /// Whether frames are recognised by the group number (PGN) of SAE J1939 in their identifier alone,
    /// whatever their priority and source address are.
    pub is_j1939: bool,
    /// How many bytes its frames have. Messages of several frames have more than 64.
    pub length: usize,
    /// Whether its frames are CAN FD ones.
    pub is_fd: bool,
    /// The node that sends it.
    pub sender: Option<String>,
    /// How often it is sent, if it is sent again and again (`GenMsgCycleTime`).
    pub cycle_time: Option<Nanos>,
    /// Its signals, as written.
    pub signals: Vec<Signal>,
}

impl Message {
    /// The values of the signals in a frame, in the order of [`Message::signals`].
    ///
    /// Signals that are not selected are left out, and so are those after the end of the data. A
    /// remote frame has no data. Nothing is allocated.
    #[inline]
    pub fn decode<'a>(&'a self, frame: &'a Frame) -> impl Iterator<Item = Decoded<'a>> {
        self.decode_data(frame.data())
    }

    /// The same from the data of a frame.
    #[inline]
    pub fn decode_data<'a>(&'a self, data: &'a [u8]) -> impl Iterator<Item = Decoded<'a>> {
        self.signals.iter().filter_map(move |signal| self.read(signal, data))
    }

    /// One of its signals from the data of a frame; `None` if it is not selected or the data end before it.
    #[inline]
    #[must_use]
    pub fn read<'a>(&self, signal: &'a Signal, data: &[u8]) -> Option<Decoded<'a>> {
        let is_there = signal.selection.is_none() || self.is_selected(signal, data);
        if is_there { signal.read(data) } else { None }
    }

    /// Whether the selectors in the data select the signal.
    #[must_use]
    pub fn is_selected(&self, signal: &Signal, data: &[u8]) -> bool {
        self.selected(signal, data).is_ok()
    }

    /// If the signal is not selected, the selector that does not select it or its selector.
    fn selected(&self, signal: &Signal, data: &[u8]) -> Result<(), Option<&Signal>> {
        let mut signal = signal;
        for _ in 0..=MAX_NESTING {
            let Some(selection) = &signal.selection else { return Ok(()) };
            let selector = self.signals.get(selection.selector).ok_or(None)?;
            if !selector.field.get(data).is_some_and(|raw| selection.takes(raw)) {
                return Err(Some(selector));
            }
            signal = selector;
        }
        Err(None)
    }

    /// The signal with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn signal_named(&self, name: &str) -> Result<&Signal, NotFound> {
        self.signals.iter().find(|signal| signal.name == name).ok_or_else(|| {
            let known = self.signals.iter().map(|signal| signal.name.as_str());
            NotFound::new("signal", name, &format!("`{}`", self.name), known)
        })
    }

    /// A frame with these values, a physical one rounded to the nearest raw one. Every other bit is
    /// zero.
    ///
    /// # Errors
    /// A signal that the message does not have or that its selector does not select, a value that
    /// does not fit, or a message that is longer than a frame.
    pub fn encode<'a, V: Into<Value>>(
        &self,
        values: impl IntoIterator<Item = (&'a str, V)>,
    ) -> Result<Frame, EncodeError> {
        let too_long = || EncodeError::Length { message: self.name.clone(), length: self.length };
        let mut buffer = [0; 64];
        let data = buffer.get_mut(..self.length).ok_or_else(too_long)?;
        let mut given = Vec::new();
        for (name, value) in values {
            let signal = self.signal_named(name)?;
            signal.write(data, value)?;
            given.push(signal);
        }
        for signal in given {
            if let Err(selector) = self.selected(signal, data) {
                return Err(EncodeError::NotSelected {
                    signal: signal.name.clone(),
                    selector: selector.map(|it| it.name.clone()).unwrap_or_default(),
                });
            }
        }
        let frame = if self.is_fd {
            let length = FD_LENGTHS.iter().map(|&length| usize::from(length));
            let length = length.filter(|&length| length >= self.length).min();
            let data = length.and_then(|length| buffer.get(..length)).ok_or_else(too_long)?;
            Frame::fd(self.id, 0, data)
        } else {
            Frame::new(self.id, data)
        };
        frame.map_err(|_| too_long())
    }
}

#[cfg(test)]
mod tests {
    use candor_diagnostics::Findings;

    use crate::Database;

    const PAGES: &str = "\
BO_ 1 Pages: 4 A
 SG_ Page M : 0|4@1+ (1,0) [0|0] \"\" B
 SG_ Always : 4|4@1+ (1,0) [0|0] \"\" B
 SG_ Sub m1M : 8|4@1+ (1,0) [0|0] \"\" B
 SG_ Leaf m0 : 16|8@1+ (1,0) [0|0] \"\" B
 SG_ Other m0 : 8|16@1+ (1,0) [0|0] \"\" B
SG_MUL_VAL_ 1 Sub Page 1-1;
SG_MUL_VAL_ 1 Leaf Sub 2-3, 5-5;
SG_MUL_VAL_ 1 Other Page 0-0, 8-15;
BO_ 2 Long: 10 A
 SG_ Far : 72|8@1+ (1,0) [0|0] \"\" B
BO_ 3 TooLong: 100 A
 SG_ Near : 0|8@1+ (1,0) [0|0] \"\" B
";

    fn database() -> Database {
        let findings = Findings::new();
        let database = Database::parse("t.dbc", PAGES.as_bytes(), &findings);
        assert_eq!(findings.to_string(), "");
        database.unwrap()
    }

    #[test]
    fn selectors_decide_what_is_in_a_frame() {
        let database = database();
        for (frame, expected) in [
            ("001#00112200", "Page=0 Always=0 Other=8721"),
            ("001#71112200", "Page=1 Always=7 Sub=1"),
            ("001#71122200", "Page=1 Always=7 Sub=2 Leaf=34"),
            ("001#71132200", "Page=1 Always=7 Sub=3 Leaf=34"),
            ("001#71142200", "Page=1 Always=7 Sub=4"),
            ("001#71152200", "Page=1 Always=7 Sub=5 Leaf=34"),
            ("001#72152200", "Page=2 Always=7"),
            ("001#7F152200", "Page=15 Always=7 Other=8725"),
            // Data that ends early, or is not there at all.
            ("001#711222", "Page=1 Always=7 Sub=2 Leaf=34"),
            ("001#7112", "Page=1 Always=7 Sub=2"),
            ("001#71", "Page=1 Always=7"),
            ("001#", ""),
            ("001#R4", ""),
        ] {
            let frame = frame.parse().unwrap();
            let (_, decoded) = database.decode(&frame).unwrap();
            let shown: Vec<_> =
                decoded.map(|it| format!("{}={}", it.signal.name, it.physical)).collect();
            assert_eq!(shown.join(" "), expected, "{frame}");
        }
    }

    #[test]
    fn frames_are_made_of_values() {
        let database = database();
        let encode = |message: &str, values: &[(&str, f64)]| {
            let message = database.message_named(message).unwrap();
            let frame = message.encode(values.iter().copied());
            frame.map_or_else(|error| error.to_string(), |frame| frame.to_string())
        };
        for (message, values, expected) in [
            ("Pages", &[][..], "001#00000000"),
            ("Pages", &[("Page", 1.0), ("Sub", 2.0), ("Leaf", 255.0)], "001#0102FF00"),
            ("Pages", &[("Leaf", 255.0), ("Sub", 2.0), ("Page", 1.0)], "001#0102FF00"),
            ("Pages", &[("Other", 4660.0)], "001#00341200"),
            (
                "Pages",
                &[("Leaf", 1.0), ("Sub", 2.0)],
                "`Leaf` is not in a frame with this `Page`; give `Page` a value that selects it",
            ),
            (
                "Pages",
                &[("Laef", 1.0)],
                "no signal of `Pages` is called `Laef`; did you mean `Leaf`?",
            ),
            ("Pages", &[("Page", 16.0)], "`Page` is 16, but must be 0 to 15"),
            // CAN FD has no frames of 10 bytes.
            ("Long", &[("Far", 1.0)], "002##0000000000000000000010000"),
            ("TooLong", &[], "`TooLong` has 100 bytes, but a frame can have at most 64"),
        ] {
            assert_eq!(encode(message, values), expected);
        }
    }

    #[test]
    fn a_selector_that_is_not_there_selects_nothing() {
        // Only who builds a message by hand can do that.
        let mut message = database().message_named("Pages").unwrap().clone();
        message.signals.truncate(2);
        let selection = crate::Selection { selector: 7, ranges: [0..=9].into() };
        message.signals[0].selection = Some(selection);
        message.signals[1].selection =
            Some(crate::Selection { selector: 1, ranges: [0..=9].into() });
        assert_eq!(message.decode_data(&[0; 4]).count(), 0);
    }
}
