//! The hub, its subscribers and what they are told.

use candor_diagnostics::Findings;
use candor_signals::Database;
use candor_wire::can::Frame;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::afb::Api;
use crate::{Bus, Filter, Format, Hub, Pattern, Subscriber};

const FORMAT: Format = Format::Afb(Api::LowCan);
const DBC: &str = "BU_: A\n\nBO_ 291 Motor: 4 A\n SG_ Speed : 0|16@1+ (0.5,0) [0|100] \"rpm\" B\n \
                   SG_ Gear : 16|8@1+ (1,0) [0|5] \"\" B\n\nBO_ 292 Door: 1 A\n SG_ Open : 0|1@1+ (1,0) [0|1] \"\" B\n\n\
                   VAL_ 291 Gear 0 \"neutral\" 1 \"first\" ;\n";

fn line_feed(_: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
}

fn hub(names: &[&str]) -> Hub {
    let findings = Findings::new();
    let bus = |name: &&str| Bus {
        name: (*name).to_owned(),
        database: Database::parse("car.dbc", DBC.as_bytes(), &findings),
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
    let topic = hub.topics().iter().find(|topic| topic.name == "Motor.Gear").unwrap();
    assert_eq!(hub.latest(topic).unwrap().text, Some("first"));
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

proptest! {
    /// Whatever subscribers do, of the events of their topics since they subscribed, each was delivered, filtered,
    /// superseded or missed, or waits. The oracle counts events by hand.
    #[test]
    fn created_is_delivered_and_filtered_and_superseded_and_missed(steps in steps()) {
        let patterns = [
            Pattern::Name("Motor.*".into()),
            Pattern::Name("*".into()),
            Pattern::Raw,
            Pattern::Id("124#".parse::<Frame>().unwrap().id()),
        ];
        let mut hub = hub(&["bus"]);
        hub.shrink(FORMAT, 16, 1_500, line_feed);
        let mut subscribers: Vec<_> = (0..3).map(|_| Subscriber::new(&hub, FORMAT)).collect();
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
                    let mut out = Vec::new();
                    let delivery = subscribers[who].deliver(&hub, bytes, &mut out);
                    let after = subscribers[who].counts();
                    let lines = out.iter().filter(|&&byte| byte == b'\n').count() as u64;
                    prop_assert_eq!(after.delivered - before.delivered, lines);
                    prop_assert_eq!(after.missed - before.missed, delivery.missed);
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
                    while subscribers[who].deliver(&hub, usize::MAX, &mut Vec::new()).has_more {}
                    subscribers[who].unsubscribe(&mut hub, &patterns[pattern..=pattern]);
                    wanted[who][pattern] = false;
                    given_up[who] = waiting(due[who], subscribers[who].counts(), 0);
                    prop_assert_eq!(given_up[who], 0);
                }
            }
        }
    }
}
