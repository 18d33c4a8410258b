//! The parameters of a host: how a processor, a kernel and its drivers spend time on a frame.
//!
//! ```text
//!  frame ends     interrupt       soft-irq                                           transmit
//!  on the bus --> [interrupt] --> [soft_irq][read][receive + walk][clone|copy][transmit] --> queue
//!                 hard-irq            one poll loop for all receive queues             pfifo, buffers
//!                                     (CAN controllers, and the backlog: Ethernet, virtual CAN)
//!  user space:                    [soft_irq][read][receive][socket] --> [wake][recv][send] --> queue
//! ```
//!
//! The work preempts as in Linux: interrupts before soft-irqs before processes, or, with threaded
//! interrupts and a real-time process (PREEMPT_RT), processes first.

use candor_queue::Discipline;
use candor_time::Nanos;

/// How a host passes frames on.
#[derive(Clone, Debug)]
pub enum Model {
    /// Every frame after the same time, without limit: a reference, not a machine.
    Constant {
        /// From the end of the frame to its place in the egress queue.
        delay: Nanos,
        /// The egress queue.
        egress: Egress,
    },
    /// A Linux host.
    Linux(Box<Linux>),
}

/// The egress queue in front of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// How many frames (`txqueuelen`).
    pub depth: usize,
    /// In which order they leave.
    pub discipline: Discipline,
}

/// Where a driver empties the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readout {
    /// In the interrupt handler, into the shared backlog.
    HardIrq,
    /// In the soft-irq (NAPI), frame by frame.
    SoftIrq,
}

/// What a filter list costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterCosts {
    /// Looking up a single standard identifier.
    pub slot: Nanos,
    /// Walking past one list entry.
    pub entry: Nanos,
    /// The same beyond [`FilterCosts::cached_entries`], when the list has outgrown the cache.
    pub entry_uncached: Nanos,
    /// How many entries the cache holds.
    pub cached_entries: u32,
    /// Whether single extended identifiers are kept in a list too, as before Linux 3.16.
    pub extended_in_list: bool,
}

impl FilterCosts {
    /// Walking past `entries` of a list.
    pub(crate) fn list(&self, entries: u32) -> Nanos {
        let cached = entries.min(self.cached_entries);
        self.entry * u64::from(cached) + self.entry_uncached * u64::from(entries - cached)
    }
}

/// A gateway in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserSpace {
    /// In the kernel: putting a frame into the socket.
    pub socket: Nanos,
    /// Frames a socket holds.
    pub socket_depth: usize,
    /// From the wake-up to the process running.
    pub wake: Nanos,
    /// Receiving a frame from the socket.
    pub recv: Nanos,
    pub send: Nanos,
}

/// Something else that takes the processor, with interrupts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interference {
    /// The period, or the mean distance if it comes at random.
    pub every: Nanos,
    /// Whether it comes at random (exponential distances).
    pub is_random: bool,
    /// Shortest and longest duration, uniform.
    pub duration: (Nanos, Nanos),
}

/// Large echo requests in fragments (`ping -f -s 60000`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetLoad {
    /// From request to request.
    pub every: Nanos,
    /// Fragments of a request.
    pub fragments: u32,
    /// From fragment to fragment.
    pub spacing: Nanos,
    /// The interrupt of a fragment.
    pub interrupt: Nanos,
    /// Soft-irq work of a fragment.
    pub receive: Nanos,
    /// Additional soft-irq work of the last fragment: reassembly and the reply.
    pub reply: Nanos,
}

/// A Linux host.
#[derive(Clone, Debug)]
pub struct Linux {
    /// Entering and leaving an interrupt handler.
    pub interrupt: Nanos,
    /// Where the driver reads.
    pub readout: Readout,
    /// Reading one frame out of the controller.
    pub read: Nanos,
    /// Frames the controller holds.
    pub rx_fifo: usize,
    /// Transmit buffers of the controller.
    pub tx_buffers: usize,
    /// Serving a transmit-complete interrupt, besides [`Linux::interrupt`].
    pub transmit_done: Nanos,
    /// From the interrupt handler into the soft-irq.
    pub soft_irq: Nanos,
    /// Frames of one queue per turn of the poll loop (`napi->weight`, 64).
    pub poll_weight: u32,
    /// From the driver to the filter lists.
    pub receive: Nanos,
    /// Up to this much more whenever the soft-irq begins, uniform: cold caches. Frames handled in
    /// one batch with others find them warm.
    pub jitter: Nanos,
    /// Finding the rules.
    pub filter: FilterCosts,
    /// Cloning a buffer that is passed on as it is.
    pub clone: Nanos,
    /// Copying a buffer that is rewritten, and rewriting it.
    pub copy: Nanos,
    /// From the rule through the queue into the controller.
    pub transmit: Nanos,
    /// From the rule through a virtual interface back into the receive queue.
    pub virtual_transmit: Nanos,
    /// The same, additionally, if the host has more than one virtual interface.
    pub virtual_more: Nanos,
    /// Packets the shared receive queue holds (`netdev_max_backlog`).
    pub backlog: usize,
    /// The egress queue in front of each controller.
    pub egress: Egress,
    /// Whether a process passes frames on, and at which cost.
    pub user_space: Option<UserSpace>,
    /// Whether interrupts and soft-irqs are threads that a real-time process preempts.
    pub is_preempt_rt: bool,
    /// All costs of frames in percent of the above: 100 unless a load evicts the caches.
    pub slowdown_percent: u32,
    /// What else takes the processor.
    pub interference: Vec<Interference>,
    /// Ethernet traffic that shares the receive path.
    pub ethernet: Option<EthernetLoad>,
}
