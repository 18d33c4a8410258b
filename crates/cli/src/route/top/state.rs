//! What is shown, and what keys change about it.

use std::ops::ControlFlow;

use candor_gateway::control::overview::Overview;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// How long a filter may be.
const MAX_FILTER: usize = 64;

#[derive(Default)]
pub(super) struct State {
    pub(super) overview: Overview,
    pub(super) is_coloured: bool,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    /// How many of the rules are above those shown.
    pub(super) scrolled: usize,
    /// Nothing more will come, and why.
    pub(super) end: Option<String>,
}

impl State {
    /// Does what a key is for. Break to end.
    pub(super) fn key(&mut self, key: KeyEvent) -> ControlFlow<()> {
        if key.kind == KeyEventKind::Release {
            return ControlFlow::Continue(());
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return ControlFlow::Break(()),
            code if self.is_typing => self.edit(code),
            KeyCode::Char('q') => return ControlFlow::Break(()),
            KeyCode::Char('s') => {
                self.overview.sort = self.overview.sort.next();
                self.scrolled = 0;
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.overview.is_paused ^= true,
            KeyCode::Esc => self.overview.filter.clear(),
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-10),
            KeyCode::PageDown => self.scroll(10),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.overview.filter.clear();
            }
            KeyCode::Backspace => {
                self.overview.filter.pop();
            }
            KeyCode::Char(c) if self.overview.filter.chars().count() < MAX_FILTER => {
                self.overview.filter.push(c);
            }
            _ => {}
        }
        self.scrolled = 0;
    }

    fn scroll(&mut self, lines: isize) {
        let last = self.overview.rules().len().saturating_sub(1);
        self.scrolled = self.scrolled.saturating_add_signed(lines).min(last);
    }
}
