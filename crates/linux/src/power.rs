//! The end of the machine. What is not written to disk is lost.

use std::convert::Infallible;

use libc::c_int;

use crate::{Errno, Error};

/// Switches the machine off.
///
/// # Errors
/// No permission; otherwise it does not return.
pub fn power_off() -> Result<Infallible, Error> {
    end("switch the machine off", libc::LINUX_REBOOT_CMD_POWER_OFF)
}

/// Starts the machine again. QEMU with `-no-reboot` ends instead.
///
/// # Errors
/// No permission; otherwise it does not return.
pub fn restart() -> Result<Infallible, Error> {
    end("restart the machine", libc::LINUX_REBOOT_CMD_RESTART)
}

fn end(attempt: &'static str, command: c_int) -> Result<Infallible, Error> {
    // SAFETY: no pointers; `reboot` in libc supplies the two magic numbers.
    unsafe {
        libc::sync();
        libc::reboot(command);
    }
    Err(Error::new(attempt, "", Errno::last()).remedy_if(libc::EPERM, "it takes root"))
}
