//! What the suite runs on: two ports that are connected, and the world that they are in.

use std::fmt::Debug;
use std::sync::Arc;

use candor_linux::clock;
use candor_port::{Handover, Port, Registry, Wanted};
use candor_time::{Instant, Monotonic, Nanos, Realtime};

/// How long anything may take.
pub(super) const MOST: Nanos = Nanos::from_secs(20);

pub(super) const STEP: Nanos = Nanos::from_millis(1);

/// Where ports are, and which time they have.
pub(crate) trait World: Debug {
    /// Opens a port.
    fn open(&self, name: &str, wanted: Wanted) -> Port;
    /// The time of deadlines.
    fn now(&self) -> Instant<Monotonic>;
    /// The time of stamps.
    fn stamp_now(&self) -> Instant<Realtime>;
    /// Lets time pass until then.
    fn sleep_until(&self, instant: Instant<Monotonic>);
    /// Whether time passes only while a port waits. Then all ports are used by one thread.
    fn is_virtual(&self) -> bool;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine(pub(crate) Registry);

impl World for Machine {
    fn open(&self, name: &str, wanted: Wanted) -> Port {
        open(self.0, name, wanted)
    }

    fn now(&self) -> Instant<Monotonic> {
        clock::now()
    }

    fn stamp_now(&self) -> Instant<Realtime> {
        clock::now()
    }

    fn sleep_until(&self, instant: Instant<Monotonic>) {
        clock::sleep_until(instant).unwrap();
    }

    fn is_virtual(&self) -> bool {
        false
    }
}

/// Two connected ports, and what is special about them.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) world: Arc<dyn World>,
    /// The name of the port that transmits.
    pub(crate) left: String,
    /// The name of the one that receives.
    pub(crate) right: String,
    /// Whether one is a recording of the other: then nothing arrives until all is transmitted.
    pub(crate) is_recording: bool,
    /// Whether raw DLCs above 8 are carried.
    pub(crate) carries_raw_dlc: bool,
    /// Whether remote frames may ask for data.
    pub(crate) carries_remote_len: bool,
    /// Whether the frames are transmitted with echo.
    pub(crate) echo: bool,
    /// Frames that are transmitted to find out about order and fullness.
    pub(crate) frames: u32,
    /// Whether so many frames in a row must find no room at times.
    pub(crate) is_full: bool,
    /// Frames that may be on the way, so that a receiver that has to wait for its processor loses
    /// none.
    pub(crate) window: u64,
}

impl Bench {
    /// Two ports of these names, nothing special about them.
    pub(crate) fn new(left: impl Into<String>, right: impl Into<String>) -> Self {
        Self {
            world: Arc::new(Machine(candor_drivers::REGISTRY)),
            left: left.into(),
            right: right.into(),
            is_recording: false,
            carries_raw_dlc: true,
            carries_remote_len: true,
            echo: true,
            frames: 2_000,
            is_full: false,
            window: 150,
        }
    }

    pub(super) fn open(&self, name: &str, wanted: Wanted) -> Port {
        self.world.open(name, wanted)
    }
}

/// Opens a port.
pub(crate) fn open(registry: Registry, name: &str, wanted: Wanted) -> Port {
    let address = name.parse().unwrap_or_else(|error| panic!("{error}"));
    let port = registry.open(&address, wanted, &Handover::default());
    port.unwrap_or_else(|error| panic!("{error}"))
}
