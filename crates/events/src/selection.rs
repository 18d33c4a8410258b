//! [`Selection`]: the topics that patterns take.

use crate::hub::Hub;
use crate::pattern::{Glob, Pattern, Patterns};
use crate::steps::Steps;
use crate::topic::{Topic, TopicId};

/// The topics that patterns take, looked up in steps. Equal patterns count once, where the last of them stands.
#[derive(Debug)]
pub struct Selection {
    patterns: Vec<Pattern>,
    /// By pattern, whether it takes a topic that is there.
    is_met: Vec<bool>,
    places: Patterns<u32>,
    globs: Vec<(Glob, u32)>,
    began: Option<Began>,
    looked_up: usize,
    compared: usize,
    /// The topics, each with the place of the last pattern that takes it. In the end they are in order, each once.
    found: Vec<(TopicId, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Began {
    topics: usize,
    next_number: u32,
    renewals: u64,
}

/// So many globs are passed over in one step, and so many topics put in order.
const PASSED: u64 = 16;

impl Selection {
    /// One of these patterns, for which nothing has been looked up yet.
    #[must_use]
    pub fn new(patterns: &[Pattern]) -> Self {
        let mut last = Patterns::default();
        for (at, pattern) in patterns.iter().enumerate() {
            last.insert(pattern.clone(), at);
        }
        let is_last = |(at, pattern): &(usize, &Pattern)| last.get(pattern) == Some(at);
        let patterns = patterns.iter().enumerate().filter(is_last);
        let patterns: Vec<_> = patterns.map(|(_, pattern)| pattern.clone()).collect();
        let mut places = Patterns::default();
        let mut globs = Vec::new();
        for (place, pattern) in (0..).zip(&patterns) {
            places.insert(pattern.clone(), place);
            if let Pattern::Name(name) = pattern {
                globs.extend(Glob::new(name).map(|glob| (glob, place)));
            }
        }
        let is_met = vec![false; patterns.len()];
        let (began, looked_up, compared, found) = (None, 0, 0, Vec::new());
        Self { patterns, is_met, places, globs, began, looked_up, compared, found }
    }

    /// Its patterns, each once.
    #[must_use]
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Goes on. Whether all is looked up.
    pub fn go_on(&mut self, hub: &Hub, steps: &mut Steps) -> bool {
        let began = *self.began.get_or_insert_with(|| Began {
            topics: hub.topics().len(),
            next_number: hub.next_number(),
            renewals: hub.renewals(),
        });
        while let Some(pattern) = self.patterns.get(self.looked_up) {
            if steps.are_over() {
                return false;
            }
            let found = hub.found(pattern).into_iter();
            let before = self.found.len();
            for (id, topic) in found.filter_map(|id| Some((id, hub.topic(id)?))) {
                if began.has(id, topic) && pattern.is_of(topic) {
                    meet(&mut self.is_met, self.looked_up as u32, topic);
                    self.found.push((id, self.looked_up as u32));
                }
            }
            steps.spend(1 + (self.found.len() - before) as u64);
            self.looked_up += 1;
        }
        if self.globs.is_empty() && self.places.get(&Pattern::Raw).is_none() {
            self.compared = began.topics;
        }
        while self.compared < began.topics {
            if steps.are_over() {
                return false;
            }
            let id = TopicId(self.compared as u32);
            self.compared += 1;
            if let Some(topic) = hub.topic(id)
                && let Some(place) = self.compare(topic, steps)
                && began.has(id, topic)
            {
                self.found.push((id, place));
            }
        }
        steps.spend(self.found.len() as u64 / PASSED);
        self.found.sort_unstable();
        self.found.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = next.1;
            }
            is_same
        });
        true
    }

    /// The last pattern that takes a topic of those that are found by what they take alone.
    fn compare(&mut self, topic: &Topic, steps: &mut Steps) -> Option<u32> {
        steps.spend(1);
        if topic.is_raw() {
            let place = *self.places.get(&Pattern::Raw)?;
            meet(&mut self.is_met, place, topic);
            return Some(place);
        }
        steps.spend(self.globs.len() as u64 / PASSED);
        let mut last = None;
        for (glob, place) in self.globs.iter().rev() {
            // Of one that stands before another that takes it, it is only of interest whether it takes anything.
            let is_met = self.is_met.get(*place as usize).is_some_and(|is_met| *is_met);
            if last.is_some() && (is_met || topic.is_gone) {
                continue;
            }
            steps.spend(glob.steps());
            if glob.takes(topic) {
                last.get_or_insert(*place);
                meet(&mut self.is_met, *place, topic);
            }
        }
        last
    }

    /// The first name that no signal has. It can only be a mistake; identifiers may still come up.
    #[must_use]
    pub fn unknown_name(&self) -> Option<&str> {
        let mut unmet = self.patterns.iter().zip(&self.is_met).filter(|(_, is_met)| !**is_met);
        unmet.find_map(|(pattern, _)| match pattern {
            Pattern::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// How many topics were found, also of those that are gone.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no topic was found.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The topic at this place of those that were found. `None` behind the last one, and if another one has taken over its place
    /// or it is gone.
    #[must_use]
    pub fn topic<'a>(&self, hub: &'a Hub, place: usize) -> Option<(TopicId, &'a Topic)> {
        let (id, _) = *self.found.get(place)?;
        let topic = hub.topic(id)?;
        (self.began?.has(id, topic) && !topic.is_gone).then_some((id, topic))
    }

    /// The topic at this place of those that were found, and the place of the last pattern that takes it.
    pub(crate) fn found(&self, hub: &Hub, place: usize) -> Option<(TopicId, u32)> {
        let (id, last) = *self.found.get(place)?;
        self.began?.has(id, hub.topic(id)?).then_some((id, last))
    }

    /// Topics that may have come up since it began.
    pub(crate) fn later(&self, hub: &Hub) -> Vec<TopicId> {
        let Some(began) = self.began else { return Vec::new() };
        let new = (began.topics as u32..hub.topics().len() as u32).map(TopicId);
        let is_old = |id: &TopicId| (id.0 as usize) < began.topics;
        let renewed = hub.renewed(began.renewals).filter(is_old);
        let is_later = |id: &TopicId| hub.topic(*id).is_some_and(|topic| !began.has(*id, topic));
        new.chain(renewed).filter(is_later).collect()
    }

    /// The last of the patterns that takes a topic, by its place.
    pub(crate) fn last_taking(&self, topic: &Topic, steps: &mut Steps) -> Option<u32> {
        steps.spend(self.places.steps(topic));
        self.places.taking(topic).max().copied()
    }
}

impl Began {
    /// Whether a topic was there then.
    const fn has(self, id: TopicId, topic: &Topic) -> bool {
        (id.0 as usize) < self.topics && topic.number < self.next_number
    }
}

/// A pattern takes a topic.
fn meet(is_met: &mut [bool], place: u32, topic: &Topic) {
    if !topic.is_gone
        && let Some(is_met) = is_met.get_mut(place as usize)
    {
        *is_met = true;
    }
}
