//! The notation of `cangw`, the tool of can-utils for the kernel's gateway: import and export.
//!
//! [`import`] reads what `cangw -L` prints, and scripts of `cangw -A` commands. The two differ in
//! their order: the kernel puts the newest rule first, so a listing begins with the rule that
//! fires first and a script ends with it. A text with counters (`# 7 handled 0 dropped 0 deleted`)
//! is a listing. (Hence a listing that is replayed as a script turns the order around.)
//!
//! [`export`] writes a script. A rule with several destinations or patterns becomes several
//! commands, which together take exactly the same frames, each once. What the kernel cannot do is
//! named and nothing is written.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::ops::Range as Span;
use std::sync::Arc;

use candor_diagnostics::{Findings, Origin, Source};

use crate::check::{Place, check};
use crate::file::{INTERFACE_LEN, index_range, is_virtual_by_name, show_bytes};
use crate::job::{Job, jobs_of};
use crate::pattern;
use candor_engine::edit::{Crc8, Crc8Profile, Edit, Operands, Operator, Range, XorChecksum};
use candor_engine::table::HOPS_LIMIT;
use candor_engine::{Bus, BusIndex, Filter, Gate, Rule, Table};

pub use crate::job::Inexpressible;

/// The longest text that is read, as for rule files.
const MAX_BYTES: usize = candor_config::MAX_BYTES;
/// The comment that carries the hop limit through a script.
const MODPROBE: &str = "modprobe can-gw max_hops=";

/// Whether `text` looks like commands of cangw rather than TOML.
#[must_use]
pub fn is_cangw(text: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace().filter(|&word| word != "sudo");
        words.next().is_some_and(is_program)
            && words.next().is_some_and(|option| option.starts_with('-'))
    })
}

fn is_program(word: &str) -> bool {
    word.rsplit('/').next() == Some("cangw")
}

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
    };
    for line in lines(text).take_while(|_| !findings.is_full()) {
        importer.line(line);
    }
    let table = importer.finish();
    let origin = |place: Place| match place {
        Place::Rule(index, _) => table.rules.get(index).map_or_else(
            || Origin::whole(&source),
            |rule| Origin::at(&source, rule.position.0, rule.position.1),
        ),
        Place::Bus(_) => Origin::whole(&source),
    };
    check(&table, &origin, &findings);
    (Some(table).filter(|_| !findings.has_errors()), findings)
}

/// The byte ranges of the lines, ends left aside.
fn lines(text: &str) -> impl Iterator<Item = Span<usize>> + '_ {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some(start..start + line.trim_end().len())
    })
}

/// The words of `text`, which begins at byte `at`, with their places.
fn words(text: &str, at: usize) -> impl Iterator<Item = Word<'_>> {
    text.split_whitespace().map(move |word| {
        // Both lie in the same text, so their distance is an offset.
        let start = at + (word.as_ptr().addr() - text.as_ptr().addr());
        Word { text: word, span: start..start + word.len() }
    })
}

#[derive(Clone, Debug)]
struct Word<'a> {
    text: &'a str,
    span: Span<usize>,
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
}

impl Importer<'_> {
    fn error(&self, span: Span<usize>, message: impl Into<String>, hint: &str) {
        self.findings.error_with_hint(&Origin::new(self.source, span), message, hint);
    }

    fn line(&mut self, line: Span<usize>) {
        let source = Arc::clone(self.source);
        let text = source.text().get(line.clone()).unwrap_or("");
        let (command, comment) = text.split_once('#').unwrap_or((text, ""));
        self.is_listing |= is_counters(comment);
        for text in [comment, command] {
            if let Some(hops) = text.trim().strip_prefix(MODPROBE) {
                match hops.parse() {
                    Ok(hops @ 1..=HOPS_LIMIT) => self.table.max_hops = hops,
                    _ => self.error(line.clone(), "max_hops is 1 to 6", "such as max_hops=2"),
                }
                return;
            }
        }
        let words: Vec<_> = words(command, line.start).filter(|word| word.text != "sudo").collect();
        match words.split_first() {
            None => {}
            Some((program, arguments)) if is_program(program.text) => {
                self.command(program, arguments);
            }
            Some((set, [option])) if set.text == "set" && option.text.starts_with('-') => {}
            Some((other, _)) => {
                let hint = "write one command per line, such as: cangw -A -s can0 -d can1";
                let message = format!("`{}` is not a cangw command", shorten(other.text));
                self.error(other.span.clone(), message, hint);
            }
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
            'u' => set(&mut options.uid, hex(text, 8), "a hex number of up to 8 digits"),
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
        let is_name = (1..=INTERFACE_LEN).contains(&name.len()) && !name.contains(['/', ':']);
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

/// Whether a comment is the counters of a listing.
fn is_counters(comment: &str) -> bool {
    let words: Vec<_> = comment.split_whitespace().take(7).collect();
    matches!(words[..], [_, "handled", _, "dropped", _, "deleted"])
}

/// Enough of a word to recognise it.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
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

/// Options as `getopt` splits them: `-A -s can0`, `-Aescan0`.
struct Getopt<'a> {
    words: core::slice::Iter<'a, Word<'a>>,
    /// The rest of a word of options.
    bundle: Option<Word<'a>>,
}

impl<'a> Getopt<'a> {
    fn new(words: &'a [Word<'a>]) -> Self {
        Self { words: words.iter(), bundle: None }
    }
}

impl<'a> Iterator for Getopt<'a> {
    type Item = Result<(char, Word<'a>), (Span<usize>, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        let bundle = match self.bundle.take() {
            Some(bundle) => bundle,
            None => {
                let word = self.words.next()?;
                match word.text.strip_prefix('-') {
                    Some(text) if !text.is_empty() => {
                        Word { text, span: word.span.start + 1..word.span.end }
                    }
                    _ => {
                        let message = format!("`{}` belongs to no option", shorten(word.text));
                        return Some(Err((word.span.clone(), message)));
                    }
                }
            }
        };
        let mut chars = bundle.text.chars();
        let option = chars.next()?;
        let rest = Word {
            text: chars.as_str(),
            span: bundle.span.start + option.len_utf8()..bundle.span.end,
        };
        match option {
            'A' | 'D' | 'F' | 'L' | 'X' | 't' | 'e' | 'i' => {
                self.bundle = Some(rest.clone()).filter(|rest| !rest.text.is_empty());
                Some(Ok((option, rest)))
            }
            's' | 'd' | 'u' | 'l' | 'f' | 'c' | 'p' | 'x' | 'm' | 'M' => {
                let argument =
                    if rest.text.is_empty() { self.words.next().cloned() } else { Some(rest) };
                Some(
                    argument
                        .map(|argument| (option, argument))
                        .ok_or_else(|| (bundle.span, format!("-{option} needs an argument"))),
                )
            }
            _ => Some(Err((bundle.span, format!("unknown option -{option}")))),
        }
    }
}

fn hex(text: &str, digits: usize) -> Option<u32> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = (1..=digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(text, 16).ok())?
}

fn hex_byte(text: &str) -> Option<u8> {
    hex(text, 2).and_then(|value| u8::try_from(value).ok())
}

/// Bytes of two hex digits each, `count` of them.
fn hex_bytes(text: &str, count: usize) -> Option<Vec<u8>> {
    if text.len() != count * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..count).map(|index| hex_byte(text.get(index * 2..index * 2 + 2)?)).collect()
}

/// `SET:ILD:333.4.1122334455667788`, for CAN FD `SET:IFLD:333.1.8.` and 128 digits.
fn modification(text: &str, is_fd: bool) -> Option<(Operator, Operands)> {
    let mut parts = text.splitn(3, ':');
    let operator = match parts.next()? {
        "AND" => Operator::And,
        "OR" => Operator::Or,
        "XOR" => Operator::Xor,
        "SET" => Operator::Set,
        _ => return None,
    };
    let elements = parts.next()?;
    let known = if is_fd { "IFLD" } else { "ILD" };
    if elements.is_empty() || !elements.chars().all(|element| known.contains(element)) {
        return None;
    }
    let values: Vec<_> = parts.next()?.split('.').collect();
    let (can_id, flags, len, data) = match values[..] {
        [can_id, len, data] if !is_fd => (can_id, "0", len, data),
        [can_id, flags, len, data] if is_fd => (can_id, flags, len, data),
        _ => return None,
    };
    let (can_id, flags, len) = (hex(can_id, 8)?, hex_byte(flags)?, hex_byte(len)?);
    let data = hex_bytes(data, if is_fd { 64 } else { 8 })?;
    let has = |element: char| elements.contains(element);
    let operands = Operands {
        can_id: has('I').then_some(can_id),
        len: has('L').then_some(len),
        flags: has('F').then_some(flags),
        data: has('D').then(|| operator.operand(&data)),
    };
    Some((operator, operands))
}

/// The three indices at the beginning of a checksum.
fn range<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<Range> {
    let mut index = || parts.next()?.parse().ok();
    Some(Range { from: index()?, to: index()?, result: index()? })
}

fn xor_checksum(text: &str) -> Option<XorChecksum> {
    let mut parts = text.split(':');
    let range = range(&mut parts)?;
    let init = hex_byte(parts.next()?)?;
    parts.next().is_none().then_some(XorChecksum { range, init })
}

fn crc8(text: &str) -> Option<Crc8> {
    let mut parts = text.split(':');
    let range = range(&mut parts)?;
    let (init, final_xor) = (hex_byte(parts.next()?)?, hex_byte(parts.next()?)?);
    let table = Box::new(hex_bytes(parts.next()?, 256)?.try_into().ok()?);
    let crc8 = Crc8 { range, init, final_xor, table, profile: Crc8Profile::Plain };
    parts.next().is_none().then_some(crc8)
}

fn profile(text: &str) -> Option<Crc8Profile> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("1", byte) => Some(Crc8Profile::OneByte(hex_byte(byte)?)),
        ("2", bytes) => Some(Crc8Profile::ByCounter(hex_bytes(bytes, 16)?.try_into().ok()?)),
        ("3", "") => Some(Crc8Profile::IdXor),
        _ => None,
    }
}

/// The table as a shell script of `cangw` commands. They stand in reverse, rules and the jobs of
/// each, because the kernel puts the newest first.
///
/// # Errors
/// Every rule that the kernel cannot do.
pub fn export(table: &Table) -> Result<String, Vec<Inexpressible>> {
    let mut out = String::from(
        "#!/bin/sh\n# The last rule comes first: the kernel puts the newest first.\nset -e\n",
    );
    if table.max_hops != 0 {
        push(&mut out, format_args!("# {MODPROBE}{}\n", table.max_hops));
    }
    let mut failures = Vec::new();
    for (index, rule) in table.rules.iter().enumerate().rev() {
        let name: String =
            rule.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        push(&mut out, format_args!("\n# {name}\n"));
        let jobs = jobs_of(rule);
        let commands = jobs.and_then(|jobs| {
            jobs.iter().rev().map(|(_, job)| command(table, job)).collect::<Result<Vec<_>, _>>()
        });
        match commands {
            Ok(commands) => commands.iter().for_each(|command| {
                push(&mut out, format_args!("{command}\n"));
            }),
            Err(reason) => failures.push(Inexpressible { rule: index, reason }),
        }
    }
    failures.reverse();
    if failures.is_empty() { Ok(out) } else { Err(failures) }
}

fn push(out: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

fn command(table: &Table, job: &Job) -> Result<String, String> {
    let mut out =
        format!("cangw -A -s {} -d {}", interface(table, job.from)?, interface(table, job.to)?);
    for (option, is_set) in [
        (" -X", job.is_fd),
        (" -e", job.echo),
        (" -t", job.keep_timestamp),
        (" -i", job.allow_return),
    ] {
        if is_set {
            out.push_str(option);
        }
    }
    if job.filter != Filter::ANY {
        push(&mut out, format_args!(" -f {}", pattern::show_raw(job.filter)));
    }
    for operator in Operator::ALL {
        show_modification(&mut out, job, operator);
    }
    if job.uid != 0 {
        push(&mut out, format_args!(" -u {:X}", job.uid));
    }
    if let Some(hops) = job.limit_hops {
        push(&mut out, format_args!(" -l {hops}"));
    }
    if let Some(XorChecksum { range: Range { from, to, result }, init }) = job.edit.xor_checksum {
        push(&mut out, format_args!(" -x {from}:{to}:{result}:{init:02X}"));
    }
    if let Some(crc8) = &job.edit.crc8 {
        show_crc8(&mut out, crc8);
    }
    Ok(out)
}

/// The interface of a bus, if a shell takes it as one word.
fn interface(table: &Table, bus: BusIndex) -> Result<&str, String> {
    let interface = table.buses.get(usize::from(bus.0)).map_or("", |bus| bus.interface());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+@-".contains(&byte);
    let is_word = (1..=INTERFACE_LEN).contains(&interface.len())
        && !interface.starts_with('-')
        && interface.bytes().all(is_plain);
    if is_word {
        Ok(interface)
    } else {
        Err(format!("{interface:?} cannot be used in a command line"))
    }
}

fn show_modification(out: &mut String, job: &Job, operator: Operator) {
    let is_fd = job.is_fd;
    let Operands { can_id, len, flags, data } = job.edit.operands(operator);
    let elements: String = [
        ('I', can_id.is_some()),
        ('F', flags.is_some()),
        ('L', len.is_some()),
        ('D', data.is_some()),
    ]
    .iter()
    .filter_map(|&(element, is_given)| is_given.then_some(element))
    .collect();
    if elements.is_empty() {
        return;
    }
    let bytes = data.as_deref().unwrap_or(&[0; 64]);
    let bytes = bytes.get(..if is_fd { 64 } else { 8 }).unwrap_or(&[]);
    let (can_id, len) = (can_id.unwrap_or(0), len.unwrap_or(0));
    let name = operator.name().to_ascii_uppercase();
    if is_fd {
        let flags = flags.unwrap_or(0);
        push(out, format_args!(" -M {name}:{elements}:{can_id:03X}.{flags:X}.{len:X}."));
    } else {
        push(out, format_args!(" -m {name}:{elements}:{can_id:03X}.{len:X}."));
    }
    out.push_str(&show_bytes(bytes, ""));
}

fn show_crc8(out: &mut String, crc8: &Crc8) {
    let Crc8 { range: Range { from, to, result }, init, final_xor, table, profile } = crc8;
    let table = show_bytes(&table[..], "");
    push(out, format_args!(" -c {from}:{to}:{result}:{init:02X}:{final_xor:02X}:{table}"));
    match profile {
        Crc8Profile::Plain => {}
        Crc8Profile::OneByte(byte) => push(out, format_args!(" -p 1:{byte:02X}")),
        Crc8Profile::ByCounter(bytes) => push(out, format_args!(" -p 2:{}", show_bytes(bytes, ""))),
        Crc8Profile::IdXor => out.push_str(" -p 3:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const BUSES: &str = "[bus]\na = \"can0\"\nb = \"can1\"\nc = \"vcan0\"\n";

    fn table(rules: &str) -> Table {
        let (table, findings) = crate::file::parse("t", &format!("{BUSES}{rules}"));
        table.unwrap_or_else(|| panic!("{findings}"))
    }

    /// The commands of an export, without the comments.
    fn commands(table: &Table) -> Vec<String> {
        let script = export(table).unwrap();
        script.lines().filter(|line| line.starts_with("cangw")).map(ToString::to_string).collect()
    }

    #[test]
    fn rules_become_commands() {
        for (rule, expected) in [
            ("", &["cangw -A -s can0 -d can1"][..]),
            ("match = [0x123]", &["cangw -A -s can0 -d can1 -f 123:C00007FF"]),
            ("match = [\"0x18FEF100x\"]", &["cangw -A -s can0 -d can1 -f 98FEF100:DFFFFFFF"]),
            ("match = [\"!0x123\"]", &["cangw -A -s can0 -d can1 -f 123~C00007FF"]),
            ("frames = \"any\"", &["cangw -A -s can0 -d can1 -X", "cangw -A -s can0 -d can1"]),
            // There are no remote frames of CAN FD.
            (
                "frames = \"any\"\nmatch = [\"any 0x100\", \"remote 0x102\"]",
                &[
                    "cangw -A -s can0 -d can1 -X -f 100:C00007FF",
                    "cangw -A -s can0 -d can1 -f 40000102:C00007FF",
                    "cangw -A -s can0 -d can1 -f 100:800007FF",
                ],
            ),
            // Overlapping patterns would fire twice as two commands.
            (
                "match = [\"0x100-0x10F\", \"0x105\", \"0x10F-0x110\"]",
                &[
                    "cangw -A -s can0 -d can1 -f 110:C00007FF",
                    "cangw -A -s can0 -d can1 -f 100:C00007F0",
                ],
            ),
            (
                "match = [\"0x100-0x103\", \"!0x102\"]",
                &[
                    "cangw -A -s can0 -d can1 -f 103:C00007FF",
                    "cangw -A -s can0 -d can1 -f 100:C00007FE",
                ],
            ),
            // An error report with bits of both classes would fire twice as well.
            (
                "match = [\"000:20000004\", \"000:20000008\"]",
                &["cangw -A -s can0 -d can1 -f 000:2000000C"],
            ),
            (
                "match = [\"000:2000000C\", \"000:20000008\"]",
                &["cangw -A -s can0 -d can1 -f 000:2000000C"],
            ),
            (
                "set = { id = \"0x321\", length = 4 }\nuid = 0x1A\necho = true\n\
                 xor_checksum = { from = 0, to = -2, into = -1 }",
                &[
                    "cangw -A -s can0 -d can1 -e -m SET:IL:321.4.0000000000000000 -u 1A -x 0:-2:-1:00",
                ],
            ),
        ] {
            let table = table(&format!("[[rule]]\nfrom = \"a\"\nto = \"b\"\n{rule}\n"));
            assert_eq!(commands(&table), expected, "{rule}");
        }
    }

    #[test]
    fn the_last_rule_is_the_first_command() {
        let table = table(
            "[[rule]]\nname = \"x\"\nfrom = \"a\"\nto = [\"b\", \"c\"]\necho = true\n\
             [[rule]]\nname = \"y\"\nfrom = \"b\"\nto = \"a\"\n",
        );
        let script = export(&table).unwrap();
        let (imported, _) = import("script", &script);
        let rules = imported.unwrap().rules;
        let position = |to: &str| commands(&table).iter().position(|c| c.contains(to)).unwrap();
        assert_eq!(position("-d can0"), 0);
        assert_eq!(position("-d can1"), 2, "the first destination comes last");
        assert_eq!(rules.last().map(|rule| rule.name.as_str()), Some("rule 3"));
        assert!(!rules.last().unwrap().echo, "{script}");
    }

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
    fn what_the_kernel_cannot_do_is_named() {
        let many: Vec<_> = (0..70).map(|id| format!("{}", id * 5)).collect();
        for (rule, reason) in [
            (format!("match = [{}]", many.join(", ")), "it needs more than 64 can-gw jobs"),
            (
                "match = [0x1, 0x3]\nuid = 1\nset = { id = 2 }".into(),
                "it needs 2 can-gw jobs, but a uid",
            ),
            ("match = [0x1, \"!0x0-0x2\"]".into(), "it can never match"),
        ] {
            let table = table(&format!("[[rule]]\nfrom = \"a\"\nto = \"b\"\n{rule}\n"));
            let failures = export(&table).unwrap_err();
            assert_eq!(failures.len(), 1);
            assert!(failures[0].reason.starts_with(reason), "{failures:?}");
        }
        let mut except = table("[[rule]]\nfrom = \"a\"\nto = \"b\"\n");
        except.rules[0].except = [Filter::standard(0x123)].into();
        assert_eq!(commands(&except), ["cangw -A -s can0 -d can1 -f 123~C00007FF"]);
        except.rules[0].except = [Filter { can_id: 0, mask: 0x2000_0004, inverted: false }].into();
        assert!(export(&except).unwrap_err()[0].reason.starts_with("the kernel cannot exclude"));
        let checksum = XorChecksum { range: Range { from: 0, to: 0, result: 0 }, init: 0 };
        let mut alone = table("[[rule]]\nfrom = \"a\"\nto = \"b\"\n");
        alone.rules[0].edit.xor_checksum = Some(checksum);
        assert!(export(&alone).unwrap_err()[0].reason.contains("without an operation"));
        let mut strange = table("[[rule]]\nfrom = \"a\"\nto = \"b\"\n");
        strange.buses[1].port = "$(reboot)".into();
        assert!(
            export(&strange).unwrap_err()[0].reason.contains("cannot be used in a command line")
        );
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
    fn identifiers_are_hex_digits_and_nothing_else() {
        for (id, value) in [("123", Some(0x123)), ("0x12", Some(0x12)), ("1FFFFFFFF", None)] {
            assert_eq!(hex(id, 8), value, "{id}");
        }
        for text in ["", "0x", "+1", "-1", "1 ", "12G"] {
            assert_eq!(hex(text, 8), None, "{text}");
        }
        assert_eq!((hex_byte("FF"), hex_byte("100"), hex_byte("+F")), (Some(255), None, None));
    }

    #[test]
    fn commands_are_distinguished_from_toml() {
        for (text, is_commands) in [
            ("cangw -A -s can0 -d can1", true),
            ("#!/bin/sh\nset -e\n\nsudo /usr/bin/cangw -F\n", true),
            ("[bus]\ncangw = \"can0\"\n", false),
            ("# cangw -A\n", false),
            ("", false),
        ] {
            assert_eq!(is_cangw(text), is_commands, "{text}");
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
