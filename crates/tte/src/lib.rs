//! [`Network`]: a network of time-triggered Ethernet, described once: end systems, switches, links, and flows with
//! the instants at which the schedule sends and relays their frames.
//!
//! The simulation runs it, experiments measure it, [`model`] says what latency follows from it, [`mod@check`] whether
//! its schedule can work. It is plain data; [`mod@file`] reads it, and [`route`] follows each flow over the links.
//!
//! ```text
//!  network file ----+                        +--> simulation, experiments
//!  experiment file -+--> file --> Network ---+--> model: the latency of each flow
//!                                            +--> schedule: what occupies each link, and when --> check
//! ```
//!
//! Three classes of traffic share the links (SAE AS6802): *time-triggered* frames leave at instants of the schedule,
//! *rate-constrained* flows keep a distance between their frames (ARINC 664, part 7), *best-effort* frames take what
//! is left.
//!
//! Instants are those of the first bit of a frame behind its preamble, as in IEEE 802.3, clause 90: *sent* when it
//! leaves, *received* when the last bit has arrived.

#[cfg(feature = "file")]
pub mod check;
#[cfg(feature = "file")]
pub mod file;
pub mod frames;
pub mod model;
mod port;
mod relays;
pub mod route;
pub mod schedule;
pub mod station;
pub mod sync;

use core::ops::RangeInclusive;

use candor_time::Nanos;
use candor_wire::eth::{FCS_LEN, GAP_LEN, LinkSpeed, MAX_PAYLOAD_LEN, MIN_LEN, PREAMBLE_LEN};

pub use frames::Frames;

/// The sizes of frames in bytes, with header and check sequence and without a tag (IEEE 802.3, clause 3.2.7).
pub const SIZES: RangeInclusive<u16> = MIN_LEN as u16..=(MAX_PAYLOAD_LEN + 18) as u16;

#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// What it is about, in a few words; may be empty.
    pub title: String,
    /// How long the schedule is; it is repeated.
    pub cycle: Nanos,
    /// No two clocks differ by more, and no frame leaves further from its instant.
    pub precision: Nanos,
    /// End systems and switches. Their names differ.
    pub nodes: Vec<Node>,
    /// The links between them.
    pub links: Vec<Link>,
    /// What is sent. Their names differ.
    pub flows: Vec<Flow>,
    /// How clocks are kept together; `None`: by means that are not part of the network.
    pub synchronisation: Option<Synchronisation>,
    /// What frames look like.
    pub frames: Frames,
}

impl Network {
    /// The index of the node of that name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The index of the flow of that name.
    #[must_use]
    pub fn flow(&self, name: &str) -> Option<usize> {
        self.flows.iter().position(|flow| flow.name == name)
    }

    /// Whether a node has a schedule, and a clock for it: end systems and time-triggered switches have.
    #[must_use]
    pub fn has_schedule(&self, node: usize) -> bool {
        match self.nodes[node].role {
            Role::EndSystem(_) => true,
            Role::Switch(switch) => matches!(switch.relaying, Relaying::TimeTriggered(_)),
        }
    }

    /// Whether clocks can differ: one drifts, or they are kept together by frames.
    #[must_use]
    pub fn has_clocks(&self) -> bool {
        self.synchronisation.is_some()
            || self.nodes.iter().any(|node| node.oscillator != Oscillator::default())
    }

    /// The links of a node, by their indices.
    pub fn links_of(&self, node: usize) -> impl Iterator<Item = usize> {
        let has = move |(_, link): &(usize, &Link)| link.ends.contains(&node);
        self.links.iter().enumerate().filter(has).map(|(index, _)| index)
    }
}

/// An end system or a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The name in files, messages and results.
    pub name: String,
    /// Which of both it is.
    pub role: Role,
    /// Its clock.
    pub oscillator: Oscillator,
}

impl Node {
    /// How far apart its frames may leave of what the schedule says; switches keep their instants.
    #[must_use]
    pub const fn jitter(&self) -> Nanos {
        match self.role {
            Role::EndSystem(end_system) => end_system.jitter,
            Role::Switch(_) => Nanos::ZERO,
        }
    }
}

/// What makes the clock of a node run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oscillator {
    /// By how much it is fast, in parts per million; negative: slow.
    pub drift_ppm: i32,
    /// By how much that changes at most in a cycle, at random, in parts per million.
    pub drift_change_ppm: u32,
}

impl Oscillator {
    /// What random change does not lead beyond, in parts per million (CoRE4INET, `max_drift`).
    pub const MAX_DRIFT_PPM: u32 = 200;

    /// By how much it is fast or slow at most, in parts per million.
    #[must_use]
    pub const fn most_ppm(self) -> u32 {
        let own = self.drift_ppm.unsigned_abs();
        if self.drift_change_ppm > 0 && own < Self::MAX_DRIFT_PPM {
            Self::MAX_DRIFT_PPM
        } else {
            own
        }
    }
}

/// How clocks are kept together, by protocol control frames (SAE AS6802): one compression master, one channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Synchronisation {
    /// The integration cycle: so often clocks are corrected. A whole part of the cycle, or a multiple of it.
    pub period: Nanos,
    /// The synchronisation masters: end systems, by their indices.
    pub masters: Vec<usize>,
    /// The compression master: a switch, by its index.
    pub compression_master: usize,
    /// What is put into the frames: the priority of the synchronisation domain.
    pub priority: u8,
    /// When what happens in an integration cycle, in nanoseconds.
    pub timing: sync::Timing,
    /// The frames: from each master to the compression master, in their order, and from there to all nodes with
    /// a schedule.
    pub flows: Vec<Flow>,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Sends and receives.
    EndSystem(EndSystem),
    /// Relays.
    Switch(Switch),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndSystem {
    /// Its time-triggered frames leave at random within this, half of it before and half behind their instants.
    pub jitter: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    pub relaying: Relaying,
    /// How long a frame takes from its last bit until it can leave; with cut-through, from its first bit.
    pub processing: Nanos,
    /// Frames that wait at a port at most, for each class.
    pub depth: usize,
}

impl Default for Switch {
    fn default() -> Self {
        let relaying = Relaying::TimeTriggered(RelayBuffer::Overwrite);
        Self { relaying, processing: Nanos::ZERO, depth: 64 }
    }
}

/// How a switch relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relaying {
    /// Time-triggered frames at the instants of the schedule, the others by class in between.
    TimeTriggered(RelayBuffer),
    /// All frames of a port in the order in which they came, when they are complete.
    StoreAndForward,
    /// The same, from their first bit on if the port is free.
    CutThrough,
}

/// Where a time-triggered frame waits for its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayBuffer {
    /// Room for one frame of each flow: the newest takes the place of one that waits.
    Overwrite,
    /// Frames leave in the order in which they came, one at each instant.
    Queue,
}

/// A full-duplex link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The name in files and messages.
    pub name: String,
    /// The nodes at its ends, by their indices.
    pub ends: [usize; 2],
    /// Its speed, both ways.
    pub speed: LinkSpeed,
    /// How long a bit takes from one end to the other.
    pub delay: Nanos,
}

impl Link {
    /// The node at the other end; `None` if `node` is at neither.
    #[must_use]
    pub fn other_end(&self, node: usize) -> Option<usize> {
        let [one, other] = self.ends;
        match node {
            node if node == one => Some(other),
            node if node == other => Some(one),
            _ => None,
        }
    }

    /// How long the bits of a frame take, from its first behind the preamble to its last.
    #[must_use]
    pub const fn transmission(&self, size: u16) -> Nanos {
        Nanos::from_nanos(self.speed.duration_ns(size as usize))
    }

    /// How long the preamble takes.
    #[must_use]
    pub const fn preamble(&self) -> Nanos {
        Nanos::from_nanos(self.speed.duration_ns(PREAMBLE_LEN))
    }

    /// How long a frame occupies the link: preamble, bits, and the gap behind them.
    #[must_use]
    pub const fn occupation(&self, size: u16) -> Nanos {
        Nanos::from_nanos(self.speed.duration_ns(PREAMBLE_LEN + size as usize + GAP_LEN))
    }
}

/// Frames of one kind from one end system to others: a virtual link.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The name in files, messages and results.
    pub name: String,
    /// What says when its frames are sent.
    pub traffic: Traffic,
    /// The number of the virtual link, in the destination address.
    pub id: u16,
    /// Who sends, by its index.
    pub from: usize,
    /// Who receives, by their indices.
    pub to: Vec<usize>,
    /// The size of its frames in bytes, with header and check sequence.
    pub size: u16,
    /// A frame is to be received this long after its instant at most.
    pub deadline: Option<Nanos>,
    /// Its way, as a tree: each hop stands behind the one that leads to it.
    pub hops: Vec<Hop>,
    /// Its frames are protocol control frames: they leave before rate-constrained ones, and no gap is asked of them.
    pub is_control: bool,
}

impl Flow {
    /// The length of its frames as they are handed to a controller: without the check sequence.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        usize::from(self.size) - FCS_LEN
    }

    /// The hops by which frames go on that came by the hop `came`, by their indices.
    pub fn hops_behind(&self, came: usize) -> impl Iterator<Item = usize> {
        let is_next = move |(_, hop): &(usize, &Hop)| hop.before == Some(came);
        self.hops.iter().enumerate().filter(is_next).map(|(index, _)| index)
    }

    /// The hops by which frames leave their sender, by their indices.
    pub fn first_hops(&self) -> impl Iterator<Item = usize> {
        let is_first = |(_, hop): &(usize, &Hop)| hop.before.is_none();
        self.hops.iter().enumerate().filter(is_first).map(|(index, _)| index)
    }

    /// The distance of two frames, if they are time-triggered.
    #[must_use]
    pub const fn period(&self) -> Option<Nanos> {
        match self.traffic {
            Traffic::TimeTriggered { period, .. } => Some(period),
            _ => None,
        }
    }

    /// Whether its frames are time-triggered.
    #[must_use]
    pub const fn is_time_triggered(&self) -> bool {
        matches!(self.traffic, Traffic::TimeTriggered { .. })
    }
}

/// When the frames of a flow are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// At instants of the schedule.
    TimeTriggered {
        /// The distance of two frames.
        period: Nanos,
        /// The instant of the first, in the cycle.
        send: Nanos,
        /// How wide the receive window is that switches and receivers have around the instant at which a frame
        /// is to come; `None`: they take it whenever it comes.
        window: Option<Nanos>,
    },
    /// With a distance at least.
    RateConstrained {
        /// The bandwidth allocation gap: the distance of two frames.
        gap: Nanos,
        /// How much earlier a switch lets one pass.
        jitter: Nanos,
    },
    /// Back to back at random instants, so that the sender's link is occupied to this part: 0 to 1.
    BestEffort { load: f64 },
}

impl Traffic {
    /// When the next frame is to leave, if one of a rate-constrained flow that was to leave at `due` leaves at `at`: the
    /// gap is that on the link, but for the jitter that switches allow (CoRE4INET, `RCBuffer.cc`: the timer is the BAG less
    /// the smaller of lateness and jitter). `None` for other classes.
    #[must_use]
    pub fn next_behind(self, due: Nanos, at: Nanos) -> Option<Nanos> {
        let Self::RateConstrained { gap, jitter } = self else { return None };
        let late = Nanos::from_nanos(at.as_nanos().saturating_sub(due.as_nanos()));
        Some(Nanos::from_nanos((at + gap).as_nanos() - late.min(jitter).min(gap).as_nanos()))
    }

    /// The name of the class in files.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::TimeTriggered { .. } => "tt",
            Self::RateConstrained { .. } => "rc",
            Self::BestEffort { .. } => "be",
        }
    }
}

/// A link on the way of a flow, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node that sends on it.
    pub from: usize,
    pub link: usize,
    /// The node that receives.
    pub to: usize,
    /// The hop by which frames come to `from`; `None` for the sender's own.
    pub before: Option<usize>,
    /// How long `from` keeps a time-triggered frame, from its first bit in to its first bit out; zero for the sender.
    pub relay_delay: Nanos,
    /// When the first bit of a time-triggered frame leaves `from`, counted from the begin of its period.
    pub at: Nanos,
}
