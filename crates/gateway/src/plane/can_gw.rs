//! [`OwnJobs`]: rules that can-gw of the Linux kernel carries out.
//!
//! The kernel changes the operations of a job at once, and everything else not: other jobs are added before
//! those that they replace are deleted, so that no frame is lost. For that moment a frame may be passed on
//! by both.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::ops::AddAssign;

use candor_engine::{BusIndex, Rule, Table};
use candor_linux::module;
use candor_linux::netlink::Netlink;
use candor_rules::job;
use candor_rules::netlink::{self as jobs, Counters, Request};

use super::retired::Retired;
use super::{Kind, Plane, Report, RuleKey, Share, keys_of, name_of};
use crate::{Config, Error};

pub(super) static KIND: Kind = Kind {
    name: "kernel",
    title: "can-gw",
    help: "The kernel's can-gw runs all rules; an error if it cannot run one",
    obstacle,
    excess: |_| None,
    most_steps: |_| None,
    compiles: false,
    start: |_: &Config| Ok(Box::new(OwnJobs::new()?)),
};

/// Why can-gw cannot carry out a rule.
fn obstacle(table: &Table, rule: &Rule) -> Option<String> {
    if table.refuses_others {
        return Some(
            "can-gw does not count the frames that no rule takes, as `default = \"refuse\"` \
             requires"
                .into(),
        );
    }
    for bus in rule.to.iter().chain([&rule.from]) {
        let bus = table.buses.get(usize::from(bus.0))?;
        if bus.interface().contains(':') {
            return Some(format!(
                "`{}` is {}, and can-gw supports only interfaces",
                bus.name, bus.port
            ));
        }
        if bus.port.contains('?') {
            let name = &bus.name;
            return Some(format!(
                "`{name}` has options that can-gw does not support: {}",
                bus.port
            ));
        }
    }
    let alone = Table {
        buses: table.buses.clone(),
        rules: [rule.clone()].into(),
        max_hops: table.max_hops,
        refuses_others: false,
    };
    let refused = job::plan(&alone).err()?;
    refused.into_iter().next().map(|refused| refused.reason)
}

/// What a rule and one of its destinations counted in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JobSums {
    handled: u64,
    dropped: u64,
    deleted: u64,
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
    key: RuleKey,
    /// What it had counted when it was last looked at; the kernel counts modulo 2^32.
    seen: Counters,
}

/// Jobs of the kernel and what they counted, by what the kernel was asked for. Jobs that are the same to the
/// last bit count for each other.
#[derive(Default)]
struct ListedJobs(HashMap<Vec<u8>, VecDeque<Counters>>);

impl ListedJobs {
    fn take(&mut self, payload: &[u8]) -> Option<Counters> {
        self.0.get_mut(payload)?.pop_front()
    }
}

/// The jobs of can-gw that belong to this gateway.
struct OwnJobs {
    netlink: Netlink,
    added: Vec<Added>,
    sums: Retired<JobSums>,
    /// The rules that it carries out, and those that it shall carry out.
    in_use: BTreeSet<RuleKey>,
    prepared: Option<PreparedJobs>,
    /// What was committed last, to be added again when an interface returns.
    rules: (Table, Vec<usize>),
}

/// A change whose jobs are added.
struct PreparedJobs {
    change: Change,
    table: Table,
    rules: Vec<usize>,
}

/// Which jobs there shall be.
struct Change {
    /// Each with its rule, source and destination.
    wanted: Vec<(Vec<u8>, RuleKey)>,
    /// Which of the jobs that were added before it is, if any.
    places: Vec<Option<usize>>,
    /// Of each of those, whether it is still there.
    is_there: Vec<bool>,
    keys: BTreeSet<RuleKey>,
}

impl Change {
    /// Those that were not there before.
    fn fresh(&self) -> impl Iterator<Item = &[u8]> {
        let wanted = self.wanted.iter().zip(&self.places);
        wanted.filter(|(_, place)| place.is_none()).map(|((payload, _), _)| payload.as_slice())
    }
}

impl Plane for OwnJobs {
    fn prepare(&mut self, share: &Share<'_>) -> Result<(), Error> {
        let Share { table, rules, .. } = *share;
        let change = self.add(table, rules)?;
        self.prepared = Some(PreparedJobs { change, table: table.clone(), rules: rules.to_vec() });
        Ok(())
    }

    fn commit(&mut self) {
        if let Some(PreparedJobs { change, table, rules }) = self.prepared.take() {
            self.finish(change);
            self.rules = (table, rules);
        }
    }

    fn abandon(&mut self) {
        let Some(PreparedJobs { change, .. }) = self.prepared.take() else { return };
        for payload in change.fresh() {
            let _ = self.netlink.delete_job(payload);
        }
    }

    fn tick(&mut self) {
        // What cannot be read now is read next time.
        let _ = self.count();
        self.sums.prune(|key| self.in_use.contains(key));
    }

    /// The kernel deletes the jobs of an interface that goes away.
    fn heal(&mut self, _: &dyn Fn(&str) -> bool, _: &str) {
        if !self.are_whole() {
            let (table, rules) = std::mem::take(&mut self.rules);
            // An interface that is still away is tried again when it comes.
            if let Ok(change) = self.add(&table, &rules) {
                self.finish(change);
            }
            self.rules = (table, rules);
        }
    }

    /// Of frames that no rule takes, can-gw knows nothing.
    fn seen(&self, add: &mut dyn FnMut(&str, u64)) {
        for ((_, from, _), sums) in self.sums.iter() {
            add(from, sums.handled + sums.dropped + sums.deleted);
        }
    }

    fn report(&self, report: &mut Report) {
        for (key, sums) in self.sums.iter() {
            let rule = report.rule(key, &KIND, self.in_use.contains(key));
            rule.handled += sums.handled;
            for (cause, count) in [("dropped", sums.dropped), ("deleted", sums.deleted)] {
                if count > 0 {
                    *rule.stopped.entry(cause.into()).or_default() += count;
                }
            }
        }
    }

    fn stop(&mut self) {
        let _ = self.count();
        self.delete();
    }
}

impl OwnJobs {
    fn new() -> Result<Self, Error> {
        Ok(Self {
            netlink: Netlink::open()?,
            added: Vec::new(),
            sums: Retired::default(),
            in_use: BTreeSet::new(),
            prepared: None,
            rules: (Table::default(), Vec::new()),
        })
    }

    /// Adds the jobs that `rules` of `table` need and that are not there. A job that is the same to the
    /// last bit stays.
    fn add(&mut self, table: &Table, rules: &[usize]) -> Result<Change, Error> {
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
        let keys = keys_of(table, rules).into_iter().collect();
        let change = Change { wanted, places, is_there, keys };
        for (index, payload) in change.fresh().enumerate() {
            if let Err(error) = self.netlink.add_job(payload) {
                // The old ones stay.
                for payload in change.fresh().take(index) {
                    let _ = self.netlink.delete_job(payload);
                }
                return Err(error.into());
            }
        }
        Ok(change)
    }

    /// Deletes the jobs that are not needed any more.
    fn finish(&mut self, change: Change) {
        let Change { wanted, places, is_there, keys } = change;
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
        self.in_use = keys;
    }

    /// The jobs that these rules are, each with its rule, source and destination.
    fn wanted(&mut self, table: &Table, rules: &[usize]) -> Result<Vec<(Vec<u8>, RuleKey)>, Error> {
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
            Error::Plane(KIND.title, refused.collect())
        })?;
        let mut wanted = Vec::with_capacity(requests.len());
        for request in requests {
            let Request { payload, rule, destination, .. } = request;
            let Some(rule) = own.rules.get(rule) else { continue };
            let to = rule.to.get(destination).copied().unwrap_or(rule.from);
            wanted.push((
                payload,
                (rule.name.clone(), name_of(table, rule.from), name_of(table, to)),
            ));
        }
        Ok(wanted)
    }

    /// The jobs of the kernel, whoever added them.
    fn listed(&mut self) -> Result<ListedJobs, Error> {
        let mut listed = ListedJobs::default();
        for payload in self.netlink.jobs()? {
            if let Ok((job, counters)) = jobs::decode(&payload) {
                listed.0.entry(jobs::encode(&job)).or_default().push_back(counters);
            }
        }
        Ok(listed)
    }

    /// Reads what the jobs counted.
    fn count(&mut self) -> Result<(), Error> {
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
    fn are_whole(&mut self) -> bool {
        let Ok(mut listed) = self.listed() else { return false };
        self.added.iter().all(|job| listed.take(&job.payload).is_some())
    }

    /// Deletes all of them; what they counted stays known.
    fn delete(&mut self) {
        for added in self.added.drain(..) {
            // The kernel deletes the jobs of an interface that goes away by itself.
            let _ = self.netlink.delete_job(&added.payload);
        }
    }
}

impl Drop for OwnJobs {
    fn drop(&mut self) {
        self.abandon();
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
        None => Err(Error::Other(match module::is_available("can_gw") {
            true => "can-gw is not loaded: `modprobe can-gw`; or use --plane user".to_owned(),
            false => {
                "this kernel has no module can-gw: use --plane user; `candor doctor` knows more"
                    .to_owned()
            }
        })),
    }
}
