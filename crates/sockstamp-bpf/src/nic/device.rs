//! The clocks of this host's NICs as devices.

use std::collections::BTreeMap;

use nix::net::if_::if_nametoindex;
use sockstamp::interface::{self, HardwareStamping, TxStamping};
use sockstamp::phc::PhcClock;
use sockstamp_host::netns;
use sockstamp_model::flow::NetnsInode;

use super::clock::Track;
use crate::clock;

/// Return the clock of each interface that stamps packets now, in all network namespaces.
pub(super) fn clocks() -> BTreeMap<(NetnsInode, u32), u32> {
    let mut clocks = BTreeMap::new();
    for (netns, found) in netns::in_each(None, clocks_here) {
        for (interface, clock) in found.unwrap_or_default() {
            clocks.insert((netns, interface), clock);
        }
    }
    clocks
}

/// Return the clock of each interface of this network namespace that stamps packets. One may vanish
/// meanwhile.
fn clocks_here() -> Vec<(u32, u32)> {
    stamping_here()
        .into_iter()
        .filter_map(|(name, _)| {
            let clock = interface::capabilities(&name).ok()?.phc_index?;
            let index = if_nametoindex(name.as_str()).ok()?;
            Some((index, clock))
        })
        .collect()
}

/// Return the interfaces of this network namespace that stamp sent packets.
pub(super) fn senders_here() -> Vec<String> {
    let stamping = stamping_here().into_iter();
    let senders = stamping.filter(|(_, stamping)| stamping.tx != TxStamping::OFF);
    senders.map(|(name, _)| name).collect()
}

/// Return the interfaces of this network namespace that stamp packets now. One may vanish
/// meanwhile.
pub(crate) fn stamping_here() -> Vec<(String, HardwareStamping)> {
    let names = interface::names().unwrap_or_default().into_iter();
    names
        .filter_map(|name| {
            let stamping = interface::hardware_stamping(&name).ok()?;
            (stamping != HardwareStamping::default()).then_some((name, stamping))
        })
        .collect()
}

/// A clock that is read.
pub(super) struct Device {
    clock: PhcClock,
    track: Track,
}

impl Device {
    pub(super) fn open(index: u32) -> sockstamp::Result<Self> {
        let clock = PhcClock::open(index)?;
        let _ = clock.read()?;
        Ok(Self {
            clock,
            track: Track::default(),
        })
    }

    /// Read the clock. If that fails, the device may be gone: stamps have no time then.
    pub(super) fn read(&mut self) {
        let (before, reading, after) = (clock::measure(), self.clock.read(), clock::measure());
        if let (Ok(before), Ok(reading), Ok(after)) = (before, reading, after) {
            self.track.push(before, reading, after);
        }
    }

    pub(super) fn track(&self) -> &Track {
        &self.track
    }
}
