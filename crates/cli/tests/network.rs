//! `candor network show`, as a user sees it.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const NETWORK: &str = "title = \"A \u{202e}car\"\n[bus.a]\nbitrate = \"500k\"\ndata_bitrate = \"2M\"\n\
    [bus.b]\nbitrate = \"250k\"\n[nodes]\na = [\"Engine\", \"Silent\"]\nb = []\n[node.Engine]\nqueue = \"fifo\"\n\
    queue_depth = 8\n[[message]]\nname = \"Speed\u{1b}\"\nid = \"0x100\"\nnode = \"Engine\"\nperiod = \"10ms\"\n\
    offset = \"1ms\"\n[[message]]\nname = \"Long\"\nid = \"0x101\"\nnode = \"Engine\"\nperiod = \"100ms\"\n\
    length = 64\njitter = \"100us\"\n[gateway.g]\nrules = \"g.rules.toml\"\n";

const RULES: &str = "bus = { a = \"can0\", b = \"can1\" }\nrule = [{ from = \"a\", to = \"b\", frames = \"any\" }]\n";

struct Scene(TempDir);

impl Scene {
    fn new(network: &str, rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("n.toml"), network).unwrap();
        fs::write(folder.path().join("g.rules.toml"), rules).unwrap();
        Self(folder)
    }

    /// What a command prints on standard output and standard error, and its exit code.
    fn run(&self, arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_candor"))
            .args(["network", "show"])
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Who reads no input closes it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code())
    }
}

const SHOWN: &str = "\
A \\u{202e}car

bus  kind                        bit rate  frames/s  load at most
---  ---------  -------------------------  --------  ------------
a    CAN FD     500 kbit/s, data 2 Mbit/s     110.0         3.1 %
b    classical                 250 kbit/s     100.0         5.4 %

node    bus  queue                 messages
------  ---  --------------------  --------
Engine  a    fifo, 8 frames               2
Silent  a    priority, 200 frames         0

bus  identifier  message      sent by     kind       bytes   period   offset  jitter  longest
---  ----------  -----------  ----------  ---------  -----  -------  -------  ------  -------
a    0x100       Speed\\u{1b}  Engine      classical      8  10.0 ms  1.00 ms       -   270 us
a    0x101       Long         Engine      CAN FD        64   100 ms   random  100 us   406 us
b    0x100       Speed\\u{1b}  g (from a)  classical      8  10.0 ms        -       -   540 us
b    0x101       Long         g (from a)  CAN FD        64   100 ms        -       -     lost
";

#[test]
fn a_network_is_shown_with_everything_in_it() {
    let toml = NETWORK.replace('\u{1b}', "\\u001b");
    let scene = Scene::new(&toml, RULES);
    let (shown, findings, code) = scene.run(&["n.toml"], "");
    assert_eq!((shown.as_str(), code), (SHOWN, Some(0)));
    assert!(
        findings.contains("gateway `g` sends `Long` to bus `b` as CAN FD frames"),
        "{findings}"
    );
    // The same from standard input.
    assert_eq!(scene.run(&["-"], &toml).0, shown);
    let (json, _, _) = scene.run(&["n.toml", "--json"], "");
    for expected in [
        "{\"type\":\"network\",\"data\":{\"title\":\"A \u{202e}car\",\"buses\":2,\"nodes\":2,\"gateways\":1}}",
        r#"{"type":"node","data":{"node":"Silent","bus":"a","queue":"priority","queue_depth":200,"messages":0}}"#,
        r#""length":64,"fd":true,"period_ns":100000000,"offset_ns":null,"jitter_ns":100000,"longest_ns":null"#,
    ] {
        assert!(json.contains(expected), "{expected}\n{json}");
    }
}

#[test]
fn exit_codes_tell_what_is_wrong() {
    let names = NETWORK.replace('\u{1b}', "");
    let scene = Scene::new(&names.replace("\"Silent\"", "\"Engine\""), RULES);
    let (shown, findings, code) = scene.run(&["n.toml"], "");
    assert_eq!((shown.as_str(), code), ("", Some(1)));
    assert!(findings.ends_with("n.toml: 1 error\n"), "{findings}");
    let (_, findings, code) = scene.run(&["-"], "nonsense");
    assert!(findings.contains("-:1:") && code == Some(1), "{findings}");
    let (_, findings, code) = scene.run(&["absent.toml"], "");
    assert!(findings.contains("absent.toml: cannot be read") && code == Some(2), "{findings}");
    // Frames that go round for ever have no load.
    let back = RULES.replace("from = \"a\", to = \"b\"", "from = \"b\", to = \"a\"");
    let two = format!("{names}[gateway.h]\nrules = \"h.rules.toml\"\n");
    let scene = Scene::new(&two, RULES);
    fs::write(scene.0.path().join("h.rules.toml"), back).unwrap();
    let (shown, findings, code) = scene.run(&["n.toml"], "");
    assert_eq!((shown.as_str(), code), ("", Some(1)));
    assert!(findings.contains("g.rules.toml:2:9: error: `Speed` of node"), "{findings}");
    assert!(findings.contains("goes round for ever"), "{findings}");
    // Places are files as they are found from here.
    let path = scene.0.path().join("n.toml");
    let (_, findings, _) = scene.run(&[path.to_str().unwrap()], "");
    let rules = scene.0.path().join("g.rules.toml");
    assert!(findings.contains(&format!("{}:2:9: error: ", rules.display())), "{findings}");
}
