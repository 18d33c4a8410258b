//! What a delay is, and what is said about many of them.
//!
//! The crate knows no bus, no file and no clock. It is handed times in nanoseconds and returns
//! plain data; who shows them, and as what, is decided elsewhere.
//!
//! | module | what it knows |
//! |---|---|
//! | [`taps`] | the points on a frame's way where its time is taken, each named once |
//! | [`path`] | which taps frames pass, by the way that they take |
//! | [`times`] | [`Taps`]: when one frame passed them |
//! | [`metrics`] | every latency as a formula over taps |
//! | [`account`] | [`Account`]: what became of frames, and how late they were |
//! | [`order`] | which frames came behind later ones, twice, or not at all |
//! | [`figures`] | [`Figures`]: what is said of many latencies |
//! | [`latencies`] | [`Latencies`]: one by one, or counted |
//! | [`histogram`] | [`Histogram`]: millions of latencies in one megabyte; percentiles, latency profiles |
//! | [`live`] | [`Live`](live::Live): counted by several threads while others read |
//! | [`pairing`] | which frame behind the gateway is which frame before it, as on the papers' test bed |
//! | [`section`] | what a result says besides, as tables |
//! | [`sections`] | which sections there are, with their columns |
//! | `result` | [`ResultFile`](result::ResultFile): the result of a measurement, in files; with the feature `serde` |
//! | [`text`] | latency profiles and histograms drawn with characters |
//!
//! ```
//! use candor_lat::{Histogram, Metric, Tap, TapPath, Taps};
//!
//! let taps = Taps::new(TapPath::CAN_GATEWAY).with(Tap::SourceEnd, 1_000).with(Tap::TargetEnd, 260_000);
//! let mut latencies = Histogram::new();
//! for metric in [Metric::TotalLatency, Metric::GatewayLatency] {
//!     if let Some(latency_ns) = metric.value(&taps, 224_000) {
//!         latencies.record(latency_ns);
//!     }
//! }
//! assert_eq!(latencies.profile(), [(35_000, 2), (259_000, 1)]);
//! ```

pub mod account;
pub mod figures;
pub mod histogram;
pub mod latencies;
pub mod live;
mod log_linear;
pub mod metrics;
pub mod order;
pub mod pairing;
pub mod path;
#[cfg(feature = "serde")]
pub mod result;
pub mod section;
pub mod sections;
pub mod taps;
pub mod text;
pub mod times;

pub use account::{Account, Counts};
pub use figures::{Figures, quantile};
pub use histogram::{Bin, Histogram};
pub use latencies::Latencies;
pub use metrics::Metric;
pub use pairing::Pairing;
pub use path::TapPath;
pub use taps::Tap;
pub use times::Taps;
