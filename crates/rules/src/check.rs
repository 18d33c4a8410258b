//! [`check`]: what is wrong or suspicious about rules that can be read.
//!
//! Errors are rules that the kernel refuses or that cannot do anything; warnings are rules that
//! most likely do something else than was meant. The reasoning about identifiers is exact: two
//! rules overlap if there is a frame that both take, and a loop is reported with such a frame.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use candor_diagnostics::{Findings, Origin, counted};
use candor_wire::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};

use crate::pattern;
use crate::region::{Budget, Cube, Region, edited, rewritten, subtract};
use candor_engine::edit::{Operator, Range};
use candor_engine::extension::payload::Payload;
use candor_engine::extension::{Action, Conversion};
use candor_engine::table::List;
use candor_engine::{BusIndex, Filter, Gate, Rule, Table};

/// What a finding is about, to be turned into a place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The bus of that index.
    Bus(usize),
    /// The rule of that index, and the key that matters.
    Rule(usize, &'static str),
}

/// How many steps the search for overlaps, and that for loops, may take: some thousand rules of any
/// kind, and a second at most.
const BUDGET: usize = 20_000_000;

/// The most characters of the name of a rule or a bus: names are columns of tables and labels of
/// metrics.
pub const MOST_NAME_CHARACTERS: usize = 100;

/// How many identifiers all rules may remember together: some 30 MB.
const MOST_REMEMBERED: u32 = 1 << 18;

/// Adds everything that is wrong or suspicious about `table` to `findings`. `origin` tells where
/// things stand.
pub fn check(table: &Table, origin: &dyn Fn(Place) -> Origin, findings: &Findings) {
    let regions = table.rules.iter().map(Region::of).collect();
    let checker = Checker { table, regions, origin, findings };
    checker.buses();
    checker.names();
    for (index, rule) in table.rules.iter().enumerate() {
        let rule = Subject { index, rule, checker: &checker };
        rule.ways();
        rule.matching();
        rule.cut_filters();
        rule.operations();
        rule.checksums();
    }
    checker.handles();
    checker.memory();
    checker.overlaps();
    checker.loops();
}

struct Checker<'a> {
    table: &'a Table,
    /// What each rule takes.
    regions: Vec<Region>,
    origin: &'a dyn Fn(Place) -> Origin,
    findings: &'a Findings,
}

impl Checker<'_> {
    fn bus_name(&self, bus: BusIndex) -> &str {
        self.table.buses.get(usize::from(bus.0)).map_or("?", |bus| bus.name.as_str())
    }

    fn rule_name(&self, rule: usize) -> &str {
        self.table.rules.get(rule).map_or("?", |rule| rule.name.as_str())
    }

    fn warn(&self, place: Place, message: String, hint: impl Into<String>) {
        self.findings.warning(&(self.origin)(place), message, hint);
    }

    fn error(&self, place: Place, message: String, hint: impl Into<String>) {
        self.findings.error_with_hint(&(self.origin)(place), message, hint);
    }

    fn buses(&self) {
        if self.findings.has_errors() {
            return; // a rule that uses the bus may be among the unreadable ones
        }
        let rules = self.table.rules.iter();
        let used: BTreeSet<BusIndex> =
            rules.flat_map(|rule| rule.to.iter().copied().chain([rule.from])).collect();
        for (index, bus) in self.table.buses.iter().enumerate() {
            if !used.contains(&BusIndex(index as u16)) {
                let message = format!("no rule uses bus `{}`", bus.name);
                self.warn(Place::Bus(index), message, "remove it, or write a rule for it");
            }
        }
    }

    /// Names are shown in tables and as labels.
    fn names(&self) {
        let buses = self.table.buses.iter().enumerate();
        let buses = buses.map(|(index, bus)| (Place::Bus(index), "bus", bus.name.as_str()));
        let rules = self.table.rules.iter().enumerate();
        let rules =
            rules.map(|(index, rule)| (Place::Rule(index, "name"), "rule", rule.name.as_str()));
        for (place, what, name) in buses.chain(rules) {
            let count = name.chars().count();
            if count > MOST_NAME_CHARACTERS {
                let message = format!(
                    "the name of this {what} has {count} characters, more than {MOST_NAME_CHARACTERS}"
                );
                self.error(
                    place,
                    message,
                    "choose a short name: it is shown in tables and metrics",
                );
            }
        }
    }

    /// The handles by which the kernel swaps operations.
    fn handles(&self) {
        let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, rule) in self.table.rules.iter().enumerate().filter(|(_, rule)| rule.uid != 0) {
            let place = Place::Rule(index, "uid");
            if !rule.edit.modifies() {
                let message = "`uid` has no effect in a rule without an operation".to_string();
                self.warn(place, message, "remove it: a uid names the operations of a rule");
            }
            let owner = *owners.entry(rule.uid).or_insert(index);
            if owner != index {
                let name = self.rule_name(owner);
                let message = format!("uid 0x{:X} already belongs to {name:?}", rule.uid);
                let hint = "give each rule a different uid; the second rule would replace the operations \
                     of the first";
                self.error(place, message, hint);
            }
        }
    }

    /// What all rules remember takes memory.
    fn memory(&self) {
        let mut count = 0;
        for (index, rule) in self.table.rules.iter().enumerate() {
            count += u32::from(rule.remembered_ids());
            if count > MOST_REMEMBERED {
                let message =
                    format!("all rules together remember more than {MOST_REMEMBERED} identifiers");
                let hint = "a rule remembers 256 identifiers by default: set a smaller number \
                            with `ids`, or set `per = \"rule\"`";
                self.error(Place::Rule(index, "ids"), message, hint);
                return;
            }
        }
    }

    /// Rules that send the same frame to the same bus twice.
    fn overlaps(&self) {
        let mut budget = Budget(BUDGET);
        let mut seen = Seen::default();
        for (later, rule) in self.table.rules.iter().enumerate() {
            if budget.0 == 0 {
                break;
            }
            let Some(region) = self.regions.get(later) else { continue };
            let candidates = seen.candidates(later, region);
            seen.add(later, region);
            let found = candidates.into_iter().find_map(|earlier| {
                if !budget.take(1) {
                    return None;
                }
                let other = self.table.rules.get(earlier)?;
                let shared = rule.to.iter().find(|to| other.to.contains(to))?;
                let is_close = rule.from == other.from
                    && gates_meet(rule.gate, other.gate)
                    && !may_part(rule, other);
                let twice = is_close.then(|| self.same_frame(earlier, later, &mut budget))??;
                Some((earlier, *shared, twice))
            });
            if let Some((earlier, to, frame)) = found {
                let message = format!(
                    "{} goes to `{}` twice: by this rule and by {:?}",
                    show_frames(frame),
                    self.bus_name(to),
                    self.rule_name(earlier),
                );
                let hint = format!(
                    "every matching rule fires, not only the first; exclude the frame from one of \
                     them with {}, or remove one rule",
                    show_exclusion(frame)
                );
                self.warn(Place::Rule(later, "match"), message, hint);
            }
        }
        self.tell_exhausted(&budget, "overlapping rules");
    }

    /// A frame that both rules take and send on with the same identifier.
    fn same_frame(&self, a: usize, b: usize, budget: &mut Budget) -> Option<Cube> {
        let (rule_a, rule_b) = (self.table.rules.get(a)?, self.table.rules.get(b)?);
        let (region_a, region_b) = (self.regions.get(a)?, self.regions.get(b)?);
        let holes: Vec<_> = region_a.holes.iter().chain(&region_b.holes).copied().collect();
        for one in &region_a.taken {
            if !budget.take(region_b.taken.len()) {
                return None;
            }
            for met in region_b.taken.iter().filter_map(|other| one.meet(*other)) {
                let left = subtract([met].into(), &holes, budget)?;
                for cube in left {
                    let out_a = rewritten(rule_a, cube, budget)?;
                    let out_b = rewritten(rule_b, cube, budget)?;
                    if !budget.take(out_a.len() * out_b.len()) {
                        return None;
                    }
                    if out_a.iter().any(|a| out_b.iter().any(|b| a.meet(*b).is_some())) {
                        return Some(cube);
                    }
                }
            }
        }
        None
    }

    fn loops(&self) {
        let mut from: BTreeMap<BusIndex, Vec<usize>> = BTreeMap::new();
        for (index, rule) in self.table.rules.iter().enumerate() {
            from.entry(rule.from).or_default().push(index);
        }
        let mut search = LoopSearch {
            checker: self,
            from: &from,
            budget: Budget(BUDGET),
            reported: BTreeSet::new(),
        };
        for (&origin, rules) in &from {
            for &rule in rules {
                let taken = self.regions.get(rule).map_or(&[][..], |region| &region.taken);
                for &cube in taken {
                    search.follow(origin, &mut Vec::new(), rule, cube);
                }
            }
        }
        self.tell_exhausted(&search.budget, "loops");
    }

    fn tell_exhausted(&self, budget: &Budget, what: &str) {
        if budget.0 == 0 {
            let message = format!("there are too many rules to check for all {what}");
            self.warn(Place::Rule(0, "name"), message, "the rules may still be correct");
        }
    }
}

/// The rules seen so far, by what they take.
#[derive(Default)]
struct Seen {
    /// Those that take a single identifier, by it.
    single: BTreeMap<u32, Vec<usize>>,
    /// Those that take many.
    wide: Vec<usize>,
}

impl Seen {
    /// The single identifiers that a rule takes, and whether it takes many besides.
    fn parts(region: &Region) -> (BTreeSet<u32>, bool) {
        let single = |cube: &Cube| cube.known & (EFF_FLAG | EFF_MASK) == EFF_FLAG | EFF_MASK;
        let words = region.taken.iter().filter(|cube| single(cube));
        let words = words.map(|cube| cube.value & !RTR_FLAG).collect();
        (words, !region.taken.iter().all(single))
    }

    /// The rules before `later` that may take a frame of `region`, in their order.
    fn candidates(&self, later: usize, region: &Region) -> Vec<usize> {
        let (words, is_wide) = Self::parts(region);
        if is_wide {
            return (0..later).collect();
        }
        let sharing = words.iter().filter_map(|word| self.single.get(word)).flatten();
        let all: BTreeSet<usize> = sharing.chain(&self.wide).copied().collect();
        all.into_iter().collect()
    }

    fn add(&mut self, rule: usize, region: &Region) {
        let (words, is_wide) = Self::parts(region);
        for word in words {
            self.single.entry(word).or_default().push(rule);
        }
        if is_wide {
            self.wide.push(rule);
        }
    }
}

/// Follows frames that come back to the gateway.
struct LoopSearch<'a> {
    checker: &'a Checker<'a>,
    from: &'a BTreeMap<BusIndex, Vec<usize>>,
    budget: Budget,
    /// The first rules of the loops already told; one loop each is enough.
    reported: BTreeSet<usize>,
}

/// A longer chain of rules is not followed; the hop limit ends it long before.
const LONGEST_CHAIN: usize = 16;

impl LoopSearch<'_> {
    /// Frames of `cube`, which first came in on `origin` and went through the rules of `path`, now
    /// meet `rule`.
    fn follow(&mut self, origin: BusIndex, path: &mut Vec<usize>, rule: usize, cube: Cube) {
        let checker = self.checker;
        let (Some(current), Some(region)) =
            (checker.table.rules.get(rule), checker.regions.get(rule))
        else {
            return;
        };
        if !self.budget.take(region.taken.len() + region.holes.len() + 1) {
            return;
        }
        let Some(taken) = region.part_in(cube, &mut self.budget) else { return };
        if let Some(start) = path.iter().position(|&earlier| earlier == rule) {
            self.tell(path.get(start..).unwrap_or(&[]), taken);
            return;
        }
        if path.len() == LONGEST_CHAIN {
            return;
        }
        path.push(rule);
        let out = rewritten(current, taken, &mut self.budget).unwrap_or_default();
        for &to in &current.to {
            let is_blocked = to == origin && !current.allow_return;
            if is_blocked || !self.comes_back(current, to) {
                continue;
            }
            for &next in self.from.get(&to).map_or(&[][..], Vec::as_slice) {
                let gate = |rule: usize| checker.table.rules.get(rule).map(|rule| rule.gate);
                let fits = |earlier: &usize| match (gate(*earlier), gate(next)) {
                    (Some(a), Some(b)) => gates_meet(a, b),
                    _ => false,
                };
                if path.iter().all(fits) {
                    for &cube in &out {
                        self.follow(origin, path, next, cube);
                    }
                }
            }
        }
        path.pop();
    }

    /// Whether the gateway sees a frame again that `rule` sends to `to`.
    fn comes_back(&self, rule: &Rule, to: BusIndex) -> bool {
        let bus = self.checker.table.buses.get(usize::from(to.0));
        rule.echo || bus.is_some_and(|bus| bus.is_virtual)
    }

    fn tell(&mut self, circle: &[usize], cube: Cube) {
        let checker = self.checker;
        let (at, start) =
            circle.iter().copied().enumerate().min_by_key(|&(_, rule)| rule).unwrap_or((0, 0));
        if !self.reported.insert(start) {
            return;
        }
        let rules = circle.iter().cycle().skip(at).take(circle.len() + 1);
        let names: Vec<_> = rules.map(|&rule| format!("{:?}", checker.rule_name(rule))).collect();
        let max_hops = checker.table.effective_max_hops();
        let passes = counted(max_hops, "pass");
        let message = format!(
            "{} runs in a loop, {}, until max_hops stops it after {passes}",
            show_frames(cube),
            names.join(" -> "),
        );
        let hint = "a frame that is sent with echo or to a virtual bus comes back to the gateway; \
                    exclude it from one of the rules";
        checker.warn(Place::Rule(start, "to"), message, hint);
    }
}

/// Whether a frame can pass both gates.
fn gates_meet(a: Gate, b: Gate) -> bool {
    a == b || a == Gate::Any || b == Gate::Any
}

/// Whether the rules may take different frames of the same identifier, or make different frames of
/// one in a way that identifiers do not tell.
fn may_part(a: &Rule, b: &Rule) -> bool {
    let is_choosy = |rule: &Rule| rule.extension.payload != Payload::default();
    let changes_kind = |rule: &Rule| rule.extension.convert.map(Conversion::is_fd);
    is_choosy(a) || is_choosy(b) || changes_kind(a) != changes_kind(b)
}

/// One rule under examination.
struct Subject<'a> {
    index: usize,
    rule: &'a Rule,
    checker: &'a Checker<'a>,
}

impl Subject<'_> {
    fn at(&self, key: &'static str) -> Place {
        Place::Rule(self.index, key)
    }

    /// Where copies go and how often.
    fn ways(&self) {
        let Self { rule, checker, .. } = self;
        if rule.to.contains(&rule.from) && !rule.allow_return {
            let message = format!(
                "`{}` is source and destination, but a frame is not sent back to the bus that it \
                 came from",
                checker.bus_name(rule.from)
            );
            let hint = "name another destination; or use `allow_return = true` to send frames \
                        back to the bus that they came from";
            checker.error(self.at("to"), message, hint);
        }
        for (at, &to) in rule.to.iter().enumerate() {
            let name = checker.bus_name(to);
            if rule.to.iter().take(at).any(|&earlier| earlier == to) {
                let message = format!("`{name}` is listed twice and gets each frame twice");
                checker.warn(self.at("to"), message, "list each bus only once");
            }
            let bus = checker.table.buses.get(usize::from(to.0));
            if bus.is_some_and(|bus| bus.is_virtual) && !rule.echo {
                let message =
                    format!("virtual bus `{name}` discards frames that are sent without echo");
                checker.warn(self.at("to"), message, "add `echo = true`");
            }
        }
        let max_hops = checker.table.effective_max_hops();
        if let Some(hops) = rule.limit_hops.filter(|&hops| hops == 0 || hops > max_hops) {
            let message = format!("limit_hops is {hops}, but max_hops is {max_hops}");
            let hint =
                format!("raise max_hops to {hops}; on Linux: modprobe can-gw max_hops={hops}");
            checker.error(self.at("limit_hops"), message, hint);
        }
    }

    fn matching(&self) {
        let Self { rule, checker, index } = self;
        let takes_all = rule.filters.is_empty() && rule.except.is_empty();
        if checker.table.refuses_others && takes_all && rule.extension.payload == Payload::default()
        {
            let message = "this rule allows every frame of its bus".to_string();
            let hint = "with default = \"refuse\", rules list what is allowed: add `match` to say \
                        which frames";
            checker.warn(self.at("match"), message, hint);
        }
        let takes_errors = rule.gate != Gate::Fd
            && rule
                .filters
                .iter()
                .any(|filter| filter.list() == List::Error && filter.mask & EFF_MASK != 0);
        let mut budget = Budget(100_000);
        let is_empty =
            checker.regions.get(*index).is_some_and(|region| region.is_empty(&mut budget));
        if is_empty && !takes_errors {
            let hint = if !rule.except.is_empty() {
                "the exclusions cover everything that the other patterns take"
            } else if rule.gate == Gate::Fd {
                "CAN FD has no remote frames and no error reports"
            } else {
                "an error report needs at least one class bit in its mask"
            };
            checker.warn(self.at("match"), "this rule can never match".to_string(), hint);
        }
    }

    /// Filters that ask for a standard identifier of more than 11 bits, which no pattern in words
    /// does.
    fn cut_filters(&self) {
        let Self { rule, checker, .. } = self;
        let is_cut = |filter: &&Filter| {
            filter.mask & ERR_FLAG == 0
                && filter.mask & EFF_FLAG != 0
                && filter.can_id & EFF_FLAG == 0
                && filter.can_id & filter.mask & EFF_MASK & !SFF_MASK != 0
        };
        if let Some(filter) = rule.filters.iter().chain(&rule.except).find(is_cut) {
            let shown = pattern::show_raw(*filter);
            let cut = pattern::show(filter.normalized());
            let message = format!("`{shown}` lacks the flag of extended identifiers and is {cut}");
            let extended = Filter { can_id: filter.can_id | EFF_FLAG, ..*filter };
            let hint = format!("for an extended identifier, write {}", pattern::show_raw(extended));
            checker.warn(self.at("match"), message, hint);
        }
    }

    fn operations(&self) {
        let Self { rule, checker, .. } = self;
        self.steps();
        let set = &rule.edit.set;
        for operator in [Operator::And, Operator::Or, Operator::Xor] {
            let operands = rule.edit.operands(operator);
            for (field, is_replaced) in [
                ("id", operands.can_id.is_some() && set.can_id.is_some()),
                ("length", operands.len.is_some() && set.len.is_some()),
                ("flags", operands.flags.is_some() && set.flags.is_some()),
                ("data", operands.data.is_some() && set.data.is_some()),
            ] {
                if is_replaced {
                    let name = operator.name();
                    let message = format!("`{name}` on {field} has no effect, `set` replaces it");
                    let hint = "the operations always run in the order and, or, xor, set";
                    checker.warn(self.at(name), message, hint);
                }
            }
        }
        let longest = if rule.gate == Gate::Fd { 64 } else { 15 };
        if let Some(len) = set.len.filter(|&len| len > longest) {
            let message = format!("length {len} is more than {longest}, so every frame is deleted");
            let hint = "classical frames have up to 8 bytes (raw DLC 9 to 15), CAN FD frames up \
                        to 64";
            checker.warn(self.at("set"), message, hint);
        }
        self.lost_flag();
    }

    /// Steps that count frames or protect them, of rules for more than one identifier.
    fn steps(&self) {
        let Self { rule, checker, .. } = self;
        let protects = |action: &&Action| matches!(action, Action::E2e(_));
        let Some(protects) = rule.extension.actions.iter().position(|action| protects(&action))
        else {
            return;
        };
        let after = rule.extension.actions.get(protects + 1..).unwrap_or_default();
        let writes = |action: &&Action| {
            !matches!(action, Action::Remap(_) | Action::E2e(_))
                && !matches!(action, Action::Operate(_, it) if it.data.is_none() && it.len.is_none())
        };
        if let Some(action) = after.iter().find(writes) {
            let message = format!("`{}` after `e2e` makes the checksum wrong", action.key());
            let hint = "make `e2e` the last step";
            checker.warn(self.at("edit"), message, hint);
        }
    }

    /// AND with a plain identifier also clears the flag that makes an identifier extended.
    fn lost_flag(&self) {
        let Self { rule, checker, index } = self;
        let Some(operand) = rule.edit.and.can_id.filter(|operand| operand & EFF_FLAG == 0) else {
            return;
        };
        let extended = Cube { value: EFF_FLAG, known: EFF_FLAG };
        let region = checker.regions.get(*index);
        let Some(taken) = region.and_then(|region| region.part_in(extended, &mut Budget(100_000)))
        else {
            return;
        };
        let after = edited(&rule.edit, taken);
        if after.known & EFF_FLAG == 0
            || after.value & EFF_FLAG != 0
            || rule.edit.set.can_id.is_some()
        {
            return;
        }
        let message = format!(
            "`and` also clears the flag of extended identifiers, so {} becomes {}",
            show_word(taken.example()),
            show_word(after.example()),
        );
        let hint = format!(
            "write \"0x{:X}x\" to keep them extended, or match standard identifiers only",
            operand & EFF_MASK
        );
        checker.warn(self.at("and"), message, hint);
    }

    fn checksums(&self) {
        let Self { rule, checker, .. } = self;
        let ranges: [(&str, Option<Range>); 2] = [
            ("crc8", rule.edit.crc8.as_ref().map(|crc8| crc8.range)),
            ("xor_checksum", rule.edit.xor_checksum.as_ref().map(|sum| sum.range)),
        ];
        for (key, range) in ranges {
            let Some(range) = range else { continue };
            if !rule.edit.modifies() {
                let message = format!("`{key}` has no effect in a rule without an operation");
                checker.error(
                    self.at(key),
                    message,
                    "add an operation; `or = { id = \"0x0\" }` changes nothing",
                );
            }
            let Some(len) = rule.edit.set.len else { continue };
            let is_before = |index: i8| index < 0 && i16::from(index) + i16::from(len.min(64)) < 0;
            if [range.from, range.to, range.result].into_iter().any(is_before) {
                let message = format!(
                    "`{key}` is never computed: with {}, one of its indices is before the first \
                     byte",
                    counted(len, "byte")
                );
                checker.warn(self.at(key), message, "count from the start: 0 is the first byte");
            }
        }
    }
}

/// An identifier word for messages.
fn show_word(word: u32) -> String {
    let remote = if word & RTR_FLAG != 0 { "remote " } else { "" };
    let id = pattern::show_identifier(word & !RTR_FLAG);
    format!("{remote}{}", id.unwrap_or_else(|| format!("{word:08X}")))
}

/// `frame 0x123`, or one of many.
fn show_frames(cube: Cube) -> String {
    let width = if cube.value & EFF_FLAG == 0 { SFF_MASK } else { EFF_MASK };
    let is_one = cube.known & width == width;
    let such = if is_one { "frame" } else { "a frame such as" };
    format!("{such} {}", show_word(cube.example()))
}

/// The pattern that excludes a cube.
fn show_exclusion(cube: Cube) -> String {
    format!("\"!{}\"", pattern::show(cube.filter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings about rules between two real and two virtual buses, without excerpts.
    fn messages(rules: &str) -> Vec<String> {
        let buses = "[bus]\na = \"can0\"\nb = \"can1\"\nv = \"vcan0\"\nw = \"vcan1\"\n";
        let (_, findings) = crate::file::parse("t", &format!("{buses}{rules}"));
        let messages = findings.sorted().into_iter().map(|finding| finding.message);
        messages.filter(|message| !message.starts_with("no rule uses bus")).collect()
    }

    /// A rule on one line: `from to rest`.
    fn rule(text: &str) -> String {
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().unwrap_or("").to_string();
        let (from, to, rest) = (word(), word(), word());
        let rest = rest.replace("; ", "\n");
        format!("[[rule]]\nfrom = \"{from}\"\nto = \"{to}\"\n{rest}\n")
    }

    #[test]
    fn loops_are_reported_if_a_frame_can_run_in_them() {
        let circle = "a frame such as 0x000 runs in a loop, \"rule 1\" -> \"rule 2\" -> \"rule \
                      1\", until max_hops stops it after 1 pass";
        for (rules, expected) in [
            // Back to where it came in only if allowed.
            (&["v w echo = true", "w v echo = true"][..], None),
            // One rule that allows it is enough for what comes in at its end.
            (&["v w echo = true; allow_return = true", "w v echo = true"], Some(circle)),
            // What comes from a third bus may go back and forth.
            (&["v w echo = true", "w v echo = true", "a v echo = true"], Some(circle)),
            // Frames sent on a real bus come back only with echo.
            (&["a b", "b a", "w a"], None),
            (&["a b echo = true", "b a echo = true", "w a echo = true"], Some(circle)),
            // Identifiers, kinds and edits decide.
            (
                &[
                    "v w echo = true; match = [1]",
                    "w v echo = true; match = [2]",
                    "a v echo = true",
                ],
                None,
            ),
            (
                &[
                    "v w echo = true; match = [1]; set = { id = 2 }",
                    "w v echo = true; match = [2]; set = { id = 1 }",
                    "a v echo = true",
                ],
                Some("frame 0x001 runs in a loop"),
            ),
            (&["v w echo = true", "w v echo = true; frames = \"fd\"", "a v echo = true"], None),
        ] {
            let rules: String = rules.iter().map(|text| rule(text)).collect();
            let found = messages(&rules);
            match expected {
                None => assert!(found.is_empty(), "{rules}\n{found:?}"),
                Some(expected) => {
                    assert_eq!(found.len(), 1, "{rules}\n{found:?}");
                    assert!(found[0].starts_with(expected), "{found:?}");
                }
            }
        }
    }

    #[test]
    fn overlaps_are_reported_if_a_frame_goes_out_twice() {
        for (rules, is_reported) in [
            (["a b match = [1]", "a b match = [1]"], true),
            (["a b", "a b match = [1]"], true),
            (["a b", "a b frames = \"any\"; match = [1]"], true),
            (["a b match = [1]", "a b match = [2]"], false),
            (["a b match = [1]", "b a match = [1]"], false),
            (["a b match = [1]", "a b match = [\"remote 0x1\"]"], false),
            (["a b match = [1]", "a b match = [1]; frames = \"fd\""], false),
            (["a b match = [\"0x0-0x7\", \"!0x1\"]", "a b match = [1]"], false),
            // Under another identifier it is another frame.
            (["a b match = [1]", "a b match = [1]; set = { id = 3 }"], false),
            (["a b match = [1]", "a b match = [1]; set = { length = 3 }"], true),
            // So it is with other data or another format.
            (["a b match = [1]; data = \"11\"", "a b match = [1]"], false),
            (["a b match = [1]", "a b match = [1]; data = \"11\""], false),
            (["a b match = [1]; convert = \"fd\"", "a b match = [1]"], false),
            (["a b match = [1]; convert = \"fd\"", "a b match = [1]; convert = \"fd\""], true),
        ] {
            let [first, second] = rules.map(rule);
            let found = messages(&format!("{first}{second}"));
            assert_eq!(found.len(), usize::from(is_reported), "{rules:?} {found:?}");
            assert!(found.iter().all(|message| message.ends_with("by \"rule 1\"")), "{found:?}");
        }
    }

    #[test]
    fn a_frame_that_goes_out_twice_is_one_or_one_of_many() {
        for (id, frames) in [
            ("[1]", "frame 0x001 goes to `b` twice"),
            ("[\"0x10-0x13\"]", "a frame such as 0x010 goes to `b` twice"),
            ("[\"0x5x\"]", "frame 0x5x goes to `b` twice"),
            ("[\"000:40000000\"]", "a frame such as 0x000 goes to `b` twice"),
        ] {
            let twice = rule(&format!("a b match = {id}"));
            let found = messages(&format!("{twice}{twice}"));
            assert!(found.len() == 1 && found[0].starts_with(frames), "{found:?}");
        }
    }

    #[test]
    fn a_lost_flag_is_reported_unless_it_is_set_again() {
        for (edit, is_reported) in [
            ("and = { id = 0x7F }", true),
            ("and = { id = 0x7F }; xor = { id = 1 }", true),
            ("and = { id = \"0x7Fx\" }", false),
            ("and = { id = 0x7F }; or = { id = \"0x100x\" }", false),
            ("and = { id = 0x7F }; xor = { id = \"0x100x\" }", false),
        ] {
            let found = messages(&rule(&format!("a b match = [\"0x18FEF100x\"]; {edit}")));
            let is_lost = |message: &String| message.contains("clears the flag of extended");
            assert_eq!(found.iter().any(is_lost), is_reported, "{edit}: {found:?}");
            // Standard identifiers have no such flag.
            let found = messages(&rule(&format!("a b match = [0x123]; {edit}")));
            assert!(!found.iter().any(is_lost), "{edit}: {found:?}");
        }
        // An identifier that replaces it says what it is.
        let found = messages(&rule(
            "a b match = [\"0x18FEF100x\"]; and = { id = 0x7F }; set = { id = 0x123 }",
        ));
        assert!(!found.iter().any(|message| message.contains("clears the flag")), "{found:?}");
    }

    #[test]
    fn rules_may_remember_as_much_as_the_limit_says() {
        let many = rule("a b every = 2; ids = 32767").repeat(8);
        for (ids, is_refused) in [(8, false), (9, true)] {
            let found =
                messages(&format!("{many}{}", rule(&format!("a b every = 2; ids = {ids}"))));
            let is_refusal = |message: &String| message.contains("remember more than 262144");
            assert_eq!(found.iter().any(is_refusal), is_refused, "{ids}: {found:?}");
        }
    }

    #[test]
    fn filters_that_do_not_do_what_they_seem_to_are_reported() {
        for (rest, expected) in [
            ("match = [\"12345:1FFFFFFF\"]", None),
            ("match = [\"12345:9FFFFFFF\"]", Some("`12345:9FFFFFFF` lacks the flag of extended")),
            ("match = [\"000:20000000\"]", Some("this rule can never match")),
            ("match = [\"000:20000004\"]", None),
            (
                "match = [1]; set = { length = 2 }; xor_checksum = { from = -2, to = 1, into = 1 }",
                None,
            ),
            (
                "match = [1]; set = { length = 2 }; xor_checksum = { from = -3, to = 1, into = 1 }",
                Some(
                    "`xor_checksum` is never computed: with 2 bytes, one of its indices is before",
                ),
            ),
        ] {
            let found = messages(&rule(&format!("a b {rest}")));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{rest}: {found:?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)));
        }
    }

    #[test]
    fn many_single_identifiers_are_no_trouble() {
        let mut many: String =
            (0..8_000).map(|id| rule(&format!("a b match = \"0x{id:X}x\""))).collect();
        assert_eq!(messages(&many), [""; 0]);
        many += &rule("a b match = [\"0x1F00x\"]");
        assert_eq!(
            messages(&many),
            ["frame 0x1F00x goes to `b` twice: by this rule and by \"rule 7937\""]
        );
    }

    #[test]
    fn a_search_that_takes_too_long_is_given_up_and_reported() {
        let many: String = (0..8_000)
            .map(|id| rule(&format!("a b match = \"0x{:X}x/0x1FFFFFFC\"", id * 4)))
            .collect();
        assert_eq!(
            messages(&many),
            ["there are too many rules to check for all overlapping rules"]
        );
    }

    #[test]
    fn a_rule_for_both_kinds_overlaps_one_for_remote_frames() {
        for rules in [
            ["a b match = [\"any 0x1\"]", "a b match = [\"remote 0x1\"]"],
            ["a b match = [\"remote 0x1\"]", "a b match = [\"any 0x1\"]"],
        ] {
            let found = messages(&rules.map(rule).concat());
            assert_eq!(found.len(), 1, "{rules:?} {found:?}");
            assert!(found[0].starts_with("frame remote 0x001 goes to `b` twice"), "{found:?}");
        }
    }

    #[test]
    fn an_extended_identifier_is_one_with_all_its_bits() {
        for (id, frames) in [
            ("0x1F00x/0x7FF", "a frame such as 0x700x goes to `b` twice"),
            ("0x1F00x/0x1FFFFFFF", "frame 0x1F00x goes to `b` twice"),
        ] {
            let twice = rule(&format!("a b match = [\"{id}\"]"));
            let found = messages(&format!("{twice}{twice}"));
            assert!(found.len() == 1 && found[0].starts_with(frames), "{found:?}");
        }
    }
}
