//! What `candor doctor` and `candor frame` print.

use candor_doctor::{Item, State};

use super::table::objects;
use super::value::{Present, words};
use crate::doctor::Verdict;
use crate::frame::OnWire;

objects! {
    /// A check of this machine.
    "check" of "doctor" for Item as it {
        /// The name of the check, as in docs/doctor.md
        name;
        /// The interface or right that was looked at; null if there is only one
        subject;
        /// How it is
        state;
        /// What was found
        found;
        /// What it means, in sentences
        meaning;
        /// The command that improves it; null if there is none
        fix;
        /// Whether no gateway on CAN interfaces runs while this is missing
        is_needed;
    }

    /// All checks of this machine together; it comes last.
    "verdict" of "doctor" for Verdict as it {
        /// Whether a gateway on CAN interfaces can run here
        can_run;
        /// The number of checks that are ok
        ok = it.counts[0];
        /// The number of checks that are limited
        limited = it.counts[1];
        /// The number of checks where something is missing
        missing = it.counts[2];
    }

    /// A frame on the wire: its bits and how long they take, with the 3 bits of intermission.
    "frame" of "frame"; plain = true for OnWire as it {
        /// The frame in the notation of candump, such as 123#DEADBEEF
        frame;
        /// All its bits, stuff bits included
        bits = it.exact.total();
        /// The stuff bits of them
        stuff_bits = it.exact.stuff_bits;
        /// The bits that a frame of this kind and length has at most
        bits_worst = it.worst.total();
        /// How long it takes, in ns
        duration_ns = it.timing.duration_ns(it.exact);
        /// How long a frame of this kind and length takes at most, in ns
        duration_ns_worst = it.timing.duration_ns(it.worst);
        /// The bits at the nominal bit rate; only of CAN FD frames
        bits_nominal = Present(it.frame.is_fd().then_some(it.exact.nominal));
        /// The bits at the bit rate of the data phase; only of CAN FD frames
        bits_data = Present(it.frame.is_fd().then_some(it.exact.data));
    }
}

words! {
    State {
        "ok": "as it should be",
        "limited": "it works, but not as well as it could",
        "missing": "it does not work"
    }
}
