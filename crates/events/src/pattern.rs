//! [`Pattern`]: which topics are wanted.

use candor_wire::can::Id;
use candor_wire::can::frame::{group_number, id_word};
use wildmatch::WildMatch;

use crate::topic::Topic;

/// Which topics are wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Signals, by a name in which `*` stands for anything and `?` for one character. Without a `/` it does not look at
    /// the bus.
    Name(String),
    /// The raw frames with an identifier, on any bus.
    Id(Id),
    /// The raw frames with a group number (PGN, SAE J1939), on any bus.
    Group(u32),
    /// All raw frames.
    Raw,
}

/// A pattern that is compared with many topics: what that needs is made once.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    pattern: Pattern,
    glob: Option<WildMatch>,
}

impl Matcher {
    pub(crate) fn new(pattern: Pattern) -> Self {
        let glob = match &pattern {
            // Most are names, and most differ.
            Pattern::Name(name) if name.contains(['*', '?']) => Some(WildMatch::new(name)),
            _ => None,
        };
        Self { pattern, glob }
    }

    pub(crate) const fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether the pattern means the topic.
    pub(crate) fn takes(&self, topic: &Topic) -> bool {
        match &self.pattern {
            Pattern::Name(_) if topic.is_raw() => false,
            Pattern::Name(pattern) => {
                let name = match pattern.contains('/') {
                    true => &topic.name,
                    false => topic.plain_name(),
                };
                self.glob.as_ref().map_or(name == pattern, |glob| glob.matches(name))
            }
            Pattern::Id(id) => topic.is_raw() && id_word(topic.id()) == id_word(*id),
            Pattern::Group(group) => topic.is_raw() && group_number(topic.id()) == Some(*group),
            Pattern::Raw => topic.is_raw(),
        }
    }
}
