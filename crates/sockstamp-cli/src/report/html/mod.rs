//! `report --html`: one page, without network.
//!
//! Figures are SVG, made here; the script only shows and hides them, and reads values from hidden
//! tables. The page has at most 2 MB, because groups, columns, rows and messages are bounded.

mod census;
mod figures;
mod markup;
mod view;
mod waterfall;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sockstamp_explain::Kind;
use sockstamp_explain::diagnosis::{Diagnosis, Finding};
use sockstamp_model::aggregate::Aggregate;
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_model::message::Message;
use sockstamp_model::verdict::Verdict;

use self::census::{Census, Shown};
use self::figures::Place;
use self::markup::Text;
use self::view::{Life, Lives, View};
use crate::recordings::findings::Findings;
use crate::recordings::provenance::Provenance;
use crate::recordings::{Recordings, SlowOnly};
use sockstamp_print::line::time_of_day;
use sockstamp_print::output;
use sockstamp_record::Detail;
use sockstamp_run::utc::utc;

/// Messages that are shown one by one.
const LIVES: usize = 200;
/// Recordings whose making is shown.
const RECORDINGS: usize = 20;
/// Columns of heat maps: of all messages, and of a group.
const COLUMNS: [usize; 2] = [120, 60];
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The script's hash: `openssl dgst -sha256 -binary page.js | base64`. Browsers refuse to run a
/// script of another one.
const SCRIPT_HASH: &str = include_str!("page.js.sha256");
/// Load no other file, and run only our script, whatever a name contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-HASH'; base-uri 'none'; form-action 'none'";

/// Write the page of these recordings, with groups by these dimensions.
pub(super) fn run(
    recordings: &Recordings,
    files: &[PathBuf],
    by: &[Dimension],
    slow: Nanos,
    path: &Path,
) -> Result<()> {
    let by = by.iter().copied();
    let by = Grouping::new(by).or_else(|| Grouping::new([Dimension::Comm, Dimension::Port]));
    let by = by.context("no dimension")?;
    let slow_only = recordings.slow_only();
    let findings = Findings::new(recordings, slow)?;
    let mut page = Page::of(by, slow_only, findings, |take| {
        recordings.each(Detail::All, |message| {
            take(message);
            Ok(())
        })
    })?;
    page.made = recordings.provenance();
    let mut output = output::create_beside(path, files)?;
    page.write(&mut output).context("cannot write the page")
}

/// All messages of a kind: those of all groups, and of each.
struct Section {
    kind: Kind,
    views: Vec<View>,
    /// By group.
    lives: Vec<Lives>,
}

struct Page {
    shown: Shown,
    sections: Vec<Section>,
    /// Messages and connections that are refused, by their verdict.
    refused: Vec<(Verdict, u64)>,
    connections: u64,
    slow_only: Option<SlowOnly>,
    diagnosis: Diagnosis,
    /// The making of each recording.
    made: Vec<Provenance>,
}

impl Page {
    fn of(
        by: Grouping,
        slow_only: Option<SlowOnly>,
        mut findings: Findings,
        each: impl Fn(&mut dyn FnMut(&Message)) -> Result<()>,
    ) -> Result<Self> {
        let mut census = Census::new(by);
        each(&mut |message| census.add(message))?;
        let shown = census.finish();
        let lives = LIVES / (Kind::ALL.len() * shown.len().max(1));
        let section = |kind| Section {
            kind,
            views: (0..=shown.len())
                .map(|view| View::new(kind, COLUMNS[usize::from(view > 0)]))
                .collect(),
            lives: (0..shown.len()).map(|_| Lives::new(kind, lives)).collect(),
        };
        let mut page = Self {
            sections: Kind::ALL.map(section).into(),
            refused: Verdict::ALL.map(|verdict| (verdict, 0)).into(),
            connections: 0,
            slow_only,
            shown,
            diagnosis: Diagnosis::default(),
            made: Vec::new(),
        };
        let mut aggregate = Aggregate::new();
        each(&mut |message| {
            page.add(message);
            aggregate.record(message);
            findings.message(message);
        })?;
        let summary = aggregate.summary(findings.duration());
        (page.diagnosis, _) = findings.finish(&summary);
        page.refused
            .retain(|(verdict, count)| !verdict.is_valid() && *count > 0);
        page.sections
            .retain(|section| !section.views[0].times.is_empty());
        Ok(page)
    }

    fn add(&mut self, message: &Message) {
        let weight = u64::from(message.weight);
        self.connections += if message.is_connection() { weight } else { 0 };
        let verdict = self
            .refused
            .iter_mut()
            .find(|(verdict, _)| *verdict == message.verdict);
        if let Some((_, count)) = verdict {
            *count += weight;
        }
        let Shown { first, last, .. } = self.shown;
        let position = (message.time.as_nanos() - first) as f64 / (last - first).max(1) as f64;
        let group = self.shown.place(message);
        for section in &mut self.sections {
            if let Some(time) = section.kind.time(message) {
                section.views[0].add(message, time, position);
                section.views[group + 1].add(message, time, position);
                section.lives[group].add(message, time);
            }
        }
    }

    fn write(self, output: &mut dyn Write) -> io::Result<()> {
        let mut html = String::new();
        self.head(&mut html);
        let names: Vec<String> = self.shown.named().map(|(name, _)| name).collect();
        for section in self.sections {
            section.write(&mut html, &names, &self.shown);
        }
        html += "</main><script>";
        html += SCRIPT;
        html += "</script></body></html>\n";
        output.write_all(html.as_bytes())?;
        output.flush()
    }

    fn head(&self, html: &mut String) {
        let policy = POLICY.replace("HASH", SCRIPT_HASH.trim());
        *html += &format!(
            "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>sockstamp report</title>\
             <meta http-equiv=Content-Security-Policy content=\"{policy}\">\
             <meta name=viewport content=\"width=device-width,initial-scale=1\"><style>{STYLE}</style></head><body>\
             <header><h1>sockstamp report</h1><p>"
        );
        let Shown { first, last, .. } = self.shown;
        let moment = |time: u64| {
            let [date, ..] = utc(time / 1_000_000_000);
            format!("{date} {}", time_of_day(time).as_str())
        };
        let messages: u64 = self.shown.named().map(|(_, count)| count).sum();
        *html += &match messages {
            0 => "The recording has no messages.".to_owned(),
            _ => format!(
                "{messages} messages and connections from {} to {} UTC ({})",
                moment(first),
                moment(last),
                Nanos(last - first)
            ),
        };
        if self.connections > 0 {
            *html += &format!("; {} are connections", self.connections);
        }
        for (verdict, count) in &self.refused {
            *html += &format!("; {count} refused: {}", Text(verdict));
        }
        if let Some(slow_only) = &self.slow_only {
            *html += &format!("; {}", Text(slow_only));
        }
        *html += "</p>";
        self.making(html);
        *html += "</header><main>";
        self.findings(html);
        self.filter(html, messages);
    }

    /// Print what `report --header` prints.
    fn making(&self, html: &mut String) {
        if self.made.is_empty() {
            return;
        }
        *html += "<details><summary>How it was recorded</summary>";
        for made in self.made.iter().take(RECORDINGS) {
            *html += "<dl>";
            for (label, text) in made.lines() {
                *html += &format!("<dt>{}</dt><dd>{}</dd>", Text(label), Text(text));
            }
            *html += "</dl>";
        }
        if let Some(others @ 1..) = self.made.len().checked_sub(RECORDINGS) {
            *html += &format!("<p>And {others} more recordings.</p>");
        }
        *html += "</details>";
    }

    /// Print what `report` ends with.
    fn findings(&self, html: &mut String) {
        let (printed, others) = self.diagnosis.printed();
        let notes = &self.diagnosis.notes;
        if printed.is_empty() && notes.is_empty() {
            return;
        }
        *html += "<section aria-labelledby=findings><h2 id=findings>Findings</h2>";
        if !printed.is_empty() {
            *html += "<ol>";
            for finding in printed {
                let Finding { sentence, next, .. } = finding;
                *html += &format!(
                    "<li>{} → <code>sockstamp {}</code></li>",
                    Text(sentence),
                    Text(next)
                );
            }
            *html += "</ol>";
        }
        if others > 0 {
            *html += &format!("<p>And {others} more.</p>");
        }
        for note in notes {
            *html += &format!("<p>Note: {}</p>", Text(note));
        }
        *html += "</section>";
    }

    /// Print a button for each group.
    fn filter(&self, html: &mut String, messages: u64) {
        *html += &format!(
            "<fieldset><legend>Group by {}</legend>",
            Text(&self.shown.by)
        );
        let all = std::iter::once(("all".to_owned(), messages));
        for (place, (name, count)) in all.chain(self.shown.named()).enumerate() {
            let checked = if place == 0 { " checked" } else { "" };
            *html += &format!(
                "<label><input type=radio name=group value={place}{checked}>{} <small>{count}</small></label>",
                Text(name)
            );
        }
        *html += "</fieldset><p id=state role=status></p><noscript><p>Filters need JavaScript.</p></noscript>";
    }
}

impl Section {
    fn write(self, html: &mut String, names: &[String], shown: &Shown) {
        let kind = self.kind.name();
        let time = match self.kind {
            Kind::Sent => "Sends: until the message left the host",
            Kind::Read => "Reads: from the message's arrival until it was read",
            Kind::Answer => "Answers: from a question until its answer could be read",
            Kind::Connect => "Connects: from connect() until the connection was established",
            Kind::Accept => "Accepts: from an established connection until accept() returned it",
            Kind::Life => {
                "Lives: from the send call on one host until the message was read on the other"
            }
        };
        *html += &format!("<section aria-labelledby={kind}><h2 id={kind}>{time}</h2>");
        for (place, view) in self.views.iter().enumerate() {
            let of = place
                .checked_sub(1)
                .map_or("all", |group| names[group].as_str());
            let hidden = if place == 0 { "" } else { " hidden" };
            *html += &format!("<div class=view data-group={place}{hidden}>");
            if view.times.is_empty() {
                *html += &format!("<p>{} has no {kind}.</p></div>", Text(of));
                continue;
            }
            summary(html, view, of);
            let id = format!("{kind}-{place}");
            let figure = Place { id: &id, of };
            figures::composition(html, view, &figure);
            figures::distribution(html, view, &figure);
            figures::heat(html, view, &figure, [shown.first, shown.last]);
            *html += "</div>";
        }
        *html += "<h3>Slowest and typical messages</h3><div class=lives>";
        let lives = self.lives.into_iter().enumerate();
        let mut lives: Vec<(usize, Life)> = lives
            .flat_map(|(group, lives)| {
                lives
                    .finish()
                    .into_iter()
                    .map(move |life| (group + 1, life))
            })
            .collect();
        lives.sort_by_key(|(_, life)| std::cmp::Reverse(life.time));
        for (group, life) in &lives {
            waterfall::life(html, self.kind, *group, life);
        }
        *html += "</div></section>";
    }
}

fn summary(html: &mut String, view: &View, of: &str) {
    *html += &format!(
        "<p class=summary>{}: {} {}",
        Text(of),
        view.times.count(),
        view.kind.name()
    );
    for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let time = view.times.quantile(q).unwrap_or(Nanos::ZERO);
        *html += &format!(", <span>{name} <b>{time}</b></span>");
    }
    let max = view.times.max().unwrap_or(Nanos::ZERO);
    *html += &format!(", <span>max <b>{max}</b></span></p>");
}
