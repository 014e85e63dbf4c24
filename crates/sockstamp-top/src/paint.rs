//! Choose colours, or attributes that replace them.

use ratatui::style::{Color, Modifier, Style};
use sockstamp_model::stage::Stage;

use super::look::look;

/// The share from which on a stage dominates.
pub(super) const MOST: u64 = 50;
const MUCH: u64 = 25;
const SOME: u64 = 10;

/// Without colours there are bold and reversed, which every terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    pub(super) colours: bool,
}

impl Paint {
    fn coloured(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn faint(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    /// Return the style of text that must not be overlooked.
    pub(super) fn alarm(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Return the style for a stage's share of the time, in percent.
    pub(super) fn share(self, percent: u64) -> Style {
        match percent {
            MOST.. => self.alarm(),
            MUCH.. => self.coloured(Color::Yellow),
            SOME.. => Style::new(),
            _ => self.faint(),
        }
    }

    /// A bar of the stage.
    pub(super) fn stage(self, stage: Stage) -> Style {
        if self.colours {
            Style::new().fg(Color::Black).bg(look(stage).colour)
        } else {
            Style::new()
        }
    }
}
