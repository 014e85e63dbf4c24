//! Where time was lost in the last minutes: the engine of `stat`, fed with what the agent sees.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::Serialize;
use sockstamp_explain::diagnosis::{Case, Diagnosis, JSON_VERSION, Scope};
use sockstamp_host::clock;
use sockstamp_metrics::catalogue::FINDING_LOST;
use sockstamp_metrics::{Exposition, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::message::Message;
use sockstamp_model::service::Service;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{UnixWait, Wait, Waits};
use sockstamp_run::escape::to_json;
use sockstamp_run::process_names::ProcessNames;

use crate::owners::Owner;

/// A watch begins this often, and there are two: the older one answers, for once to twice this
/// time.
const SPAN: Duration = Duration::from_secs(120);
/// Slow waits of a watch: 2 MB.
const MOST: usize = 1 << 12;
/// To find them again takes a moment, and a scrape may follow at once.
const FRESH: Duration = Duration::from_secs(1);

/// Counts of waits, and of dropped packets, that found no room since the start of a session.
#[derive(Debug, Clone, Copy, Default)]
struct Missing {
    lost: u64,
    untold: u64,
    untold_drops: u64,
}

impl Missing {
    const fn of(waits: &Waits) -> Self {
        Self {
            lost: waits.lost,
            untold: waits.untold,
            untold_drops: waits.untold_drops,
        }
    }

    /// Add what is new since a look before.
    fn add_to(self, before: Self, waits: &mut Waits) {
        waits.lost += self.lost.saturating_sub(before.lost);
        waits.untold += self.untold.saturating_sub(before.untold);
        waits.untold_drops += self.untold_drops.saturating_sub(before.untold_drops);
    }
}

/// Slow waits and messages since a moment.
#[derive(Debug)]
struct Watch {
    began: Instant,
    /// The counts at that moment.
    before: Summary,
    case: Case,
    /// Waits come after all messages: a message that shows the same wait knows more of it.
    waits: Waits,
}

impl Watch {
    fn new(slow: Nanos, before: Summary) -> Self {
        let scope = Scope {
            slow,
            ..Scope::default()
        };
        Self {
            began: Instant::now(),
            before,
            case: Case::new(scope).of_at_most(MOST),
            waits: Waits::default(),
        }
    }

    /// Add what has ended, with the sockets of requests that were owed an answer.
    fn add(&mut self, ended: &[Wait], unix: &[UnixWait], owed: &[SocketCookie]) {
        let lost = bounded(&mut self.waits.list, ended) + bounded(&mut self.waits.unix, unix);
        self.waits.lost = self.waits.lost.saturating_add(lost);
        let room = MOST.saturating_sub(self.waits.owed.len());
        self.waits.owed.extend(owed.iter().take(room));
    }
}

/// Add waits up to the most, and return the number of the others.
fn bounded<T: Clone>(waits: &mut Vec<T>, more: &[T]) -> u64 {
    let kept = more.len().min(MOST.saturating_sub(waits.len()));
    waits.extend_from_slice(&more[..kept]);
    (more.len() - kept) as u64
}

/// Slow waits and messages of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The time from which on something is slow.
    slow: Nanos,
    names: ProcessNames,
    /// The older one first.
    watches: VecDeque<Watch>,
    /// As of the last look.
    open: Waits,
    /// Waits that had found no room by then.
    missing: Missing,
    /// The last answer.
    told: Option<(Instant, Told)>,
}

/// Findings, and the time in which they were made.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Told {
    version: u32,
    /// The time from which on something counted as slow.
    slow_ns: Nanos,
    duration_ns: Nanos,
    #[serde(flatten)]
    diagnosis: Diagnosis,
}

impl Findings {
    /// Begin anew with a new session: its counts of what found no room begin at zero.
    pub(crate) fn begin_session(&mut self, slow: Option<Duration>, before: Summary) {
        self.missing = Missing::default();
        self.begin(slow, before);
    }

    /// Begin anew with the same session, from these counts.
    pub(crate) fn begin(&mut self, slow: Option<Duration>, before: Summary) {
        let slow = slow.map_or(Scope::default().slow, Nanos::from);
        *self = Self {
            slow,
            watches: [Watch::new(slow, before)].into(),
            missing: self.missing,
            ..Self::default()
        };
    }

    /// Add a message, if it is slow for those whose it is.
    pub(crate) fn push(&mut self, message: &Message, owner: &Owner) {
        let slow = owner.slow(Some(self.slow)).unwrap_or(self.slow);
        let mut cases = self.watches.iter().map(|watch| &watch.case);
        let is_slow = message.is_slow(slow);
        if !is_slow && (message.is_slow(self.slow) || !cases.any(|case| case.concerns(message))) {
            return;
        }
        let mut message = message.clone();
        self.names.rename(&mut message);
        for watch in &mut self.watches {
            watch.case.message(&message);
        }
    }

    /// Take what a reading of the counters has shown, with the waits if it looked for them.
    pub(crate) fn read(&mut self, waits: Option<&Waits>, summary: &Summary) {
        if let Some(waits) = waits {
            self.add(waits);
        }
        self.renew(summary);
    }

    fn add(&mut self, waits: &Waits) {
        let mut waits = waits.clone();
        let missing = Missing::of(&waits);
        self.names.rename_waits(&mut waits);
        let (open, ended): (Vec<_>, Vec<_>) = waits.list.into_iter().partition(Wait::is_open);
        let (open_unix, unix): (Vec<_>, Vec<_>) =
            waits.unix.into_iter().partition(UnixWait::is_open);
        let attempts = Waits {
            attempts: waits.attempts,
            unix_attempts: waits.unix_attempts,
            dropped: waits.dropped,
            older: waits.older,
            ..Waits::default()
        };
        for watch in &mut self.watches {
            missing.add_to(self.missing, &mut watch.waits);
            watch.add(&ended, &unix, &waits.owed);
            watch.case.waits(&attempts);
        }
        self.missing = missing;
        self.open = Waits {
            list: open,
            unix: open_unix,
            sending: waits.sending,
            owed: waits.owed,
            ..Waits::default()
        };
    }

    /// Find where time was lost, as of these counts.
    pub(crate) fn tell(&mut self, summary: &Summary) -> &Told {
        let now = Instant::now();
        let is_fresh = |(at, _): &(Instant, Told)| now.duration_since(*at) < FRESH;
        let told = match self.told.take().filter(is_fresh) {
            Some(told) => told,
            None => (now, self.diagnose(summary)),
        };
        &self.told.insert(told).1
    }

    /// Return the same as JSON.
    pub(crate) fn json(&mut self, summary: &Summary) -> serde_json::Result<String> {
        to_json(self.tell(summary))
    }

    /// The older watch ends when the younger one has lasted long enough.
    fn renew(&mut self, summary: &Summary) {
        let lasted = |watch: &Watch| watch.began.elapsed() >= SPAN;
        if self.watches.back().is_none_or(lasted) {
            self.watches
                .push_back(Watch::new(self.slow, summary.clone()));
        }
        while self.watches.len() > 2 {
            self.watches.pop_front();
        }
    }

    fn diagnose(&self, summary: &Summary) -> Told {
        let older = self.watches.front();
        let since = older.map_or_else(Summary::default, |older| summary.since(&older.before));
        let diagnosis = older.map(|older| {
            let mut case = older.case.clone();
            case.waits(&older.waits);
            // A wait that is open now goes on, or has ended at the next look.
            case.waits(&self.open);
            if let Ok(end) = clock::now() {
                case.ends(end);
            }
            case.diagnose(&since)
        });
        Told {
            version: JSON_VERSION,
            slow_ns: self.slow,
            duration_ns: since.duration,
            diagnosis: diagnosis.unwrap_or_default(),
        }
    }
}

impl Told {
    /// Add a series for each finding that `stat` would print.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        let mut lost = BTreeMap::<_, Duration>::new();
        for finding in self.diagnosis.printed().0 {
            let service = finding.services.first();
            let service = service.map(|service| Service(*service).to_string());
            let key = (finding.node.about().name, service.unwrap_or_default());
            *lost.entry(key).or_default() += finding.lost.into();
        }
        for ((cause, service), lost) in lost {
            let labels = vec![
                ("cause".into(), cause.to_owned()),
                ("service".into(), service),
            ];
            exposition.add(&FINDING_LOST, labels, Value::Real(lost.as_secs_f64()));
        }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::name::shows;

    use super::*;

    /// Controls of a terminal that JSON lets through, the turn of a line, and its end.
    #[test]
    fn no_name_of_a_program_controls_a_terminal_by_the_answer() {
        let mut findings = Findings::default();
        findings.begin_session(None, Summary::default());
        let mut told = findings.diagnose(&Summary::default());
        told.diagnosis.notes = vec!["A\u{9b}31\u{202e}g\u{2028}\u{7f}".to_owned()];
        findings.told = Some((Instant::now(), told));
        let json = findings.json(&Summary::default()).unwrap();
        let shown = r#""notes":["A\u009b31\u202eg\u2028\u007f"]"#;
        assert!(json.contains(shown), "{json}");
        assert!(json.chars().all(shows), "{json}");
    }

    #[test]
    fn what_found_no_room_since_a_watch_began_is_told() {
        let mut findings = Findings::default();
        findings.begin_session(None, Summary::default());
        let read = |findings: &mut Findings, lost| {
            let waits = Waits {
                lost,
                untold: 2 * lost,
                ..Waits::default()
            };
            findings.read(Some(&waits), &Summary::default());
        };
        let has = |findings: &mut Findings, note: &str| {
            let notes = &findings.tell(&Summary::default()).diagnosis.notes;
            assert!(notes.iter().any(|told| told.starts_with(note)), "{notes:?}");
        };
        for lost in [3, 7] {
            read(&mut findings, lost);
        }
        has(&mut findings, "7 slow waits found no room");
        has(&mut findings, "14 counts of quick waits");
        // The same session counts on, and another from zero.
        findings.begin(None, Summary::default());
        read(&mut findings, 9);
        has(&mut findings, "2 slow waits found no room");
        findings.begin_session(None, Summary::default());
        read(&mut findings, 5);
        has(&mut findings, "5 slow waits found no room");
    }
}
