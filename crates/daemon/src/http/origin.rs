//! [`WebOrigin`]: which pages a browser lets read what is served on this machine.
//!
//! A page of somebody else's can make a browser ask this machine, and its own name lead here (DNS rebinding), so that
//! the browser takes the answers for its own. A browser says what name it asked for (`OriginHost`, RFC 9110 section 7.2), and
//! which page asks (`Origin`, RFC 6454 section 7). What a page only embeds, such as an image, is asked for without `Origin`;
//! there, browsers say how the page is related to this machine (`Sec-Fetch-Site`, Fetch Metadata of the W3C), and pages
//! cannot set that. Programs that are no browsers can write there what they like, and could reach the service anyhow.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::str::FromStr;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

const REFUSED: &str = "pages of other origins may not use this service; --allow-origin, or allow_origin in its file, \
                       names those that may";
const EMBEDDED: &str = "this is not for other pages to embed or open; a page that may use the service asks by fetch, \
                        EventSource or WebSocket";

/// Where a page comes from: scheme, host and port (RFC 6454 section 4), such as `http://localhost:5173`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin {
    scheme: Scheme,
    host: OriginHost,
    /// That of the scheme if none is written.
    port: NonZeroU16,
}

/// The schemes of pages whose origin has a host and a port (URL standard, section 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https].into_iter().find(|it| text.eq_ignore_ascii_case(it.name()))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// RFC 9110 section 4.2.
    const fn default_port(self) -> NonZeroU16 {
        match self {
            Self::Http => NonZeroU16::new(80).unwrap(),
            Self::Https => NonZeroU16::new(443).unwrap(),
        }
    }
}

/// What stands between the scheme and the port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OriginHost {
    /// IPv4 addresses that are written as IPv6 are IPv4 here.
    Address(IpAddr),
    /// In small letters.
    Name(String),
}

impl OriginHost {
    /// Whether nobody else can make this lead to himself, or his own here.
    fn is_this_machine(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            // With the dot of the root it is the same name (RFC 6761 section 6.3).
            Self::Name(name) => matches!(name.as_str(), "localhost" | "localhost."),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let is_ok = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if text.is_empty() || !text.bytes().all(is_ok) {
            return None;
        }
        // What ends with a number is an address or nothing: no name has such an end.
        let last = text.rsplit('.').next().unwrap_or_default();
        match number(last) {
            Some(_) => ipv4(text).map(|address| Self::Address(address.into())),
            None => Some(Self::Name(text.to_ascii_lowercase())),
        }
    }
}

/// A part of an IPv4 address: decimal, `0x7f`, or octal with a leading 0 (URL standard, "IPv4 number parser").
fn number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hex, text) {
        (Some(""), _) => Some(0),
        (_, text) if text.contains('+') => None,
        (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
        (None, text) if text.len() > 1 && text.starts_with('0') => {
            u32::from_str_radix(text, 8).ok()
        }
        (None, text) => text.parse().ok(),
    }
}

/// An IPv4 address of one to four parts, of which the last fills what is left: `127.1` is `127.0.0.1` (URL standard,
/// "IPv4 parser"; `inet_aton` of C reads the same).
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
    let parts = parts?;
    let (&last, first) = parts.split_last()?;
    let left = 4_u32.checked_sub(first.len() as u32).filter(|left| *left > 0)?;
    if first.iter().any(|part| *part > 255) || u64::from(last) >= 1 << (8 * left) {
        return None;
    }
    let shifted = first.iter().zip([24, 16, 8]).map(|(part, shift)| part << shift);
    Some(Ipv4Addr::from_bits(shifted.sum::<u32>() + last))
}

/// A host and the port behind it, if there is one.
fn host_and_port(text: &str) -> Option<(OriginHost, Option<NonZeroU16>)> {
    // The colons of an IPv6 address are in brackets.
    let end = text.rfind(']').map_or(0, |place| place + 1);
    let (host, port) = match text.get(end..)?.find(':') {
        Some(colon) => (text.get(..end + colon)?, text.get(end + colon + 1..)?),
        None => (text, ""),
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = match port {
        "" => None,
        port => Some(port.parse().ok().filter(|_| is_number)?),
    };
    Some((OriginHost::parse(host)?, port))
}

impl FromStr for WebOrigin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "null" {
            return Err(
                "any page can call itself `null`; serve the page over HTTP, and name its address",
            );
        }
        if text.contains('*') {
            return Err("there are no globs; name each origin, such as http://localhost:5173");
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("the scheme is missing; write such as http://localhost:5173");
        };
        let scheme = Scheme::parse(scheme)
            .ok_or("only http and https have such origins; write such as http://localhost:5173")?;
        if rest.contains(['/', '?', '#']) {
            return Err("an origin has no path; write such as http://localhost:5173");
        }
        let (host, port) = host_and_port(rest)
            .ok_or("this is no host and port; write such as http://localhost:5173")?;
        Ok(Self { scheme, host, port: port.unwrap_or(scheme.default_port()) })
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.name())?;
        match &self.host {
            OriginHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            OriginHost::Address(address) => write!(f, "{address}")?,
            OriginHost::Name(name) => f.write_str(name)?,
        }
        match self.port == self.scheme.default_port() {
            true => Ok(()),
            false => write!(f, ":{}", self.port),
        }
    }
}

/// The value of a header that is there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok()
}

/// Whether a browser says that a page of another origin embeds or opens what is asked for. To open one of `pages` in a window
/// is harmless, since the page that does cannot look into it.
fn is_of_another_page<B>(request: &Request<B>, pages: &[&str]) -> bool {
    let headers = request.headers();
    let is = |name, value| only(headers, name) == Some(value);
    // `none`: somebody has typed the address, or taken it from the bookmarks.
    let is_own = is(SEC_FETCH_SITE, "same-origin") || is(SEC_FETCH_SITE, "none");
    let opens_the_page = request.method() == Method::GET
        && pages.contains(&request.uri().path())
        && is(SEC_FETCH_MODE, "navigate")
        && is(SEC_FETCH_DEST, "document");
    headers.contains_key(SEC_FETCH_SITE) && !is_own && !opens_the_page
}

/// Which requests are refused.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    /// Whether this machine alone is reached: then others' names for it are refused. Where other machines reach it, it has
    /// names that nobody here knows.
    pub is_local: bool,
    /// The pages that may ask, beside its own.
    pub allowed: &'a [WebOrigin],
    /// The paths that a page of somebody else's may open in a window.
    pub pages: &'a [&'a str],
}

/// Refuses a request that a page of somebody else's makes. A page of one of the allowed origins may ask, and the answer needs
/// the header that is returned for a browser to give it to the page.
///
/// # Errors
/// Why it is refused, in one sentence with a remedy.
pub fn check<B>(
    request: &Request<B>,
    guard: Guard<'_>,
) -> Result<Option<(HeaderName, HeaderValue)>, &'static str> {
    let headers = request.headers();
    // RFC 9112 section 3.2.2: what the request line says takes precedence.
    let authority = request.uri().authority();
    let host = authority.map(|it| it.as_str()).or_else(|| only(headers, header::HOST));
    let is_no_browser = authority.is_none() && !headers.contains_key(header::HOST);
    if is_no_browser && !headers.contains_key(header::ORIGIN) {
        return Ok(None);
    }
    let host = host.and_then(host_and_port);
    let is_ours = |(host, _): &(OriginHost, _)| !guard.is_local || host.is_this_machine();
    let Some((host, port)) = host.filter(is_ours) else {
        return Err("the OriginHost of the request is none of this machine; use http://localhost");
    };
    if !headers.contains_key(header::ORIGIN) {
        return if is_of_another_page(request, guard.pages) { Err(EMBEDDED) } else { Ok(None) };
    }
    let text = only(headers, header::ORIGIN).ok_or(REFUSED)?;
    let origin: WebOrigin = text.parse().map_err(|_| REFUSED)?;
    let scheme = Scheme::Http;
    let own = WebOrigin { scheme, host, port: port.unwrap_or(scheme.default_port()) };
    match guard.allowed.contains(&origin) {
        _ if origin == own => Ok(None),
        true => {
            let value = HeaderValue::from_str(text).map_err(|_| REFUSED)?;
            Ok(Some((header::ACCESS_CONTROL_ALLOW_ORIGIN, value)))
        }
        false => Err(REFUSED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(host: &[&str], origin: Option<&str>, allowed: &[&str]) -> Result<bool, &'static str> {
        let mut request = Request::get("/");
        for host in host {
            request = request.header(header::HOST, *host);
        }
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let allowed: Vec<_> = allowed.iter().map(|text| text.parse().unwrap()).collect();
        let guard = Guard { is_local: true, allowed: &allowed, pages: &["/"] };
        check(&request.body(()).unwrap(), guard).map(|header| header.is_some())
    }

    #[test]
    fn only_what_must_be_this_machine_is_a_host() {
        for host in [
            "localhost",
            "LocalHost:1234",
            "localhost.",
            "LOCALHOST.:1234",
            "127.0.0.1",
            "127.0.0.1:",
            "127.1.2.3:80",
            "127.1",
            "0x7f.0.0.1",
            "0177.0.0.01",
            "2130706433:5",
            "[::1]",
            "[::1]:1234",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::FFFF:7f00:1]:9",
        ] {
            assert_eq!(ask(&[host], None, &[]), Ok(false), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.com",
            "127.evil.com",
            "127.0.0.1.evil.com",
            "127.0.0.1.evil.com:1234",
            "127.0.0.1:evil.com",
            "127.0.0.1:80:80",
            "127.0.0.1:99999",
            "127.0.0.1:+80",
            "127.0.0.1@evil.com",
            "evil.com@127.0.0.1",
            "localhost.evil.com",
            "evil-localhost",
            "xlocalhost",
            "localhost/",
            "localhost:0",
            "localhost..",
            ".localhost",
            "localhost.evil.com.",
            "0.0.0.0",
            "128.0.0.1",
            "127.0.0.256",
            "127.0.0.0.1",
            "1.127.1",
            "4294967296",
            "+127.0.0.1",
            "[::1",
            "::1",
            "[::2]",
            "[::ffff:128.0.0.1]",
            "[::1].evil.com",
            "[::1]evil.com:80",
            "[127.0.0.1]",
            "lo\u{e9}",
        ] {
            assert!(ask(&[host], None, &[]).is_err(), "{host}");
        }
        assert_eq!(ask(&[], None, &[]), Ok(false), "no browser leaves it out");
        assert!(ask(&[], Some("http://localhost"), &[]).is_err(), "no host");
        assert!(ask(&["localhost", "localhost"], None, &[]).is_err(), "two");
        let request = Request::get("http://evil.com/").header(header::HOST, "localhost");
        let guard = Guard { is_local: true, allowed: &[], pages: &[] };
        assert!(check(&request.body(()).unwrap(), guard).is_err(), "the request line");
        let request = Request::get("http://evil.com/").header(header::HOST, "localhost");
        let guard = Guard { is_local: false, ..guard };
        assert_eq!(
            check(&request.body(()).unwrap(), guard),
            Ok(None),
            "any name may be this machine's"
        );
    }

    #[test]
    fn a_page_of_another_machine_is_refused_where_other_machines_are_served() {
        for (name, value, expected) in [
            (header::ORIGIN, "http://vehicle.example:9464", true),
            (header::ORIGIN, "http://evil.com", false),
            (header::ORIGIN, "null", false),
            (SEC_FETCH_SITE, "cross-site", false),
            (SEC_FETCH_SITE, "none", true),
        ] {
            let request = Request::get("/metrics").header(header::HOST, "vehicle.example:9464");
            let request = request.header(&name, value).body(()).unwrap();
            let guard = Guard { is_local: false, allowed: &[], pages: &["/metrics"] };
            assert_eq!(check(&request, guard).is_ok(), expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_page_is_of_the_service_or_allowed() {
        for (host, origin, expected) in [
            ("localhost:1234", "http://localhost:1234", Ok(false)),
            ("LOCALHOST:1234", "HTTP://localhost:1234", Ok(false)),
            ("localhost", "http://localhost:80", Ok(false)),
            ("[::1]:5", "http://[0::1]:5", Ok(false)),
            ("localhost:1234", "http://localhost:5173", Ok(true)),
            ("127.0.0.1:1234", "https://Dash.example", Ok(true)),
            ("127.0.0.1:1234", "https://dash.example:443", Ok(true)),
            ("localhost.:1234", "http://localhost.:1234", Ok(false)),
            ("127.0.0.1:1234", "app://board", Err(())),
            ("localhost:1234", "http://localhost.:1234", Err(())),
            ("localhost:1234", "https://localhost:1234", Err(())),
            ("localhost:1234", "http://127.0.0.1:1234", Err(())),
            ("localhost:1234", "http://localhost", Err(())),
            ("localhost:1234", "http://localhost:51730", Err(())),
            ("localhost:1234", "http://dash.example", Err(())),
            ("localhost:1234", "https://dash.example.evil.com", Err(())),
            ("localhost:1234", "null", Err(())),
            ("localhost:1234", "", Err(())),
            ("localhost:1234", "//localhost:1234", Err(())),
            ("localhost:1234", "http://localhost:1234 http://evil.com", Err(())),
        ] {
            let allowed = ["http://localhost:5173", "https://dash.example"];
            let answer = ask(&[host], Some(origin), &allowed).map_err(|_| ());
            assert_eq!(answer, expected, "{origin} at {host}");
        }
    }

    #[test]
    fn what_a_page_embeds_is_refused_though_it_has_no_origin() {
        let ask =
            |method: Method, path: &str, site: &[&str], mode: &str, dest: &str, origin: &str| {
                let mut request = Request::builder()
                    .method(method)
                    .uri(path)
                    .header(header::HOST, "127.0.0.1:1234");
                for site in site {
                    request = request.header(SEC_FETCH_SITE, *site);
                }
                for (name, value) in
                    [(SEC_FETCH_MODE, mode), (SEC_FETCH_DEST, dest), (header::ORIGIN, origin)]
                {
                    if !value.is_empty() {
                        request = request.header(name, value);
                    }
                }
                let allowed = ["http://localhost:5173".parse().unwrap()];
                let guard = Guard { is_local: true, allowed: &allowed, pages: &["/"] };
                check(&request.body(()).unwrap(), guard).is_ok()
            };
        let (own, other, get) = ("http://127.0.0.1:1234", "http://evil.com", Method::GET);
        for (path, site, mode, dest, origin, expected) in [
            ("/events?name=*", &["cross-site"][..], "no-cors", "image", "", false),
            ("/values", &["cross-site"], "no-cors", "script", "", false),
            ("/metrics", &["cross-site"], "no-cors", "image", "", false),
            ("/", &["cross-site"], "no-cors", "image", "", false),
            ("/", &["cross-site"], "navigate", "iframe", "", false),
            ("/", &["cross-site"], "", "", "", false),
            // Another port of this machine is the same site, and another origin.
            ("/events", &["same-site"], "no-cors", "image", "", false),
            ("/events", &["unheard-of"], "no-cors", "image", "", false),
            ("/events", &["same-origin", "cross-site"], "no-cors", "image", "", false),
            ("/events", &["cross-site"], "navigate", "document", "", false),
            ("/", &["cross-site"], "navigate", "document", "", true),
            ("/", &["same-site"], "navigate", "document", "", true),
            ("/events", &["same-origin"], "cors", "empty", "", true),
            ("/events", &["none"], "navigate", "document", "", true),
            ("/events", &[], "", "", "", true),
            ("/events", &["cross-site"], "cors", "empty", "http://localhost:5173", true),
            ("/events", &["same-origin"], "cors", "empty", own, true),
            ("/events", &["cross-site"], "cors", "empty", other, false),
        ] {
            let is_taken = ask(get.clone(), path, site, mode, dest, origin);
            assert_eq!(is_taken, expected, "{path} {site:?} {mode} {dest} {origin}");
        }
        assert!(!ask(Method::POST, "/", &["cross-site"], "navigate", "document", ""));
    }

    #[test]
    fn what_is_no_origin_is_named() {
        for (text, shown) in [
            ("HTTP://LocalHost:80", "http://localhost"),
            ("http://localhost:5173", "http://localhost:5173"),
            ("https://[::ffff:127.0.0.1]", "https://127.0.0.1"),
            ("http://[::1]:8", "http://[::1]:8"),
        ] {
            assert_eq!(text.parse::<WebOrigin>().unwrap().to_string(), shown);
        }
        for (text, reason) in [
            ("localhost:5173", "the scheme is missing"),
            ("", "the scheme is missing"),
            ("*", "there are no globs"),
            ("http://*.example", "there are no globs"),
            ("null", "any page can call itself"),
            ("http://localhost:5173/", "an origin has no path"),
            ("http://", "this is no host"),
            ("http://b\u{fc}cher.example", "this is no host"),
            ("http://a:99999", "this is no host"),
            ("http://a:0", "this is no host and port"),
            ("http://a:00", "this is no host and port"),
            ("5://a", "only http and https"),
            ("ftp://x:1", "only http and https"),
            ("app://board", "only http and https"),
            ("httpss://a", "only http and https"),
        ] {
            let error = text.parse::<WebOrigin>().unwrap_err();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
    }
}
