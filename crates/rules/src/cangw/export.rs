//! Writing a script of `cangw` commands.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::words::{MODPROBE, is_read};
use crate::file::{INTERFACE_LEN, push, show_bytes};
use crate::job::{Inexpressible, Job, jobs_of};
use crate::pattern;
use candor_engine::edit::{Crc8, Crc8Profile, Operands, Operator, Range, XorChecksum};
use candor_engine::{BusIndex, Filter, Table};

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
        // A comment that would be read as more than that is quoted.
        match is_read(&name) {
            true => push(&mut out, format_args!("\n# {name:?}\n")),
            false => push(&mut out, format_args!("\n# {name}\n")),
        }
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
    use super::super::import;
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
            (
                "frames = \"any\"\nmatch = [\"remote 0x102\"]",
                &["cangw -A -s can0 -d can1 -f 40000102:C00007FF"],
            ),
            (
                "frames = \"any\"\nmatch = [\"remote 0x100\", \"remote 0x101\"]",
                &[
                    "cangw -A -s can0 -d can1 -f 40000101:C00007FF",
                    "cangw -A -s can0 -d can1 -f 40000100:C00007FF",
                ],
            ),
            (
                "frames = \"any\"\nmatch = [\"000:20000004\"]",
                &["cangw -A -s can0 -d can1 -f 000:20000004"],
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
    fn names_are_comments_whatever_they_say() {
        for name in [
            "modprobe can-gw max_hops=railer, 5",
            " modprobe can-gw max_hops=3",
            "1 handled 2 dropped 3 deleted",
            "a # modprobe can-gw max_hops=2",
            "# modprobe can-gw max_hops=2",
            "cangw -F",
        ] {
            let table = table(&format!("[[rule]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n"));
            let script = export(&table).unwrap();
            let (imported, findings) = import("script", &script);
            let imported = imported.unwrap_or_else(|| panic!("{name}: {findings}"));
            assert_eq!((imported.max_hops, imported.rules.len()), (0, 1), "{name}");
            assert!(findings.is_empty(), "{name}: {findings}");
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
}
