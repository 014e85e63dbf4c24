//! Draw the overlays: the keys, and the counters with their meaning.

use ratatui::text::{Line, Span};
use sockstamp_model::summary::Summary;
use sockstamp_print::colour::Brush;
use sockstamp_print::listing;
use sockstamp_print::open_waits::Places;
use sockstamp_print::paragraph;
use sockstamp_print::peers::Peers;

use super::app::App;
use super::paint::Paint;

const KEYS: [(&str, &str); 13] = [
    (
        "↑ ↓ k j",
        "move, as the wheel; PgUp PgDn by ten; Home End g G to the ends",
    ),
    (
        "Enter →",
        "from a group to its flows, from a flow to its last messages",
    ),
    ("Esc ←", "back"),
    (
        "s S r",
        "sort by the next, the previous: time, bytes, a stage, …; reverse",
    ),
    ("p", "show p50, p99, or shares of the time"),
    ("w", "the last interval, or everything since the start"),
    (
        "b + -",
        "other groups (new counts); a longer, a shorter interval",
    ),
    ("/", "show only names that contain this text"),
    ("Space", "freeze the screen; counting continues"),
    (
        "v W",
        "findings, verdicts and losses; everything that waits now",
    ),
    ("Ctrl-L", "redraw; Ctrl-Z: suspend"),
    ("F1 3 6 10", "help, /, s and quit, as in htop"),
    ("q Ctrl-C", "quit"),
];

const NOTES: [&str; 4] = [
    "! marks a message that is slow: --slow says from which time on.",
    "A cell is the p50 or p99 of a stage; * has half of the time or more.",
    "Groups are counted in the kernel. Flows and messages are from records, which are made only \
     while they are shown; each counts with its weight.",
    "sockstamp --explain-words defines the stages.",
];

pub(super) fn help(width: usize, paint: Paint) -> Vec<Line<'static>> {
    let keys = KEYS.iter().flat_map(|(key, what)| {
        let title = format!(" {key:<9}");
        let text = paragraph::wrapped_to(width, &title, what.split(' '), "");
        let lines = text.lines().map(|line| styled_key(line, paint));
        lines.collect::<Vec<_>>()
    });
    let notes = NOTES.iter().flat_map(|note| {
        let text = paragraph::wrapped_to(width, "", note.split(' '), "");
        let lines = text.lines().map(|line| Line::raw(line.to_owned()));
        lines.collect::<Vec<_>>()
    });
    keys.chain([Line::default()]).chain(notes).collect()
}

/// Style the column of keys in a line.
fn styled_key(line: &str, paint: Paint) -> Line<'static> {
    const KEY: usize = 11;
    let (key, what): (String, String) = (
        line.chars().take(KEY).collect(),
        line.chars().skip(KEY).collect(),
    );
    Line::from(vec![Span::styled(key, paint.title()), Span::raw(what)])
}

/// Refusals that happened and all losses.
pub(super) fn counters(app: &App, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let Some(summary) = app.summary() else {
        return Vec::new();
    };
    let title = |text: &str| Line::styled(text.to_owned(), paint.title());
    let mut lines = findings(app, width, paint);
    lines.push(title(" measured messages, since the start"));
    for (&verdict, &count) in &summary.verdicts {
        if count > 0 {
            let text = format!("{verdict}: {}", verdict.description());
            lines.extend(counter(count, &text, width));
        }
    }
    lines.extend(counter(summary.in_flight, "in flight", width));
    lines.push(title(" lost"));
    for (name, count) in losses(app, summary) {
        lines.extend(counter(count, &name, width));
    }
    let groups = app.now().map_or(0, |now| now.groups.ended_groups);
    lines.push(title(" groups"));
    lines.extend(counter(
        groups,
        "ended for new ones; their messages are in the row \"ended\"",
        width,
    ));
    lines
}

/// Where time is lost, in the words of `stat`.
fn findings(app: &App, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let findings = app.findings();
    let sentences = findings.iter().map(|finding| {
        let words = format!("{} → sockstamp {}", finding.sentence, finding.next);
        paragraph::wrapped_to(width, " diagnosis:", words.split(' '), "")
    });
    let sentences: Vec<_> = sentences.collect();
    let lines = sentences.iter().flat_map(|sentence| sentence.lines());
    let lines = lines.map(|line| Line::styled(line.to_owned(), paint.title()));
    let notes = app
        .notes()
        .iter()
        .map(|note| paragraph::wrapped_to(width, " note:", note.split(' '), ""));
    let notes: Vec<_> = notes.collect();
    let of_notes = notes.iter().flat_map(|note| note.lines());
    lines
        .chain(of_notes.map(|line| Line::from(line.to_owned())))
        .collect()
}

/// Everything that waits now, as `stuck` lists it.
pub(super) fn waits(app: &App) -> Vec<Line<'static>> {
    let Some(look) = app.look() else {
        return Vec::new();
    };
    let listed = listing::listed(look, app.slow);
    let places = Places::of_several(listing::namespaces(look, app.slow));
    let lines = listing::lines(
        app.slow,
        look,
        &listed,
        &Peers::default(),
        &places,
        false,
        Brush::default(),
    );
    lines
        .into_iter()
        .map(|line| Line::raw(format!(" {line}")))
        .collect()
}

/// The width of a number.
const NUMBER: usize = 13;

/// Return a number and its meaning, in as many lines as needed.
fn counter(count: u64, what: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![format!("{count:>NUMBER$} ")];
    for word in what.split(' ') {
        let last = lines
            .last_mut()
            .filter(|line| line.chars().count() + word.len() < width);
        match last {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(format!("{:NUMBER$}  {word}", "")),
        }
    }
    lines.into_iter().map(Line::raw).collect()
}

/// Return the words for a counter; calls before programs of UDP are attached are no loss.
fn told(name: String) -> String {
    match name.as_str() {
        "datagrams" => "calls of UDP not followed".to_owned(),
        _ => name,
    }
}

/// Every counter of losses by its name in JSON, so that none is forgotten.
pub(super) fn losses(app: &App, summary: &Summary) -> Vec<(String, u64)> {
    let named = match serde_json::to_value(summary.lost) {
        Ok(serde_json::Value::Object(named)) => named,
        _ => serde_json::Map::new(),
    };
    let mut losses: Vec<_> = named
        .into_iter()
        .filter_map(|(name, count)| Some((told(name), count.as_u64()?)))
        .collect();
    let left_out = app.drill().map_or(0, |drill| drill.left_out());
    losses.push((
        "messages of flows beyond the 500 shown".to_owned(),
        left_out,
    ));
    losses
}
