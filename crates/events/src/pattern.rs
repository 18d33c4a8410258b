//! [`Pattern`]: which topics are wanted.

use std::collections::HashMap;
use std::mem;

use candor_wire::can::Id;
use candor_wire::can::frame::{group_number, id_word};
use wildmatch::WildMatch;

use crate::topic::Topic;

/// Which topics are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// Whether it means the topic, if nothing in it stands for something else.
    pub(crate) fn is_of(&self, topic: &Topic) -> bool {
        match self {
            Self::Name(_) | Self::Raw if topic.is_raw() => *self == Self::Raw,
            Self::Name(name) if name.contains('/') => *topic.name == **name,
            Self::Name(name) => topic.plain_name() == name,
            Self::Id(id) => topic.is_raw() && id_word(topic.id()) == id_word(*id),
            Self::Group(group) => topic.is_raw() && group_number(topic.id()) == Some(*group),
            Self::Raw => false,
        }
    }
}

/// A name in which some characters stand for others.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    matcher: WildMatch,
    /// Whether it looks at the bus.
    is_full: bool,
    steps: u64,
}

/// So many characters of a glob take as long to compare as one step of other work.
const CHARACTERS: usize = 16;

impl Glob {
    /// `None` if nothing in the name stands for something else.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let steps = 1 + (name.len() / CHARACTERS) as u64;
        let new = || Self { matcher: WildMatch::new(name), is_full: name.contains('/'), steps };
        name.contains(['*', '?']).then(new)
    }

    /// Whether it takes the topic of a signal.
    pub(crate) fn takes(&self, topic: &Topic) -> bool {
        self.matcher.matches(if self.is_full { &topic.name } else { topic.plain_name() })
    }

    /// How long that takes.
    pub(crate) const fn steps(&self) -> u64 {
        self.steps
    }
}

/// Patterns, each once and with something of its own. Those that take a topic are found without a look at the others, but for
/// globs.
#[derive(Clone, Debug)]
pub(crate) struct Patterns<T> {
    names: HashMap<String, T>,
    globs: HashMap<String, (Glob, T)>,
    /// By the word of the identifier.
    ids: HashMap<u32, T>,
    groups: HashMap<u32, T>,
    raw: Option<T>,
    /// What it takes to look at all globs.
    glob_steps: u64,
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            globs: HashMap::new(),
            ids: HashMap::new(),
            groups: HashMap::new(),
            raw: None,
            glob_steps: 0,
        }
    }
}

impl<T> Patterns<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    pub(crate) fn get(&self, pattern: &Pattern) -> Option<&T> {
        match pattern {
            Pattern::Name(name) => {
                self.names.get(name).or_else(|| self.globs.get(name).map(|(_, own)| own))
            }
            Pattern::Id(id) => self.ids.get(&id_word(*id)),
            Pattern::Group(group) => self.groups.get(group),
            Pattern::Raw => self.raw.as_ref(),
        }
    }

    pub(crate) fn get_mut(&mut self, pattern: &Pattern) -> Option<&mut T> {
        match pattern {
            Pattern::Name(name) => {
                self.names.get_mut(name).or_else(|| self.globs.get_mut(name).map(|(_, own)| own))
            }
            Pattern::Id(id) => self.ids.get_mut(&id_word(*id)),
            Pattern::Group(group) => self.groups.get_mut(group),
            Pattern::Raw => self.raw.as_mut(),
        }
    }

    /// Adds a pattern, or gives one that is there something else. What it had before.
    pub(crate) fn insert(&mut self, pattern: Pattern, own: T) -> Option<T> {
        if let Some(old) = self.get_mut(&pattern) {
            return Some(mem::replace(old, own));
        }
        match pattern {
            Pattern::Name(name) => match Glob::new(&name) {
                None => drop(self.names.insert(name, own)),
                Some(glob) => {
                    self.glob_steps += glob.steps();
                    self.globs.insert(name, (glob, own));
                }
            },
            Pattern::Id(id) => drop(self.ids.insert(id_word(id), own)),
            Pattern::Group(group) => drop(self.groups.insert(group, own)),
            Pattern::Raw => self.raw = Some(own),
        }
        None
    }

    pub(crate) fn remove(&mut self, pattern: &Pattern) -> Option<T> {
        match pattern {
            Pattern::Name(name) => self.names.remove(name).or_else(|| {
                let (glob, own) = self.globs.remove(name)?;
                self.glob_steps -= glob.steps();
                Some(own)
            }),
            Pattern::Id(id) => self.ids.remove(&id_word(*id)),
            Pattern::Group(group) => self.groups.remove(group),
            Pattern::Raw => self.raw.take(),
        }
    }

    pub(crate) fn taking<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = &'a T> {
        let (name, plain) = (&*topic.name, topic.plain_name());
        let (of_signal, of_raw) = match topic.is_raw() {
            true => (None, Some(self)),
            false => (Some(self), None),
        };
        let named = of_signal.into_iter().flat_map(move |all| {
            let full = if plain.len() < name.len() { all.names.get(name) } else { None };
            // A name that has no bus is that of a signal without its bus.
            let globs = all.globs.values().filter(|(glob, _)| glob.takes(topic));
            all.names.get(plain).into_iter().chain(full).chain(globs.map(|(_, own)| own))
        });
        let raw = of_raw.into_iter().flat_map(move |all| {
            let group = group_number(topic.id()).and_then(|group| all.groups.get(&group));
            all.ids.get(&id_word(topic.id())).into_iter().chain(group).chain(&all.raw)
        });
        named.chain(raw)
    }

    /// What those have that take the topic for its identifier or its group.
    pub(crate) fn keeping(&self, topic: &Topic) -> impl Iterator<Item = &T> {
        let id = topic.is_raw().then(|| topic.id());
        let of_id = id.and_then(|id| self.ids.get(&id_word(id)));
        let of_group = id.and_then(group_number).and_then(|group| self.groups.get(&group));
        of_id.into_iter().chain(of_group)
    }

    /// How long it takes to find those that take a topic.
    pub(crate) const fn steps(&self, topic: &Topic) -> u64 {
        if topic.is_raw() { 1 } else { 1 + self.glob_steps }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        let globs = self.globs.values().map(|(_, own)| own);
        let ids = self.ids.values().chain(self.groups.values());
        self.names.values().chain(globs).chain(ids).chain(&self.raw)
    }
}
