//! [`Pattern`]: which topics are wanted.

use candor_wire::can::Id;
use candor_wire::can::frame::group_number;
use wildmatch::WildMatch;

use crate::topic::{Topic, word};

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

impl Pattern {
    /// Whether it means the topic.
    #[must_use]
    pub fn takes(&self, topic: &Topic) -> bool {
        let glob = |name: &str, glob: &str| match has_wildcard(glob) {
            true => WildMatch::new(glob).matches(name),
            // Most are names, and most differ.
            false => glob == name,
        };
        self.takes_by(topic, glob)
    }

    /// The same with a comparison of a name with the pattern of names.
    fn takes_by(&self, topic: &Topic, is_meant: impl Fn(&str, &str) -> bool) -> bool {
        match self {
            Self::Name(_) if topic.is_raw() => false,
            Self::Name(pattern) => {
                let name = match pattern.contains('/') {
                    true => &topic.name,
                    false => topic.plain_name(),
                };
                is_meant(name, pattern)
            }
            Self::Id(id) => topic.is_raw() && word(topic.id()) == word(*id),
            Self::Group(group) => topic.is_raw() && group_number(topic.id()) == Some(*group),
            Self::Raw => topic.is_raw(),
        }
    }
}

fn has_wildcard(name: &str) -> bool {
    name.contains(['*', '?'])
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
            Pattern::Name(name) if has_wildcard(name) => Some(WildMatch::new(name)),
            _ => None,
        };
        Self { pattern, glob }
    }

    pub(crate) const fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether the pattern means the topic.
    pub(crate) fn takes(&self, topic: &Topic) -> bool {
        let is_meant = |name: &str, whole: &str| match &self.glob {
            Some(glob) => glob.matches(name),
            None => name == whole,
        };
        self.pattern.takes_by(topic, is_meant)
    }
}
