//! The text as words: its lines, the words of each with their places, and which text is one of commands.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range as Span;

/// The comment that carries the hop limit through a script.
pub(super) const MODPROBE: &str = "modprobe can-gw max_hops=";

/// Whether `text` looks like commands of cangw rather than TOML.
#[must_use]
pub fn is_cangw(text: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace().filter(|&word| word != "sudo");
        words.next().is_some_and(is_program)
            && words.next().is_some_and(|option| option.starts_with('-'))
    })
}

pub(super) fn is_program(word: &str) -> bool {
    word.rsplit('/').next() == Some("cangw")
}

#[derive(Clone, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) span: Span<usize>,
}

/// The byte ranges of the lines, ends left aside.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Span<usize>> + '_ {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some(start..start + line.trim_end().len())
    })
}

/// The words of `text`, which begins at byte `at`, with their places.
pub(super) fn words(text: &str, at: usize) -> impl Iterator<Item = Word<'_>> {
    text.split_whitespace().map(move |word| {
        // Both lie in the same text, so their distance is an offset.
        let start = at + (word.as_ptr().addr() - text.as_ptr().addr());
        Word { text: word, span: start..start + word.len() }
    })
}

/// Whether a comment is the counters of a listing.
pub(super) fn is_counters(comment: &str) -> bool {
    let words: Vec<_> = comment.split_whitespace().take(7).collect();
    matches!(words[..], [_, "handled", _, "dropped", _, "deleted"])
}

/// Whether a comment is read: the hop limit, or counters.
pub(super) fn is_read(comment: &str) -> bool {
    comment.trim().starts_with(MODPROBE) || is_counters(comment)
}

/// Enough of a word to recognise it.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_toml() {
        for (text, is_commands) in [
            ("cangw -A -s can0 -d can1", true),
            ("#!/bin/sh\nset -e\n\nsudo /usr/bin/cangw -F\n", true),
            ("[bus]\ncangw = \"can0\"\n", false),
            ("# cangw -A\n", false),
            ("", false),
        ] {
            assert_eq!(is_cangw(text), is_commands, "{text}");
        }
    }
}
