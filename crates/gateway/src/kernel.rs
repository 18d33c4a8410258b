//! [`Jobs`]: the rules that can-gw does.
//!
//! The kernel changes the operations of a job at once, and everything else not: other rules are
//! added before those that they replace are deleted, so that no frame is lost. For that moment a
//! frame may be passed on by both.

use std::collections::BTreeMap;
use std::fs;

use candor_linux::netlink::Netlink;
use candor_route::netlink::{self as jobs, Counters, Request};
use candor_route::{BusIndex, Table};

use crate::Error;

/// What a rule and one of its destinations counted in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobSums {
    pub(crate) handled: u64,
    pub(crate) dropped: u64,
    pub(crate) deleted: u64,
}

/// A job that was added.
struct Added {
    payload: Vec<u8>,
    /// The rule and the destination that it is for.
    key: (String, String, String),
    /// What it had counted when it was last looked at; the kernel counts modulo 2^32.
    seen: Counters,
}

/// The jobs of can-gw that belong to this gateway.
pub(crate) struct Jobs {
    netlink: Netlink,
    added: Vec<Added>,
    /// By rule, source and destination.
    sums: BTreeMap<(String, String, String), JobSums>,
}

impl Jobs {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { netlink: Netlink::open()?, added: Vec::new(), sums: BTreeMap::new() })
    }

    /// Makes the jobs those of `rules` of `table`, by index.
    pub(crate) fn change(&mut self, table: &Table, rules: &[usize]) -> Result<(), Error> {
        let old = std::mem::take(&mut self.added);
        if let Err(error) = self.add(table, rules) {
            // The old ones stay.
            for added in std::mem::replace(&mut self.added, old) {
                let _ = self.netlink.delete_job(&added.payload);
            }
            return Err(error);
        }
        self.count_of(&old)?;
        for added in old {
            // The kernel deletes the jobs of an interface that goes away by itself.
            let _ = self.netlink.delete_job(&added.payload);
        }
        Ok(())
    }

    fn add(&mut self, table: &Table, rules: &[usize]) -> Result<(), Error> {
        if rules.is_empty() {
            return Ok(());
        }
        check_hops(table.effective_max_hops())?;
        let chosen: Vec<_> = rules.iter().filter_map(|&rule| table.rules.get(rule)).collect();
        let own = Table {
            buses: table.buses.clone(),
            rules: chosen.iter().map(|&rule| rule.clone()).collect(),
            max_hops: table.max_hops,
            refuses_others: false,
        };
        let mut indices = BTreeMap::new();
        for rule in &own.rules {
            for &bus in rule.to.iter().chain([&rule.from]) {
                let Some(named) = table.buses.get(usize::from(bus.0)) else { continue };
                indices.insert(bus, self.netlink.link(named.interface())?.index);
            }
        }
        let index = |bus: BusIndex| indices.get(&bus).copied().unwrap_or(0);
        let requests = jobs::requests(&own, index).map_err(|refused| {
            let name = |rule: usize| own.rules.get(rule).map_or("", |rule| rule.name.as_str());
            let refused = refused.into_iter().map(|it| (name(it.rule).to_owned(), it.reason));
            Error::Plane(refused.collect())
        })?;
        let bus = |bus: BusIndex| {
            table.buses.get(usize::from(bus.0)).map_or(String::new(), |bus| bus.name.clone())
        };
        for request in requests {
            let Request { payload, rule, destination, .. } = request;
            self.netlink.add_job(&payload)?;
            let Some(rule) = own.rules.get(rule) else { continue };
            let to = rule.to.get(destination).copied().unwrap_or(rule.from);
            let key = (rule.name.clone(), bus(rule.from), bus(to));
            self.sums.entry(key.clone()).or_default();
            self.added.push(Added { payload, key, seen: Counters::default() });
        }
        Ok(())
    }

    /// Reads what the jobs counted.
    pub(crate) fn count(&mut self) -> Result<(), Error> {
        let mut added = std::mem::take(&mut self.added);
        let outcome = self.count_in(&mut added);
        self.added = added;
        outcome
    }

    fn count_of(&mut self, old: &[Added]) -> Result<(), Error> {
        let mut copies: Vec<_> = old
            .iter()
            .map(|added| Added {
                payload: added.payload.clone(),
                key: added.key.clone(),
                seen: added.seen,
            })
            .collect();
        self.count_in(&mut copies)
    }

    fn count_in(&mut self, added: &mut [Added]) -> Result<(), Error> {
        if added.is_empty() {
            return Ok(());
        }
        let mut listed = Vec::new();
        for payload in self.netlink.jobs()? {
            let Ok((job, counters)) = jobs::decode(&payload) else { continue };
            listed.push((jobs::encode(&job), counters));
        }
        for job in added {
            // Jobs that are the same to the last bit count for each other.
            let Some(at) = listed.iter().position(|(payload, _)| *payload == job.payload) else {
                continue;
            };
            let (_, now) = listed.swap_remove(at);
            let sums = self.sums.entry(job.key.clone()).or_default();
            let more = |now: u32, seen: u32| u64::from(now.wrapping_sub(seen));
            sums.handled += more(now.handled, job.seen.handled);
            sums.dropped += more(now.dropped, job.seen.dropped);
            sums.deleted += more(now.deleted, job.seen.deleted);
            job.seen = now;
        }
        Ok(())
    }

    /// Whether all jobs are still there: those of an interface go when it goes.
    pub(crate) fn are_whole(&mut self) -> bool {
        let Ok(listed) = self.netlink.jobs() else { return false };
        let listed: Vec<_> = listed
            .iter()
            .filter_map(|payload| Some(jobs::encode(&jobs::decode(payload).ok()?.0)))
            .collect();
        self.added.iter().all(|job| listed.contains(&job.payload))
    }

    /// Deletes all of them; what they counted stays known.
    pub(crate) fn delete(&mut self) {
        for added in self.added.drain(..) {
            // The kernel deletes the jobs of an interface that goes away by itself.
            let _ = self.netlink.delete_job(&added.payload);
        }
    }

    pub(crate) fn sums(&self) -> &BTreeMap<(String, String, String), JobSums> {
        &self.sums
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.delete();
    }
}

/// Whether can-gw passes frames on as often as the rules want.
fn check_hops(wanted: u8) -> Result<(), Error> {
    let path = "/sys/module/can_gw/parameters/max_hops";
    let found = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u8>().ok());
    match found {
        Some(hops) if hops == wanted => Ok(()),
        Some(hops) => Err(Error::Other(format!(
            "the rules have max_hops = {wanted}, but can-gw was loaded with {hops}: `modprobe -r \
             can-gw && modprobe can-gw max_hops={wanted}`"
        ))),
        None => Err(Error::Other(
            "can-gw is not loaded: `modprobe can-gw`; or take --plane user".to_owned(),
        )),
    }
}
