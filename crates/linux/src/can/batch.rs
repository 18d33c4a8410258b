//! Buffers for many frames at a time, made once.
//!
//! The kernel wants an array of headers that point to vectors that point to buffers. All of them
//! lie in two heap blocks that never move, so the pointers are set once.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use candor_wire::can::socketcan::CANFD_MTU;

use super::{RawFrame, Received};
use crate::control::CONTROL_WORDS;

/// Where one frame goes.
struct Slot {
    vector: libc::iovec,
    control: [u64; CONTROL_WORDS],
    bytes: [u8; CANFD_MTU],
}

/// The headers and their slots.
struct Slots {
    headers: NonNull<libc::mmsghdr>,
    slots: NonNull<Slot>,
    capacity: usize,
}

// SAFETY: both blocks belong to this value alone, and all pointers in them point into them.
unsafe impl Send for Slots {}
// SAFETY: through a shared reference they are only read.
unsafe impl Sync for Slots {}

impl Slots {
    fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1024);
        let slots = leak((0..capacity).map(|_| Slot {
            vector: libc::iovec { iov_base: std::ptr::null_mut(), iov_len: CANFD_MTU },
            control: [0; CONTROL_WORDS],
            bytes: [0; CANFD_MTU],
        }));
        let headers = leak((0..capacity).map(|index| {
            // SAFETY: zeroes are a valid `mmsghdr`.
            let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            // SAFETY: `index` is within the block. No references to slots are made; the pointers
            // are derived from that of the block and stay valid as long as it.
            unsafe {
                let slot = slots.as_ptr().add(index);
                (*slot).vector.iov_base = (&raw mut (*slot).bytes).cast();
                header.msg_hdr.msg_iov = &raw mut (*slot).vector;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = (&raw mut (*slot).control).cast();
                header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
            }
            header
        }));
        Self { headers, slots, capacity }
    }

    fn header(&self, index: usize) -> &libc::mmsghdr {
        assert!(index < self.capacity);
        // SAFETY: within the block, which is initialised, and nobody changes it meanwhile.
        unsafe { &*self.headers.as_ptr().add(index) }
    }

    /// Of the control buffer of slot `index`, the first `len` bytes.
    fn control(&self, index: usize, len: usize) -> &[u8] {
        assert!(index < self.capacity);
        let size = size_of::<[u64; CONTROL_WORDS]>();
        // SAFETY: within the block, which is initialised, and nobody changes it meanwhile.
        unsafe {
            let start = (&raw const (*self.slots.as_ptr().add(index)).control).cast();
            std::slice::from_raw_parts(start, len.min(size))
        }
    }

    /// Of slot `index`, the first `len` bytes.
    fn bytes(&self, index: usize, len: usize) -> &[u8] {
        assert!(index < self.capacity);
        // SAFETY: within the block, which is initialised, and nobody changes it meanwhile.
        let bytes: &[u8; CANFD_MTU] = unsafe { &(*self.slots.as_ptr().add(index)).bytes };
        &bytes[..len.min(CANFD_MTU)]
    }
}

/// A heap block that is freed by [`free`].
fn leak<T>(items: impl Iterator<Item = T>) -> NonNull<T> {
    let block: Box<[T]> = items.collect();
    NonNull::from(Box::leak(block)).cast()
}

/// Frees a block.
///
/// # Safety
/// It comes from [`leak`], has `len` items, and nobody uses it any more.
unsafe fn free<T>(block: NonNull<T>, len: usize) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(block.as_ptr(), len)) });
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: both blocks come from boxes of that many items, and nobody uses them any more.
        unsafe {
            free(self.headers, self.capacity);
            free(self.slots, self.capacity);
        }
    }
}

/// Room for received frames, with time stamps and overflow counts as far as the socket is set up for them.
pub struct Inbox {
    slots: Slots,
    filled: usize,
}

impl Inbox {
    /// For up to `capacity` frames at a time, 1 to 1,024.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { slots: Slots::new(capacity), filled: 0 }
    }

    /// The most frames at a time.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.capacity
    }

    /// Frames received by the last call.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// Whether the last call received none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The bytes of frame `index`, as [`RawFrame::as_bytes`]; none if there are not so many.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &[u8] {
        if index >= self.filled {
            return &[];
        }
        self.slots.bytes(index, self.slots.header(index).msg_len as usize)
    }

    /// The bytes of all frames, in the order of their arrival.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.filled).map(|index| self.bytes(index))
    }

    /// Frame `index` with what the kernel says about it.
    #[must_use]
    pub fn received(&self, index: usize) -> Option<Received> {
        if index >= self.filled {
            return None;
        }
        let header = &self.slots.header(index).msg_hdr;
        let frame = RawFrame::from_bytes(self.bytes(index)).unwrap_or(RawFrame::empty());
        let control = self.slots.control(index, header.msg_controllen as _);
        Some(Received::new(frame, header.msg_flags, control))
    }

    /// Where the kernel may write, ready to be written.
    pub(super) fn room(&mut self) -> (*mut libc::mmsghdr, usize) {
        for index in 0..self.filled {
            // SAFETY: within the block; the kernel shortened it to what it wrote.
            unsafe {
                (*self.slots.headers.as_ptr().add(index)).msg_hdr.msg_controllen =
                    size_of::<[u64; CONTROL_WORDS]>() as _;
            }
        }
        self.filled = 0;
        (self.slots.headers.as_ptr(), self.slots.capacity)
    }

    /// How many headers the kernel filled.
    pub(super) fn set_filled(&mut self, count: usize) {
        self.filled = count.min(self.slots.capacity);
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox ({} of {})", self.filled, self.slots.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_inbox_gives_nothing() {
        let mut inbox = Inbox::new(0);
        assert_eq!((inbox.capacity(), inbox.len()), (1, 0));
        assert!(inbox.received(0).is_none() && inbox.bytes(0).is_empty());
        assert_eq!(inbox.frames().count(), 0);
        inbox.set_filled(99);
        assert_eq!(inbox.len(), 1);
    }
}
