//! Time-triggered Ethernet (SAE AS6802): addresses of critical traffic, traffic classes, protocol control frames,
//! and frames to measure with.
//!
//! ```text
//!  | destination                    | source | type or length | payload, padded | FCS |
//!  | marker 4 | identifier (CT id) 2 | 6      | 2              | 46 .. 1500      | 4   |
//! ```
//!
//! The standard is not public. Where a layout is taken from elsewhere, its place says so: the dissectors of Wireshark
//! (`epan/dissectors/packet-tte.h`, `packet-tte-pcf.c`), the open implementation of the T-CREST project (t-crest/patmos,
//! `c/ethlib/tte.c`) and the simulation models CoRE4INET (`src/core4inet/linklayer/ethernet/AS6802`).
//!
//! ```
//! use candor_wire::eth::tte::{CriticalTraffic, Layout, Measurement, TypeField};
//! use candor_wire::eth::{Address, Frame};
//!
//! let critical = CriticalTraffic::default();
//! let layout = Layout {
//!     destination: critical.address(100),
//!     source: Address([2, 0, 0, 0, 0, 1]),
//!     type_field: TypeField::Length,
//!     size: 64,
//! };
//! let sent = Measurement { run: 7, stream: 100, sequence: 0, scheduled_ns: 1_000, sent_ns: 1_020 };
//! let mut payload = [0; Measurement::LEN];
//! sent.write(&mut payload);
//! let mut bytes = [0; 60];
//! assert_eq!(layout.write(&payload, &mut bytes)?, 60);
//!
//! let frame = Frame::parse(&bytes)?;
//! assert_eq!(frame.header.destination.to_string(), "03:04:05:06:00:64");
//! assert_eq!(critical.id_of(&frame.header.destination), Some(100));
//! assert_eq!(frame.header.ether_type, 46);
//! assert_eq!(Measurement::parse(frame.payload), Ok(sent));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod class;
mod critical;
mod layout;
mod measurement;
mod pcf;

pub use class::Class;
pub use critical::{CriticalTraffic, MarkerError};
pub use layout::{Layout, LayoutError, MAX_SIZE, MIN_SIZE, TypeField};
pub use measurement::{Measurement, MeasurementError};
pub use pcf::{Pcf, PcfError, PcfKind};
