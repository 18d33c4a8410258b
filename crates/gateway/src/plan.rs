//! [`plan`]: which data plane carries out which rule.

use std::collections::BTreeMap;

use candor_engine::{BusIndex, Rule, Table};

pub use crate::plane::Choice;
use crate::plane::Kind;

/// Which data plane carries out a rule, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The index of the rule.
    pub rule: usize,
    pub plane: &'static Kind,
    /// Why not a plane that is preferred, or that it can.
    pub reason: String,
    /// Whether no plane is preferred to it.
    pub is_preferred: bool,
    /// The most steps that all rules of the plane take for one frame, if it counts them.
    pub most_steps: Option<u64>,
}

/// A rule that a plane cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The index of the rule.
    pub rule: usize,
    /// Why, and what to do.
    pub reason: String,
}

/// Decides for each rule. `planes` are those that there are, the preferred one first; the last one can
/// carry out every rule.
///
/// # Errors
/// With [`Choice::Only`], every rule that the plane cannot carry out.
pub fn plan(
    table: &Table,
    planes: &'static [&'static Kind],
    choice: Choice,
) -> Result<Vec<Planned>, Vec<Refused>> {
    let mut planned = match choice {
        Choice::Only(plane) => only(table, planes, plane)?,
        Choice::Auto => auto(table, planes),
    };
    for kind in planes {
        let mut of_it = planned.iter_mut().filter(|it| it.plane == *kind).peekable();
        if of_it.peek().is_some() {
            let of_it: Vec<_> = of_it.collect();
            let rules = of_it.iter().map(|it| it.rule);
            let most_steps = (kind.most_steps)(&with_rules(table, rules));
            of_it.into_iter().for_each(|it| it.most_steps = most_steps);
        }
    }
    Ok(planned)
}

/// The table with these rules alone.
fn with_rules(table: &Table, rules: impl Iterator<Item = usize>) -> Table {
    let rules = rules.filter_map(|rule| table.rules.get(rule).cloned()).collect();
    Table { rules, ..table.clone() }
}

fn only(
    table: &Table,
    planes: &'static [&'static Kind],
    plane: &'static Kind,
) -> Result<Vec<Planned>, Vec<Refused>> {
    let rules = table.rules.iter().enumerate();
    let refused: Vec<_> = rules
        .filter_map(|(index, rule)| {
            Some(Refused { rule: index, reason: (plane.obstacle)(table, rule)? })
        })
        .collect();
    if !refused.is_empty() {
        return Err(refused);
    }
    if let Some((bus, reason)) = (plane.excess)(table) {
        let rule = table.rules.iter().position(|rule| rule.from == bus).unwrap_or(0);
        return Err(vec![Refused { rule, reason }]);
    }
    let is_preferred = planes.first().is_some_and(|first| *first == plane);
    let planned = |rule| Planned {
        rule,
        plane,
        reason: format!("--plane {} was given", plane.name),
        is_preferred,
        most_steps: None,
    };
    Ok((0..table.rules.len()).map(planned).collect())
}

fn auto(table: &Table, planes: &'static [&'static Kind]) -> Vec<Planned> {
    // By rule and plane: why it cannot.
    let mut obstacles: Vec<Vec<Option<String>>> = table
        .rules
        .iter()
        .map(|rule| planes.iter().map(|plane| (plane.obstacle)(table, rule)).collect())
        .collect();
    let chosen = loop {
        let chosen = choose(table, planes.len().saturating_sub(1), &obstacles);
        let Some((plane, bus, reason)) = excess(table, planes, &chosen) else { break chosen };
        for (rule, obstacles) in table.rules.iter().zip(&mut obstacles) {
            if rule.from == bus {
                obstacles[plane].get_or_insert_with(|| reason.clone());
            }
        }
    };
    let chosen = chosen.into_iter().zip(&obstacles).enumerate();
    let planned = chosen.filter_map(|(rule, (chosen, obstacles))| {
        let plane = *planes.get(chosen.plane)?;
        // Of the planes before it, that which the ports of the rule are for.
        let fits = |plane: &usize| {
            table.rules.get(rule).zip(planes.get(*plane)).is_some_and(|(rule, plane)| {
                let plain =
                    Rule { to: rule.to.clone(), ..Rule::new("plain", rule.from, rule.from) };
                (plane.obstacle)(table, &plain).is_none()
            })
        };
        let before = (0..chosen.plane).find(fits).unwrap_or(0);
        let before = obstacles.iter().take(chosen.plane).nth(before).and_then(Option::as_ref);
        let reason = match (chosen.stays_with, before) {
            (Some(other), _) => {
                let name = table.rules.get(other).map_or("", |rule| rule.name.as_str());
                format!(
                    "it shares a bus that returns frames with {name:?}, which runs in {}",
                    plane.title
                )
            }
            (None, Some(obstacle)) => obstacle.clone(),
            (None, None) => format!("{} can run it", plane.title),
        };
        let is_preferred = chosen.plane == 0;
        Some(Planned { rule, plane, reason, is_preferred, most_steps: None })
    });
    planned.collect()
}

/// The first plane of each rule that can carry it out; `last` can carry out every one.
fn choose(table: &Table, last: usize, obstacles: &[Vec<Option<String>>]) -> Vec<Chosen> {
    let can = |rule: usize, plane: usize| {
        plane == last || obstacles.get(rule).is_some_and(|of| of.get(plane) == Some(&None))
    };
    let mut chosen: Vec<Chosen> = (0..table.rules.len())
        .map(|rule| Chosen {
            plane: (0..=last).find(|&plane| can(rule, plane)).unwrap_or(last),
            stays_with: None,
        })
        .collect();
    keep_together(table, &mut chosen, last, can);
    chosen
}

/// A plane that has too much with the rules chosen for it: of which bus, and why. The last plane has no limit.
fn excess(
    table: &Table,
    planes: &'static [&'static Kind],
    chosen: &[Chosen],
) -> Option<(usize, BusIndex, String)> {
    let (_, limited) = planes.split_last()?;
    limited.iter().enumerate().find_map(|(plane, kind)| {
        let own = (0..).zip(chosen).filter(|(_, chosen)| chosen.plane == plane);
        let own = with_rules(table, own.map(|(rule, _)| rule));
        if own.rules.is_empty() {
            return None;
        }
        (kind.excess)(&own).map(|(bus, reason)| (plane, bus, reason))
    })
}

/// The plane of a rule, and which other one it is of that plane for.
struct Chosen {
    plane: usize,
    stays_with: Option<usize>,
}

/// Rules that follow each other over a bus that gives frames back stay together: how often a frame
/// has been passed on is known to one plane only.
fn keep_together(
    table: &Table,
    chosen: &mut [Chosen],
    last: usize,
    can: impl Fn(usize, usize) -> bool,
) {
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
            let Some(worst) = rules().max_by_key(|&rule| chosen[rule].plane) else { continue };
            let least = chosen[worst].plane;
            let plane = (least..last).find(|&plane| rules().all(|rule| can(rule, plane)));
            let plane = plane.unwrap_or(last);
            for rule in rules() {
                if chosen[rule].plane != plane {
                    has_moved = true;
                    chosen[rule] = Chosen { plane, stays_with: Some(worst) };
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
    use crate::plane::{PLANES, USER};

    const BUSES: &str = "[bus]\na = \"can0\"\nb = \"can1\"\nv = \"vcan0\"\nfar = \
                         \"cannelloni:udp://host:20000\"\n";

    fn table(rules: &str) -> Table {
        let (table, findings) = candor_rules::file::parse("t", &format!("{BUSES}{rules}"));
        table.unwrap_or_else(|| panic!("{findings}"))
    }

    const KERNEL: Choice = Choice::Only(PLANES[0]);

    /// The first letter of the plane of each rule.
    fn planes(rules: &str, choice: Choice) -> Result<String, String> {
        let letter = |planned: &Planned| planned.plane.name.chars().next();
        match plan(&table(rules), PLANES, choice) {
            Ok(planned) => Ok(planned.iter().filter_map(letter).collect()),
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
            assert_eq!(planes(&rules, Choice::Auto), Ok(auto.into()), "{rules}");
            let user = planes(&rules, Choice::Only(&USER)).unwrap();
            assert!(user.chars().all(|plane| plane == 'u'));
            assert_eq!(planes(&rules, KERNEL).is_ok(), auto.chars().all(|plane| plane == 'k'));
        }
        let reason = planes(paced, KERNEL).unwrap_err();
        assert!(reason.contains("`rate`"), "{reason}");
        let reason = planes(far, KERNEL).unwrap_err();
        assert!(reason.contains("cannelloni:udp"), "{reason}");
    }

    #[test]
    fn a_list_of_what_is_allowed_is_for_user_space() {
        let mut table = table("[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [1]\n");
        table.refuses_others = true;
        assert!(plan(&table, PLANES, KERNEL).is_err());
        assert_eq!(*plan(&table, PLANES, Choice::Auto).unwrap()[0].plane, USER);
    }

    #[test]
    fn each_rule_has_the_first_plane_that_can_and_rules_that_meet_have_one() {
        fn start(_: &crate::Config) -> Result<Box<dyn crate::plane::Plane>, crate::Error> {
            Err(crate::Error::Other("not here".into()))
        }
        /// Rules whose names do not begin with that letter.
        fn only_named(letter: char, rule: &candor_engine::Rule) -> Option<String> {
            (!rule.name.starts_with(letter)).then(|| format!("not a rule of {letter}"))
        }
        static FAST: Kind = Kind {
            name: "fast",
            title: "the fast plane",
            help: "",
            obstacle: |_, rule| only_named('f', rule),
            // Two rules at a time.
            excess: |table| (table.rules.len() > 2).then(|| (table.rules[0].from, "three".into())),
            most_steps: |table| Some(10 * table.rules.len() as u64),
            compiles: false,
            start,
        };
        static MIDDLE: Kind = Kind {
            name: "middle",
            title: "the middle plane",
            help: "",
            obstacle: |_, rule| only_named('f', rule).and(only_named('m', rule)),
            excess: |_| None,
            most_steps: |_| None,
            compiles: false,
            start,
        };
        static THREE: &[&Kind] = &[&FAST, &MIDDLE, &USER];
        let rule = |name: &str, from: &str, to: &str| {
            let is_virtual = to == "v";
            format!("[[rule]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n")
                + if is_virtual { "echo = true\n" } else { "" }
        };
        let (f, m, u) = (rule("f", "a", "b"), rule("m", "a", "b"), rule("u", "a", "b"));
        let (f1, f2) = (rule("f1", "a", "b"), rule("f2", "a", "b"));
        for (rules, expected) in [
            (format!("{f}{m}{u}"), "fmu"),
            // Too many of one bus: all of it go elsewhere.
            (format!("{f}{f1}{u}"), "ffu"),
            (format!("{f}{f1}{f2}{u}{}", rule("f3", "b", "a")), "mmmuf"),
            // They meet on the virtual bus.
            (rule("f", "a", "v") + &rule("f2", "v", "b"), "ff"),
            (rule("f", "a", "v") + &rule("m", "v", "b"), "mm"),
            (rule("m", "a", "v") + &rule("f", "v", "b") + &u, "mmu"),
            (rule("f", "a", "v") + &rule("u", "v", "b") + &m, "uum"),
        ] {
            let planned = plan(&table(&rules), THREE, Choice::Auto).unwrap();
            let letters: String = planned.iter().map(|it| &it.plane.name[..1]).collect();
            assert_eq!(letters, expected, "{rules}");
            let fast = letters.matches('f').count() as u64;
            for planned in planned {
                let is_fast = *planned.plane == FAST;
                assert_eq!(planned.is_preferred, is_fast);
                assert_eq!(planned.most_steps, is_fast.then_some(10 * fast), "{rules}");
            }
        }
        let planned = plan(&table(&format!("{m}{f}")), THREE, Choice::Auto).unwrap();
        assert_eq!(planned[0].reason, "not a rule of f");
        assert_eq!(planned[1].reason, "the fast plane can run it");
        let meeting = rule("f", "a", "v") + &rule("m", "v", "b");
        let planned = plan(&table(&meeting), THREE, Choice::Auto).unwrap();
        assert!(planned[0].reason.ends_with("with \"m\", which runs in the middle plane"));
    }
}
