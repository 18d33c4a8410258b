//! Frames and rules that several benches have in common. Inputs are fixed.

use candor_engine::{Bus, BusIndex, Filter, Rule, Table};
use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, RTR_FLAG};

/// A multiplicative generator: enough to spread identifiers and data.
pub(crate) struct Spread(pub(crate) u64);
impl Spread {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }
}

pub(crate) fn frames(
    count: usize,
    make: impl Fn(&mut Spread) -> (u32, usize, Option<u8>),
) -> Vec<Frame> {
    let mut spread = Spread(1);
    (0..count)
        .map(|_| {
            let (can_id, len, fd) = make(&mut spread);
            let mut data = [0; 64];
            data.chunks_mut(8).for_each(|chunk| {
                let word = spread.next() & spread.next().rotate_left(7);
                chunk.copy_from_slice(&word.to_le_bytes());
            });
            Frame::from_parts(can_id, &data[..len], fd).expect("a legal frame")
        })
        .collect()
}

pub(crate) fn table(filters: impl Iterator<Item = Filter>) -> Table {
    let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
    let rules = filters.enumerate().map(|(index, filter)| Rule {
        filters: vec![filter],
        ..Rule::new(format!("{index}"), BusIndex(0), BusIndex(1))
    });
    Table { buses: vec![bus("can0"), bus("can1")], rules: rules.collect(), ..Table::default() }
}

/// 2048 filters with eight different masks, for extended identifiers. Each takes
/// frames of its own: the masks leave out low bits, and the high ones differ.
pub(crate) fn masked() -> impl Iterator<Item = Filter> {
    (0..2_048_u32).map(|index| {
        let mask = EFF_MASK & !((1 << (index % 8)) - 1) | EFF_FLAG | RTR_FLAG;
        Filter { can_id: (index << 8 | EFF_FLAG) & mask, mask, inverted: false }
    })
}

/// 2048 filters with eight masks that have no bit in common: nothing tells beforehand which may
/// match. The worst case of the engine.
pub(crate) fn scattered() -> impl Iterator<Item = Filter> {
    (0..2_048_u32).map(|index| {
        let window =
            |bits: u32| (bits << (index % 8 * 4) | bits >> (29 - index % 8 * 4)) & EFF_MASK;
        let mask = window(0x7FF) | EFF_FLAG | RTR_FLAG;
        let can_id = window(index / 8 * 7 % 2_048) | EFF_FLAG;
        Filter { can_id, mask, inverted: false }
    })
}
