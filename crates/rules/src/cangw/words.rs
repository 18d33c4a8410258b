//! Words with their places, and which of them mean something.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range as Span;

/// The comment that carries the hop limit through a script.
pub(super) const MODPROBE: &str = "modprobe can-gw max_hops=";

pub(super) fn is_program(word: &str) -> bool {
    word.rsplit('/').next() == Some("cangw")
}

/// The parts of a word, or of a text, in which a shell may see words of their own.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'`\\$=;&|<>(){}".contains(c))
}

#[derive(Clone, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) span: Span<usize>,
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
