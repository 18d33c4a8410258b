//! [`ImageError`]: what is wrong with an image, and where.

use alloc::string::String;
use core::fmt;

use super::section::Section;

/// A place in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The header.
    Header,
    /// An entry of the section table, from 0.
    SectionTable(u32),
    /// A section as a whole.
    Section(Section),
    /// A record of a section, from 0.
    Record(Section, u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::SectionTable(entry) => write!(f, "section table, entry {entry}"),
            Self::Section(section) => write!(f, "section {}", section.name()),
            Self::Record(section, record) => {
                write!(f, "section {}, record {record}", section.name())
            }
        }
    }
}

/// Why an image is refused. It is shown as `section rules, record 3: reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError {
    /// Where the image is wrong.
    pub place: Place,
    /// Why.
    pub reason: String,
}

impl ImageError {
    pub(super) const fn new(place: Place, reason: String) -> Self {
        Self { place, reason }
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}
impl core::error::Error for ImageError {}
