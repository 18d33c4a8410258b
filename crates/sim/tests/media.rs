//! Several media in one event core.

use candor_sim::can::{BusConfig, ControllerConfig};
use candor_sim::eth::LinkConfig;
use candor_sim::event::{Core, Phase, Rank, Ranked};
use candor_sim::media::{Event, Media, MediumId};
use candor_sim::medium::{ControllerId, FrameId, Medium, Outcome};
use candor_sim::{Discipline, Time, can, eth};
use candor_time::Nanos;
use candor_wire::can::{Bitrate, Frame, Timing, bits};
use candor_wire::eth::LinkSpeed;

/// What a node does besides the media: it offers a frame, to the bus or to the link.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Release {
    OnBus(ControllerId, FrameId, u32),
    OnLink(ControllerId, FrameId, u8),
}

impl Ranked for Release {
    fn rank(self) -> Rank {
        Rank::HAPPENS
    }
}

/// A CAN bus of 1 Mbit/s with three nodes, and a link of 100 Mbit/s.
struct Scene {
    core: Core<Event<Release>>,
    media: Media,
    nodes: [ControllerId; 3],
    ends: [ControllerId; 2],
    /// When, in ns, in which medium, and what.
    outcomes: Vec<(u64, MediumId, Outcome)>,
}

impl Scene {
    fn new() -> Self {
        let (core, mut media) = (Core::new(1), Media::default());
        let bus = media.can.add_bus(
            &core,
            BusConfig {
                name: "bus".into(),
                timing: Timing::classical(Bitrate::new(1_000_000).unwrap()),
                is_fd: false,
                bit_error_rate: 0.0,
                restart: None,
            },
        );
        let config = ControllerConfig {
            discipline: Discipline::Priority,
            is_listening: false,
            ..ControllerConfig::default()
        };
        let mut nodes = [config; 3].map(|config| media.can.add_controller(bus, config));
        let listener = ControllerConfig { is_listening: true, ..config };
        nodes[2] = media.can.add_controller(bus, listener);
        let (speed, delay) = (LinkSpeed::MBIT_100, Nanos::ZERO);
        let ends = media.eth.add_link(LinkConfig { speed, delay, depth: 8 }).ends();
        Self { core, media, nodes, ends, outcomes: Vec::new() }
    }

    /// Runs to the end. `on` may follow an outcome up with further offers.
    fn run(&mut self, mut on: impl FnMut(&mut Self, MediumId, Outcome)) {
        let mut outcomes = Vec::new();
        while let Some(event) = self.core.next() {
            match self.media.happen(&mut self.core, event, &mut outcomes) {
                Ok(medium) => {
                    for outcome in outcomes.drain(..) {
                        self.outcomes.push((self.core.now().as_nanos(), medium, outcome));
                        on(self, medium, outcome);
                    }
                }
                Err(release) => self.release(release),
            }
        }
    }

    fn release(&mut self, release: Release) {
        match release {
            Release::OnBus(at, id, can_id) => {
                let frame = Frame::from_parts(can_id, &[], None).unwrap();
                let length = bits::length(&frame).unwrap();
                let offer = can::Offer { id, frame: &frame, length };
                self.media.can.offer(&mut self.core, at, offer).unwrap();
            }
            Release::OnLink(at, id, priority) => {
                let offer = eth::Offer { id, len: 60, priority };
                self.media.eth.offer(&mut self.core, at, offer).unwrap();
            }
        }
    }

    fn plan(&mut self, at_ns: u64, release: Release) {
        self.core.plan(Time::from_nanos(at_ns), Event::Part(release));
    }
}

/// A frame of 45 bits, which ends 45 us after it was started.
const FIRST_NS: u64 = 45_000;

#[test]
fn events_of_one_instant_are_ordered_by_phase_then_medium() {
    // The last bits of a frame on the bus and of one on the link, at one instant, planned in either
    // order. Then a release at the very instant at which the link, and later the bus, is free again.
    let start_ns = FIRST_NS - 5_760;
    for is_link_first in [false, true] {
        let mut scene = Scene::new();
        let [a, b, c] = scene.nodes;
        let [left, right] = scene.ends;
        let on_link = (start_ns, Release::OnLink(left, FrameId(10), 0));
        let waits = (start_ns + 1, Release::OnLink(left, FrameId(11), 0));
        // The link is free 960 ns after the end, and the bus 3 us.
        let late = (start_ns + 6_720, Release::OnLink(left, FrameId(12), 7));
        let on_bus = (0, Release::OnBus(a, FrameId(0), 0x123));
        let second = (1_000, Release::OnBus(a, FrameId(1), 0x300));
        let third = (FIRST_NS + 3_000, Release::OnBus(b, FrameId(2), 0x200));
        let mut plans = [on_bus, second, third, on_link, waits, late];
        if is_link_first {
            plans.reverse();
        }
        for (at_ns, release) in plans {
            scene.plan(at_ns, release);
        }
        scene.run(|_, _, _| {});
        let at = |at_ns: u64| {
            let here = scene.outcomes.iter().filter(move |&&(now_ns, ..)| now_ns == at_ns);
            here.map(|&(_, medium, outcome)| (medium, outcome)).collect::<Vec<_>>()
        };
        let (can, eth) = (MediumId::Can, MediumId::Ethernet);
        let started = |at, frame| Outcome::Started { at, frame: FrameId(frame) };
        let sent = |at, frame| Outcome::Sent { at, frame: FrameId(frame) };
        let received = |at, from, frame| Outcome::Received { at, from, frame: FrameId(frame) };
        let ends = [
            (can, received(c, a, 0)),
            (can, sent(a, 0)),
            (eth, sent(left, 10)),
            (eth, received(right, left, 10)),
        ];
        assert_eq!(at(FIRST_NS), ends);
        // Both media choose among all that were released up to that instant.
        assert_eq!(at(start_ns + 6_720), [(eth, started(left, 12))]);
        assert_eq!(at(FIRST_NS + 3_000), [(can, started(b, 2))]);
    }
}

#[test]
fn what_is_released_when_another_medium_ends_takes_part_in_the_choice() {
    // The listener of the bus passes each frame on to the link at once, with its own priority. What
    // the link sends at that instant is chosen after that.
    let mut scene = Scene::new();
    let [a, _, c] = scene.nodes;
    let left = scene.ends[0];
    scene.plan(0, Release::OnBus(a, FrameId(0), 0x123));
    // Free again exactly at the end of the frame on the bus.
    scene.plan(FIRST_NS - 6_720, Release::OnLink(left, FrameId(10), 0));
    scene.plan(FIRST_NS - 1_000, Release::OnLink(left, FrameId(11), 5));
    scene.run(|scene, _, outcome| match outcome {
        Outcome::Received { at, frame, .. } if at == c && frame == FrameId(0) => {
            scene.release(Release::OnLink(scene.ends[0], FrameId(12), 6));
        }
        _ => {}
    });
    let starts: Vec<_> = scene
        .outcomes
        .iter()
        .filter_map(|&(at_ns, medium, outcome)| match outcome {
            Outcome::Started { frame, .. } if medium == MediumId::Ethernet => {
                Some((at_ns, frame.0))
            }
            _ => None,
        })
        .collect();
    let expected = [(FIRST_NS - 6_720, 10), (FIRST_NS, 12), (FIRST_NS + 6_720, 11)];
    assert_eq!(starts, expected);
}

#[test]
fn ranks_keep_media_apart() {
    let end = |event: Event<Release>| event.rank();
    let of_can = end(can::Event::End(7).into());
    let of_ethernet = end(eth::Event::End(0).into());
    assert!(of_can < of_ethernet && of_ethernet < end(can::Event::Arbitrate(0).into()));
    assert_eq!(end(can::Event::Reloaded(3).into()), Rank::HAPPENS);
    assert!(end(eth::Event::Choose(0).into()) > end(can::Event::Arbitrate(u32::MAX).into()));
    assert!(Rank::new(Phase::Serves, 0) > of_ethernet);
}
