//! What C sees of frames, filters and states, as `vca.h` has it.

use candor_port::{Filter, Origin, Received, State};
use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, ERR_FLAG, ESI, RTR_FLAG, SFF_MASK};
use candor_wire::can::{Frame, Kind};

use crate::errors::Failure;

pub(crate) const EXTENDED: u16 = 0x01;
pub(crate) const REMOTE: u16 = 0x02;
pub(crate) const ERROR: u16 = 0x04;
pub(crate) const FD: u16 = 0x08;
const BIT_RATE_SWITCH: u16 = 0x10;
const ERROR_STATE: u16 = 0x20;
const OWN: u16 = 0x40;
const LOCAL: u16 = 0x80;
/// What the flags of a frame to be sent may be.
const SENT: u16 = EXTENDED | REMOTE | ERROR | FD | BIT_RATE_SWITCH | ERROR_STATE;

/// `struct vca_frame`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawFrame {
    time_ns: u64,
    id: u32,
    flags: u16,
    len: u8,
    reserved: u8,
    data: [u8; 64],
}

/// `struct vca_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawFilter {
    id: u32,
    mask: u32,
    flags: u16,
    flags_mask: u16,
}

/// `struct vca_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawStatus {
    pub(crate) state: u32,
    pub(crate) receive_errors: i32,
    pub(crate) transmit_errors: i32,
    pub(crate) bitrate: u32,
    pub(crate) data_bitrate: u32,
    pub(crate) abilities: u32,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) malformed: u64,
    pub(crate) reserved: [u64; 4],
}

const _: () = assert!(size_of::<RawFrame>() == 80 && size_of::<RawFilter>() == 12);
const _: () = assert!(size_of::<RawStatus>() == 88);

impl RawFrame {
    /// What a port received.
    pub(crate) fn received(received: &Received) -> Self {
        let Received { frame, stamp, origin } = received;
        let kind = match frame.kind() {
            Kind::Error => ERROR,
            Kind::Remote => REMOTE,
            _ => 0,
        };
        let is_extended = frame.is_extended() && frame.kind() != Kind::Error;
        let mut flags = kind | if is_extended { EXTENDED } else { 0 };
        if frame.is_fd() {
            flags |= FD;
            flags |= if frame.fd_flags() & BRS == 0 { 0 } else { BIT_RATE_SWITCH };
            flags |= if frame.fd_flags() & ESI == 0 { 0 } else { ERROR_STATE };
        }
        flags |= match origin {
            Origin::Bus => 0,
            Origin::Machine => LOCAL,
            Origin::Own => OWN,
        };
        Self {
            time_ns: stamp.system.map_or(0, |instant| instant.as_nanos()),
            id: frame.can_id() & EFF_MASK,
            flags,
            len: frame.len() as u8,
            reserved: 0,
            data: *frame.buffer(),
        }
    }

    /// What is to be sent.
    pub(crate) fn to_send(self) -> Result<Frame, Failure> {
        let Self { id, flags, len, reserved, .. } = self;
        let has = |flag: u16| flags & flag != 0;
        if flags & !SENT != 0 || reserved != 0 {
            let reason =
                format!("a frame cannot be sent with flags {flags:#x}, reserved {reserved}");
            return Err(Failure::invalid(reason, "set what has no meaning to 0"));
        }
        if has(ERROR) {
            let remedy = "send only frames";
            return Err(Failure::new(libc::EOPNOTSUPP, "an error report cannot be sent", remedy));
        }
        if !has(FD) && has(BIT_RATE_SWITCH | ERROR_STATE) || has(FD) && has(REMOTE) {
            let reason = format!("no frame has flags {flags:#x}");
            return Err(Failure::invalid(
                reason,
                "use VCA_BRS and VCA_ESI with VCA_FD, which no remote frame has",
            ));
        }
        let most = if has(EXTENDED) { EFF_MASK } else { SFF_MASK };
        if id > most {
            let reason = format!("identifier {id:#x} is above {most:#x}");
            return Err(Failure::invalid(reason, "set VCA_EXTENDED for 29 bits"));
        }
        let wrong_len = || {
            let reason = format!("no frame of this kind has {len} bytes");
            let remedy = "use 0 to 8; for CAN FD also 12, 16, 20, 24, 32, 48, 64";
            Failure::new(libc::EMSGSIZE, reason, remedy)
        };
        let data = self.data.get(..usize::from(len)).ok_or_else(wrong_len)?;
        let word =
            id | if has(EXTENDED) { EFF_FLAG } else { 0 } | if has(REMOTE) { RTR_FLAG } else { 0 };
        let fd = has(FD).then(|| {
            (if has(BIT_RATE_SWITCH) { BRS } else { 0 }) | if has(ERROR_STATE) { ESI } else { 0 }
        });
        // Everything else has been looked at.
        Frame::from_parts(word, data, fd).map_err(|_| wrong_len())
    }
}

impl RawFilter {
    /// The filter of a port.
    pub(crate) fn to_port(self) -> Result<Filter, Failure> {
        let Self { id, mask, flags, flags_mask } = self;
        if (flags | flags_mask) & !(EXTENDED | REMOTE) != 0 || (id | mask) & !EFF_MASK != 0 {
            let reason = "a filter has bits that no identifier has, or other flags";
            return Err(Failure::invalid(reason, "use 29 bits, VCA_EXTENDED and VCA_REMOTE"));
        }
        let word = |id: u32, flags: u16| {
            id | if flags & EXTENDED == 0 { 0 } else { EFF_FLAG }
                | if flags & REMOTE == 0 { 0 } else { RTR_FLAG }
        };
        debug_assert_eq!(word(id, flags) & ERR_FLAG, 0);
        Ok(Filter { id: word(id, flags), mask: word(mask, flags_mask) })
    }
}

/// `VCA_STATE_...`.
pub(crate) const fn state_number(state: State) -> u32 {
    match state {
        State::Unknown => 0,
        State::Stopped => 1,
        State::Active => 2,
        State::Warning => 3,
        State::Passive => 4,
        State::BusOff => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_port::Stamp;
    use candor_time::Instant;

    fn raw(id: u32, flags: u16, len: u8) -> RawFrame {
        RawFrame { time_ns: 7, id, flags, len, reserved: 0, data: [0xAB; 64] }
    }

    #[test]
    fn frames_come_back_as_they_were_sent() {
        for (id, flags, len) in [
            (0, 0, 0),
            (0x7FF, 0, 8),
            (0x7FF, EXTENDED, 1),
            (0x1FFF_FFFF, EXTENDED, 8),
            (0x123, REMOTE, 3),
            (0x123, REMOTE | EXTENDED, 0),
            (0x123, FD, 64),
            (0x123, FD | EXTENDED | BIT_RATE_SWITCH | ERROR_STATE, 12),
        ] {
            let frame = raw(id, flags, len).to_send().unwrap();
            for (origin, more) in [(Origin::Bus, 0), (Origin::Machine, LOCAL), (Origin::Own, OWN)] {
                let system = Some(Instant::from_nanos(99));
                let stamp = Stamp { system, hardware: None };
                let back = RawFrame::received(&Received { frame, stamp, origin });
                assert_eq!((back.id, back.flags, back.len), (id, flags | more, len), "{frame}");
                assert_eq!((back.time_ns, back.reserved), (99, 0));
                let kept = if flags & REMOTE == 0 { usize::from(len) } else { 0 };
                assert!(back.data[..kept].iter().all(|&byte| byte == 0xAB));
                assert!(back.data[kept..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for (frame, errno) in [
            (raw(0x800, 0, 0), libc::EINVAL),
            (raw(0x2000_0000, EXTENDED, 0), libc::EINVAL),
            (raw(0x8000_0001, EXTENDED, 0), libc::EINVAL),
            (raw(1, OWN, 0), libc::EINVAL),
            (raw(1, 0x8000, 0), libc::EINVAL),
            (raw(1, FD | REMOTE, 0), libc::EINVAL),
            (raw(1, BIT_RATE_SWITCH, 0), libc::EINVAL),
            (RawFrame { reserved: 1, ..raw(1, 0, 0) }, libc::EINVAL),
            (raw(1, ERROR, 8), libc::EOPNOTSUPP),
            (raw(1, 0, 9), libc::EMSGSIZE),
            (raw(1, REMOTE, 9), libc::EMSGSIZE),
            (raw(1, FD, 9), libc::EMSGSIZE),
            (raw(1, FD, 65), libc::EMSGSIZE),
            (raw(1, 0, 255), libc::EMSGSIZE),
        ] {
            assert_eq!(frame.to_send().unwrap_err().errno, errno, "{frame:?}");
        }
    }

    #[test]
    fn filters_are_those_of_ports() {
        let filter = |id, mask, flags, flags_mask| RawFilter { id, mask, flags, flags_mask };
        for (raw, expected) in [
            (filter(0, 0, 0, 0), Some((0, 0))),
            (filter(5, 0x7FF, 0, EXTENDED), Some((5, EFF_FLAG | 0x7FF))),
            (
                filter(5, EFF_MASK, EXTENDED | REMOTE, EXTENDED | REMOTE),
                Some((0xC000_0005, 0xDFFF_FFFF)),
            ),
            (filter(1 << 29, 0, 0, 0), None),
            (filter(0, 1 << 31, 0, 0), None),
            (filter(0, 0, ERROR, 0), None),
            (filter(0, 0, 0, FD), None),
        ] {
            let found = raw.to_port().ok().map(|Filter { id, mask }| (id, mask));
            assert_eq!(found, expected, "{raw:?}");
        }
    }
}
