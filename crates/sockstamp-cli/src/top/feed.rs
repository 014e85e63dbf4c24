//! Get the figures from a session: take snapshots of its counters, and collect its records.

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

    /// Keep the clocks' distance up to date and pass on new messages, each with its group; call it
    /// continuously. Messages of a group that is newer than the last snapshot are left out: it
    /// cannot be the selected one.
    pub(super) fn poll(&mut self, timeout: Duration, mut take: impl FnMut(&GroupKey, Message)) -> Result<()> {
        let mut messages = Vec::new();
        self.session
            .poll(timeout, &mut |message| messages.push(message))?;
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
