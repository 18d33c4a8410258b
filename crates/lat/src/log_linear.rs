//! Buckets of equal relative width: what [`Histogram`](crate::Histogram) and [`Live`](crate::live::Live) count in.
//!
//! Up to 2^(`BITS` + 1) every value has its own bucket. Above that, every power of two is cut into 2^`BITS` buckets, so
//! that a bucket is never wider than 1/2^`BITS` of its values (the manner of HdrHistogram).

use core::ops::RangeInclusive;

/// The bucket of a value: the value itself as long as buckets are 1 wide, then a number that grows by 2^`BITS` with
/// every doubling. It rises like the logarithm.
pub(crate) const fn bucket_index<const BITS: u32>(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    (((shift as u64) << BITS) + (value >> shift)) as usize
}

/// The lowest and the highest value of a bucket.
pub(crate) const fn bucket_range<const BITS: u32>(index: usize) -> RangeInclusive<u64> {
    let index = index as u64;
    let shift = (index >> BITS).saturating_sub(1);
    let low = (index - (shift << BITS)) << shift;
    low..=low + ((1 << shift) - 1)
}

/// The rank of a quantile, `numerator` of `denominator`, among `count` values: the first value has rank 1. `None` if
/// there is none.
pub(crate) fn rank(count: u64, numerator: u64, denominator: u64) -> Option<u128> {
    if count == 0 || denominator == 0 {
        return None;
    }
    let numerator = u128::from(numerator.min(denominator));
    Some((u128::from(count) * numerator).div_ceil(u128::from(denominator)).max(1))
}

/// The first of these counts at which `rank` values have been passed.
pub(crate) fn bucket_of_rank<T>(
    buckets: impl IntoIterator<Item = (T, u64)>,
    rank: u128,
) -> Option<T> {
    let mut passed = 0;
    let is_it = |&(_, count): &(T, u64)| {
        passed += u128::from(count);
        passed >= rank
    };
    buckets.into_iter().find(is_it).map(|(bucket, _)| bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        fn check<const BITS: u32>() {
            let last = bucket_index::<BITS>(1 << 63);
            assert_eq!(bucket_index::<BITS>(0), 0);
            assert_eq!(*bucket_range::<BITS>(last).start(), 1 << 63);
            for index in 1..=last {
                let (low, high) = bucket_range::<BITS>(index).into_inner();
                assert_eq!(low, bucket_range::<BITS>(index - 1).end() + 1, "bucket {index}");
                let found = (bucket_index::<BITS>(low), bucket_index::<BITS>(high));
                assert_eq!(found, (index, index));
                assert!(high - low <= low >> BITS, "bucket {index} is too wide");
            }
        }
        check::<6>();
        check::<11>();
    }

    #[test]
    fn ranks_count_from_one() {
        for (count, numerator, denominator, expected) in [
            (0, 1, 2, None),
            (5, 1, 0, None),
            (5, 0, 100, Some(1)),
            (5, 50, 100, Some(3)),
            (4, 50, 100, Some(2)),
            (4, 51, 100, Some(3)),
            (5, 100, 100, Some(5)),
            (5, 101, 100, Some(5)),
            (u64::MAX, 999, 1_000, Some(18_428_297_329_635_842_064)),
        ] {
            assert_eq!(rank(count, numerator, denominator), expected, "{count} {numerator}");
        }
        let buckets = [('a', 2), ('b', 0), ('c', 3)];
        for (rank, expected) in [(1, Some('a')), (2, Some('a')), (3, Some('c')), (6, None)] {
            assert_eq!(bucket_of_rank(buckets, rank), expected, "{rank}");
        }
    }
}
