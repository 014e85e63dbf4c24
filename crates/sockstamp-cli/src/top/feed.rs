//! Where the figures come from: a session, its counters looked at and its records collected.

use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp_bpf::{Lowered, Options, Session};
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;

use super::table::Snapshot;
use crate::measure::tell_what_is_left_alone;

/// A measurement under way.
pub(super) struct Feed {
    // Dropped before the session, which needs its capabilities to clean up.
    _lowered: Lowered,
    session: Session,
}

impl Feed {
    pub(super) fn start(options: &Options) -> Result<Self> {
        let mut session = Session::start(options)?;
        tell_what_is_left_alone(&session, options)?;
        session.record(false);
        Ok(Self {
            _lowered: Lowered::lower()?,
            session,
        })
    }

    /// Whether messages come.
    pub(super) fn record(&mut self, wanted: bool) {
        self.session.record(wanted);
    }

    /// To be called all the time: keeps the clocks' distance fresh and hands over the messages that came, each with
    /// its group. Those of a group that is newer than the last look are left out: nobody can have chosen it.
    pub(super) fn poll(&mut self, timeout: Duration, mut take: impl FnMut(&GroupKey, Message)) -> Result<()> {
        let mut messages = Vec::new();
        self.session
            .poll(timeout, &mut |message| messages.push(message))?;
        for message in messages {
            let group = message.group.and_then(|place| self.session.group_at(place));
            if let Some(group) = group {
                take(group, message);
            }
        }
        Ok(())
    }

    pub(super) fn look(&mut self) -> Result<Snapshot> {
        Ok(Snapshot {
            groups: self.session.groups()?.context("no groups were asked for")?,
            summary: self.session.summary(),
        })
    }
}
