//! What the tests of whole worlds are made of.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;

use candor_causes::Cause;
use candor_lat::{Tap, Taps};
use candor_sim::model::{Egress, FilterCosts, Linux, Readout};
use candor_sim::*;
use candor_time::Nanos;
use candor_wire::can::{Bitrate, Frame, Timing};

pub(crate) const US: fn(u64) -> Nanos = Nanos::from_micros;

/// Passes every frame from any port on to the others in `to`, unchanged.
#[derive(Clone)]
pub(crate) struct Repeater {
    to: Vec<Vec<u32>>,
    max_hops: u8,
    /// Look-ups for a whole decision; the first one finds the rule.
    look_ups: u32,
    /// Added to the port for the name of a job, so that those of several hosts differ.
    first_job: u32,
    /// Frames that it decided about.
    pub(crate) decided: u64,
    /// Copies by job: made, taken by a queue, refused there.
    pub(crate) made: BTreeMap<u32, u64>,
    pub(crate) handled: u64,
    pub(crate) refused: u64,
}

impl Repeater {
    pub(crate) fn new(to: &[&[u32]]) -> Self {
        let to = to.iter().map(|ports| ports.to_vec()).collect();
        Self {
            to,
            max_hops: 20,
            look_ups: 1,
            first_job: 0,
            decided: 0,
            made: BTreeMap::new(),
            handled: 0,
            refused: 0,
        }
    }

    /// With rules behind the one that takes a frame, which do not.
    pub(crate) fn with_look_ups(self, look_ups: u32) -> Self {
        Self { look_ups, ..self }
    }

    /// With jobs from this number on.
    pub(crate) fn jobs_from(self, first_job: u32) -> Self {
        Self { first_job, ..self }
    }
}

impl Gateway for Repeater {
    fn decide(
        &mut self,
        _: Time,
        port: u32,
        frame: &Frame,
        passage: PassageTag,
        decision: &mut Decision,
    ) {
        self.decided += 1;
        for &to in &self.to[port as usize] {
            let job = self.first_job + to;
            *self.made.entry(job).or_default() += 1;
            if passage.hops >= self.max_hops {
                decision.refused.push((job, Cause::HopLimit));
                continue;
            }
            decision.copies.push(Copy {
                job,
                port: to,
                frame: *frame,
                passage: PassageTag { hops: passage.hops + 1, ..passage },
                echo: true,
                is_edited: false,
                walk: Walk { slots: 1, ..Walk::default() },
            });
        }
        decision.walk = Walk { slots: self.look_ups, ..Walk::default() };
    }
    fn settle(&mut self, _: u32, settled: Settled) {
        match settled {
            Settled::Handled => self.handled += 1,
            Settled::Refused(_) => self.refused += 1,
        }
    }
}

/// Keeps everything.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) ends: Vec<(u64, String, Result<&'static str, &'static str>, Taps)>,
    /// Of each: its sender, and the job whose copy it was.
    pub(crate) origins: Vec<(u32, Option<u32>)>,
}

impl Observer for Log {
    fn record(&mut self, record: &Record<'_>) {
        let fate = match record.fate {
            Fate::Forwarded => Ok("forwarded"),
            Fate::Delivered => Ok("delivered"),
            Fate::Refused(cause) => Err(cause.name()),
        };
        self.ends.push((record.identity, record.frame.to_string(), fate, *record.taps));
        self.origins.push((record.sender, record.job));
    }
}

impl Log {
    pub(crate) fn causes(&self) -> BTreeMap<&'static str, usize> {
        let mut causes = BTreeMap::new();
        for (_, _, fate, _) in &self.ends {
            *causes.entry(fate.unwrap_or_else(|cause| cause)).or_default() += 1;
        }
        causes
    }

    pub(crate) fn latencies_ns(&self) -> Vec<i64> {
        self.ends
            .iter()
            .filter_map(|(_, _, _, taps)| taps.distance_ns(Tap::SourceEnd, Tap::TargetEnd))
            .collect()
    }
}

pub(crate) fn bus(name: &str, rate: u32) -> BusConfig {
    BusConfig {
        name: name.into(),
        timing: Timing::classical(Bitrate::new(rate).unwrap()),
        is_fd: false,
        bit_error_rate: 0.0,
        restart: None,
    }
}

pub(crate) fn sender(drive: Drive, discipline: Discipline, depth: usize) -> SenderConfig {
    SenderConfig { drive, discipline, depth, reload: Nanos::ZERO, fault_rate: 0.0 }
}

pub(crate) fn frames(list: &[(u64, &str)]) -> Box<dyn Source + Send> {
    let mut list: Vec<_> = list
        .iter()
        .rev()
        .map(|&(at_us, frame)| Release::new(Time::ZERO + US(at_us), frame.parse().unwrap()))
        .collect();
    Box::new(move || list.pop())
}

pub(crate) fn repeat(frame: &str, count: usize) -> Box<dyn Source + Send> {
    let release = Release::new(Time::ZERO, frame.parse().unwrap());
    let mut frames = std::iter::repeat_n(release, count);
    Box::new(move || frames.next())
}

pub(crate) const ONE_AT_A_TIME: Drive = Drive::OneAtATime {
    turnaround: (Nanos::from_micros(50), Nanos::from_micros(50)),
    timeout: Nanos::from_secs(1),
};

/// A host whose costs are easy to add up: 1, 2, 4, 8 ... us.
pub(crate) fn linux() -> Linux {
    Linux {
        interrupt: US(1),
        readout: Readout::SoftIrq,
        read: US(4),
        rx_fifo: 4,
        tx_buffers: 1,
        transmit_done: US(0),
        soft_irq: US(2),
        poll_weight: 64,
        receive: US(8),
        jitter: Nanos::ZERO,
        filter: FilterCosts {
            slot: US(16),
            entry: US(1),
            entry_uncached: US(3),
            cached_entries: 10,
            extended_in_list: true,
        },
        clone: US(32),
        copy: US(100),
        transmit: US(64),
        virtual_transmit: US(128),
        virtual_more: US(1),
        backlog: 1_000,
        egress: Egress { depth: 10, discipline: Discipline::Fifo },
        user_space: None,
        is_preempt_rt: false,
        slowdown_percent: 100,
        interference: Vec::new(),
        ethernet: None,
    }
}
