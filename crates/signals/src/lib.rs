//! Signals: what the bits of a frame mean, as DBC files say.
//!
//! | item | what it is |
//! |---|---|
//! | [`Database`] | a DBC file: its messages, by identifier and by name |
//! | [`Message`] | a frame's layout: its signals, decoded without an allocation, and encoded |
//! | [`Signal`] | a number in a frame: its field, scale, offset, unit and names of values |
//! | [`Wanted`] | which signals are wanted, by patterns of names |
//! | [`Fit`] | whether the frames that come are those of a database |
//! | [`NotFound`], [`EncodeError`] | names that do not exist, values that do not fit |
//!
//! ```
//! use candor_diagnostics::Findings;
//! use candor_signals::Database;
//!
//! let findings = Findings::new();
//! let text = "BU_: Engine\n\nBO_ 291 Motor: 8 Engine\n \
//!             SG_ Speed : 7|16@0+ (0.25,0) [0|16000] \"rpm\" Vector__XXX\n \
//!             SG_ Gear : 16|4@1+ (1,0) [0|15] \"\" Vector__XXX\n\n\
//!             VAL_ 291 Gear 0 \"neutral\" 1 \"first\" ;\n";
//! let database = Database::parse("car.dbc", text.as_bytes(), &findings)
//!     .ok_or_else(|| findings.to_string())?;
//!
//! let frame = "123#0FA0010000000000".parse()?;
//! let message = database.message_of(&frame).ok_or("another frame")?;
//! let mut shown = Vec::new();
//! for decoded in message.decode(&frame) {
//!     let signal = decoded.signal;
//!     let name = decoded.value_name().unwrap_or(&signal.unit);
//!     shown.push(format!("{} {} {name}", signal.name, decoded.physical));
//! }
//! assert_eq!(shown, ["Speed 1000 rpm", "Gear 1 first"]);
//!
//! let frame = message.encode([("Speed", 1000.0), ("Gear", 1.0)])?;
//! assert_eq!(frame.to_string(), "123#0FA0010000000000");
//!
//! let error = database.message_named("Moto").unwrap_err();
//! assert_eq!(error.to_string(), "no message of car.dbc is called `Moto`; did you mean `Motor`?");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is wrong with a file is reported with its place. What no program can make sense of, such as a
//! signal after the end of its message, is a warning and left out; only a file that is no DBC file,
//! or too large, is refused as a whole. Files are bounded: [`MAX_BYTES`], [`MAX_MESSAGES`],
//! [`MAX_SIGNALS`].

mod database;
mod dbc;
mod error;
mod fit;
mod message;
mod scaling;
mod signal;
mod wanted;

pub use database::Database;
pub use dbc::{MAX_BYTES, MAX_MESSAGES, MAX_SIGNALS};
pub use error::{EncodeError, NotFound};
pub use fit::Fit;
pub use message::{MAX_NESTING, Message};
pub use scaling::Scaling;
pub use signal::{Decoded, Selection, Signal, Value, ValueNames, ValueType};
pub use wanted::Wanted;
