//! Between windows, selected sockets may give the bit back by which each of their sends calls
//! (`tcp/gap/release.bpf.h`): a walk over the sockets takes it when a window ends, and another one
//! asks for it again before the next.

use std::time::Duration;

use sockstamp_model::flow::NetnsInode;

use crate::clock::{monotonic_now, process_now};
use crate::error::Error;
use crate::flow;
use crate::privilege::with_capabilities;
use crate::skeleton::sockstamp::SockstampSkel;

/// A gap must last as many times what two walks take: where a governor has found that it pays, so
/// that the window is not late, and else so that walks take a twentieth of it at most.
const GOVERNED: u32 = 2;
const ALWAYS: u32 = 20;

/// The CPU time of two walks over few sockets, until two have been seen.
const UNKNOWN: Duration = Duration::from_millis(10);

/// The time until a walk is tried again after one that did not come to every socket: each of them
/// may take a second, and leave a process behind. It doubles each time.
const PAUSE: Duration = Duration::from_secs(300);

/// The CPU time of two walks, there and back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walks {
    /// Of this process.
    pub(crate) here: Duration,
    /// Of their own processes.
    pub(crate) beside: Duration,
}

impl Walks {
    const NONE: Self = Self {
        here: Duration::ZERO,
        beside: Duration::ZERO,
    };

    fn now() -> Self {
        Self {
            here: Duration::from_nanos(process_now()),
            beside: flow::walking(),
        }
    }

    fn add_since(&mut self, before: Self) {
        let now = Self::now();
        self.here += now.here - before.here;
        self.beside += now.beside - before.beside;
    }

    pub(crate) fn whole(&self) -> Duration {
        self.here + self.beside
    }
}

/// The bits of selected sockets, between windows.
pub(super) struct Release {
    netns: Vec<NetnsInode>,
    pub(super) wanted: bool,
    /// No governor finds out where it pays.
    always: bool,
    is_on: bool,
    /// No walk is tried before this time of CLOCK_MONOTONIC.
    blocked_until: u64,
    /// The time until one is tried again after the next that fails.
    pause: Duration,
    /// The number of gaps in which bits were given back.
    pub(super) count: u64,
    /// The most open connections that kept no bit, because a walk did not come to them.
    pub(super) missed: u64,
    /// The CPU time of two walks, or of the first while the second is due.
    walks: Walks,
    /// The CPU time of the last two walks.
    usual: Duration,
    are_new: bool,
}

impl Release {
    pub(super) fn new(netns: Vec<NetnsInode>, always: bool) -> Self {
        Self {
            netns,
            wanted: always,
            always,
            is_on: false,
            blocked_until: 0,
            pause: PAUSE,
            count: 0,
            missed: 0,
            walks: Walks::NONE,
            usual: UNKNOWN,
            are_new: false,
        }
    }

    /// Return whether sockets are without their bits.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Return whether walks come to every socket, as far as is known.
    pub(super) fn is_possible(&self) -> bool {
        monotonic_now() >= self.blocked_until
    }

    /// Take the CPU time of two walks, there and back, if it is new.
    pub(super) fn take_walks(&mut self) -> Option<Walks> {
        std::mem::take(&mut self.are_new).then_some(self.walks)
    }

    /// Have sockets give their bits back, if that is wanted and this much is left of the gap. All
    /// keep them if one cannot be reached.
    pub(super) fn begin(&mut self, skeleton: &mut SockstampSkel<'static>, left: Duration) {
        let times = if self.always { ALWAYS } else { GOVERNED };
        let is_due = self.wanted && left >= times * self.usual;
        if self.is_on || !is_due || !self.is_possible() {
            return;
        }
        self.is_on = true;
        self.walks = Walks::NONE;
        if self.walk(skeleton) {
            self.count += 1;
        } else {
            self.end(skeleton);
        }
    }

    /// Ask for the bits again.
    pub(super) fn end(&mut self, skeleton: &mut SockstampSkel<'static>) {
        if !self.is_on {
            return;
        }
        self.is_on = false;
        self.walk(skeleton);
        (self.usual, self.are_new) = (self.walks.whole(), true);
        let left = skeleton.maps.bss_data.as_ref();
        let left = left.map_or(0, |data| data.released_flows.max(0).unsigned_abs());
        self.missed = self.missed.max(left);
    }

    /// Walk over the sockets, and return whether the walk came to all of them.
    fn walk(&mut self, skeleton: &mut SockstampSkel<'static>) -> bool {
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            data.window.released = u32::from(self.is_on);
            data.walked_netns = 0;
        }
        let counted = skeleton.maps.bss_data.as_ref();
        let mut visited = || counted.map_or(0, |data| data.visited_sockets);
        let begun = Walks::now();
        let walked: Result<u64, Error> = with_capabilities(|| {
            flow::switch(&skeleton.progs.switch_flows, &self.netns, &mut visited)
        });
        self.walks.add_since(begun);
        let reached = walked.is_ok_and(|missed| missed == 0);
        if !reached && self.is_possible() {
            self.block();
        }
        reached
    }

    fn block(&mut self) {
        let pause = u64::try_from(self.pause.as_nanos()).unwrap_or(u64::MAX);
        self.blocked_until = monotonic_now().saturating_add(pause);
        self.pause = self.pause.saturating_mul(2);
        // A governor knows of it, and chooses again.
        self.wanted = self.always;
    }
}
