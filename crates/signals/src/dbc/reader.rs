//! [`Reader`]: what the statements of a file say, as far as they are read.

use std::collections::HashMap;
use std::sync::Arc;

use candor_diagnostics::{Findings, Origin, Source, meant_or};
use candor_time::Nanos;

use super::multiplex::{DraftSignal, warn};
use super::token::Token;
use crate::Message;

/// A message while its file is read.
pub(super) struct MessageDraft {
    pub(super) message: Message,
    pub(super) origin: Origin,
    pub(super) signals: Vec<DraftSignal>,
    /// What attributes of the message say.
    pub(super) frame_format: Option<String>,
    pub(super) cycle_time: Option<Option<Nanos>>,
    pub(super) long_name: Option<String>,
}

/// What the statements read so far say.
pub(super) struct Reader<'a> {
    pub(super) source: &'a Arc<Source>,
    pub(super) findings: &'a Findings,
    pub(super) drafts: Vec<MessageDraft>,
    /// How many messages make no sense.
    pub(super) left_out: usize,
    /// The messages by the number in the file; `None` for those that were left out.
    pub(super) by_number: HashMap<u64, Option<usize>>,
    pub(super) signals: HashMap<(usize, String), usize>,
    /// The names of the values of VFrameFormat.
    pub(super) frame_formats: Vec<String>,
    pub(super) default_frame_format: Option<String>,
    pub(super) default_cycle_time: Option<Nanos>,
    pub(super) protocol: Option<String>,
    pub(super) default_protocol: Option<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Arc<Source>, findings: &'a Findings) -> Self {
        Self {
            source,
            findings,
            drafts: Vec::new(),
            left_out: 0,
            by_number: HashMap::new(),
            signals: HashMap::new(),
            frame_formats: Vec::new(),
            default_frame_format: None,
            default_cycle_time: None,
            protocol: None,
            default_protocol: None,
        }
    }

    /// A place in the file: the rest of the line, as from here.
    pub(super) fn line(&self, at: usize) -> Origin {
        let rest = self.source.text().get(at..).unwrap_or("");
        let line = rest.lines().next().unwrap_or("").trim_end();
        Origin::new(self.source, at..at + line.len())
    }

    pub(super) fn origin(&self, token: &Token<'_>) -> Origin {
        Origin::new(self.source, token.at..token.end())
    }

    pub(super) fn warn(&self, origin: &Origin, message: impl Into<String>, hint: &str) {
        warn(self.findings, origin, message, hint);
    }

    /// The message that a statement is about, if there is one that was not left out.
    pub(super) fn message_at(&self, number: Token<'a>) -> Option<usize> {
        match self.by_number.get(&number.text.parse().unwrap_or(u64::MAX)) {
            Some(index) => *index,
            None => {
                self.warn(
                    &self.origin(&number),
                    format!("there is no message {}", number.text),
                    "remove this statement, or correct the identifier",
                );
                None
            }
        }
    }

    /// The signal that a statement is about.
    pub(super) fn signal_at(
        &mut self,
        number: Token<'a>,
        name: Token<'a>,
    ) -> Option<&mut DraftSignal> {
        let message = self.message_at(number)?;
        let Some(&index) = self.signals.get(&(message, name.text.to_owned())) else {
            let draft = self.drafts.get(message)?;
            let known = draft.signals.iter().map(|it| it.signal.name.as_str());
            let hint = meant_or(name.text, known, || {
                "remove this statement, or correct the name".to_owned()
            });
            self.warn(
                &self.origin(&name),
                format!("`{}` has no signal `{}`", draft.message.name, name.text),
                &hint,
            );
            return None;
        };
        self.drafts.get_mut(message)?.signals.get_mut(index)
    }
}
