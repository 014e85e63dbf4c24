//! Get the figures from a session: take snapshots of its counters, and collect its records.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp_bpf::facts::Facts;
use sockstamp_bpf::stuck::Look;
use sockstamp_bpf::{Options, Stuck, probe};
use sockstamp_evidence::Evidence;
use sockstamp_explain::diagnosis::{Case, Diagnosis, Scope};
use sockstamp_host::clock;
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{UnixWait, Wait, Waits};
use sockstamp_run::process_names::ProcessNames;
use sockstamp_run::session::Unprivileged;

use super::table::Snapshot;

/// A measurement under way.
pub(super) struct Feed {
    measuring: Unprivileged,
    /// Looks at what waits now, for the page that lists it.
    stuck: Stuck,
    /// The waits that have ended since the start, and slow messages.
    case: Case,
    names: ProcessNames,
    /// Looks at this host while somebody reads where time is lost.
    evidence: Evidence,
}

impl Feed {
    pub(super) fn start(facts: Facts, options: &Options, scope: Scope) -> Result<Self> {
        // First, with the capabilities that measuring drops.
        let stuck = Stuck::start(&options.target)?;
        let evidence = Evidence::begin(scope.slow);
        let mut measuring = Unprivileged::start(facts, options)?;
        measuring.session.record(false);
        Ok(Self {
            measuring,
            stuck,
            case: Case::new(scope),
            names: ProcessNames::default(),
            evidence,
        })
    }

    /// Begin anew, with these groups: counts are from now on.
    pub(super) fn restart(&mut self, options: &Options, scope: Scope) -> Result<()> {
        self.measuring.raise();
        let mut other = Self::start(probe::facts(), options, scope)?;
        // The session that ends needs its capabilities, too.
        other.measuring.raise();
        *self = other;
        self.measuring.lower()
    }

    /// Look at everything that waits now.
    pub(super) fn look(&mut self) -> Result<Look> {
        Ok(self.stuck.look()?)
    }

    /// Find where time was lost since the start, from waits and counters, and from the messages
    /// that were recorded.
    pub(super) fn diagnose(&mut self, summary: &Summary) -> Result<Diagnosis> {
        let mut waits = self.measuring.session.waits()?;
        self.names.rename_waits(&mut waits);
        self.evidence.waits(&waits.list);
        self.evidence.unix(&waits.unix);
        let (open, ended) = waits.list.into_iter().partition(Wait::is_open);
        let (open_unix, ended_unix) = waits.unix.into_iter().partition(UnixWait::is_open);
        self.case.waits(&Waits {
            list: ended,
            attempts: waits.attempts,
            dropped: waits.dropped,
            owed: waits.owed.clone(),
            older: waits.older,
            unix: ended_unix,
            unix_attempts: waits.unix_attempts,
            ..Waits::default()
        });
        // A wait that is open now goes on, or has ended at the next look.
        let mut now = self.case.clone();
        now.waits(&Waits {
            list: open,
            unix: open_unix,
            sending: waits.sending,
            owed: waits.owed,
            // Since the start, all of them.
            lost: waits.lost,
            untold: waits.untold,
            untold_drops: waits.untold_drops,
            ..Waits::default()
        });
        if let Ok(end) = clock::now() {
            now.ends(end);
        }
        self.evidence.look(&now);
        self.evidence.add_to(&mut now);
        Ok(now.diagnose(summary))
    }

    /// Turn records on or off.
    pub(super) fn record(&mut self, wanted: bool) {
        self.measuring.session.record(wanted);
    }

    /// Wait as [`Session::wait`] does, and pass on new messages, each with its group; call it
    /// continuously. Messages of a group that is newer than the last snapshot are left out: it
    /// cannot be the selected one.
    pub(super) fn wait(
        &mut self,
        timeout: Duration,
        others: &[BorrowedFd<'_>],
        mut take: impl FnMut(&GroupKey, Message),
    ) -> Result<()> {
        let mut messages = Vec::new();
        self.measuring
            .session
            .wait(Some(timeout), others, &mut |message| messages.push(message))?;
        for message in messages {
            self.see(&message);
            let group = message
                .group
                .and_then(|slot| self.measuring.session.group_at(slot));
            if let Some(group) = group {
                take(group, message);
            }
        }
        Ok(())
    }

    /// Add a message to what findings are made of.
    fn see(&mut self, message: &Message) {
        if self.case.concerns(message) {
            let mut message = message.clone();
            self.names.rename(&mut message);
            self.evidence.message(&message);
            self.case.message(&message);
        }
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot> {
        Ok(Snapshot {
            groups: self
                .measuring
                .session
                .groups()?
                .context("no groups were requested")?,
            summary: self.measuring.session.summary(),
        })
    }
}
