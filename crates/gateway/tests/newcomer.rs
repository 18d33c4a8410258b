//! A data plane of somebody else is one file, and one place in a list of planes: this file has both.

use std::sync::Mutex;

use candor_engine::Rule;
use candor_gateway::plan::Choice;
use candor_gateway::plane::{Kind, Plane, Report, RuleKey, Share, USER, keys_of};
use candor_gateway::{Config, Error, Gateway, Rules};

/// The list.
static PLANES: &[&Kind] = &[&OFFLOAD, &USER];

/// Takes rules whose names begin with `offload`.
static OFFLOAD: Kind = Kind {
    name: "offload",
    title: "the network card",
    help: "The network card runs the rules",
    obstacle: |_, rule: &Rule| {
        (!rule.name.starts_with("offload")).then(|| "the card does not know it".to_owned())
    },
    excess: |_| None,
    most_steps: |_| None,
    compiles: false,
    start: |_| Ok(Box::new(Card::default())),
};

/// What was asked of the card.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(line: impl Into<String>) {
    LOG.lock().unwrap().push(line.into());
}

/// A network card that runs no rule called `offload broken`.
#[derive(Default)]
struct Card {
    rules: Vec<RuleKey>,
    prepared: Option<Vec<RuleKey>>,
    retired: Vec<RuleKey>,
}

impl Plane for Card {
    fn prepare(&mut self, share: &Share<'_>) -> Result<(), Error> {
        let Share { table, rules, .. } = *share;
        let keys = keys_of(table, rules);
        log(format!("prepare {}", keys.len()));
        if keys.iter().any(|(rule, ..)| rule == "offload broken") {
            return Err(Error::Other("the card is full".into()));
        }
        self.prepared = Some(keys);
        Ok(())
    }

    fn commit(&mut self) {
        log("commit");
        let rules = self.prepared.take().unwrap();
        self.retired.extend(std::mem::replace(&mut self.rules, rules));
        self.retired.retain(|key| !self.rules.contains(key));
    }

    fn abandon(&mut self) {
        log("abandon");
        self.prepared = None;
    }

    fn tick(&mut self) {}

    fn heal(&mut self, _: &dyn Fn(&str) -> bool, changed: &str) {
        log(format!("heal {changed}"));
    }

    fn seen(&self, add: &mut dyn FnMut(&str, u64)) {
        for (_, from, _) in &self.rules {
            add(from, 7);
        }
    }

    fn report(&self, report: &mut Report) {
        for key in &self.rules {
            report.rule(key, &OFFLOAD, true).handled += 7;
        }
        for key in &self.retired {
            report.rule(key, &OFFLOAD, false).handled += 7;
        }
    }

    fn stop(&mut self) {
        log("stop");
    }
}

fn rules(names: &[&str]) -> Rules {
    let process = std::process::id();
    let rule = |name: &&str| format!("[[rule]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n");
    let rules: String = names.iter().map(rule).collect();
    let buses = format!("[bus]\na = \"sim:plane-a-{process}\"\nb = \"sim:plane-b-{process}\"\n");
    let (table, findings) = candor_rules::file::parse("t", &format!("{buses}{rules}"));
    Rules { table: table.unwrap_or_else(|| panic!("{findings}")), ..Rules::default() }
}

/// Each rule, its plane, whether it is in use, and what it has handled.
fn rules_of(gateway: &Gateway) -> Vec<(String, String, bool, u64)> {
    let rules = gateway.snapshot().rules.into_iter();
    rules.map(|rule| (rule.rule, rule.plane, rule.in_use, rule.handled)).collect()
}

fn line(rule: &str, plane: &str, in_use: bool, handled: u64) -> (String, String, bool, u64) {
    (rule.to_owned(), plane.to_owned(), in_use, handled)
}

#[test]
fn a_plane_of_somebody_else_gets_the_rules_that_it_can_run() {
    let config = Config { planes: PLANES, choice: Choice::Auto, ..Config::default() };
    // Nothing for it yet: it is not started.
    let mut gateway = Gateway::start(config, rules(&["plain"])).unwrap();
    assert!(LOG.lock().unwrap().is_empty());
    gateway.load(rules(&["plain", "offload one"])).unwrap();
    assert_eq!(
        rules_of(&gateway),
        [line("plain", "user", true, 0), line("offload one", "offload", true, 7)]
    );
    let reasons: Vec<_> = gateway.planned().iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["the card does not know it", "the network card can run it"]);
    // What it refuses changes nothing, also in the other plane.
    let error = gateway.load(rules(&["another", "offload broken"])).unwrap_err();
    assert_eq!(error.to_string(), "the card is full");
    assert_eq!(rules_of(&gateway)[0], line("plain", "user", true, 0));
    assert_eq!(gateway.snapshot().rejected.as_deref(), Some("the card is full"));
    // A rule that leaves it keeps what it counted.
    gateway.load(rules(&["plain"])).unwrap();
    assert_eq!(
        rules_of(&gateway),
        [line("plain", "user", true, 0), line("offload one", "offload", false, 7)]
    );
    gateway.heal(|_| false, "can0");
    drop(gateway);
    let log = LOG.lock().unwrap().join(", ");
    assert_eq!(log, "prepare 1, commit, prepare 1, prepare 0, commit, heal can0, stop");
}

#[test]
fn a_plane_that_shall_run_all_rules_says_which_it_cannot() {
    let choice = Choice::Only(&OFFLOAD);
    let config = Config { planes: PLANES, choice, ..Config::default() };
    let error = Gateway::start(config, rules(&["plain", "offload x"])).err().unwrap();
    let expected = "the network card cannot run rule \"plain\": the card does not know it";
    assert_eq!(error.to_string(), expected);
}
