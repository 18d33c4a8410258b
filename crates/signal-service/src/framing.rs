//! What transports put in front of messages, for events that are framed once.

use candor_events::{Format, Framing};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// What is put in front of each message of a format.
pub(crate) const fn framing(format: Format) -> Framing {
    match format {
        Format::Afb(_) => text,
        Format::Binary(_) => binary,
        // One text without an end; what never leaves the process.
        Format::Sse | Format::Plain => nothing,
    }
}

fn nothing(_: usize, _: &mut Vec<u8>) {}

/// The frame header of a text message.
pub(crate) fn text(len: usize, out: &mut Vec<u8>) {
    header(Data::Text, len, out);
}

/// The frame header of a binary message.
pub(crate) fn binary(len: usize, out: &mut Vec<u8>) {
    header(Data::Binary, len, out);
}

/// The frame header of a WebSocket.
fn header(kind: Data, len: usize, out: &mut Vec<u8>) {
    let header = FrameHeader { opcode: OpCode::Data(kind), ..FrameHeader::default() };
    // A Vec takes everything.
    let _ = header.format(len as u64, out);
}
