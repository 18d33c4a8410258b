/// Words longer than this are no slips of the hand.
const LONGEST: usize = 64;
/// Candidates that are looked at.
const MOST: usize = 4_096;

/// The candidate that `word` most likely stands for, if one is near enough.
///
/// Near is a slip of the hand: one wrong, missing, extra or swapped character per three, but never all
/// of them; case does not count. Of equally near ones the first wins. Only the first 4,096 candidates are looked at.
///
/// ```
/// use candor_diagnostics::did_you_mean;
/// assert_eq!(did_you_mean("can7", ["body", "can1"]), Some("can1"));
/// assert_eq!(did_you_mean("lin", ["body", "can1"]), None);
/// ```
#[must_use]
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let length = word.chars().count();
    let near = length.div_ceil(3);
    candidates
        .into_iter()
        .take(MOST)
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|&(distance, candidate)| {
            distance <= near && distance < candidate.chars().count().max(length)
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Asks whether the candidate was meant that [`did_you_mean`] finds, or says what else helps.
///
/// ```
/// use candor_diagnostics::meant_or;
/// assert_eq!(meant_or("can7", ["body", "can1"], || "add it".into()), "did you mean `can1`?");
/// ```
#[must_use]
pub fn meant_or<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    did_you_mean(word, candidates)
        .map_or_else(otherwise, |meant| format!("did you mean `{meant}`?"))
}

/// The candidates that are spelt most like `word`, at most that many, nearest first: where none is near enough
/// to be meant. Of equally near ones the first stands first. Only the first 4,096 candidates are looked at.
///
/// ```
/// use candor_diagnostics::nearest;
/// assert_eq!(nearest("flood-high", ["simple", "flood-low", "flood"], 2), ["flood-low", "flood"]);
/// ```
#[must_use]
pub fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let cut = |text: &str| text.to_lowercase().chars().take(LONGEST).collect::<String>();
    let word = cut(word);
    let mut all: Vec<_> = candidates
        .into_iter()
        .take(MOST)
        .map(|candidate| (strsim::osa_distance(&word, &cut(candidate)), candidate))
        .collect();
    all.sort_by_key(|&(distance, _)| distance);
    all.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

/// Names in back quotes, with `last` before the last one: "`a`, `b` and `c`".
#[must_use]
pub fn list_of_names<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((end, rest)) if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        Some((only, _)) => only.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_recognised() {
        let words = ["from", "to", "match", "keep_timestamp", "a"];
        for (word, meant) in [
            ("form", Some("from")),
            ("FROM", Some("from")),
            ("too", Some("to")),
            ("matches", Some("match")),
            ("keep-timestamp", Some("keep_timestamp")),
            ("priority", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(did_you_mean(word, words), meant, "{word}");
        }
    }

    #[test]
    fn the_nearest_stand_first_and_are_no_more_than_asked_for() {
        let words = ["drive", "body", "drivers", "Drives"];
        assert_eq!(nearest("driven", words, 3), ["drive", "Drives", "drivers"]);
        assert_eq!(nearest("", words, 1), ["body"]);
        assert_eq!(nearest(&"x".repeat(100_000), words, 9).len(), 4);
        assert_eq!(nearest("x", [], 3), [""; 0]);
    }

    #[test]
    fn lists_read_like_a_sentence() {
        assert_eq!(list_of_names(["a"], "or"), "`a`");
        assert_eq!(list_of_names(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
