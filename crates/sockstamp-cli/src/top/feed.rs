//! Where the figures come from: a session, its counters looked at and its records collected.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp_bpf::{Decoder, Lowered, Options, Record, Session};
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;

use super::table::Snapshot;
use crate::measure::tell_what_is_left_alone;

/// A measurement under way.
pub(super) struct Feed {
    // Dropped before the session, which needs its capabilities to clean up.
    _lowered: Lowered,
    inbox: Rc<RefCell<Inbox>>,
    session: Session,
}

struct Inbox {
    decoder: Decoder,
    /// With the places of their groups.
    messages: Vec<(u32, Message)>,
}

impl Inbox {
    fn put(&mut self, record: &Record) {
        let message = self.decoder.message(record);
        self.messages
            .extend(message.map(|message| (record.group, message)));
    }
}

impl Feed {
    pub(super) fn start(options: &Options) -> Result<Self> {
        let inbox = Rc::new(RefCell::new(Inbox {
            decoder: Decoder::new()?,
            messages: Vec::new(),
        }));
        let of_records = Rc::clone(&inbox);
        let on_record = move |record: &Record| of_records.borrow_mut().put(record);
        let mut session = Session::start(options, on_record)?;
        tell_what_is_left_alone(&session, options)?;
        session.record(false);
        Ok(Self {
            _lowered: Lowered::lower()?,
            inbox,
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
        self.session.poll(timeout)?;
        let mut inbox = self.inbox.borrow_mut();
        inbox.decoder = Decoder::new()?;
        for (place, message) in inbox.messages.drain(..) {
            if let Some(group) = self.session.group_at(place) {
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
