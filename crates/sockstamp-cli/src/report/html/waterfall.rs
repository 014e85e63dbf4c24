//! Draw the life of a message.

use sockstamp_explain::timeline::{Placed, Span, Timeline};
use sockstamp_explain::{Component, Kind};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::canonical;
use sockstamp_print::line::time_of_day;

use super::markup::{Text, percent};
use super::view::Life;

/// Draw a message of this kind and group: a line that opens to its stages.
pub(super) fn life(html: &mut String, kind: Kind, group: usize, life: &Life) {
    let message = &life.message;
    let [local, remote] = [message.flow.local, message.flow.remote].map(canonical);
    let words = format!(
        "{}/{} {local} → {remote} {} B at {}",
        message.comm,
        message.pid,
        message.bytes,
        time_of_day(message.time.as_nanos()).as_str(),
    );
    *html += &format!(
        "<details class=life data-group={group}><summary><b>{}</b> <i>{}</i> {}</summary>",
        life.time,
        life.why,
        Text(&words)
    );
    let rows = rows(kind, &Timeline::of(message));
    let begin = rows.iter().map(|row| row.span.begin).min().unwrap_or(0);
    let end = rows.iter().map(|row| row.span.end).max().unwrap_or(0);
    let whole = Span { begin, end }.duration().0.max(1) as f64;
    *html += &format!(
        "<div role=figure aria-label=\"Waterfall\"><table class=waterfall><thead><tr><th scope=col>stage</th>\
         <th scope=col>after</th><th scope=col>time</th><th scope=col class=bars>{}</th></tr></thead><tbody>",
        Nanos(end - begin)
    );
    for row in &rows {
        let after = row.span.begin - begin;
        let duration = row.span.duration();
        *html += &format!(
            "<tr><th scope=row>{}</th><td>{}</td><td>{duration}</td><td class=bars>\
             <svg viewBox=\"0 0 100 1\" preserveAspectRatio=none aria-hidden=true>\
             <rect class={} x={} width={} height=1 /></svg></td></tr>",
            Text(&row.name),
            Nanos(after),
            row.class,
            percent(after as f64 / whole),
            // The shortest is still seen.
            percent((duration.0 as f64 / whole).max(0.002)),
        );
    }
    *html += "</tbody></table></div></details>";
}

struct Row {
    name: String,
    class: String,
    span: Span,
}

fn rows(kind: Kind, timeline: &Timeline) -> Vec<Row> {
    let components = kind.components();
    // Stages of another kind are not part of the examined time.
    let row = |component: Component, span: Span| Row {
        name: component.to_string(),
        class: components
            .iter()
            .position(|other| *other == component)
            .map_or_else(|| "beside".to_owned(), |place| format!("c{place}")),
        span,
    };
    let placed = |placed: &Placed| -> Vec<Row> {
        let stage = placed.stage;
        let parts = placed.parts.iter().map(|&(part, span)| {
            let part = Some(part);
            row(Component { stage, part }, span)
        });
        match placed.parts.is_empty() {
            true => vec![row(Component { stage, part: None }, placed.span)],
            false => parts.collect(),
        }
    };
    timeline
        .between
        .iter()
        .chain(&timeline.way)
        .flat_map(placed)
        .collect()
}
