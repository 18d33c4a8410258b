//! Frames of every kind, and transmitting them.

use candor_port::{Capabilities, Sent, Transmitter};
use candor_time::Nanos;
use candor_wire::can::Frame;

use super::bench::{Bench, MOST, Machine, World};

pub(super) fn frame(text: &str) -> Frame {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Frames of every kind, and whether these ports say that they carry them.
pub(super) fn kinds(bench: &Bench, capabilities: &Capabilities) -> Vec<(Frame, bool)> {
    let mut frames = Vec::new();
    for id in ["000", "123", "7FF", "00000000", "12345678", "1FFFFFFF"] {
        for len in [0, 1, 5, 8] {
            frames.push((frame(&format!("{id}#{}", &"1122334455667788"[..2 * len])), true));
        }
        frames.push((frame(&format!("{id}#R0")), capabilities.remote));
        if bench.carries_remote_len {
            frames.push((frame(&format!("{id}#R8")), capabilities.remote));
        }
        for (flags, len) in [(0, 0), (1, 1), (2, 8), (3, 12), (1, 20), (1, 48), (1, 64)] {
            let data: String = (0..len).map(|byte| format!("{byte:02X}")).collect();
            frames.push((frame(&format!("{id}##{flags}{data}")), capabilities.fd));
        }
    }
    if bench.carries_raw_dlc {
        frames.push((frame("123#1122334455667788_9"), true));
        frames.push((frame("123#1122334455667788_F"), true));
    }
    frames
}

/// What is transmitted in front of everything else, until it arrives.
pub(super) fn hello() -> Frame {
    frame("7FD#4E1100")
}

/// What is transmitted behind everything else: when it has come, all has.
pub(super) fn last() -> Frame {
    frame("7FE#1A57")
}

/// Transmits with echo, and waits for room as often as there is none; returns how often.
#[allow(dead_code, reason = "not each test uses it")]
pub(crate) fn transmit(transmitter: &mut dyn Transmitter, frame: &Frame) -> u64 {
    transmit_as(&Machine(candor_drivers::REGISTRY), transmitter, frame, true)
}

pub(super) fn transmit_as(
    world: &dyn World,
    transmitter: &mut dyn Transmitter,
    frame: &Frame,
    echo: bool,
) -> u64 {
    let end = world.now() + MOST;
    let mut full = 0;
    loop {
        match transmitter.transmit(frame, echo) {
            Sent::Taken => return full,
            Sent::Full => full += 1,
            other => panic!("{frame}: {other:?}"),
        }
        assert!(world.now() < end, "{frame}: full for ever");
        transmitter.wait(Nanos::from_millis(100));
    }
}

/// Sends what was kept back.
pub(crate) fn flush(transmitter: &mut dyn Transmitter) {
    while transmitter.flush_due().is_some() {
        match transmitter.flush() {
            Sent::Full => transmitter.wait(Nanos::from_millis(100)),
            sent => assert_eq!(sent, Sent::Taken),
        }
    }
}
