//! The hub, its subscribers and what they are told.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use candor_diagnostics::Findings;
use candor_signals::Database;
use candor_wire::can::Frame;
use ciborium::Value as Generic;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::afb::Api;
use crate::binary::{self, Encoding};
use crate::{
    Batch, Bus, Content, Delivery, Filter, Format, Hub, Naming, Pattern, Steps, Subscriber, TopicId,
};

const FORMAT: Format = Format::Afb(Api::LowCan);
const DBC: &str = "BU_: A\n\nBO_ 291 Motor: 4 A\n SG_ Speed : 0|16@1+ (0.5,0) [0|100] \"rpm\" B\n \
                   SG_ Gear : 16|8@1+ (1,0) [0|5] \"\" B\n\nBO_ 292 Door: 1 A\n SG_ Open : 0|1@1+ (1,0) [0|1] \"\" B\n\n\
                   VAL_ 291 Gear 0 \"neutral\" 1 \"first\" ;\n";

fn line_feed(_: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
}

/// A frame header of four bytes.
fn length(len: usize, out: &mut Vec<u8>) {
    out.extend((len as u32).to_be_bytes());
}

/// What stands behind such headers.
fn messages(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let (message, rest) = rest.split_at(u32::from_be_bytes(*header) as usize);
        messages.push(message);
        bytes = rest;
    }
    messages
}

/// What a client knows who has read all messages so far with a decoder that knows nothing of them.
#[derive(Default)]
struct Reader {
    names: HashMap<u64, String>,
    base_us: Option<u64>,
    missed: u64,
    /// Name, time in us, the last bits of the ordinal, and what it says.
    events: Vec<(String, u64, u64, Vec<Generic>)>,
}

impl Reader {
    fn read(&mut self, format: Format, message: &[u8]) {
        match format {
            Format::Binary(Encoding::Cbor) => {
                self.take(&ciborium::from_reader::<Generic, _>(message).unwrap());
            }
            Format::Binary(Encoding::MessagePack) => {
                self.take(&rmp_serde::from_slice::<Generic>(message).unwrap());
            }
            Format::Sse => {
                let text = std::str::from_utf8(message).unwrap().strip_suffix("\n\n").unwrap();
                let (is_missed, text) = match text.strip_prefix("event: missed\n") {
                    Some(text) => (true, text),
                    None => (false, text),
                };
                let data: Value =
                    serde_json::from_str(text.strip_prefix("data: ").unwrap()).unwrap();
                self.object(&data, is_missed);
            }
            Format::Afb(_) => {
                let message: Value = serde_json::from_slice(message).unwrap();
                self.object(&message[2]["data"], message[1] == "candor/missed");
            }
            Format::Plain => unreachable!("these are gathered"),
        }
    }

    /// Reads what is delivered at once, and says in how many messages.
    fn take_delivery(
        &mut self,
        subscriber: &mut Subscriber,
        hub: &Hub,
        format: Format,
        bytes: usize,
    ) -> (Delivery, usize) {
        if format != Format::Plain {
            let mut out = Vec::new();
            let delivery = subscriber.deliver(hub, bytes, &mut out);
            let came = messages(&out);
            came.iter().for_each(|message| self.read(format, message));
            return (delivery, came.len());
        }
        let mut batch = Batch::default();
        let delivery = subscriber.gather(hub, bytes.div_ceil(20), &mut batch);
        self.missed += batch.missed;
        for event in batch.events() {
            let contents = match event.content {
                Content::Data(data) => vec![Generic::Bytes(data.to_vec())],
                Content::Value(value, text) => {
                    let text = text.map(|text| Generic::Text(text.to_owned()));
                    [Generic::Float(value)].into_iter().chain(text).collect()
                }
            };
            let name = hub.topic(event.topic).unwrap().name.to_string();
            self.events.push((name, event.time_ns / 1_000, event.ordinal & 0xFF, contents));
        }
        (delivery, 1)
    }

    /// An event as an object of JSON.
    fn object(&mut self, data: &Value, is_missed: bool) {
        if is_missed {
            self.missed += data["missed"].as_u64().unwrap();
            assert_eq!(data["total"], self.missed);
            return;
        }
        let bytes = data["data"].as_array().map(|bytes| {
            Generic::Bytes(bytes.iter().map(|byte| byte.as_u64().unwrap() as u8).collect())
        });
        let content = bytes.unwrap_or_else(|| Generic::Float(data["value"].as_f64().unwrap()));
        let text = data["text"].as_str().map(|text| Generic::Text(text.to_owned()));
        let name = data["name"].as_str().unwrap_or_default().to_owned();
        let content = [content].into_iter().chain(text).collect();
        let ordinal = data["ordinal"].as_u64().unwrap_or(0) & 0xFF;
        self.events.push((name, data["timestamp"].as_u64().unwrap_or(0), ordinal, content));
    }

    /// A message of CBOR or MessagePack.
    fn take(&mut self, message: &Generic) {
        let items = message.as_array().unwrap();
        let number = |place: usize| u64::try_from(items[place].as_integer().unwrap()).unwrap();
        match number(0) {
            5 => {
                let name = self.names.get(&number(1)).expect("a name comes before events").clone();
                let time_us = self.base_us.expect("a time base comes before events") + number(2);
                let float = |item: &Generic| match item {
                    Generic::Integer(whole) => Generic::Float(i128::from(*whole) as f64),
                    item => item.clone(),
                };
                let content = items[4..].iter().map(float).collect();
                self.events.push((name, time_us, number(3), content));
            }
            6 => items[1..].iter().for_each(|item| self.take(item)),
            7 => drop(self.names.insert(number(1), items[2].as_text().unwrap().to_owned())),
            8 => {
                self.missed += number(1);
                assert_eq!(number(2), self.missed);
            }
            9 => self.base_us = Some(number(1)),
            other => panic!("{other}"),
        }
    }
}

fn formats() -> impl Strategy<Value = Format> {
    let [cbor, msgpack] = Encoding::ALL.map(Format::Binary);
    prop::sample::select(vec![FORMAT, Format::Sse, cbor, msgpack, Format::Plain])
}

fn hub(names: &[&str]) -> Hub {
    let findings = Findings::new();
    let bus = |name: &&str| Bus {
        name: (*name).to_owned(),
        database: Database::parse("car.dbc", DBC.as_bytes(), &findings).map(Arc::new),
    };
    let mut hub = Hub::new(names.iter().map(bus).collect());
    hub.open(FORMAT, line_feed);
    hub
}

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

fn delivered(subscriber: &mut Subscriber, hub: &Hub) -> Vec<Value> {
    let mut out = Vec::new();
    subscriber.deliver(hub, usize::MAX, &mut out);
    let text = String::from_utf8(out).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_frame_is_a_raw_event_and_one_for_each_signal() {
    let mut hub = hub(&["udpcan"]);
    let mut subscriber = Subscriber::new(&hub, FORMAT);
    let all = Filter::default();
    assert_eq!(
        subscriber.subscribe(&mut hub, Pattern::Name("Motor.*".into()), all.clone(), false),
        2
    );
    assert_eq!(subscriber.subscribe(&mut hub, Pattern::Raw, all, false), 0);
    hub.publish(0, 1_505_812_906_020_023_000, &frame("123#90010100"));
    hub.publish(0, 0, &frame("124#01"));
    hub.publish(0, 0, &frame("20000088#0000000000000000"));
    let event = |name: &str, data: Value| json!([5, name, {"jtype": "afb-event", "event": name, "data": data}]);
    assert_eq!(
        delivered(&mut subscriber, &hub),
        [
            event("udpcan/291", json!({"id": 291, "data": [144, 1, 1, 0]})),
            event(
                "low-can/Motor.Speed",
                json!({"name": "Motor.Speed", "value": 200, "Motor.Speed": 200, "timestamp": 1_505_812_906_020_023_u64})
            ),
            event(
                "low-can/Motor.Gear",
                json!({"name": "Motor.Gear", "value": 1, "Motor.Gear": 1, "text": "first",
                       "timestamp": 1_505_812_906_020_023_u64})
            ),
            event("udpcan/292", json!({"id": 292, "data": [1]})),
        ]
    );
    let gear = hub.topics().iter().position(|topic| &*topic.name == "Motor.Gear").unwrap();
    assert_eq!(hub.latest(TopicId(gear as u32)).unwrap().text, Some("first"));
    // What nobody wants any more is not made.
    subscriber.leave(&mut hub);
    hub.publish(0, 0, &frame("123#90010100"));
    assert_eq!(delivered(&mut subscriber, &hub), [] as [Value; 0]);
}

/// The report's first event: 100 bytes, 118 as a message.
#[test]
fn a_raw_event_has_the_size_of_the_report() {
    let mut hub = hub(&["udpcan"]);
    let mut subscriber = Subscriber::new(&hub, FORMAT);
    subscriber.subscribe(&mut hub, Pattern::Raw, Filter::default(), false);
    hub.publish(0, 0, &frame("518#303BE65F1CF5FFFF"));
    let mut out = Vec::new();
    subscriber.deliver(&hub, usize::MAX, &mut out);
    // One escaped slash less than in 2016, twice.
    assert_eq!(out.len() - 1, 117, "{}", String::from_utf8_lossy(&out));
}

#[test]
fn buses_stand_before_names_if_there_are_several() {
    let mut hub = hub(&["left", "right"]);
    let mut subscriber = Subscriber::new(&hub, FORMAT);
    for (pattern, count) in [
        ("Door.Open", 2),
        ("left/Door.Open", 1),
        ("*/Motor.*", 4),
        ("*.Gear", 2),
        ("door.open", 0),
        ("D??r.*", 2),
    ] {
        let pattern = Pattern::Name(pattern.into());
        assert_eq!(
            subscriber.subscribe(&mut hub, pattern.clone(), Filter::default(), false),
            count,
            "{pattern:?}"
        );
        assert!(subscriber.unsubscribe(&mut hub, &[pattern]));
    }
    hub.publish(1, 0, &frame("18FEF100#00"));
    let group = Pattern::Group(0xFEF1);
    assert_eq!(subscriber.subscribe(&mut hub, group, Filter::default(), false), 1);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_has_nothing_is_not_woken() {
    let mut hub = hub(&["bus"]);
    let woken = [Arc::<Woken>::default(), Arc::default()];
    let mut subscribers = ["Motor.*", "Door.*"].map(|name| {
        let mut subscriber = Subscriber::new(&hub, FORMAT);
        subscriber.subscribe(&mut hub, Pattern::Name(name.into()), Filter::default(), false);
        subscriber
    });
    for (subscriber, woken) in subscribers.iter().zip(&woken) {
        let waker = Waker::from(Arc::clone(woken));
        assert!(subscriber.poll_due(&Context::from_waker(&waker)).is_pending());
    }
    let counts = || [0, 1].map(|who: usize| woken[who].0.load(Ordering::Relaxed));
    // Once for all there is, and not again before it has looked.
    for _ in 0..3 {
        hub.publish(0, 0, &frame("124#01"));
        hub.publish(0, 0, &frame("124#00"));
        hub.notify();
        assert_eq!(counts(), [0, 1]);
    }
    assert_eq!(subscribers.each_ref().map(|subscriber| subscriber.behind(&hub)), [0, 6]);
    assert_eq!(delivered(&mut subscribers[1], &hub).len(), 6);
    hub.publish(0, 0, &frame("124#01"));
    hub.notify();
    assert_eq!(counts(), [0, 2]);
    hub.ring_all();
    assert_eq!(counts(), [1, 2]);
}

/// Something that happens to a hub.
#[derive(Clone, Debug)]
enum Step {
    Publish(usize, u8),
    Deliver(usize, usize),
    Subscribe(usize, usize, bool, u32),
    Unsubscribe(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..3_usize, any::<u8>()).prop_map(|(id, value)| Step::Publish(id, value)),
        3 => (0..3_usize, 0..300_usize).prop_map(|(who, bytes)| Step::Deliver(who, bytes)),
        1 => (0..3_usize, 0..4_usize, any::<bool>(), 0..3_u32).prop_map(|(a, b, c, d)| Step::Subscribe(a, b, c, d)),
        1 => (0..3_usize, 0..4_usize).prop_map(|(who, pattern)| Step::Unsubscribe(who, pattern)),
    ];
    prop::collection::vec(step, 0..400)
}

/// Like [`DBC`], but a signal moved, others went, and some are new.
const OTHER_DBC: &str = "BU_: A\n\nBO_ 291 Motor: 4 A\n SG_ Torque : 0|8@1+ (1,0) [0|100] \"Nm\" B\n \
                         SG_ Speed : 8|16@1+ (0.5,0) [0|100] \"rpm\" B\n\nBO_ 293 Light: 1 A\n \
                         SG_ On : 0|1@1+ (1,0) [0|1] \"\" B\n";

/// What happens to a hub whose buses change.
#[derive(Clone, Debug)]
enum Change {
    /// A bus gets a database: none, or one of two.
    Set(usize, usize),
    Remove(usize),
    Step(Step),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let step = prop_oneof![
        30 => (0..6_usize, any::<u8>()).prop_map(|(id, value)| Step::Publish(id, value)),
        4 => (0..2_usize, 0..300_usize).prop_map(|(who, bytes)| Step::Deliver(who, bytes)),
        2 => (0..2_usize, 0..4_usize, any::<bool>(), 0..3_u32).prop_map(|(a, b, c, d)| Step::Subscribe(a, b, c, d)),
        1 => (0..2_usize, 0..4_usize).prop_map(|(who, pattern)| Step::Unsubscribe(who, pattern)),
    ];
    let change = prop_oneof![
        10 => step.prop_map(Change::Step),
        1 => (0..2_usize, 0..3_usize).prop_map(|(bus, database)| Change::Set(bus, database)),
        1 => (0..2_usize).prop_map(Change::Remove),
    ];
    prop::collection::vec(change, 0..400)
}

proptest! {
    /// Whatever subscribers do, of the events of their topics since they subscribed, each was delivered, filtered,
    /// superseded or missed, or waits. The oracle counts events by hand.
    #[test]
    fn created_is_delivered_and_filtered_and_superseded_and_missed(
        steps in steps(),
        format in formats(),
        is_batched in any::<bool>(),
    ) {
        let patterns = [
            Pattern::Name("Motor.*".into()),
            Pattern::Name("*".into()),
            Pattern::Raw,
            Pattern::Id("124#".parse::<Frame>().unwrap().id()),
        ];
        let mut hub = hub(&["bus"]);
        hub.open(format, length);
        hub.shrink(format, 16, 1_500, length);
        let mut subscribers: Vec<_> = (0..3).map(|_| Subscriber::new(&hub, format)).collect();
        subscribers.iter_mut().for_each(|subscriber| subscriber.set_batched(is_batched));
        let mut readers: Vec<_> = (0..3).map(|_| Reader::default()).collect();
        // What each wants, and how many events of that there were.
        let mut wanted = [[false; 4]; 3];
        let mut due = [0_u64; 3];
        // Events that wait when the last subscription to their topic ends are none of the sum.
        let mut given_up = [0_u64; 3];
        let waiting = |due: u64, counts: crate::Counts, given_up: u64| {
            due - counts.delivered - counts.filtered - counts.superseded - counts.missed - given_up
        };
        for step in steps {
            match step {
                Step::Publish(id, value) => {
                    let (text, signals) = match id {
                        0 => (format!("123#{value:02X}000100"), 2),
                        1 => (format!("124#{value:02X}"), 1),
                        _ => (format!("125#{value:02X}"), 0),
                    };
                    hub.publish(0, u64::from(value), &frame(&text));
                    for (who, wanted) in wanted.iter().enumerate() {
                        let is_motor = id == 0 && wanted[0];
                        due[who] += if wanted[1] || is_motor { signals } else { 0 };
                        due[who] += u64::from(wanted[2] || id == 1 && wanted[3]);
                    }
                }
                Step::Deliver(who, bytes) => {
                    let before = subscribers[who].counts();
                    // What it misses is known before it comes to look, and the rest is in the log.
                    let untold = subscribers[who].missed(&hub) - before.missed;
                    let pending = waiting(due[who], before, given_up[who]);
                    prop_assert!(untold <= pending && pending - untold <= 16, "{} {}", untold, pending);
                    let (delivery, came) =
                        readers[who].take_delivery(&mut subscribers[who], &hub, format, bytes);
                    let after = subscribers[who].counts();
                    prop_assert!(came <= 1 || !is_batched || !matches!(format, Format::Binary(_)));
                    prop_assert_eq!(after.delivered, readers[who].events.len() as u64);
                    prop_assert_eq!(after.missed, readers[who].missed);
                    prop_assert_eq!(after.missed - before.missed, delivery.missed);
                    prop_assert!(untold <= delivery.missed);
                    if !delivery.has_more {
                        prop_assert_eq!(waiting(due[who], after, given_up[who]), 0);
                    }
                }
                Step::Subscribe(who, pattern, is_latest, every) => {
                    let filter = Filter { every, ..Filter::default() };
                    subscribers[who].subscribe(&mut hub, patterns[pattern].clone(), filter, is_latest);
                    wanted[who][pattern] = true;
                }
                Step::Unsubscribe(who, pattern) => {
                    // First all that waits, so that what is given up is nothing.
                    let reader = &mut readers[who];
                    while reader.take_delivery(&mut subscribers[who], &hub, format, usize::MAX).0.has_more {}
                    subscribers[who].unsubscribe(&mut hub, &patterns[pattern..=pattern]);
                    wanted[who][pattern] = false;
                    given_up[who] = waiting(due[who], subscribers[who].counts(), 0);
                    prop_assert_eq!(given_up[who], 0);
                }
            }
        }
    }

    /// More identifiers come than have places. Who wants all frames is told exactly what is missed of those that gave way; who
    /// wants one by its identifier misses nothing. No number ever has two names, and no ordinal of a name comes twice.
    #[test]
    fn identifiers_give_way_and_all_is_counted(
        steps in prop::collection::vec((0..12_u32, 0..3_usize, 0..400_usize), 0..300),
        most in 2..6_usize,
        entries in prop::sample::select(vec![4_usize, 16, 4_096]),
        format in formats(),
    ) {
        let mut hub = hub(&["bus"]);
        hub.open(format, length);
        hub.shrink(format, entries, 100 * entries, length);
        hub.bound_unknown(most);
        let pinned = frame("200#").id();
        let wanted = [Pattern::Raw, Pattern::Id(pinned), Pattern::Name("Motor.*".into())];
        let mut subscribers: Vec<_> = (0..3).map(|_| Subscriber::new(&hub, format)).collect();
        let mut readers: Vec<_> = (0..3).map(|_| Reader::default()).collect();
        for (subscriber, pattern) in subscribers.iter_mut().zip(wanted) {
            subscriber.subscribe(&mut hub, pattern, Filter::default(), false);
        }
        let mut due = [0_u64; 3];
        let mut numbers = HashMap::new();
        let mut next = HashMap::new();
        for (id, who, bytes) in steps {
            // Three of four are frames.
            if bytes >= 100 {
                let (before, refused) = hub.frames();
                let text = match id {
                    0 => "123#0100000100".to_owned(),
                    id => format!("{:03X}#{:02X}", 0x1FF + id, id),
                };
                hub.publish(0, 0, &frame(&text));
                prop_assert_eq!(hub.frames(), (before + 1, refused), "one can always give way");
                due[0] += 1;
                due[1] += u64::from(id == 1);
                due[2] += if id == 0 { 2 } else { 0 };
                prop_assert!(hub.topics().len() <= 3 + 1 + most);
                for topic in hub.topics() {
                    prop_assert_eq!(&topic.name, numbers.entry(topic.number).or_insert(topic.name.clone()));
                    let least = next.entry(topic.name.clone()).or_insert((topic.number, 0));
                    let ordinals = (topic.number, topic.first + topic.offset);
                    prop_assert!(least.0 == ordinals.0 || least.1 <= ordinals.1, "{}", topic.name);
                    *least = (topic.number, topic.created + topic.offset);
                }
            } else {
                let (subscriber, reader) = (&mut subscribers[who], &mut readers[who]);
                let known = subscriber.missed(&hub);
                let (delivery, _) = reader.take_delivery(subscriber, &hub, format, bytes);
                prop_assert!(known <= subscriber.counts().missed);
                let counts = subscriber.counts();
                prop_assert_eq!(counts.missed, reader.missed);
                prop_assert_eq!(counts.delivered, reader.events.len() as u64);
                if !delivery.has_more {
                    prop_assert_eq!(counts.delivered + counts.missed, due[who]);
                }
                if who > 0 && entries > 16 {
                    prop_assert_eq!(counts.missed, 0);
                }
                for (name, .., contents) in &reader.events {
                    if let (0, [Generic::Bytes(data)]) = (who, &contents[..])
                        // JSON has the name elsewhere.
                        && !name.is_empty()
                        && name != "bus/291"
                    {
                        prop_assert_eq!(name, &format!("bus/{}", 0x1FF + u32::from(data[0])));
                    }
                }
            }
        }
    }

    /// A new identifier is refused only if all places are taken by others that somebody is subscribed to at that moment by
    /// identifier or group.
    #[test]
    fn one_gives_way_as_soon_as_nobody_wants_it(
        steps in prop::collection::vec((0..8_usize, 0..3_usize, 0..8_u32), 0..200),
        most in 1..5_usize,
    ) {
        let mut hub = hub(&["bus"]);
        hub.open(Format::Plain, length);
        hub.bound_unknown(most);
        let patterns = [Pattern::Group(0xFE00), Pattern::Group(0xFE01), Pattern::Id(frame("18FE0002#").id())];
        let takes = |pattern: usize, id: u32| if pattern < 2 { id / 4 == pattern as u32 } else { id == 2 };
        let name = |id: u32| format!("18FE{:02X}{:02X}#", id / 4, id % 4);
        let mut subscribers: Vec<_> = (0..2).map(|_| Subscriber::new(&hub, Format::Plain)).collect();
        let mut wanted = [[false; 3]; 2];
        let mut listed = std::collections::BTreeSet::new();
        for (what, pattern, id) in steps {
            let who = id as usize % 2;
            match what {
                0 => {
                    let wish = patterns[pattern].clone();
                    subscribers[who].subscribe(&mut hub, wish, Filter::default(), false);
                    wanted[who][pattern] = true;
                }
                1 => {
                    subscribers[who].unsubscribe(&mut hub, &patterns[pattern..=pattern]);
                    wanted[who][pattern] = false;
                }
                2 => {
                    subscribers[who].leave(&mut hub);
                    wanted[who] = [false; 3];
                }
                _ => {
                    let is_wanted =
                        |id: u32| (0..3).any(|it| takes(it, id) && wanted.iter().any(|all| all[it]));
                    let is_full = listed.len() == most && listed.iter().all(|&id| is_wanted(id));
                    let is_refused = is_full && !listed.contains(&id);
                    let (events, refused) = hub.frames();
                    hub.publish(0, 0, &frame(&name(id)));
                    let is_event = u64::from(!is_refused);
                    prop_assert_eq!(hub.frames(), (events + is_event, refused + 1 - is_event));
                    let has = |id: &u32| {
                        let id = frame(&name(*id)).id();
                        hub.newest_frames().any(|(topic, ..)| topic.id() == id)
                    };
                    let before = std::mem::replace(&mut listed, (0..8).filter(has).collect());
                    prop_assert!(listed.len() <= most);
                    let gone = before.difference(&listed);
                    prop_assert!(gone.clone().count() <= 1 && gone.copied().all(|id| !is_wanted(id)));
                }
            }
        }
    }

    /// The same while buses come, go and get other databases. Every topic has one place and goes on counting when it
    /// returns.
    #[test]
    fn counts_and_ordinals_go_on_when_buses_change(
        changes in changes(),
        format in formats(),
        is_batched in any::<bool>(),
    ) {
        let patterns = [
            Pattern::Name("Motor.*".into()),
            Pattern::Name("b/*".into()),
            Pattern::Raw,
            Pattern::Id("124#".parse::<Frame>().unwrap().id()),
        ];
        let takes = |pattern: usize, bus: usize, name: &str, is_raw: bool| match pattern {
            0 => !is_raw && name.starts_with("Motor."),
            1 => !is_raw && bus == 1,
            2 => is_raw,
            _ => is_raw && name == "292",
        };
        let mut hub = Hub::with_naming(Vec::new(), Naming::Always);
        hub.open(format, length);
        hub.shrink(format, 16, 1_500, length);
        let mut subscribers: Vec<_> = (0..2).map(|_| Subscriber::new(&hub, format)).collect();
        subscribers.iter_mut().for_each(|subscriber| subscriber.set_batched(is_batched));
        let mut readers: Vec<_> = (0..2).map(|_| Reader::default()).collect();
        let mut wanted = [[false; 4]; 2];
        let mut due = [0_u64; 2];
        // By bus: where it is, if it is there, and its database.
        let mut buses: [Option<(usize, usize)>; 2] = [None; 2];
        let mut created: HashMap<String, u64> = HashMap::new();
        for change in changes {
            match change {
                Change::Set(bus, database) => {
                    let name = ["a", "b"][bus];
                    let text = ["", DBC, OTHER_DBC][database];
                    let database_of = Database::parse("car.dbc", text.as_bytes(), &Findings::new());
                    let place = hub.set_bus(Bus { name: name.to_owned(), database: database_of.map(Arc::new) });
                    prop_assert!(hub.has_bus(place));
                    buses[bus] = Some((place, database));
                }
                Change::Remove(bus) => {
                    if let Some((place, _)) = buses[bus].take() {
                        hub.remove_bus(place);
                        prop_assert!(!hub.has_bus(place));
                        // What still comes from its port is no event.
                        hub.publish(place, 0, &frame("124#00"));
                    }
                }
                Change::Step(Step::Publish(id, value)) => {
                    let (bus, id) = (id % 2, id / 2);
                    let Some((place, database)) = buses[bus] else { continue };
                    let data = [format!("123#{value:02X}000100"), format!("124#{value:02X}"), format!("125#{value:02X}")];
                    hub.publish(place, u64::from(value), &frame(&data[id]));
                    let signals: &[&str] = match (database, id) {
                        (1, 0) => &["Motor.Speed", "Motor.Gear"],
                        (1, 1) => &["Door.Open"],
                        (2, 0) => &["Motor.Torque", "Motor.Speed"],
                        (2, 2) => &["Light.On"],
                        _ => &[],
                    };
                    let is_wanted = |who: &[bool; 4], name: &str, is_raw| {
                        (0..4).any(|pattern| who[pattern] && takes(pattern, bus, name, is_raw))
                    };
                    let raw = (291 + id).to_string();
                    for (wanted, due) in wanted.iter().zip(&mut due) {
                        *due += u64::from(is_wanted(wanted, &raw, true));
                        *due += signals.iter().filter(|name| is_wanted(wanted, name, false)).count() as u64;
                    }
                    let is_decoded =
                        wanted.iter().any(|who| signals.iter().any(|name| is_wanted(who, name, false)));
                    let made = signals.iter().filter(|_| is_decoded).map(|name| (*name).to_owned());
                    for name in made.chain([raw]) {
                        *created.entry(format!("{}/{name}", ["a", "b"][bus])).or_default() += 1;
                    }
                }
                Change::Step(Step::Deliver(who, bytes)) => {
                    let (delivery, _) =
                        readers[who].take_delivery(&mut subscribers[who], &hub, format, bytes);
                    let counts = subscribers[who].counts();
                    prop_assert_eq!(counts.delivered, readers[who].events.len() as u64);
                    prop_assert_eq!(counts.missed, readers[who].missed);
                    let done = counts.delivered + counts.filtered + counts.superseded + counts.missed;
                    prop_assert!(done <= due[who]);
                    prop_assert!(delivery.has_more || done == due[who]);
                }
                Change::Step(Step::Subscribe(who, pattern, is_latest, every)) => {
                    let filter = Filter { every, ..Filter::default() };
                    subscribers[who].subscribe(&mut hub, patterns[pattern].clone(), filter, is_latest);
                    wanted[who][pattern] = true;
                }
                Change::Step(Step::Unsubscribe(who, pattern)) => {
                    // First all that waits, so that nothing is given up.
                    let reader = &mut readers[who];
                    while reader.take_delivery(&mut subscribers[who], &hub, format, usize::MAX).0.has_more {}
                    subscribers[who].unsubscribe(&mut hub, &patterns[pattern..=pattern]);
                    wanted[who][pattern] = false;
                }
            }
            let mut names = HashMap::new();
            for topic in hub.topics() {
                prop_assert_eq!(topic.created, created.get(&*topic.name).copied().unwrap_or(0), "{}", topic.name);
                prop_assert!(names.insert(topic.name.clone(), topic.is_gone).is_none(), "{}", topic.name);
            }
            for (name, bus) in ["a", "b"].iter().zip(&buses) {
                let of_bus = names.iter().filter(|(of_bus, is_gone)| of_bus.starts_with(name) && !**is_gone);
                let signals = of_bus.filter(|(name, _)| name.contains('.')).count();
                prop_assert_eq!(signals, bus.map_or(0, |(_, database)| [0, 3, 3][database]));
            }
        }
    }

    /// Another decoder finds in the messages what was published, whatever was missed in between.
    #[test]
    fn what_was_published_is_what_is_decoded(
        format in formats(),
        is_batched in any::<bool>(),
        is_known in any::<bool>(),
        start_us in 0..5_u64 << 32,
        frames in prop::collection::vec((0..3_usize, any::<u16>(), 0..1_u64 << 31), 0..200),
        bytes in 1..2_000_usize,
    ) {
        let mut hub = hub(&["bus"]);
        hub.open(format, length);
        hub.shrink(format, 64, 4_000, length);
        let mut subscriber = Subscriber::new(&hub, format);
        subscriber.set_batched(is_batched);
        for pattern in [Pattern::Name("*".into()), Pattern::Raw] {
            subscriber.subscribe(&mut hub, pattern, Filter::default(), false);
        }
        let mut reader = Reader::default();
        if is_known {
            for (number, name) in subscriber.name_topics(&hub, &mut 0, &mut Steps::all()) {
                reader.names.insert(number.into(), name.to_string());
            }
            prop_assert_eq!(reader.names.len(), 3);
        }
        let mut published = Vec::new();
        let mut ordinals = [0_u64; 3];
        let mut time_us = start_us;
        for (number, (id, value, later)) in frames.into_iter().enumerate() {
            time_us += later + 1;
            let [low, high] = value.to_le_bytes();
            let data = [low, high, low, 0];
            let data = [&data[..], &data[..1], &data[..0]][id];
            let hex: String = data.iter().map(|byte| format!("{byte:02X}")).collect();
            hub.publish(0, time_us * 1_000 + 999, &frame(&format!("{}#{hex}", 123 + id)));
            let ordinal = ordinals[id] & 0xFF;
            ordinals[id] += 1;
            let mut note = |name: &str, content| published.push((name.to_owned(), time_us, ordinal, content));
            note(["bus/291", "bus/292", "bus/293"][id], vec![Generic::Bytes(data.to_vec())]);
            match id {
                0 => {
                    note("Motor.Speed", vec![Generic::Float(f64::from(value) * 0.5)]);
                    let text = ["neutral", "first"].get(usize::from(low));
                    let text = text.map(|text| Generic::Text((*text).to_owned()));
                    note("Motor.Gear", [Generic::Float(low.into())].into_iter().chain(text).collect());
                }
                1 => note("Door.Open", vec![Generic::Float((low & 1).into())]),
                _ => {}
            }
            if number % 40 == 39 {
                reader.take_delivery(&mut subscriber, &hub, format, bytes);
            }
        }
        while reader.take_delivery(&mut subscriber, &hub, format, usize::MAX).0.has_more {}
        prop_assert_eq!(reader.events.len() as u64 + reader.missed, published.len() as u64);
        let mut published = published.into_iter();
        for event in reader.events {
            // AGL's messages have no ordinal, and those of frames no time.
            let is_same = |other: &(String, u64, u64, Vec<Generic>)| match format {
                Format::Afb(_) => other.3 == event.3 && (event.1 == 0 || (&other.0, other.1) == (&event.0, event.1)),
                _ => *other == event,
            };
            prop_assert!(published.any(|other| is_same(&other)), "{event:?}");
        }
    }
}

/// docs/signals.md states these.
#[test]
fn binary_events_have_the_sizes_that_are_documented() {
    let mut hub = hub(&["car"]);
    let length_of = |encoding: Encoding, hub: &mut Hub, text: &str, pattern: &str| {
        let format = Format::Binary(encoding);
        hub.open(format, length);
        let mut subscriber = Subscriber::new(hub, format);
        let pattern = match pattern {
            "raw" => Pattern::Raw,
            name => Pattern::Name(name.into()),
        };
        subscriber.subscribe(hub, pattern, Filter::default(), false);
        hub.publish(0, 1_505_812_906_020_023_000, &frame(text));
        let mut out = Vec::new();
        subscriber.deliver(hub, usize::MAX, &mut out);
        subscriber.leave(hub);
        messages(&out).last().unwrap().len()
    };
    for encoding in Encoding::ALL {
        let mut lengths = ["518#303BE65F1CF5FFFF", "518#"]
            .map(|text| length_of(encoding, &mut hub, text, "raw"))
            .to_vec();
        // Whole, a half, and of a name.
        for (text, pattern) in
            [("123#90010100", "*.Speed"), ("123#91010200", "*.Speed"), ("123#00000100", "*.Gear")]
        {
            lengths.push(length_of(encoding, &mut hub, text, pattern));
        }
        let expected = match encoding {
            Encoding::Cbor => [18, 10, 11, 14, 16],
            Encoding::MessagePack => [19, 11, 11, 14, 16],
        };
        assert_eq!(lengths, expected, "{encoding:?}");
    }
}

#[test]
fn clients_read_what_the_service_writes() {
    for encoding in Encoding::ALL {
        let reply = |outcome: Result<&Value, &str>| {
            let mut out = Vec::new();
            binary::reply(encoding, &json!(3), outcome, &mut out);
            out
        };
        let expected = binary::Message::Reply(3, Ok(json!({"names": [[0, "a"]], "x": null})));
        let good = reply(Ok(&json!({"names": [[0, "a"]], "x": null})));
        assert_eq!(binary::read(encoding, &good), Some(expected));
        assert_eq!(
            binary::read(encoding, &reply(Err("no"))),
            Some(binary::Message::Reply(3, Err("no".to_owned())))
        );
        let format = Format::Binary(encoding);
        let mut hub = hub(&["car"]);
        hub.open(format, length);
        let mut subscriber = Subscriber::new(&hub, format);
        subscriber.set_batched(true);
        for pattern in [Pattern::Raw, Pattern::Name("*".into())] {
            subscriber.subscribe(&mut hub, pattern, Filter::default(), false);
        }
        hub.publish(0, (7 << 32) * 1_000 + 5_000, &frame("123#91010100"));
        let mut out = Vec::new();
        subscriber.deliver(&hub, usize::MAX, &mut out);
        let event =
            |topic, content| binary::Message::Event { topic, time_us: 5, ordinal: 0, content };
        let name = |topic, name: &str| binary::Message::Name(topic, name.to_owned());
        let expected = binary::Message::Batch(vec![
            name(3, "car/291"),
            binary::Message::Base(7 << 32),
            event(3, binary::Content::Data(vec![0x91, 1, 1, 0])),
            name(0, "Motor.Speed"),
            event(0, binary::Content::Value(200.5, None)),
            name(1, "Motor.Gear"),
            event(1, binary::Content::Value(1.0, Some("first".to_owned()))),
        ]);
        assert_eq!(messages(&out).len(), 1);
        assert_eq!(binary::read(encoding, messages(&out)[0]), Some(expected));
        assert_eq!(binary::read(encoding, &[]), None);
    }
}
