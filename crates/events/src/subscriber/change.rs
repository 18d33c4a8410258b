//! Subscriptions that are made, and end, in steps.

use super::{Slot, Subscriber, TopicRequest};
use crate::filter::Filter;
use crate::hub::Hub;
use crate::pattern::Pattern;
use crate::selection::Selection;
use crate::steps::Steps;
use crate::topic::TopicId;

/// What it takes to enter a pattern, or a topic, with those who want it.
const ENTER: u64 = 4;
/// So many of those who want a topic are passed over in one step.
const PASSED: u64 = 16;

/// A subscription that is made in steps, in which the hub is locked. In between, events of topics that have been reached
/// already come and count.
#[derive(Debug)]
pub struct Subscribing {
    selection: Selection,
    filter: Filter,
    is_latest: bool,
    /// By the place of the pattern, that of its wish.
    wishes: Vec<u32>,
    /// Topics that came up after the selection began.
    later: Option<Vec<TopicId>>,
    /// How many topics were looked at.
    next: usize,
    topics: usize,
}

impl Subscribing {
    /// To the topics of patterns, which have been looked up. Of equal filters for all.
    #[must_use]
    pub const fn new(selection: Selection, filter: Filter, is_latest: bool) -> Self {
        Self { selection, filter, is_latest, wishes: Vec::new(), later: None, next: 0, topics: 0 }
    }

    /// Goes on. Whether all topics have been reached.
    pub fn go_on(&mut self, subscriber: &mut Subscriber, hub: &mut Hub, steps: &mut Steps) -> bool {
        if self.wishes.is_empty() {
            subscriber.skip_if_idle(hub);
        }
        // What the hub has entered since for the patterns that are there, it finds by them alone.
        if !subscriber.look(hub, steps) {
            return false;
        }
        while let Some(pattern) = self.selection.patterns().get(self.wishes.len()) {
            if steps.are_over() {
                return false;
            }
            steps.spend(ENTER);
            let wish = TopicRequest {
                pattern: pattern.clone(),
                filter: self.filter.clone(),
                is_latest: self.is_latest,
                order: subscriber.next_order,
                is_over: false,
            };
            subscriber.next_order += 1;
            self.wishes.push(subscriber.add(hub, wish));
        }
        // What comes up from now on, the hub enters.
        let later = self.later.get_or_insert_with(|| self.selection.later(hub)).len();
        while self.next < self.selection.len() + later {
            if steps.are_over() {
                return false;
            }
            steps.spend(1);
            if let Some((id, last)) = self.next_taken(hub, steps) {
                self.enter(id, last, subscriber, hub, steps);
            }
            self.next += 1;
        }
        subscriber.forget_ended();
        true
    }

    /// The next topic, if a pattern takes it, and the place of the last one that does.
    fn next_taken(&self, hub: &Hub, steps: &mut Steps) -> Option<(TopicId, u32)> {
        match self.next.checked_sub(self.selection.len()) {
            None => self.selection.found(hub, self.next),
            Some(place) => {
                let id = *self.later.as_ref()?.get(place)?;
                Some((id, self.selection.last_taking(hub.topic(id)?, steps)?))
            }
        }
    }

    /// Gives a topic the wish of the pattern at this place.
    fn enter(
        &mut self,
        id: TopicId,
        last: u32,
        subscriber: &mut Subscriber,
        hub: &mut Hub,
        steps: &mut Steps,
    ) {
        let (Some(topic), Some(&wish)) = (hub.topic(id), self.wishes.get(last as usize)) else {
            return;
        };
        let Some(place) = subscriber.places.get(id.0 as usize).copied() else { return };
        steps.spend(ENTER);
        self.topics += usize::from(!topic.is_gone);
        match subscriber.slots.get_mut(place as usize) {
            Some(slot) => slot.wish = wish,
            None => {
                let slot = Slot::new(id, topic, wish, topic.created);
                if let Some(place) = subscriber.places.get_mut(id.0 as usize) {
                    *place = subscriber.slots.len() as u32;
                    subscriber.slots.push(slot);
                }
                hub.listen(subscriber.format, id, &subscriber.notifier, true);
            }
        }
    }

    /// How many topics it has reached that are there.
    #[must_use]
    pub const fn topics(&self) -> usize {
        self.topics
    }
}

/// The end of subscriptions in steps, in which the hub is locked.
#[derive(Debug)]
pub struct Unsubscribing {
    /// The next one last.
    patterns: Vec<Pattern>,
    is_changed: bool,
    /// So many slots are left, from the first one on: what another one leaves is taken by the last.
    left: Option<usize>,
}

impl Unsubscribing {
    /// To these patterns, by the words in which they were made.
    #[must_use]
    pub const fn new(patterns: Vec<Pattern>) -> Self {
        Self { patterns, is_changed: false, left: None }
    }

    /// Goes on. Whether all topics have been looked at.
    pub fn go_on(&mut self, subscriber: &mut Subscriber, hub: &mut Hub, steps: &mut Steps) -> bool {
        if !subscriber.look(hub, steps) {
            return false;
        }
        while let Some(pattern) = self.patterns.last() {
            if steps.are_over() {
                return false;
            }
            steps.spend(ENTER);
            self.is_changed |= subscriber.end_wish(hub, pattern);
            self.patterns.pop();
        }
        // Another one may have been given up before its end.
        if !subscriber.wishes.iter().flatten().any(|wish| wish.is_over) {
            return true;
        }
        let left = self.left.get_or_insert(subscriber.slots.len());
        *left = (*left).min(subscriber.slots.len());
        while let Some(at) = left.checked_sub(1) {
            if steps.are_over() {
                return false;
            }
            steps.spend(1);
            *left = at;
            let Some(slot) = subscriber.slots.get(at).copied() else { continue };
            let wish = subscriber.wishes.get(slot.wish as usize).and_then(Option::as_ref);
            if wish.is_some_and(|wish| !wish.is_over) {
                continue;
            }
            let topic = hub.topic(slot.topic);
            steps.spend(topic.map_or(0, |topic| subscriber.patterns.steps(topic)));
            let wish = topic.and_then(|topic| subscriber.wish_of(topic));
            if let (Some(wish), Some(slot)) = (wish, subscriber.slots.get_mut(at)) {
                slot.wish = wish;
                continue;
            }
            let passed = hub.listen(subscriber.format, slot.topic, &subscriber.notifier, false);
            steps.spend(ENTER + passed / PASSED);
            subscriber.remove_slot(slot.topic);
        }
        subscriber.forget_ended();
        true
    }

    /// Whether there was a subscription to one of the patterns.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        self.is_changed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use candor_diagnostics::Findings;
    use candor_signals::Database;
    use candor_wire::can::Frame;
    use candor_wire::can::frame::{group_number, id_word};
    use proptest::prelude::*;
    use wildmatch::WildMatch;

    use super::*;
    use crate::hub::{Bus, Format, Naming};
    use crate::topic::Topic;

    const FILES: [&str; 3] = [
        "",
        "BU_: A\n\nBO_ 291 Motor: 4 A\n SG_ Speed : 0|16@1+ (1,0) [0|1] \"\" B\n SG_ Gear : 16|8@1+ (1,0) [0|1] \"\" B\n",
        "BU_: A\n\nBO_ 291 Motor: 4 A\n SG_ Gear : 0|8@1+ (1,0) [0|1] \"\" B\n\nBO_ 292 Door: 1 A\n SG_ Open : 0|1@1+ (1,0) [0|1] \"\" B\n",
    ];

    fn patterns() -> Vec<Pattern> {
        let id = |text: &str| Pattern::Id(text.parse::<Frame>().unwrap().id());
        let names =
            ["Motor.*", "*", "Motor.Gear", "b/Motor.Gear", "b/*", "?oor.Open", "*r*", "Nothing.*"];
        let names = names.map(|name| Pattern::Name(name.to_owned()));
        let others = [
            Pattern::Raw,
            id("18FE0001#"),
            id("123#"),
            Pattern::Group(0xFE00),
            Pattern::Group(0xFE01),
        ];
        names.into_iter().chain(others).collect()
    }

    /// Whether a pattern takes a topic, by what the documentation says.
    fn takes(pattern: &Pattern, topic: &Topic) -> bool {
        let plain = topic.name.split_once('/').map_or(&*topic.name, |(_, plain)| plain);
        match pattern {
            Pattern::Name(name) => {
                let own = if name.contains('/') { &topic.name } else { plain };
                !topic.is_raw() && WildMatch::new(name).matches(own)
            }
            Pattern::Id(id) => topic.is_raw() && id_word(topic.id()) == id_word(*id),
            Pattern::Group(group) => topic.is_raw() && group_number(topic.id()) == Some(*group),
            Pattern::Raw => topic.is_raw(),
        }
    }

    /// What happens.
    #[derive(Clone, Debug)]
    enum Event {
        Frame(usize, usize),
        /// A bus gets a file, or goes.
        Bus(usize, Option<usize>),
        Subscribe(usize, Vec<usize>, u32),
        Unsubscribe(usize, Vec<usize>),
        Leave(usize),
        /// A subscriber goes on with what it is doing.
        GoOn(usize, u64),
        Look(usize, u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        let some = || prop::collection::vec(0..13_usize, 1..5);
        prop_oneof![
            8 => (0..2_usize, 0..12_usize).prop_map(|(bus, id)| Event::Frame(bus, id)),
            1 => (0..2_usize, prop::option::weighted(0.8, 0..3_usize)).prop_map(|(bus, file)| Event::Bus(bus, file)),
            4 => (0..2_usize, some(), 1..5_u32).prop_map(|(who, some, every)| Event::Subscribe(who, some, every)),
            2 => (0..2_usize, some()).prop_map(|(who, some)| Event::Unsubscribe(who, some)),
            1 => (0..2_usize).prop_map(Event::Leave),
            16 => (0..2_usize, 1..12_u64).prop_map(|(who, steps)| Event::GoOn(who, steps)),
            2 => (0..2_usize, 1..4_u64).prop_map(|(who, steps)| Event::Look(who, steps)),
        ]
    }

    /// What a subscriber is doing.
    enum Work {
        Select(Selection, u32),
        Subscribe(Subscribing),
        Unsubscribe(Unsubscribing),
    }

    /// Does all that is left of a work, or some steps. Whether it is over.
    fn go_on(
        work: &mut Work,
        subscriber: &mut Subscriber,
        hub: &mut Hub,
        steps: &mut Steps,
    ) -> bool {
        if let Work::Select(selection, every) = work {
            if !selection.go_on(hub, steps) {
                return false;
            }
            let filter = Filter { every: *every, ..Filter::default() };
            let selection = std::mem::replace(selection, Selection::new(&[]));
            *work = Work::Subscribe(Subscribing::new(selection, filter, false));
        }
        match work {
            Work::Subscribe(subscribing) => subscribing.go_on(subscriber, hub, steps),
            Work::Unsubscribe(unsubscribing) => unsubscribing.go_on(subscriber, hub, steps),
            Work::Select(..) => false,
        }
    }

    proptest! {
        /// However many steps are made at once, and whatever frames and buses come and go between them: then each topic has the
        /// wish of the last pattern that takes it, is listened to by those who want it once each, and stays if its
        /// identifier or group is wanted.
        #[test]
        fn steps_end_where_one_would(events in prop::collection::vec(event(), 0..250), most in 2..9_usize) {
            let patterns = patterns();
            let mut hub = Hub::with_naming(Vec::new(), Naming::Always);
            hub.bound_unknown(most);
            hub.open(Format::Plain, |_, _| {});
            let mut subscribers: Vec<_> = (0..2).map(|_| Subscriber::new(&hub, Format::Plain)).collect();
            let mut works: Vec<Option<Work>> = vec![None, None];
            // The patterns of each, the last one last, and their filters.
            let mut wanted: [Vec<(usize, u32)>; 2] = Default::default();
            let mut next: [Vec<(usize, u32)>; 2] = Default::default();
            for event in events {
                match event {
                    Event::Frame(bus, id) => {
                        let text = match id {
                            0 => "123#00000000".to_owned(),
                            1 => "124#00".to_owned(),
                            id => format!("18FE{:02X}{:02X}#00", id % 3, id / 3),
                        };
                        hub.publish(bus, 0, &text.parse().unwrap());
                    }
                    Event::Bus(bus, file) => {
                        let place = hub.buses().iter().position(|it| it.name == ["a", "b"][bus]);
                        match (file, place) {
                            (None, Some(place)) => hub.remove_bus(place),
                            (None, None) => {}
                            (Some(file), _) => {
                                let database = Database::parse("a.dbc", FILES[file].as_bytes(), &Findings::new());
                                hub.set_bus(Bus { name: ["a", "b"][bus].to_owned(), database: database.map(Arc::new) });
                            }
                        }
                    }
                    Event::Subscribe(who, some, every) if works[who].is_none() => {
                        let chosen: Vec<_> = some.iter().map(|&place| patterns[place].clone()).collect();
                        works[who] = Some(Work::Select(Selection::new(&chosen), every));
                        next[who] = wanted[who].clone();
                        next[who].retain(|(place, _)| !some.contains(place));
                        let last = |(at, place): &(usize, &usize)| !some[at + 1..].contains(place);
                        let added = some.iter().enumerate().filter(last).map(|(_, place)| (*place, every));
                        next[who].extend(added);
                    }
                    Event::Unsubscribe(who, some) if works[who].is_none() => {
                        let chosen = some.iter().map(|&place| patterns[place].clone()).collect();
                        works[who] = Some(Work::Unsubscribe(Unsubscribing::new(chosen)));
                        next[who] = wanted[who].clone();
                        next[who].retain(|(place, _)| !some.contains(place));
                    }
                    Event::Leave(who) => {
                        // Also in the middle of something else.
                        works[who] = Some(Work::Unsubscribe(subscribers[who].leaving()));
                        next[who].clear();
                    }
                    Event::GoOn(who, count) => {
                        let Some(work) = &mut works[who] else { continue };
                        if go_on(work, &mut subscribers[who], &mut hub, &mut Steps::new(count)) {
                            works[who] = None;
                            wanted[who] = next[who].clone();
                        }
                    }
                    Event::Look(who, count) => {
                        subscribers[who].look(&hub, &mut Steps::new(count));
                    }
                    Event::Subscribe(..) | Event::Unsubscribe(..) => {}
                }
            }
            for who in 0..2 {
                if let Some(work) = &mut works[who] {
                    prop_assert!(go_on(work, &mut subscribers[who], &mut hub, &mut Steps::all()));
                    wanted[who] = next[who].clone();
                }
                prop_assert!(subscribers[who].look(&hub, &mut Steps::all()));
            }
            let mut listening: HashMap<(usize, usize), u32> = HashMap::new();
            for (id, topic) in (0..).map(TopicId).zip(hub.topics()) {
                for (subscriber, wanted) in subscribers.iter().zip(&wanted) {
                    let taking = |(place, _): &&(usize, u32)| takes(&patterns[*place], topic);
                    let expected = wanted.iter().rev().find(taking);
                    let place = subscriber.places[id.0 as usize];
                    let slot = subscriber.slots.get(place as usize);
                    let wish = slot.map(|slot| subscriber.wishes[slot.wish as usize].as_ref().unwrap());
                    let actual = wish.map(|wish| (&wish.pattern, wish.filter.every));
                    let expected = expected.map(|(place, every)| (&patterns[*place], *every));
                    prop_assert_eq!(actual, expected, "{}", topic.name);
                    prop_assert!(slot.is_none_or(|slot| slot.topic == id && slot.number == topic.number));
                    let count = hub.listeners(Format::Plain, id).iter().filter(|it| it.is(&subscriber.notifier)).count();
                    prop_assert_eq!(count, usize::from(expected.is_some()), "{}", topic.name);
                    if let (crate::Kind::Signal { message, .. }, false) = (&topic.kind, topic.is_gone) {
                        *listening.entry((topic.bus, *message)).or_default() += count as u32;
                    }
                }
                let keeping = wanted.iter().flatten().map(|(place, _)| &patterns[*place]);
                let keeping = keeping.filter(|it| matches!(it, Pattern::Id(_) | Pattern::Group(_)));
                prop_assert_eq!(topic.pinned as usize, keeping.filter(|it| takes(it, topic)).count());
            }
            for ((bus, message), count) in listening {
                prop_assert_eq!(hub.wanted(bus, message), Some(count));
            }
            for (subscriber, wanted) in subscribers.iter().zip(&wanted) {
                prop_assert_eq!(subscriber.patterns().count(), wanted.len());
                prop_assert!(subscriber.wishes.iter().flatten().all(|wish| !wish.is_over));
            }
        }
    }
}
