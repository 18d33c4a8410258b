//! What clients that do not read take of the service, and what of that it gives back. It has a process of its own, whose memory
//! nothing else takes.

use std::fmt::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use candor_diagnostics::Findings;
use candor_linux::{clock, limits};
use candor_signal_service::{ClientTimeouts, Config, Pace, Place, Service, Source};
use candor_signals::Database;
use candor_time::{Monotonic, Nanos};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

/// No step waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Each has a value that is called something of 1,000 letters, so an answer is much longer than what two sockets take.
const SIGNALS: usize = 600;
const CLIENTS: usize = 80;
/// The memory of all else, such as stacks, in bytes.
const SLACK: usize = 12 << 20;

fn service() -> Service {
    let mut dbc = String::from("BU_: A\n\n");
    for id in 0..SIGNALS {
        writeln!(dbc, "BO_ {id} M{id}: 1 A\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n").unwrap();
    }
    for id in 0..SIGNALS {
        writeln!(dbc, "VAL_ {id} S 0 \"{}\" ;", "x".repeat(1_000)).unwrap();
    }
    let database = Database::parse("car.dbc", dbc.as_bytes(), &Findings::new());
    Service::start(Config {
        sources: vec![Source {
            name: "car".into(),
            address: "can2udp:127.0.0.1:0".parse().unwrap(),
            database: Some(Arc::new(database.unwrap())),
            pace: Pace::Received,
        }],
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        dbus: Vec::new(),
        coalesce: Nanos::from_micros(1_500),
        allow_origin: Vec::new(),
        client_timeouts: ClientTimeouts {
            websocket_silence: Nanos::from_secs(600),
            ..ClientTimeouts::default()
        },
    })
    .unwrap()
}

fn connect(service: &Service) -> WebSocket<TcpStream> {
    let Place::Tcp(address) = service.places()[0] else { panic!("it is an address") };
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let config = WebSocketConfig::default().read_buffer_size(1 << 10);
    let url = format!("ws://{address}/api");
    tungstenite::client::client_with_config(url, stream, Some(config)).unwrap().0
}

fn ask(client: &mut WebSocket<TcpStream>, verb: &str) {
    client.send(Message::text(format!("[2,\"1\",\"low-can/{verb}\",null]"))).unwrap();
}

#[test]
fn an_answer_that_nobody_reads_is_there_once_and_then_no_more() {
    let resident = || limits::resident_bytes().unwrap().0;
    let service = service();
    let mut reader = connect(&service);
    ask(&mut reader, "list");
    let answer = reader.read().unwrap().len();
    assert!(answer > 1_000 * SIGNALS);
    let before = resident();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(&service)).collect();
    clients.iter_mut().for_each(|client| ask(client, "list"));
    for client in &clients {
        // It has begun to come, so all of it is there.
        assert_eq!(client.get_ref().peek(&mut [0]).unwrap(), 1);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < CLIENTS * answer + SLACK, "{grown} bytes for {CLIENTS} of {answer}");
    // One that stays holds nothing of others.
    clients.drain(..CLIENTS - 1);
    let until = clock::now::<Monotonic>() + Nanos::from_secs(TIMEOUT.as_secs());
    loop {
        let left = resident().saturating_sub(before);
        if left < answer + SLACK {
            break;
        }
        assert!(clock::now() < until, "{left} of {grown} bytes are still there");
        std::thread::yield_now();
    }
}
