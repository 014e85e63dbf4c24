//! Bars of letters: readable without colours, and the same everywhere.

use ratatui::text::Span;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Stage, StageMap};

use super::look::look;
use super::paint::Paint;

/// A stretch of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) stage: Stage,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Place each of a row of times on an axis of `width` columns for `whole`. Borders are rounded, so
/// stretches join without a gap and are off by at most one column.
pub(super) fn stretches(
    times: impl Iterator<Item = (Stage, u128)>,
    whole: u128,
    width: usize,
) -> Vec<Stretch> {
    let column = |time: u128| {
        let column = (time.saturating_mul(width as u128) + whole / 2).checked_div(whole);
        column.map_or(0, |column| {
            usize::try_from(column).map_or(width, |column| column.min(width))
        })
    };
    let mut passed = 0_u128;
    times
        .map(|(stage, time)| {
            let start = column(passed);
            passed += time;
            Stretch {
                stage,
                start,
                end: column(passed),
            }
        })
        .collect()
}

/// Return the stages of a message, in order.
pub(super) fn of_message(message: &Message) -> impl Iterator<Item = (Stage, u128)> {
    of_stages(&message.stages, |time| u128::from(time.0))
}

/// Return the stages of a message's path, without the time between messages.
pub(super) fn of_stages<T>(
    stages: &StageMap<Option<T>>,
    sum: impl Fn(&T) -> u128,
) -> impl Iterator<Item = (Stage, u128)> {
    stages
        .present()
        .filter(|(stage, _)| !stage.is_between_messages())
        .map(move |(stage, value)| (stage, sum(value)))
}

/// The bar, filled up with blanks.
pub(super) fn spans(stretches: &[Stretch], width: usize, paint: Paint) -> Vec<Span<'static>> {
    let mut spans: Vec<_> = stretches
        .iter()
        .filter(|stretch| stretch.end > stretch.start)
        .map(|stretch| letters(stretch, paint))
        .collect();
    let end = stretches.last().map_or(0, |stretch| stretch.end);
    spans.push(Span::raw(" ".repeat(width - end)));
    spans
}

/// Draw one stretch at its place; a stage shorter than a column is a point.
pub(super) fn alone(stretch: &Stretch, width: usize, paint: Paint) -> Vec<Span<'static>> {
    let start = stretch.start.min(width.saturating_sub(1));
    let bar = if stretch.end > stretch.start {
        letters(stretch, paint)
    } else {
        Span::raw("·")
    };
    vec![Span::raw(" ".repeat(start)), bar]
}

fn letters(stretch: &Stretch, paint: Paint) -> Span<'static> {
    let letter = look(stretch.stage).letter;
    let text = letter.to_string().repeat(stretch.end - stretch.start);
    Span::styled(text, paint.stage(stretch.stage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(stage: Stage, start: usize, end: usize) -> Stretch {
        Stretch { stage, start, end }
    }

    #[test]
    fn stretches_of_a_bar_join_without_a_gap() {
        let times = [
            (Stage::TxCopy, 1),
            (Stage::TxQueue, 49),
            (Stage::TxNetwork, 50),
        ];
        assert_eq!(
            stretches(times.into_iter(), 100, 10),
            [
                stretch(Stage::TxCopy, 0, 0),
                stretch(Stage::TxQueue, 0, 5),
                stretch(Stage::TxNetwork, 5, 10)
            ]
        );
    }

    #[test]
    fn nothing_is_outside_of_the_axis() {
        let times = [(Stage::RxStack, 70), (Stage::RxApp, 70)];
        let stretches = stretches(times.into_iter(), 100, 10);
        assert_eq!(stretches[1], stretch(Stage::RxApp, 7, 10));
        assert_eq!(super::stretches(times.into_iter(), 0, 10)[1].end, 0);
    }
}
