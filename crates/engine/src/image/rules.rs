//! Buses, rules and their jobs.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::error::ImageError;
use super::read::{Reader, Record};
use super::section::Section;
use crate::program::{Compiled, Job};
use crate::table::{Bus, BusIndex, Filter};
use crate::{Edit, Extension};

/// What is by rule in a program.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) rules: Vec<Compiled>,
    pub(super) jobs: Vec<Job>,
    pub(super) exclusions: Vec<Box<[Filter]>>,
    pub(super) edits: Vec<Option<Box<Edit>>>,
    pub(super) extensions: Vec<Option<Box<Extension>>>,
    /// The bus that a rule takes frames from, if it has a destination.
    pub(super) sources: Vec<Option<BusIndex>>,
}

impl Reader<'_> {
    pub(super) fn buses(&mut self) -> Result<Vec<Bus>, ImageError> {
        const MOST: u32 = 1 << 16;
        let count = self.count(Section::Buses);
        if count > MOST {
            let reason = format!("there are {count} buses; {MOST} are possible");
            return Err(self.record(Section::Buses, MOST).error(reason));
        }
        let all = self.record(Section::Buses, 0);
        self.all(&all, Section::Buses, (0, count), |reader, mut record| {
            let (name, port) = (reader.string(&mut record)?, reader.string(&mut record)?);
            let is_virtual = record.u32();
            Ok(Bus { name, port, is_virtual: record.flag("is_virtual", is_virtual)? })
        })
    }

    pub(super) fn rules(&mut self, buses: usize) -> Result<Rules, ImageError> {
        let mut rules = Rules::default();
        let count = self.count(Section::Rules);
        let all = self.record(Section::Rules, 0);
        self.all(&all, Section::Rules, (0, count), |reader, record| {
            reader.rule(record, buses, &mut rules)
        })?;
        Ok(rules)
    }

    fn rule(
        &mut self,
        mut record: Record<'_>,
        buses: usize,
        rules: &mut Rules,
    ) -> Result<(), ImageError> {
        let number = rules.rules.len() as u32;
        let (first_job, job_count) = (record.u32(), record.u16());
        let rule = Compiled { first_job, job_count, limit_hops: record.u8(), flags: record.u8() };
        let (edit, extension) = (record.u32(), record.u32());
        let exclusions = (record.u32(), record.u32());
        record.within("limit_hops", rule.limit_hops, 0..=self.outline.max_hops)?;
        if !rule.has(Compiled::CLASSICAL | Compiled::FD) {
            return record.refuse("it takes neither classical nor CAN FD frames".into());
        }
        for (what, flag, is_there) in [
            ("exclusion", Compiled::EXCEPT, exclusions.1 != 0),
            ("edit", Compiled::EDIT, edit != super::NONE),
            ("extension", Compiled::EXTENSION, extension != super::NONE),
        ] {
            match (rule.has(flag), is_there) {
                (true, false) => {
                    return record.refuse(format!("flag {flag:#04x} is set, but it has no {what}"));
                }
                (false, true) => {
                    return record
                        .refuse(format!("it has an {what}, but flag {flag:#04x} is not set"));
                }
                _ => {}
            }
        }
        let read = |_: &mut Self, mut record: Record<'_>| record.filter();
        let exclusions = self.all(&record, Section::Exclusions, exclusions, read)?;
        let edit = self.optional(&record, Section::Edits, edit, Self::edit)?;
        let extension = self.optional(&record, Section::Extensions, extension, Self::extension)?;
        let modifies = edit.is_some()
            || extension.as_ref().is_some_and(|it: &Extension| !it.actions.is_empty());
        if modifies && rule.has(Compiled::CLASSICAL) && rule.has(Compiled::FD) {
            return record.refuse("it edits frames of both formats".into());
        }
        let jobs = (first_job, job_count.into());
        let jobs = self.all(&record, Section::Jobs, jobs, |reader, record| {
            reader.job(record, number, modifies, buses)
        })?;
        let first = jobs.first();
        let is_other = |job: &Job| {
            first.is_some_and(|first| (&job.rule, job.from) != (&first.rule, first.from))
        };
        if let Some(other) = jobs.iter().position(is_other) {
            let other = self.record(Section::Jobs, first_job + other as u32);
            return other.refuse("its rule has another name or bus in an earlier job".into());
        }
        rules.sources.push(first.map(|job| job.from));
        rules.rules.push(rule);
        rules.jobs.extend(jobs);
        rules.exclusions.push(exclusions.into());
        rules.edits.push(edit.map(Box::new));
        rules.extensions.push(extension.map(Box::new));
        Ok(())
    }

    fn job(
        &self,
        mut record: Record<'_>,
        rule: u32,
        is_modified: bool,
        buses: usize,
    ) -> Result<Job, ImageError> {
        let name = self.string(&mut record)?;
        let (rule_index, from, to) = (record.u32(), record.u16(), record.u16());
        let modifies = record.u32();
        let modifies = record.flag("modifies", modifies)?;
        if rule_index != rule {
            return record.refuse(format!("it is a job of rule {rule}, not {rule_index}"));
        }
        if usize::from(to) >= buses {
            return record.refuse(format!("it goes to bus {to}, but there are {buses} buses"));
        }
        if modifies != is_modified {
            return record.refuse("modifies contradicts the edit of its rule".into());
        }
        Ok(Job { rule: name, rule_index, from: BusIndex(from), to: BusIndex(to), modifies })
    }
}
