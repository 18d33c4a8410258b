//! Whether a text is one of commands of cangw, or TOML.

use super::words::{is_program, pieces};

/// Whether `text` looks like commands of cangw rather than TOML.
///
/// A rule file is TOML whatever its strings and comments say. Any other text is one of commands if a line begins with
/// one. A shell may also have a command within a line: then the text must be a script by its first line, or no line of
/// it be one of TOML.
#[must_use]
pub fn is_cangw(text: &str) -> bool {
    if is_script(text) {
        return text.lines().any(|line| is_command(line) || mentions(line));
    }
    let has = |is_it: &dyn Fn(&str) -> bool| text.lines().any(is_it);
    let is_rules = has(&|line| toml_line(line) == Some(Toml::Rules));
    !is_rules && (has(&is_command) || has(&mentions) && !has(&|line| toml_line(line).is_some()))
}

/// Whether the first line names a shell.
fn is_script(text: &str) -> bool {
    let first = text.strip_prefix("#!").and_then(|rest| rest.lines().next());
    first.is_some_and(|line| {
        line.split(|c: char| c.is_whitespace() || c == '/').any(|part| part.ends_with("sh"))
    })
}

/// Whether a line begins with a command of cangw.
fn is_command(line: &str) -> bool {
    let mut words = line.split_whitespace().filter(|&word| word != "sudo");
    words.next().is_some_and(is_program) && words.next().is_some_and(|it| it.starts_with('-'))
}

/// Whether a line has the word anywhere before its comment.
fn mentions(line: &str) -> bool {
    let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
    words.any(|word| pieces(word).any(is_program))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Toml {
    /// A bus or a rule.
    Rules,
    Other,
}

/// What a line of TOML is, by the table that it begins or the key that it sets. An assignment of a shell has no blank
/// before its `=`.
fn toml_line(line: &str) -> Option<Toml> {
    let line = line.trim();
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.\"'".contains(c))
    };
    let of_rules = |key: &str| matches!(key.split('.').next(), Some("bus" | "rule"));
    let code = line.split(" #").next().unwrap_or(line).trim_end();
    let table = code.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(table) = table {
        let array = table.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let key = array.unwrap_or(table).trim();
        let kind = if of_rules(key) { Toml::Rules } else { Toml::Other };
        return is_key(key).then_some(kind);
    }
    let (before, value) = line.split_once('=')?;
    let (key, value) = (before.trim_end(), value.trim_start());
    let is_nested = key.contains('.') || value.starts_with(['{', '[']);
    if !is_key(key) || value.starts_with('=') {
        None
    } else if of_rules(key) && is_nested {
        Some(Toml::Rules)
    } else {
        (key != before).then_some(Toml::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_command_anywhere_in_a_line_makes_a_script() {
        for text in [
            "for i in 1 2 3; do cangw -A -s can0 -d can$i -e; done\n",
            "#!/bin/sh\nfor i in 1 2 3; do cangw -A -s can0 -d can$i -e; done\n",
            "until false; do cangw -A -s can0 -d can1; done\n",
            "A=can0; cangw -A -s $A -d can1\n",
            "add() { cangw -A -s can0 -d \"$1\"; }\nadd can1\n",
            "[ -n \"$X\" ] && cangw -A -s can0 -d can1\n",
            "[ -n \"$X\" ]&&cangw -A -s can0 -d can1\n",
            "exec cangw -A -s can0 -d can1\n",
            "eval \"cangw -A -s can0 -d can1\"\n",
            "x=`cangw -L`\n",
            "x=$(cangw -L)\n",
            "CANGW=/usr/bin/cangw\n$CANGW -A -s can0 -d can1\n",
            "bus=can0; cangw -A -s $bus -d can1\n",
            "cangw \\\n  -A -s can0 -d can1\n",
            "#!/bin/bash\ncat > x <<EOF\n[Match]\nName = can0\nEOF\nif cangw -F; then :; fi\n",
            "#!/usr/bin/env bash\nexec cangw -F\n",
        ] {
            assert!(is_cangw(text), "{text}");
        }
    }

    /// Whatever the strings and comments of a rule file say, also of one with mistakes.
    #[test]
    fn a_rule_file_may_name_the_program() {
        for text in [
            "# for i in 1; do cangw -A; done\n[bus]\na = \"can0\"\n",
            "[bus]\na = \"can0\" # as cangw -A has it\n",
            "[bus]\na = \"cangw\"\n[[rule]]\nfrom = \"a\"\nto = [ \"cangw\" ]\n",
            "[[rule]]\nname = \"\"\"\ncangw -A -s can0 -d can1\n\"\"\"\n",
            "[[rule]]\nname = \"via cangw\nto = \"for cangw -A\"\n",
            "[bus.cangw]\nport=\"cangw\"\n",
            "[[ rule ]] # the first\nname=\"cangw\"\n",
            "bus.cangw=\"cangw\"\n",
            "bus={ a=\"cangw\" }\n",
            "rule=[{ name=\"cangw\" }]\n",
            "max_hops = 2\nname=\"cangw\"\n",
            "[traffic]\nkind=\"cangw\"\n",
            "#!/usr/bin/candor\n[bus]\na = \"cangw\"\n",
            "name = \"for cangw\"\n",
        ] {
            assert!(!is_cangw(text), "{text}");
        }
    }
}
