//! What `candor signals` prints.

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
}
