//! [`Merge`]: several recordings as one, by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Problem, RecordingError};
use crate::read::{Entry, Found, Recording};
use crate::record::{AnyRecord, InterfaceIndex, Interfaces};

/// Several recordings as one, in order of time. It keeps one record of each.
///
/// * Of records with the same time, that of the earlier recording comes first.
/// * The records of one recording stay in their order. Where they go back in time the whole does so, too;
///   [`MergeInput::backwards`] counts them.
/// * Interfaces of the same name are the same interface.
///
/// ```
/// use candor_recording::{Merge, Recording};
///
/// let open = |name: &str, log: &'static [u8]| Recording::new(name, log, None);
/// let a = open("a", b"(1.0) can0 111#\n(3.0) can0 113#\n")?;
/// let b = open("b", b"(7.0) can1 112#\n(8.0) can0 113#\n")?;
/// let mut merge = Merge::new([(a, 0), (b, -5_000_000_000)]);
/// let mut merged = Vec::new();
/// while let Some(entry) = merge.next_any() {
///     let entry = entry.map_err(|(_, error)| error)?;
///     merged.push((entry.record.time_ns() / 1_000_000_000, entry.interface.to_owned()));
/// }
/// assert_eq!(merged, [(1, "can0".into()), (2, "can1".into()), (3, "can0".into()), (3, "can0".into())]);
/// # Ok::<(), candor_recording::RecordingError>(())
/// ```
pub struct Merge {
    inputs: Vec<MergeInput>,
    interfaces: Interfaces,
    /// The times of the records that are next, with the inputs; the earliest first.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The inputs of which no next record is known.
    unread: Vec<usize>,
    start_ns: Option<u64>,
    is_begun: bool,
}

/// A recording that is being merged.
pub struct MergeInput {
    recording: Recording,
    shift_ns: i128,
    next: Option<Found>,
    records: u64,
    latest_ns: Option<u64>,
    backwards: u64,
    /// By its own indices, those of the whole.
    interfaces: Vec<Option<InterfaceIndex>>,
}

impl MergeInput {
    /// The recording.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// How many records were read so far.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// How many of them are stamped earlier than the one before.
    #[must_use]
    pub const fn backwards(&self) -> u64 {
        self.backwards
    }

    /// Reads a record; its time in the whole, or none if there is no further one.
    fn read(&mut self, interfaces: &mut Interfaces) -> Result<Option<u64>, RecordingError> {
        let Some(found) = self.recording.next_found().transpose()? else { return Ok(None) };
        self.records += 1;
        let time_ns = found.time_ns();
        self.backwards += u64::from(self.latest_ns.is_some_and(|latest| time_ns < latest));
        self.latest_ns = Some(time_ns);
        let Some(shifted_ns) = self.shifted(time_ns) else {
            let (record, shift_ns) = (self.records, self.shift_ns);
            return Err(self.recording.problem(Problem::Shifted { record, time_ns, shift_ns }));
        };
        let place = usize::from(found.interface().0);
        if self.interfaces.len() <= place {
            self.interfaces.resize(place + 1, None);
        }
        if self.interfaces[place].is_none() {
            let name = self.recording.interfaces().name(found.interface());
            let index = interfaces.intern(name.as_bytes());
            let index = index.map_err(|error| self.recording.problem(Problem::Interface(error)))?;
            self.interfaces[place] = Some(index);
        }
        self.next = Some(found);
        Ok(Some(shifted_ns))
    }

    fn shifted(&self, time_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(time_ns) + self.shift_ns).ok()
    }
}

impl Merge {
    /// Merges recordings, each shifted by so many nanoseconds.
    #[must_use]
    pub fn new(recordings: impl IntoIterator<Item = (Recording, i64)>) -> Self {
        let input = |(recording, shift_ns)| MergeInput {
            recording,
            shift_ns: i128::from(shift_ns),
            next: None,
            records: 0,
            latest_ns: None,
            backwards: 0,
            interfaces: Vec::new(),
        };
        let inputs: Vec<_> = recordings.into_iter().map(input).collect();
        // The first one is read first.
        let unread = (0..inputs.len()).rev().collect();
        let next = BinaryHeap::with_capacity(inputs.len());
        let interfaces = Interfaces::default();
        Self { inputs, interfaces, next, unread, start_ns: None, is_begun: false }
    }

    /// The recordings, in the order in which they were given.
    #[must_use]
    pub fn inputs(&self) -> &[MergeInput] {
        &self.inputs
    }

    /// The interfaces of all recordings, as far as they were seen.
    #[must_use]
    pub const fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// The next record, with its shifted time. The measurement began when the first of those that say so began, unless the
    /// first record is earlier.
    ///
    /// # Errors
    /// That of a recording, with its place among them; a time that shifted is none; too many interfaces in all.
    pub fn next_any(&mut self) -> Option<Result<Entry<'_>, (usize, RecordingError)>> {
        while let Some(place) = self.unread.pop() {
            match self.inputs[place].read(&mut self.interfaces) {
                Ok(Some(time_ns)) => self.next.push(Reverse((time_ns, place))),
                Ok(None) => {}
                Err(error) => return Some(Err((place, error))),
            }
        }
        let Reverse((time_ns, place)) = self.next.pop()?;
        if !self.is_begun {
            self.is_begun = true;
            let starts = self.inputs.iter().filter_map(|it| it.shifted(it.recording.start_ns()?));
            self.start_ns = starts.min().filter(|&start_ns| start_ns <= time_ns);
        }
        self.unread.push(place);
        let input = &mut self.inputs[place];
        let found = input.next.take()?;
        let index = input.interfaces[usize::from(found.interface().0)]?;
        let record = match input.recording.entry(found).record {
            AnyRecord::Can(record) => {
                AnyRecord::Can(crate::Record { time_ns, interface: index, ..record })
            }
            AnyRecord::Ethernet(record) => {
                AnyRecord::Ethernet(crate::Record { time_ns, interface: index, ..record })
            }
        };
        let interface = self.interfaces.name(index);
        Some(Ok(Entry { interface, record, start_ns: self.start_ns }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::format::Format;
    use crate::record::Record;
    use crate::write::Sink;

    /// Time, interface and identifier of each frame.
    type List = Vec<(u64, &'static str, u16)>;

    fn frame(number: u16) -> candor_wire::can::Frame {
        format!("{number:03X}#").parse().unwrap()
    }

    fn recording(format: &str, list: &List) -> Recording {
        let mut sink = Sink::new("a", Vec::new(), Format::by_name(format).unwrap());
        for &(time_ns, interface, number) in list {
            let record = Record {
                time_ns,
                interface: InterfaceIndex(0),
                direction: None,
                frame: frame(number),
            };
            sink.write(&record, interface).unwrap();
        }
        let (bytes, head) = sink.finish().unwrap();
        let mut bytes: Vec<u8> = bytes;
        if let Some(head) = head {
            bytes[..head.len()].copy_from_slice(&head);
        }
        let format = Format::by_name(format);
        Recording::new("a", Cursor::new(bytes), format).unwrap()
    }

    fn merged(merge: &mut Merge) -> Result<Vec<(u64, String, u16)>, String> {
        let mut all = Vec::new();
        while let Some(entry) = merge.next_any() {
            let entry = entry.map_err(|(place, error)| format!("{place}: {error}"))?;
            let AnyRecord::Can(record) = entry.record else { panic!("an Ethernet frame") };
            all.push((record.time_ns, entry.interface.to_owned(), record.frame.can_id() as u16));
        }
        Ok(all)
    }

    fn list() -> impl Strategy<Value = List> {
        let interface = prop::sample::select(vec!["can0", "can1", "can2"]);
        prop::collection::vec((0_u64..60, interface, 0_u16..0x7FF), 0..30)
    }

    proptest! {
        /// Of recordings in order it is a stable sort of the shifted lists behind one another.
        #[test]
        fn merging_is_sorting(
            mut lists in prop::collection::vec((list(), 0_i64..40), 0..6),
            is_text in any::<bool>(),
        ) {
            let format = if is_text { "candump" } else { "pcapng" };
            lists.iter_mut().for_each(|(list, _)| list.sort_by_key(|it| it.0));
            let inputs = lists.iter().map(|(list, shift)| (recording(format, list), *shift));
            let mut merge = Merge::new(inputs);
            let shifted = lists.iter().flat_map(|(list, shift)| {
                list.iter().map(move |&(time, interface, number)| {
                    (time.saturating_add_signed(*shift), interface.to_owned(), number)
                })
            });
            let mut expected: Vec<_> = shifted.collect();
            expected.sort_by_key(|it| it.0);
            prop_assert_eq!(merged(&mut merge), Ok(expected));
            prop_assert!(merge.inputs().iter().all(|input| input.backwards() == 0));
        }

        /// Of any recordings nothing is lost, and each one stays in its order.
        #[test]
        fn recordings_stay_in_their_order(lists in prop::collection::vec(list(), 1..5)) {
            // The identifier says which list it was.
            let lists: Vec<List> = lists.into_iter().zip(0..).map(|(list, place)| {
                list.into_iter().map(|(time, interface, _)| (time, interface, place)).collect()
            }).collect();
            let mut merge = Merge::new(lists.iter().map(|list| (recording("candump", list), 0)));
            let all = merged(&mut merge).unwrap();
            for (place, list) in lists.iter().enumerate() {
                let found: Vec<_> = all.iter().filter(|it| usize::from(it.2) == place).collect();
                let times: Vec<_> = found.iter().map(|it| (it.0, it.1.as_str())).collect();
                let expected: Vec<_> = list.iter().map(|it| (it.0, it.1)).collect();
                prop_assert_eq!(times, expected);
                let back = list.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
                prop_assert_eq!(merge.inputs()[place].backwards(), back as u64);
            }
        }
    }

    #[test]
    fn a_time_that_is_none_is_told_with_its_place() {
        let list = vec![(5_000_000_000, "can0", 1), (1_500_000_000, "can0", 2)];
        let shifted = |shift| merged(&mut Merge::new([(recording("candump", &list), shift)]));
        assert!(shifted(-1_500_000_000).is_ok());
        assert_eq!(
            shifted(-1_500_000_001),
            Err("0: a: record 2, stamped 1.500000000 s, would be before 0 if shifted by \
                 -1.500000001 s; shift it by less"
                .into())
        );
        let late = vec![(u64::MAX - 1, "can0", 1)];
        let shifted = |shift| merged(&mut Merge::new([(recording("pcapng", &late), shift)]));
        assert!(shifted(1).is_ok());
        let error = shifted(2).unwrap_err();
        assert!(error.contains("record 1, stamped 18446744073.709551614 s, would be later than"));
    }

    #[test]
    fn interfaces_of_all_are_bounded() {
        let names: Vec<&str> = (0..257).map(|n| &*format!("bus{n}").leak()).collect();
        let part = |names: &[&'static str]| {
            let list: List = names.iter().map(|&name| (1_000, name, 1)).collect();
            (recording("candump", &list), 0)
        };
        let mut merge = Merge::new([part(&names[..200]), part(&names[56..256])]);
        assert!(merged(&mut merge).is_ok());
        assert_eq!(merge.interfaces().len(), 256);
        let error = merged(&mut Merge::new([part(&names[..200]), part(&names[200..])]));
        let expected = "1: a: more than 256 different interfaces in all; merge fewer recordings";
        assert_eq!(error, Err(expected.into()));
    }

    #[test]
    fn the_measurement_began_when_the_first_one_began() {
        let asc = |seconds: u64| recording("asc", &vec![(seconds * 1_000_000_000, "can0", 1)]);
        let log = |seconds: u64| recording("candump", &vec![(seconds * 1_000_000_000, "can0", 1)]);
        let start = |inputs: Vec<(Recording, i64)>| {
            let mut merge = Merge::new(inputs);
            merge.next_any().and_then(|entry| entry.unwrap().start_ns)
        };
        let second = 1_000_000_000;
        assert_eq!(start(vec![(asc(9), 0), (asc(7), 0)]), Some(7 * second));
        assert_eq!(start(vec![(asc(9), -3 * second as i64), (asc(7), 0)]), Some(6 * second));
        assert_eq!(start(vec![(asc(9), 0), (log(9), 0)]), Some(9 * second));
        assert_eq!(start(vec![(asc(9), 0), (log(8), 0)]), None);
        assert_eq!(start(vec![(log(9), 0), (log(8), 0)]), None);
    }
}
