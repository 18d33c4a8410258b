//! [`FileKind`]: what a file is that was given in place of another.
//!
//! Rule files, experiments, DBC files and recordings are easily mixed up on a command line. A reader
//! that cannot make sense of a file asks here, and says which command the file is for.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use candor_recording::Format;

/// How much of a file is looked at.
const HEAD_LEN: u64 = 64 << 10;
/// What the schemas of results have in common, in all versions.
const RESULT_FAMILY: &str = "candor-result";

/// A kind of file that Candor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// Rules of a gateway, in TOML or as commands of cangw.
    Rules,
    /// Experiments.
    Experiment,
    /// The description of a network.
    Network,
    /// The description of a network of time-triggered Ethernet.
    TimeTriggered,
    /// What the signal service serves.
    Signals,
    /// Messages and signals.
    Dbc,
    /// A recording.
    Recording,
    /// The result of an experiment.
    Result,
}

impl FileKind {
    /// The kind of a file that begins like this, if it is clear.
    pub(crate) fn from_head(head: &[u8]) -> Option<Self> {
        // DBC files may be in any character set, so only ASCII words are looked for.
        let text = String::from_utf8_lossy(head);
        let has_line = |is_it: &dyn Fn(&str) -> bool| text.lines().map(str::trim).any(is_it);
        let has_table =
            |names: &[&str]| has_line(&|line| names.iter().any(|name| is_table_or_key(line, name)));
        if Format::by_content(head).is_some() {
            Some(Self::Recording)
        } else if has_line(&|line| line.starts_with("BO_ ") || line.starts_with("BU_:")) {
            Some(Self::Dbc)
        } else if text.trim_start().starts_with('{') && text.contains(RESULT_FAMILY) {
            Some(Self::Result)
        } else if has_table(&["rule"]) || candor_rules::cangw::is_cangw(&text) {
            Some(Self::Rules)
        } else if has_table(&["traffic", "experiment", "matrix", "claim"]) {
            Some(Self::Experiment)
        } else if has_table(&["end_system"]) && has_table(&["flow", "link"]) {
            Some(Self::TimeTriggered)
        } else if has_table(&["bus"])
            && has_table(&["listen", "coalesce", "allow_origin", "websocket_silence", "sse_unread"])
        {
            Some(Self::Signals)
        } else if has_table(&["bus"]) && has_table(&["nodes", "message", "dbc"]) {
            Some(Self::Network)
        } else {
            None
        }
    }

    /// Why the file at `path` cannot be used as `self`, if it is clearly something else: one sentence
    /// with the command that takes it.
    pub(crate) fn mix_up(self, path: &Path) -> Option<String> {
        let mut head = Vec::new();
        // Looked at before it is opened: opening a pipe waits for somebody who writes into it.
        let file = File::open(Some(path).filter(|path| path.is_file())?).ok()?;
        file.take(HEAD_LEN).read_to_end(&mut head).ok()?;
        let shown = path.display();
        let found = Self::from_head(&head).filter(|&found| found != self)?;
        Some(format!("{shown}: {}", found.advice(&shown.to_string())))
    }

    fn advice(self, path: &str) -> String {
        let (what, command, does) = match self {
            Self::Rules => ("a rule file", "route check", "checks it"),
            Self::Experiment => ("an experiment file", "lab run", "runs it"),
            Self::Network => ("a network file", "network show", "shows it"),
            Self::TimeTriggered => {
                ("a network file of time-triggered Ethernet", "tte check", "checks it")
            }
            Self::Signals => ("a file of the signal service", "signals check", "checks it"),
            Self::Recording => ("a recording", "log info", "shows its contents"),
            Self::Dbc => {
                return format!(
                    "this is a DBC file; use it with a recording: `candor log decode LOG --dbc {path}`"
                );
            }
            Self::Result => {
                return "this is the result of an experiment; use its folder with `candor lab show` or \
                        `candor lab report`"
                    .into();
            }
        };
        format!("this is {what}; `candor {command} {path}` {does}")
    }
}

/// Whether a line of TOML begins the table, or sets the key, of that name.
fn is_table_or_key(line: &str, name: &str) -> bool {
    let is_table = line.starts_with('[');
    let Some(rest) = line.trim_start_matches('[').trim_start().strip_prefix(name) else {
        return false;
    };
    match rest.trim_start().chars().next() {
        Some(']') => is_table,
        Some('.') => true,
        Some('=') => !is_table,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_distinguished() {
        for (text, kind) in [
            ("[bus]\na = \"can0\"\n\n[[rule]]\nfrom = \"a\"\n", Some(FileKind::Rules)),
            ("cangw -A -s can0 -d can1 -e\n", Some(FileKind::Rules)),
            (
                "count = 5\nbus.a.bitrate = \"1M\"\ntraffic.kind = \"flood\"\n",
                Some(FileKind::Experiment),
            ),
            ("[bus.in]\nbitrate = 1\n[traffic]\nkind = \"half\"\n", Some(FileKind::Experiment)),
            ("[bus.a]\nbitrate = 1\n[nodes]\na = [\"N\"]\n", Some(FileKind::Network)),
            ("[end_system.a]\n[link.l]\nbetween = [\"a\", \"b\"]\n", Some(FileKind::TimeTriggered)),
            ("coalesce = \"1ms\"\n[bus.a]\nport = \"can0\"\n", Some(FileKind::Signals)),
            ("[[ experiment ]]\nname = \"a\"\n", Some(FileKind::Experiment)),
            ("VERSION \"\"\n\nBU_: A B\n\nBO_ 291 M: 8 A\n", Some(FileKind::Dbc)),
            ("(1.000000) can0 123#11\n", Some(FileKind::Recording)),
            ("{\n  \"schema\": \"candor-result/1\",\n", Some(FileKind::Result)),
            ("[rules]\n", None),
            ("trafficking = 1\n[traffic\n", None),
            ("Dear reader,\n", None),
            ("", None),
        ] {
            assert_eq!(FileKind::from_head(text.as_bytes()), kind, "{text}");
        }
    }

    #[test]
    fn examples_are_what_they_are() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (file, kind) in [
            ("examples/small-car.toml", FileKind::Experiment),
            ("examples/small-car.rules.toml", FileKind::Rules),
            ("examples/small-car.network.toml", FileKind::Network),
            ("examples/small-car.signals.toml", FileKind::Signals),
            ("examples/small-car.dbc", FileKind::Dbc),
            ("campaigns/gateway-timing.toml", FileKind::Experiment),
        ] {
            let path = root.join(file);
            assert_eq!(FileKind::from_head(&std::fs::read(&path).unwrap()), Some(kind), "{file}");
            assert_eq!(kind.mix_up(&path), None);
            let other = if kind == FileKind::Dbc { FileKind::Rules } else { FileKind::Dbc };
            assert!(other.mix_up(&path).unwrap().contains(": this is a"), "{file}");
        }
    }

    #[test]
    fn recordings_are_no_other_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.mf4");
        std::fs::write(&path, b"MDF     4.10    ").unwrap();
        assert_eq!(FileKind::Recording.mix_up(&path), None);
        assert!(FileKind::Rules.mix_up(&path).is_some());
        assert_eq!(FileKind::Recording.mix_up(&folder.path().join("absent")), None);
        // Nothing is taken from a pipe.
        assert_eq!(FileKind::Recording.mix_up(Path::new("-")), None);
    }
}
