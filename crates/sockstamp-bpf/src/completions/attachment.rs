//! Programs that are attached to the root cgroup while they are wanted, and for a while after.
//!
//! To attach and to detach takes the mutex of all cgroups and waits for other CPUs, so applications that come and go must
//! not set the pace.

use std::time::{Duration, Instant};

use libbpf_rs::Link;

use crate::error::Error;

/// How long a program stays that nobody wants any more: it is attached and detached once in that time at most.
pub(super) const KEPT: Duration = Duration::from_secs(2);

/// One program.
#[derive(Default)]
pub(super) struct Attachment {
    link: Option<Link>,
    /// Since when nobody wants it.
    unwanted: Option<Instant>,
}

impl Attachment {
    /// Attach the program unless it is attached.
    pub(super) fn want(&mut self, attach: impl FnOnce() -> Result<Link, Error>) -> Result<(), Error> {
        if self.link.is_none() {
            self.link = Some(attach()?);
        }
        self.unwanted = None;
        Ok(())
    }

    /// Note that nobody wants it from now on.
    pub(super) fn leave(&mut self, now: Instant) {
        if self.link.is_some() {
            self.unwanted.get_or_insert(now);
        }
    }

    /// Tell when it is to be detached.
    pub(super) fn ends(&self) -> Option<Instant> {
        self.unwanted.map(|since| since + KEPT)
    }

    /// Detach it if its time has come.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.ends().is_some_and(|end| end <= now) {
            *self = Self::default();
        }
    }
}
