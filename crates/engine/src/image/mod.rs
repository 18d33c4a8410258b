//! The image of a [`Program`]: all of it as bytes, for a reader in another language, such as a kernel
//! module or a loader of eBPF maps.
//!
//! ```text
//!  Program -- to_image --> header | section table | sections
//!                                                   each an array of records of one size
//!  Program <-- from_image: every byte is checked --+
//! ```
//!
//! `docs/program-image.md` defines the format completely: numbers are little-endian, fields have their
//! natural alignment, sections begin at multiples of 8 bytes.
//!
//! A `Program` in memory has a box for each edit and an enum for each action, since most rules have neither and
//! the hot path reads them through one pointer. The image has no pointers: here they become numbers of
//! records, and back. What a frame is looked up in (the slots of standard identifiers, lists, matches, hash
//! tables) has the same form in both.
//!
//! # Checks
//!
//! Images are untrusted bytes. [`Program::from_image`] checks each record by itself and where it points to, and
//! in the end writes the program again: an image is accepted only if every byte of it is what
//! [`Program::to_image`] writes. So padding is zero, no record is unused, and one program has one image.
//! What it allocates is at most some hundred times the length of the image: names have 4,096 bytes
//! at most, lists of matches are in no more than one table.
//!
//! # Compatibility
//!
//! A reader refuses every other version, and every section that it does not know: what it does not understand might
//! decide which frames pass. So each change of the format has a new version.
//!
//! | file | what |
//! |---|---|
//! | `section.rs` | the sections, and the sizes of their records |
//! | `layout.rs` | header, section table |
//! | `write.rs` | from a program to bytes |
//! | `read.rs` | records, and what they have in common |
//! | `rules.rs` | buses, rules and jobs |
//! | `matchers.rs` | lists, matches, hash tables |
//! | `effects.rs` | edits, extensions, actions |
//! | `error.rs`, `crc.rs` | errors; the checksum |

mod crc;
mod effects;
mod error;
mod layout;
mod matchers;
mod read;
mod rules;
mod section;
#[cfg(test)]
mod tests;
mod write;

use alloc::format;
use alloc::vec::Vec;

use crate::Program;
use crate::extension::Conversion;
use crate::extension::e2e::Inclusion;
use crate::extension::pace::Per;
use candor_wire::can::ByteOrder;
pub use crc::crc32;
pub use error::{ImageError, Place};
pub use layout::{Extent, MAGIC, Outline, VERSION};
use read::Reader;
pub use section::Section;

/// The number of a record that stands for none.
const NONE: u32 = u32::MAX;
/// The most bytes of a name: those of a path on Linux (`PATH_MAX`).
const MOST_NAME_BYTES: u32 = 4_096;

// Values of enums in an image are their places in these lists.
const ORDERS: [ByteOrder; 2] = [ByteOrder::Intel, ByteOrder::Motorola];
const PER: [Per; 2] = [Per::Id, Per::Rule];
const INCLUSIONS: [Inclusion; 4] =
    [Inclusion::Both, Inclusion::Alternating, Inclusion::Low, Inclusion::Nibble];
const CONVERSIONS: [Option<Conversion>; 4] =
    [None, Some(Conversion::Fd), Some(Conversion::FdWithSwitch), Some(Conversion::Classical)];

/// The number that stands for a value.
fn place_in<T: PartialEq>(values: &[T], value: &T) -> u8 {
    values.iter().position(|it| it == value).unwrap_or(0) as u8
}

impl Program {
    /// The program as bytes; see [`crate::image`]. The same program always has the same image.
    ///
    /// The image has all that decides about frames. It does not have what only explains rules: positions in
    /// files, handles of the kernel, and whether frames that no rule takes are reported. [`Program::from_image`]
    /// refuses names of more than 4,096 bytes.
    #[must_use]
    pub fn to_image(&self) -> Vec<u8> {
        write::Writer::image(self)
    }

    /// The program of an image, which decides exactly as the one that was written.
    ///
    /// # Errors
    /// The section and the record that is wrong, and why. Nothing in the bytes can cause a panic.
    pub fn from_image(image: &[u8]) -> Result<Self, ImageError> {
        let outline = Outline::read(image)?;
        let program = Reader::new(image, &outline).program()?;
        // What no other check looks at, such as padding. What comes before these bytes is checked.
        let written = program.to_image();
        let mut rest = layout::CHECKED_FROM..image.len().max(written.len());
        let Some(at) = rest.find(|&at| written.get(at) != image.get(at)) else {
            return Ok(program);
        };
        let byte = |bytes: &[u8]| bytes.get(at).copied().unwrap_or(0);
        let (read, written) = (byte(image), byte(&written));
        let reason = format!(
            "byte {at} of the image is {read:#04x}, but a program like this is written with {written:#04x}"
        );
        Err(ImageError::new(outline.place(at), reason))
    }
}
