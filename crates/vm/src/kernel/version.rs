//! The order of Debian's versions (Debian policy, 5.6.12), which also orders the releases of its
//! kernels: runs of digits compare as numbers, what stands between them letter by letter, letters
//! before other characters and `~` before everything, even before the end.

use std::cmp::Ordering;

/// Compares two versions.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    let (left_epoch, left) = epoch(left);
    let (right_epoch, right) = epoch(right);
    let (left_upstream, left_revision) = left.rsplit_once('-').unwrap_or((left, ""));
    let (right_upstream, right_revision) = right.rsplit_once('-').unwrap_or((right, ""));
    digits(left_epoch, right_epoch)
        .then_with(|| part(left_upstream, right_upstream))
        .then_with(|| part(left_revision, right_revision))
}

fn epoch(version: &str) -> (&str, &str) {
    version.split_once(':').unwrap_or(("0", version))
}

/// Compares upstream versions, or revisions.
fn part(mut left: &str, mut right: &str) -> Ordering {
    while !left.is_empty() || !right.is_empty() {
        let (left_text, left_rest) = split(left, |c| !c.is_ascii_digit());
        let (right_text, right_rest) = split(right, |c| !c.is_ascii_digit());
        let (left_number, left_rest) = split(left_rest, |c| c.is_ascii_digit());
        let (right_number, right_rest) = split(right_rest, |c| c.is_ascii_digit());
        let order = text(left_text, right_text).then_with(|| digits(left_number, right_number));
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (left_rest, right_rest);
    }
    Ordering::Equal
}

/// The longest beginning of such characters, and the rest.
fn split(text: &str, is_such: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_such(c)).unwrap_or(text.len()))
}

fn text(left: &str, right: &str) -> Ordering {
    let rank = |c: Option<char>| match c {
        Some('~') => (0, '~'),
        None => (1, ' '),
        Some(c) if c.is_ascii_alphabetic() => (2, c),
        Some(c) => (3, c),
    };
    let (mut left, mut right) = (left.chars(), right.chars());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) if rank(a) != rank(b) => return rank(a).cmp(&rank(b)),
            _ => {}
        }
    }
}

/// Compares numbers of any length.
fn digits(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_debians_order() {
        // Each is older than the next.
        for line in [
            "6.1.192-2 6.12.9-1 6.12.10-1 6.12.117-1~deb12u1 6.12.117-1 7.2.12-1~bpo13+1 7.2.12-1",
            "6.1.0-9-amd64 6.1.0-47-amd64 6.1.0-56-amd64 6.12.90+deb12-amd64",
            "6.12.90+deb12-amd64 6.12.90+deb12.1-amd64 6.12.90+deb13-amd64 6.12.90+deb13.1-amd64",
            "6.12.90+deb13.1-amd64 6.12.94+deb12-amd64 6.12.117+deb12-amd64 6.12.117+deb13-amd64",
            "~~ ~~a ~ 0 a b",
            "1.0~rc1 1.0 1.0a 1.0+b 1.00.1",
            "9-1 1:1-1 2:0",
        ] {
            let versions: Vec<_> = line.split(' ').collect();
            for (index, left) in versions.iter().enumerate() {
                for (other, right) in versions.iter().enumerate() {
                    assert_eq!(compare(left, right), index.cmp(&other), "{left} {right}");
                }
            }
        }
        for (left, right) in [("1.0", "1.00"), ("1", "0:1"), ("1-0", "1")] {
            assert_eq!(compare(left, right), Ordering::Equal, "{left} {right}");
        }
    }
}
