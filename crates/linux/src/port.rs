//! Input and output ports of x86: how a guest talks to devices that have no driver.

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use crate::Error;

/// The right to use a range of ports. It belongs to the thread that asked for it and to those it starts
/// afterwards, which is why it cannot be sent to another one; they may ask again.
///
/// What a device does with what is written to it is up to the device, as with a file of `/dev`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "there is no value"))]
pub struct Ports {
    first: u16,
    last: u16,
    thread: PhantomData<*const ()>,
}

/// Functions that use a port panic if it, or one behind it that the value takes, is not in the range.
#[cfg(target_arch = "x86_64")]
impl Ports {
    /// Asks for the right to use these ports (`ioperm(2)`).
    ///
    /// # Errors
    /// No permission, or the kernel is locked down; the range is empty.
    pub fn acquire(range: RangeInclusive<u16>) -> Result<Self, Error> {
        let (first, last) = range.into_inner();
        let count = (u64::from(last) + 1).saturating_sub(first.into());
        // SAFETY: no pointers.
        crate::error::check(unsafe { libc::ioperm(first.into(), count, 1) }).map_err(|errno| {
            Error::new("access the I/O ports", format!("{first:#x} to {last:#x}"), errno)
                .remedy_if(libc::EPERM, "this needs root and a kernel that is not locked down")
        })?;
        Ok(Self { first, last, thread: PhantomData })
    }

    /// The port, if `width` of them from it upwards are in the range.
    ///
    /// # Panics
    /// They are not.
    #[track_caller]
    fn checked(self, port: u16, width: u16) -> u16 {
        let Self { first, last, .. } = self;
        let is_mine = port >= first && port.checked_add(width - 1).is_some_and(|end| end <= last);
        assert!(is_mine, "port {port:#x} ({width} bytes) is not one of {first:#x} to {last:#x}");
        port
    }

    /// Reads a byte.
    #[must_use]
    pub fn read_u8(self, port: u16) -> u8 {
        let port = self.checked(port, 1);
        let value;
        // SAFETY: this thread may use this port; the instruction touches no memory.
        unsafe {
            std::arch::asm!("in al, dx", in("dx") port, out("al") value,
                options(nomem, nostack, preserves_flags));
        }
        value
    }

    /// Fills `bytes` from one port.
    pub fn read_all(self, port: u16, bytes: &mut [u8]) {
        let port = self.checked(port, 1);
        // SAFETY: this thread may use this port; the instruction writes the
        // `bytes.len()` bytes from `bytes` upwards, the direction flag being clear by the ABI.
        unsafe {
            std::arch::asm!("rep insb", in("dx") port,
                inout("rdi") bytes.as_mut_ptr() => _, inout("rcx") bytes.len() => _,
                options(nostack, preserves_flags));
        }
    }

    /// Writes a byte.
    pub fn write_u8(self, port: u16, value: u8) {
        let port = self.checked(port, 1);
        // SAFETY: this thread may use this port; the instruction touches no memory.
        unsafe {
            std::arch::asm!("out dx, al", in("dx") port, in("al") value,
                options(nomem, nostack, preserves_flags));
        }
    }

    /// Writes two bytes, the lower first.
    pub fn write_u16(self, port: u16, value: u16) {
        let port = self.checked(port, 2);
        // SAFETY: this thread may use this port; the instruction touches no memory.
        unsafe {
            std::arch::asm!("out dx, ax", in("dx") port, in("ax") value,
                options(nomem, nostack, preserves_flags));
        }
    }

    /// Writes four bytes, the lowest first. A device may use memory then ([`dma`](crate::dma)).
    pub fn write_u32(self, port: u16, value: u32) {
        let port = self.checked(port, 4);
        // SAFETY: this thread may use this port; the compiler takes it that the instruction uses memory.
        unsafe {
            std::arch::asm!("out dx, eax", in("dx") port, in("eax") value,
                options(nostack, preserves_flags));
        }
    }

    /// Writes all of `bytes` to one port, one after the other.
    pub fn write_all(self, port: u16, bytes: &[u8]) {
        let port = self.checked(port, 1);
        // SAFETY: this thread may use this port; the instruction reads the
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
    pub fn acquire(_range: RangeInclusive<u16>) -> Result<Self, Error> {
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn only_the_ports_of_the_range_are_used() {
        for ((first, last), port, width, is_mine) in [
            ((0x510, 0x511), 0x510, 1, true),
            ((0x510, 0x511), 0x511, 1, true),
            ((0x510, 0x511), 0x510, 2, true),
            ((0x510, 0x511), 0x50F, 1, false),
            ((0x510, 0x511), 0x50F, 2, false),
            ((0x510, 0x511), 0x512, 1, false),
            ((0x510, 0x511), 0x511, 2, false),
            ((0x510, 0x511), 0x510, 4, false),
            ((0xCF8, 0xCFB), 0xCF8, 4, true),
            ((0xCF8, 0xCFB), 0xCF9, 4, false),
            ((0, 0xFFFF), 0xFFFF, 1, true),
            ((0, 0xFFFF), 0xFFFE, 2, true),
            ((0, 0xFFFF), 0xFFFF, 2, false),
            ((0, 0xFFFF), 0xFFFD, 4, false),
        ] {
            let ports = Ports { first, last, thread: PhantomData };
            let checked = catch_unwind(|| ports.checked(port, width)).ok();
            assert_eq!(checked, is_mine.then_some(port), "{first:#x} {last:#x} {port:#x} {width}");
        }
    }

    /// Each function, on a port next to the range: none of them gets as far as to the instruction.
    #[test]
    fn no_function_uses_another_port() {
        let ports = Ports { first: 0x80, last: 0x80, thread: PhantomData };
        let functions: [fn(Ports); 6] = [
            |ports| assert!(ports.read_u8(0x81) > 0),
            |ports| ports.read_all(0x81, &mut [0]),
            |ports| ports.write_u8(0x81, 0),
            |ports| ports.write_u16(0x80, 0),
            |ports| ports.write_u32(0x80, 0),
            |ports| ports.write_all(0x81, &[0]),
        ];
        for (index, function) in functions.into_iter().enumerate() {
            let panicked = catch_unwind(|| function(ports)).unwrap_err();
            let said = panicked.downcast_ref::<String>().unwrap();
            assert!(said.ends_with("is not one of 0x80 to 0x80"), "{index}: {said}");
        }
    }
}
