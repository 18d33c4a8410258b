//! The service as its clients see it: a UDP port in, HTTP and WebSocket out.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use candor_diagnostics::Findings;
use candor_events::binary::{self, Encoding};
use candor_linux::clock;
use candor_signal_service::client::{Client, Error, Event};
use candor_signal_service::{
    Batch, ClientTimeouts, Config, Content, Filter, Pace, Pattern, Place, Service, Source,
};
use candor_signals::Database;
use candor_time::{Monotonic, Nanos};
use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

/// No test waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);
const DBC: &str = "BU_: A\n\nBO_ 291 Motor: 2 A\n SG_ Speed : 0|16@1+ (0.5,0) [0|100] \"rpm\" B\n";

/// A service, and a way to send frames to it.
struct Bench {
    folder: TempDir,
    service: Service,
    sender: UdpSocket,
    target: SocketAddr,
}

impl Bench {
    fn new() -> Self {
        Self::with(DBC, ClientTimeouts::default())
    }

    fn with(dbc: &str, client_timeouts: ClientTimeouts) -> Self {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Free a moment ago; the kernel gives out others first.
        let target = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = format!("can2udp:127.0.0.1:{}?version=1&buffer=8000000", target.port());
        let database = Database::parse("car.dbc", dbc.as_bytes(), &Findings::new());
        let source = Source {
            name: "car".into(),
            address: address.parse().unwrap(),
            database: database.map(Arc::new),
            pace: Pace::Received,
        };
        let folder = tempfile::tempdir().unwrap();
        let service = Service::start(Config {
            sources: vec![source],
            listen: vec!["127.0.0.1:0".parse().unwrap(), Place::Unix(folder.path().join("s"))],
            dbus: Vec::new(),
            coalesce: Nanos::from_micros(1_500),
            allow_origin: vec!["http://localhost:5173".parse().unwrap()],
            client_timeouts,
        });
        Self { folder, service: service.unwrap(), sender, target }
    }

    /// Sends a frame of 2 bytes.
    fn send(&self, id: u32, number: u16) {
        self.send_data(id, &number.to_le_bytes());
    }

    /// Sends a frame of up to 8 bytes: Cogent can2udp, version 1.
    fn send_data(&self, id: u32, data: &[u8]) {
        let mut datagram = [0; 20];
        datagram[0] = 1;
        datagram[4..8].copy_from_slice(&id.to_le_bytes());
        datagram[8] = data.len() as u8;
        datagram[12..12 + data.len()].copy_from_slice(data);
        self.sender.send_to(&datagram, self.target).unwrap();
    }

    /// Sends so many frames, not faster than they are taken.
    fn flood(&self, id: u32, count: u64) {
        let before = self.service.frames();
        for number in 0..count {
            self.send(id, number as u16);
            while number % 256 == 255 && self.service.frames() < before + number {
                std::thread::yield_now();
            }
        }
    }

    fn address(&self) -> SocketAddr {
        match self.service.places()[0] {
            Place::Tcp(address) => address,
            Place::Unix(_) => panic!("the first one is an address"),
        }
    }

    fn url(&self) -> String {
        format!("ws://{}/api", self.address())
    }

    fn client(&self) -> Client {
        // On a loaded machine an answer may take longer than the 5 s that a client waits.
        let mut connected = Client::connect(&self.url());
        for _ in 1..12 {
            if connected.is_ok() {
                break;
            }
            connected = Client::connect(&self.url());
        }
        connected.unwrap()
    }

    /// A connection of which a test reads what it wants.
    fn socket(&self) -> WebSocket<TcpStream> {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        tungstenite::client(self.url(), stream).unwrap().0
    }

    fn socket_file(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// A connection with a binary sub-protocol. The buffers of its socket are small, so little is on its way while nobody
    /// reads.
    fn binary(&self, encoding: Encoding) -> Binary {
        let stream = UnixStream::connect(self.socket_file()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut request = self.url().into_client_request().unwrap();
        let protocol = HeaderValue::from_static(encoding.protocol());
        request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
        let (socket, response) = tungstenite::client(request, stream).unwrap();
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], encoding.protocol());
        Binary { encoding, socket, came: VecDeque::new() }
    }

    /// What the service answers to these bytes, until it hangs up.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn get(&self, path: &str, headers: &str) -> String {
        let host = self.address();
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"
        ))
    }
}

/// A client of a binary sub-protocol.
struct Binary {
    encoding: Encoding,
    socket: WebSocket<UnixStream>,
    came: VecDeque<binary::Message>,
}

impl Binary {
    fn call(&mut self, id: u64, verb: &str, arguments: &Value) {
        let call = binary::call(self.encoding, id, verb, arguments);
        self.socket.send(Message::binary(call)).unwrap();
    }

    /// The next message; those of a batch one by one.
    fn next(&mut self) -> binary::Message {
        loop {
            if let Some(message) = self.came.pop_front() {
                return message;
            }
            let Message::Binary(bytes) = self.socket.read().unwrap() else { continue };
            let message = binary::read(self.encoding, &bytes);
            match message.unwrap_or_else(|| panic!("{bytes:02X?}")) {
                binary::Message::Batch(messages) => self.came.extend(messages),
                message => return message,
            }
        }
    }
}

/// Whatever a client speaks, it reads the numbers that were in the frames: ends of the range, and others spread over all bits.
#[test]
fn numbers_arrive_to_the_last_bit() {
    const DBC: &str = "BU_: A\n\nBO_ 291 Motor: 8 A\n SG_ Speed : 0|64@1- (1,0) [0|0] \"\" B\n\n\
                       SIG_VALTYPE_ 291 Speed : 2;\n";
    let ends =
        [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -12.284_937_858_581_543, f64::INFINITY];
    // Multiples of an odd number near the golden ratio.
    let spread = (1..2_000_u64).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let values: Vec<f64> = ends.into_iter().chain(spread.map(f64::from_bits)).collect();
    let bench = Bench::with(DBC, ClientTimeouts::default());
    for encoding in [None, Some(Encoding::Cbor), Some(Encoding::MessagePack)] {
        let mut client = Client::connect_with(&bench.url(), encoding).unwrap();
        client.subscribe(&["Motor.*".to_owned()], false).unwrap();
        for values in values.chunks(100) {
            values.iter().for_each(|value| bench.send_data(291, &value.to_le_bytes()));
            for expected in values {
                let Event::Signal { value, .. } = client.next_event().unwrap() else { panic!() };
                let expected = expected.is_finite().then_some(expected.to_bits());
                assert_eq!(value.map(f64::to_bits), expected, "{encoding:?}");
            }
        }
    }
}

#[test]
fn events_come_in_binary_with_names_before_them() {
    for encoding in Encoding::ALL {
        let bench = Bench::new();
        let mut client = bench.binary(encoding);
        client.call(1, "subscribe", &json!({"event": "Motor.*"}));
        let names = json!({"topics": 1, "names": [[0, "Motor.Speed"]]});
        assert_eq!(client.next(), binary::Message::Reply(1, Ok(names)));
        client.call(2, "subscribe", &json!({"id": "*"}));
        let names = json!({"topics": 0, "names": []});
        assert_eq!(client.next(), binary::Message::Reply(2, Ok(names)));
        bench.send(291, 25);
        assert_eq!(client.next(), binary::Message::Name(1, "car/291".to_owned()));
        let binary::Message::Base(base_us) = client.next() else { panic!() };
        let binary::Message::Event { topic: 1, time_us, ordinal: 0, content } = client.next()
        else {
            panic!()
        };
        assert_eq!(content, binary::Content::Data(vec![25, 0]));
        assert!(base_us + u64::from(time_us) > 1_600_000_000_000_000);
        let binary::Message::Event { topic: 0, content, .. } = client.next() else { panic!() };
        assert_eq!(content, binary::Content::Value(12.5, None));
        client.call(3, "stats", &Value::Null);
        let binary::Message::Reply(3, Ok(stats)) = client.next() else { panic!() };
        assert_eq!(stats["subscribers"][0]["format"], encoding.name());
        assert_eq!(stats["subscribers"][0]["delivered"], 2);
        client.call(4, "subscribe", &json!({"event": "Motro.*"}));
        let binary::Message::Reply(4, Err(reason)) = client.next() else { panic!() };
        assert!(reason.contains("no signal is called `Motro.*`"), "{reason}");
        client.call(5, "get", &Value::Null);
        let binary::Message::Reply(5, Ok(values)) = client.next() else { panic!() };
        assert_eq!(values[0]["value"], 12.5);
        // Text is none of the protocol.
        client.socket.send(Message::text("[2,6,\"list\"]")).unwrap();
        let Message::Close(Some(frame)) = client.socket.read().unwrap() else { panic!() };
        assert_eq!(frame.reason.as_str(), "invalid-frame");
    }
}

/// Server-Sent Events, as they come.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn new(bench: &Bench, query: &str) -> Self {
        let host = bench.address();
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // The older version has no chunks in the body.
        let request = format!("GET /events{query} HTTP/1.0\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(stream));
        let head = events.block("\r\n");
        assert!(head[0].ends_with("200 OK"), "{head:?}");
        assert!(head.contains(&"content-type: text/event-stream".to_owned()), "{head:?}");
        events
    }

    /// The lines up to an empty one.
    fn block(&mut self, end: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended: {lines:?}");
            match line.strip_suffix(end).unwrap() {
                "" => return lines,
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// The name of the next event, and its data.
    fn next(&mut self) -> (String, Value) {
        let (mut name, mut data) = (String::new(), Value::Null);
        for line in self.block("\n") {
            match line.split_once(": ").unwrap() {
                ("event", value) => name = value.to_owned(),
                ("data", value) => data = serde_json::from_str(value).unwrap(),
                _ => panic!("{line}"),
            }
        }
        (name, data)
    }
}

#[test]
fn events_stream_to_who_only_asks() {
    let bench = Bench::new();
    let mut signals = Stream::new(&bench, "?name=Motor%2E*&min=10");
    let mut frames = Stream::new(&bench, "?raw");
    bench.send(291, 2);
    bench.send(291, 25);
    let (name, data) = signals.next();
    assert_eq!(
        (name.as_str(), &data["name"], &data["value"]),
        ("", &json!("Motor.Speed"), &json!(12.5))
    );
    assert_eq!(data["ordinal"], 1);
    assert!(data["timestamp"].as_u64().unwrap() > 1_600_000_000_000_000);
    let (_, data) = frames.next();
    assert_eq!((&data["name"], &data["id"]), (&json!("car/291"), &json!(291)));
    assert_eq!((&data["data"], &data["ordinal"]), (&json!([2, 0]), &json!(0)));
    let mut client = bench.client();
    let stats = client.call("stats", &Value::Null).unwrap();
    assert_eq!(stats["subscribers"][0]["format"], "sse");
    assert_eq!(stats["subscribers"][0]["delivered"], 1);
    // Who leaves wants no more.
    drop((signals, frames));
    while client.call("stats", &Value::Null).unwrap()["subscribers"] != json!([]) {
        bench.send(291, 25);
    }
    for (query, reason) in [
        ("?name=Motro.*", "no signal is called `Motro.*`"),
        ("?interval=5", "`interval=5` is no time; use such as interval=100ms"),
        ("?speed=1", "`speed` is unknown; there are name,"),
    ] {
        let answer = bench.get(&format!("/events{query}"), "");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(reason), "{answer}");
    }
}

#[test]
fn counts_are_exact_in_a_stream_too() {
    let bench = Bench::new();
    let mut stream = Stream::new(&bench, "?raw&every=2");
    let count = 200_000;
    bench.flood(5, count);
    let (mut came, mut missed, mut next) = (0, 0, 0);
    // The last one may be left out.
    while next + 2 < count {
        let (name, data) = stream.next();
        if name == "missed" {
            missed += data["missed"].as_u64().unwrap();
            assert_eq!(data["total"], missed);
        } else {
            came += 1;
            next = data["ordinal"].as_u64().unwrap() + 1;
        }
    }
    assert!(missed > 0, "the test did not fill the log");
    // One of two came; each gap makes it one more or less.
    let left = count - missed;
    assert!(left / 2 <= came + 1 && came <= left.div_ceil(2), "{came} {missed}");
    let stats = bench.client().call("stats", &Value::Null).unwrap();
    let own = &stats["subscribers"][0];
    // The last one may have come since.
    let late = own["delivered"].as_u64().unwrap() - came;
    assert!(late == 0 || late == 1 && next + 2 == count, "{late} {next}");
    assert_eq!(own["missed"], missed);
}

#[test]
fn counts_are_exact_in_binary_too() {
    for (encoding, is_batched) in Encoding::ALL.into_iter().zip([false, true]) {
        let bench = Bench::new();
        let mut client = bench.binary(encoding);
        let wanted = json!({"id": "*", "batch": is_batched});
        client.call(1, "subscribe", &wanted);
        assert!(matches!(client.next(), binary::Message::Reply(1, Ok(_))));
        let count = 150_000;
        bench.flood(5, count);
        client.call(2, "stats", &Value::Null);
        let (mut came, mut missed, mut last) = (0, 0, None);
        loop {
            match client.next() {
                binary::Message::Missed(more, _) => missed += more,
                binary::Message::Event { ordinal, .. } => {
                    let is_next = last.is_none_or(|last: u8| ordinal == last.wrapping_add(1));
                    assert!(is_next || missed > 0, "{last:?} {ordinal}");
                    last = Some(ordinal);
                    came += 1;
                }
                binary::Message::Name(0 | 1, _) | binary::Message::Base(_) => {}
                binary::Message::Reply(2, Ok(_)) => client.call(3, "stats", &Value::Null),
                // Everything before this has been taken, once nothing waits.
                binary::Message::Reply(_, Ok(stats)) => {
                    let own = &stats["subscribers"][0];
                    if own["waiting"] == 0 {
                        assert_eq!(own["missed"], missed);
                        assert_eq!(own["delivered"], came);
                        break;
                    }
                    client.call(3, "stats", &Value::Null);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(missed > 0, "the test did not fill the log");
        assert_eq!(came + missed, count, "{encoding:?} {is_batched}");
    }
}

#[test]
fn clients_come_by_unix_sockets_in_each_format() {
    let bench = Bench::new();
    let url = format!("unix:{}", bench.socket_file().display());
    for encoding in [None, Some(Encoding::Cbor), Some(Encoding::MessagePack)] {
        let mut client = Client::connect_with(&url, encoding).unwrap();
        client.subscribe(&["Motor.*".to_owned()], false).unwrap();
        client.call("subscribe", &json!({"id": 291})).unwrap();
        bench.send(291, 25);
        let event = client.next_event().unwrap();
        assert_eq!(event, Event::Frame { name: "car/291".into(), data: vec![25, 0] });
        let event = client.next_event().unwrap();
        let Event::Signal { name, value, text, timestamp_us } = event else { panic!("{event:?}") };
        assert_eq!((&*name, value, text), ("Motor.Speed", Some(12.5), None));
        assert!(timestamp_us > 1_600_000_000_000_000);
        let refused = client.call("subscribe", &json!({"event": "Motro"})).unwrap_err();
        assert!(refused.to_string().contains("no signal is called `Motro`"), "{refused}");
    }
    // No page is behind such a socket.
    let mut stream = UnixStream::connect(bench.socket_file()).unwrap();
    let request = "GET /values HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn a_unix_socket_is_its_users_and_replaced_only_if_nobody_listens() {
    let start = |place: &Place| {
        let listen = vec![place.clone()];
        Service::start(Config {
            sources: Vec::new(),
            listen,
            dbus: Vec::new(),
            coalesce: Nanos::ZERO,
            allow_origin: Vec::new(),
            client_timeouts: ClientTimeouts::default(),
        })
    };
    let refused = |place: &Place| start(place).unwrap_err().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made").join("s");
    let place: Place = format!("unix:{}", path.display()).parse().unwrap();
    let service = start(&place).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let reason = refused(&place);
    assert!(
        reason.contains("already runs with this")
            && reason.contains("name another socket with --listen"),
        "{reason}"
    );
    drop(service);
    assert!(!path.exists());
    // Somebody else's, in use and then not.
    let other = UnixListener::bind(&path).unwrap();
    let reason = refused(&place);
    assert!(reason.contains(&format!("(process {})", std::process::id())), "{reason}");
    drop(other);
    let service = start(&place).unwrap();
    // What is there in the end may be another one.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    drop(service);
    let reason = refused(&place);
    assert!(reason.contains("a file that is not a socket has this name"), "{reason}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let long = Place::Unix(folder.path().join("x".repeat(100)));
    assert!(refused(&long).contains("cannot create the socket"));
    let deep = Place::Unix(folder.path().join("a/b/s"));
    assert!(refused(&deep).contains("cannot open its folder"));
    for text in ["unix:", "nowhere", "127.0.0.1"] {
        assert!(text.parse::<Place>().is_err(), "{text}");
    }
}

#[test]
fn another_path_is_told_from_no_service() {
    let bench = Bench::new();
    for path in ["/", "/nothing"] {
        let url = bench.url().replace("/api", path);
        let error = Client::connect(&url).unwrap_err();
        assert!(matches!(error, Error::Path(..)), "{error}");
        assert!(error.to_string().contains("name the path /api"), "{error}");
    }
}

#[test]
fn signals_are_subscribed_to_and_come() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.subscribe(&["Motor.*".to_owned()], false).unwrap();
    bench.send(291, 25);
    let event = client.next_event().unwrap();
    let Event::Signal { name, value, text, timestamp_us } = event else { panic!("{event:?}") };
    assert_eq!((&*name, value, text), ("Motor.Speed", Some(12.5), None));
    assert!(timestamp_us > 1_600_000_000_000_000);
    let list = client.call("list", &Value::Null).unwrap();
    assert_eq!(
        list["signals"],
        json!([{"name": "Motor.Speed", "bus": "car", "unit": "rpm", "id": 291}])
    );
    assert_eq!(
        list["frames"],
        json!([{"name": "car/291", "bus": "car", "id": 291, "extended": false}])
    );
    assert_eq!(client.call("get", &json!({"event": "Motor.*"})).unwrap()[0]["value"], 12.5);
    // As redpesk's canbus-binding answers.
    let got = client.call("get", &json!({"event": "Motor.Speed"})).unwrap();
    assert_eq!((&got[0]["event"], &got[0]["value"]), (&json!("Motor.Speed"), &json!(12.5)));
    let names = client.call("list", &json!({"event": "Motor.*"})).unwrap();
    assert_eq!(names, json!(["Motor.Speed"]));
    let refused = client.call("list", &json!({"event": "Motro.*"})).unwrap_err();
    assert!(refused.to_string().contains("no signal is called"), "{refused}");
    // A subscription that is made again has another filter, and is no further one.
    for every in 0..1_100 {
        let arguments = json!({"event": "Motor.Speed", "filter": {"every": every % 7 + 1}});
        client.call("subscribe", &arguments).unwrap();
    }
    let stats = client.call("stats", &Value::Null).unwrap();
    assert_eq!(stats["buses"][0]["frames"], 1);
    assert_eq!(stats["subscribers"][0]["delivered"], 1);
    client.call("unsubscribe", &json!({"event": "Motor.*"})).unwrap();
    for (verb, arguments, reason) in [
        ("unsubscribe", json!({"event": "Motor.*"}), "no such subscription"),
        ("subscribe", json!({"event": "Motro.*"}), "no signal is called `Motro.*`"),
        ("subscribe", json!({}), "nothing to subscribe to"),
        ("write", json!({}), "`write` is no verb"),
    ] {
        match client.call(verb, &arguments) {
            Err(Error::Refused(info)) => assert!(info.contains(reason), "{info}"),
            other => panic!("{verb} {arguments}: {other:?}"),
        }
    }
    let values = bench.get("/values?name=Motor%2E*", "");
    assert!(
        values.starts_with("HTTP/1.1 200 OK\r\n") && values.contains("\"value\":12.5"),
        "{values}"
    );
}

#[test]
fn a_subscriber_that_does_not_read_is_told_what_it_missed_and_slows_nobody() {
    // However slow this machine is, it is not silent for too long.
    let websocket_silence = Nanos::from_secs(3_600);
    let bench = Bench::with(DBC, ClientTimeouts { websocket_silence, ..ClientTimeouts::default() });
    let mut good = bench.client();
    let mut slow = bench.client();
    for client in [&mut good, &mut slow] {
        client.call("subscribe", &json!({"id": "*"})).unwrap();
    }
    // More than the log and the buffers of the kernel hold.
    let count = 200_000;
    let reader = std::thread::spawn(move || {
        let (mut came, mut missed) = (0, 0);
        while came + missed < count {
            match good.next_event().unwrap() {
                Event::Missed(more) => missed += more,
                _ => came += 1,
            }
        }
        (came, missed)
    });
    bench.flood(5, count);
    // The good one is behind by what its thread has not read, and by nothing else.
    let (came, missed) = reader.join().unwrap();
    assert_eq!(came + missed, count);
    // Others see what it misses while it does not come to look.
    let stats = bench.client().call("stats", &Value::Null).unwrap();
    let of_slow = stats["subscribers"].as_array().unwrap().iter().find(|it| it["id"] == 2).unwrap();
    let number = |key: &str| of_slow[key].as_u64().unwrap();
    assert!(number("missed") > 0, "{of_slow}");
    assert_eq!(number("delivered") + number("missed") + number("waiting"), count, "{of_slow}");
    let (mut came, mut missed, mut before) = (0, 0, None);
    while came + missed < count {
        match slow.next_event().unwrap() {
            Event::Missed(more) => {
                missed += more;
                before.get_or_insert(came);
            }
            _ => came += 1,
        }
    }
    assert_eq!(came + missed, count);
    // The service, its socket and the one of the client hold 400 KiB together, of 117 bytes an event; it would be megabytes if
    // the kernel had its way.
    let before = before.expect("the test did not fill the log");
    assert!(before * 117 < 512 << 10, "{before} events were on their way");
}

#[test]
fn what_breaks_the_protocol_ends_the_connection_as_agl_does() {
    let bench = Bench::new();
    for (message, reason) in [
        (Message::text("no json"), "invalid-frame"),
        (Message::text("[2,\"1\",\"verb\",{}]"), "invalid-frame"),
        (Message::binary(vec![1]), "invalid-frame"),
        (Message::text("[3,\"7\",{}]"), "unbound-call-id"),
    ] {
        let mut socket = bench.socket();
        socket.send(message.clone()).unwrap();
        match socket.read().unwrap() {
            Message::Close(Some(frame)) => {
                assert_eq!((frame.code, frame.reason.as_str()), (CloseCode::Policy, reason));
            }
            other => panic!("{message:?}: {other:?}"),
        }
    }
    // Too long, or no frames at all: the connection ends, and others live.
    let mut socket = bench.socket();
    let _ = socket.send(Message::text("x".repeat(1 << 20)));
    assert!(socket.read().map_or(true, |message| message.is_close()));
    let mut stream = bench.socket().into_inner();
    stream.write_all(&[0xFF; 4_096]).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert!(bench.client().call("auth", &Value::Null).is_ok());
}

#[test]
fn pages_of_others_and_other_machines_are_refused() {
    let bench = Bench::new();
    let host = bench.address();
    let page = bench.get("/", "");
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("content-security-policy"),
        "{page}"
    );
    for (path, headers, status) in [
        ("/", "Origin: http://elsewhere.example\r\n".to_owned(), "403"),
        ("/", format!("Origin: http://{host}\r\n"), "200"),
        // What a page embeds has no origin.
        ("/events?name=*", "Sec-Fetch-Site: cross-site\r\n".to_owned(), "403"),
        ("/values", "Sec-Fetch-Site: same-origin\r\n".to_owned(), "200"),
        ("/api", String::new(), "426"),
        ("/absent", String::new(), "404"),
    ] {
        let answer = bench.get(path, &headers);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {headers}: {answer}");
    }
    // Names that somebody else can make lead here, also for the WebSocket.
    for (host, path) in
        [("elsewhere.example", "/"), ("127.evil.com", "/values"), ("127.0.0.1.evil.com", "/api")]
    {
        let upgrade = "Connection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        let answer = bench.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{host}: {answer}");
    }
    // A page that is allowed gets what it asks for, and the browser lets it have that.
    let answer = bench.get("/values", "Origin: http://localhost:5173\r\n");
    let allowed = "\r\naccess-control-allow-origin: http://localhost:5173\r\n";
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(allowed), "{answer}");
    let answer =
        bench.ask(&format!("POST / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    let refused = Service::start(Config {
        sources: Vec::new(),
        listen: vec!["0.0.0.0:0".parse().unwrap()],
        dbus: Vec::new(),
        coalesce: Nanos::ZERO,
        allow_origin: Vec::new(),
        client_timeouts: ClientTimeouts::default(),
    });
    assert!(refused.unwrap_err().to_string().contains("other machines could reach it"));
}

#[test]
fn who_sends_half_a_request_is_hung_up_on_and_keeps_nobody_out() {
    let bench = Bench::new();
    let slow: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(bench.address()).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: 127").unwrap();
            stream
        })
        .collect();
    assert!(bench.get("/values", "").starts_with("HTTP/1.1 200"));
    for mut stream in slow {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // The end, and not the time limit of the test.
        assert!(stream.read_to_end(&mut Vec::new()).is_ok());
    }
}

#[test]
fn who_asks_and_does_not_read_is_not_answered_for_ever() {
    let bench = Bench::new();
    // Identifiers make the answer long.
    for id in 0..2_000 {
        bench.send(id, 0);
    }
    while bench.service.frames() < 2_000 {
        std::thread::yield_now();
    }
    let mut socket = bench.socket();
    socket.get_mut().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    // Until the service reads no more, and the buffers of the kernel are full: 200 MB of answers at most.
    let mut asked = 0;
    while asked < 2_000 && socket.send(Message::text("[2,\"1\",\"low-can/list\",null]")).is_ok() {
        asked += 1;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let resident_kb: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(resident_kb < 150_000, "{asked} asked, {line}");
    assert!(bench.client().call("auth", &Value::Null).is_ok());
}

#[test]
fn a_subscriber_in_the_process_gets_frames_and_signals_and_ends_with_the_service() {
    let bench = Bench::new();
    let mut local = bench.service.local().unwrap();
    assert_eq!(local.subscribe(Pattern::Name("Motor.*".into()), Filter::default(), false), 1);
    assert_eq!(local.subscribe(Pattern::Raw, Filter::default(), false), 0);
    bench.flood(0x123, 1_000);
    let reader = std::thread::spawn(move || {
        let (mut batch, mut frames, mut signals) = (Batch::default(), 0, 0);
        while local.next_batch(&mut batch) {
            assert_eq!(batch.missed, 0);
            for event in batch.events() {
                match (local.name(event.topic), event.content) {
                    ("car/291", Content::Data(&[low, high])) => {
                        assert_eq!(
                            (u64::from(u16::from_le_bytes([low, high])), frames),
                            (frames, event.ordinal)
                        );
                        frames += 1;
                    }
                    ("Motor.Speed", Content::Value(value, None)) => {
                        assert_eq!((value, signals), (signals as f64 / 2.0, event.ordinal));
                        signals += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        (frames, signals, local.counts().delivered)
    });
    while bench.service.frames() < 1_000 {
        std::thread::yield_now();
    }
    drop(bench);
    assert_eq!(reader.join().unwrap(), (1_000, 1_000, 2_000));
}

#[test]
fn a_recording_waits_for_its_slowest_subscriber() {
    // More events than the log holds, and more bytes.
    const FRAMES: u64 = 150_000;
    let bench = Bench::new();
    let path = bench.folder.path().join("a.log");
    let line =
        |at: u64| format!("(1000.{:06}) can0 123#{:02X}{:02X}\n", at, at & 0xFF, at >> 8 & 0xFF);
    std::fs::write(&path, (0..FRAMES).map(line).collect::<String>()).unwrap();
    let source = Source {
        name: "car".into(),
        address: format!("file:{}", path.display()).parse().unwrap(),
        database: Database::parse("car.dbc", DBC.as_bytes(), &Findings::new()).map(Arc::new),
        pace: Pace::Subscribers,
    };
    let Bench { mut service, folder, .. } = bench;
    service.change(vec![source]).unwrap();
    let Some(Place::Tcp(address)) = service.places().first() else { panic!() };
    let url = format!("ws://{address}/api");
    let mut local = service.local().unwrap();
    local.subscribe(Pattern::Name("Motor.*".into()), Filter::default(), false);
    let fast = std::thread::spawn(move || {
        let (mut batch, mut count) = (Batch::default(), 0);
        while count < FRAMES && local.next_batch(&mut batch) {
            assert_eq!(batch.missed, 0);
            count += batch.events().count() as u64;
        }
        count
    });
    let mut slow = Client::connect(&url).unwrap();
    let reply = slow.call("subscribe", &json!({ "id": "*" }));
    assert!(reply.is_ok(), "{reply:?}");
    // It may have come late: then the first frames were not for it. From then on, it gets all.
    let mut next = None;
    loop {
        let event = slow.next_event().unwrap();
        let Event::Frame { data, .. } = event else { panic!("{event:?}") };
        let number = u16::from_le_bytes([data[0], data[1]]);
        assert_eq!(number, next.unwrap_or(number));
        next = Some(number.wrapping_add(1));
        if number % 20_000 == 0 {
            let later = clock::now::<Monotonic>() + Nanos::from_millis(20);
            clock::sleep_until(later).unwrap();
        }
        if service.frames() == FRAMES && u64::from(number) == (FRAMES - 1) & 0xFFFF {
            break;
        }
    }
    assert_eq!(fast.join().unwrap(), FRAMES);
    drop(folder);
}

#[test]
fn subscribers_are_told_that_the_service_ends() {
    let bench = Bench::new();
    let mut idle = bench.socket();
    let mut subscribed = bench.socket();
    subscribed.send(Message::text(r#"[2,"1","low-can/subscribe",{"id":"*"}]"#)).unwrap();
    assert!(subscribed.read().unwrap().to_text().unwrap().starts_with("[3,\"1\""));
    // It reads nothing, and keeps nobody up.
    let mut deaf = bench.socket();
    deaf.send(Message::text(r#"[2,"1","low-can/subscribe",{"id":"*"}]"#)).unwrap();
    bench.flood(5, 1_000);
    while bench.service.frames() < 1_000 {
        std::thread::yield_now();
    }
    drop(bench);
    for socket in [&mut idle, &mut subscribed] {
        let close = loop {
            match socket.read().unwrap() {
                Message::Close(close) => break close.unwrap(),
                Message::Text(text) => assert!(text.starts_with("[5,"), "{text}"),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((close.code, close.reason.as_str()), (CloseCode::Away, "the service ends"));
    }
}

/// A DBC file of so many messages with ten signals each, from identifier 256 on.
fn large(messages: u32) -> String {
    let signal =
        |number: u32| format!(" SG_ Signal{number} : 0|16@1+ (0.5,{number}) [0|0] \"rpm\" A\n");
    let signals: String = (0..10).map(signal).collect();
    let message = |number: u32| format!("\nBO_ {} Message{number}: 8 A\n{signals}", 256 + number);
    format!("BU_: A\n{}", (0..messages).map(message).collect::<String>())
}

#[test]
fn long_calls_hold_up_nobody_and_their_answers_are_what_short_ones_say() {
    const MESSAGES: u32 = 500;
    let bench = Bench::with(&large(MESSAGES), ClientTimeouts::default());
    for id in 0..MESSAGES {
        bench.send(256 + id, id as u16);
    }
    while bench.service.frames() < u64::from(MESSAGES) {
        std::thread::yield_now();
    }
    let mut client = bench.client();
    let all = client.call("get", &json!({"event": "*"})).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 5_000);
    for (id, long) in all.chunks(10).enumerate() {
        let short = client.call("get", &json!({"event": format!("Message{id}.*")})).unwrap();
        assert_eq!(short.as_array().unwrap(), long);
    }
    let listed = client.call("list", &Value::Null).unwrap();
    assert_eq!(listed["signals"].as_array().unwrap().len(), 5_000);
    // A connection may have 1,000 patterns, of which equal ones count once.
    client.call("subscribe", &json!({ "event": "Message1.Signal1" })).unwrap();
    let equal = client.call("subscribe", &json!({ "event": vec!["Message1.*"; 1_000] })).unwrap();
    assert_eq!(equal["topics"], 10);
    let many = (0..1_000).map(|number| format!("Message{}.Signal{}", number / 10, number % 10));
    let many: Vec<_> = many.collect();
    assert!(client.call("subscribe", &json!({ "event": many })).is_err());
    for name in ["Message1.*", "Message1.Signal1"] {
        client.call("unsubscribe", &json!({ "event": name })).unwrap();
    }
    let address = bench.address();
    // Each takes some signals, and all of them have to be looked at for it.
    let globs: Vec<_> = (0..300).map(|number| format!("*e{number}.*1")).collect();
    for (verb, arguments) in [
        ("list", Value::Null),
        ("get", json!({"event": "*"})),
        ("subscribe", json!({ "event": globs })),
        ("list", json!({ "event": globs })),
        ("get", json!({ "event": globs })),
    ] {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut greedy = bench.socket();
        let call = json!([2, "1", format!("low-can/{verb}"), arguments]).to_string();
        let answers = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut answers = 0;
                while !is_over.load(Ordering::Relaxed) {
                    greedy.send(Message::text(call.clone())).unwrap();
                    while !greedy.read().unwrap().is_text() {}
                    answers += 1;
                }
                answers
            }
        });
        let begin = clock::now::<Monotonic>();
        let mut requests = 0;
        while clock::now::<Monotonic>() < begin + Nanos::from_secs(2) {
            client.call("get", &json!({"event": "Message1.Signal1"})).unwrap();
            requests += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        let answers = answers.join().unwrap();
        // If long answers held it up, there would be one request for each of them.
        assert!(answers > 0 && requests > 3 * answers, "{verb}: {requests} {answers}");
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET /values?name=* HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(body).unwrap().as_array().unwrap(), all);
}

/// A subscriber that takes something and then waits, until it is told to end. Whether it was let go on all the time.
fn slow(
    mut take: impl FnMut() -> bool + Send + 'static,
    is_over: &Arc<AtomicBool>,
) -> JoinHandle<bool> {
    let is_over = Arc::clone(is_over);
    std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            if !take() {
                return false;
            }
            clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(100)).unwrap();
        }
        true
    })
}

/// Whatever room sockets have: of newest values, little is on its way to who does not read, and then the newest come.
#[test]
fn who_wants_newest_values_is_sent_few_that_it_does_not_read() {
    const IDS: u32 = 300;
    const ROUNDS: u16 = 40;
    let bench = Bench::new();
    let mut socket = bench.socket();
    let subscribe = r#"[2,"1","low-can/subscribe",{"id":"*","latest":true}]"#;
    socket.send(Message::text(subscribe)).unwrap();
    assert!(socket.read().unwrap().to_text().unwrap().starts_with("[3,\"1\""));
    for round in 0..ROUNDS {
        for id in 0..IDS {
            bench.send(id, round);
        }
        while bench.service.frames() < u64::from(IDS) * (u64::from(round) + 1) {
            std::thread::yield_now();
        }
    }
    // The answer comes behind all that is on its way.
    socket.send(Message::text(r#"[2,"2","low-can/auth",null]"#)).unwrap();
    let mut bytes = 0;
    let mut newest = vec![None; IDS as usize];
    loop {
        let message = socket.read().unwrap();
        let Message::Text(text) = message else { continue };
        if text.starts_with("[3,\"2\"") {
            break;
        }
        bytes += text.len();
    }
    // 64 KiB, and the round before which it was less.
    assert!(bytes < (64 << 10) + IDS as usize * 130, "{bytes} bytes");
    while newest.iter().any(|round| *round != Some(ROUNDS - 1)) {
        let Message::Text(text) = socket.read().unwrap() else { continue };
        let event: Value = serde_json::from_str(&text).unwrap();
        let data = &event[2]["data"];
        let (id, low) = (data["id"].as_u64().unwrap(), data["data"][0].as_u64().unwrap());
        let round = low as u16;
        let before = newest[id as usize].replace(round);
        assert!(before.is_none_or(|before| before < round), "each once, and in order");
    }
}

#[test]
fn who_is_gone_without_a_word_leaves_and_who_is_slow_stays() {
    let limit = Nanos::from_secs(4);
    let bench = Bench::with(DBC, ClientTimeouts { websocket_silence: limit, sse_unread: limit });
    let call = r#"[2,"1","low-can/subscribe",{"id":"*"}]"#;
    let subscribed = || {
        let mut socket = bench.socket();
        socket.send(Message::text(call)).unwrap();
        assert!(socket.read().unwrap().to_text().unwrap().starts_with("[3,\"1\""));
        socket
    };
    let streamed = |query| Stream::new(&bench, query).0.into_inner();
    let mut watcher = bench.client();
    // Those that are gone read nothing more: with events that wait for them, and without any.
    let mut gone: Vec<_> = [subscribed(), subscribed()].map(WebSocket::into_inner).into();
    gone.push(streamed("?raw"));
    let mut idle = bench.socket();
    idle.send(Message::text(call.replace("\"*\"", "9"))).unwrap();
    assert!(idle.read().unwrap().to_text().unwrap().starts_with("[3,\"1\""));
    gone.push(idle.into_inner());
    // One sends a byte of a long message now and then, which never comes.
    let mut idle = bench.socket();
    idle.send(Message::text(call.replace("\"*\"", "9"))).unwrap();
    assert!(idle.read().unwrap().to_text().unwrap().starts_with("[3,\"1\""));
    let mut dribbling = idle.into_inner();
    gone.push(dribbling.try_clone().unwrap());
    // Text, whole, masked, of 60,000 bytes.
    dribbling.write_all(&[0x81, 0xFE, 0xEA, 0x60, 0, 0, 0, 0]).unwrap();
    // Those that stay read little at once; one answers pings and has no events; nothing is to be read in a stream.
    let is_over = Arc::new(AtomicBool::new(false));
    // Its ping comes behind events; not far behind, as the buffers of such a socket are small.
    let stream = UnixStream::connect(bench.socket_file()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut socket = tungstenite::client(bench.url(), stream).unwrap().0;
    socket.send(Message::text(call)).unwrap();
    let by_messages = move || (0..500).all(|_| socket.read().is_ok());
    let mut stream = streamed("?raw");
    let by_bytes = move || matches!(stream.read(&mut [0; 64 << 10]), Ok(1..));
    let slow = [slow(by_messages, &is_over), slow(by_bytes, &is_over)];
    let mut patient = bench.socket();
    patient.send(Message::text(call.replace("\"*\"", "9"))).unwrap();
    let patient = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut pings = 0;
            while let Ok(message) = patient.read() {
                pings += u32::from(message.is_ping());
                if message.is_ping() && is_over.load(Ordering::Relaxed) {
                    return pings;
                }
            }
            0
        }
    });
    let quiet = streamed("?id=9");
    let begin = clock::now::<Monotonic>();
    let subscribers = loop {
        bench.flood(5, 2_000);
        let _ = dribbling.write(b"x");
        let stats = watcher.call("stats", &Value::Null).unwrap();
        let subscribers = stats["subscribers"].as_array().unwrap().len();
        // Long enough for who stays to be hung up on.
        let took = clock::now::<Monotonic>() - begin;
        if subscribers <= 4 && took > Nanos::from_secs(10) || took > Nanos::from_secs(60) {
            break subscribers;
        }
    };
    assert_eq!(subscribers, 4);
    is_over.store(true, Ordering::Relaxed);
    // Who waits for events goes on.
    bench.flood(5, 1_000);
    for slow in slow {
        assert!(slow.join().unwrap(), "who reads slowly stays");
    }
    assert!(patient.join().unwrap() > 1, "who answers pings stays");
    drop(quiet);
    for mut stream in gone {
        // The end is there, whatever came before it.
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let end = stream.read_to_end(&mut Vec::new());
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(end.is_ok() || end.as_ref().is_err_and(is_reset), "{end:?}");
    }
}

/// A service of a recording, served at an address, and its folder.
fn recording(lines: &str, dbc: Option<&str>, coalesce: Nanos) -> (Service, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    std::fs::write(&path, lines).unwrap();
    let source = Source {
        name: "car".into(),
        address: format!("file:{}?speed=max", path.display()).parse().unwrap(),
        database: dbc
            .and_then(|dbc| Database::parse("car.dbc", dbc.as_bytes(), &Findings::new()))
            .map(Arc::new),
        pace: Pace::Received,
    };
    let service = Service::start(Config {
        sources: vec![source],
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        dbus: Vec::new(),
        coalesce,
        allow_origin: Vec::new(),
        client_timeouts: ClientTimeouts::default(),
    });
    (service.unwrap(), folder)
}

/// A client, and what is told when the recording is over.
fn over(service: &mut Service) -> (Client, Vec<String>) {
    let Some(Place::Tcp(address)) = service.places().first() else { panic!() };
    let client = Client::connect(&format!("ws://{address}/api")).unwrap();
    let mut news = Vec::new();
    while !news.iter().any(|line: &String| line.contains("no more frames come")) {
        news.extend(service.news());
        std::thread::yield_now();
    }
    (client, news)
}

#[test]
fn a_flood_of_identifiers_ends_no_signals_and_is_told_once() {
    let identifiers = u32::try_from(candor_events::Hub::MOST_UNKNOWN).unwrap();
    let mut lines: String =
        (0..identifiers + 3).map(|id| format!("(1000.0) can0 {:08X}#01\n", id + 0x800)).collect();
    // What the DBC file describes has its place, also after a flood.
    lines.push_str("(1000.0) can0 hello\n(1000.0) can0 00000800#02\n(1000.0) can0 123#1900\n");
    let (mut service, _folder) = recording(&lines, Some(DBC), Nanos::from_micros(1_500));
    let (mut client, mut news) = over(&mut service);
    let bus = client.call("stats", &Value::Null).unwrap()["buses"][0].clone();
    assert_eq!(
        (&bus["unlisted"], &bus["displaced"], &bus["malformed"], &bus["foreign"]),
        (&0.into(), &4.into(), &1.into(), &0.into()),
        "three that were new, and the first one that came back"
    );
    assert_eq!(service.frames(), u64::from(identifiers) + 5);
    let values = client.call("get", &json!({"event": "*"})).unwrap();
    assert_eq!(values[0]["value"], 12.5, "{values}");
    news.extend(service.news());
    news.extend(service.news());
    let count = |text: &str| news.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("more than 65536 identifiers were seen"), 1, "{news:?}");
    assert_eq!(count("no more frames come; 1 malformed record passed over"), 1, "{news:?}");
}

#[test]
fn the_newest_frames_are_there_by_identifier() {
    let lines = "(1000.000001) can0 123#0100\n(1000.000002) can0 0CF00400#05\n\
                 (1000.000003) can0 123#0200\n(1000.000004) can0 124#\n";
    let (mut service, _folder) = recording(lines, Some(DBC), Nanos::ZERO);
    let (mut client, _) = over(&mut service);
    let mut names = |arguments: Value| -> Result<Vec<String>, Error> {
        let values = client.call("get", &arguments)?;
        let values = values.as_array().unwrap().iter();
        Ok(values.map(|value| value["name"].as_str().unwrap().to_owned()).collect())
    };
    for (arguments, expected) in [
        (json!(null), &["Motor.Speed"][..]),
        (json!({ "id": 291 }), &["car/291"]),
        (json!({ "pgn": 61_444 }), &["car/217056256"]),
        (json!({ "id": "*" }), &["car/291", "car/292", "car/217056256"]),
        (json!({ "event": "*", "id": [292, 293] }), &["Motor.Speed", "car/292"]),
    ] {
        assert_eq!(names(arguments.clone()).unwrap(), expected, "{arguments}");
    }
    let error = names(json!({ "event": "nope" })).unwrap_err();
    assert!(
        matches!(&error, Error::Refused(reason) if reason.contains("no signal is called `nope`"))
    );
    let newest = client.call("get", &json!({ "id": 291 })).unwrap();
    assert_eq!(
        newest,
        json!([{ "name": "car/291", "id": 291, "data": [2, 0], "timestamp": 1_000_000_003 }])
    );

    let Some(Place::Tcp(address)) = service.places().first() else { panic!() };
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    };
    for (query, status, part) in [
        ("", "200", "Motor.Speed"),
        ("?name=Motor.Speed&name=*.Spee*", "200", "\"name\":\"Motor.Speed\""),
        ("?name=Motor.*&id=292", "200", "},{\"data\":[],\"id\":292"),
        ("?name=Motor.*&name=nope", "400", "no signal is called `nope`"),
        ("?nam=Motor.*", "400", "`nam` is unknown; there are name, id, pgn and raw"),
        ("?min=5", "400", "`min` is unknown"),
    ] {
        let (found, body) = get(&format!("/values{query}"));
        assert_eq!(found, status, "{query}: {body}");
        assert!(body.contains(part), "{query}: {body}");
    }
}

#[test]
fn a_long_tick_does_not_hold_up_the_end() {
    let lines: String = (0..5_000).map(|at| format!("(1000.{at:06}) can0 123#01\n")).collect();
    let (service, _folder) = recording(&lines, None, Nanos::from_secs(3_600));
    // Frames came, and the next tick is far away.
    while service.frames() == 0 {
        std::thread::yield_now();
    }
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(service);
        ended.send(())
    });
    end.recv_timeout(TIMEOUT).expect("the service ends");
}
