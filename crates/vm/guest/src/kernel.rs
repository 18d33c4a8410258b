//! The kernel's gateway: its jobs for a table, and what they counted.

use candor_engine::{BusIndex, Table};
use candor_linux::netlink::Netlink;
use candor_protocol::report::JobCount;
use candor_rules::netlink::{Request, decode, delete_all, requests};

use crate::failure::{Context, FAULT, Failure};

const PLACE: &str = "can-gw";

/// The jobs of a table, as the kernel has them.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// In the order in which they were added.
    added: Vec<Request>,
    /// For each rule, where its destinations begin in a list of all of them.
    first: Vec<usize>,
    /// How many destinations there are.
    count: usize,
    /// Rules that the kernel refused, and its error number.
    pub(crate) refused: Vec<(u32, i32)>,
}

impl Jobs {
    /// Adds the jobs of `table`, so that they fire in its order. Rules that the kernel refuses are
    /// left out and told.
    pub(crate) fn add(netlink: &mut Netlink, table: &Table) -> Result<Self, Failure> {
        let remedy = "name only existing interfaces";
        let indices = table.buses.iter().map(|bus| netlink.link(&bus.port));
        let indices = indices.collect::<Result<Vec<_>, _>>().at(PLACE, remedy)?;
        let index = |bus: BusIndex| indices.get(usize::from(bus.0)).map_or(0, |link| link.index);
        let requests = requests(table, index).map_err(|failures| {
            let text: Vec<_> = failures
                .iter()
                .map(|failure| {
                    let name = table.rules.get(failure.rule).map_or("", |rule| &rule.name);
                    format!("rule `{name}`: {}", failure.reason)
                })
                .collect();
            Failure::new(PLACE, text.join("; "), "or use a user-space gateway")
        })?;
        let mut count = 0;
        let first = table.rules.iter().map(|rule| {
            let first = count;
            count += rule.to.len();
            first
        });
        let mut jobs =
            Self { added: Vec::new(), first: first.collect(), count, refused: Vec::new() };
        for request in requests {
            match netlink.add_job(&request.payload) {
                Ok(()) => jobs.added.push(request),
                Err(error) => match error.errno() {
                    Some(errno) => jobs.refused.push((request.rule as u32, errno.0)),
                    None => return Err(error).at(PLACE, FAULT),
                },
            }
        }
        Ok(jobs)
    }

    /// What the jobs counted, by rule and destination.
    pub(crate) fn counts(&self, netlink: &mut Netlink) -> Result<Vec<JobCount>, Failure> {
        let mut counts = vec![JobCount::default(); self.count];
        let listed = netlink.jobs().at(PLACE, FAULT)?;
        if listed.len() != self.added.len() {
            let reason =
                format!("{} jobs were added, but {} exist", self.added.len(), listed.len());
            return Err(Failure::new(PLACE, reason, FAULT));
        }
        // The kernel lists the newest first.
        for (payload, request) in listed.iter().zip(self.added.iter().rev()) {
            let (_, counters) = decode(payload).at(PLACE, FAULT)?;
            let first = self.first.get(request.rule).copied().unwrap_or(0);
            let Some(count) = counts.get_mut(first + request.destination) else { continue };
            count.handled += u64::from(counters.handled);
            count.dropped += u64::from(counters.dropped);
            count.deleted += u64::from(counters.deleted);
        }
        Ok(counts)
    }
}

pub(crate) fn delete_jobs(netlink: &mut Netlink) -> Result<(), Failure> {
    netlink.delete_job(&delete_all()).at(PLACE, FAULT)
}
