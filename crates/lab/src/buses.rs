//! CAN buses, as every kind that has some sees them: what can go wrong on one, what a simulation and a guest are told of it,
//! what they counted there, and who left it.

use candor_diagnostics::{by_count, counted};
use candor_network::Bus;
use candor_protocol::order::BusTiming;
use candor_protocol::report::BusCount;
use candor_sim::{BusConfig, BusStatistics};
use candor_time::Nanos;

use crate::sections::BusCounts;

/// What can go wrong on a bus: in a simulation, or with a tester outside of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BusFaults {
    /// Probability, 0 to 1, that a bit is destroyed on the way, for all receivers alike.
    pub bit_error_rate: f64,
    /// How long after bus-off the controllers on it restart; `None`: never.
    pub restart: Option<Nanos>,
}

/// A bus of the network as the simulation knows it.
pub(crate) fn bus_config(bus: &Bus, faults: BusFaults) -> BusConfig {
    BusConfig {
        name: bus.name.clone(),
        timing: bus.timing,
        is_fd: bus.is_fd,
        bit_error_rate: faults.bit_error_rate,
        restart: faults.restart,
    }
}

/// A bus of the network as a guest is told of it.
pub(crate) fn timing(bus: &Bus) -> BusTiming {
    BusTiming {
        bitrate: bus.timing.nominal.bits_per_second(),
        data_bitrate: bus.is_fd.then_some(bus.timing.data.bits_per_second()),
    }
}

/// What the simulation counted of a bus.
pub(crate) fn bus_counts(statistics: &BusStatistics) -> BusCounts {
    BusCounts {
        frames: statistics.frames,
        busy_ns: statistics.busy.as_nanos(),
        error_frames: statistics.error_frames,
        bus_offs: statistics.bus_offs,
        id_collisions: statistics.id_collisions,
    }
}

/// What a tester outside of a guest counted of a bus.
pub(crate) fn counts_of(count: &BusCount) -> BusCounts {
    let BusCount { frames, busy_ns, error_frames, bus_offs, .. } = *count;
    BusCounts { frames, busy_ns, error_frames, bus_offs, id_collisions: 0 }
}

/// How often controllers left this bus, if they did.
pub(crate) fn left(whose: &str, times: u64, bus: &Bus, faults: BusFaults) -> Option<String> {
    let often = match times {
        0 => return None,
        1 => "once".into(),
        times => counted(times, "time"),
    };
    let of_whom = if whose.ends_with('s') { "a controller" } else { "the controller" };
    let then = match faults.restart {
        None if times > 1 => {
            "and stayed off each time: nothing behind it was sent or received any more".into()
        }
        None => "and stayed off: nothing behind it was sent or received any more".into(),
        Some(pause) => format!(
            "and came back {pause} later or more{}: frames waited or were lost meanwhile",
            by_count(times, "", ", each time")
        ),
    };
    let remedies = [
        (faults.restart.is_none(), "set `restart` of the bus to have it come back"),
        (faults.bit_error_rate > 0.0, "lower its `bit_error_rate`"),
    ];
    let remedies: Vec<_> =
        remedies.into_iter().filter_map(|(fits, remedy)| fits.then_some(remedy)).collect();
    let remedy = match remedies.join(" or ") {
        none if none.is_empty() => "find out what destroys its frames".into(),
        remedies => remedies,
    };
    Some(format!("bus {}: {of_whom} of {whose} went bus-off {often} {then}; {remedy}", bus.name))
}

#[cfg(test)]
mod tests {
    use candor_wire::can::Timing;

    use super::*;

    #[test]
    fn a_controller_that_left_its_bus_has_a_remedy() {
        let bus = Bus {
            name: "out".into(),
            timing: Timing::classical("500k".parse().unwrap()),
            is_fd: false,
        };
        let restart = Some(Nanos::from_millis(100));
        for (times, bit_error_rate, restart, expected) in [
            (
                1,
                5e-3,
                None,
                "bus out: the controller of the gateway went bus-off once and stayed off: nothing behind it was \
                 sent or received any more; set `restart` of the bus to have it come back or lower its \
                 `bit_error_rate`",
            ),
            (
                3,
                5e-3,
                restart,
                "bus out: the controller of the gateway went bus-off 3 times and came back 100ms later or more, \
                 each time: frames waited or were lost meanwhile; lower its `bit_error_rate`",
            ),
            (
                1,
                0.0,
                restart,
                "bus out: the controller of the gateway went bus-off once and came back 100ms later or more: \
                 frames waited or were lost meanwhile; find out what destroys its frames",
            ),
        ] {
            let faults = BusFaults { bit_error_rate, restart };
            assert_eq!(left("the gateway", times, &bus, faults).as_deref(), Some(expected));
        }
    }
}
