//! [`Job`]: what the kernel's gateway is given. A rule becomes one or more jobs, which together take
//! exactly the same frames, each once.
//!
//! ```text
//!  Rule{from, to: [b, c], filters, except} -- plan --> Job{b, filter 1}, Job{b, filter 2},
//!                                                      Job{c, filter 1}, Job{c, filter 2}
//!                                                       |            |
//!                                            cangw: commands    netlink: bytes
//! ```
//!
//! What the kernel cannot do is [`Inexpressible`], with the reason and the remedy.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use candor_wire::can::frame::{EFF_MASK, ERR_FLAG};

use crate::region::{Budget, Region};
use candor_engine::edit::{Edit, Operands, Operator};
use candor_engine::{BusIndex, Filter, Gate, Rule, Table};

/// The most jobs that one rule may become.
const MAX_JOBS: usize = 64;
/// Bytes of data in a classical frame.
pub(crate) const CLASSICAL_LEN: usize = 8;

/// A job of can-gw: one filter, one source, one destination. `I` stands for an interface: a bus of
/// a table, or the kernel's index.
#[derive(Clone, Debug, PartialEq)]
pub struct Job<I = BusIndex> {
    /// Where frames come from.
    pub from: I,
    /// Where copies go.
    pub to: I,
    /// Whether it takes CAN FD frames, and no others; otherwise classical ones, and no others.
    pub is_fd: bool,
    /// What it takes.
    pub filter: Filter,
    /// What happens to the frame; nothing that this kind of frame does not have.
    pub edit: Edit,
    /// See [`Rule::echo`].
    pub echo: bool,
    /// See [`Rule::keep_timestamp`].
    pub keep_timestamp: bool,
    /// See [`Rule::allow_return`].
    pub allow_return: bool,
    /// See [`Rule::limit_hops`].
    pub limit_hops: Option<u8>,
    /// See [`Rule::uid`].
    pub uid: u32,
}

impl<I> Job<I> {
    /// The same job for other names of interfaces.
    pub fn with_interfaces<J>(self, mut name: impl FnMut(I) -> J) -> Job<J> {
        Job {
            from: name(self.from),
            to: name(self.to),
            is_fd: self.is_fd,
            filter: self.filter,
            edit: self.edit,
            echo: self.echo,
            keep_timestamp: self.keep_timestamp,
            allow_return: self.allow_return,
            limit_hops: self.limit_hops,
            uid: self.uid,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The index of the rule in its table.
    pub rule: usize,
    /// The index of the destination in [`Rule::to`].
    pub destination: usize,
    pub job: Job,
}

/// A rule that the kernel cannot do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexpressible {
    /// The index of the rule in its table.
    pub rule: usize,
    /// The reason and the remedy.
    pub reason: String,
}

/// The jobs of all rules in the order in which they are to fire.
///
/// # Errors
/// Every rule that the kernel cannot do.
pub fn plan(table: &Table) -> Result<Vec<Planned>, Vec<Inexpressible>> {
    let mut planned = Vec::new();
    let mut failures = Vec::new();
    for (index, rule) in table.rules.iter().enumerate() {
        match jobs_of(rule) {
            Ok(jobs) => planned.extend(jobs.into_iter().map(|(destination, job)| Planned {
                rule: index,
                destination,
                job,
            })),
            Err(reason) => failures.push(Inexpressible { rule: index, reason }),
        }
    }
    if failures.is_empty() { Ok(planned) } else { Err(failures) }
}

/// The jobs of one rule in the order in which they are to fire, each with the index of its
/// destination.
pub(crate) fn jobs_of(rule: &Rule) -> Result<Vec<(usize, Job)>, String> {
    if let [first, rest @ ..] = &rule.extension.keys()[..] {
        let keys = rest.iter().fold(format!("`{first}`"), |all, key| format!("{all}, `{key}`"));
        return Err(format!("can-gw does not support {keys}; run the rule in user space"));
    }
    if rule.gate == Gate::Any && rule.edit.modifies() {
        return Err(
            "a rule for frames of both formats cannot rewrite; write one for classical frames and \
             one for CAN FD"
                .into(),
        );
    }
    let gates = match rule.gate {
        Gate::Any => &[Gate::Classical, Gate::Fd][..],
        Gate::Classical => &[Gate::Classical],
        Gate::Fd => &[Gate::Fd],
    };
    let takes_both = rule.gate == Gate::Any;
    let mut jobs = Vec::new();
    for &gate in gates {
        let rule = Rule { gate, ..rule.clone() };
        let is_fd = gate == Gate::Fd;
        // CAN FD has no remote frames and no error reports: a rule for both may need no job for it.
        if takes_both && is_fd && Region::from_rule(&rule).is_empty(&mut Budget(100_000)) {
            continue;
        }
        let edit = edit_of(&rule.edit, is_fd);
        if (edit.crc8.is_some() || edit.xor_checksum.is_some()) && !edit.modifies() {
            return Err("the kernel skips a checksum without an operation; add \
                        `or = { id = \"0x0\" }`, which changes nothing"
                .into());
        }
        let filters = disjoint_filters(&rule)?;
        for (destination, &to) in rule.to.iter().enumerate() {
            for &filter in &filters {
                if jobs.len() == MAX_JOBS {
                    return Err(format!(
                        "it needs more than {MAX_JOBS} can-gw jobs; use fewer patterns, \
                         exclusions or destinations"
                    ));
                }
                let job = Job {
                    from: rule.from,
                    to,
                    is_fd,
                    filter,
                    edit: edit.clone(),
                    echo: rule.echo,
                    keep_timestamp: rule.keep_timestamp,
                    allow_return: rule.allow_return,
                    limit_hops: rule.limit_hops,
                    uid: rule.uid,
                };
                jobs.push((destination, job));
            }
        }
    }
    if rule.uid != 0 && jobs.len() > 1 {
        return Err(format!(
            "it needs {} can-gw jobs, but a uid can name only one; remove the uid, or split the \
             rule",
            jobs.len()
        ));
    }
    Ok(jobs)
}

/// What of an edit this kind of frame has: classical ones have no flags, and 8 bytes.
fn edit_of(edit: &Edit, is_fd: bool) -> Edit {
    let mut edit = edit.clone();
    if !is_fd {
        for operator in Operator::ALL {
            let Operands { flags, data, .. } = edit.operands_mut(operator);
            *flags = None;
            if let Some(data) = data {
                *data = operator.operand(&data[..CLASSICAL_LEN]);
            }
        }
    }
    edit
}

/// Filters that take what the rule takes, no frame twice: each becomes a job of its own, and every
/// matching job fires.
fn disjoint_filters(rule: &Rule) -> Result<Vec<Filter>, String> {
    match (&rule.filters[..], &rule.except[..]) {
        ([], []) => return Ok([Filter::ANY].into()),
        ([only], []) => return Ok([*only].into()),
        ([], [except]) if except.mask & ERR_FLAG == 0 => {
            return Ok([Filter { inverted: !except.inverted, ..*except }].into());
        }
        _ => {}
    }
    let is_error = |filter: &&Filter| filter.mask & ERR_FLAG != 0;
    if rule.except.iter().any(|filter| is_error(&filter)) {
        return Err("the kernel cannot exclude error reports; list the ones to take".into());
    }
    let error_mask =
        rule.filters.iter().filter(is_error).fold(0, |mask, filter| mask | filter.mask);
    let errors = (error_mask != 0).then_some(Filter {
        can_id: 0,
        mask: error_mask & (ERR_FLAG | EFF_MASK),
        inverted: false,
    });
    let cubes = Region::from_rule(rule).disjoint(&mut Budget(100_000)).ok_or_else(|| {
        String::from("its patterns and exclusions need too many filters; use fewer")
    })?;
    let mut filters: Vec<_> = cubes.into_iter().map(|cube| cube.filter()).collect();
    filters.extend(errors);
    if filters.is_empty() {
        return Err("it can never match; remove it".into());
    }
    Ok(filters)
}
