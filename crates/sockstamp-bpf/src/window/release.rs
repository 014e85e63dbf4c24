//! Between windows, selected sockets give the bit back by which each of their sends calls
//! (`release.bpf.h`), where the calls cost more than walking over the sockets twice.

use std::time::Duration;

use sockstamp_model::flow::NetnsInode;

use crate::clock::process_now;
use crate::error::Error;
use crate::flow;
use crate::privilege::with_capabilities;
use crate::skeleton::sockstamp::SockstampSkel;

/// The bits of selected sockets, between windows.
pub(super) struct Release {
    netns: Option<NetnsInode>,
    pub(super) wanted: bool,
    is_on: bool,
    /// A walk did not come to every socket: another might not, either.
    given_up: bool,
    /// The number of releases.
    pub(super) count: u64,
    /// The most connections that kept no bit, because a walk did not come to them.
    pub(super) missed: u64,
    /// The CPU time of the last walk.
    took: Duration,
    /// The CPU time of two walks, there and back, until it is taken.
    walks: Option<Duration>,
}

impl Release {
    pub(super) fn new(netns: Option<NetnsInode>, wanted: bool) -> Self {
        Self {
            netns,
            wanted,
            is_on: false,
            given_up: false,
            count: 0,
            missed: 0,
            took: Duration::ZERO,
            walks: None,
        }
    }

    /// Return whether sockets are without their bits.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Take the CPU time of two walks, there and back, if it is new.
    pub(super) fn take_walks(&mut self) -> Option<Duration> {
        self.walks.take()
    }

    /// Have sockets give their bits back, if that is wanted. All keep them if one cannot be
    /// reached.
    pub(super) fn begin(&mut self, skeleton: &mut SockstampSkel<'static>) {
        if self.is_on || !self.wanted || self.given_up {
            return;
        }
        self.is_on = true;
        self.count += 1;
        if !self.walk(skeleton) {
            self.end(skeleton);
        }
    }

    /// Ask for the bits again.
    pub(super) fn end(&mut self, skeleton: &mut SockstampSkel<'static>) {
        if !self.is_on {
            return;
        }
        self.is_on = false;
        let there = self.took;
        self.walk(skeleton);
        self.walks = Some(there + self.took);
        let left = skeleton.maps.bss_data.as_ref();
        let left = left.map_or(0, |data| data.released_flows.max(0).unsigned_abs());
        self.missed = self.missed.max(left);
    }

    /// Walk over the sockets, and return whether the walk came to all of them.
    fn walk(&mut self, skeleton: &mut SockstampSkel<'static>) -> bool {
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            data.window.released = u32::from(self.is_on);
        }
        let counted = skeleton.maps.bss_data.as_ref();
        let mut visited = || counted.map_or(0, |data| data.visited_sockets);
        let begun = Duration::from_nanos(process_now()) + flow::walking();
        let walked: Result<u64, Error> = with_capabilities(|| {
            flow::switch(&skeleton.progs.switch_flows, self.netns, &mut visited)
        });
        self.took = Duration::from_nanos(process_now()) + flow::walking() - begun;
        let reached = walked.is_ok_and(|missed| missed == 0);
        self.given_up |= !reached;
        reached
    }
}
