//! Draw stages in the table and in bars: heads, letters, colours.

use ratatui::style::Color;
use sockstamp_model::stage::Stage;

pub(super) struct Look {
    /// The head of its column, in two lines.
    pub(super) head: (&'static str, &'static str),
    /// The letter in bars.
    pub(super) letter: char,
    pub(super) colour: Color,
}

pub(super) fn look(stage: Stage) -> Look {
    let (above, name, letter, colour) = match stage {
        Stage::TxCopy => ("tx", "copy", 'c', Color::Blue),
        Stage::TxQueue => ("tx", "queue", 'q', Color::Magenta),
        Stage::TxQdisc => ("tx", "qdisc", 'd', Color::Cyan),
        Stage::TxNic => ("tx", "nic", 'i', Color::Gray),
        Stage::TxNetwork => ("tx", "netwk", 'n', Color::Green),
        Stage::RxNic => ("rx", "nic", 'i', Color::Gray),
        Stage::RxStack => ("rx", "stack", 's', Color::Blue),
        Stage::RxHol => ("rx", "hol", 'h', Color::Red),
        Stage::RxWakeup => ("rx", "wake", 'w', Color::Magenta),
        Stage::RxApp => ("rx", "app", 'a', Color::Yellow),
        Stage::AppService => ("app", "serv", 'v', Color::Cyan),
        Stage::PeerAnswer => ("peer", "answ", 'p', Color::Gray),
        Stage::PeerRest => ("peer", "rest", 'r', Color::Gray),
        Stage::ClientPause => ("clnt", "pause", 'u', Color::Gray),
        Stage::ClientRequest => ("clnt", "reqst", 'e', Color::Gray),
        Stage::ConnHandshake => ("conn", "hands", 'o', Color::Gray),
        Stage::ConnAccept => ("conn", "accpt", 't', Color::Cyan),
        Stage::NetForward => ("tx", "fwd", 'f', Color::Green),
        Stage::NetBack => ("tx", "back", 'b', Color::Green),
    };
    Look {
        head: (above, name),
        letter,
        colour,
    }
}
