//! [`visible`]: text as it is, whatever it wants a terminal to do.

use std::borrow::Cow;

/// Whether a character is a control, or an invisible one that changes how its neighbours are shown: their
/// direction (Unicode, bidirectional formatting characters), where lines end, whether words join.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{AD}'
                | '\u{61C}'
                | '\u{180E}'
                | '\u{200B}'..='\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}'
        )
}

/// A text in which such characters are escaped: names from files must neither move the cursor of
/// a terminal nor look like others.
///
/// ```
/// use candor_diagnostics::visible;
/// assert_eq!(visible("gr\u{fc}n"), "gr\u{fc}n");
/// assert_eq!(visible("a\u{202e}b\n"), "a\\u{202e}b\\n");
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let escape = |c: char| match is_hidden(c) {
        true => c.escape_default().collect(),
        false => String::from(c),
    };
    text.chars().map(escape).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_escaped() {
        for c in ['\0', '\t', '\u{1b}', '\u{85}', '\u{200f}', '\u{202e}', '\u{2066}', '\u{feff}'] {
            assert!(visible(&format!("a{c}b")).starts_with("a\\"), "{c:?}");
        }
        for text in ["", "plain", "\u{e4}\u{4e2d}\u{1f697}", "e\u{301}", "\u{5d0}"] {
            assert_eq!(visible(text), text);
        }
    }
}
