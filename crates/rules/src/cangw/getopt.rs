//! Options as `getopt` of the C library splits them.

use alloc::format;
use alloc::string::String;
use core::ops::Range as Span;

use super::words::{Word, shorten};

/// Options as `getopt` splits them: `-A -s can0`, `-Aescan0`.
pub(super) struct Getopt<'a> {
    words: core::slice::Iter<'a, Word<'a>>,
    /// The rest of a word of options.
    bundle: Option<Word<'a>>,
}

impl<'a> Getopt<'a> {
    pub(super) fn new(words: &'a [Word<'a>]) -> Self {
        Self { words: words.iter(), bundle: None }
    }
}

impl<'a> Iterator for Getopt<'a> {
    type Item = Result<(char, Word<'a>), (Span<usize>, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        let bundle = match self.bundle.take() {
            Some(bundle) => bundle,
            None => {
                let word = self.words.next()?;
                match word.text.strip_prefix('-') {
                    Some(text) if !text.is_empty() => {
                        Word { text, span: word.span.start + 1..word.span.end }
                    }
                    _ => {
                        let message = format!("`{}` belongs to no option", shorten(word.text));
                        return Some(Err((word.span.clone(), message)));
                    }
                }
            }
        };
        let mut chars = bundle.text.chars();
        let option = chars.next()?;
        let rest = Word {
            text: chars.as_str(),
            span: bundle.span.start + option.len_utf8()..bundle.span.end,
        };
        match option {
            'A' | 'D' | 'F' | 'L' | 'X' | 't' | 'e' | 'i' => {
                self.bundle = Some(rest.clone()).filter(|rest| !rest.text.is_empty());
                Some(Ok((option, rest)))
            }
            's' | 'd' | 'u' | 'l' | 'f' | 'c' | 'p' | 'x' | 'm' | 'M' => {
                let argument =
                    if rest.text.is_empty() { self.words.next().cloned() } else { Some(rest) };
                Some(
                    argument
                        .map(|argument| (option, argument))
                        .ok_or_else(|| (bundle.span, format!("-{option} needs an argument"))),
                )
            }
            _ => Some(Err((bundle.span, format!("unknown option -{option}")))),
        }
    }
}
