//! [`Pace`]: waiting for an instant to the microsecond: asleep first, then awake.

use candor_linux::clock;
use candor_linux::ethernet::EthernetSocket;
use candor_linux::gaps::Gaps;
use candor_time::{Instant, Nanos, Realtime};
use candor_wire::eth::ether_type;

/// How long before an instant a thread is awake: longer than almost every wake-up takes.
pub(crate) const AWAKE: Nanos = Nanos::from_micros(500);

/// How long it sleeps at a time.
pub(crate) const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(50);

/// By how much a frame changes when the next one is handed over, in ns: the first ones, and those behind them.
const STEPS_NS: [i64; 2] = [500, 100];
/// How many the first ones are.
const FIRST: u32 = 24;
/// No frame takes longer from a program to its interface, but on a machine that is busy otherwise.
const MOST_ADVANCE: Nanos = Nanos::from_micros(20);

/// How long it takes from the last look at the clock until the kernel has handed a frame to the interface: by so much a
/// frame goes earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advance {
    time: Nanos,
    learned: u32,
}

impl Advance {
    pub(crate) const fn new(time: Nanos) -> Self {
        Self { time, learned: 0 }
    }

    /// A frame was to leave at `due`, and did so at `stamp`: the next ones are handed over a little earlier or later, so
    /// that half of them leave too early. How long a frame takes depends on what the processor did before.
    pub(crate) fn learn(&mut self, due: Instant<Realtime>, stamp: Instant<Realtime>) {
        let step_ns = STEPS_NS[usize::from(self.learned >= FIRST)];
        self.learned = self.learned.saturating_add(1);
        let step_ns = if stamp > due { step_ns } else { -step_ns };
        let time_ns = self.time.as_nanos().saturating_add_signed(step_ns);
        self.time = MOST_ADVANCE.min(Nanos::from_nanos(time_ns));
    }

    /// When to hand a frame over that is to leave at `instant`.
    pub(crate) fn earlier(self, instant: Instant<Realtime>) -> Instant<Realtime> {
        Instant::from_nanos(instant.as_nanos().saturating_sub(self.time.as_nanos()))
    }
}

/// From so long before an instant on, until so long before it, frames keep the way through the kernel warm, and how often.
const WARM: Nanos = Nanos::from_micros(100);
const COOL: Nanos = Nanos::from_micros(10);
const WARM_PERIOD: Nanos = Nanos::from_micros(20);

/// Sends frames to an interface at whose other end nobody listens, shortly before frames that count. A processor has forgotten
/// the code of the kernel in the milliseconds between two frames, and the next one takes longer then.
#[derive(Clone, Copy, Debug)]
pub struct Warmer<'a> {
    socket: &'a EthernetSocket,
    next: Instant<Realtime>,
}

impl<'a> Warmer<'a> {
    /// Over an interface whose frames reach nobody.
    #[must_use]
    pub fn new(socket: &'a EthernetSocket) -> Self {
        Self { socket, next: Instant::default() }
    }

    /// Sends a frame if `instant` is near and the last one was some time ago. That it cannot does not matter.
    pub fn warm(&mut self, now: Instant<Realtime>, instant: Instant<Realtime>) {
        if now < self.next || now + WARM < instant || now + COOL > instant {
            return;
        }
        self.next = now + WARM_PERIOD;
        let mut frame = [0; 60];
        frame[..6].fill(0xFF);
        frame[12..14].copy_from_slice(&ether_type::EXPERIMENTAL.to_be_bytes());
        let _ = self.socket.send(&frame);
        let _ = self.socket.transmit_stamps(&mut |_, _| ());
    }
}

/// The waiting of a thread.
pub(crate) struct Pace<'a> {
    advance: Advance,
    /// When it was stopped while it was awake.
    pub(crate) gaps: Gaps<Realtime>,
    warmer: Option<Warmer<'a>>,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(advance: Nanos, warmer: Option<Warmer<'a>>) -> Self {
        Self { advance: Advance::new(advance), gaps: Gaps::default(), warmer }
    }

    /// A frame is to be handed over at `instant`, and it is `now`.
    pub(crate) fn warm(&mut self, now: Instant<Realtime>, instant: Instant<Realtime>) {
        if let Some(warmer) = &mut self.warmer {
            warmer.warm(now, instant);
        }
    }

    /// A frame was to leave at `due`, and did so at `stamp`.
    pub(crate) fn learn(&mut self, due: Instant<Realtime>, stamp: Instant<Realtime>) {
        self.advance.learn(due, stamp);
    }

    /// When to hand a frame over that is to leave at `instant`.
    pub(crate) fn earlier(&self, instant: Instant<Realtime>) -> Instant<Realtime> {
        self.advance.earlier(instant)
    }

    /// Reads the clock.
    pub(crate) fn now(&mut self) -> Instant<Realtime> {
        let now = clock::now::<Realtime>();
        self.gaps.tick(now);
        now
    }

    /// The kernel has done at `stamp` what the thread asked for. What it did after that, such as waking others, is no
    /// part of the step.
    pub(crate) fn stamped(&mut self, stamp: Instant<Realtime>) {
        self.gaps.tick(stamp);
        self.now();
    }

    /// The thread has slept until `wake_at`. What came later than that is a gap.
    pub(crate) fn woken(&mut self, wake_at: Instant<Realtime>) -> Instant<Realtime> {
        self.gaps.pause();
        self.gaps.tick(wake_at);
        self.now()
    }

    /// The thread has slept until `wake_at`, or until something came before that.
    pub(crate) fn roused(&mut self, wake_at: Instant<Realtime>) {
        if clock::now::<Realtime>() < wake_at {
            self.gaps.pause();
        } else {
            self.woken(wake_at);
        }
    }

    /// Waits for `instant`, and returns the first reading of the clock behind it.
    pub(crate) fn until(&mut self, instant: Instant<Realtime>) -> Instant<Realtime> {
        let mut now = self.now();
        if instant > now + AWAKE {
            let wake_at = Instant::from_nanos(instant.as_nanos() - AWAKE.as_nanos());
            // Woken late or not: what follows reads the clock.
            let _ = clock::sleep_until::<Realtime>(wake_at);
            now = self.woken(wake_at);
        }
        while now < instant {
            self.warm(now, instant);
            now = self.now();
        }
        now
    }
}
