//! The time that recordings cover.

use anyhow::{Result, bail};
use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_record::{Reader, WaitReader};
use sockstamp_run::utc::utc;

use super::beside::waits_beside;
use crate::options::choice::Choice;

pub(super) const SECOND: u64 = 1_000_000_000;

/// The first time and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span([Timestamp<Realtime>; 2]);

impl Span {
    pub(super) const fn new(times: [Timestamp<Realtime>; 2]) -> Self {
        Self(times)
    }

    pub(super) fn around(spans: &[Self]) -> Option<Self> {
        let first = spans.iter().map(|Self([first, _])| *first).min()?;
        let last = spans.iter().map(|Self([_, last])| *last).max()?;
        Some(Self([first, last]))
    }
}

/// Whole seconds around it, as --from and --to take them.
impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([first, last]) = self;
        let [from, to] = [first.as_nanos() / SECOND, last.as_nanos() / SECOND + 1].map(moment);
        write!(f, "{from} to {to} UTC")
    }
}

pub(super) fn moment(seconds: u64) -> String {
    let [date, _, time] = utc(seconds);
    let [hour, minute, second] = [0..2, 2..4, 4..6].map(|part| time.get(part).unwrap_or_default());
    format!("{date}T{hour}:{minute}:{second}")
}

/// Return the span of the messages and the waits of a file.
fn of_one(reader: &Reader) -> Option<Span> {
    let waits = WaitReader::open(&waits_beside(reader.path())).ok();
    let waits = waits.and_then(|waits| waits.span());
    let spans: Vec<_> = [reader.span(), waits]
        .into_iter()
        .flatten()
        .map(Span)
        .collect();
    Span::around(&spans)
}

/// Refuse times in which nothing was recorded.
pub(super) fn refuse_outside(readers: &[Reader], choice: &Choice) -> Result<()> {
    if choice.from.or(choice.to).is_none() {
        return Ok(());
    }
    let spans: Option<Vec<_>> = readers.iter().map(of_one).collect();
    let spans = spans.unwrap_or_default();
    // A file without rows, or without notes of their times, has no span.
    let Some(whole) = Span::around(&spans) else {
        return Ok(());
    };
    if let (Some(from), Some(to)) = (choice.from, choice.to)
        && to <= from
    {
        bail!("--to is not after --from: the recording has {whole}");
    }
    let is_in = |Span([first, last]): &Span| {
        choice.from.is_none_or(|from| from <= *last) && choice.to.is_none_or(|to| *first < to)
    };
    match spans.iter().any(is_in) {
        true => Ok(()),
        false => bail!("nothing was recorded then: the recording has {whole}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, last: u64) -> Span {
        Span([first, last].map(|time| Timestamp::from_nanos(time * SECOND)))
    }

    #[test]
    fn a_span_is_around_others_and_in_words_that_options_take() {
        let whole = Span::around(&[span(20, 30), span(5, 6)]);
        assert_eq!(whole, Some(span(5, 30)));
        let told = "1970-01-01T00:00:05 to 1970-01-01T00:00:31 UTC";
        assert_eq!(whole.map(|whole| whole.to_string()).as_deref(), Some(told));
        assert_eq!(Span::around(&[]), None);
    }
}
