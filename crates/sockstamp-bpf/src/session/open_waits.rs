//! The open waits of a session's target: a look at its start, and one whenever waits are asked for.

use std::collections::BTreeSet;

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::wait::{Kind, Wait, Waits};

use crate::clock::monotonic_now;
use crate::error::Error;
use crate::facts::Facts;
use crate::options::Options;
use crate::stuck::{Look, Open, Stuck};

/// Looks at the sockets of a session's target.
#[derive(Debug)]
pub(crate) struct OpenWaits {
    stuck: Stuck,
    slow: Nanos,
    began: Timestamp<Monotonic>,
}

impl OpenWaits {
    /// Look for the first time: a later look shows what has not moved since.
    pub(crate) fn start(facts: &Facts, options: &Options, slow: Nanos) -> Result<Self, Error> {
        let mut stuck = Stuck::start_on(facts, &options.target)?;
        stuck.look()?;
        Ok(Self {
            stuck,
            slow,
            began: Timestamp::from_nanos(monotonic_now()),
        })
    }

    /// Look in between; return the waits that are open then.
    pub(crate) fn look(&mut self) -> Result<Vec<Wait>, Error> {
        let open = self.stuck.look()?.open.into_iter();
        let waits = open.map(|open| clipped(open.wait, self.began));
        Ok(waits.filter(|wait| wait.lasted >= self.slow).collect())
    }

    /// Add the waits that are open now.
    pub(crate) fn add_to(&mut self, waits: &mut Waits) -> Result<(), Error> {
        let look = self.stuck.look()?;
        add(look, waits, self.slow, self.began);
        Ok(())
    }
}

/// Add the waits that take at least this long to those of a measurement that began then. Where
/// programs reported one of the same kind on the same socket, it is known better.
fn add(look: Look, waits: &mut Waits, slow: Nanos, began: Timestamp<Monotonic>) {
    waits.sending = look.sending;
    let key = |wait: &Wait| (wait.flow.cookie, wait.kind);
    let reported: BTreeSet<_> = waits.open().into_iter().map(key).collect();
    let pushed = look.open.iter().filter(|open| open.or_pushed_to);
    waits.pushed = pushed.map(|open| open.wait.flow.cookie).collect();
    let owed = |open: &&Open| open.wait.kind == Kind::Service && !open.or_pushed_to;
    let owed = look.open.iter().filter(owed);
    waits.owed.extend(owed.map(|open| open.wait.flow.cookie));
    let open = look.open.into_iter().map(|open| open.wait);
    let new = open.filter(|wait| wait.lasted >= slow && !reported.contains(&key(wait)));
    waits.list.extend(new.map(|wait| clipped(wait, began)));
}

/// Count the part of a wait that is inside a measurement that began then.
fn clipped(wait: Wait, began: Timestamp<Monotonic>) -> Wait {
    let until = wait.since.as_nanos() + wait.lasted.as_nanos();
    let inside = until.saturating_sub(wait.since.max(began).as_nanos());
    Wait {
        inside: Nanos(inside),
        ..wait
    }
}
