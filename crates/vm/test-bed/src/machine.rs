//! [`Machine`]: what is around a test bed.

use candor_hardware::ethernet::Outgoing;

use crate::record::Record;

/// Takes records, and has the guest's network cards. A function that takes records is a machine without cards.
pub trait Machine {
    /// Something happened.
    fn note(&mut self, record: Record);

    /// The next frame that a card has to send before the descriptor `tail`, and its first descriptor. `None` if there is
    /// none; what else is there, the card may have.
    fn outgoing(&mut self, card: u8, tail: u16) -> Option<(u16, Outgoing)> {
        let _ = (card, tail);
        None
    }

    /// A frame has left a card: its descriptors, from `first` to before `next`, are the driver's again.
    fn release(&mut self, card: u8, first: u16, next: u16) {
        let _ = (card, first, next);
    }

    /// A frame arrives at a card; whether there is room for it.
    fn arrive(&mut self, card: u8, frame: &[u8]) -> bool {
        let _ = (card, frame);
        false
    }
}

impl<F: FnMut(Record)> Machine for F {
    fn note(&mut self, record: Record) {
        self(record);
    }
}
