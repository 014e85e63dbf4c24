//! Programs that are attached to the root cgroup while they are wanted, and for a while after.
//!
//! Limit how often programs are attached and detached: both take the mutex of all cgroups and wait
//! for other CPUs, so applications that come and go must not set the pace.

use std::time::{Duration, Instant};

use libbpf_rs::Link;

use crate::error::Error;

/// Time that an unused program stays attached: it is attached and detached at most once in that
/// time.
pub(super) const KEPT: Duration = Duration::from_secs(2);

/// A program.
#[derive(Default)]
pub(super) struct Attachment {
    link: Option<Link>,
    /// The time since which it is unused.
    unwanted: Option<Instant>,
}

impl Attachment {
    /// Attach the program unless it is attached.
    pub(super) fn want(
        &mut self,
        attach: impl FnOnce() -> Result<Link, Error>,
    ) -> Result<(), Error> {
        if self.link.is_none() {
            self.link = Some(attach()?);
        }
        self.unwanted = None;
        Ok(())
    }

    /// Note that it is unused from now on.
    pub(super) fn leave(&mut self, now: Instant) {
        if self.link.is_some() {
            self.unwanted.get_or_insert(now);
        }
    }

    /// Return when it must be detached.
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
