//! [`State`]: all that is saved and restored with the machine.

use candor_hardware::{Bus, NodeId, Notice, Sja1000};
use candor_wire::can::{Bitrate, Timing};

use crate::log::log;

/// How many controllers there can be.
pub(crate) const MOST_CHIPS: usize = 16;
/// How many buses there are.
const BUSES: usize = 2;
/// Notices of one instant on one bus: each node learns two things at most.
const MOST_NOTICES: usize = 2 * candor_hardware::bus::MOST_NODES;

/// A controller and where it is.
#[derive(Clone, Copy)]
struct Chip {
    registers: Sja1000,
    bus: u8,
    /// The slot of its card, which gives the controllers their order.
    slot: u8,
    /// The level of its interrupt line.
    level: bool,
}

/// Buses and controllers.
pub(crate) struct State {
    /// Says that this library wrote it.
    mark: [u64; 2],
    buses: [Bus; BUSES],
    chips: [Option<Chip>; MOST_CHIPS],
}

/// The first part of the mark; the second one is the size.
const MARK: u64 = 0x6361_6e64_6f72_0001;

impl State {
    /// Buses of these bit rates in bit/s, without controllers.
    pub(crate) fn new(rates: [u32; BUSES]) -> Self {
        let bus = |rate| Bus::new(Timing::classical(Bitrate::new(rate).unwrap_or(Bitrate::MAX)));
        Self { mark: Self::mark(), buses: rates.map(bus), chips: [None; MOST_CHIPS] }
    }

    const fn mark() -> [u64; 2] {
        [MARK, size_of::<Self>() as u64]
    }

    /// Whether this library wrote it.
    pub(crate) fn is_sound(&self) -> bool {
        self.mark == Self::mark()
    }

    /// Adds a controller, in the order of slots; its index, behind which the others have moved by one. `None` if there is
    /// no room.
    pub(crate) fn add_chip(&mut self, bus: u8, slot: u8) -> Option<usize> {
        let count = self.chip_count();
        if count == MOST_CHIPS {
            return None;
        }
        let node = self.buses.get_mut(usize::from(bus))?.add()?;
        let at = self.chips.iter().flatten().take_while(|chip| chip.slot < slot).count();
        self.chips.copy_within(at..count, at + 1);
        self.chips[at] = Some(Chip { registers: Sja1000::new(node), bus, slot, level: false });
        Some(at)
    }

    /// How many controllers there are.
    pub(crate) fn chip_count(&self) -> usize {
        self.chips.iter().flatten().count()
    }

    /// When something happens next, in ns.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.buses.iter().filter_map(Bus::deadline).min()
    }

    /// Everything that happens until `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while let Some(at) = self.deadline().filter(|&at| at <= now_ns) {
            for index in 0..BUSES {
                if self.buses[index].deadline() == Some(at) {
                    self.step(index, at);
                }
            }
        }
    }

    /// What happens on one bus at an instant.
    fn step(&mut self, index: usize, at: u64) {
        let mut notices = [None; MOST_NOTICES];
        let mut free = notices.iter_mut();
        let bus = &mut self.buses[index];
        bus.advance(at, &mut |node, at, notice| {
            if let Some(free) = free.next() {
                *free = Some((node, at, notice));
            }
        });
        for (node, at, notice) in notices.into_iter().flatten() {
            tell(index, node, at, notice);
            let mut chips = self.chips.iter_mut().flatten();
            let chip =
                chips.find(|chip| usize::from(chip.bus) == index && chip.registers.node() == node);
            if let Some(chip) = chip {
                chip.registers.notice(at, notice, bus);
            }
        }
    }

    /// The guest reads a register.
    pub(crate) fn read(&mut self, chip: usize, address: u8, now_ns: u64) -> u8 {
        let Some(Some(chip)) = self.chips.get_mut(chip) else { return 0 };
        chip.registers.read(address, now_ns, &self.buses[usize::from(chip.bus)])
    }

    /// The guest writes a register.
    pub(crate) fn write(&mut self, chip: usize, address: u8, value: u8, now_ns: u64) {
        let Some(Some(chip)) = self.chips.get_mut(chip) else { return };
        chip.registers.write(address, value, now_ns, &mut self.buses[usize::from(chip.bus)]);
    }

    /// The level of the interrupt line of a controller.
    pub(crate) fn level(&self, chip: usize) -> bool {
        self.chips.get(chip).copied().flatten().is_some_and(|chip| chip.level)
    }

    /// The level of the interrupt line of a controller, if it is another one than the last time.
    pub(crate) fn changed_level(&mut self, chip: usize) -> Option<bool> {
        let chip = self.chips.get_mut(chip)?.as_mut()?;
        let level = chip.registers.is_interrupting();
        (chip.level != level).then(|| {
            chip.level = level;
            level
        })
    }
}

/// A line in the log: when, which bus, which node, what.
fn tell(bus: usize, node: NodeId, at: u64, notice: Notice) {
    match notice {
        Notice::Started => log(format_args!("{at} {bus} {} begins\n", node.0)),
        Notice::Sent => log(format_args!("{at} {bus} {} sent\n", node.0)),
        Notice::Received(frame) => log(format_args!("{at} {bus} {} received {frame}\n", node.0)),
        Notice::LostArbitration { bit } => {
            log(format_args!("{at} {bus} {} lost arbitration at bit {bit}\n", node.0))
        }
        Notice::Failed { kind, segment, .. } => {
            log(format_args!("{at} {bus} {} error {kind:?} in {segment:?}\n", node.0));
        }
        Notice::BusOff => log(format_args!("{at} {bus} {} bus-off\n", node.0)),
        Notice::TakesPart => log(format_args!("{at} {bus} {} takes part\n", node.0)),
    }
}
