//! Get the figures from a session: take snapshots of its counters, and collect its records.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp_bpf::facts::Facts;
use sockstamp_bpf::{DroppedCapabilities, Options, Session, drop_capabilities};
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;

use super::table::Snapshot;
use crate::measure::tell_what_is_left_alone;

/// A measurement under way.
pub(super) struct Feed {
    // Dropped before the session, which needs its capabilities to clean up.
    _dropped: DroppedCapabilities,
    session: Session,
}

impl Feed {
    pub(super) fn start(facts: Facts, options: &Options) -> Result<Self> {
        let mut session = Session::start_with(facts, options)?;
        tell_what_is_left_alone(&session, options)?;
        session.record(false);
        Ok(Self {
            _dropped: drop_capabilities()?,
            session,
        })
    }

    /// Turn records on or off.
    pub(super) fn record(&mut self, wanted: bool) {
        self.session.record(wanted);
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
        self.session
            .wait(Some(timeout), others, &mut |message| messages.push(message))?;
        for message in messages {
            let group = message.group.and_then(|slot| self.session.group_at(slot));
            if let Some(group) = group {
                take(group, message);
            }
        }
        Ok(())
    }

    pub(super) fn look(&mut self) -> Result<Snapshot> {
        Ok(Snapshot {
            groups: self.session.groups()?.context("no groups were requested")?,
            summary: self.session.summary(),
        })
    }
}
