//! The header and the table of sections: what an image holds, and where.

use alloc::format;
use alloc::vec::Vec;

use super::crc::crc32;
use super::error::{ImageError, Place};
use super::section::Section;

/// The first bytes of every image.
pub const MAGIC: [u8; 8] = *b"CANDORPG";
/// The version of the format that this crate writes, and the only one that it reads.
pub const VERSION: u32 = 2;
/// The header has so many bytes.
pub(super) const HEADER_BYTES: usize = 32;
/// The checksum covers everything from here on.
pub(super) const CHECKED_FROM: usize = 16;
/// An entry of the section table has so many bytes.
pub(super) const ENTRY_BYTES: usize = 24;
/// Sections begin at multiples of this, in bytes.
pub(super) const ALIGNMENT: usize = 8;

/// Where a section of an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which section it is.
    pub section: Section,
    /// Where it begins, in bytes from the begin of the image.
    pub offset: usize,
    /// How many records it has.
    pub count: u32,
}

/// What the header and the section table of an image say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The version of the format.
    pub version: u32,
    /// The CRC-32 of everything from byte 16 on.
    pub crc32: u32,
    /// The length of the image in bytes.
    pub length: usize,
    /// How often a frame may pass the gateway.
    pub max_hops: u8,
    /// The sections, in their order.
    pub sections: Vec<Extent>,
}

/// A number at a place of the image; 0 beyond its end.
fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}

impl Outline {
    /// Reads the header and the section table, and checks the checksum. It does not look into the
    /// sections.
    ///
    /// # Errors
    /// The place that is wrong, and why.
    pub fn read(image: &[u8]) -> Result<Self, ImageError> {
        let header = |reason| Err(ImageError::new(Place::Header, reason));
        if image.len() < HEADER_BYTES {
            return header(format!(
                "there are {} bytes; a header has {HEADER_BYTES} bytes",
                image.len()
            ));
        }
        if !image.starts_with(&MAGIC) {
            return header("this is no program image; one begins with CANDORPG".into());
        }
        let version = u32_at(image, 8);
        if version != VERSION {
            return header(format!(
                "the image has version {version}, and this program reads version {VERSION}; compile \
                 the rules again with this program"
            ));
        }
        let length = u64_at(image, 16);
        if length != image.len() as u64 {
            return header(format!("the length is {length} bytes, but there are {}", image.len()));
        }
        let crc32_read = u32_at(image, 12);
        let computed = crc32(image.get(CHECKED_FROM..).unwrap_or_default());
        if crc32_read != computed {
            return header(format!(
                "the CRC-32 is {crc32_read:08x}, but that of the bytes is {computed:08x}; the image \
                 is damaged"
            ));
        }
        let count = u32_at(image, 24);
        let max_hops = image.get(28).copied().unwrap_or(0);
        if max_hops == 0 {
            return header("max_hops is 0; a frame may pass 1 to 255 times".into());
        }
        Ok(Self {
            version,
            crc32: computed,
            length: image.len(),
            max_hops,
            sections: Self::sections(image, count)?,
        })
    }

    fn sections(image: &[u8], count: u32) -> Result<Vec<Extent>, ImageError> {
        let mut sections = Vec::new();
        let mut end = HEADER_BYTES + ENTRY_BYTES * Section::ALL.len();
        for number in 0..count {
            let error = |reason| Err(ImageError::new(Place::SectionTable(number), reason));
            let at = HEADER_BYTES + number as usize * ENTRY_BYTES;
            if image.len() < at + ENTRY_BYTES {
                return error("the image ends within the section table".into());
            }
            let kind = u32_at(image, at);
            let Some(&section) = Section::ALL.iter().find(|section| section.kind() == kind) else {
                return error(format!("the kind {kind} is unknown"));
            };
            if Section::ALL.get(number as usize) != Some(&section) {
                return error(format!("the section {} is not at its place", section.name()));
            }
            let record_bytes = u32_at(image, at + 4);
            if record_bytes as usize != section.record_bytes() {
                return error(format!(
                    "a record of {} has {} bytes, not {record_bytes}",
                    section.name(),
                    section.record_bytes()
                ));
            }
            let (offset, records) = (u64_at(image, at + 8), u32_at(image, at + 16));
            let begin = end.next_multiple_of(ALIGNMENT);
            if offset != begin as u64 {
                return error(format!(
                    "the section {} begins at byte {begin}, not {offset}",
                    section.name()
                ));
            }
            let bytes = u64::from(records) * section.record_bytes() as u64;
            let left = image.len().saturating_sub(begin) as u64;
            if bytes > left {
                return error(format!(
                    "the section {} has {bytes} bytes, but the image has {left} from there on",
                    section.name()
                ));
            }
            end = begin + bytes as usize;
            sections.push(Extent { section, offset: begin, count: records });
        }
        if sections.len() != Section::ALL.len() {
            let reason = format!("there are {count} sections; an image has {}", Section::ALL.len());
            return Err(ImageError::new(Place::Header, reason));
        }
        let end = end.next_multiple_of(ALIGNMENT);
        if end != image.len() {
            let reason = format!("the sections end at byte {end}, the image at {}", image.len());
            return Err(ImageError::new(Place::Header, reason));
        }
        Ok(sections)
    }

    /// Where a section is; nothing if it is absent, which [`Outline::read`] refuses.
    pub(super) fn extent(&self, section: Section) -> Extent {
        let absent = Extent { section, offset: self.length, count: 0 };
        self.sections.get(section.index()).copied().unwrap_or(absent)
    }

    /// The section and the record that a byte belongs to.
    pub(super) fn place(&self, at: usize) -> Place {
        if at < HEADER_BYTES {
            return Place::Header;
        }
        if let Some(entry) = (at - HEADER_BYTES).checked_div(ENTRY_BYTES)
            && entry < self.sections.len()
        {
            return Place::SectionTable(entry as u32);
        }
        let behind = self.sections.partition_point(|extent| extent.offset <= at);
        let Some(extent) = behind.checked_sub(1).and_then(|index| self.sections.get(index)) else {
            return Place::Header;
        };
        let record = (at - extent.offset) / extent.section.record_bytes();
        if record < extent.count as usize {
            Place::Record(extent.section, record as u32)
        } else {
            Place::Section(extent.section)
        }
    }
}
