//! Patterns for names on the command line and in files.

/// Whether `name` matches a pattern with `*` and `?`.
pub fn matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<_>, Vec<_>) = (glob.chars().collect(), name.chars().collect());
    // Greedy with one point to fall back to: linear space, no recursion.
    let (mut g, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                g += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    g = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|&c| c == '*')
}

/// Whether `name` matches one of several patterns; without any, it is meant.
#[must_use]
pub fn is_meant(globs: &[String], name: &str) -> bool {
    globs.is_empty() || globs.iter().any(|glob| matches(glob, name))
}

#[cfg(test)]
mod tests {
    #[test]
    fn globs_match_as_in_a_shell() {
        for (glob, name, matches) in [
            ("*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*b*", "abab", true),
            ("abc", "abc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(super::matches(glob, name), matches, "{glob} {name}");
        }
    }
}
