//! Identifiers and frames in the words of findings.

use alloc::format;
use alloc::string::String;

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, RTR_FLAG, SFF_MASK};

use crate::pattern;
use crate::region::Cube;

/// An identifier word for messages.
pub(super) fn show_word(word: u32) -> String {
    let remote = if word & RTR_FLAG != 0 { "remote " } else { "" };
    let id = pattern::show_identifier(word & !RTR_FLAG);
    format!("{remote}{}", id.unwrap_or_else(|| format!("{word:08X}")))
}

/// `frame 0x123`, or one of many.
pub(super) fn show_frames(cube: Cube) -> String {
    let width = if cube.value & EFF_FLAG == 0 { SFF_MASK } else { EFF_MASK };
    let is_one = cube.known & width == width;
    let such = if is_one { "frame" } else { "a frame such as" };
    format!("{such} {}", show_word(cube.example()))
}

/// The pattern that excludes a cube.
pub(super) fn show_exclusion(cube: Cube) -> String {
    format!("\"!{}\"", pattern::show(cube.filter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_frame_is_told_from_many() {
        for (value, known, expected) in [
            (0x123, SFF_MASK, "frame 0x123"),
            (0x123, 0x723, "a frame such as 0x123"),
            (0x123, u32::MAX, "frame 0x123"),
            (EFF_FLAG | 0x123, EFF_FLAG | EFF_MASK, "frame 0x123x"),
            (EFF_FLAG | 0x123, EFF_FLAG | SFF_MASK, "a frame such as 0x123x"),
        ] {
            assert_eq!(show_frames(Cube { value, known }), expected, "{value:x}:{known:x}");
        }
    }
}
