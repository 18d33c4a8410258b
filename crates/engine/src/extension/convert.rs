//! [`Conversion`]: classical frames become CAN FD frames, and back. Nothing is split and nothing
//! guessed: what the other kind cannot hold is refused.

use candor_wire::can::frame::{BRS, ESI};
use candor_wire::can::socketcan::FDF;
use candor_wire::can::{Frame, frame::Kind};

use crate::edit::Working;

/// What a frame becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Conversion {
    /// A CAN FD frame, at one bit rate.
    Fd,
    /// A CAN FD frame that switches its bit rate (BRS).
    FdWithSwitch,
    /// A classical frame; with at most 8 bytes.
    Classical,
}

/// The other kind has nothing like this frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconvertible;

impl Conversion {
    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fd => "fd",
            Self::FdWithSwitch => "fd-brs",
            Self::Classical => "classical",
        }
    }

    /// Whether frames are CAN FD afterwards.
    #[must_use]
    pub const fn is_fd(self) -> bool {
        !matches!(self, Self::Classical)
    }

    /// The frame as the other kind. A frame that is of that kind already stays as it is. A raw DLC
    /// of a classical frame is lost; the error state indicator of a CAN FD frame too.
    ///
    /// # Errors
    /// There are no remote frames and no error reports of CAN FD, and a classical frame has no more
    /// than 8 bytes.
    pub fn apply(self, frame: &Frame) -> Result<Frame, Unconvertible> {
        if frame.is_fd() == self.is_fd() {
            return Ok(*frame);
        }
        let mut working = Working::new(frame);
        if self.is_fd() {
            if frame.kind() != Kind::Data {
                return Err(Unconvertible);
            }
            working.len = working.len.min(8);
            working.flags = FDF | if self == Self::FdWithSwitch { BRS } else { 0 };
        } else {
            if working.len > 8 {
                return Err(Unconvertible);
            }
            working.flags &= !(BRS | ESI | FDF);
        }
        // What an edit left behind the length is not carried over.
        let len = working.byte_len();
        working.data[len..].fill(0);
        working.is_fd = self.is_fd();
        working.finish().map_err(|_| Unconvertible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_converted_and_nothing_else() {
        for (conversion, from, to) in [
            (Conversion::Fd, "123#1122", Some("123##01122")),
            (Conversion::FdWithSwitch, "12345678#11", Some("12345678##111")),
            (Conversion::Fd, "123#1122334455667788_C", Some("123##01122334455667788")),
            (Conversion::Fd, "123##3112233", Some("123##3112233")),
            (Conversion::Fd, "123#R2", None),
            (Conversion::Fd, "20000088#0001", None),
            (Conversion::Classical, "123##31122", Some("123#1122")),
            (Conversion::Classical, "123##0", Some("123#")),
            (Conversion::Classical, "123##01122334455667788", Some("123#1122334455667788")),
            (Conversion::Classical, "123##0112233445566778899001122", None),
            (Conversion::Classical, "123#R2", Some("123#R2")),
        ] {
            let converted = conversion.apply(&from.parse().unwrap());
            assert_eq!(converted.ok(), to.map(|to| to.parse().unwrap()), "{from} {conversion:?}");
        }
    }
}
