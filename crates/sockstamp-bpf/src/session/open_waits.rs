//! The open waits of a session's target: a look at its start, and one whenever waits are asked for.

use std::collections::BTreeSet;
use std::mem;
use std::thread;
use std::time::Duration;

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::wait::{Kind, UnixWait, Wait, Waits};

use crate::clock::monotonic_now;
use crate::error::Error;
use crate::facts::Facts;
use crate::options::Target;
use crate::stuck::{Look, Open, Stuck};

/// Looks at the sockets of a session's target.
#[derive(Debug)]
pub(crate) struct OpenWaits {
    stuck: Stuck,
    with_unix: bool,
    slow: Nanos,
    began: Timestamp<Monotonic>,
}

impl OpenWaits {
    /// Look for the first time: a later look shows what has not moved since.
    /// Unix sockets are looked at where programs follow what is asked there from now on: looks
    /// alone take one question after the other for the same.
    pub(crate) fn start(
        facts: &Facts,
        target: &Target,
        slow: Nanos,
        with_unix: bool,
    ) -> Result<Self, Error> {
        let mut stuck = Stuck::start_on(facts, target, with_unix)?;
        stuck.look()?;
        Ok(Self {
            stuck,
            with_unix,
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

    /// Look at Unix sockets until the look that follows shows which of them are waited at.
    pub(crate) fn confirm(&mut self) -> Result<(), Error> {
        /// An event loop may be busy for so long.
        const BRIEFLY: Duration = Duration::from_millis(50);
        /// Looks that a question takes, the last one apart.
        const LOOKS: usize = 2;
        for _ in 0..if self.with_unix { LOOKS } else { 0 } {
            let (_, has_unconfirmed) = self.stuck.look_at_unix()?;
            if !has_unconfirmed {
                break;
            }
            thread::sleep(BRIEFLY);
        }
        Ok(())
    }

    /// Add the waits that are open now. `followed`: the Unix sockets whose questions are known.
    pub(crate) fn add_to(
        &mut self,
        waits: &mut Waits,
        followed: &BTreeSet<SocketCookie>,
    ) -> Result<(), Error> {
        let mut look = self.stuck.look()?;
        let unix = mem::take(&mut look.unix).into_iter().map(|open| open.wait);
        let new = unix.filter(|wait| {
            let is_followed = wait.kind == Kind::Answer && followed.contains(&wait.cookie);
            wait.lasted >= self.slow && !is_followed
        });
        waits.unix.extend(new.map(|wait| UnixWait {
            inside: inside(wait.since, wait.lasted, self.began),
            ..wait
        }));
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
    Wait {
        inside: inside(wait.since, wait.lasted, began),
        ..wait
    }
}

fn inside(since: Timestamp<Monotonic>, lasted: Nanos, began: Timestamp<Monotonic>) -> Nanos {
    let until = since.as_nanos() + lasted.as_nanos();
    Nanos(until.saturating_sub(since.max(began).as_nanos()))
}
