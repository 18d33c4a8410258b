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

/// The longest frame header that a service writes (RFC 6455 section 5.2).
const MOST_HEADER: usize = 10;

/// A message with its header, somewhere in these bytes: a long one is not copied to get its header.
pub(crate) struct Framed {
    pub(crate) bytes: Vec<u8>,
    /// Where it begins.
    pub(crate) start: usize,
}

impl Framed {
    /// A message that is appended to what it is given.
    pub(crate) fn new(framing: Framing, encode: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = vec![0; MOST_HEADER];
        encode(&mut bytes);
        bytes.shrink_to_fit();
        let mut header = Vec::with_capacity(MOST_HEADER);
        framing(bytes.len() - MOST_HEADER, &mut header);
        let start = MOST_HEADER.saturating_sub(header.len());
        if let Some(room) = bytes.get_mut(start..MOST_HEADER) {
            room.copy_from_slice(&header);
        }
        Self { bytes, start }
    }
}
