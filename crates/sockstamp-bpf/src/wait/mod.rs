//! Waits on their way to user space, and what is known of them there.

mod attempts;
mod closing;
mod counted;
pub(crate) mod record;

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::time::{ClockId, clock_getres};
use sockstamp_model::clock::{Monotonic, Timestamp};
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::service::ANSWERING_EACH;
use sockstamp_model::wait::{Wait, Waits};

use crate::abi::{self, raw::wait_record as Record};
use crate::clock::monotonic_now;
use crate::drops;
use crate::error::{Error, Tried};
use crate::options::Options;
use crate::record::page_size;
use crate::ring::Ring;
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::{OpenSockstampMaps, SockstampMaps};
use closing::Closing;
use counted::Counted;

/// Waits that are kept until somebody takes them: some ten times as many as the ring has.
const HELD: usize = 10_000;

/// Set the constants of waits.
pub(crate) fn constants(constants: &mut Constants, options: &Options) {
    constants.setting_waits = options.waits.is_some();
    constants.setting_wait_ns = options.waits.map_or(0, |slow| slow.0);
    constants.setting_tick_ns = tick_ns();
    constants.setting_answering_each = ANSWERING_EACH;
    constants.setting_drop_reasons = drops::reasons().bits();
    constants.setting_drop_firewall = drops::reasons().firewall();
}

/// Make the ring of waits as small as can be where there are none.
pub(crate) fn size_maps(maps: &mut OpenSockstampMaps<'_>, options: &Options) -> Result<(), Error> {
    if options.waits.is_some() {
        return Ok(());
    }
    maps.attempts
        .set_max_entries(1)
        .tried("size the map of attempts")?;
    maps.drops
        .set_max_entries(1)
        .tried("size the map of drops")?;
    maps.waits
        .set_max_entries(page_size())
        .tried("size the ring of waits")
}

/// Return the length of a jiffy: that of a tick of the coarse clock (`posix_get_coarse_res()`,
/// kernel/time/posix-timers.c, Linux 6.18).
pub(crate) fn tick_ns() -> u64 {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    u64::try_from(resolution.tv_nsec).unwrap_or(0)
}

/// The waits of a session.
pub(crate) struct Waiting {
    ring: Ring<Vec<Record>>,
    held: Vec<Wait>,
    /// As many of them were shown already.
    shown: usize,
    /// Sockets whose requests ended without an answer that was owed.
    owed: Vec<SocketCookie>,
    /// Sockets of adopted connections with waits.
    older: BTreeSet<SocketCookie>,
    closing: Closing,
    counted: Counted,
    /// Waits that were not held for lack of room.
    dropped: u64,
    began: Timestamp<Monotonic>,
}

impl Waiting {
    /// Open the ring of waits for a measurement that begins now.
    pub(crate) fn new(
        maps: &SockstampMaps<'_>,
        began: Timestamp<Monotonic>,
    ) -> Result<Self, Error> {
        Ok(Self {
            ring: Ring::of_records(&maps.waits)?,
            held: Vec::new(),
            shown: 0,
            owed: Vec::new(),
            older: BTreeSet::new(),
            closing: Closing::default(),
            counted: Counted::new(),
            dropped: 0,
            began,
        })
    }

    /// Return how long the ring and the maps have room, by their size: they wake nobody.
    pub(crate) const fn until_fetch(&self) -> Duration {
        counted::EACH
    }

    /// Fetch the waits that are in the ring, and at times the counts in maps, so that these have
    /// room for others. `added`: the elements that were made there until now. Return true if the
    /// maps have room.
    pub(crate) fn fetch(&mut self, maps: &SockstampMaps<'_>, added: u64) -> Result<bool, Error> {
        self.fetch_ring()?;
        let is_due = self.counted.is_due(added);
        if is_due {
            self.counted.fetch(maps)?;
        }
        Ok(is_due)
    }

    fn fetch_ring(&mut self) -> Result<(), Error> {
        let (began, held, closing) = (self.began, &mut self.held, &mut self.closing);
        let (owed, older) = (&mut self.owed, &mut self.older);
        let (mut unknown, mut dropped) = (0, 0);
        self.ring.read(&mut |record| {
            let Some(wait) = record::wait(record, began) else {
                unknown += 1;
                return;
            };
            if abi::is_adopted(&record.flow) {
                older.insert(wait.flow.cookie);
            }
            if record.owed != 0 && owed.len() < HELD {
                owed.push(wait.flow.cookie);
            }
            match closing.meet(wait) {
                Some(_) if held.len() >= HELD => dropped += 1,
                wait => held.extend(wait),
            }
        })?;
        self.dropped += dropped;
        match unknown {
            0 => Ok(()),
            records => Err(Error::UnknownRecords { records }),
        }
    }

    /// Take the waits that have ended, and were fetched.
    pub(crate) fn take_ended(&mut self) -> Vec<Wait> {
        self.shown = 0;
        std::mem::take(&mut self.held)
    }

    /// Return those that were fetched since this was called before, and were not taken.
    pub(crate) fn new_ones(&mut self) -> &[Wait] {
        let shown = std::mem::replace(&mut self.shown, self.held.len());
        &self.held[shown..]
    }

    /// Take the waits that were fetched, and the attempts so far. `lost`: those that the ring had
    /// no room for.
    pub(crate) fn take(&mut self, maps: &SockstampMaps<'_>, lost: u64) -> Result<Waits, Error> {
        let mut list = self.take_ended();
        let now = Timestamp::from_nanos(monotonic_now());
        list.extend(self.closing.take(now, self.began));
        self.counted.fetch(maps)?;
        Ok(Waits {
            list,
            lost: self.dropped + lost,
            owed: std::mem::take(&mut self.owed),
            older: self.older.iter().copied().collect(),
            ..self.counted.take()
        })
    }
}
