//! `candor frame`: the bits of a frame on the wire.
//!
//! `candor help json frame` describes what `--json` prints.

use candor_wire::can::bits::{self, Length, stream};
use candor_wire::can::{Bitrate, Frame, Timing};
use clap::Args;

use crate::Answer;
use crate::json::{self, Present, objects};
use crate::output::{Table, duration, note_unusual, print};

/// Frames are written as candump and cansend do: 123#DEADBEEF (standard identifier), 12345678#
/// (extended, 8 digits), 123#R2 (remote), 123##1AABB (CAN FD with flags 1 = bit rate switch).
#[derive(Args)]
pub(crate) struct FrameArguments {
    /// Frames, such as 123#DEADBEEF
    #[arg(required = true, value_name = "FRAME")]
    frames: Vec<Frame>,
    /// The (nominal) bit rate
    #[arg(long, default_value = "1M", value_name = "RATE")]
    bitrate: Bitrate,
    /// The bit rate of the data phase of CAN FD frames with bit rate switch
    #[arg(long, default_value = "2M", value_name = "RATE")]
    data_bitrate: Bitrate,
    /// Show every bit with its field; stuff bits are marked
    #[arg(long, conflicts_with = "json")]
    bits: bool,
    /// Print JSON Lines: one object per frame
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &FrameArguments) -> Answer {
    let timing = Timing { nominal: arguments.bitrate, data: arguments.data_bitrate };
    note_unusual(timing);
    let lines = arguments
        .frames
        .iter()
        .map(|frame| describe(frame, timing).map_err(|error| format!("{frame}: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    if arguments.json {
        print(&json::lines(lines)?)?;
    } else if arguments.bits {
        print(&arguments.frames.iter().map(picture).collect::<String>())?;
    } else {
        print(&overview(&lines))?;
    }
    Ok(true)
}

/// A frame with its bits on a bus.
struct OnWire {
    frame: Frame,
    timing: Timing,
    exact: Length,
    /// What a frame of this kind and length has at most.
    worst: Length,
}

objects! {
    /// A frame on the wire: its bits and how long they take, with the 3 bits of intermission.
    "frame" of "frame"; plain = true for OnWire as it {
        /// The frame in the notation of candump, such as 123#DEADBEEF
        frame;
        /// All its bits, stuff bits included
        bits = it.exact.total();
        /// The stuff bits of them
        stuff_bits = it.exact.stuff_bits;
        /// The bits that a frame of this kind and length has at most
        bits_worst = it.worst.total();
        /// How long it takes, in ns
        duration_ns = it.timing.duration_ns(it.exact);
        /// How long a frame of this kind and length takes at most, in ns
        duration_ns_worst = it.timing.duration_ns(it.worst);
        /// The bits at the nominal bit rate; only of CAN FD frames
        bits_nominal = Present(it.frame.is_fd().then_some(it.exact.nominal));
        /// The bits at the bit rate of the data phase; only of CAN FD frames
        bits_data = Present(it.frame.is_fd().then_some(it.exact.data));
    }
}

fn describe(frame: &Frame, timing: Timing) -> Result<OnWire, bits::NotOnTheWire> {
    let (exact, worst) = (bits::length(frame)?, bits::worst_length(frame)?);
    Ok(OnWire { frame: *frame, timing, exact, worst })
}

fn overview(lines: &[OnWire]) -> String {
    Table::of(lines)
        .column("frame", |it| it.frame.to_string())
        .column(">bits", |it| it.exact.total().to_string())
        .column(">of which stuff", |it| it.exact.stuff_bits.to_string())
        .column(">at worst", |it| it.worst.total().to_string())
        .column(">duration", |it| duration(it.timing.duration_ns(it.exact) as f64))
        .column(">at worst", |it| duration(it.timing.duration_ns(it.worst) as f64))
        .text()
}

/// The frame bit by bit: fields side by side, stuff bits in brackets.
fn picture(frame: &Frame) -> String {
    let mut out = format!("{frame}\n");
    let mut field = None;
    // `describe` has refused what has no bits.
    let _ = stream::encode(frame, |bit| {
        if field != Some(bit.field) {
            field = Some(bit.field);
            out.push_str(&format!("\n  {:<13}", bit.field.name()));
        }
        let value = u8::from(bit.value);
        out.push_str(&if bit.is_stuff { format!("[{value}]") } else { value.to_string() });
    });
    out.push_str("\n\n  [ ] stuff bits; 0 dominant, 1 recessive\n");
    out
}
