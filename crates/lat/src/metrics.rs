//! Metrics: every latency as a formula over taps, written once.
//!
//! | key | formula |
//! |---|---|
//! | `total_latency` | `target_end - source_end` |
//! | `gateway_latency` | `target_end - source_end - transmission` |
//! | `response_time` | `source_end - queued` |
//! | `source_wait` | `source_start - queued` |
//! | `controller_wait` | `read - source_end` |
//! | `host_time` | `enqueued - read` |
//! | `egress_wait` | `loaded - enqueued` |
//! | `bus_wait` | `target_start - loaded` |
//! | `end_to_end` | `target_end - queued` |
//! | `delivery` | `delivered - queued` |
//! | `round_trip` | `answered - queued` |
//! | `reception` | `delivered - interrupt` |
//! | `departure` | `dispatched - due` |
//! | `arrival` | `arrived - due - model` |
//! | `residual` | `arrived - dispatched - model` |
//! | `network_latency` | `arrived - dispatched` |
//!
//! The first two are those of the gateway papers (Sojka and others, 2010 and 2011, figure 2): a
//! receiver before the gateway and one behind it both stamp the end of the frame; what the frame
//! itself takes on the target bus, stuff bits included, is not the gateway's fault and is taken
//! off. This `transmission`, start of frame to the end of the end-of-frame field without the
//! intermission, is handed in beside the taps, because a real test bed does not see
//! `target_start`.
//!
//! The others tell where a frame waited. Along one frame's way
//! `controller_wait + host_time + egress_wait + bus_wait = gateway_latency`, exactly, wherever all
//! taps are known.

use crate::path::TapPath;
use crate::taps::Tap;
use crate::times::Taps;

/// The one definition of a metric: `to - from`, some without what is known of the frame before it is sent.
#[derive(Clone, Copy)]
struct Definition {
    key: &'static str,
    label: &'static str,
    to: Tap,
    from: Tap,
    /// What is taken off.
    known: Option<&'static str>,
}

/// Makes the list of metrics: for each its name in the code, its key, its label and its formula.
macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident $key:literal $label:literal = $to:ident - $from:ident $(- $known:literal)?;)+) => {
        /// A latency.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $($(#[$doc])* $variant,)+
        }

        impl Metric {
            /// All metrics, the most asked for first.
            pub const ALL: [Self; [$($key),+].len()] = [$(Self::$variant),+];

            /// In the same order.
            const DEFINITIONS: [Definition; Self::ALL.len()] = [$(Definition {
                key: $key,
                label: $label,
                to: Tap::$to,
                from: Tap::$from,
                known: [$($known)?].first().copied(),
            }),+];
        }
    };
}

metrics! {
    /// From the end of the frame on the source bus to its end on the target bus.
    TotalLatency "total_latency" "Total latency" = TargetEnd - SourceEnd;
    /// The total latency without the transmission on the target bus.
    GatewayLatency "gateway_latency" "Gateway latency" = TargetEnd - SourceEnd - "transmission";
    /// From when the frame was queued to its end on the source bus: the response time of a message, as in
    /// schedulability analysis (Tindell and Burns 1994).
    ResponseTime "response_time" "Response time" = SourceEnd - Queued;
    /// In the sender's transmit queue and waiting for the source bus.
    SourceWait "source_wait" "Wait at the sender" = SourceStart - Queued;
    /// In the gateway's receiving controller.
    ControllerWait "controller_wait" "Wait in the controller" = Read - SourceEnd;
    /// Handling by the host: receive queue, rules, copies.
    HostTime "host_time" "Time in the host" = Enqueued - Read;
    EgressWait "egress_wait" "Wait in the egress queue" = Loaded - Enqueued;
    /// In the transmitting controller, waiting for the target bus.
    BusWait "bus_wait" "Wait for the target bus" = TargetStart - Loaded;
    /// From the sending application to the receivers on the target bus.
    EndToEnd "end_to_end" "End to end" = TargetEnd - Queued;
    /// From the sending application to an application that has the event decoded.
    Delivery "delivery" "Delivery" = Delivered - Queued;
    /// From when a request was sent to its answer at the same application.
    RoundTrip "round_trip" "Round trip" = Answered - Queued;
    /// From the interrupt of the controller to a program that has read the frame.
    Reception "reception" "Reception" = Delivered - Interrupt;
    /// How far from its instant a time-triggered frame left its sender.
    Departure "departure" "Departure" = Dispatched - Due;
    /// How far it arrived from the instant that follows from the schedule.
    Arrival "arrival" "Arrival" = Arrived - Due - "model";
    /// The latency in the network above the one that follows from the schedule.
    Residual "residual" "Residual" = Arrived - Dispatched - "model";
    /// From the first bit out of the sender to the last bit in the receiver (Bartols and others 2011, equation 3).
    NetworkLatency "network_latency" "Network latency" = Arrived - Dispatched;
}

impl Metric {
    /// Those that answer the question of a path: tables show them first, and lines per frame have them.
    const HEADLINE: [Self; 7] = [
        Self::TotalLatency,
        Self::GatewayLatency,
        Self::Delivery,
        Self::RoundTrip,
        Self::Reception,
        Self::Residual,
        Self::NetworkLatency,
    ];

    /// The definition, one look-up in a table that the compiler makes.
    const fn definition(self) -> &'static Definition {
        &Self::DEFINITIONS[self as usize]
    }

    /// The name in files: JSON keys, CSV columns (with `_ns`), options.
    #[must_use]
    pub const fn key(self) -> &'static str {
        self.definition().key
    }

    /// The name in tables and on plots.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.definition().label
    }

    /// The tap where it begins.
    #[must_use]
    pub const fn from(self) -> Tap {
        self.definition().from
    }

    /// The tap where it ends.
    #[must_use]
    pub const fn to(self) -> Tap {
        self.definition().to
    }

    /// The formula over [`Tap::name`]s, made of the definition that [`Metric::value`] computes.
    #[must_use]
    pub fn formula(self) -> String {
        let &Definition { to, from, known, .. } = self.definition();
        let rest = known.map_or_else(String::new, |known| format!(" - {known}"));
        format!("{} - {}{rest}", to.name(), from.name())
    }

    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.key() == key)
    }

    /// The latency of one frame in nanoseconds, `None` if a tap of the formula is absent.
    ///
    /// `known_ns` is what is known of the frame before it is sent: on CAN its transmission on the target bus, start
    /// of frame to the end of the end-of-frame field; with a schedule the latency of the model. The result saturates at the ends of `i64` and is
    /// negative where the instrument is inaccurate.
    #[inline]
    #[must_use]
    pub const fn value(self, taps: &Taps, known_ns: u64) -> Option<i64> {
        let &Definition { to, from, known, .. } = self.definition();
        match taps.distance_ns(from, to) {
            Some(distance_ns) if known.is_some() => {
                Some(distance_ns.saturating_sub_unsigned(known_ns))
            }
            distance_ns => distance_ns,
        }
    }
}

impl TapPath {
    /// The metrics between taps of this path.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> {
        let has = |tap| self.place(tap).is_some();
        Metric::ALL.into_iter().filter(move |metric| has(metric.from()) && has(metric.to()))
    }

    /// The metrics that answer the question of this path.
    pub fn headline(&self) -> impl Iterator<Item = Metric> {
        self.metrics().filter(|metric| Metric::HEADLINE.contains(metric))
    }

    /// The metric that is shown where there is room for one.
    #[must_use]
    pub fn main_metric(&self) -> Option<Metric> {
        self.headline().last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of 224 us that waits a different time in every place.
    const TAPS: [u64; TapPath::CAN_GATEWAY.taps().len()] =
        [100, 1_100, 225_100, 230_100, 240_100, 245_100, 252_100, 300_100, 524_100];

    fn taps() -> Taps {
        let taps = TapPath::CAN_GATEWAY.taps();
        taps.iter()
            .copied()
            .zip(TAPS)
            .fold(Taps::new(TapPath::CAN_GATEWAY), |taps, (tap, time_ns)| taps.with(tap, time_ns))
    }

    #[test]
    fn every_metric_by_hand() {
        for (metric, value_ns) in [
            (Metric::TotalLatency, 299_000),
            (Metric::GatewayLatency, 75_000),
            (Metric::ResponseTime, 225_000),
            (Metric::SourceWait, 1_000),
            (Metric::ControllerWait, 5_000),
            (Metric::HostTime, 15_000),
            (Metric::EgressWait, 7_000),
            (Metric::BusWait, 48_000),
            (Metric::EndToEnd, 524_000),
        ] {
            assert_eq!(metric.value(&taps(), 224_000), Some(value_ns), "{}", metric.key());
        }
    }

    #[test]
    fn the_parts_make_the_gateway_latency() {
        let parts = [Metric::ControllerWait, Metric::HostTime, Metric::EgressWait, Metric::BusWait];
        let sum_ns = parts.iter().filter_map(|part| part.value(&taps(), 224_000)).sum::<i64>();
        assert_eq!(Metric::GatewayLatency.value(&taps(), 224_000), Some(sum_ns));
    }

    #[test]
    fn a_lost_frame_has_no_latency_but_waited() {
        let lost = Taps::new(TapPath::CAN_GATEWAY).with(Tap::SourceEnd, 10).with(Tap::Read, 25);
        for metric in Metric::ALL {
            let expected = (metric == Metric::ControllerWait).then_some(15);
            assert_eq!(metric.value(&lost, 1), expected, "{}", metric.key());
        }
    }

    #[test]
    fn inaccurate_instruments_give_negative_latencies() {
        let taps =
            Taps::new(TapPath::CAN_GATEWAY).with(Tap::SourceEnd, 500).with(Tap::TargetEnd, 600);
        assert_eq!(Metric::GatewayLatency.value(&taps, 130), Some(-30));
        assert_eq!(Metric::GatewayLatency.value(&taps, u64::MAX), Some(i64::MIN));
    }

    #[test]
    fn the_table_in_the_documentation_is_the_definition() {
        let source = include_str!("metrics.rs");
        for metric in Metric::ALL {
            let row = format!("//! | `{}` | `{}` |\n", metric.key(), metric.formula());
            assert!(source.contains(&row), "{row}");
            assert_eq!(Metric::from_key(metric.key()), Some(metric));
        }
        assert_eq!(Metric::from_key("latency"), None);
    }

    #[test]
    fn a_path_has_the_metrics_between_its_taps() {
        let others = [
            Metric::Delivery,
            Metric::RoundTrip,
            Metric::Reception,
            Metric::Departure,
            Metric::Arrival,
            Metric::Residual,
            Metric::NetworkLatency,
        ];
        let of_gateways = Metric::ALL.into_iter().filter(|metric| !others.contains(metric));
        assert!(TapPath::CAN_GATEWAY.metrics().eq(of_gateways));
        assert!(TapPath::CAN_GATEWAY.headline().eq([Metric::TotalLatency, Metric::GatewayLatency]));
        assert_eq!(TapPath::CAN_GATEWAY.main_metric(), Some(Metric::GatewayLatency));
        assert_eq!(TapPath::SIGNAL_SERVICE.main_metric(), Some(Metric::Delivery));
        assert!(TapPath::ROUND_TRIP.metrics().eq([Metric::RoundTrip]));
        assert!(TapPath::RECEPTION.metrics().eq([Metric::Reception]));
        assert!(TapPath::HOST.metrics().eq([Metric::HostTime]));
        let bus = TapPath::new("bus", &[Tap::SourceEnd, Tap::Queued]);
        assert!(bus.metrics().eq([Metric::ResponseTime]));
        assert_eq!((bus.place(Tap::Queued), bus.place(Tap::Read)), (Some(1), None));
    }

    #[test]
    fn every_metric_is_on_a_path() {
        for metric in Metric::ALL {
            let has = |path: &&TapPath| path.metrics().any(|it| it == metric);
            assert!(TapPath::ALL.iter().any(has), "{}", metric.key());
        }
    }
}
