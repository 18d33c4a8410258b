//! [`Fit`]: whether a database is that of the bus whose frames come.

use candor_diagnostics::{counted, visible};
use candor_time::Nanos;
use candor_wire::can::Id;
use candor_wire::can::frame::id_word;
use candor_wire::can::notation::Identifier;

use crate::Database;

/// Whether a database describes any of the frames that come, and identifiers of those that it does not.
///
/// It takes no time once a frame was described, and keeps at most [`Fit::MOST_IDS`] identifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    is_any: bool,
    /// The first different ones.
    ids: Vec<Id>,
    is_more: bool,
}

impl Fit {
    /// How many identifiers are named.
    pub const MOST_IDS: usize = 4;

    /// A frame came, which the database describes or not. Error reports are no frames of a database.
    #[inline]
    pub fn see(&mut self, id: Id, is_described: bool) {
        if self.is_any {
            return;
        }
        self.is_any = is_described;
        if self.ids.contains(&id) {
            return;
        }
        if self.ids.len() < Self::MOST_IDS {
            self.ids.push(id);
        } else {
            self.is_more = true;
        }
    }

    /// Whether a frame was described.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.is_any
    }

    /// Whether frames came and none was described.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.is_any && !self.ids.is_empty()
    }

    /// Whether so many frames, the first of which came so long ago, are enough to say that none is described, though
    /// more may come: 100 within 1 s, or any within 5 s.
    #[must_use]
    pub fn is_evident(&self, frames: u64, since: Nanos) -> bool {
        let patience = Nanos::from_secs(if frames >= 100 { 1 } else { 5 });
        self.is_none() && since >= patience
    }

    /// Says that none of so many frames of a place, such as a recording or a port, is described.
    #[must_use]
    pub fn words(&self, database: &Database, frames: u64, place: &str) -> String {
        let show = |&id| format!("0x{}", Identifier(id_word(id)));
        let mut ids: Vec<_> = self.ids.iter().map(show).collect();
        if self.is_more {
            ids.push("...".to_owned());
        }
        let what = if ids.len() == 1 { "identifier" } else { "identifiers" };
        let of = match frames {
            1 => "does not describe the 1 frame".to_owned(),
            _ => format!("describes none of the {}", counted(frames, "frame")),
        };
        format!(
            "{} {of} of {} ({what} {}); give the DBC file of this bus",
            visible(database.name()),
            visible(place),
            ids.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use candor_diagnostics::Findings;
    use candor_wire::can::Frame;

    use super::*;

    fn seen(database: &Database, frames: &[&str]) -> Fit {
        let mut fit = Fit::default();
        for frame in frames {
            let frame: Frame = frame.parse().unwrap();
            fit.see(frame.id(), database.message_of(&frame).is_some());
        }
        fit
    }

    #[test]
    fn a_database_that_describes_none_of_the_frames_is_told_with_their_identifiers() {
        let database = Database::parse("a.dbc", b"BO_ 291 M: 8 A\n", &Findings::new()).unwrap();
        for (frames, expected) in [
            (&[][..], None),
            (&["123#", "124#"], None),
            (&["124#", "125#", "126#", "127#", "128#", "123#"], None),
            (&["124#"], Some("a.dbc does not describe the 1 frame of x (identifier 0x124)")),
            (
                &["00000123#", "001#", "001#R"],
                Some("a.dbc describes none of the 3 frames of x (identifiers 0x00000123, 0x001)"),
            ),
            (
                &["001#", "002#", "003#", "004#", "005#", "001#"],
                Some(
                    "a.dbc describes none of the 6 frames of x (identifiers 0x001, 0x002, 0x003, \
                     0x004, ...)",
                ),
            ),
        ] {
            let fit = seen(&database, frames);
            let words = fit.words(&database, frames.len() as u64, "x");
            let words = fit.is_none().then_some(words);
            let expected = expected.map(|it| format!("{it}; give the DBC file of this bus"));
            assert_eq!(words, expected, "{frames:?}");
        }
    }

    #[test]
    fn it_is_evident_after_a_while() {
        let database = Database::parse("a.dbc", b"BO_ 291 M: 8 A\n", &Findings::new()).unwrap();
        let (none, fits) = (seen(&database, &["124#"]), seen(&database, &["123#"]));
        for (fit, frames, since_ms, expected) in [
            (&none, 99, 4_999, false),
            (&none, 99, 5_000, true),
            (&none, 100, 999, false),
            (&none, 100, 1_000, true),
            (&fits, 100, 5_000, false),
            (&Fit::default(), 0, 5_000, false),
        ] {
            let is_evident = fit.is_evident(frames, Nanos::from_millis(since_ms));
            assert_eq!(is_evident, expected, "{frames} in {since_ms} ms");
        }
    }
}
