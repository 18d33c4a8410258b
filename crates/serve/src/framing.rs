//! The frame headers of the WebSocket, for events that are framed once.

use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// Puts the header of a text frame in front of an event.
pub(crate) fn framing(len: usize, out: &mut Vec<u8>) {
    let header = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
    // A Vec takes everything.
    let _ = header.format(len as u64, out);
}
