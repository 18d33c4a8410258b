//! Files that say what is served: TOML, with the buses and ports of rule files.
//!
//! [`parse`] tells everything that is wrong with a file at once, each finding with its place and a remedy. It opens no port
//! and reads no file but by the function that it is given.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use candor_config::{Data, Entry, Section, Value, quoted};
use candor_diagnostics::{Findings, Origin, Source as Text};
use candor_port::{Address, Medium};
use candor_signals::Database;
use candor_time::Nanos;

use crate::{BusAddress, ClientTimeouts, Config, Pace, Place, Source, WebOrigin, ingest};

/// Where it is served if nothing else is said.
pub const LISTEN: &str = "127.0.0.1:1234";
/// How long frames and events are gathered if nothing else is said.
pub const COALESCE: Nanos = Nanos::from_micros(1_500);
/// The longest time for which they may be gathered.
pub const MOST_COALESCE: Nanos = Nanos::from_secs(1);
/// The shortest and the longest time for which a client may be gone.
pub const LEAST_CLIENT_TIMEOUT: Nanos = Nanos::from_secs(1);
/// See [`LEAST_CLIENT_TIMEOUT`].
pub const MOST_CLIENT_TIMEOUT: Nanos = Nanos::from_secs(3_600);
/// Both, as people write them.
pub const CLIENT_TIMEOUT_RANGE: &str = "1s to 1h";
/// What such files are called.
pub const KIND: &str = "file of the signal service";

/// What a file calls the paces.
const PACES: [(&str, Pace); 2] = [("received", Pace::Received), ("subscribers", Pace::Subscribers)];

/// The most buses of a service.
const MOST_BUSES: usize = 1_024;

/// Reads the files that a file names, by these names; an error is a reason.
pub type Include<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// What cannot be changed while a service runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Where it is served.
    pub listen: Vec<Place>,
    /// The message buses on which it is served.
    pub dbus: Vec<BusAddress>,
    /// How long frames and events are gathered.
    pub coalesce: Nanos,
    /// The pages that may use it, beside its own.
    pub allow_origin: Vec<WebOrigin>,
    /// How long clients may be gone before their places are free again.
    pub client_timeouts: ClientTimeouts,
}

impl From<&Config> for Fixed {
    fn from(config: &Config) -> Self {
        let Config { listen, dbus, coalesce, allow_origin, client_timeouts, sources: _ } = config;
        Self {
            listen: listen.clone(),
            dbus: dbus.clone(),
            coalesce: *coalesce,
            allow_origin: allow_origin.clone(),
            client_timeouts: *client_timeouts,
        }
    }
}

/// Reads a file. `name` is what it is called in findings, and the names of DBC files are relative to its folder. With
/// `running`, it is for a service that runs already.
///
/// There is a configuration only if there are no errors.
#[must_use]
pub fn parse(
    name: &str,
    text: &str,
    include: Include<'_>,
    running: Option<&Fixed>,
) -> (Option<Config>, Findings) {
    let findings = Findings::new();
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let mut reader = Reader { findings: &findings, folder, include, databases: BTreeMap::new() };
    let config = reader.read(&Text::new(name, text), running);
    (config.filter(|_| !findings.has_errors()), findings)
}

struct Reader<'a> {
    findings: &'a Findings,
    folder: &'a Path,
    include: Include<'a>,
    /// Those that were read, by the name in the file.
    databases: BTreeMap<String, Option<Database>>,
}

impl Reader<'_> {
    fn read(&mut self, source: &Arc<Text>, running: Option<&Fixed>) -> Option<Config> {
        let document = candor_config::parse(source, self.findings)?;
        let mut root = Section::new(&document, self.findings);
        require(&mut root, "bus", "write [bus.NAME] and a port, such as port = \"can0\"");
        let listen = self.listen(&mut root);
        let dbus = self.dbus(&mut root);
        let coalesce = root.value("coalesce").map_or(Some(COALESCE), |value| self.coalesce(value));
        let buses = root.table_entries("bus");
        if buses.is_empty() && root.table().get("bus").is_some_and(|bus| bus.as_table().is_some()) {
            let hint = "write [bus.NAME] and a port, such as port = \"can0\"";
            self.findings.error_with_hint(root.origin_of("bus"), "there is no bus", hint);
        }
        let sources = self.buses(buses);
        let allow_origin = self.allow_origin(&mut root);
        let client_timeouts = self.client_timeouts(&mut root);
        let coalesce = coalesce.unwrap_or(COALESCE);
        let fixed = Fixed { listen, dbus, coalesce, allow_origin, client_timeouts };
        if let Some(running) = running.filter(|_| !self.findings.has_errors()) {
            self.compare(&root, &fixed, running);
        }
        root.finish();
        let Fixed { listen, dbus, coalesce, allow_origin, client_timeouts } = fixed;
        Some(Config { sources, listen, dbus, coalesce, allow_origin, client_timeouts })
    }

    /// What cannot be changed is what it was.
    fn compare(&self, root: &Section<'_>, fixed: &Fixed, running: &Fixed) {
        let (silence, unread) = (
            |it: &Fixed| it.client_timeouts.websocket_silence,
            |it: &Fixed| it.client_timeouts.sse_unread,
        );
        let is_changed = [
            ("listen", fixed.listen != running.listen),
            ("dbus", fixed.dbus != running.dbus),
            ("coalesce", fixed.coalesce != running.coalesce),
            ("allow_origin", fixed.allow_origin != running.allow_origin),
            ("websocket_silence", silence(fixed) != silence(running)),
            ("sse_unread", unread(fixed) != unread(running)),
        ];
        for (key, _) in is_changed.into_iter().filter(|(_, is_changed)| *is_changed) {
            let message = format!("`{key}` cannot be changed while the service runs");
            let hint = format!("restart to change {key}");
            self.findings.error_with_hint(root.origin_of(key), message, hint);
        }
    }

    fn listen(&self, root: &mut Section<'_>) -> Vec<Place> {
        root.refuse_empty("listen", format!("remove it for {LISTEN}, or name a place"));
        let mut places: Vec<Place> = Vec::new();
        if !root.has("listen") {
            places.extend(LISTEN.parse::<Place>());
        }
        for (text, origin) in root.strings("listen") {
            match text.parse::<Place>() {
                Err(reason) => {
                    let message = format!("{} is no place to serve at", quoted(text));
                    self.findings.error_with_hint(origin, message, reason);
                }
                Ok(Place::Tcp(address)) if !address.ip().to_canonical().is_loopback() => {
                    let message = format!(
                        "other machines could reach {}, and there is no password",
                        quoted(text)
                    );
                    let hint = format!("write \"127.0.0.1:{}\"", address.port());
                    self.findings.error_with_hint(origin, message, hint);
                }
                Ok(place) if places.contains(&place) => {
                    let message = format!("{} is there twice", quoted(text));
                    self.findings.error_with_hint(origin, message, "remove one of them");
                }
                Ok(place) => places.push(place),
            }
        }
        places
    }

    fn dbus(&self, root: &mut Section<'_>) -> Vec<BusAddress> {
        root.refuse_empty("dbus", "remove it, or name a message bus");
        let mut buses = Vec::new();
        for (text, origin) in root.strings("dbus") {
            match text.parse::<BusAddress>() {
                Err(reason) => {
                    let message = format!("{} is no message bus", quoted(text));
                    self.findings.error_with_hint(origin, message, reason);
                }
                Ok(bus) if buses.contains(&bus) => {
                    let message = format!("{} is there twice", quoted(text));
                    self.findings.error_with_hint(origin, message, "remove one of them");
                }
                Ok(bus) => buses.push(bus),
            }
        }
        buses
    }

    fn allow_origin(&self, root: &mut Section<'_>) -> Vec<WebOrigin> {
        let mut origins = Vec::new();
        for (text, origin) in root.strings("allow_origin") {
            match text.parse::<WebOrigin>() {
                Err(reason) => {
                    let message = format!("{} is no origin of a page", quoted(text));
                    self.findings.error_with_hint(origin, message, reason);
                }
                Ok(page) => origins.push(page),
            }
        }
        origins
    }

    fn client_timeouts(&self, root: &mut Section<'_>) -> ClientTimeouts {
        let default = ClientTimeouts::default();
        let mut time = |key: &'static str, default: Nanos| {
            let Some(value) = root.value(key) else { return default };
            let Some(time) = value.nanos(key, self.findings) else { return default };
            if !(LEAST_CLIENT_TIMEOUT..=MOST_CLIENT_TIMEOUT).contains(&time) {
                let message = format!("`{key}` is {time}");
                let hint = format!("use {CLIENT_TIMEOUT_RANGE}; {default} if it is not given");
                self.findings.error_with_hint(&value.origin, message, hint);
            }
            time
        };
        ClientTimeouts {
            websocket_silence: time("websocket_silence", default.websocket_silence),
            sse_unread: time("sse_unread", default.sse_unread),
        }
    }

    fn coalesce(&self, value: &Value) -> Option<Nanos> {
        // Zero needs no unit, as on the command line.
        match &value.data {
            Data::Integer(0) => Some(Nanos::ZERO),
            Data::String(text) if text == "0" => Some(Nanos::ZERO),
            _ => {
                let time = value.nanos("coalesce", self.findings)?;
                if time > MOST_COALESCE {
                    let message = format!("`coalesce` is more than {MOST_COALESCE}");
                    let hint =
                        format!("use at most {MOST_COALESCE}; {COALESCE} if it is not given");
                    self.findings.error_with_hint(&value.origin, message, hint);
                }
                Some(time)
            }
        }
    }

    fn buses(&mut self, entries: &[Entry]) -> Vec<Source> {
        let mut sources = Vec::new();
        let mut by_port: BTreeMap<String, &str> = BTreeMap::new();
        for entry in entries {
            if sources.len() >= MOST_BUSES {
                let message = format!("more than {MOST_BUSES} buses");
                self.findings.error_with_hint(&entry.origin, message, "use several services");
                break;
            }
            let Some((source, origin)) = self.bus(entry) else { continue };
            // Several may read one recording: options choose what of it.
            let port = match candor_drivers::medium(&source.address) {
                Some(Medium::Recording) => source.address.to_string(),
                _ => source.address.without_options().to_string(),
            };
            if let Some(other) = by_port.insert(port.clone(), &entry.key) {
                let message = format!("port `{port}` is already bus `{other}`");
                self.findings.error_with_hint(&origin, message, "give each port one bus");
            }
            sources.push(source);
        }
        sources
    }

    /// A bus, `"can0"` or a table, and where its port stands.
    fn bus(&mut self, entry: &Entry) -> Option<(Source, Origin)> {
        let name = entry.key.as_str();
        let is_bad = |c: char| c.is_control() || matches!(c, '/' | '*' | '?');
        if name.is_empty() || name.contains(is_bad) {
            let message = format!("{} is no name of a bus", quoted(name));
            let hint = "names of signals begin with it: use letters, digits, `-` and `_`";
            self.findings.error_with_hint(&entry.origin, message, hint);
        }
        let (value, database, pace) = match &entry.value.data {
            Data::Table(table) => {
                let mut section = Section::new(table, self.findings);
                require(&mut section, "port", "write one, such as port = \"can0\"");
                let value = section.value("port");
                section.refuse_empty("dbc", "remove it, or name a DBC file");
                let database = self.database(&section.strings("dbc")).map(Arc::new);
                let pace = section.one_of("pace", &PACES).unwrap_or_default();
                section.finish();
                (value, database, pace)
            }
            _ => (Some(&entry.value), None, Pace::Received),
        };
        let value = value?;
        let Some(text) = value.as_str() else {
            let expected = "a port such as \"can0\", or { port = \"can0\" }";
            value.wrong_type(name, expected, self.findings);
            return None;
        };
        let address = self.address(text, &value.origin, pace)?;
        Some((Source { name: name.to_owned(), address, database, pace }, value.origin.clone()))
    }

    /// A port, checked as far as that is possible without the machine.
    fn address(&self, text: &str, origin: &Origin, pace: Pace) -> Option<Address> {
        let address = match text.parse::<Address>() {
            Ok(address) => address,
            Err(error) => {
                let message = format!("{} is not a port: {}", quoted(text), error.reason());
                self.findings.error_with_hint(origin, message, error.remedy());
                return None;
            }
        };
        if let Err(error) = ingest::check(&address, pace) {
            let remedy = error.remedy().unwrap_or("`candor bus list` shows the kinds of ports");
            let message = format!("{}: {}", quoted(text), error.reason());
            self.findings.error_with_hint(origin, message, remedy);
        }
        Some(address)
    }

    /// What DBC files say together. Of messages that several have, the first holds.
    fn database(&mut self, names: &[(&str, &Origin)]) -> Option<Database> {
        let mut all: Option<Database> = None;
        for (name, origin) in names {
            let Some(next) = self.file(name, origin) else { continue };
            all = Some(match all {
                None => next,
                Some(before) => {
                    let (joined, doubled) = before.join(next);
                    for message in doubled {
                        let text = format!(
                            "{}: another file of the bus has the name or the identifier of message `{}`; it is left out",
                            quoted(name),
                            message.name
                        );
                        let hint = "of several, the first holds; remove it from one of the files";
                        self.findings.warning(origin, text, hint);
                    }
                    joined
                }
            });
        }
        all
    }

    /// A DBC file; what is wrong within has its place there.
    fn file(&mut self, name: &str, origin: &Origin) -> Option<Database> {
        if let Some(known) = self.databases.get(name) {
            return known.clone();
        }
        let database = match (self.include)(name) {
            Err(reason) => {
                let message = format!("{}: {reason}", quoted(name));
                let hint = "paths are relative to the folder of this file";
                self.findings.error_with_hint(origin, message, hint);
                None
            }
            Ok(bytes) => {
                let shown = self.folder.join(name).display().to_string();
                let database = Database::parse(&shown, &bytes, self.findings);
                if database.is_none() {
                    let message = format!("{} cannot be used as a DBC file", quoted(name));
                    self.findings.error_with_hint(origin, message, "name a DBC file");
                }
                database
            }
        };
        self.databases.insert(name.to_owned(), database.clone());
        database
    }
}

/// A key that must be there.
fn require(section: &mut Section<'_>, key: &'static str, hint: &str) {
    if section.value(key).is_none() {
        let message = format!("`{key}` is missing");
        section.findings().error_with_hint(section.origin(), message, hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DBC: &str =
        "BU_: A\n\nBO_ 291 Motor: 2 A\n SG_ Speed : 0|16@1+ (0.5,0) [0|100] \"rpm\" B\n";
    const DOOR: &str = "BU_: A\n\nBO_ 292 Door: 1 A\n SG_ Open : 0|1@1+ (1,0) [0|1] \"\" B\n\n\
                        BO_ 291 Again: 1 A\n SG_ X : 0|1@1+ (1,0) [0|1] \"\" B\n";

    fn read(text: &str, running: Option<&Fixed>) -> (Option<Config>, Vec<String>) {
        let include = |name: &str| match name {
            "car.dbc" => Ok(DBC.as_bytes().to_vec()),
            "door.dbc" => Ok(DOOR.as_bytes().to_vec()),
            "no.dbc" => Ok(b"hello".to_vec()),
            _ => Err("cannot be read".to_owned()),
        };
        let (config, findings) = parse("etc/s.toml", text, &include, running);
        let text = findings.to_string();
        let is_reported = |line: &&str| {
            line.contains(": error: ") || line.contains(": warning: ") || line.contains("hint:")
        };
        (config, text.lines().filter(is_reported).map(|line| line.trim().to_owned()).collect())
    }

    /// What holds without a word about it.
    fn plain() -> Fixed {
        let listen = vec![LISTEN.parse().unwrap()];
        Fixed {
            listen,
            dbus: Vec::new(),
            coalesce: COALESCE,
            allow_origin: Vec::new(),
            client_timeouts: ClientTimeouts::default(),
        }
    }

    #[test]
    fn a_file_says_what_is_served() {
        let text = "listen = [\"127.0.0.1:5\", \"unix:/run/s\"]\ncoalesce = \"2ms\"\n\
                    allow_origin = \"http://LOCALHOST:5173\"\nwebsocket_silence = \"5s\"\n[bus]\nraw = \"can2udp:127.0.0.1:0\"\n[bus.car]\nport = \"file:a.log?loop=true\"\n\
                    dbc = [\"car.dbc\", \"door.dbc\"]\n";
        let (config, findings) = read(text, None);
        let config = config.unwrap();
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("etc/s.toml:9:19: warning: \"door.dbc\""), "{findings:?}");
        assert_eq!(config.coalesce, Nanos::from_millis(2));
        assert_eq!(config.listen.len(), 2);
        assert_eq!(config.allow_origin, ["http://localhost:5173".parse().unwrap()]);
        let client_timeouts =
            ClientTimeouts { websocket_silence: Nanos::from_secs(5), ..ClientTimeouts::default() };
        assert_eq!(config.client_timeouts, client_timeouts);
        let [raw, car] = &config.sources[..] else { panic!("{config:?}") };
        assert_eq!((raw.name.as_str(), raw.database.is_none()), ("raw", true));
        let messages = car.database.as_ref().unwrap().messages();
        assert_eq!(
            messages.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
            ["Motor", "Door"]
        );
        let (config, _) = read("bus.a = \"can0\"", None);
        let fixed = Fixed::from(&config.unwrap());
        assert_eq!(fixed, plain());
        assert!(read("bus.b = \"can1\"\ncoalesce = \"1500us\"", Some(&fixed)).0.is_some());
        assert_eq!(read("bus.a = \"can0\"\ncoalesce = 0", None).0.unwrap().coalesce, Nanos::ZERO);
    }

    #[test]
    fn every_mistake_has_its_place_and_a_remedy() {
        let fixed = plain();
        for (text, expected) in [
            ("", &["etc/s.toml:1:1: error: `bus` is missing", "hint: write [bus.NAME]"][..]),
            ("[bus]", &["etc/s.toml:1:1: error: there is no bus", "hint: write [bus.NAME] and"]),
            (
                "[bus.a]\nprt = \"can0\"\n[bus.b]\nport = \"can0\"\ndbc = \"car.dbx\"",
                &[
                    "etc/s.toml:1:1: error: `port` is missing",
                    "hint: write one",
                    "etc/s.toml:2:1: error: unknown key `prt`",
                    "hint: did you mean `port`?",
                    "etc/s.toml:5:7: error: \"car.dbx\": cannot be read",
                    "hint: paths are relative",
                ],
            ),
            (
                "listn = []\nbus.a = \"can0\"\nbus.b = \"can0?buffer=5\"",
                &[
                    "etc/s.toml:1:1: error: unknown key `listn`",
                    "hint: did you mean `listen`?",
                    "etc/s.toml:3:9: error: port `can0` is already bus `a`",
                    "hint: give each port one bus",
                ],
            ),
            (
                "listen = [\"0.0.0.0:5\", \"here\"]\nbus.a = \"file:a.log?sped=2\"",
                &[
                    "etc/s.toml:1:11: error: other machines could reach \"0.0.0.0:5\"",
                    "hint: write \"127.0.0.1:5\"",
                    "etc/s.toml:1:24: error: \"here\" is no place to serve at",
                    "hint: this is neither an address",
                    "etc/s.toml:2:9: error: \"file:a.log?sped=2\": ",
                    "hint: ",
                ],
            ),
            (
                "listen = []\ncoalesce = 5\n[bus]\n\"a/b\" = \"can0\"\nc = 7",
                &[
                    "etc/s.toml:1:10: error: `listen` is empty",
                    "hint: remove it for 127.0.0.1:1234",
                    "etc/s.toml:2:12: error: `coalesce` is an integer",
                    "etc/s.toml:4:1: error: \"a/b\" is no name of a bus",
                    "hint: names of signals",
                    "etc/s.toml:5:5: error: `c` is an integer, expected a port",
                ],
            ),
            (
                "[bus.a]\nport = \"can0\"\npace = \"subscribers\"\n[bus.b]\nport = \"file:a.log?speed=2\"\n\
                 pace = \"subscribers\"\n[bus.c]\nport = \"can1\"\npace = \"slow\"",
                &[
                    "etc/s.toml:2:8: error: \"can0\": only a recording can wait for subscribers",
                    "hint: remove the pace of this port",
                    "etc/s.toml:5:8: error: \"file:a.log?speed=2\": `speed` and the pace of subscribers exclude",
                    "hint: remove one of them",
                    "etc/s.toml:9:8: error: `pace` is",
                ],
            ),
            (
                "allow_origin = [\"http://a\", \"localhost:5173\"]\nbus.a = \"can0\"",
                &[
                    "etc/s.toml:1:29: error: \"localhost:5173\" is no origin of a page",
                    "hint: the scheme is missing; write such as http://localhost:5173",
                ],
            ),
            (
                "coalesce = \"1h\"\nbus.a = \"can0\"",
                &[
                    "etc/s.toml:1:12: error: `coalesce` is more than 1s",
                    "hint: use at most 1s; 1.5ms if it is not given",
                ],
            ),
            (
                "websocket_silence = \"999ms\"\nsse_unread = \"2h\"\nbus.a = \"can0\"",
                &[
                    "etc/s.toml:1:21: error: `websocket_silence` is 999ms",
                    "hint: use 1s to 1h; 20s if it is not given",
                    "etc/s.toml:2:14: error: `sse_unread` is 7200s",
                    "hint: use 1s to 1h; 60s if it is not given",
                ],
            ),
            (
                "[bus.a]\nport = \"can0\"\ndbc = \"no.dbc\"",
                &[
                    "etc/no.dbc:1:1: error: this is not a DBC file",
                    "hint: ",
                    "etc/s.toml:3:7: error: \"no.dbc\" cannot be used",
                    "hint: name a DBC file",
                ],
            ),
        ] {
            let (config, findings) = read(text, None);
            assert!(config.is_none(), "{text}");
            assert_eq!(findings.len(), expected.len(), "{text}: {findings:#?}");
            for (finding, expected) in findings.iter().zip(expected) {
                assert!(finding.starts_with(expected), "{text}: {finding}");
            }
        }
        let (config, findings) = read(
            "listen = \"127.0.0.1:7\"\nbus.a = \"can0\"\ncoalesce = 0\nallow_origin = \"http://a\"\n\
             websocket_silence = \"21s\"\nsse_unread = \"1min\"",
            Some(&fixed),
        );
        assert!(config.is_none());
        assert_eq!(
            findings,
            [
                "etc/s.toml:1:10: error: `listen` cannot be changed while the service runs",
                "hint: restart to change listen",
                "etc/s.toml:3:12: error: `coalesce` cannot be changed while the service runs",
                "hint: restart to change coalesce",
                "etc/s.toml:4:16: error: `allow_origin` cannot be changed while the service runs",
                "hint: restart to change allow_origin",
                "etc/s.toml:5:21: error: `websocket_silence` cannot be changed while the service runs",
                "hint: restart to change websocket_silence",
            ]
        );
    }
}
