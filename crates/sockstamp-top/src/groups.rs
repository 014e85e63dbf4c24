//! Draw the table of groups or flows, and the details of the selected one.

use std::borrow::Cow;

use ratatui::text::{Line, Span};
use sockstamp_model::flow::canonical;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_print::paragraph;

use super::app::{App, View};
use super::look::look;
use super::paint::{MOST, Paint};
use super::table::{Half, Key, Row};
use super::{bar, units};

/// The width of a cell, including the blank before it.
const CELL: usize = 6;
/// Do the same for the cell of a stage, which may have a mark after the blank.
const STAGE_CELL: usize = 7;
/// The width of a screen on which flows have their local address as well.
const WITH_LOCAL_ADDRESS: usize = 120;
/// The number of lines below the table.
const DETAILS: usize = 6 + DIAGNOSIS;
/// The columns that show where the time of a row goes.
const DIAGNOSIS: usize = 2;
/// The least width of a group's name: both its ends are recognisable.
const LEAST_NAME: usize = 12;
/// Rows that are worth more than details.
const ROWS: usize = 4;
/// The least width of the bar in the details, and what stands beside it: its indent, and the shares
/// of the largest stages.
const LEAST_BAR: usize = 10;
const BESIDE_BAR: usize = 50;

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Messages(Direction),
    Bytes(Direction),
    Total(Direction),
    Retransmits,
    Stage(Stage),
}

impl Column {
    fn width(self) -> usize {
        match self {
            Self::Stage(_) => STAGE_CELL,
            _ => CELL,
        }
    }

    /// Above the name and the name itself.
    fn head(self) -> (&'static str, &'static str) {
        match self {
            Self::Messages(direction) => (direction.name(), "msg/s"),
            Self::Bytes(direction) => (direction.name(), "B/s"),
            Self::Total(Direction::Tx) => ("tx", "sent"),
            Self::Total(Direction::Rx) => ("rx", "total"),
            Self::Retransmits => ("tx", "retr"),
            Self::Stage(stage) => look(stage).head,
        }
    }
}

pub(super) fn body(app: &App, width: usize, height: usize, paint: Paint) -> Vec<Line<'static>> {
    let rows = app.rows();
    let cursor = app.cursor();
    let (name_width, columns) = layout(app, &rows, width);
    let details = if height >= 2 + ROWS + DETAILS {
        DETAILS
    } else {
        0
    };
    let room = height.saturating_sub(2 + details);
    let first = (cursor + 1).saturating_sub(room);
    let mut lines = head(app, &columns, name_width, paint);
    if rows.is_empty() {
        lines.push(Line::raw(nothing(app)));
    }
    for (place, row) in rows.iter().enumerate().skip(first).take(room) {
        let name = fit(&name_of(row, width), name_width);
        lines.push(line(app, row, &name, place == cursor, &columns, paint));
    }
    lines.resize(2 + room, Line::default());
    // Rows below the last one must not go unseen.
    let below = rows.len().saturating_sub(first + room);
    if let (true, Some(row)) = (details > 0, rows.get(cursor)) {
        lines.extend(describe(row, width, below, paint));
    }
    lines
}

fn nothing(app: &App) -> &'static str {
    match app.view {
        _ if !app.filter.is_empty() => "  nothing matches the filter (Esc clears it)",
        View::Groups => "  no messages yet",
        _ => "  no messages since you looked",
    }
}

/// Return the name of a row on a screen of this width.
fn name_of(row: &Row, width: usize) -> Cow<'_, str> {
    match &row.key {
        Key::Flow(flow) if width >= WITH_LOCAL_ADDRESS => {
            format!("{} > {}", canonical(flow.local), canonical(flow.remote)).into()
        }
        _ => Cow::Borrowed(&row.name),
    }
}

/// Return true for a stage that many messages never have.
fn is_rare(stage: Stage) -> bool {
    stage == Stage::RxHol || stage.is_between_messages()
}

/// Choose columns: the stages first, rare ones if any message has them, then others that fit next
/// to names of a recognisable width.
fn layout(app: &App, rows: &[Row], width: usize) -> (usize, Vec<Column>) {
    let names = rows
        .iter()
        .map(|row| Span::raw(name_of(row, width)).width());
    let longest = names.max().unwrap_or(0);
    let (least, wanted) = match app.view {
        View::Groups => (LEAST_NAME, longest.clamp(LEAST_NAME, 40)),
        _ => (20, longest.clamp(20, 60)),
    };
    let room = width.saturating_sub(2);
    let told =
        |stage: &Stage| !is_rare(*stage) || rows.iter().any(|row| row.stage(*stage).is_some());
    let stages = app.stages().into_iter().filter(told);
    let mut columns: Vec<_> = stages.map(Column::Stage).collect();
    columns.truncate(room.saturating_sub(least) / STAGE_CELL);
    let used = |columns: &[Column]| columns.iter().map(|column| column.width()).sum::<usize>();
    let [tx, rx] = Direction::ALL;
    let extra = [
        (Column::Messages(tx), least),
        (Column::Messages(rx), least),
        (Column::Retransmits, wanted),
        (Column::Total(tx), wanted),
        (Column::Total(rx), wanted),
        (Column::Bytes(tx), wanted),
        (Column::Bytes(rx), wanted),
    ];
    let mut shown = Vec::new();
    for (column, name) in extra {
        if name + used(&columns) + used(&shown) + column.width() <= room {
            shown.push(column);
        }
    }
    shown.extend(columns);
    (room.saturating_sub(used(&shown)), shown)
}

fn head(app: &App, columns: &[Column], name_width: usize, paint: Paint) -> Vec<Line<'static>> {
    let what = match app.view {
        View::Groups => "group",
        _ => "flow",
    };
    let mut above = format!("  {:name_width$}", "");
    let mut names = format!("  {what:name_width$}");
    let mut last = "";
    for column in columns {
        let ((direction, name), width) = (column.head(), column.width());
        // Once for all columns beneath it.
        above += &format!("{:>width$}", if direction == last { "" } else { direction });
        names += &format!("{name:>width$}");
        last = direction;
    }
    [above, names]
        .map(|text| Line::styled(text, paint.title()))
        .to_vec()
}

fn line(
    app: &App,
    row: &Row,
    name: &str,
    selected: bool,
    columns: &[Column],
    paint: Paint,
) -> Line<'static> {
    let mark = if selected { ">" } else { " " };
    let mut spans = vec![Span::raw(format!("{mark} {name}"))];
    spans.extend(columns.iter().map(|&column| cell(app, row, column, paint)));
    let line = Line::from(spans);
    if selected {
        line.style(paint.selected())
    } else {
        line
    }
}

/// Fill or cut a name to a width. Programs are known by how their names begin, ports and flows by
/// how they end: the middle is left out.
fn fit(name: &str, width: usize) -> String {
    let characters: Vec<_> = name.chars().collect();
    let mut kept = characters.len();
    loop {
        let text = if kept == characters.len() {
            name.to_owned()
        } else {
            let (head, tail) = (
                &characters[..kept - kept / 2],
                &characters[characters.len() - kept / 2..],
            );
            head.iter().chain(['…'].iter()).chain(tail).collect()
        };
        let used = Span::raw(text.as_str()).width();
        if used <= width || kept == 0 {
            return text + &" ".repeat(width.saturating_sub(used));
        }
        kept -= 1;
    }
}

fn cell(app: &App, row: &Row, column: Column, paint: Paint) -> Span<'static> {
    let plain = |text: String| Span::raw(format!("{text:>CELL$}"));
    match column {
        Column::Messages(direction) => plain(units::count(row.half(direction).messages)),
        Column::Bytes(direction) => plain(units::count(row.half(direction).bytes)),
        Column::Total(direction) => {
            plain(app.shown.of_total(row.half(direction)).unwrap_or_default())
        }
        Column::Retransmits => match row.tx.retransmits {
            0 => plain("0".to_owned()),
            some => Span::styled(format!("{:>CELL$}", units::count(some)), paint.alarm()),
        },
        Column::Stage(stage) => stage_cell(app, row, stage, paint),
    }
}

/// The stage with most of the time has a mark besides its colour.
fn stage_cell(app: &App, row: &Row, stage: Stage, paint: Paint) -> Span<'static> {
    let Some(text) = row.cell(app.shown, stage) else {
        return Span::styled(format!("{:>STAGE_CELL$}", "-"), paint.faint());
    };
    let share = row.share(stage);
    let marked = if share >= MOST {
        format!("*{text}")
    } else {
        text
    };
    Span::styled(format!("{marked:>STAGE_CELL$}"), paint.share(share))
}

/// Describe where the time of one row went.
fn describe(row: &Row, width: usize, below: usize, paint: Paint) -> Vec<Line<'static>> {
    let mut rule = match &row.key {
        Key::Flow(flow) => format!("── {flow} "),
        _ => format!("── {} ", row.name),
    };
    let more = if below > 0 {
        format!(" {below} more below ")
    } else {
        String::new()
    };
    let used = Span::raw(rule.as_str()).width() + Span::raw(more.as_str()).width();
    rule += &"─".repeat(width.saturating_sub(used));
    let mut lines = vec![Line::styled(rule + &more, paint.faint())];
    for direction in Direction::ALL {
        lines.extend(describe_half(direction, row.half(direction), width, paint));
    }
    lines.push(causes(row));
    lines.extend(diagnosis(row, width, paint));
    lines
}

/// Return as much of the diagnosis as has room; the page of counters has all of it.
fn diagnosis(row: &Row, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let width = width.min(paragraph::WIDTH);
    let text = row.diagnosis.as_ref().map_or_else(String::new, |sentence| {
        paragraph::wrapped_to(width, " diagnosis:", sentence.split(' '), "")
    });
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let is_cut = lines.len() > DIAGNOSIS;
    lines.resize(DIAGNOSIS, String::new());
    if let Some(last) = lines.last_mut().filter(|_| is_cut) {
        *last += " …";
    }
    let styled = |line| Line::styled(line, paint.title());
    lines.into_iter().map(styled).collect()
}

fn describe_half(
    direction: Direction,
    half: &Half,
    width: usize,
    paint: Paint,
) -> [Line<'static>; 2] {
    let time = |time: Option<_>| time.map_or("-".to_owned(), units::time);
    let mut text = format!(
        " {}  {} msg/s  {}B/s  {} p50 {}  p99 {}",
        direction.name(),
        units::count(half.messages),
        units::count(half.bytes),
        match direction {
            Direction::Tx => "sent",
            Direction::Rx => "total",
        },
        time(half.total.p50),
        time(half.total.p99),
    );
    if half.retransmits > 0 {
        text += &format!("  {} retransmits", units::count(half.retransmits));
    }
    if half.refused > 0 {
        text += &format!("  {} refused", units::count(half.refused));
    }
    let times = bar::of_stages(&half.stages, |figures| figures.sum_ns)
        .filter(|(stage, _)| stage.has_share());
    let columns = width.saturating_sub(BESIDE_BAR).max(LEAST_BAR);
    let stretches = bar::stretches(times, half.total.sum_ns, columns);
    let mut spans = vec![Span::raw("     ")];
    spans.extend(bar::spans(&stretches, columns, paint));
    for stretch in &stretches {
        let (_, name) = look(stretch.stage).head;
        let share = half.share(stretch.stage);
        spans.push(Span::styled(
            format!("  {name} {share}%"),
            paint.share(share),
        ));
    }
    [Line::raw(text), Line::from(spans)]
}

/// Print the causes of waiting, and the time between messages, which is not part of theirs.
fn causes(row: &Row) -> Line<'static> {
    let mut text = String::new();
    for stage in Stage::ALL {
        let parts = row.half(stage.direction()).parts(stage);
        if parts.is_empty() {
            continue;
        }
        let (_, name) = look(stage).head;
        text += &format!(" {name}:");
        for (part, percent) in parts {
            text += &format!(" {part} {percent}%");
        }
        text.push(' ');
    }
    for stage in Stage::ALL
        .into_iter()
        .filter(|stage| stage.is_between_messages())
    {
        if let Some(figures) = row.stage(stage) {
            let (_, name) = look(stage).head;
            let time = |time: Option<_>| time.map_or("-".to_owned(), units::time);
            text += &format!(
                " {name}: p50 {} p99 {}",
                time(figures.p50),
                time(figures.p99)
            );
        }
    }
    Line::raw(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn names_are_cut_where_they_tell_least() {
        assert_eq!(fit("redis-server 6379", 10), "redis…6379");
        assert_eq!(fit("10.0.0.1:443 > 10.0.0.2:5", 12), "10.0.0…0.2:5");
        assert_eq!(fit("ab", 4), "ab  ");
        assert_eq!(fit("abc", 1), "…");
    }

    #[test]
    fn flows_have_their_local_address_where_there_is_room() {
        let flow = sample::message(1).flow;
        let row = Row::new(
            Key::Flow(flow),
            "short".to_owned(),
            &sockstamp_model::group::GroupSummary::default(),
            std::time::Duration::from_secs(1),
        );
        assert_eq!(name_of(&row, 119), "short");
        let long = name_of(&row, 120);
        assert_eq!(long, format!("{} > {}", flow.local, flow.remote));
    }

    #[test]
    fn a_wider_screen_has_more_columns_and_no_line_is_wider() {
        let app = sample::app();
        let rows = app.rows();
        let mut last = 0;
        for width in 20..200 {
            let (name, columns) = layout(&app, &rows, width);
            assert!(columns.len() >= last, "{width}");
            let used: usize = columns.iter().map(|column| column.width()).sum();
            assert_eq!(2 + name + used, width);
            last = columns.len();
        }
        assert!(
            layout(&app, &rows, 90)
                .1
                .contains(&Column::Messages(Direction::Tx))
        );
    }
}
