//! Input and output ports of x86: how a guest talks to devices that have no driver.

use std::marker::PhantomData;

use crate::Error;

/// The right to use ports. It belongs to the thread that asked for it and to those it starts
/// afterwards, which is why it cannot be sent to another one; they may ask again.
///
/// What a device does with what is written to it is up to the device, as with a file of `/dev`.
#[derive(Clone, Copy, Debug)]
pub struct Ports(PhantomData<*const ()>);

#[cfg(target_arch = "x86_64")]
impl Ports {
    /// Asks for the right to use all ports.
    ///
    /// # Errors
    /// No permission, or the kernel is locked down.
    pub fn acquire() -> Result<Self, Error> {
        // SAFETY: no pointers.
        crate::error::check(unsafe { libc::iopl(3) }).map_err(|errno| {
            Error::new("access the I/O ports", "", errno)
                .remedy_if(libc::EPERM, "this needs root and a kernel that is not locked down")
        })?;
        Ok(Self(PhantomData))
    }

    /// Reads a byte.
    #[must_use]
    pub fn read_u8(self, port: u16) -> u8 {
        let value;
        // SAFETY: `self` proves that this thread may use ports; the instruction touches no memory.
        unsafe {
            std::arch::asm!("in al, dx", in("dx") port, out("al") value,
                options(nomem, nostack, preserves_flags));
        }
        value
    }

    /// Fills `bytes` from one port.
    pub fn read_all(self, port: u16, bytes: &mut [u8]) {
        // SAFETY: `self` proves that this thread may use ports; the instruction writes the
        // `bytes.len()` bytes from `bytes` upwards, the direction flag being clear by the ABI.
        unsafe {
            std::arch::asm!("rep insb", in("dx") port,
                inout("rdi") bytes.as_mut_ptr() => _, inout("rcx") bytes.len() => _,
                options(nostack, preserves_flags));
        }
    }

    /// Writes a byte.
    pub fn write_u8(self, port: u16, value: u8) {
        // SAFETY: `self` proves that this thread may use ports; the instruction touches no memory.
        unsafe {
            std::arch::asm!("out dx, al", in("dx") port, in("al") value,
                options(nomem, nostack, preserves_flags));
        }
    }

    /// Writes two bytes, the lower first.
    pub fn write_u16(self, port: u16, value: u16) {
        // SAFETY: `self` proves that this thread may use ports; the instruction touches no memory.
        unsafe {
            std::arch::asm!("out dx, ax", in("dx") port, in("ax") value,
                options(nomem, nostack, preserves_flags));
        }
    }

    /// Writes four bytes, the lowest first.
    pub fn write_u32(self, port: u16, value: u32) {
        // SAFETY: `self` proves that this thread may use ports; the instruction touches no memory.
        unsafe {
            std::arch::asm!("out dx, eax", in("dx") port, in("eax") value,
                options(nomem, nostack, preserves_flags));
        }
    }

    /// Writes all of `bytes` to one port, one after the other.
    pub fn write_all(self, port: u16, bytes: &[u8]) {
        // SAFETY: `self` proves that this thread may use ports; the instruction reads the
        // `bytes.len()` bytes from `bytes` upwards, the direction flag being clear by the ABI.
        unsafe {
            std::arch::asm!("rep outsb", in("dx") port,
                inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
                options(nostack, preserves_flags, readonly));
        }
    }
}

/// On other processors there are no ports: no value of this type exists.
#[cfg(not(target_arch = "x86_64"))]
#[allow(clippy::missing_const_for_fn, reason = "the same signatures as where there are ports")]
impl Ports {
    /// Always fails.
    ///
    /// # Errors
    /// This processor has no ports.
    pub fn acquire() -> Result<Self, Error> {
        let reason = "only x86 processors have I/O ports";
        Err(Error::other("access the I/O ports", "", reason).with_remedy("use an x86_64 guest"))
    }

    /// Reads nothing.
    #[must_use]
    pub fn read_u8(self, _port: u16) -> u8 {
        0
    }

    /// Reads nothing.
    pub fn read_all(self, _port: u16, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    /// Writes nothing.
    pub fn write_u8(self, _port: u16, _value: u8) {}

    /// Writes nothing.
    pub fn write_u16(self, _port: u16, _value: u16) {}

    /// Writes nothing.
    pub fn write_u32(self, _port: u16, _value: u32) {}

    /// Writes nothing.
    pub fn write_all(self, _port: u16, _bytes: &[u8]) {}
}
