//! Records in order of time, as far as a bounded number of them that wait allows.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::record::{EitherRecord, PacketSpan};

type Found = EitherRecord<PacketSpan>;

/// How many records wait at most for earlier ones.
pub const SORT_WINDOW: usize = 1 << 16;
/// How many bytes of packets wait at most.
const MOST_BYTES: usize = 64 << 20;

/// What became of records that were stamped earlier than one before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Those that are at their place in time now.
    pub moved: u64,
    /// Those that came when their place had been passed: the order goes back in time there.
    pub late: u64,
}

/// Records that wait for earlier ones.
///
/// The earliest is told when more than a window of them wait. So what comes out is in order if before each record at most a
/// window of later ones came: what is told before it would have been the earliest of a window and one more, all of them later and
/// before it. Records with the same time keep their order.
pub(crate) struct Sorter<E> {
    window: usize,
    waiting: BinaryHeap<Waiting>,
    bytes: usize,
    count: u64,
    /// The latest time that came, and that was told.
    came_ns: u64,
    told_ns: u64,
    sorted: Sorted,
    /// The packet of the record that was told last.
    packet: Box<[u8]>,
    /// No more comes; perhaps since there was an error, which is told behind all that came before it.
    end: Option<Option<E>>,
}

struct Waiting {
    time_ns: u64,
    number: u64,
    found: Found,
    packet: Box<[u8]>,
}

impl Waiting {
    const fn place(&self) -> (u64, u64) {
        (self.time_ns, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The heap gives the greatest first, which is to be the earliest.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        other.place().cmp(&self.place())
    }
}

impl<E> Sorter<E> {
    pub(crate) fn new(window: usize) -> Self {
        Self {
            window,
            waiting: BinaryHeap::new(),
            bytes: 0,
            count: 0,
            came_ns: 0,
            told_ns: 0,
            sorted: Sorted::default(),
            packet: Box::default(),
            end: None,
        }
    }

    pub(crate) const fn sorted(&self) -> Sorted {
        self.sorted
    }

    /// Whether more is to come before the next record can be told.
    pub(crate) fn wants_more(&self) -> bool {
        self.end.is_none() && self.waiting.len() <= self.window && self.bytes <= MOST_BYTES
    }

    /// A record came, whose packet, if it has one, is in `buffer`.
    pub(crate) fn push(&mut self, found: Found, buffer: &[u8]) {
        let (found, packet) = match found {
            Found::Can(_) => (found, Box::default()),
            Found::Ethernet(record) => {
                let packet: Box<[u8]> = record.frame.slice(buffer).bytes.into();
                let moved = |span: PacketSpan| PacketSpan { start: 0, len: packet.len(), ..span };
                (Found::Ethernet(record.map(moved)), packet)
            }
        };
        let time_ns = found.time_ns();
        if time_ns < self.told_ns {
            self.sorted.late += 1;
        } else if time_ns < self.came_ns {
            self.sorted.moved += 1;
        }
        self.came_ns = self.came_ns.max(time_ns);
        self.bytes += packet.len();
        self.count += 1;
        self.waiting.push(Waiting { time_ns, number: self.count, found, packet });
    }

    /// No more comes, because of an error or since all was read.
    pub(crate) fn end(&mut self, error: Option<E>) {
        self.end = Some(error);
    }

    /// The earliest record, whose packet is in [`Sorter::packet`]; behind the last one the error that ended it.
    pub(crate) fn pop(&mut self) -> Option<Result<Found, E>> {
        let Some(Waiting { time_ns, found, packet, .. }) = self.waiting.pop() else {
            return self.end.as_mut()?.take().map(Err);
        };
        self.bytes -= packet.len();
        self.told_ns = self.told_ns.max(time_ns);
        self.packet = packet;
        Some(Ok(found))
    }

    pub(crate) const fn packet(&self) -> &[u8] {
        &self.packet
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::AnyRecord;
    use crate::{Format, InterfaceIndex, Packet, Record, Recording, Sink};

    type Told = (u64, Vec<u8>);

    /// A recording of these times: packets of Ethernet and CAN frames in turn, each with its number.
    fn recording(times_ns: &[u64]) -> Vec<u8> {
        let mut sink = Sink::new("a", Vec::new(), Format::by_name("pcapng").unwrap());
        for (number, &time_ns) in times_ns.iter().enumerate() {
            let record =
                Record { time_ns, interface: InterfaceIndex(0), direction: None, frame: () };
            let packet = vec![number as u8; 60 + number % 7];
            let packet = Packet { bytes: &packet, original_len: packet.len() as u32 };
            let any = match number % 2 {
                0 => AnyRecord::Ethernet(record.map(|()| packet)),
                _ => AnyRecord::Can(record.map(|()| format!("123#{number:04X}").parse().unwrap())),
            };
            sink.write_any(&any, "x").unwrap();
        }
        sink.finish().unwrap().0
    }

    fn read(bytes: Vec<u8>, window: Option<usize>) -> (Vec<Told>, Option<Sorted>) {
        let recording = Recording::new("a", std::io::Cursor::new(bytes), None).unwrap();
        let mut recording = recording.sort(window);
        let mut told = Vec::new();
        while let Some(entry) = recording.next_any() {
            let AnyRecord::Can(record) = entry.as_ref().unwrap().record else {
                let AnyRecord::Ethernet(record) = entry.unwrap().record else { unreachable!() };
                told.push((record.time_ns, record.frame.bytes.to_vec()));
                continue;
            };
            told.push((record.time_ns, record.frame.to_string().into_bytes()));
        }
        (told, recording.sorted())
    }

    /// How many later records come before each, at most.
    fn displacement(times_ns: &[u64]) -> usize {
        let later =
            |(place, time): (usize, &u64)| times_ns[..place].iter().filter(|it| *it > time).count();
        times_ns.iter().enumerate().map(later).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn what_is_sorted_is_what_was_read_in_order_within_the_window(
            times_ns in prop::collection::vec(0_u64..40, 0..60),
            window in 0_usize..40,
        ) {
            let (plain, none) = read(recording(&times_ns), None);
            let (told, sorted) = read(recording(&times_ns), Some(window));
            let sorted = sorted.unwrap();
            prop_assert_eq!(none, None);
            // A permutation; stable, so a record is behind those of its time that came before it.
            let mut expected = plain.clone();
            expected.sort_by_key(|(time_ns, _)| *time_ns);
            let mut again = told.clone();
            again.sort_by_key(|(time_ns, _)| *time_ns);
            prop_assert_eq!(&again, &expected);
            let is_in_order = told.is_sorted_by_key(|(time_ns, _)| *time_ns);
            prop_assert_eq!(is_in_order, sorted.late == 0);
            if displacement(&times_ns) <= window {
                prop_assert!(is_in_order);
            }
            // Each record that was stamped earlier than one before it is one of both.
            let mut latest_ns = 0;
            let earlier = times_ns.iter().filter(|&&time_ns| {
                latest_ns = latest_ns.max(time_ns);
                time_ns < latest_ns
            });
            prop_assert_eq!(sorted.moved + sorted.late, earlier.count() as u64);
        }
    }

    #[test]
    fn an_error_comes_behind_all_that_was_read_before_it() {
        let log: &[u8] = b"(3.0) can0 123#\n(1.0) can0 124#\nnonsense\n(2.0) can0 125#\n";
        let mut recording = Recording::new("a", log, None).unwrap().sort(Some(SORT_WINDOW));
        let mut next = || recording.next().map(|record| record.map(|record| record.time_ns));
        assert_eq!(
            [1, 3].map(|time| time * 1_000_000_000),
            [next(), next()].map(|it| it.unwrap().unwrap())
        );
        assert!(next().unwrap().unwrap_err().can_be_skipped());
        assert!(next().is_none() && next().is_none());
    }

    #[test]
    fn packets_that_wait_have_a_bound() {
        let mut sorter = Sorter::<()>::new(usize::MAX);
        let buffer = vec![0; 1 << 20];
        let span = PacketSpan { start: 0, len: buffer.len(), original_len: 1 << 20 };
        let mut count = 0;
        while sorter.wants_more() {
            let record = Record {
                time_ns: count,
                interface: InterfaceIndex(0),
                direction: None,
                frame: span,
            };
            sorter.push(Found::Ethernet(record), &buffer);
            count += 1;
        }
        assert_eq!(count, 65);
        sorter.pop().unwrap().unwrap();
        assert!(sorter.wants_more());
    }
}
