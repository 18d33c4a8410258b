//! [`Selection`]: which signals are wanted.

use candor_signals::{Database, NotFound};
use wildmatch::WildMatch;

/// Which signals of a database are wanted, and whether they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// By message: places of its wanted signals, in their order.
    signals: Vec<Vec<usize>>,
    is_all: bool,
}

impl Selection {
    /// All signals of a database.
    #[must_use]
    pub fn all(database: &Database) -> Self {
        let signals = database.messages().iter().map(|it| (0..it.signals.len()).collect());
        Self { signals: signals.collect(), is_all: true }
    }

    /// The signals that any of the patterns means. A pattern is `Message.Signal`, or only `Signal` of any message; `*` stands for
    /// anything, and `?` for one character.
    ///
    /// # Errors
    /// A pattern means no signal.
    pub fn new(database: &Database, patterns: &[impl AsRef<str>]) -> Result<Self, NotFound> {
        let mut signals = vec![Vec::new(); database.messages().len()];
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let (message_glob, signal_glob) = pattern.split_once('.').unwrap_or(("*", pattern));
            let (message_glob, signal_glob) =
                (WildMatch::new(message_glob), WildMatch::new(signal_glob));
            let mut is_found = false;
            for (message, taken) in database.messages().iter().zip(&mut signals) {
                if !message_glob.matches(&message.name) {
                    continue;
                }
                let meant = message.signals.iter().enumerate();
                let meant = meant.filter(|(_, signal)| signal_glob.matches(&signal.name));
                for (place, _) in meant {
                    is_found = true;
                    taken.push(place);
                }
            }
            if !is_found {
                return Err(not_found(database, pattern));
            }
        }
        for taken in &mut signals {
            taken.sort_unstable();
            taken.dedup();
        }
        Ok(Self { signals, is_all: false })
    }

    /// The wanted signals of the message at this place.
    #[must_use]
    pub fn of(&self, message: usize) -> &[usize] {
        self.signals.get(message).map_or(&[], Vec::as_slice)
    }

    /// Whether signals of the message at this place were asked for by a pattern.
    #[must_use]
    pub fn is_asked_for(&self, message: usize) -> bool {
        !self.is_all && !self.of(message).is_empty()
    }
}

/// A pattern that means nothing, with the name that it is nearest to.
fn not_found(database: &Database, pattern: &str) -> NotFound {
    let messages = database.messages();
    match pattern.split_once('.') {
        Some((name, signal)) => match database.message_named(name) {
            Ok(message) => match message.signal_named(signal) {
                Ok(_) => NotFound::new("signal", pattern, database.name(), []),
                Err(error) => error,
            },
            Err(error) => error,
        },
        None => {
            let signals = messages.iter().flat_map(|message| &message.signals);
            let names = signals.map(|signal| signal.name.as_str());
            NotFound::new("signal", pattern, database.name(), names)
        }
    }
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
            let selection = Selection::new(&database, patterns).unwrap();
            assert_eq!((selection.of(0), selection.of(1)), (engine, wheels), "{patterns:?}");
            assert_eq!(selection.is_asked_for(1), !wheels.is_empty());
        }
        let all = Selection::all(&database);
        assert_eq!((all.of(0), all.of(1), all.is_asked_for(0)), (&[0, 1][..], &[0, 1][..], false));
        for (pattern, expected) in [
            ("Sped", "no signal of car.dbc is called `Sped`; did you mean `Speed`?"),
            ("Engin.Speed", "no message of car.dbc is called `Engin`; did you mean `Engine`?"),
            ("Engine.Tmp", "no signal of `Engine` is called `Tmp`; did you mean `Temp`?"),
            ("", "no signal of car.dbc is called ``"),
            ("*.X*", "no message of car.dbc is called `*`"),
        ] {
            let error = Selection::new(&database, &["Speed", pattern]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
