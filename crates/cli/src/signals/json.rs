//! What `candor signals` prints.

use candor_signal_service::stats::{BusStats, Stats, SubscriberStats};

use super::watch::Watched;
use crate::json::objects;

objects! {
    /// A value of a signal.
    "signal" of "signals watch" for Watched<'_> as it {
        /// The name: message and signal, and the bus if there are several
        name;
        /// The value in the unit of the signal; null if it is no number
        value;
        /// What the value is called, if it has a name
        text;
        /// When its frame was received, in us since 1970
        timestamp_us;
    }

    /// A frame of a service without signals.
    "frame" of "signals watch" for (&str, String) as (name, data) {
        /// The bus and the identifier in decimal, such as car/291
        name = name;
        /// The data in hex
        data = data;
    }

    /// A bus of a running service; counts are since its start.
    "bus" of "signals stats" for BusStats as it {
        /// What it is called
        name;
        /// The port, such as can0
        port;
        /// Frames received
        frames;
        /// Frames or datagrams lost before they could be received
        lost;
        /// Datagrams, lines and records that are not what they should be
        malformed;
        /// Datagrams and connections of others than the peer
        foreign;
        /// Frames that became no events, since there was no room for their identifiers
        unlisted;
        /// Identifiers that gave way to others
        displaced;
        /// Batches in which frames became events
        batches;
        /// For how long no frame has come, in ns; since the bus is there if none ever came
        silent_ns;
        /// Why no frames come; null if the port works
        trouble;
    }

    /// A subscriber of a running service.
    "subscriber" of "signals stats" for SubscriberStats as it {
        /// Its number, which no other one has or had
        id;
        /// The format of its events
        format;
        /// Topics that it is subscribed to
        topics;
        /// Events that it got
        delivered;
        /// Events that it missed
        missed;
        /// Events in the log that it has not read, also those that it did not ask for
        waiting;
    }

    /// A running service as a whole; it comes last.
    "summary" of "signals stats" for Stats as it {
        /// How long it has been running, in ns
        uptime_ns;
        /// How often buses were changed
        changes;
        /// Why the file on disk is not in use; null if it is
        rejected;
        /// Message buses that do not work, each with the reason
        troubles;
    }
}
