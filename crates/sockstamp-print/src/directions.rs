//! Which directions are printed.

use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::Summary;

pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Tx, Direction::Rx];

/// Return true if the messages sent are whole lives, with the stages of both hosts.
pub(super) fn are_lives(summary: &Summary) -> bool {
    summary.tx.stages[Stage::NetForward].is_some()
}

/// The directions that are printed: recordings of whole lives have nothing received.
pub(super) fn directions(summary: &Summary) -> impl Iterator<Item = Direction> {
    let is_told = |direction: &Direction| match direction {
        Direction::Tx => true,
        Direction::Rx => !are_lives(summary) || summary.rx.messages > 0,
    };
    DIRECTIONS.into_iter().filter(is_told)
}
