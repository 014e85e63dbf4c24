//! A flood's output: a dot for each probe without an answer, as ping(8) prints it.

use sockstamp_ping::Outcome;

/// Takes back the dot of a probe that is answered.
pub(super) const ANSWERED: &str = "\u{8} \u{8}";

/// Takes the place of the dot of a probe that is refused.
pub(super) const REFUSED: &str = "\u{8}E";

/// Stands for a probe that was sent.
const DOT: &str = ".";

/// Return the signs of a probe: the dot that ping(8) prints when it sends one, and what follows.
pub(super) fn of(outcome: &Outcome) -> [&'static str; 2] {
    match outcome {
        Outcome::Answered(_) => [DOT, ANSWERED],
        Outcome::Lost | Outcome::Abandoned => [DOT, ""],
        Outcome::Refused(_) => [DOT, REFUSED],
        Outcome::NotSent(_) => ["", "E"],
    }
}
