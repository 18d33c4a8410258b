//! What a medium is to those who use it: frames are offered to its controllers, and outcomes come back.
//!
//! A medium plans its own events in the event core of whoever drives it: the world, a test, or a test
//! bed in which other programs are the nodes. It knows neither hosts nor senders, and keeps numbers of
//! frames that only mean something to the driver. The driver handles the outcomes of an event before
//! the next event happens.
//!
//! Outcomes are a list and not calls back: whatever a driver does about one of them can then offer
//! frames to the medium again, and no medium needs to know the type of its driver.

use candor_causes::Cause;

use crate::event::{Core, Includes, Ranked};

/// The number by which its driver knows a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// A controller of a medium, counted from 0 in the order in which they were added: the circuit by
/// which a node is on a bus, or at an end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerId(pub u32);

/// What a medium did with a frame, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `at` began to send it.
    Started {
        /// The controller that sends.
        at: ControllerId,
        /// What it sends.
        frame: FrameId,
    },
    /// It was destroyed. `at` will send it again.
    Failed {
        /// The controller that sent.
        at: ControllerId,
        /// What it sent.
        frame: FrameId,
    },
    /// It has arrived at `at` as a whole.
    Received {
        /// The controller that received.
        at: ControllerId,
        /// The controller that sent.
        from: ControllerId,
        /// What it sent.
        frame: FrameId,
    },
    /// It has passed by `at`, which could not receive it.
    Missed {
        /// The controller that could not receive.
        at: ControllerId,
        /// The controller that sent.
        from: ControllerId,
        /// What it sent.
        frame: FrameId,
        /// Why it was not received.
        cause: Cause,
    },
    /// `at` has sent all of it, and no longer holds it.
    Sent {
        /// The controller that sent.
        at: ControllerId,
        /// What it sent.
        frame: FrameId,
    },
    /// `at` had accepted it, and gives it up.
    Refused {
        /// The controller that was to send.
        at: ControllerId,
        /// What it was to send.
        frame: FrameId,
        /// Why it does not.
        cause: Cause,
    },
}

/// Buses or links of one kind, in virtual time.
pub trait Medium {
    /// What it plans.
    type Event: Ranked;
    /// A frame as it is offered.
    type Offer<'a>;

    /// Puts a frame into the transmit queue of a controller.
    ///
    /// # Errors
    /// Why it did not: the queue is full, or the medium cannot carry such a frame.
    fn offer<E: Includes<Self::Event>>(
        &mut self,
        core: &mut Core<E>,
        at: ControllerId,
        offer: Self::Offer<'_>,
    ) -> Result<(), Cause>;

    /// An event that it planned happens. What follows is added to `outcomes`.
    fn happen<E: Includes<Self::Event>>(
        &mut self,
        core: &mut Core<E>,
        event: Self::Event,
        outcomes: &mut Vec<Outcome>,
    );
}
