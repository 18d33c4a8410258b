//! Trying what the kernel lets this process do, without doing anything with it.

use libc::c_int;

use crate::socket;
use crate::{Errno, Error};

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A CAN socket (`PF_CAN`, `CAN_RAW`). Trying it may load its modules.
    Can,
    /// A packet socket (`AF_PACKET`).
    Packet,
    /// A socket that shares frames with a driver of Ethernet (`AF_XDP`).
    Xdp,
}

impl Kind {
    /// Opens such a socket and closes it.
    ///
    /// # Errors
    /// The kernel has none, or does not let this process.
    pub fn try_open(self) -> Result<(), Error> {
        const AF_XDP: c_int = 44;
        let (name, domain, protocol) = match self {
            Self::Can => ("a CAN socket", libc::PF_CAN, libc::CAN_RAW),
            Self::Packet => ("a packet socket", libc::AF_PACKET, 0),
            Self::Xdp => ("an XDP socket", AF_XDP, 0),
        };
        socket::open(domain, libc::SOCK_RAW, protocol)
            .map(drop)
            .map_err(|errno: Errno| Error::new("open", name, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Capabilities, Capability};

    #[test]
    fn what_the_kernel_has_is_reported() {
        let may = Capabilities::effective().unwrap().has(Capability::NetRaw);
        match Kind::Packet.try_open() {
            Ok(()) => assert!(may),
            Err(error) => assert!(error.is(libc::EPERM) && !may, "{error}"),
        }
        for kind in [Kind::Can, Kind::Xdp] {
            if let Err(error) = kind.try_open() {
                let reasons = [libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT, libc::EPERM];
                assert!(reasons.iter().any(|&reason| error.is(reason)), "{error}");
            }
        }
    }
}
