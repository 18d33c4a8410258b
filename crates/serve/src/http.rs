//! The HTTP server: the page, the newest values, and the way to the WebSocket.

use std::net::TcpListener;
use std::sync::Arc;

use bytes::Bytes;
use candor_events::{Pattern, afb};
use candor_service::clients::{Client, Room};
use candor_service::http::{self, Limits, Socket};
use candor_time::Nanos;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tungstenite::handshake::derive_accept_key;

use crate::{Shared, connection, verbs};

const LIMITS: Limits = Limits {
    room: Room { clients: 2_048, gives_way: Nanos::from_millis(100), waits: true },
    head: 64 << 10,
    patience: Nanos::from_secs(5),
    keeps_alive: true,
};

/// What the page consists of: type and contents.
fn page(path: &str) -> Option<(&'static str, &'static str)> {
    Some(match path {
        "/" => ("text/html; charset=utf-8", include_str!("../page/index.html")),
        "/app.js" => ("text/javascript; charset=utf-8", include_str!("../page/app.js")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("../page/style.css")),
        "/plotly.min.js" => ("text/javascript; charset=utf-8", candor_plotly::SCRIPT),
        _ => return None,
    })
}

/// Scripts and data come from here only. The plotting library sets styles.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

type Answer = Response<Full<Bytes>>;

/// Serves for ever.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let handler =
        move |request: Request<Incoming>, client: &Client| answer(request, &shared, client);
    http::serve(listener, LIMITS, handler).await;
}

/// Answers a request.
fn answer(request: Request<Incoming>, shared: &Arc<Shared>, client: &Client) -> Answer {
    if let Err(reason) = check_origin(request.headers()) {
        return text(StatusCode::FORBIDDEN, reason);
    }
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
        let mut answer = with_type(StatusCode::OK, kind, contents.into());
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        return answer;
    }
    if path == "/values" {
        let query = request.uri().query().unwrap_or_default();
        let name = query.split('&').find_map(|part| part.strip_prefix("name="));
        let pattern = Pattern::Name(name.map_or_else(|| "*".to_owned(), decoded));
        let values = verbs::values(&shared.hub(), &[pattern]).to_string();
        return with_type(StatusCode::OK, "application/json", (values + "\n").into());
    }
    text(
        StatusCode::NOT_FOUND,
        "there is nothing here; there are /, /values?name=GLOB and /api (WebSocket)",
    )
}

/// The bytes of a query, with `%20` and `+` as what they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let hex = behind.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let coded = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(match (byte, coded) {
            (b'%', Some(coded)) => {
                rest = behind.get(2..).unwrap_or_default();
                coded
            }
            (b'+', _) => b' ',
            _ => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Refuses pages of others: a browser sends where a page comes from, and what it takes this machine to be.
fn check_origin(headers: &HeaderMap) -> Result<(), &'static str> {
    let value = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = value(header::HOST).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    // Whoever makes his own name lead here would read everything.
    if !matches!(name, "127.0.0.1" | "localhost" | "[::1]") && !name.starts_with("127.") {
        return Err("the Host of the request is none of this machine; use http://localhost");
    }
    match value(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if origin.split_once("://").is_some_and(|(_, from)| from == host) => Ok(()),
        Some(_) => Err("pages of other origins may not use this service"),
    }
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
    let offers = headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL);
    if offers && !has(header::SEC_WEBSOCKET_PROTOCOL, afb::PROTOCOL) {
        return text(StatusCode::BAD_REQUEST, "the only sub-protocol here is x-afb-ws-json1");
    }
    let mut answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::UPGRADE, "websocket")
        .header(header::CONNECTION, "Upgrade")
        .header(header::SEC_WEBSOCKET_ACCEPT, key);
    if offers {
        answer = answer.header(header::SEC_WEBSOCKET_PROTOCOL, afb::PROTOCOL);
    }
    let shared = Arc::clone(shared);
    client.keep();
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(&mut request).await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Socket>>() else { return };
        connection::serve(parts.io.into_inner(), &parts.read_buf, shared).await;
    });
    answer.body(Full::default()).unwrap_or_default()
}

fn text(status: StatusCode, text: &str) -> Answer {
    with_type(status, "text/plain; charset=utf-8", format!("{text}\n").into())
}

fn with_type(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
