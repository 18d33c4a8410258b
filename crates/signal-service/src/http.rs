//! The HTTP server: the page, the newest values, and the way to the WebSocket.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use candor_daemon::beside;
use candor_daemon::clients::{Client, Room};
use candor_daemon::exposition;
use candor_daemon::health;
use candor_daemon::http::{self, Guard, Limits, Socket};
use candor_daemon::listen::Listener;
use candor_events::afb;
use candor_events::binary::Encoding;
use candor_time::Nanos;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tungstenite::handshake::derive_accept_key;

use crate::stats::Stats;
use crate::stream::{self, Content};
use crate::verbs::VerbResponse as Made;
use crate::{ClientTimeouts, Shared, connection, verbs};

/// A client for which nothing was done for so long gives way to a new one if there is no room.
const GIVES_WAY: Nanos = Nanos::from_millis(100);

const fn limits(client_timeouts: ClientTimeouts) -> Limits {
    Limits {
        room: Room { clients: 2_048, gives_way: GIVES_WAY, asks_within: GIVES_WAY },
        head: 64 << 10,
        timeout: Nanos::from_secs(5),
        unread: client_timeouts.sse_unread,
        keeps_alive: true,
    }
}

/// What the page consists of: type and contents.
fn page(path: &str) -> Option<(&'static str, &'static [u8])> {
    let (kind, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("../page/index.html")),
        "/app.js" => ("text/javascript; charset=utf-8", include_str!("../page/app.js")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("../page/style.css")),
        LIBRARY => return Some(("text/javascript; charset=utf-8", candor_plotly::COMPRESSED)),
        _ => return None,
    };
    Some((kind, text.as_bytes()))
}

/// The plotting library, which is sent as it is in the program: every browser takes gzip.
const LIBRARY: &str = "/plotly.min.js";

/// Scripts and data come from here only. The plotting library sets styles.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

type Answer = Response<Content>;

/// How long subscribers may take to read that the service ends.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often is looked whether they have.
const LOOK: Duration = Duration::from_millis(2);

/// Serves until it is told to stop. Subscribers are told so; what is open after that ends with the reactor.
pub(crate) async fn serve(listeners: Vec<Listener>, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    let limits = limits(shared.client_timeouts);
    for listener in listeners {
        let shared = Arc::clone(&shared);
        // A web page could be behind an address, but not behind a file.
        let is_open_to_pages = matches!(listener, Listener::Tcp(_));
        let handler = move |request: Request<Incoming>, client: Client| {
            let shared = Arc::clone(&shared);
            async move {
                let checked = match is_open_to_pages {
                    true => {
                        let allowed = &shared.allow_origin;
                        let pages = &["/", "/metrics", health::PATH];
                        let guard = Guard { is_local: true, allowed, pages };
                        http::check_origin(&request, guard)
                    }
                    false => Ok(None),
                };
                match checked {
                    Ok(header) => {
                        let mut answer = answer(request, &shared, &client).await;
                        answer.headers_mut().extend(header);
                        answer
                    }
                    Err(reason) => text(StatusCode::FORBIDDEN, reason),
                }
            }
        };
        tokio::spawn(http::serve(listener, limits, handler));
    }
    let _ = stop.wait_for(|is_over| *is_over).await;
    let gone = async {
        while shared.sessions.has_streams() {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(FAREWELL, gone).await;
}

async fn answer(request: Request<Incoming>, shared: &Arc<Shared>, client: &Client) -> Answer {
    let path = request.uri().path();
    if path == "/api" {
        return upgrade(request, shared, client);
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is served here: nothing can be changed",
        );
    }
    if let Some((kind, contents)) = page(path) {
        let mut answer = with_type(StatusCode::OK, kind, whole(contents));
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        if path == LIBRARY {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        return answer;
    }
    match path {
        "/metrics" => {
            let stats = verbs::stats(shared).await;
            let turn = shared.answer_turn().await;
            let page = beside(move || (stats.metrics(), turn)).await;
            return match page {
                Some((page, _)) => with_type(StatusCode::OK, exposition::CONTENT_TYPE, whole(page)),
                None => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "there is no thread or no memory for an answer; raise the limits of the service (`ulimit -v`, `-u`)",
                ),
            };
        }
        health::PATH => {
            // What subscribers do is no matter of its health.
            let stats = shared.in_turn(|| Stats::without_subscribers(shared)).await;
            let query = request.uri().query();
            let answer = || health::answer(query, |limits| stats.problems(limits));
            let (status, answer) = shared.in_turn(answer).await;
            return with_type(status, PLAIN, whole(answer));
        }
        _ => {}
    }
    let query = parts(request.uri().query().unwrap_or_default());
    if path == "/events" {
        let content = match request.method() {
            // Nobody would read them.
            &Method::HEAD => Ok(Content::default()),
            _ => stream::open(&query, shared).await,
        };
        return match content {
            Ok(content) => with_type(StatusCode::OK, "text/event-stream", content),
            Err(reason) => text(StatusCode::BAD_REQUEST, &reason),
        };
    }
    if path == "/values" {
        return match values(&query, shared).await {
            Ok(values) => with_type(StatusCode::OK, "application/json", values),
            Err(reason) => text(StatusCode::BAD_REQUEST, &reason),
        };
    }
    text(
        StatusCode::NOT_FOUND,
        "there is nothing here; there are /, /values?name=GLOB, /events?name=GLOB, /api (WebSocket), /metrics and /healthz",
    )
}

/// The newest values that a query asks for.
///
/// # Errors
/// What is wrong with it, in one sentence.
async fn values(query: &[(String, String)], shared: &Shared) -> Result<Content, String> {
    let is_known = |key: &str| matches!(key, "name" | "id" | "pgn" | "raw");
    if let Some((key, _)) = query.iter().find(|(key, _)| !is_known(key)) {
        return Err(format!("`{key}` is unknown; there are name, id, pgn and raw"));
    }
    let has_signals = verbs::has_signals(&shared.hub());
    let patterns = stream::read(query, has_signals)?.patterns;
    let values = verbs::values(shared, &patterns).await?;
    let line = Made::encode(Ok(values), |values| values.map(|values| line(&values))).await;
    line.unwrap_or_else(|| Err("the service ends".to_owned())).map(whole)
}

/// Values as a line that takes no more memory than it needs.
fn line(values: &Value) -> Vec<u8> {
    let mut line = values.to_string().into_bytes();
    line.reserve_exact(1);
    line.push(b'\n');
    line.shrink_to_fit();
    line
}

/// The keys and values of a query.
fn parts(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Turns a connection into a WebSocket.
fn upgrade(mut request: Request<Incoming>, shared: &Arc<Shared>, client: &Client) -> Answer {
    let headers = request.headers();
    let has = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let is_upgrade = has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade");
    let (Some(key), true, true) = (key, is_upgrade, has(header::SEC_WEBSOCKET_VERSION, "13"))
    else {
        let mut answer = text(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket, version 13");
        answer.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return answer;
    };
    let Ok(chosen) = sub_protocol(headers) else {
        let reason = "the sub-protocols here are x-afb-ws-json1, candor.cbor and candor.msgpack";
        return text(StatusCode::BAD_REQUEST, reason);
    };
    let mut answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::UPGRADE, "websocket")
        .header(header::CONNECTION, "Upgrade")
        .header(header::SEC_WEBSOCKET_ACCEPT, key);
    if let Some((name, _)) = chosen {
        answer = answer.header(header::SEC_WEBSOCKET_PROTOCOL, name);
    }
    let encoding = chosen.and_then(|(_, encoding)| encoding);
    let shared = Arc::clone(shared);
    client.keep();
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(&mut request).await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Socket>>() else { return };
        connection::serve(parts.io.into_inner(), &parts.read_buf, encoding, shared).await;
    });
    answer.body(Content::default()).unwrap_or_default()
}

/// The first of the offered sub-protocols that is known, and what it is encoded in; `None` if none was offered.
///
/// # Errors
/// None of those that were offered is known.
fn sub_protocol(headers: &HeaderMap) -> Result<Option<(&'static str, Option<Encoding>)>, ()> {
    let known = [
        (afb::PROTOCOL, None),
        (Encoding::Cbor.protocol(), Some(Encoding::Cbor)),
        (Encoding::MessagePack.protocol(), Some(Encoding::MessagePack)),
    ];
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    let values = values.map(|value| value.to_str().unwrap_or_default());
    let mut offered = values.flat_map(|value| value.split(',')).map(str::trim).peekable();
    if offered.peek().is_none() {
        return Ok(None);
    }
    offered.find_map(|name| known.into_iter().find(|(known, _)| *known == name)).map(Some).ok_or(())
}

fn text(status: StatusCode, text: &str) -> Answer {
    with_type(status, PLAIN, whole(format!("{text}\n")))
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn whole(contents: impl Into<Bytes>) -> Content {
    Content::Whole(Full::new(contents.into()))
}

fn with_type(status: StatusCode, kind: &'static str, body: Content) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
