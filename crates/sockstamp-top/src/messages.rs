//! Draw the last messages of a flow as bars on one time axis, and the selected one as a waterfall.

use ratatui::text::{Line, Span};
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Stage;
use sockstamp_print::line::time_of_day;

use super::app::{App, View};
use super::bar;
use super::drill::Numbered;
use super::paint::Paint;
use super::units;

/// Marks, time of day, direction, bytes and total.
const COLUMNS: usize = 36;
/// Name, duration and share of a stage.
const STAGE: usize = 26;
/// Lines for the rule, the total, and the stages that a message usually has, two of them with
/// parts.
const WATERFALL: usize = 8;

pub(super) fn body(app: &App, width: usize, height: usize, paint: Paint) -> Vec<Line<'static>> {
    let messages = app.messages();
    let cursor = app.cursor();
    let View::Messages(flow) = app.view else {
        return Vec::new();
    };
    let waterfall = if height >= 2 + WATERFALL + 3 {
        WATERFALL
    } else {
        0
    };
    let room = height.saturating_sub(2 + waterfall);
    let first = (cursor + 1).saturating_sub(room);
    let axis = width.saturating_sub(COLUMNS + 1);
    let seen = messages.iter().skip(first).take(room);
    let whole = seen
        .clone()
        .map(|entry| entry.message.total())
        .max()
        .unwrap_or_default();

    let mut lines = vec![Line::raw(format!(" {flow}")), head(whole, axis, paint)];
    if messages.is_empty() {
        lines.push(Line::raw("  no messages since you looked"));
    }
    for (place, entry) in (first..).zip(seen) {
        let is_slow = entry.message.is_slow(app.slow);
        let marks = [mark(place == cursor, '>'), mark(is_slow, '!')];
        lines.push(line(entry, marks, whole, axis, paint));
    }
    lines.resize(2 + room, Line::default());
    if let (true, Some(entry)) = (waterfall > 0, messages.get(cursor)) {
        lines.extend(waterfall_of(&entry.message, width, paint));
    }
    lines
}

fn head(whole: Nanos, axis: usize, paint: Paint) -> Line<'static> {
    let end = units::time(whole);
    let room = axis.saturating_sub(2);
    Line::styled(
        format!(
            "  {:<16}{:<3}{:>6}{:>8} 0 {end:>room$}",
            "completed (UTC)", "", "bytes", "total"
        ),
        paint.title(),
    )
}

const fn mark(is_marked: bool, mark: char) -> char {
    if is_marked { mark } else { ' ' }
}

/// Draw a message, with the marks of the selected one and of slow ones.
fn line(
    entry: &Numbered,
    [selected, slow]: [char; 2],
    whole: Nanos,
    axis: usize,
    paint: Paint,
) -> Line<'static> {
    let message = &entry.message;
    let figures = format!(
        "{:<16}{:<3}{:>6}{:>8} ",
        time_of_day(message.time.as_nanos()),
        message.label(),
        units::count(message.bytes),
        units::time(message.total()),
    );
    let mut spans = vec![
        Span::raw(selected.to_string()),
        Span::styled(slow.to_string(), paint.alarm()),
        Span::raw(figures),
    ];
    if message.verdict.is_valid() {
        let stretches = bar::stretches(bar::of_message(message), whole.0.into(), axis);
        spans.extend(bar::spans(&stretches, axis, paint));
    } else {
        spans.push(Span::styled(
            format!("refused: {}", message.verdict),
            paint.alarm(),
        ));
    }
    let line = Line::from(spans);
    if selected != ' ' {
        line.style(paint.selected())
    } else {
        line
    }
}

/// Print the parts of a stage, if it has more than one.
fn parts_of(message: &Message, stage: Stage) -> Option<Line<'static>> {
    let known = || {
        let parts = message.parts.of(stage);
        parts.filter(|(_, time)| **time > Nanos::ZERO)
    };
    if known().all(|(part, _)| part.is_rest()) {
        return None;
    }
    let parts: Vec<_> = known()
        .map(|(part, &time)| format!("{part} {}", units::time(time)))
        .collect();
    Some(Line::raw(format!("   {}", parts.join(", "))))
}

/// Draw each stage on a line of its own, at its place in the message's time.
fn waterfall_of(message: &Message, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let total = message.total();
    let mut title = format!(
        "── {} of {} B by {}/{} ",
        message.label(),
        message.bytes,
        message.pid,
        message.comm,
    );
    if message.weight > 1 {
        title += &format!("for {} ", message.weight);
    }
    if message.retransmits > 0 {
        title += &format!("{} retransmits ", message.retransmits);
    }
    let used = Span::raw(title.as_str()).width();
    title += &"─".repeat(width.saturating_sub(used));
    let mut lines = vec![Line::styled(title, paint.faint())];
    if !message.verdict.is_valid() {
        lines.push(Line::raw(format!(" {}", message.verdict.description())));
        return lines;
    }
    let axis = width.saturating_sub(STAGE + 1);
    let times: Vec<_> = bar::of_message(message).collect();
    let stretches = bar::stretches(times.iter().copied(), total.0.into(), axis);
    for (stretch, (stage, time)) in stretches.iter().zip(times) {
        let share = units::percent(time, total.0.into());
        let figures = format!(
            " {:<12}{:>7}{share:>4}%  ",
            stage.name(),
            units::time(Nanos(u64::try_from(time).unwrap_or(u64::MAX)))
        );
        let mut spans = vec![Span::styled(figures, paint.share(share))];
        spans.extend(bar::alone(stretch, axis, paint));
        lines.push(Line::from(spans));
        lines.extend(parts_of(message, stage));
    }
    let figures = format!(" {:<12}{:>7}", "total", units::time(total));
    lines.push(Line::styled(figures, paint.title()));
    lines
}
