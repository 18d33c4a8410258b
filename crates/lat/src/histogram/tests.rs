//! Buckets, percentiles and sums, against the values themselves.

use super::*;
use proptest::prelude::*;

#[test]
fn an_empty_histogram_has_a_count_and_nothing_else() {
    let mut histogram = Histogram::new();
    assert_eq!(histogram.count(), 0);
    assert_eq!((histogram.min_ns(), histogram.max_ns()), (None, None));
    assert_eq!((histogram.mean_ns(), histogram.stddev_ns()), (None, None));
    assert_eq!((histogram.quantile(1, 2), histogram.figures()), (None, None));
    for latency_ns in [1, 2, 2] {
        histogram.record(latency_ns);
    }
    assert_eq!(histogram.count(), 3);
}

#[test]
fn the_scale_of_profiles_rises_through_zero() {
    let latencies = [i64::MIN, -1_000_000, -5, -1, 0, 1, 5, 1_000_000, i64::MAX];
    let heights = latencies.map(height);
    assert!(heights.windows(2).all(|pair| pair[0] < pair[1]), "{heights:?}");
    assert_eq!((height(-5), height(0), height(5)), (-5, 0, 5));
}

#[test]
fn deviations_are_from_the_whole_mean() {
    for (latencies, mean_ns, stddev_ns) in [
        (&[1, 2][..], 1.5, 0.5),
        (&[-2, 1], -0.5, 1.5),
        (&[7, 7, 7], 7.0, 0.0),
        (&[0, 0, 0, 10], 2.5, 18.75_f64.sqrt()),
    ] {
        let mut histogram = Histogram::new();
        latencies.iter().for_each(|&latency_ns| histogram.record(latency_ns));
        assert_eq!(histogram.mean_ns(), Some(mean_ns), "{latencies:?}");
        assert_eq!(histogram.stddev_ns(), Some(stddev_ns), "{latencies:?}");
    }
}

#[test]
fn summaries_by_hand() {
    let summary = |latencies_ns: &[i64]| {
        latencies_ns.iter().copied().collect::<Histogram>().figures().map(|s| {
            let whole = [s.min_ns, s.p50_ns, s.p90_ns, s.p99_ns, s.p999_ns, s.max_ns];
            (s.count, whole, s.mean_ns, s.stddev_ns)
        })
    };
    assert_eq!(summary(&[]), None);
    assert_eq!(summary(&[7]), Some((1, [7; 6], 7.0, 0.0)));
    assert_eq!(summary(&[124_501; 3]), Some((3, [124_501; 6], 124_501.0, 0.0)));
    assert_eq!(summary(&[2, 4, 4, 4, 5, 5, 7, 9]), Some((8, [2, 4, 9, 9, 9, 9], 5.0, 2.0)));
    assert_eq!(summary(&[-30, 10]), Some((2, [-30, -30, 10, 10, 10, 10], -10.0, 20.0)));
    // Nearest rank: of 1000 latencies the 999th, not the last.
    let thousand: Vec<i64> = (1..=1000).collect();
    let (_, whole, mean_ns, _) = summary(&thousand).unwrap();
    assert_eq!((whole, mean_ns), ([1, 500, 900, 990, 999, 1000], 500.5));
}

#[test]
fn small_deviations_of_large_latencies_survive() {
    let base = 3_600_000_000_000;
    let histogram: Histogram = [base, base + 2].into_iter().collect();
    assert_eq!(histogram.stddev_ns(), Some(1.0));
    assert_eq!(histogram.mean_ns(), Some((base + 1) as f64));
}

#[test]
fn the_ends_of_the_scale_hold() {
    let histogram: Histogram = [i64::MIN, 0, i64::MAX, i64::MAX].into_iter().collect();
    assert_eq!(histogram.quantile(0, 1), Some(i64::MIN));
    assert_eq!(histogram.quantile(2, 1), Some(i64::MAX));
    assert_eq!(histogram.quantile(1, 0), None);
    let profile = histogram.profile();
    assert_eq!(profile.first(), Some(&(i64::MIN, 4)));
    assert_eq!(profile.last(), Some(&(i64::MAX, 2)));
    assert_eq!(histogram.classic(3).iter().map(|bin| bin.count).sum::<u64>(), 4);
    assert!(histogram.stddev_ns().is_some_and(f64::is_finite));
}

#[test]
fn profiles_by_hand() {
    for (latencies_ns, profile) in [
        (&[][..], &[][..]),
        (&[5], &[(5, 1)]),
        (&[5, 5, 5], &[(5, 3)]),
        (&[35, 50, 35, 140], &[(35, 4), (50, 2), (140, 1)]),
        (&[-20, 0, 10], &[(-20, 3), (0, 2), (10, 1)]),
        // One bucket of 32 ns: both ends are still exact.
        (&[124_500, 124_503, 124_503], &[(124_500, 3), (124_503, 2)]),
    ] {
        let histogram: Histogram = latencies_ns.iter().copied().collect();
        assert_eq!(histogram.profile(), profile);
    }
}

#[test]
fn classic_bins_by_hand() {
    let histogram: Histogram = (0..100).chain([199]).collect();
    let bins: Vec<_> =
        histogram.classic(4).iter().map(|bin| (bin.from_ns, bin.to_ns, bin.count)).collect();
    assert_eq!(bins, [(0, 49, 50), (50, 99, 50), (100, 149, 0), (150, 199, 1)]);
    let two: Histogram = [3, 4].into_iter().collect();
    assert_eq!(two.classic(10).len(), 2, "no bin is narrower than a nanosecond");
    assert_eq!(two.classic(0), []);
}

#[test]
fn thinning_keeps_ends_and_steps() {
    // Two plateaus with a gap between them, as with and without a timer interrupt.
    let histogram: Histogram = (0..10_000)
        .map(|frame| if frame % 10 < 8 { 35_000 + frame } else { 55_000 + frame * 3 })
        .chain([140_000])
        .collect();
    let (all, few) = (histogram.profile(), histogram.profile_thinned(60));
    assert!(few.len() <= 60 && few.len() > 20, "{} points", few.len());
    assert_eq!((few.first(), few.last()), (all.first(), all.last()));
    assert!(few.iter().all(|point| all.contains(point)));
    let gap = few.iter().position(|&(time_ns, _)| time_ns >= 55_000).unwrap();
    assert!(few[gap - 1].0 > 44_900, "the step's foot is gone: {:?}", few[gap - 1]);
    assert_eq!(histogram.profile_thinned(usize::MAX), all);
    assert_eq!(histogram.profile_thinned(0).len(), 2);
}

fn latency() -> impl Strategy<Value = i64> {
    prop_oneof![
        5 => 0..1_000_000_i64,
        2 => 0..i64::MAX,
        1 => -100_000..0_i64,
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), Just(-1), Just(4096)],
    ]
}

proptest! {
    // Every histogram is a megabyte to clear and to search.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_is_recording_in_any_order(
        parts in prop::collection::vec(prop::collection::vec(latency(), 0..20), 3),
    ) {
        let [a, b, c] = [0, 1, 2].map(|part| parts[part].iter().copied().collect::<Histogram>());
        let whole: Histogram = parts.concat().into_iter().collect();
        let merged = |histograms: [&Histogram; 2]| {
            let mut sum = histograms[0].clone();
            sum.merge(histograms[1]);
            sum
        };
        prop_assert_eq!(&merged([&merged([&a, &b]), &c]), &whole);
        prop_assert_eq!(&merged([&a, &merged([&b, &c])]), &whole);
        prop_assert_eq!(&merged([&c, &merged([&b, &a])]), &whole);
        prop_assert_eq!(merged([&c, &merged([&b, &a])]).figures(), whole.figures());
    }

    #[test]
    fn every_profile_point_counts_exactly(
        mut latencies_ns in prop::collection::vec(latency(), 1..200),
    ) {
        let profile = latencies_ns.iter().copied().collect::<Histogram>().profile();
        latencies_ns.sort_unstable();
        let at_least = |time_ns| {
            latencies_ns.iter().filter(|&&latency_ns| latency_ns >= time_ns).count() as u64
        };
        for &(time_ns, count) in &profile {
            prop_assert_eq!(count, at_least(time_ns), "at {}", time_ns);
        }
        prop_assert!(profile.is_sorted_by(|a, b| a.0 < b.0 && a.1 > b.1));
        prop_assert_eq!(profile[0].0, latencies_ns[0]);
        prop_assert_eq!(profile[profile.len() - 1].0, latencies_ns[latencies_ns.len() - 1]);
    }

    #[test]
    fn quantiles_are_the_nearest_rank_or_slightly_more(
        mut latencies_ns in prop::collection::vec(latency(), 1..200),
        permille in 0..=1000_u64,
    ) {
        let histogram: Histogram = latencies_ns.iter().copied().collect();
        latencies_ns.sort_unstable();
        let rank = (latencies_ns.len() as u64 * permille).div_ceil(1000).max(1) as usize;
        let exact = latencies_ns[rank - 1];
        let rounded = histogram.quantile(permille, 1000).unwrap();
        prop_assert!(rounded >= exact, "{} < {}", rounded, exact);
        prop_assert!(rounded.abs_diff(exact) <= exact.unsigned_abs() / 2048);
    }

    #[test]
    fn mean_and_deviation_match_the_definition(
        latencies_ns in prop::collection::vec(-1_000_000..1_000_000_000_i64, 1..100),
    ) {
        let histogram: Histogram = latencies_ns.iter().copied().collect();
        let count = latencies_ns.len() as f64;
        let mean = latencies_ns.iter().map(|&ns| ns as f64).sum::<f64>() / count;
        let variance =
            latencies_ns.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>() / count;
        prop_assert!((histogram.mean_ns().unwrap() - mean).abs() <= 1e-3);
        prop_assert!((histogram.stddev_ns().unwrap() - variance.sqrt()).abs() <= 1e-3);
    }

    #[test]
    fn bins_hold_every_latency(
        latencies_ns in prop::collection::vec(latency(), 1..100),
        bins in 1..50_usize,
    ) {
        let classic = latencies_ns.iter().copied().collect::<Histogram>().classic(bins);
        prop_assert!(classic.len() <= bins);
        prop_assert_eq!(
            classic.iter().map(|bin| bin.count).sum::<u64>(),
            latencies_ns.len() as u64
        );
    }
}
