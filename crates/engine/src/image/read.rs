//! Reading: records with their places, and the checks that many of them need.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::{Range, RangeInclusive};

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};

use super::MOST_NAME_BYTES;
use super::error::{ImageError, Place};
use super::layout::Outline;
use super::section::Section;
use crate::Program;
use crate::program::Match;
use crate::table::Filter;

/// A record that is read from front to back. Beyond its end there are zeros; records have the size of their
/// section, so no reader comes there.
pub(super) struct Record<'a> {
    section: Section,
    number: u32,
    rest: &'a [u8],
}

impl Record<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.rest.split_first_chunk() else { return [0; N] };
        self.rest = rest;
        *first
    }

    /// Where it stands in its section.
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    pub(super) fn u8(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    pub(super) fn i8(&mut self) -> i8 {
        self.u8().cast_signed()
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number; what is none is refused.
    pub(super) fn f64(&mut self, what: &str) -> Result<f64, ImageError> {
        let number = f64::from_le_bytes(self.array());
        if number.is_nan() { self.refuse(format!("the {what} is no number")) } else { Ok(number) }
    }

    /// A number that is not infinite either.
    pub(super) fn finite(&mut self, what: &str) -> Result<f64, ImageError> {
        let number = self.f64(what)?;
        if number.is_infinite() {
            return self.refuse(format!("the {what} is infinite"));
        }
        Ok(number)
    }

    /// 0 or 1.
    pub(super) fn flag(&self, what: &str, value: u32) -> Result<bool, ImageError> {
        match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => self.refuse(format!("{what} is {value}; it must be 0 or 1")),
        }
    }

    /// A number that must be in this range.
    pub(super) fn within<T: PartialOrd + Display>(
        &self,
        what: &str,
        value: T,
        range: RangeInclusive<T>,
    ) -> Result<T, ImageError> {
        if range.contains(&value) {
            return Ok(value);
        }
        let (least, most) = range.into_inner();
        self.refuse(format!("{what} is {value}; it must be {least} to {most}"))
    }

    /// An identifier word of a frame that is no error report.
    pub(super) fn can_id(&mut self, what: &str) -> Result<u32, ImageError> {
        let word = self.u32();
        let most = if word & EFF_FLAG != 0 { EFF_MASK } else { SFF_MASK };
        if word & ERR_FLAG != 0 || word & !(EFF_FLAG | RTR_FLAG) > most {
            return self.refuse(format!("{what} {word:08X} is no identifier word of a frame"));
        }
        Ok(word)
    }

    /// Flags, of which only so many have a meaning.
    pub(super) fn flags(&self, what: &str, value: u32, known: u32) -> Result<u32, ImageError> {
        if value >> known != 0 {
            return self.refuse(format!("{what} {value:#x} have unknown bits"));
        }
        Ok(value)
    }

    /// The value that a number stands for.
    pub(super) fn one_of<T: Copy>(
        &self,
        what: &str,
        value: u32,
        values: &[T],
    ) -> Result<T, ImageError> {
        match values.get(value as usize) {
            Some(&value) => Ok(value),
            None => self.refuse(format!("the {what} {value} is unknown")),
        }
    }

    pub(super) fn error(&self, reason: String) -> ImageError {
        ImageError::new(Place::Record(self.section, self.number), reason)
    }

    pub(super) fn refuse<T>(&self, reason: String) -> Result<T, ImageError> {
        Err(self.error(reason))
    }

    /// A filter as the kernel registers it.
    pub(super) fn filter(&mut self) -> Result<Filter, ImageError> {
        let (can_id, mask, inverted) = (self.u32(), self.u32(), self.u32());
        let filter = Filter { can_id, mask, inverted: self.flag("inverted", inverted)? };
        if filter.normalized() != filter {
            return self.refuse(format!("the filter {can_id:08X}:{mask:08X} is not normalized"));
        }
        Ok(filter)
    }

    pub(super) fn found(&mut self) -> Match {
        Match { rule: self.u32(), place: self.u32() }
    }
}

/// An image while it is read. Sections are used from front to back, each record once.
pub(super) struct Reader<'a> {
    image: &'a [u8],
    pub(super) outline: &'a Outline,
    /// How many records of each section are used already.
    used: [u32; Section::ALL.len()],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(image: &'a [u8], outline: &'a Outline) -> Self {
        Self { image, outline, used: [0; Section::ALL.len()] }
    }

    /// The whole program.
    pub(super) fn program(mut self) -> Result<Program, ImageError> {
        let buses = self.buses()?;
        let rules = self.rules(buses.len())?;
        let matchers = self.matchers(buses.len(), &rules)?;
        for section in Section::ALL {
            let (used, count) = (self.used[section.index()], self.count(section));
            // These two may be used several times, by whoever needs the same.
            let is_shared = matches!(section, Section::Strings | Section::CrcTables);
            if used != count && !is_shared {
                let reason = "nothing refers to this record".to_string();
                return Err(ImageError::new(Place::Record(section, used), reason));
            }
        }
        Ok(Program {
            buses: buses.into(),
            rules: rules.rules.into(),
            targets: rules.jobs.iter().map(|job| job.to).collect(),
            max_hops: self.outline.max_hops,
            edits: rules.edits.into(),
            extension: rules.extensions.into(),
            jobs: rules.jobs.into(),
            except: rules.exclusions.into(),
            matchers: matchers.into(),
        })
    }

    /// How many records a section has.
    pub(super) fn count(&self, section: Section) -> u32 {
        self.outline.extent(section).count
    }

    /// A record; beyond the end of the section one of zeros.
    pub(super) fn record(&self, section: Section, number: u32) -> Record<'a> {
        let at = self.outline.extent(section).offset + number as usize * section.record_bytes();
        let bytes = self.image.get(at..).unwrap_or_default();
        let rest = bytes.get(..section.record_bytes()).unwrap_or_default();
        Record { section, number, rest }
    }

    /// The records that `by` refers to: so many from the first one that is not used yet.
    pub(super) fn share(
        &mut self,
        by: &Record<'_>,
        section: Section,
        first: u32,
        count: u32,
    ) -> Result<Range<u32>, ImageError> {
        let next = self.used[section.index()];
        if first != next {
            return by.refuse(format!(
                "its {} begin with record {first}; the next unused one is {next}",
                section.name()
            ));
        }
        let Some(end) = first.checked_add(count).filter(|&end| end <= self.count(section)) else {
            return by.refuse(format!(
                "it has {count} {} from record {first} on, but there are {}",
                section.name(),
                self.count(section)
            ));
        };
        self.used[section.index()] = end;
        Ok(first..end)
    }

    /// Records that `by` refers to, each read by a function.
    pub(super) fn all<T>(
        &mut self,
        by: &Record<'_>,
        section: Section,
        (first, count): (u32, u32),
        mut read: impl FnMut(&mut Self, Record<'a>) -> Result<T, ImageError>,
    ) -> Result<Vec<T>, ImageError> {
        let range = self.share(by, section, first, count)?;
        let mut values = Vec::with_capacity(range.len());
        for number in range {
            let record = self.record(section, number);
            values.push(read(self, record)?);
        }
        Ok(values)
    }

    /// A record that `by` refers to by its number, or none.
    pub(super) fn optional<T>(
        &mut self,
        by: &Record<'_>,
        section: Section,
        number: u32,
        read: impl FnOnce(&mut Self, Record<'a>) -> Result<T, ImageError>,
    ) -> Result<Option<T>, ImageError> {
        if number == super::NONE {
            return Ok(None);
        }
        self.share(by, section, number, 1)?;
        let record = self.record(section, number);
        read(self, record).map(Some)
    }

    /// A name.
    pub(super) fn string(&self, by: &mut Record<'_>) -> Result<String, ImageError> {
        let (place, len) = (by.u32(), by.u32());
        if len > MOST_NAME_BYTES {
            return by.refuse(format!("a name has {len} bytes; it may have {MOST_NAME_BYTES}"));
        }
        let all = self.outline.extent(Section::Strings);
        let bytes = self.image.get(all.offset..).and_then(|rest| rest.get(..all.count as usize));
        let name = bytes
            .and_then(|bytes| bytes.get(place as usize..))
            .and_then(|bytes| bytes.get(..len as usize));
        let Some(name) = name else {
            return by.refuse(format!(
                "a name has {len} bytes from {place} on, but there are {} bytes of strings",
                all.count
            ));
        };
        match core::str::from_utf8(name) {
            Ok(name) => Ok(name.into()),
            Err(error) => by.refuse(format!("byte {} of a name is not UTF-8", error.valid_up_to())),
        }
    }
}
