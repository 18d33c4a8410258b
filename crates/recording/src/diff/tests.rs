use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

fn sighting(number: u64, time_ns: u64, interface: u16, frame: &str) -> Sighting {
    let interface = InterfaceIndex(interface);
    Sighting { number, time_ns, interface, direction: None, frame: frame.parse().unwrap() }
}

/// Frames with their times, as a recording.
fn numbered(list: &[(u64, String)]) -> Vec<Sighting> {
    let numbers = 1..;
    list.iter()
        .zip(numbers)
        .map(|((time, frame), number)| sighting(number, *time, 0, frame))
        .collect()
}

/// What only one of them has, and the rest of what was found.
fn compared(
    a: &[Sighting],
    b: &[Sighting],
    comparison: Comparison,
) -> ([Vec<u64>; 2], Differences) {
    let mut only = [Vec::new(), Vec::new()];
    let ok = |it: &Sighting| Ok::<_, Infallible>(*it);
    let Ok(found) = diff(a.iter().map(ok), b.iter().map(ok), comparison, |side, it| {
        only[side as usize].push(it.number);
        Ok(())
    });
    only.iter_mut().for_each(|numbers| numbers.sort_unstable());
    (only, found)
}

const MS: u64 = 1_000_000;

#[test]
fn a_recording_is_the_same_as_itself() {
    let list: Vec<_> = (0..500).map(|n| (n * MS, format!("{:03X}#", n % 7))).collect();
    let (only, found) = compared(&numbered(&list), &numbered(&list), Comparison::default());
    assert_eq!((only, found.both), ([vec![], vec![]], 500));
    assert_eq!((found.clocks.first_offset_ns(), found.clocks.drift_ppm()), (Some(0), Some(0.0)));
    assert!(!found.is_unsynchronised && found.is_none());
    let (_, found) = compared(&[], &[], Comparison::default());
    assert_eq!((found.both, found.clocks.first_offset_ns()), (0, None));
}

/// Clocks that run apart, over more time than frames at the start may be apart.
#[test]
fn slow_recordings_whose_clocks_run_apart_start_together() {
    for (pause_ms, count, ppm) in [(20, 60_000, 50), (200, 6_000, -200), (3, 60_000, 200)] {
        let times = (0..count).map(|n| 10_000 * MS + n * pause_ms * MS);
        let frames: Vec<_> = times.map(|time| (time, format!("{:08X}#", time / MS))).collect();
        let ahead =
            |time: u64| (time as i64 + 5_000_000_000 + time as i64 / 1_000_000 * ppm) as u64;
        let others: Vec<_> = frames.iter().map(|(t, frame)| (ahead(*t), frame.clone())).collect();
        let (_, found) = compared(&numbered(&frames), &numbered(&others), Comparison::default());
        assert_eq!((found.both, found.only), (count, [0, 0]), "{pause_ms} ms");
        let drift = found.clocks.drift_ppm().unwrap();
        assert!((drift - ppm as f64).abs() < 0.01, "{drift}");
    }
}

/// The frame that is missing among frames that are all the same is the one whose time is missing.
#[test]
fn of_equal_frames_the_missing_one_is_found_by_its_time() {
    let list: Vec<_> = (0..400).map(|n| (n * 10 * MS, "123#11".to_owned())).collect();
    for missing in [&[0][..], &[1], &[57], &[57, 58, 59], &[10, 200], &[398], &[399], &[0, 1, 2, 3]]
    {
        let a = numbered(&list);
        let keep = |it: &&Sighting| !missing.contains(&(it.number as usize - 1));
        let b: Vec<_> = a.iter().filter(keep).copied().collect();
        let comparison = Comparison { offset_ns: Some(0), ..Comparison::default() };
        let expected: Vec<_> = missing.iter().map(|&it| it as u64 + 1).collect();
        let (only, found) = compared(&a, &b, comparison);
        assert_eq!(only, [expected.clone(), vec![]], "{missing:?}");
        assert_eq!(found.clocks.deviation_ns_max(), Some(0.0), "{missing:?}");
        let (only, _) = compared(&b, &a, comparison);
        assert_eq!(only, [vec![], expected], "{missing:?}");
    }
}

/// Beside frames that differ, in both recordings.
#[test]
fn a_gap_among_other_gaps_is_found_by_its_time() {
    // A letter and a time in ms; x comes again and again, all others once.
    let recording = |text: &str| {
        let frames = text.split(' ').map(|word| {
            let (letter, time) = word.split_at(1);
            let time: u64 = time.parse().unwrap();
            (time * MS, format!("{:03X}#", letter.as_bytes()[0]))
        });
        numbered(&frames.collect::<Vec<_>>())
    };
    for (a, b, only) in [
        ("a10 x20 x30 b40", "c10 x20 d30 b40", [&[1, 3][..], &[1, 3]]),
        ("a10 x20 x30 b40", "c10 x30 d31 b40", [&[1, 2], &[1, 3]]),
        ("x10 a20 x30 x40 b50", "x30 x40 b50", [&[1, 2], &[]]),
        ("x10 a20 x30 x40 b50", "x10 x40 b50", [&[2, 3], &[]]),
        ("x10 x20 x30 b40", "x10 c11 x30 b40", [&[2], &[2]]),
        ("x10 x20 x30 x40 x50", "c9 x10 d11 x30 e31 x50", [&[2, 4], &[1, 3, 5]]),
    ] {
        let (a, b) = (recording(a), recording(b));
        let comparison = Comparison { offset_ns: Some(0), ..Comparison::default() };
        assert_eq!(compared(&a, &b, comparison).0, only.map(<[u64]>::to_vec));
        assert_eq!(compared(&b, &a, comparison).0, [only[1].to_vec(), only[0].to_vec()]);
    }
}

/// A frame on an event, as in a recorded drive: its pauses differ, and one of them is nearly the window.
#[test]
fn the_last_frame_before_a_part_is_not_its_first() {
    let times = [18_842, 19_082, 19_802, 20_042, 21_002, 21_482, 22_442, 22_682];
    let a = numbered(&times.map(|time| (time * MS, "030#800BE180E000B287".to_owned())));
    let comparison = Comparison { offset_ns: Some(0), ..Comparison::default() };
    assert_eq!(compared(&a, &a[3..], comparison).0, [vec![1, 2, 3], vec![]]);
    assert_eq!(compared(&a[3..], &a, comparison).0, [vec![], vec![1, 2, 3]]);
}

/// What is before a part and what is behind it has no partner, also if it is near and the same.
#[test]
fn a_part_of_a_recording_is_found_in_it() {
    for pause in [3, 10, 70, 400, 900] {
        let frame = |n: u64| (n * pause * MS, format!("{:03X}#", n % 3));
        let whole: Vec<_> = (0..900).map(frame).collect();
        for part in [0..900, 0..450, 450..900, 123..321, 321..322] {
            let (a, b) = (numbered(&whole), numbered(&whole[part.clone()]));
            let comparison = Comparison { offset_ns: Some(0), ..Comparison::default() };
            let (only, found) = compared(&a, &b, comparison);
            let others: Vec<_> =
                (0..900).filter(|it| !part.contains(it)).map(|it| it as u64 + 1).collect();
            assert_eq!(only, [others.clone(), vec![]], "{pause} ms, {part:?}");
            assert_eq!(found.clocks.deviation_ns_max(), Some(0.0), "{pause} ms, {part:?}");
            assert_eq!(compared(&b, &a, comparison).0, [vec![], others], "{pause} ms, {part:?}");
        }
    }
}

#[test]
fn what_is_compared_is_interface_identifier_kind_flags_and_data() {
    let one = [sighting(1, 5, 0, "123#11")];
    let reports = [sighting(1, 5, 0, "20000004#0001000000000000")];
    let by_name = Comparison { offset_ns: Some(0), ..Comparison::default() };
    let any = Comparison { any_interface: true, any_report: true, ..by_name };
    for (a, b, is_same, is_same_to_any) in [
        (&one, sighting(1, 9, 0, "123#11"), true, true),
        (&one, sighting(1, 9, 1, "123#11"), false, true),
        (&one, sighting(1, 9, 0, "124#11"), false, false),
        (&one, sighting(1, 9, 0, "00000123#11"), false, false),
        (&one, sighting(1, 9, 0, "123##011"), false, false),
        (&one, sighting(1, 9, 0, "123#1100"), false, false),
        (&reports, sighting(1, 9, 0, "20000080#0000000000000000"), false, true),
    ] {
        let is_none = |comparison| compared(a, &[b], comparison).1.is_none();
        assert_eq!((is_none(by_name), is_none(any)), (is_same, is_same_to_any), "{}", b.frame);
    }
}

/// However far its time is off, a frame is the same.
#[test]
fn what_is_too_far_off_is_late() {
    let one = [sighting(1, 5, 0, "123#11")];
    for (time_ns, late) in [(5, 0), (MS + 5, 0), (MS + 6, 1), (99_000 * MS, 1)] {
        let comparison =
            Comparison { within_ns: Some(MS), offset_ns: Some(0), ..Comparison::default() };
        let (_, found) = compared(&one, &[sighting(1, time_ns, 0, "123#11")], comparison);
        assert_eq!((found.both, found.late, found.is_none()), (1, late, late == 0), "{time_ns}");
    }
}

#[test]
fn recordings_that_did_not_start_together_are_taken_to_have_one_clock() {
    let frame = |n: u64| (n * MS, format!("123#{n:08X}"));
    let a: Vec<_> = (0..200_000).map(frame).collect();
    let part: Vec<_> = (150_000..150_100).map(frame).collect();
    let (_, found) = compared(&numbered(&a), &numbered(&part), Comparison::default());
    assert!(found.is_unsynchronised);
    assert_eq!((found.both, found.only), (100, [199_900, 0]));
}

/// A part that one recording lacks, about as long as what is looked at, or longer: the times tell it where frames do not.
#[test]
fn a_long_part_is_missing_and_no_other() {
    let frame = |n: u64| {
        // Some with a counter, some that come again and again, and some that do so rarely.
        let data = match n % 8 {
            0..3 => n,
            3..6 => 0,
            _ => n / 8 % 4_000,
        };
        (1_000_000 * MS + n * MS, format!("{:03X}#{data:08X}", n % 8))
    };
    let whole: Vec<_> = (0..150_000).map(frame).collect();
    let a = numbered(&whole);
    for cut in [58_000, 62_000, 65_536, 65_600, 66_000, 70_000, 100_000] {
        let kept = [&whole[..30_000], &whole[30_000 + cut..]].concat();
        let b = numbered(&kept);
        let (only, found) = compared(&a, &b, Comparison::default());
        assert_eq!(found.only, [cut as u64, 0], "{cut}: {found:?}");
        assert_eq!(
            (only[0].first(), only[0].last()),
            (Some(&30_001), Some(&(30_000 + cut as u64)))
        );
        assert_eq!(compared(&b, &a, Comparison::default()).1.only, [0, cut as u64], "{cut}");
    }
}

/// Frames of an interface that the other recording lacks, or has much later, stop nothing; what does not wait any longer is told.
#[test]
fn frames_that_wait_are_bounded() {
    let count = 2 * MAX_PENDING as u64;
    let both = |n: u64| sighting(0, n, 0, &format!("123#{n:08X}"));
    let other = |n: u64| sighting(0, n, 1, &format!("124#{n:08X}"));
    let numbered = |list: Vec<Sighting>| -> Vec<Sighting> {
        list.into_iter().zip(1..).map(|(it, number)| Sighting { number, ..it }).collect()
    };
    let a = numbered((0..count).flat_map(|n| [both(n), other(n)]).collect());
    let b = numbered((0..count).map(both).collect());
    let c = numbered((0..count).map(both).chain((0..count).map(other)).collect());
    for (a, b, only, is_crowded) in [
        (&a, &b, [count, 0], false),
        (&b, &a, [0, count], false),
        (&a, &a, [0, 0], false),
        (&a, &c, [count, count], true),
    ] {
        let (_, found) = compared(a, b, Comparison::default());
        assert!(found.both >= count, "{found:?}");
        let is_as_expected = match is_crowded {
            // Of those that do not wait so long, some are found.
            true => found.only[0] == found.only[1] && found.only[0] > count / 4,
            false => found.only == only,
        };
        assert!(is_as_expected, "{found:?}");
        assert_eq!(found.crowded_out != [0, 0], is_crowded, "{found:?}");
    }
}

/// A drive: frames at least 1 ms apart, some of them all the same and some with a counter.
fn drive() -> impl Strategy<Value = Vec<(u64, String)>> {
    let frame = (1_u64..8, 0_u16..6);
    prop::collection::vec(frame, 40..400).prop_map(|frames| {
        let mut time_ns = 0;
        let mut counters = BTreeMap::new();
        let frames = frames.into_iter().map(|(pause, id)| {
            time_ns += pause * MS;
            let counter = counters.entry(id).or_insert(0_u32);
            *counter += 1;
            let data = if id < 3 { 0 } else { *counter };
            (time_ns, format!("{id:03X}#{data:08X}"))
        });
        frames.collect()
    })
}

proptest! {
    /// Whatever is missing and whatever was put in, the clock of B and its drift: exactly that is found.
    #[test]
    fn differences_and_drift_are_found(
        drive in drive(),
        fates in prop::collection::vec(0_u8..40, 400),
        jitters in prop::collection::vec(-100_000_i64..100_000, 400),
        start_s in 0_u64..2_000,
        drift_ppm in -200_i64..200,
    ) {
        const ZERO_NS: i64 = 1_000_000_000_000;
        let (mut a, mut b, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        let mut expected = [Vec::new(), Vec::new()];
        for (((time_ns, frame), fate), jitter) in drive.iter().zip(fates).zip(jitters) {
            let time_a = ZERO_NS as u64 + time_ns;
            let gained = *time_ns as i64 / 1_000 * drift_ppm / 1_000;
            let shift = gained + 200_000 + jitter;
            let time_b = (start_s * 1_000_000_000 + time_ns).saturating_add_signed(shift);
            // What A lacks is recognised by its counter: of equal frames that miss on either side, none can tell which.
            let has_counter = !frame.ends_with("#00000000");
            let has_a = fate != 0 || !has_counter;
            let has_b = fate != 1;
            if has_a {
                a.push((time_a, frame.clone()));
            }
            if has_b {
                b.push((time_b, frame.clone()));
            }
            match (has_a, has_b) {
                (true, true) => offsets.push(((time_a as f64), time_b as f64 - time_a as f64)),
                (true, false) => expected[0].push(a.len() as u64),
                (false, true) => expected[1].push(b.len() as u64),
                (false, false) => {}
            }
            if fate == 2 {
                b.push((time_b + 1, format!("7FF#{time_ns:016X}")));
                expected[1].push(b.len() as u64);
            }
        }
        let (only, found) = compared(&numbered(&a), &numbered(&b), Comparison::default());
        prop_assert_eq!(&only, &expected);
        prop_assert_eq!(found.both as usize, offsets.len());
        prop_assert_eq!(found.only, expected.each_ref().map(|it| it.len() as u64));
        let clocks = &found.clocks;
        let first = offsets.first().map(|it| it.1 as i128);
        prop_assert_eq!(clocks.first_offset_ns(), first);
        prop_assert_eq!(clocks.last_offset_ns(), offsets.last().map(|it| it.1 as i128));
        let span = offsets.last().map_or(0.0, |it| it.0) - offsets.first().map_or(0.0, |it| it.0);
        let error = (clocks.drift_ppm().unwrap_or(f64::NAN) - drift_ppm as f64).abs();
        // A jitter of 0.1 ms either way turns the line by so much at most.
        prop_assert!(error <= 12.0 * 101_000.0 / span * 1e6, "off by {error} ppm");
        let deviation = clocks.deviation_ns_max().unwrap_or(f64::NAN);
        prop_assert!(deviation <= 500_000.0, "{deviation}");
    }
}

/// What may happen to the times of a recording.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// A frame is delayed, and those behind it wait for it.
    Delay(u64),
    /// The recorder does not read for so long.
    Stall(u64),
    /// Its clock is set.
    Jump(i64),
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        (0..5_000 * MS).prop_map(Trouble::Delay),
        (0..20_000 * MS).prop_map(Trouble::Stall),
        (-100_000_i64..100_000).prop_map(|ms| Trouble::Jump(ms * MS as i64)),
    ]
}

proptest! {
    /// Whatever happens to the times, frames that come in the same order are the same; what is removed and added is counted exactly, and
    /// named where it differs from its neighbours.
    #[test]
    fn no_trouble_with_times_makes_a_loss(
        drive in drive(),
        fates in prop::collection::vec(0_u8..30, 400),
        troubles in prop::collection::vec((0_usize..400, trouble()), 0..8),
        drift_ppm in -50_000_i64..50_000,
        is_changed in any::<bool>(),
    ) {
        const ZERO_NS: i64 = 1_000_000_000_000;
        let mut stamps: Vec<i64> = drive
            .iter()
            .map(|(time_ns, _)| ZERO_NS + *time_ns as i64 + *time_ns as i64 / 1_000_000 * drift_ppm)
            .collect();
        for (at, trouble) in troubles {
            let at = at % stamps.len();
            let until = match trouble {
                Trouble::Delay(ns) | Trouble::Stall(ns) => stamps[at] + ns as i64,
                Trouble::Jump(_) => i64::MIN,
            };
            for stamp in &mut stamps[at..] {
                *stamp = match trouble {
                    Trouble::Delay(_) | Trouble::Stall(_) => (*stamp).max(until),
                    Trouble::Jump(ns) => *stamp + ns,
                };
            }
        }
        let a = drive.iter().map(|(time_ns, frame)| (ZERO_NS as u64 + time_ns, frame.clone()));
        let a = numbered(&a.collect::<Vec<_>>());
        let mut b = Vec::new();
        let mut expected = [Vec::new(), Vec::new()];
        for (((place, (_, frame)), stamp), fate) in drive.iter().enumerate().zip(stamps).zip(fates) {
            let stamp = stamp as u64;
            match fate {
                0 if is_changed => expected[0].push(place as u64 + 1),
                1 if is_changed => {
                    b.push((stamp, format!("7FF#{place:016X}")));
                    expected[1].push(b.len() as u64);
                    b.push((stamp, frame.clone()));
                }
                _ => b.push((stamp, frame.clone())),
            }
        }
        let b = numbered(&b);
        for (a, b, expected) in [(&a, &b, expected.clone()), (&b, &a, [expected[1].clone(), expected[0].clone()])] {
            let (only, found) = compared(a, b, Comparison::default());
            let counts = expected.each_ref().map(|it| it.len() as u64);
            prop_assert_eq!(found.only, counts);
            prop_assert_eq!(found.displaced, 0);
            for (place, recording) in [a, b].into_iter().enumerate() {
                let differs = |number: &&u64| {
                    let frame = recording[**number as usize - 1].frame;
                    frame.data() != [0; 4]
                };
                let named = only[place].iter().filter(differs).collect::<Vec<_>>();
                let removed = expected[place].iter().filter(differs).collect::<Vec<_>>();
                prop_assert_eq!(named, removed);
            }
        }
    }
}
