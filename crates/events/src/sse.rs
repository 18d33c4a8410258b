//! Events as lines of `text/event-stream`, for HTML's Server-Sent Events (WHATWG HTML, section 9.2): `data: ` and an object
//! of JSON, and an empty line behind.

use std::io::Write as _;

use candor_wire::can::Frame;

use crate::afb::{number, raw_data, whole};
use crate::log::Mark;
use crate::topic::Topic;

/// Everything up to the value.
fn begin(topic: &Topic, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: {\"name\":\"");
    out.extend_from_slice(topic.escaped.as_bytes());
    out.extend_from_slice(b"\",");
}

/// Everything behind the value.
fn end(mark: Mark, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"timestamp\":");
    whole(mark.time_ns / 1_000, out);
    out.extend_from_slice(b",\"ordinal\":");
    whole(mark.ordinal, out);
    out.extend_from_slice(b"}\n\n");
}

pub(crate) fn signal_event(
    topic: &Topic,
    mark: Mark,
    value: f64,
    text: Option<&str>,
    out: &mut Vec<u8>,
) {
    begin(topic, out);
    out.extend_from_slice(b"\"value\":");
    number(value, out);
    if let Some(text) = text {
        out.extend_from_slice(b",\"text\":");
        let _ = serde_json::to_writer(&mut *out, text);
    }
    end(mark, out);
}

pub(crate) fn raw_event(topic: &Topic, mark: Mark, frame: &Frame, out: &mut Vec<u8>) {
    begin(topic, out);
    raw_data(frame, out);
    end(mark, out);
}

/// The event `missed`: how many events were missed since the last one, and in all.
pub(crate) fn missed_event(missed: u64, total: u64, out: &mut Vec<u8>) {
    let _ = write!(out, "event: missed\ndata: {{\"missed\":{missed},\"total\":{total}}}\n\n");
}
