//! The facts that recordings keep of their own making: by whom, where, how and when.

use std::collections::BTreeMap;
use std::fmt;

use sockstamp_host::places::Places;
use sockstamp_model::clock::Nanos;
use sockstamp_model::name::Escaped;
use sockstamp_record::Reader;

use super::span::Span;
use super::{ENDED, HOST, LOST, RECORDING, Recordings, SLOW_ONLY, span};
use sockstamp_print::numbers::counted;

/// The command line; of a command that was measured, the name alone.
pub(crate) const COMMAND: &str = "command";
/// The share of messages that was measured, as --sample takes it.
pub(crate) const SAMPLE: &str = "sample";
/// The kernel's release, and the processor it is for.
pub(crate) const KERNEL: &str = "kernel";
/// The processors that were online, as ranges.
pub(crate) const CPUS: &str = "cpus";
/// The clock that the kernel's times come from.
pub(crate) const CLOCK_SOURCE: &str = "clock_source";

const NOT_KNOWN: &str = "not known";

/// The making of one recording, as its files tell it: a label and words each.
#[derive(Debug)]
pub(crate) struct Provenance {
    lines: Vec<(&'static str, String)>,
}

impl Provenance {
    /// Iterate over the labels, and what stands behind each.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.lines
            .iter()
            .map(|(label, text)| (*label, text.as_str()))
    }

    /// `files` are of one recording.
    fn of(files: &[&Reader]) -> Self {
        let fact = |key: &str| files.iter().rev().find_map(|file| file.fact(key));
        let told = |key: &str| fact(key).unwrap_or(NOT_KNOWN).to_owned();
        let moment = |key: &str| fact(key).and_then(moment);
        let rows = files.iter().map(|file| file.rows()).sum();
        let mut lines = vec![
            ("host", told(HOST)),
            ("kernel", told(KERNEL)),
            ("CPUs", told(CPUS)),
            ("clock", told(CLOCK_SOURCE)),
            ("sockstamp", told("version")),
            ("command", told(COMMAND)),
            ("measured", told(SAMPLE)),
            (
                "began",
                moment(RECORDING).unwrap_or_else(|| NOT_KNOWN.to_owned()),
            ),
            ("ended", moment(ENDED).unwrap_or_else(|| no_end(files))),
            ("messages", rows_in(rows, files)),
            ("lost", losses(files)),
        ];
        if let Some(limit) = fact(SLOW_ONLY).and_then(|limit| limit.parse().ok()) {
            lines.push(("slower than", Nanos(limit).to_string()));
        }
        let places = Places::of_all(
            files
                .iter()
                .map(|file| Places::recorded(|key| file.fact(key))),
        );
        let names = places.names.iter();
        let names: Vec<_> = names
            .map(|(netns, name)| format!("{netns} {name}"))
            .collect();
        if !names.is_empty() {
            lines.push(("namespaces", names.join(", ")));
        }
        Self { lines }
    }
}

/// One line for each fact.
impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, text) in self.lines() {
            writeln!(f, " {label:<12} {}", Escaped(text.as_bytes()))?;
        }
        Ok(())
    }
}

fn moment(nanos: &str) -> Option<String> {
    let nanos: u64 = nanos.parse().ok()?;
    Some(format!("{} UTC", span::moment(nanos / span::SECOND)))
}

/// Older programs noted losses at the end, and not when that was.
fn no_end(files: &[&Reader]) -> String {
    match is_ended(files) {
        true => NOT_KNOWN.to_owned(),
        false => {
            format!("{NOT_KNOWN}: it was killed, lasts still, or its last file is not here")
        }
    }
}

/// Only the last file of a recording has its losses.
fn is_ended(files: &[&Reader]) -> bool {
    files.iter().any(|file| file.fact(LOST[0].0).is_some())
}

fn rows_in(rows: u64, files: &[&Reader]) -> String {
    let number = counted(files.len() as u64, "file");
    let spans: Vec<_> = files
        .iter()
        .filter_map(|file| file.span().map(Span::new))
        .collect();
    match Span::around(&spans) {
        Some(span) => format!("{rows} in {number}, {span}"),
        None => format!("{rows} in {number}"),
    }
}

fn losses(files: &[&Reader]) -> String {
    if !is_ended(files) {
        return NOT_KNOWN.to_owned();
    }
    let mut lost = super::lost_of(files.iter().copied());
    let told: Vec<_> = LOST
        .iter()
        .map(|(key, loss)| {
            (
                key.strip_prefix("lost_").unwrap_or("ring"),
                *loss(&mut lost),
            )
        })
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} {count}", name.replace('_', "-")))
        .collect();
    match told.is_empty() {
        true => "nothing".to_owned(),
        false => told.join(", "),
    }
}

impl Recordings {
    /// Return what each recording says of its making, in the order of their begin. Files that do
    /// not name theirs are one each.
    pub(crate) fn provenance(&self) -> Vec<Provenance> {
        let mut recordings: BTreeMap<_, Vec<&Reader>> = BTreeMap::new();
        for (number, reader) in self.readers.iter().enumerate() {
            let key = match reader.fact(RECORDING) {
                Some(began) => (began, reader.fact(HOST), 0),
                None => ("", None, number),
            };
            recordings.entry(key).or_default().push(reader);
        }
        let files = recordings.values();
        files.map(|files| Provenance::of(files)).collect()
    }
}
