use std::fmt::Display;

/// A count with its noun: `1 frame`, `2 frames`.
#[must_use]
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    format!("{count} {}", noun(count, what))
}

/// The noun behind a count: `frame` or `frames`, `bus` or `buses`.
#[must_use]
pub fn noun<N: PartialEq + From<u8>>(count: N, what: &str) -> String {
    let ending = if what.ends_with('s') { "es" } else { "s" };
    format!("{what}{}", by_count(count, "", ending))
}

/// A part of several things, and what is said of it: `1 of 2 frames is lost`, `3 of 5 frames are lost`.
#[must_use]
pub fn part_of<N>(part: N, whole: N, what: &str, (one, other): (&str, &str)) -> String
where
    N: Copy + Display + PartialEq + From<u8>,
{
    let is_one = part == N::from(1) || whole == N::from(1);
    format!("{part} of {} {}", counted(whole, what), if is_one { one } else { other })
}

/// What stands with a count of one, or with any other: `is` or `are`.
#[must_use]
pub fn by_count<'a, N: PartialEq + From<u8>>(count: N, one: &'a str, other: &'a str) -> &'a str {
    if count == N::from(1) { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!(
            [0_u64, 1, 2].map(|count| counted(count, "frame")),
            ["0 frames", "1 frame", "2 frames"]
        );
        assert_eq!([1_usize, 2].map(|count| counted(count, "bus")), ["1 bus", "2 buses"]);
        let lost = [(1, 2), (3, 5), (0, 2), (0, 1)]
            .map(|(part, whole): (u32, u32)| part_of(part, whole, "frame", ("is", "are")));
        let expected =
            ["1 of 2 frames is", "3 of 5 frames are", "0 of 2 frames are", "0 of 1 frame is"];
        assert_eq!(lost, expected);
        assert_eq!([0_u8, 1, 2].map(|count| by_count(count, "is", "are")), ["are", "is", "are"]);
    }
}
