//! Turn the state into lines of text, in the frame that every view has.

use std::cell::Cell;
use std::time::Duration;

use ratatui::layout::Size;
use ratatui::text::{Line, Span};
use sockstamp_model::clock::Nanos;
use sockstamp_model::stage::Direction;
use sockstamp_model::verdict::Verdict;

use super::app::{App, MessageOrder, Page, View, Window};
use super::paint::Paint;
use super::{groups, messages, pages, table, units};

/// The presence of a keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Shown,
    None,
}

/// The whole screen, no line wider than `size` and never more of them.
pub(super) fn lines(app: &App, size: Size, paint: Paint, keys: Keys) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    let mut lines = head(app, paint);
    let mut foot = foot(app, paint);
    if keys == Keys::Shown {
        foot.push(key_line(app, paint));
    }
    let room = height.saturating_sub(lines.len() + foot.len());
    let mut body = match (app.page, app.view) {
        (Some(Page::Help), _) => pages::help(width, paint),
        (Some(Page::Counters), _) => pages::counters(app, width, paint),
        (Some(Page::Waits), _) => pages::waits(app),
        (None, View::Groups | View::Flows) => groups::body(app, width, room, paint),
        (None, View::Messages(_)) => messages::body(app, width, room, paint),
    };
    if app.page.is_some() {
        scrolled(&mut body, room, &app.scroll, paint);
    } else if body.len() > room {
        // Mark that lines do not fit.
        body.truncate(room.saturating_sub(1));
        body.push(Line::styled(" … more with a higher window", paint.faint()));
    }
    body.resize(room, Line::default());
    lines.extend(body);
    lines.extend(foot);
    lines.truncate(height);
    lines.into_iter().map(|line| cut(line, width)).collect()
}

/// Leave out lines above and below the room of a page, and mark that.
fn scrolled(body: &mut Vec<Line<'static>>, room: usize, scroll: &Cell<usize>, paint: Paint) {
    let most = match body.len() > room {
        true => body.len() - room.saturating_sub(1),
        false => 0,
    };
    scroll.set(scroll.get().min(most));
    body.drain(..scroll.get());
    if body.len() > room {
        body.truncate(room.saturating_sub(1));
        body.push(Line::styled(" … more: ↓ PgDn", paint.faint()));
    }
}

/// The lines as plain text.
pub(super) fn text(lines: &[Line<'_>]) -> String {
    let mut text = String::new();
    for line in lines {
        let line: String = line
            .spans
            .iter()
            .map(|span| span.content.as_ref())
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// End a line that is too long with a sign.
fn cut(line: Line<'static>, width: usize) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    let mut room = width.saturating_sub(1);
    let mut spans = Vec::new();
    for span in line.spans {
        let text = head_of(&span.content, room);
        room -= Span::raw(text.as_str()).width();
        let whole = text.len() == span.content.len();
        spans.push(Span::styled(text, span.style));
        if !whole {
            break;
        }
    }
    spans.push(Span::raw("…"));
    Line::from(spans).style(line.style)
}

/// Return as many characters as fit.
fn head_of(text: &str, width: usize) -> String {
    let mut head = String::new();
    for c in text.chars() {
        head.push(c);
        if Span::raw(head.as_str()).width() > width {
            head.pop();
            break;
        }
    }
    head
}

fn head(app: &App, paint: Paint) -> Vec<Line<'static>> {
    let mut title = vec![
        Span::styled(" sockstamp top", paint.title()),
        Span::raw(format!("  {}", subject(app))),
    ];
    if !app.filter.is_empty() && !app.editing {
        title.push(Span::styled(format!("  /{}", app.filter), paint.title()));
    }
    if app.paused {
        title.push(Span::styled("  PAUSED", paint.alarm()));
    }
    vec![Line::from(title), totals(app)]
}

/// Name the content, the target and the period.
fn subject(app: &App) -> String {
    let order = if app.reversed {
        format!("{}, reversed", app.order.name())
    } else {
        app.order.name().to_owned()
    };
    let drilled = app.drill().map_or("", |drill| drill.name());
    match app.view {
        View::Groups => format!(
            "by {}  {} {}  sorted by {order}",
            app.by,
            app.shown.name(),
            time(app)
        ),
        View::Flows => format!(
            "flows of {drilled}  {} {}  sorted by {order}",
            app.shown.name(),
            time(app)
        ),
        View::Messages(_) => {
            let order = match app.message_order {
                MessageOrder::Newest => "newest first",
                MessageOrder::Slowest => "slowest first",
            };
            format!("last messages of {drilled}  {order}")
        }
    }
}

fn time(app: &App) -> String {
    let seconds = |time: Duration| units::time(Nanos::from(time));
    match (app.window, app.summary()) {
        (Window::Start, Some(summary)) => format!("since the start, {}", summary.duration),
        _ => format!("of {}", seconds(app.interval)),
    }
}

/// All messages of the host that are selected, and how many of them the distributions are of.
fn totals(app: &App) -> Line<'static> {
    let Some(now) = app.now() else {
        return Line::raw(" waiting for the first interval to end");
    };
    let time = table::elapsed(app.before(), now);
    let whole = table::whole(app.before(), now);
    let mut text = " all:".to_owned();
    for direction in Direction::ALL {
        let half = whole.direction(direction);
        text += &format!(
            " {} {}/s {}B/s ",
            direction.name(),
            units::count(table::rate(half.messages, time)),
            units::count(table::rate(half.bytes, time)),
        );
    }
    let measured = whole.tx.measured + whole.rx.measured;
    let messages = whole.messages();
    text += &format!(" {} retransmits ", units::count(whole.tx.retransmits));
    text += &match messages {
        0 => " no messages".to_owned(),
        _ if measured >= messages => " all measured".to_owned(),
        _ => format!(
            " {} of {} measured",
            units::count(measured),
            units::count(messages)
        ),
    };
    Line::raw(text)
}

/// Print verdicts of all measured messages and losses, so that nothing is missing silently.
fn foot(app: &App, paint: Paint) -> Vec<Line<'static>> {
    let Some(summary) = app.summary() else {
        return Vec::new();
    };
    let mut verdicts = vec![Span::raw(format!(
        " verdicts: valid {}, in flight {}",
        summary.verdict(Verdict::Valid),
        summary.in_flight
    ))];
    for (verdict, count) in summary.refusals() {
        verdicts.push(Span::raw(", "));
        verdicts.push(Span::styled(format!("{verdict} {count}"), paint.alarm()));
    }
    let mut lost = pages::losses(app, summary)
        .into_iter()
        .filter(|&(_, count)| count > 0)
        .peekable();
    let mut losses = vec![Span::raw(" lost: ")];
    if lost.peek().is_none() {
        losses.push(Span::raw("nothing"));
    }
    for (name, count) in lost {
        losses.push(Span::styled(format!("{name} {count}  "), paint.alarm()));
    }
    vec![Line::from(verdicts), Line::from(losses)]
}

fn key_line(app: &App, paint: Paint) -> Line<'static> {
    if app.editing {
        return Line::styled(
            format!(" filter: {}▏ Enter keeps, Esc clears", app.filter),
            paint.title(),
        );
    }
    if let Some(notice) = app.notice {
        return Line::styled(format!(" {notice}"), paint.alarm());
    }
    let keys = match (app.page, app.view) {
        (Some(_), _) => "↑↓ scroll  any other key leads back  q quit",
        (None, View::Groups) => {
            "? help  ↑↓ Enter flows  s sort  p p50/p99/share  / filter  Space pause  q quit"
        }
        (None, View::Flows) => {
            "? help  ↑↓ Enter messages  Esc back  s sort  p p50/p99/share  q quit"
        }
        (None, View::Messages(_)) => {
            "? help  ↑↓ message  Esc back  s newest/slowest  Space pause  q quit"
        }
    };
    Line::styled(format!(" {keys}"), paint.faint())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_marked() {
        let line = Line::from(vec![Span::raw("abc"), Span::raw("déf")]);
        assert_eq!(text(&[cut(line.clone(), 6)]), "abcdéf\n");
        assert_eq!(text(&[cut(line.clone(), 5)]), "abcd…\n");
        assert_eq!(text(&[cut(line, 3)]), "ab…\n");
        // Two columns each.
        assert_eq!(text(&[cut(Line::raw("日本語"), 4)]), "日…\n");
    }
}
