//! Requests and answers as values and as lines of JSON.

use std::path::{Path, PathBuf};

use candor_diagnostics::{Finding, Findings, did_you_mean};
use serde::{Deserialize, Serialize};

use crate::Snapshot;

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

const COMMANDS: [&str; 6] = ["stats", "watch", "load", "plan", "version", "stop"];
/// How long after the last one a snapshot of a watch comes, in ms, if nothing else is asked for.
const INTERVAL_MS: u64 = 1_000;
const MIN_INTERVAL_MS: u64 = 10;
const MAX_INTERVAL_MS: u64 = 3_600_000;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum Request {
    /// What the gateway tells about itself.
    Stats,
    /// The same again and again.
    Watch {
        /// How often, in ms; 0 for no more.
        interval_ms: u64,
    },
    /// Change the rules.
    Load {
        /// The file, by its absolute path; the same again if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
    /// Which rule is done where.
    Plan,
    /// Who is there, and which protocol it speaks.
    Version,
    /// End the gateway.
    Stop,
}

/// A request before it is known what it asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    command: String,
    interval_ms: Option<u64>,
    file: Option<String>,
}

impl Request {
    /// Reads a line, with or without its line feed.
    ///
    /// # Errors
    /// One sentence that says what is wrong with it.
    pub fn decode(line: &[u8]) -> Result<Self, String> {
        let fields: Fields = serde_json::from_slice(line).map_err(|error| {
            let example = r#"{"command":"stats"}"#;
            format!("this is not a request: {error}; a request is an object such as {example}")
        })?;
        let Fields { command, interval_ms, file } = fields;
        let only_for = |field: &str, command: &str| {
            Err(format!("only `{command}` has the field `{field}`; remove it"))
        };
        if interval_ms.is_some() && command != "watch" {
            return only_for("interval_ms", "watch");
        }
        if file.is_some() && command != "load" {
            return only_for("file", "load");
        }
        match command.as_str() {
            "stats" => Ok(Self::Stats),
            "watch" => match interval_ms.unwrap_or(INTERVAL_MS) {
                interval_ms @ (0 | MIN_INTERVAL_MS..=MAX_INTERVAL_MS) => {
                    Ok(Self::Watch { interval_ms })
                }
                other => Err(format!(
                    "`interval_ms` is {other}, but must be {MIN_INTERVAL_MS} to \
                     {MAX_INTERVAL_MS}, or 0 to end the watch"
                )),
            },
            "load" => Ok(Self::Load { file: file.map(path).transpose()? }),
            "plan" => Ok(Self::Plan),
            "version" => Ok(Self::Version),
            "stop" => Ok(Self::Stop),
            other => {
                let known = COMMANDS.join(", ");
                // What is long is no slip of the pen, and comparing would take its time.
                let hint = Some(other).filter(|other| other.len() <= 32);
                let hint = hint.and_then(|other| did_you_mean(other, COMMANDS));
                let hint =
                    hint.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
                let shown: String = other.chars().take(32).collect();
                Err(format!("unknown command {shown:?}; {hint}the commands are {known}"))
            }
        }
    }

    /// The request as a line, with its line feed.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        line(self)
    }
}

fn path(text: String) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        let path = path.display().to_string();
        return Err(format!(
            "{path:?} is not an absolute path; the gateway may run in another folder"
        ));
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err("`file` contains a zero byte, which no path can have".into());
    }
    Ok(path)
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut line = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Answer {
    /// What it tells about itself.
    Snapshot(Box<Snapshot>),
    /// The rules were changed.
    Loaded(Loaded),
    /// Which rule is done where.
    Plan {
        /// An entry for each rule and destination.
        lines: Vec<PlanLine>,
    },
    Version(Version),
    /// It will end.
    Stopping,
    /// It cannot do what was asked for.
    Error(Rejected),
}

impl Answer {
    /// An error without findings.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error(Rejected { message: message.into(), findings: Vec::new() })
    }

    /// Reads a line, with or without its line feed.
    ///
    /// # Errors
    /// It is no answer.
    pub fn decode(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }

    /// The answer as a line, with its line feed.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Answers are made of strings, numbers, lists and maps whose keys are strings: there is
        // nothing in them that JSON has not.
        line(self).unwrap_or_default()
    }
}

/// How the rules were changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// How often they were changed since the start, this time included.
    pub generation: u64,
    pub rules: u64,
    /// How long it took to read, check and swap them, in us.
    pub took_us: u64,
}

/// Why something was not done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// One sentence.
    pub message: String,
    /// What is wrong with the rule file.
    #[serde(default)]
    pub findings: Vec<FindingLine>,
}

impl Rejected {
    /// The rules of `file` have errors, or cannot be used for another reason that `findings` tell.
    #[must_use]
    pub fn new(file: &Path, findings: &Findings) -> Self {
        let findings: Vec<_> = findings.sorted().iter().map(FindingLine::new).collect();
        let file = file.display();
        let message = match findings.iter().find(|finding| finding.severity == "error") {
            Some(first) => format!(
                "{file} is not used, the old rules stay in use: {} (line {})",
                first.message, first.line
            ),
            None => format!("{file} is not used, the old rules stay in use"),
        };
        Self { message, findings }
    }
}

/// One thing that is wrong with a rule file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingLine {
    /// `error` or `warning`.
    pub severity: String,
    pub file: String,
    /// The line, from 1; 0 if it has no place.
    pub line: u32,
    /// The column, from 1; 0 if it has no place.
    pub column: u32,
    /// What, in one clause that begins with a small letter.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// All of it as people read it, with the line and a mark below.
    pub text: String,
}

impl FindingLine {
    /// The same for the wire.
    #[must_use]
    pub fn new(finding: &Finding) -> Self {
        let (line, column) = finding.origin.line_column();
        Self {
            severity: finding.severity.name().to_owned(),
            file: finding.origin.source().name().to_owned(),
            line,
            column,
            message: finding.message.clone(),
            hint: finding.hint.clone(),
            text: finding.to_string(),
        }
    }
}

/// Where a rule is done for one of its destinations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLine {
    pub rule: String,
    /// The bus it takes frames from.
    pub from: String,
    /// The bus its copies go to.
    pub to: String,
    /// `user` or `kernel`.
    pub plane: String,
    /// Why not in the kernel.
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub protocol: u32,
    /// The version of the program.
    pub candor: String,
    /// The process.
    pub pid: u32,
    /// The rule file that it was started with.
    pub file: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let load = |file: Option<&str>| Request::Load { file: file.map(PathBuf::from) };
        for (line, expected) in [
            (r#"{"command":"stats"}"#, Request::Stats),
            (r#" { "command" : "stats" } "#, Request::Stats),
            (r#"{"command":"watch"}"#, Request::Watch { interval_ms: 1_000 }),
            (r#"{"interval_ms":10,"command":"watch"}"#, Request::Watch { interval_ms: 10 }),
            (r#"{"command":"watch","interval_ms":0}"#, Request::Watch { interval_ms: 0 }),
            (r#"{"command":"load"}"#, load(None)),
            (r#"{"command":"load","file":null}"#, load(None)),
            (r#"{"command":"load","file":"/a b/ü.toml"}"#, load(Some("/a b/ü.toml"))),
            (r#"{"command":"plan"}"#, Request::Plan),
            (r#"{"command":"version"}"#, Request::Version),
            (r#"{"command":"stop"}"#, Request::Stop),
        ] {
            assert_eq!(Request::decode(line.as_bytes()), Ok(expected.clone()), "{line}");
            let encoded = expected.encode().unwrap();
            assert_eq!(Request::decode(&encoded), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_is_no_request_is_answered_with_the_reason() {
        for (line, reason) in [
            ("", "this is not a request: EOF"),
            ("\u{0}", "this is not a request"),
            ("stats", "a request is an object such as {\"command\":\"stats\"}"),
            ("[]", "this is not a request"),
            ("{}", "missing field `command`"),
            (r#"{"command":7}"#, "invalid type: integer `7`"),
            (r#"{"command":"stats"} {"command":"stats"}"#, "trailing characters"),
            (r#"{"command":"stats","file":"/a"}"#, "only `load` has the field `file`"),
            (r#"{"command":"load","interval_ms":5}"#, "only `watch` has the field `interval_ms`"),
            (r#"{"command":"watch","intervall_ms":5}"#, "unknown field `intervall_ms`"),
            (
                r#"{"command":"watch","interval_ms":9}"#,
                "`interval_ms` is 9, but must be 10 to 3600000",
            ),
            (r#"{"command":"watch","interval_ms":3600001}"#, "`interval_ms` is 3600001"),
            (r#"{"command":"watch","interval_ms":-1}"#, "invalid value"),
            (r#"{"command":"load","file":"a.toml"}"#, "\"a.toml\" is not an absolute path"),
            (r#"{"command":"load","file":"/a\u0000"}"#, "zero byte"),
            (r#"{"command":"halt"}"#, "the commands are stats, watch, load, plan, version, stop"),
            (
                r#"{"command":"stat"}"#,
                "unknown command \"stat\"; did you mean `stats`? the commands are",
            ),
        ] {
            let error = Request::decode(line.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
        let long = format!("{{\"command\":\"{}\"}}", "x".repeat(10_000));
        assert!(Request::decode(long.as_bytes()).unwrap_err().len() < 200);
        let deep = "[".repeat(30_000);
        assert!(Request::decode(deep.as_bytes()).is_err());
        assert!(Request::decode(&[0xFF, 0xFE, b'{']).is_err());
    }

    #[test]
    fn answers_have_the_documented_form() {
        let version = Version { protocol: 1, candor: "0.1.0".into(), pid: 7, file: "/d".into() };
        let plan = PlanLine {
            rule: "speed".into(),
            from: "a".into(),
            to: "b".into(),
            plane: "user".into(),
            reason: Some("can-gw has no rates".into()),
        };
        for (answer, expected) in [
            (
                Answer::Loaded(Loaded { generation: 2, rules: 31, took_us: 900 }),
                r#"{"type":"loaded","generation":2,"rules":31,"took_us":900}"#,
            ),
            (
                Answer::Version(version),
                r#"{"type":"version","protocol":1,"candor":"0.1.0","pid":7,"file":"/d"}"#,
            ),
            (
                Answer::Plan { lines: vec![plan] },
                r#"{"type":"plan","lines":[{"rule":"speed","from":"a","to":"b","plane":"user","reason":"can-gw has no rates"}]}"#,
            ),
            (Answer::Stopping, r#"{"type":"stopping"}"#),
            (Answer::error("no"), r#"{"type":"error","message":"no","findings":[]}"#),
        ] {
            let line = answer.encode();
            assert_eq!(String::from_utf8_lossy(&line), format!("{expected}\n"));
            assert_eq!(Answer::decode(&line), Ok(answer));
        }
        let snapshot = Answer::Snapshot(Box::new(crate::snapshot::Snapshot {
            file: "/d".into(),
            pid: 7,
            ..Snapshot::default()
        }));
        let line = snapshot.encode();
        assert!(line.starts_with(br#"{"type":"snapshot","file":"/d","pid":7,"#));
        assert_eq!(Answer::decode(&line), Ok(snapshot));
        // A later gateway may tell more.
        let more = br#"{"type":"loaded","generation":2,"rules":31,"took_us":900,"bytes":1}"#;
        assert!(matches!(Answer::decode(more), Ok(Answer::Loaded(_))));
    }

    #[test]
    fn findings_go_over_the_wire() {
        let text = "[bus]\na = \"can0\"\n\n[[rule]]\nfrom = \"a\"\nto = \"b\"\n";
        let (table, findings) =
            candor_rules::file::parse_with("d.toml", text, &|_| Err("no".into()));
        assert!(table.is_none());
        let rejected = Rejected::new(Path::new("d.toml"), &findings);
        assert!(rejected.message.starts_with("d.toml is not used"), "{}", rejected.message);
        assert!(rejected.message.contains("line "), "{}", rejected.message);
        let unknown = rejected.findings.iter().find(|finding| finding.line == 6).unwrap();
        assert_eq!((unknown.severity.as_str(), unknown.file.as_str()), ("error", "d.toml"));
        assert!(unknown.text.contains("to = \"b\"") && unknown.text.contains('^'));
        let line = Answer::Error(rejected.clone()).encode();
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1, "one line");
        assert_eq!(Answer::decode(&line), Ok(Answer::Error(rejected)));
    }
}
