//! `/metrics` over real connections, of a gateway that is made up.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use candor_gateway::Snapshot;
use candor_gateway::metrics::{Exporter, Exposure, Listening, MAX_CLIENTS};

/// No test waits longer than this for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn exporter() -> Exporter {
    let listening = Listening::bind(([127, 0, 0, 1], 0).into(), Exposure::Loopback).unwrap();
    let mut count = 0;
    let snapshot = move || {
        count += 1;
        Snapshot { generation: count, ..Snapshot::default() }
    };
    listening.serve(snapshot).unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn receive(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    receive(&mut stream)
}

#[test]
fn the_page_is_served_again_and_again() {
    let exporter = exporter();
    for number in 1..=100 {
        let answer = ask(exporter.address(), "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(&format!("\ncandor_rules_generation {number}\n")), "{answer}");
    }
    let head = ask(exporter.address(), "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        ("garbage\r\n\r\n", "400"),
    ] {
        let answer = ask(exporter.address(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
}

#[test]
fn requests_come_in_pieces_or_not_at_all() {
    let exporter = exporter();
    let mut slow = connect(exporter.address());
    slow.set_nodelay(true).unwrap();
    for byte in "GET /metrics HTTP/1.1\r\n\r".bytes() {
        slow.write_all(&[byte]).unwrap();
    }
    // Another one goes away in the middle.
    connect(exporter.address()).write_all(b"GET /metr").unwrap();
    slow.write_all(b"\n").unwrap();
    assert!(receive(&mut slow).starts_with("HTTP/1.1 200 OK\r\n"));
    let mut ended = connect(exporter.address());
    ended.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    ended.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive(&mut ended), "");
}

#[test]
fn a_request_that_is_too_long_is_refused_with_the_reason() {
    let exporter = exporter();
    let request = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let answer = ask(exporter.address(), &request);
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[test]
fn too_many_connections_are_turned_away() {
    let exporter = exporter();
    let mut silent: Vec<_> = (0..MAX_CLIENTS).map(|_| connect(exporter.address())).collect();
    // Connections are taken in order, so that these have all been taken before.
    let mut one_more = connect(exporter.address());
    assert!(receive(&mut one_more).starts_with("HTTP/1.1 503 "));
    let first = silent.first_mut().unwrap();
    first.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(receive(first).starts_with("HTTP/1.1 200 OK\r\n"));
    let address = exporter.address();
    drop(exporter);
    let last = silent.last_mut().unwrap();
    assert_eq!(receive(last), "", "connections end with the exporter");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn others_are_not_served_unless_asked_for() {
    for address in ["0.0.0.0:0", "192.0.2.1:9464", "[::]:0", "[::ffff:192.0.2.1]:80"] {
        let error = Listening::bind(address.parse().unwrap(), Exposure::Loopback).unwrap_err();
        assert!(error.to_string().contains("--metrics-public"), "{error}");
    }
    let listening = Listening::bind(([0, 0, 0, 0], 0).into(), Exposure::Public).unwrap();
    let error = Listening::bind(listening.address(), Exposure::Public).unwrap_err();
    assert!(error.to_string().ends_with("choose another address with --metrics"), "{error}");
}
