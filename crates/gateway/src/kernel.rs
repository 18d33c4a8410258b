//! [`Jobs`]: the rules that can-gw does.
//!
//! The kernel changes the operations of a job at once, and everything else not: other rules are
//! added before those that they replace are deleted, so that no frame is lost. For that moment a
//! frame may be passed on by both.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::ops::AddAssign;

use candor_engine::{BusIndex, Table};
use candor_linux::netlink::Netlink;
use candor_rules::netlink::{self as jobs, Counters, Request};

use crate::Error;
use crate::retired::{Key, Retired};

/// What a rule and one of its destinations counted in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobSums {
    pub(crate) handled: u64,
    pub(crate) dropped: u64,
    pub(crate) deleted: u64,
}

impl AddAssign for JobSums {
    fn add_assign(&mut self, more: Self) {
        self.handled += more.handled;
        self.dropped += more.dropped;
        self.deleted += more.deleted;
    }
}

/// A job that was added.
struct Added {
    payload: Vec<u8>,
    /// The rule and the destination that it is for.
    key: Key,
    /// What it had counted when it was last looked at; the kernel counts modulo 2^32.
    seen: Counters,
}

/// Jobs of the kernel and what they counted, by what the kernel was told of them. Jobs that are the same to the
/// last bit count for each other.
#[derive(Default)]
struct Listed(HashMap<Vec<u8>, VecDeque<Counters>>);

impl Listed {
    fn take(&mut self, payload: &[u8]) -> Option<Counters> {
        self.0.get_mut(payload)?.pop_front()
    }
}

/// The jobs of can-gw that belong to this gateway.
pub(crate) struct Jobs {
    netlink: Netlink,
    added: Vec<Added>,
    /// By rule, source and destination.
    sums: Retired<JobSums>,
}

impl Jobs {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { netlink: Netlink::open()?, added: Vec::new(), sums: Retired::default() })
    }

    /// Makes the jobs those of `rules` of `table`, by index. A job that is the same to the last bit
    /// stays.
    pub(crate) fn change(&mut self, table: &Table, rules: &[usize]) -> Result<(), Error> {
        let wanted = self.wanted(table, rules)?;
        self.sums.begin();
        // Up to here they counted for the rules that they were of.
        self.count()?;
        let mut listed = self.listed()?;
        let is_there: Vec<bool> =
            self.added.iter().map(|job| listed.take(&job.payload).is_some()).collect();
        let mut free: HashMap<&[u8], VecDeque<usize>> = HashMap::new();
        for (at, job) in self.added.iter().enumerate().filter(|(at, _)| is_there[*at]) {
            free.entry(&job.payload).or_default().push_back(at);
        }
        let places: Vec<Option<usize>> = wanted
            .iter()
            .map(|(payload, _)| free.get_mut(payload.as_slice()).and_then(VecDeque::pop_front))
            .collect();
        let fresh = wanted.iter().zip(&places).filter(|(_, place)| place.is_none());
        let fresh: Vec<&[u8]> = fresh.map(|((payload, _), _)| payload.as_slice()).collect();
        for (index, payload) in fresh.iter().enumerate() {
            if let Err(error) = self.netlink.add_job(payload) {
                // The old ones stay.
                for payload in &fresh[..index] {
                    let _ = self.netlink.delete_job(payload);
                }
                return Err(error.into());
            }
        }
        let old = std::mem::take(&mut self.added).into_iter().zip(is_there);
        // The kernel deletes the jobs of an interface that goes away by itself.
        let mut old: Vec<_> = old.map(|(job, is_there)| is_there.then_some(job)).collect();
        for ((payload, key), place) in wanted.into_iter().zip(places) {
            self.sums.entry(key.clone());
            let kept = place.and_then(|at| old.get_mut(at)).and_then(Option::take);
            let seen = kept.map_or_else(Counters::default, |job| job.seen);
            self.added.push(Added { payload, key, seen });
        }
        let mut over: Vec<_> = old.into_iter().flatten().collect();
        // What cannot be read is not known.
        let _ = self.count_in(&mut over);
        for job in over {
            let _ = self.netlink.delete_job(&job.payload);
        }
        Ok(())
    }

    /// The jobs that these rules are, each with its rule, source and destination.
    fn wanted(&mut self, table: &Table, rules: &[usize]) -> Result<Vec<(Vec<u8>, Key)>, Error> {
        if rules.is_empty() {
            return Ok(Vec::new());
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
        let mut wanted = Vec::with_capacity(requests.len());
        for request in requests {
            let Request { payload, rule, destination, .. } = request;
            let Some(rule) = own.rules.get(rule) else { continue };
            let to = rule.to.get(destination).copied().unwrap_or(rule.from);
            wanted.push((payload, (rule.name.clone(), bus(rule.from), bus(to))));
        }
        Ok(wanted)
    }

    /// The jobs of the kernel, whoever added them.
    fn listed(&mut self) -> Result<Listed, Error> {
        let mut listed = Listed::default();
        for payload in self.netlink.jobs()? {
            if let Ok((job, counters)) = jobs::decode(&payload) {
                listed.0.entry(jobs::encode(&job)).or_default().push_back(counters);
            }
        }
        Ok(listed)
    }

    /// Reads what the jobs counted.
    pub(crate) fn count(&mut self) -> Result<(), Error> {
        let mut added = std::mem::take(&mut self.added);
        let outcome = self.count_in(&mut added);
        self.added = added;
        outcome
    }

    fn count_in(&mut self, added: &mut [Added]) -> Result<(), Error> {
        if added.is_empty() {
            return Ok(());
        }
        let mut listed = self.listed()?;
        for job in added {
            let Some(now) = listed.take(&job.payload) else { continue };
            let sums = self.sums.entry(job.key.clone());
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
        let Ok(mut listed) = self.listed() else { return false };
        self.added.iter().all(|job| listed.take(&job.payload).is_some())
    }

    /// Deletes all of them; what they counted stays known.
    pub(crate) fn delete(&mut self) {
        for added in self.added.drain(..) {
            // The kernel deletes the jobs of an interface that goes away by itself.
            let _ = self.netlink.delete_job(&added.payload);
        }
    }

    /// What each rule counted, those included that are not in use any more.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&Key, &JobSums)> {
        self.sums.iter()
    }

    /// Bounds what is kept of rules that are not among these any more.
    pub(crate) fn forget(&mut self, in_use: &BTreeSet<Key>) {
        self.sums.prune(|key| in_use.contains(key));
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
            "can-gw is not loaded: `modprobe can-gw`; or use --plane user".to_owned(),
        )),
    }
}
