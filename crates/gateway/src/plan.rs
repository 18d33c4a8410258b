//! [`plan`]: which rule is done by whom: by the kernel's can-gw, or by a worker in user space.

use std::collections::BTreeMap;

use candor_engine::{BusIndex, Rule, Table};
use candor_rules::job;

/// Who shall do the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plane {
    /// Workers in user space do all of them.
    #[default]
    User,
    /// can-gw does all of them.
    Kernel,
    /// can-gw does what it can, workers the rest.
    Auto,
}

/// Who does a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doer {
    /// A worker in user space.
    User,
    /// can-gw.
    Kernel,
}

impl Doer {
    /// The name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }
}

/// Who does a rule, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The index of the rule.
    pub rule: usize,
    /// Who does it.
    pub doer: Doer,
    /// Why not the kernel, or that it can.
    pub reason: String,
}

/// A rule that can-gw cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The index of the rule.
    pub rule: usize,
    /// Why, and what to do.
    pub reason: String,
}

/// Decides for each rule.
///
/// # Errors
/// With [`Plane::Kernel`], every rule that can-gw cannot do.
pub fn plan(table: &Table, plane: Plane) -> Result<Vec<Planned>, Vec<Refused>> {
    if plane == Plane::User {
        let planned =
            |rule| Planned { rule, doer: Doer::User, reason: "--plane user was given".into() };
        return Ok((0..table.rules.len()).map(planned).collect());
    }
    let obstacles: Vec<_> = table.rules.iter().map(|rule| obstacle(table, rule)).collect();
    if plane == Plane::Kernel {
        let refused: Vec<_> = obstacles
            .iter()
            .enumerate()
            .filter_map(|(rule, obstacle)| Some(Refused { rule, reason: obstacle.clone()? }))
            .collect();
        if !refused.is_empty() {
            return Err(refused);
        }
    }
    let mut planned: Vec<_> = obstacles
        .into_iter()
        .enumerate()
        .map(|(rule, obstacle)| match obstacle {
            Some(reason) => Planned { rule, doer: Doer::User, reason },
            None => {
                let reason = "can-gw can run it".into();
                Planned { rule, doer: Doer::Kernel, reason }
            }
        })
        .collect();
    if plane == Plane::Auto {
        keep_together(table, &mut planned);
    }
    Ok(planned)
}

/// Why can-gw cannot do a rule.
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

/// Rules that follow each other over a bus that gives frames back stay together: how often a frame
/// has been passed on is known to one of the two only.
fn keep_together(table: &Table, planned: &mut [Planned]) {
    // By bus: the rules whose copies come back from it, and those that then take them.
    let mut meetings: BTreeMap<BusIndex, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (index, rule) in table.rules.iter().enumerate() {
        meetings.entry(rule.from).or_default().1.push(index);
        for &to in &rule.to {
            let bus = table.buses.get(usize::from(to.0));
            if rule.echo || bus.is_some_and(|bus| bus.is_virtual) {
                meetings.entry(to).or_default().0.push(index);
            }
        }
    }
    meetings.retain(|_, (into, from)| !into.is_empty() && !from.is_empty());
    loop {
        let mut has_moved = false;
        for (into, from) in meetings.values() {
            let rules = || into.iter().chain(from).copied();
            let Some(other) = rules().find(|&rule| planned[rule].doer == Doer::User) else {
                continue;
            };
            let name = table.rules.get(other).map_or("", |rule| rule.name.as_str());
            for rule in rules() {
                if planned[rule].doer == Doer::Kernel {
                    has_moved = true;
                    planned[rule] = Planned {
                        rule,
                        doer: Doer::User,
                        reason: format!(
                            "it shares a bus that returns frames with {name:?}, which runs in \
                             user space"
                        ),
                    };
                }
            }
        }
        if !has_moved {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSES: &str = "[bus]\na = \"can0\"\nb = \"can1\"\nv = \"vcan0\"\nfar = \
                         \"cannelloni:udp://host:20000\"\n";

    fn table(rules: &str) -> Table {
        let (table, findings) = candor_rules::file::parse("t", &format!("{BUSES}{rules}"));
        table.unwrap_or_else(|| panic!("{findings}"))
    }

    fn doers(rules: &str, plane: Plane) -> Result<String, String> {
        let table = table(rules);
        let doer = |planned: Planned| if planned.doer == Doer::User { 'u' } else { 'k' };
        match plan(&table, plane) {
            Ok(planned) => Ok(planned.into_iter().map(doer).collect()),
            Err(refused) => Err(refused.into_iter().map(|refused| refused.reason).collect()),
        }
    }

    #[test]
    fn the_kernel_gets_what_it_can_do() {
        let plain = "[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [1]\n";
        let paced = "[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [2]\nrate = \"5/s\"\n";
        let far = "[[rule]]\nfrom = \"a\"\nto = \"far\"\nmatch = [3]\n";
        let to_virtual = "[[rule]]\nfrom = \"a\"\nto = \"v\"\nmatch = [4]\necho = true\n";
        let from_virtual = "[[rule]]\nfrom = \"v\"\nto = \"b\"\nmatch = [4]\nevery = 2\n";
        for (rules, auto) in [
            (plain.to_owned(), "k"),
            (format!("{plain}{paced}{far}"), "kuu"),
            (to_virtual.to_owned(), "k"),
            (format!("{to_virtual}{from_virtual}{plain}"), "uuk"),
        ] {
            assert_eq!(doers(&rules, Plane::Auto), Ok(auto.into()), "{rules}");
            assert!(doers(&rules, Plane::User).unwrap().chars().all(|doer| doer == 'u'));
            assert_eq!(doers(&rules, Plane::Kernel).is_ok(), auto.chars().all(|doer| doer == 'k'));
        }
        let reason = doers(paced, Plane::Kernel).unwrap_err();
        assert!(reason.contains("`rate`"), "{reason}");
        let reason = doers(far, Plane::Kernel).unwrap_err();
        assert!(reason.contains("cannelloni:udp"), "{reason}");
    }

    #[test]
    fn a_list_of_what_is_allowed_is_for_user_space() {
        let mut table = table("[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [1]\n");
        table.refuses_others = true;
        assert!(plan(&table, Plane::Kernel).is_err());
        assert_eq!(plan(&table, Plane::Auto).unwrap()[0].doer, Doer::User);
    }
}
