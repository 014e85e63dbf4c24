//! The clocks of this host's NICs as devices.

use std::collections::BTreeMap;

use nix::net::if_::if_nametoindex;
use sockstamp::interface::{self, Coalescing, HardwareStamping, TxStamping};
use sockstamp::phc::PhcClock;
use sockstamp_host::netns;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::interface::Interface;

use super::clock::Track;
use crate::clock;

/// An interface that stamps packets.
pub(super) struct Stamper {
    pub(super) interface: Interface,
    /// The number of its clock.
    pub(super) clock: u32,
    /// `None` if its driver does not tell.
    pub(super) coalescing: Option<Coalescing>,
}

/// Return each interface that stamps packets now and has a clock, in all network namespaces.
pub(super) fn stampers() -> BTreeMap<(NetnsInode, u32), Stamper> {
    let mut stampers = BTreeMap::new();
    for (netns, found) in netns::in_each(None, stampers_here) {
        for mut stamper in found.unwrap_or_default() {
            stamper.interface.netns = netns;
            stampers.insert((netns, stamper.interface.index), stamper);
        }
    }
    stampers
}

/// Return those of this network namespace, without its number. One may vanish meanwhile.
fn stampers_here() -> Vec<Stamper> {
    let stampers = stamping_here().into_iter().filter_map(|(name, _)| {
        Some(Stamper {
            clock: interface::capabilities(&name).ok()?.phc_index?,
            coalescing: interface::coalescing(&name).ok().flatten(),
            interface: Interface {
                index: if_nametoindex(name.as_str()).ok()?,
                netns: NetnsInode(0),
                name: name.as_str().into(),
            },
        })
    });
    stampers.collect()
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
