//! As much of HTTP/1.1 as one page needs.

use httparse::{EMPTY_HEADER, Error, Request, Status};

/// The longest request head that is read.
pub const MAX_REQUEST: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// What a request asks for, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its head has not come completely.
    More,
    /// The metrics.
    Metrics {
        /// Without the text itself.
        head_only: bool,
    },
    /// Something that there is not.
    Refused(Refusal),
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no request.
    Malformed,
    /// Another path.
    NotFound,
    /// Neither GET nor HEAD.
    Method,
    /// It did not come in time.
    TooSlow,
    /// Its head is too long, or has too many lines.
    TooLong,
    /// Too many others are being answered.
    TooMany,
    /// Another version of HTTP.
    Version,
}

/// What the head of a request asks for, or that there is more to come. A body is not waited for.
#[must_use]
pub fn asked(bytes: &[u8]) -> Asked {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Partial) if bytes.len() >= MAX_REQUEST => Asked::Refused(Refusal::TooLong),
        Ok(Status::Partial) => Asked::More,
        Ok(Status::Complete(len)) if len > MAX_REQUEST => Asked::Refused(Refusal::TooLong),
        Ok(Status::Complete(_)) => {
            let path = request.path.unwrap_or_default();
            let path = path.split(['?', '#']).next().unwrap_or_default();
            match (path, request.method.unwrap_or_default()) {
                ("/metrics", "GET") => Asked::Metrics { head_only: false },
                ("/metrics", "HEAD") => Asked::Metrics { head_only: true },
                ("/metrics", _) => Asked::Refused(Refusal::Method),
                _ => Asked::Refused(Refusal::NotFound),
            }
        }
        Err(Error::TooManyHeaders) => Asked::Refused(Refusal::TooLong),
        Err(Error::Version) => Asked::Refused(Refusal::Version),
        Err(_) => Asked::Refused(Refusal::Malformed),
    }
}

impl Refusal {
    const fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::Method => "405 Method Not Allowed",
            Self::TooSlow => "408 Request Timeout",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::TooMany => "503 Service Unavailable",
            Self::Version => "505 HTTP Version Not Supported",
        }
    }

    const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "this is not an HTTP request",
            Self::NotFound => "not found; the only path is /metrics",
            Self::Method => "use GET or HEAD",
            Self::TooSlow => "the request took too long to arrive",
            Self::TooLong => "the request is too long",
            Self::TooMany => "too many connections; try again",
            Self::Version => "use HTTP/1.1",
        }
    }

    /// The answer, whole.
    #[must_use]
    pub fn answer(self) -> Vec<u8> {
        let allow = if self == Self::Method { "Allow: GET, HEAD\r\n" } else { "" };
        let reason = self.reason();
        let head = head(self.status(), "text/plain; charset=utf-8", reason.len() + 1, allow);
        format!("{head}{reason}\n").into_bytes()
    }
}

fn head(status: &str, kind: &str, len: usize, further: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{further}\
         Connection: close\r\n\r\n"
    )
}

/// The metrics as an answer.
pub(super) fn answer(text: &str, head_only: bool) -> Vec<u8> {
    let mut answer = head("200 OK", "text/plain; version=0.0.4; charset=utf-8", text.len(), "");
    if !head_only {
        answer.push_str(text);
    }
    answer.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood() {
        let metrics = Asked::Metrics { head_only: false };
        for (request, expected) in [
            ("", Asked::More),
            ("GET /met", Asked::More),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", Asked::More),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", metrics),
            ("GET /metrics HTTP/1.0\r\n\r\n", metrics),
            ("GET /metrics?name[]=candor_up HTTP/1.1\r\n\r\n", metrics),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Asked::Metrics { head_only: true }),
            ("POST /metrics HTTP/1.1\r\n\r\n", Asked::Refused(Refusal::Method)),
            ("get /metrics HTTP/1.1\r\n\r\n", Asked::Refused(Refusal::Method)),
            ("GET / HTTP/1.1\r\n\r\n", Asked::Refused(Refusal::NotFound)),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", Asked::Refused(Refusal::NotFound)),
            ("GET /../metrics HTTP/1.1\r\n\r\n", Asked::Refused(Refusal::NotFound)),
            ("GET /metrics HTTP/2.0\r\n\r\n", Asked::Refused(Refusal::Version)),
            ("\u{16}\u{3}\u{1}", Asked::Refused(Refusal::Malformed)),
            ("GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", Asked::Refused(Refusal::Malformed)),
        ] {
            assert_eq!(asked(request.as_bytes()), expected, "{request:?}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(MAX_REQUEST));
        assert_eq!(asked(long.as_bytes()), Asked::Refused(Refusal::TooLong));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(100));
        assert_eq!(asked(many.as_bytes()), Asked::Refused(Refusal::TooLong));
    }

    #[test]
    fn answers_say_how_long_they_are() {
        let all = [
            Refusal::Malformed,
            Refusal::NotFound,
            Refusal::Method,
            Refusal::TooSlow,
            Refusal::TooLong,
            Refusal::TooMany,
            Refusal::Version,
        ];
        for refusal in all {
            check(&refusal.answer(), refusal.reason().len() + 1);
        }
        check(&answer("x 1\n", false), 4);
        let head = String::from_utf8(answer("x 1\n", true)).unwrap();
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"));
        let method = String::from_utf8(Refusal::Method.answer()).unwrap();
        assert!(method.contains("\r\nAllow: GET, HEAD\r\n"), "{method}");
    }

    #[track_caller]
    fn check(answer: &[u8], len: usize) {
        let mut headers = [EMPTY_HEADER; 8];
        let mut response = httparse::Response::new(&mut headers);
        let Ok(Status::Complete(head)) = response.parse(answer) else { panic!("no response") };
        let stated = response.headers.iter().find(|header| header.name == "Content-Length");
        assert_eq!(stated.unwrap().value, len.to_string().as_bytes());
        assert_eq!(answer.len() - head, len);
    }
}
