//! [`Pattern`]: which topics are wanted.

use candor_wire::can::Id;
use wildmatch::WildMatch;

use crate::topic::{Topic, group_number, word};

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
        match self {
            Self::Name(_) if topic.is_raw() => false,
            Self::Name(pattern) => {
                let name = match topic.name.split_once('/') {
                    Some((_, name)) if !pattern.contains('/') => name,
                    _ => &topic.name,
                };
                match pattern.contains(['*', '?']) {
                    true => WildMatch::new(pattern).matches(name),
                    // Most are names, and most differ.
                    false => pattern == name,
                }
            }
            Self::Id(id) => topic.is_raw() && word(topic.id()) == word(*id),
            Self::Group(group) => topic.is_raw() && group_number(topic.id()) == Some(*group),
            Self::Raw => topic.is_raw(),
        }
    }
}
