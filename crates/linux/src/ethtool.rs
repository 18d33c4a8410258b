//! What a controller can do, as `ethtool` asks for it.

use std::os::fd::AsRawFd;

use crate::Error;
use crate::error::check;
use crate::socket;

/// `SIOCETHTOOL`, `linux/sockios.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// `ETHTOOL_GET_TS_INFO`, `linux/ethtool.h`.
const GET_STAMPING: u32 = 0x41;

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TimestampInfo {
    command: u32,
    stamping: u32,
    clock: i32,
    transmit_types: u32,
    reserved: [u32; 3],
    receive_filters: u32,
    reserved_too: [u32; 3],
}

/// Which time stamps an interface can give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamping {
    /// The kernel stamps what is received.
    pub software: bool,
    /// The controller stamps what is received.
    pub hardware: bool,
    /// The controller, or its driver, stamps what is transmitted.
    pub transmit: bool,
    /// The driver stamps what is transmitted, by the kernel's clock.
    pub transmit_software: bool,
    /// The number of the controller's clock (`/dev/ptp0` and so on), if it is one that can be read.
    pub clock: Option<u32>,
}

/// Asks which time stamps an interface of this network namespace can give.
///
/// # Errors
/// There is no such interface, or its driver does not know.
pub fn stamping(interface: &str) -> Result<Stamping, Error> {
    let fail = |errno| Error::new("read the time stamping of", interface, errno);
    let mut info = TimestampInfo { command: GET_STAMPING, ..TimestampInfo::default() };
    let mut request = socket::interface_request(interface).map_err(fail)?;
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    let fd = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0)
        .or_else(|_| socket::open(libc::AF_UNIX, libc::SOCK_DGRAM, 0))
        .map_err(fail)?;
    // SAFETY: the request points to an `ethtool_ts_info`, which outlives the call; the kernel writes
    // no more than that for this command.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, &mut request) }).map_err(fail)?;
    let has = |bit: libc::c_uint| info.stamping & bit != 0;
    Ok(Stamping {
        software: has(libc::SOF_TIMESTAMPING_RX_SOFTWARE),
        hardware: has(libc::SOF_TIMESTAMPING_RX_HARDWARE),
        transmit: has(libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_TX_SOFTWARE),
        transmit_software: has(libc::SOF_TIMESTAMPING_TX_SOFTWARE),
        clock: u32::try_from(info.clock).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_stamped_by_the_kernel_alone() {
        let stamping = stamping("lo").unwrap();
        assert!(stamping.software && !stamping.hardware, "{stamping:?}");
        assert!(stamping.transmit_software && stamping.transmit, "{stamping:?}");
        assert_eq!(stamping.clock, None);
    }

    #[test]
    fn what_is_no_interface_is_reported() {
        for name in ["", "no-such-if", "a-name-that-is-far-too-long", "a\0b"] {
            assert!(super::stamping(name).unwrap_err().is(libc::ENODEV), "{name:?}");
        }
    }
}
