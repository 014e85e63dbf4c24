//! Get the figures from a session: take snapshots of its counters, and collect its records.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp_bpf::Options;
use sockstamp_bpf::facts::Facts;
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;
use sockstamp_run::session::Unprivileged;

use super::table::Snapshot;

/// A measurement under way.
pub(super) struct Feed {
    measuring: Unprivileged,
}

impl Feed {
    pub(super) fn start(facts: Facts, options: &Options) -> Result<Self> {
        let mut measuring = Unprivileged::start(facts, options)?;
        measuring.session.record(false);
        Ok(Self { measuring })
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
            let group = message
                .group
                .and_then(|slot| self.measuring.session.group_at(slot));
            if let Some(group) = group {
                take(group, message);
            }
        }
        Ok(())
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
