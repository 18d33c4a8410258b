//! Reading what `cangw -L` prints, and scripts of `cangw` commands.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range as Span;
use std::sync::Arc;

use candor_diagnostics::{Findings, Origin, Source};

use super::arguments::{crc8, modification, profile, xor_checksum};
use super::getopt::Getopt;
use super::shell::{Place as ShellPlace, ScriptNeeds, ShellLine, Why, lines};
use super::words::{MODPROBE, Word, is_counters, is_program, shorten};
use crate::check::{Place, check};
use crate::file::{INTERFACE_LEN, index_range, is_virtual_by_name};
use crate::pattern;
use candor_engine::edit::{Crc8Profile, Edit};
use candor_engine::table::HOPS_LIMIT;
use candor_engine::{Bus, BusIndex, Filter, Gate, Rule, Table};

/// The longest text that is read, as for rule files.
const MAX_BYTES: usize = candor_config::MAX_BYTES;

/// Reads what `cangw -L` prints, or a script of `cangw` commands, and checks the rules. `name` is
/// what the text is called in findings.
///
/// There is a table only if there are no errors. Buses are named like their interfaces, rules
/// `rule 1`, `rule 2` in the order in which they fire.
#[must_use]
pub fn import(name: &str, text: &str) -> (Option<Table>, Findings) {
    let findings = Findings::new();
    let source = Source::new(name, text);
    if text.len() > MAX_BYTES {
        let message =
            format!("the text has {} bytes, but at most {MAX_BYTES} are read", text.len());
        findings.error(&Origin::whole(&source), message);
        return (None, findings);
    }
    let mut importer = Importer {
        source: &source,
        findings: &findings,
        table: Table::default(),
        buses: BTreeMap::new(),
        uids: BTreeMap::new(),
        is_listing: false,
        needs: ScriptNeeds::of(text),
    };
    for line in lines(text).take_while(|_| !findings.is_full()) {
        importer.line(&line);
    }
    let table = importer.finish();
    let origin = |place: Place| match place {
        Place::Rule(index, _) => table.rules.get(index).map_or_else(
            || Origin::whole(&source),
            |rule| Origin::at(&source, rule.position.0, rule.position.1),
        ),
        Place::Bus(_) => Origin::whole(&source),
    };
    check(&table, &[], &origin, &findings);
    (Some(table).filter(|_| !findings.has_errors()), findings)
}

struct Importer<'a> {
    source: &'a Arc<Source>,
    findings: &'a Findings,
    table: Table,
    /// The buses by interface.
    buses: BTreeMap<String, BusIndex>,
    /// The rules by the handle that they have.
    uids: BTreeMap<u32, usize>,
    is_listing: bool,
    needs: ScriptNeeds,
}

/// What to do with a script in which a shell decides which commands there are. What the script does with the output of
/// a command changes nothing about what is printed.
const BY_SHELL: &str = "let the shell print the commands, which also runs the others of the script: (echo 'exec 3>&1 >&2; cangw() { echo cangw \
                        \"$@\" >&3; }'; cat FILE) | sh | candor route convert -";

/// The same where the script calls the program in ways that no function takes the place of.
const BY_SHELL_AS_FUNCTION: &str =
    "write plain `cangw` everywhere, without its path, sudo or exec, and ";

impl Importer<'_> {
    fn error(&self, span: Span<usize>, message: impl Into<String>, hint: &str) {
        self.findings.error_with_hint(&Origin::new(self.source, span), message, hint);
    }

    /// The way out where a shell decides.
    fn by_shell(&self) -> String {
        let first = if self.needs.program { BY_SHELL_AS_FUNCTION } else { "" };
        let shell = if self.needs.bash { "| bash |" } else { "| sh |" };
        format!("{first}{}", BY_SHELL.replace("| sh |", shell))
    }

    fn shell_place(&self, place: &ShellPlace) {
        let message = place.message(self.source.text());
        match place.why {
            Why::Unclosed => {
                let hint = "write the quote a second time where the text ends";
                self.error(place.span.clone(), message, hint);
            }
            _ => self.error(place.span.clone(), message, &self.by_shell()),
        }
    }

    fn line(&mut self, line: &ShellLine<'_>) {
        self.is_listing |= is_counters(line.comment);
        if let Some(hops) = line.comment.trim().strip_prefix(MODPROBE) {
            self.max_hops(hops, line.span.clone());
        }
        let sudos = line.words.iter().take_while(|word| word.text == "sudo").count();
        let words = line.words.get(sudos..).unwrap_or(&[]);
        let texts: Vec<_> = words.iter().take(3).map(|word| word.text).collect();
        let is_all = |count| words.len() == count || line.place.is_some();
        let hops = match texts[..] {
            ["modprobe", "can-gw", option] if is_all(3) => option.strip_prefix("max_hops="),
            _ => None,
        };
        let is_setting =
            matches!(texts[..], ["set", option, ..] if option.starts_with('-') && is_all(2));
        match (words.split_first(), &line.place) {
            (None, None) => {}
            (None, Some(place)) => self.shell_place(place),
            (Some((program, arguments)), place)
                if is_program(program.text) || is_setting || hops.is_some() =>
            {
                match (place, hops) {
                    (Some(place), _) => self.shell_place(place),
                    (None, Some(hops)) => self.max_hops(hops, line.span.clone()),
                    (None, None) if is_setting => {}
                    (None, None) => self.command(program, arguments),
                }
            }
            (Some((other, _)), _) => {
                let message = format!("`{}` is not a cangw command", shorten(other.text));
                let hint = match self.needs.shell || words.iter().any(|it| is_program(it.text)) {
                    true => self.by_shell(),
                    false => "write one command per line, such as: cangw -A -s can0 -d can1".into(),
                };
                self.error(other.span.clone(), message, &hint);
            }
        }
    }

    fn max_hops(&mut self, hops: &str, span: Span<usize>) {
        match hops.parse() {
            Ok(hops @ 1..=HOPS_LIMIT) => self.table.max_hops = hops,
            _ => self.error(span, "max_hops is 1 to 6", "such as max_hops=2"),
        }
    }

    fn command(&mut self, program: &Word<'_>, arguments: &[Word<'_>]) {
        let errors = self.findings.count(candor_diagnostics::Severity::Error);
        let mut options = Options::default();
        for option in Getopt::new(arguments) {
            match option {
                Ok((option, argument)) => self.option(&mut options, option, &argument),
                Err((span, message)) => {
                    self.error(span, message, "run cangw without arguments to see its usage");
                }
            }
        }
        if self.findings.count(candor_diagnostics::Severity::Error) > errors {
            return;
        }
        match options.command {
            Some('A') => self.add(program, options),
            Some('F') => {
                self.table.rules.clear();
                self.uids.clear();
            }
            Some('L') => {}
            Some(_) => {
                let hint = "remove the rule instead";
                self.error(
                    program.span.clone(),
                    "-D deletes a rule and is not supported here",
                    hint,
                );
            }
            None => {
                self.error(program.span.clone(), "-A, -F or -L is missing", "-A adds a rule");
            }
        }
    }

    fn option(&mut self, options: &mut Options, option: char, argument: &Word<'_>) {
        let text = argument.text;
        let wrong = match option {
            'A' | 'D' | 'F' | 'L' => {
                options.command.get_or_insert(option);
                None
            }
            's' | 'd' => {
                let bus = self.bus(argument);
                *(if option == 's' { &mut options.from } else { &mut options.to }) = Some(bus);
                None
            }
            'X' | 't' | 'e' | 'i' => {
                options.flags.push(option);
                None
            }
            'u' => set(&mut options.uid, pattern::hex(text, 8), "a hex number of up to 8 digits"),
            'l' => {
                let hops = text.parse().ok().filter(|hops| (1..=HOPS_LIMIT).contains(hops));
                set(&mut options.limit_hops, hops, "a number of hops, 1 to 6")
            }
            'f' => {
                let at = text.find([':', '~']);
                let filter = at.and_then(|at| pattern::raw(text, at));
                set(&mut options.filter, filter, "a filter such as 123:C00007FF or 123~7FF")
            }
            'm' | 'M' => {
                options.modifications.push((option, argument.span.clone()));
                match modification(text, option == 'M') {
                    Some((operator, operands)) => {
                        *options.edit.operands_mut(operator) = operands;
                        None
                    }
                    None if option == 'm' => Some("such as SET:IL:333.4.1122334455667788"),
                    None => Some("such as SET:IF:333.1.8. and 128 hex digits"),
                }
            }
            'x' => {
                options.checksums.push(argument.span.clone());
                let checksum = xor_checksum(text);
                set(
                    &mut options.edit.xor_checksum,
                    checksum,
                    "from:to:result:init, such as 0:-2:-1:00",
                )
            }
            'c' => {
                options.checksums.push(argument.span.clone());
                let form = "from:to:result:init:xor: and 512 hex digits of the table";
                set(&mut options.edit.crc8, crc8(text), form)
            }
            _ => set(&mut options.profile, profile(text), "1:XX, 2: and 32 hex digits, or 3"),
        };
        if let Some(form) = wrong {
            let message = format!("`{}` is not a valid argument of -{option}", shorten(text));
            self.error(argument.span.clone(), message, form);
        }
    }

    /// The bus of an interface, made when first met.
    fn bus(&mut self, interface: &Word<'_>) -> BusIndex {
        let name = interface.text;
        if let Some(&bus) = self.buses.get(name) {
            return bus;
        }
        // As the kernel has it (`dev_valid_name`, `net/core/dev.c`).
        let is_name = (1..=INTERFACE_LEN).contains(&name.len())
            && !name.contains(['/', ':'])
            && !name.contains(char::is_whitespace)
            && !matches!(name, "." | "..");
        if !is_name || self.table.buses.len() > 0xFFFF {
            let (problem, hint) = if is_name {
                ("is one interface too many", "there can be 65,536")
            } else {
                ("is not an interface name", "a name has at most 15 characters, no `/` and no `:`")
            };
            let message = format!("`{}` {problem}", shorten(name));
            self.error(interface.span.clone(), message, hint);
            return BusIndex(0);
        }
        self.table.buses.push(Bus {
            name: name.to_owned(),
            port: name.to_owned(),
            is_virtual: is_virtual_by_name(name),
        });
        let bus = BusIndex((self.table.buses.len() - 1) as u16);
        self.buses.insert(name.to_owned(), bus);
        bus
    }

    fn add(&mut self, program: &Word<'_>, options: Options) {
        let is_fd = options.flags.contains(&'X');
        let (Some(from), Some(to)) = (options.from, options.to) else {
            self.error(program.span.clone(), "-s and -d are required", "-s can0 -d can1");
            return;
        };
        let foreign = |(option, _): &&(char, Span<usize>)| (*option == 'M') != is_fd;
        if let Some((option, span)) = options.modifications.iter().find(foreign) {
            let message = format!("-{option} is not possible in this kind of rule");
            self.error(span.clone(), message, "-m is for classical rules, -M for those with -X");
            return;
        }
        if let (Some(span), []) = (options.checksums.first(), &options.modifications[..]) {
            let message = "-c or -x can only be used together with -m or -M";
            self.error(span.clone(), message, "add -m OR:I:0.0.0000000000000000");
            return;
        }
        let mut edit = options.edit;
        if let (Some(crc8), Some(profile)) = (&mut edit.crc8, options.profile) {
            crc8.profile = profile;
        }
        let gate = if is_fd { Gate::Fd } else { Gate::Classical };
        let indices = edit.crc8.iter().map(|crc8| crc8.range);
        let indices = indices.chain(edit.xor_checksum.iter().map(|checksum| checksum.range));
        for (range, span) in indices.zip(&options.checksums) {
            let inside = |index: i8| index_range(gate).contains(&index);
            if ![range.from, range.to, range.result].into_iter().all(inside) {
                let (low, high) = index_range(gate).into_inner();
                let message = format!("the indices of a checksum are {low} to {high} here");
                self.error(span.clone(), message, "negative ones count from the end");
                return;
            }
        }
        let rule = Rule {
            position: Origin::new(self.source, program.span.clone()).line_column(),
            gate,
            filters: options.filter.filter(|&filter| filter != Filter::ANY).into_iter().collect(),
            edit,
            echo: options.flags.contains(&'e'),
            keep_timestamp: options.flags.contains(&'t'),
            allow_return: options.flags.contains(&'i'),
            limit_hops: options.limit_hops,
            uid: options.uid.unwrap_or(0),
            ..Rule::new("", from, to)
        };
        let owner = self.uids.get(&rule.uid).and_then(|&owner| self.table.rules.get_mut(owner));
        match owner {
            None => {
                if rule.uid != 0 {
                    self.uids.insert(rule.uid, self.table.rules.len());
                }
                self.table.rules.push(rule);
            }
            // The kernel swaps the operations of the rule that has the handle.
            Some(old)
                if (old.from, &old.to, &old.filters) == (rule.from, &rule.to, &rule.filters) =>
            {
                old.edit = rule.edit;
            }
            Some(_) => {
                let message = "a rule with another filter or other interfaces has the same uid";
                self.error(program.span.clone(), message, "give each rule a different uid with -u");
            }
        }
    }

    /// The table in the order of firing, with names, and with a hop limit that the rules need.
    fn finish(mut self) -> Table {
        if !self.is_listing {
            self.table.rules.reverse();
        }
        let limits = self.table.rules.iter().filter_map(|rule| rule.limit_hops);
        let needed = limits.max().unwrap_or(0);
        if self.table.max_hops == 0 && needed > 1 {
            self.table.max_hops = needed;
            let message = format!(
                "assuming max_hops = {needed}, because the -l of a rule needs \
                                   it"
            );
            let hint = "the output of cangw does not contain max_hops; see \
                        /sys/module/can_gw/parameters/max_hops";
            self.findings.warning(&Origin::whole(self.source), message, hint);
        }
        for (index, rule) in self.table.rules.iter_mut().enumerate() {
            rule.name = format!("rule {}", index + 1);
        }
        self.table
    }
}

/// Stores what could be read; otherwise gives back `form`, what should have been written.
fn set<T>(place: &mut Option<T>, value: Option<T>, form: &'static str) -> Option<&'static str> {
    if value.is_none() {
        return Some(form);
    }
    *place = value;
    None
}

#[derive(Default)]
struct Options {
    command: Option<char>,
    from: Option<BusIndex>,
    to: Option<BusIndex>,
    flags: Vec<char>,
    uid: Option<u32>,
    limit_hops: Option<u8>,
    filter: Option<Filter>,
    edit: Edit,
    profile: Option<Crc8Profile>,
    modifications: Vec<(char, Span<usize>)>,
    checksums: Vec<Span<usize>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_listing_and_a_script_have_opposite_orders() {
        let commands = ["cangw -A -s can0 -d can1 -f 1:7FF", "cangw -A -s can0 -d can1 -f 2:7FF"];
        let script = commands.join("\n");
        let listing =
            commands.map(|line| format!("{line} # 0 handled 0 dropped 0 deleted")).join("\n");
        let order = |text: &str| -> Vec<u32> {
            let table = import("t", text).0.unwrap();
            table.rules.iter().map(|rule| rule.filters[0].can_id).collect()
        };
        assert_eq!(order(&listing), [1, 2]);
        assert_eq!(order(&script), [2, 1]);
    }

    #[test]
    fn a_hop_limit_is_assumed_where_a_rule_needs_more_than_the_kernel_gives() {
        for (hops, assumed) in [(1, 0), (2, 2)] {
            let (table, findings) = import("t", &format!("cangw -A -s can0 -d can1 -l {hops}"));
            assert_eq!(table.unwrap().max_hops, assumed);
            assert_eq!(
                findings.to_string().contains("assuming max_hops"),
                assumed > 0,
                "{findings}"
            );
        }
    }

    #[test]
    fn what_a_shell_decides_names_the_way_out() {
        for (text, place) in [
            ("for i in 0 1; do\ncangw -A -s can0 -d can1\ndone\n", "t:1:1: error: `for`"),
            ("DEV=can0\n", "t:1:1: error: `DEV=can0`"),
            (
                "cangw -A -s $DEV -d can1\n",
                "t:1:13: error: a shell puts something in the place of `$DEV`",
            ),
            ("cangw -A -s can${i} -d can1\n", "t:1:13: error"),
            ("cangw -A -s `dev` -d can1\n", "t:1:13: error"),
            ("cangw() {\n", "t:1:1: error"),
        ] {
            let (table, findings) = import("t", text);
            let said = findings.to_string();
            assert!(
                table.is_none() && said.contains(place) && said.contains("| sh |"),
                "{text}: {said}"
            );
        }
        let (_, findings) = import("t", "echo hello\n");
        assert!(!findings.to_string().contains("| sh |"));
    }

    /// One finding for each line that needs a shell, at the first place that does.
    #[test]
    fn what_needs_a_shell_is_named_where_it_stands() {
        for (text, places) in [
            ("for i in 1 2; do cangw -A -s can0 -d can$i -e; done", &["1:1: error: `for`"][..]),
            ("#!/bin/sh\nfor i in 1; do cangw -F; done", &["2:1: error: `for`"]),
            ("until false; do cangw -A -s can0 -d can1; done", &["1:1: error: `until`"]),
            (
                "while read i\ndo\n  cangw -A -s can0 -d $i\ndone < list",
                &[
                    "1:1: error: `while`",
                    "2:1: error: `do`",
                    "3:23: error: a shell",
                    "4:1: error: `done`",
                ],
            ),
            ("A=can0; cangw -A -s $A -d can1", &["1:1: error: `A=can0`"]),
            ("add() { cangw -A -s can0 -d \"$1\"; }", &["1:1: error: `add()`"]),
            (
                "add () {\n}\nadd can1",
                &["1:1: error: `add`", "2:1: error: `}`", "3:1: error: `add`"],
            ),
            ("[ -n \"$X\" ] && cangw -A -s can0 -d can1", &["1:1: error: `[`"]),
            ("cangw -F; cangw -A -s can0 -d can1", &["1:9: error: only a shell understands `;`"]),
            ("cangw -F\ncangw -F && cangw -F", &["2:10: error: only a shell understands `&&`"]),
            ("cangw -F > /dev/null", &["1:10: error: only a shell understands `>`"]),
            ("cangw -F >/dev/null 2>&1", &["1:10: error: only a shell understands `>`"]),
            ("cangw -F \\\n || exit 1", &["2:2: error: only a shell understands `||`"]),
            ("(cangw -F)", &["1:1: error: only a shell understands `(`"]),
            (";;", &["1:1: error: only a shell understands `;;`"]),
            ("set -e; cangw -F", &["1:7: error: only a shell understands `;`"]),
            ("modprobe can-gw", &["1:1: error: `modprobe`"]),
            ("modprobe can-gw max_hops=$N", &["1:17: error: a shell puts"]),
            ("modprobe can-gw max_hops=2; cangw -F", &["1:27: error: only a shell"]),
            ("exec cangw -F", &["1:1: error: `exec`"]),
            ("eval cangw -F", &["1:1: error: `eval`"]),
            ("exit", &["1:1: error: `exit`"]),
            ("cangw -F\nexit 0", &["2:1: error: `exit`"]),
            ("nice cangw -F", &["1:1: error: `nice`"]),
            ("ip link set can0 up\nexit", &["1:1: error: `ip`", "2:1: error: `exit`"]),
            (
                "cangw -A -s can{0,1} -d can2",
                &["1:13: error: a shell puts something in the place of `can{0,1}`"],
            ),
            (
                "cangw -A -scan* -d can2",
                &["1:10: error: a shell puts something in the place of `-scan*`"],
            ),
            ("cangw -A -s can0 -d can?", &["1:21: error: a shell puts something"]),
            ("cangw -A -s can0 -d can[01]", &["1:21: error: a shell puts something"]),
            ("cangw -A -s can0 -d ~can", &["1:21: error: a shell puts something"]),
            ("cangw -A -s can0 \\\n  -d $B", &["2:6: error: a shell puts something"]),
            ("cangw -A -s can\"0\" -d can1", &["1:13: error: a shell takes quotes"]),
            ("cangw -A -s can\\\n0 -d can1", &["1:13: error: a shell takes quotes"]),
            ("cangw -A -s \"$A\" -d can1", &["1:13: error: a shell puts something"]),
            ("cat <<E\ncangw -F\nit's text\nE\nexit", &["1:1: error: `cat`", "5:1: error: `exit`"]),
        ] {
            let (table, findings) = import("t", text);
            let said = findings.to_string();
            let found: Vec<_> = said.lines().filter(|line| line.starts_with("t:")).collect();
            assert_eq!(found.len(), places.len(), "{text}: {said}");
            for (found, place) in found.iter().zip(places) {
                assert!(found.starts_with(&format!("t:{place}")), "{text}: {found}");
            }
            let hint = BY_SHELL.split("| sh |").next().unwrap();
            assert_eq!(said.matches(hint).count(), places.len(), "{text}: {said}");
            assert!(table.is_none(), "{text}");
        }
    }

    /// A function does not take the place of what is called by its path, or by another program.
    #[test]
    fn the_way_out_asks_for_plain_names_where_they_are_needed() {
        for (text, is_asked) in [
            ("exec cangw -F", true),
            ("if true; then\nsudo cangw -F\nfi", true),
            ("if true; then\n/usr/bin/cangw -F\nfi", true),
            ("if true; then\ncangw -F\nfi", false),
        ] {
            let said = import("t", text).1.to_string();
            assert_eq!(said.contains(BY_SHELL_AS_FUNCTION), is_asked, "{text}: {said}");
        }
    }

    #[test]
    fn the_way_out_names_the_shell_that_understands_the_script() {
        for (text, shell) in [
            ("#!/bin/sh\nexit", "| sh |"),
            ("#!/bin/bash\nexit", "| bash |"),
            ("#!/usr/bin/env bash\nexit", "| bash |"),
            ("#!/bin/sh\n# bash\nexit", "| sh |"),
            ("cangw -A -s can{0,1} -d can2", "| bash |"),
            ("cangw -A -s can{0..1} -d can2", "| bash |"),
            ("cangw -A -s can${A,B} -d can2", "| sh |"),
            ("cangw -A -s can{0} -d can2", "| sh |"),
        ] {
            let said = import("t", text).1.to_string();
            assert!(said.contains(shell), "{text}: {said}");
        }
    }

    #[test]
    fn what_says_the_same_without_a_shell_is_read() {
        let rule = "cangw -A -s can0 -d can1 -e";
        let expected = import("t", rule).0.unwrap();
        for text in [
            "cangw -A \\\n  -s can0 -d can1 \\\n  -e\n",
            "cangw -A -s can0\\\r\n  -d can1 -e\r\n",
            "cangw -A -s 'can0' \"-d\" \"can1\" -e # it's so\n",
            "sudo $BIN/cangw -A -s can0 -d can1 -e\n",
            "~/bin/cangw -A -s can0 -d can1 -e\n",
        ] {
            let (table, findings) = import("t", text);
            let mut table = table.unwrap_or_else(|| panic!("{text}: {findings}"));
            table.rules[0].position = expected.rules[0].position;
            assert_eq!(table, expected, "{text}");
        }
        // What stands behind a `\\` has its own line.
        let (_, findings) = import("t", "cangw -A \\\n  -s can0 -d can1 \\\n -l 7\n");
        assert!(findings.to_string().starts_with("t:3:5: error: `7`"), "{findings}");
        // A comment takes no command with it.
        let (table, _) = import("t", &format!("{rule} # modprobe can-gw max_hops=2"));
        assert_eq!(table.map(|it| (it.max_hops, it.rules.len())), Some((2, 1)));
    }

    #[test]
    fn what_no_interface_is_called_is_refused() {
        for (word, is_name) in [
            ("can0", true),
            ("can#1", true),
            ("a@b+c.d", true),
            ("'can*'", true),
            ("'can 0'", false),
            ("''", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("a:b", false),
            ("can*", false),
        ] {
            let (table, findings) = import("t", &format!("cangw -A -s can1 -d {word}"));
            assert_eq!(table.is_some(), is_name, "{word}: {findings}");
        }
        let (_, findings) = import("t", "cangw -F 'a\n");
        let said = findings.to_string();
        assert!(said.starts_with("t:1:10: error: a quote in `'a` has no end"), "{said}");
        assert!(!said.contains(BY_SHELL), "{said}");
    }

    /// Of a script's other commands, only `set -e` and its like change nothing about the rules.
    #[test]
    fn other_commands_are_refused() {
        for (line, is_taken) in [
            ("set -e", true),
            ("set -eu", true),
            ("set e", false),
            ("set", false),
            ("set -e -u", false),
            ("unset -e", false),
            ("echo hello", false),
        ] {
            let (_, findings) = import("t", &format!("{line}\ncangw -A -s can0 -d can1\n"));
            let is_refused = findings.to_string().contains("is not a cangw command");
            assert_eq!(is_refused, !is_taken, "{line}: {findings}");
        }
    }

    #[test]
    fn the_length_of_a_text_is_limited() {
        for (len, is_read) in [(MAX_BYTES, true), (MAX_BYTES + 1, false), (MAX_BYTES + 2, false)] {
            let (table, findings) = import("t", &"#".repeat(len));
            assert_eq!((table.is_some(), findings.has_errors()), (is_read, !is_read), "{len}");
        }
    }

    #[test]
    fn the_number_of_interfaces_is_limited() {
        for (count, is_read) in [(0x1_0000, true), (0x1_0001, false), (0x1_0002, false)] {
            let interfaces: String = (0..count).map(|index| format!(" -s{index:x}")).collect();
            let (table, findings) = import("t", &format!("cangw -A{interfaces} -d0"));
            assert_eq!(table.is_some(), is_read, "{count}");
            assert_eq!(
                findings.to_string().contains("one interface too many"),
                !is_read,
                "{count}"
            );
        }
    }

    #[test]
    fn long_words_are_shown_in_part() {
        for (length, shown) in [(40, "X".repeat(40)), (41, "X".repeat(40) + "...")] {
            let (_, findings) = import("script", &format!("cangw {}\n", "X".repeat(length)));
            let messages: Vec<_> = findings.sorted().into_iter().map(|it| it.message).collect();
            assert!(messages.iter().any(|it| it.contains(&format!("`{shown}`"))), "{messages:?}");
        }
    }

    #[test]
    fn modifications_have_flags_for_can_fd_only() {
        let data = |bytes: usize| "00".repeat(bytes);
        for (options, is_valid) in [
            (format!("-m SET:IL:123.8.{}", data(8)), true),
            (format!("-m SET:IL:123.1.8.{}", data(8)), false),
            (format!("-X -M SET:IL:123.1.8.{}", data(64)), true),
            (format!("-X -M SET:IL:123.8.{}", data(64)), false),
        ] {
            let (table, findings) =
                import("script", &format!("cangw -A -s can0 -d can1 {options}\n"));
            assert_eq!(table.is_some(), is_valid, "{options}: {findings}");
        }
    }
}
