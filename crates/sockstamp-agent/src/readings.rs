//! The readings of all sessions of an agent.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use sockstamp_bpf::Session;
use sockstamp_metrics::catalogue::{
    ABSENT, COST, DROPPED_CLIENTS, ESTIMATE_ERROR, IN_FLIGHT, LOOK_TIME, LOOKS, LOST,
    LOST_LOG_LINES, MAX_COST, RATE_CAP, RELOADS, WINDOWS_ONE_OF,
};
use sockstamp_metrics::counters::{Count, Counters};
use sockstamp_metrics::ledger::{Ledger, Limits, Naming, Reading};
use sockstamp_metrics::{Exposition, Labels, Value, host_counters};
use sockstamp_model::group::Groups;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::Waits;
use sockstamp_run::escape::{complain, lost_lines};
use sockstamp_run::session::give_back;

use crate::hindsight::Totals;
use crate::waiting::Waiting;
use crate::{otlp, own};

/// Open waits are looked for once in this time at most.
const REST: Duration = Duration::from_secs(1);
/// A look takes the longer the more sockets there are; it rests for this many times as long.
const RESTS: u32 = 200;
/// A clock that is set back by less is slewed, or was read late.
const STEP: Duration = Duration::from_secs(1);

/// Counters that only grow, from one session to the next.
#[derive(Debug)]
pub(crate) struct Readings {
    ledger: Ledger,
    counters: Counters,
    waiting: Waiting,
    /// When waits are looked for again.
    next_look: Option<Instant>,
    /// As of the last reading.
    summary: Summary,
    began: Instant,
    started: SystemTime,
    reads: u64,
    reading: Duration,
    /// Times that the configuration was read again, and times that it was refused.
    reloads: [u64; 2],
    /// Counts of the messages of the last minutes, by their fate.
    pub(crate) hindsight: Totals,
    /// Counts of items sent to a receiver.
    pub(crate) sent: otlp::Totals,
}

/// The counts of a session at the moment from which it is counted.
#[derive(Debug)]
pub(crate) struct Baseline {
    groups: Groups,
    summary: Summary,
    counts: Vec<Count>,
}

impl Baseline {
    /// Read the counters; leave out the messages so far, too, since another session delivers them.
    pub(crate) fn take(session: &mut Session) -> Result<Self> {
        session.poll(Duration::ZERO, &mut |_| {})?;
        let groups = session.groups()?.context("no groups were requested")?;
        let summary = session.summary();
        Ok(Self {
            groups,
            counts: counts(&summary, session),
            summary,
        })
    }
}

impl Readings {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            ledger: Ledger::new(limits),
            counters: Counters::default(),
            waiting: Waiting::default(),
            next_look: None,
            summary: Summary::default(),
            began: Instant::now(),
            started: SystemTime::now(),
            reads: 0,
            reading: Duration::ZERO,
            reloads: [0; 2],
            hindsight: Totals::default(),
            sent: otlp::Totals::default(),
        }
    }

    /// Return the moment when all counts were zero. Where the clock was set back it is an earlier
    /// one from then on, since no series may begin after its own time. Where the clock was set
    /// forward it stays: receivers take another beginning for a restart.
    pub(crate) fn started(&mut self) -> SystemTime {
        let zero = SystemTime::now().checked_sub(self.began.elapsed());
        let set_back = |zero: &SystemTime| *zero + STEP < self.started;
        self.started = zero.filter(set_back).unwrap_or(self.started);
        self.started
    }

    /// Set other bounds.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.ledger.limit(limits);
    }

    /// End the series of groups, which have other labels from now on.
    pub(crate) fn rename(&mut self) {
        self.ledger.forget();
    }

    /// Count an attempt to read the configuration again.
    pub(crate) fn reloaded(&mut self, applied: bool) {
        self.reloads[usize::from(!applied)] += 1;
    }

    /// Add what the session has counted since the last look; return the waits, if it is time to
    /// look for them.
    pub(crate) fn read(
        &mut self,
        session: &mut Session,
        naming: &impl Naming,
    ) -> Result<Option<Waits>> {
        let begun = Instant::now();
        let ended = session.take_ended();
        let mut reading = self.ledger.read(self.began.elapsed(), ended, naming);
        let rest = session.each_group(&mut |group| reading.add(group))?;
        reading.end(rest.context("no groups were requested")?);
        self.summary = session.summary();
        self.counters.add(counts(&self.summary, session));
        let is_due = self.next_look.is_none_or(|next| Instant::now() >= next);
        let waits = is_due.then(|| self.look(session)).flatten();
        self.reads += 1;
        self.reading += begun.elapsed();
        Ok(waits)
    }

    /// Look for waits. All other figures are known without them.
    fn look(&mut self, session: &mut Session) -> Option<Waits> {
        let begun = Instant::now();
        let waits = self.read_waits(session).inspect_err(|error| {
            complain(format_args!("cannot look for what waits: {error:#}"));
        });
        let rest = begun.elapsed().saturating_mul(RESTS).max(REST);
        self.next_look = Some(Instant::now() + rest);
        waits.ok()
    }

    fn read_waits(&mut self, session: &mut Session) -> Result<Waits> {
        let waits = session.waits()?;
        let lost = waits.lost.saturating_add(waits.untold);
        self.counters.add(vec![
            Count::new(&LOST, Some("waits"), lost),
            Count::new(&LOST, Some("drops"), waits.untold_drops),
        ]);
        self.waiting.read(&waits);
        Ok(waits)
    }

    /// Add the last of a session; pass on the messages that nobody has taken.
    pub(crate) fn finish(
        &mut self,
        mut session: Session,
        naming: &impl Naming,
        take: &mut impl FnMut(Message),
    ) -> Result<()> {
        let ended = session.take_ended();
        let programs = own::programs(&session);
        self.look(&mut session);
        give_back(&mut session);
        let mut summary = session.stop(take)?;
        let groups = summary.groups.take().context("no groups were requested")?;
        self.ledger
            .add(self.began.elapsed(), reading_of(groups), ended, naming);
        self.counters.add(host_counters(&summary));
        self.counters.add(programs);
        Ok(())
    }

    /// Begin with a new session, whose results up to the baseline are not counted.
    pub(crate) fn begin(&mut self, baseline: Baseline) {
        self.ledger.begin(reading_of(baseline.groups));
        self.counters.begin(baseline.counts);
        self.summary = baseline.summary;
    }

    /// Return the counts of the whole host at the last look.
    pub(crate) const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Return all series, those by netstacklat's names among them if they are wanted.
    pub(crate) fn exposition(&mut self, dropped_clients: u64, has_hooks: bool) -> Exposition {
        let started = self.started();
        let mut exposition = Exposition::default().with_hooks(has_hooks);
        self.ledger.expose(&mut exposition);
        self.counters.expose(&mut exposition);
        self.waiting.expose(&mut exposition);
        self.expose_own(&mut exposition, dropped_clients);
        self.hindsight.expose(&mut exposition);
        self.sent.expose(&mut exposition);
        own::expose(&mut exposition, started);
        exposition
    }

    fn expose_cost(&self, exposition: &mut Exposition) {
        let one_of = self.summary.windows.map_or(1, |windows| windows.one_of);
        exposition.add(
            &WINDOWS_ONE_OF,
            Labels::new(),
            Value::Count(u64::from(one_of)),
        );
        for direction in Direction::ALL {
            let part = self.summary.direction(direction);
            let error = part.estimate.and_then(|estimate| estimate.messages_error);
            if let Some(error) = error.filter(|_| part.messages > 0) {
                let labels = vec![("direction".into(), direction.name().to_owned())];
                let ratio = error as f64 / part.messages as f64;
                exposition.add(&ESTIMATE_ERROR, labels, Value::Real(ratio));
            }
        }
        let Some(cost) = &self.summary.cost else {
            return;
        };
        for (part, millionths) in [("programs", cost.programs), ("agent", cost.process)] {
            let labels = vec![("part".into(), part.to_owned())];
            exposition.add(&COST, labels, Value::Real(cores(millionths)));
        }
        exposition.add(&MAX_COST, Labels::new(), Value::Real(cores(cost.ceiling)));
        if let Some(cap) = cost.rate_cap {
            exposition.add(&RATE_CAP, Labels::new(), Value::Count(u64::from(cap)));
        }
    }

    fn expose_own(&self, exposition: &mut Exposition, dropped_clients: u64) {
        let mut add = |metric, value| exposition.add(metric, Labels::new(), value);
        add(&IN_FLIGHT, Value::Count(self.summary.in_flight));
        add(&LOOKS, Value::Count(self.reads));
        add(&LOOK_TIME, Value::Real(self.reading.as_secs_f64()));
        add(&DROPPED_CLIENTS, Value::Count(dropped_clients));
        add(&LOST_LOG_LINES, Value::Count(lost_lines()));
        self.expose_cost(exposition);
        for (result, count) in ["applied", "refused"].into_iter().zip(self.reloads) {
            let labels = vec![("result".into(), result.to_owned())];
            exposition.add(&RELOADS, labels, Value::Count(count));
        }
        for (stage, reason) in &self.summary.absent {
            let labels = vec![
                ("stage".into(), stage.name().to_owned()),
                ("reason".into(), reason.clone()),
            ];
            exposition.add(&ABSENT, labels, Value::Count(1));
        }
    }
}

/// Return a part of one core.
fn cores(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

fn reading_of(groups: Groups) -> Reading {
    let mut rest = groups.other;
    rest.merge(&groups.ended);
    Reading {
        groups: groups.groups,
        rest,
    }
}

fn counts(summary: &Summary, session: &Session) -> Vec<Count> {
    let mut counts = host_counters(summary);
    counts.extend(own::programs(session));
    counts
}
