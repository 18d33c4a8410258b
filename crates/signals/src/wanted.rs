//! [`Wanted`]: which signals are wanted, by patterns of names.

use wildmatch::WildMatch;

use crate::database::Database;
use crate::error::NotFound;

/// Which signals of a database are wanted, and whether they were asked for.
///
/// In patterns `*` stands for anything, and `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    messages: Vec<OfMessage>,
    is_all: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfMessage {
    is_named: bool,
    /// Places of its wanted signals, in their order.
    signals: Vec<usize>,
}

impl Wanted {
    #[must_use]
    pub fn all(database: &Database) -> Self {
        let all = |signals| OfMessage { is_named: false, signals: (0..signals).collect() };
        let messages = database.messages().iter().map(|it| all(it.signals.len()));
        Self { messages: messages.collect(), is_all: true }
    }

    /// The signals that any of the patterns means. A pattern is `Message.Signal`, or only `Signal` of any message.
    ///
    /// # Errors
    /// A pattern means no signal.
    pub fn new(database: &Database, patterns: &[impl AsRef<str>]) -> Result<Self, NotFound> {
        let messages = vec![OfMessage::default(); database.messages().len()];
        let mut wanted = Self { messages, is_all: false };
        for pattern in patterns {
            wanted.add_signals(database, pattern.as_ref())?;
        }
        Ok(wanted)
    }

    /// All signals of messages, and those that [`Wanted::new`] takes. No patterns at all mean everything.
    ///
    /// # Errors
    /// A pattern means nothing.
    pub fn with_messages(
        database: &Database,
        messages: &[impl AsRef<str>],
        signals: &[impl AsRef<str>],
    ) -> Result<Self, NotFound> {
        if messages.is_empty() && signals.is_empty() {
            return Ok(Self::all(database));
        }
        let mut wanted = Self::new(database, signals)?;
        for pattern in messages {
            wanted.add_messages(database, pattern.as_ref())?;
        }
        Ok(wanted)
    }

    fn add_signals(&mut self, database: &Database, pattern: &str) -> Result<(), NotFound> {
        let (message_glob, signal_glob) = pattern.split_once('.').unwrap_or(("*", pattern));
        let (message_glob, signal_glob) =
            (WildMatch::new(message_glob), WildMatch::new(signal_glob));
        let mut is_found = false;
        for (message, wanted) in database.messages().iter().zip(&mut self.messages) {
            if !message_glob.matches(&message.name) {
                continue;
            }
            for (place, signal) in message.signals.iter().enumerate() {
                if signal_glob.matches(&signal.name) {
                    is_found = true;
                    if let Err(gap) = wanted.signals.binary_search(&place) {
                        wanted.signals.insert(gap, place);
                    }
                }
            }
        }
        if is_found { Ok(()) } else { Err(not_found(database, pattern)) }
    }

    fn add_messages(&mut self, database: &Database, pattern: &str) -> Result<(), NotFound> {
        let glob = WildMatch::new(pattern);
        let mut is_found = false;
        for (message, wanted) in database.messages().iter().zip(&mut self.messages) {
            if glob.matches(&message.name) {
                is_found = true;
                *wanted =
                    OfMessage { is_named: true, signals: (0..message.signals.len()).collect() };
            }
        }
        if is_found { Ok(()) } else { Err(no_message(database, pattern)) }
    }

    /// Whether everything is wanted, since nothing was asked for.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.is_all
    }

    /// The wanted signals of the message at this place.
    #[must_use]
    pub fn of(&self, message: usize) -> &[usize] {
        self.messages.get(message).map_or(&[], |wanted| &wanted.signals)
    }

    /// Whether a pattern means the message at this place, and not only signals of it.
    #[must_use]
    pub fn is_named(&self, message: usize) -> bool {
        self.messages.get(message).is_some_and(|wanted| wanted.is_named)
    }

    /// Whether the message at this place or signals of it were asked for by a pattern.
    #[must_use]
    pub fn is_asked_for(&self, message: usize) -> bool {
        !self.is_all && (self.is_named(message) || !self.of(message).is_empty())
    }
}

/// A pattern that means no message, with the name that it is nearest to.
fn no_message(database: &Database, pattern: &str) -> NotFound {
    let other = || NotFound::new("message", pattern, database.name(), []);
    database.message_named(pattern).err().unwrap_or_else(other)
}

/// A pattern that means no signal, with the name that it is nearest to.
fn not_found(database: &Database, pattern: &str) -> NotFound {
    let (message_pattern, signal) = pattern.split_once('.').unwrap_or(("*", pattern));
    let glob = WildMatch::new(message_pattern);
    let messages = database.messages().iter();
    let mut messages = messages.filter(|message| glob.matches(&message.name)).peekable();
    if messages.peek().is_none() {
        return no_message(database, message_pattern);
    }
    let place = match message_pattern {
        "*" => database.name().to_owned(),
        name => format!("`{name}`"),
    };
    let signals = messages.flat_map(|message| &message.signals);
    NotFound::new("signal", signal, &place, signals.map(|signal| signal.name.as_str()))
}

#[cfg(test)]
mod tests {
    use candor_diagnostics::Findings;

    use super::*;

    const CAR: &str = "\
BO_ 1 Engine: 8 A
 SG_ Speed : 0|16@1+ (1,0) [0|0] \"\" B
 SG_ Temp : 16|8@1+ (1,0) [0|0] \"\" B
BO_ 2 Wheels: 8 A
 SG_ Speed : 0|16@1+ (1,0) [0|0] \"\" B
 SG_ OilTemp : 16|8@1+ (1,0) [0|0] \"\" B
";

    #[test]
    fn patterns_mean_signals_of_messages() {
        let database = Database::parse("car.dbc", CAR.as_bytes(), &Findings::new()).unwrap();
        for (patterns, engine, wheels) in [
            (&["Engine.Speed"][..], &[0][..], &[][..]),
            (&["Speed"], &[0], &[0]),
            (&["*Temp"], &[1], &[1]),
            (&["?eels.*", "W*.*"][1..], &[], &[0, 1]),
            (&["Temp", "Engine.*", "Engine.Temp"], &[0, 1], &[]),
        ] {
            let wanted = Wanted::new(&database, patterns).unwrap();
            assert_eq!((wanted.of(0), wanted.of(1)), (engine, wheels), "{patterns:?}");
            assert_eq!(wanted.is_asked_for(1), !wheels.is_empty());
        }
        let all = Wanted::all(&database);
        assert_eq!((all.of(0), all.of(1), all.is_asked_for(0)), (&[0, 1][..], &[0, 1][..], false));
        let wanted = Wanted::with_messages(&database, &["Wh*"], &["Engine.Temp"]).unwrap();
        assert_eq!((wanted.of(0), wanted.of(1)), (&[1][..], &[0, 1][..]));
        assert_eq!((wanted.is_named(0), wanted.is_named(1)), (false, true));
        let none: [&str; 0] = [];
        assert_eq!(Wanted::with_messages(&database, &none, &none), Ok(Wanted::all(&database)));
        let error = Wanted::with_messages(&database, &["Wheel"], &none).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no message of car.dbc is called `Wheel`; did you mean `Wheels`?"
        );
        for (pattern, expected) in [
            ("Sped", "no signal of car.dbc is called `Sped`; did you mean `Speed`?"),
            ("Engin.Speed", "no message of car.dbc is called `Engin`; did you mean `Engine`?"),
            ("Engine.Tmp", "no signal of `Engine` is called `Tmp`; did you mean `Temp`?"),
            ("", "no signal of car.dbc is called ``"),
            ("*.X*", "no signal of car.dbc is called `X*`"),
            ("E*.Temq", "no signal of `E*` is called `Temq`; did you mean `Temp`?"),
            ("X*.Temp", "no message of car.dbc is called `X*`"),
        ] {
            let error = Wanted::new(&database, &["Speed", pattern]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
