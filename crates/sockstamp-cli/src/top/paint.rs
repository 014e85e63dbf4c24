//! Choose colours, or attributes that replace them.

use ratatui::style::{Color, Modifier, Style};
use sockstamp_model::stage::Stage;

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
        let colour = match stage {
            Stage::TxCopy | Stage::RxStack => Color::Blue,
            Stage::TxQueue | Stage::RxWakeup => Color::Magenta,
            Stage::TxQdisc | Stage::AppService | Stage::ConnAccept => Color::Cyan,
            Stage::TxNic | Stage::RxNic | Stage::ConnHandshake => Color::Gray,
            Stage::PeerAnswer | Stage::PeerRest => Color::Gray,
            Stage::ClientPause | Stage::ClientRequest => Color::Gray,
            Stage::TxNetwork | Stage::NetForward | Stage::NetBack => Color::Green,
            Stage::RxHol => Color::Red,
            Stage::RxApp => Color::Yellow,
        };
        if self.colours {
            Style::new().fg(Color::Black).bg(colour)
        } else {
            Style::new()
        }
    }
}

/// The letter of a stage in bars, and its name in the head of the table, below its direction.
pub(super) fn short(stage: Stage) -> (char, &'static str) {
    match stage {
        Stage::TxCopy => ('c', "copy"),
        Stage::TxQueue => ('q', "queue"),
        Stage::TxQdisc => ('d', "qdisc"),
        Stage::TxNic => ('i', "nic"),
        Stage::TxNetwork => ('n', "netwk"),
        Stage::RxNic => ('i', "nic"),
        Stage::RxStack => ('s', "stack"),
        Stage::RxHol => ('h', "hol"),
        Stage::RxWakeup => ('w', "wake"),
        Stage::RxApp => ('a', "app"),
        Stage::AppService => ('v', "serv"),
        Stage::PeerAnswer => ('p', "answ"),
        Stage::PeerRest => ('r', "rest"),
        Stage::ClientPause => ('u', "pause"),
        Stage::ClientRequest => ('e', "reqst"),
        Stage::ConnHandshake => ('o', "hands"),
        Stage::ConnAccept => ('t', "accpt"),
        Stage::NetForward => ('f', "fwd"),
        Stage::NetBack => ('b', "back"),
    }
}
