//! Full-duplex Ethernet links, exact to the nanosecond (IEEE 802.3).
//!
//! A link has two ends and carries frames both ways at once, each way by itself, without collisions
//! (full duplex; IEEE 802.3, annex 4A). Each end is a controller with eight transmit queues, one for each
//! priority. The highest priority that waits is sent first (strict priority, IEEE 802.1Q, clause
//! 8.6.8.1), and a transmission that has begun is never interrupted.
//!
//! A frame takes its preamble, its bytes with padding, and its check sequence. Then it has been sent,
//! and after the propagation delay the other end has all of it: store and forward. The next frame
//! begins behind the gap of 96 bit times.
//!
//! ```text
//!  | preamble 8 | frame, 64 to 1,522 bytes | gap 12 | preamble of the next frame
//!  ^ started                               ^ sent
//!                                          |-- delay --^ received
//! ```
//!
//! Links lose no frame and destroy none. The clocks of both ends run at the nominal speed; the
//! tolerance of 100 ppm (IEEE 802.3, clause 22.2.2.1) is not modelled.
//!
//! ```
//! use candor_sim::eth::{Ethernet, Event, LinkConfig, Offer};
//! use candor_sim::event::Core;
//! use candor_sim::medium::{FrameId, Medium, Outcome};
//! use candor_time::Nanos;
//! use candor_wire::eth::LinkSpeed;
//!
//! let (mut core, mut ethernet) = (Core::<Event>::new(1), Ethernet::default());
//! let delay = Nanos::from_nanos(500);
//! let config = LinkConfig { speed: LinkSpeed::MBIT_100, delay, depth: 4 };
//! let [left, right] = ethernet.add_link(config).ends();
//! let offer = Offer { id: FrameId(7), len: 60, priority: 0 };
//! ethernet.offer(&mut core, left, offer).unwrap();
//!
//! let (mut outcomes, mut times) = (Vec::new(), Vec::new());
//! while let Some(event) = core.next() {
//!     let before = outcomes.len();
//!     ethernet.happen(&mut core, event, &mut outcomes);
//!     times.extend(outcomes[before..].iter().map(|_| core.now().as_nanos()));
//! }
//! let frame = FrameId(7);
//! assert_eq!(outcomes, [
//!     Outcome::Started { at: left, frame },
//!     Outcome::Sent { at: left, frame },
//!     Outcome::Received { at: right, from: left, frame },
//! ]);
//! // 8 + 60 + 4 bytes of 80 ns, and the way.
//! assert_eq!(times, [0, 5_760, 6_260]);
//! ```

mod direction;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_wire::eth::{HEADER_LEN, LinkSpeed, MAX_PAYLOAD_LEN, TAG_LEN};

use crate::event::{Core, Includes, Phase, Rank, Ranked, Time};
use crate::medium::{ControllerId, FrameId, Medium, Outcome};
use direction::Direction;

/// How many priorities there are (IEEE 802.1Q, clause 6.9.3: three bits).
pub const PRIORITIES: usize = 8;

/// The longest frame, in bytes: with a tag, and without its check sequence.
const MAX_LEN: usize = HEADER_LEN + TAG_LEN + MAX_PAYLOAD_LEN;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The controllers at its two ends.
    #[must_use]
    pub const fn ends(self) -> [ControllerId; 2] {
        [ControllerId(2 * self.0), ControllerId(2 * self.0 + 1)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Its speed, both ways.
    pub speed: LinkSpeed,
    /// How long a bit takes from one end to the other: about 5 ns per metre of cable, and the delays
    /// of both transceivers.
    pub delay: Nanos,
    /// Frames that each transmit queue holds, besides the one on the link; each end has one queue for
    /// each priority.
    pub depth: usize,
}

/// A frame offered to an end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The number by which its driver knows it.
    pub id: FrameId,
    /// Its length in bytes: header, tag and payload, without padding and check sequence.
    pub len: usize,
    /// 0 to 7; the highest is sent first.
    pub priority: u8,
}

/// What happened one way on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Frames that were sent.
    pub frames: u64,
    /// Frames that found their queue full.
    pub refused: u64,
    /// How long it was occupied, preambles and gaps included.
    pub busy: Nanos,
}

/// What links plan. Numbers are those of the controllers that send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The link is free and a frame may wait.
    Choose(u32),
    /// The last bit of a frame has left its sender.
    End(u32),
    /// The last bit of a frame has reached the other end.
    Arrive(u32),
}

impl Ranked for Event {
    #[inline]
    fn rank(self) -> Rank {
        match self {
            Self::End(sender) | Self::Arrive(sender) => Rank::new(Phase::Arrives, sender),
            Self::Choose(sender) => Rank::new(Phase::Chooses, sender),
        }
    }
}

/// Ethernet links and the controllers at their ends.
#[derive(Default)]
pub struct Ethernet {
    /// By the controller that sends.
    directions: Vec<Direction>,
}

impl Ethernet {
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        let id = self.directions.len() as u32 / 2;
        self.directions.extend([Direction::new(config), Direction::new(config)]);
        LinkId(id)
    }

    /// What happened up to `now` on the way from the controller `from` to the other end.
    #[must_use]
    pub fn statistics(&self, from: ControllerId, now: Time) -> LinkStatistics {
        self.directions[from.0 as usize].statistics_at(now)
    }

    /// How many frames wait in the queue of a priority, in front of the link.
    #[must_use]
    pub fn waiting(&self, at: ControllerId, priority: u8) -> usize {
        self.directions[at.0 as usize].waiting(priority)
    }

    /// Plans when a controller chooses its next frame, if one waits, nothing is on the way and nothing
    /// is planned.
    fn call<E: Includes<Event>>(&mut self, core: &mut Core<E>, sender: u32) {
        if let Some(at) = self.directions[sender as usize].next_choice(core.now()) {
            core.plan(at, Event::Choose(sender));
        }
    }
}

impl Medium for Ethernet {
    type Event = Event;
    type Offer<'a> = Offer;

    /// Puts a frame into the queue of its priority.
    ///
    /// # Errors
    /// [`Cause::QueueFull`], or [`Cause::Unsupported`]: it is shorter than a header or longer than
    /// 1,518 bytes, or its priority is above 7.
    fn offer<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        at: ControllerId,
        offer: Offer,
    ) -> Result<(), Cause> {
        if !(HEADER_LEN..=MAX_LEN).contains(&offer.len) || usize::from(offer.priority) >= PRIORITIES
        {
            return Err(Cause::Unsupported);
        }
        self.directions[at.0 as usize].push(offer)?;
        self.call(core, at.0);
        Ok(())
    }

    fn happen<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        event: Event,
        outcomes: &mut Vec<Outcome>,
    ) {
        match event {
            Event::Choose(sender) => {
                let direction = &mut self.directions[sender as usize];
                if let Some((frame, end)) = direction.start(core.now()) {
                    outcomes.push(Outcome::Started { at: ControllerId(sender), frame });
                    core.plan(end, Event::End(sender));
                }
            }
            Event::End(sender) => {
                let direction = &mut self.directions[sender as usize];
                if let Some(frame) = direction.end() {
                    outcomes.push(Outcome::Sent { at: ControllerId(sender), frame });
                    core.plan(core.now() + direction.delay(), Event::Arrive(sender));
                }
                self.call(core, sender);
            }
            Event::Arrive(sender) => {
                if let Some(frame) = self.directions[sender as usize].arrive() {
                    // The two ends of a link have numbers that differ in the last bit.
                    let (at, from) = (ControllerId(sender ^ 1), ControllerId(sender));
                    outcomes.push(Outcome::Received { at, from, frame });
                }
            }
        }
    }
}
