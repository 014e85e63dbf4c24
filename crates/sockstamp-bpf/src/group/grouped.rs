//! The grouping of messages, as options say it and as the programs know it.

use std::num::NonZeroU32;
use std::time::Duration;

use sockstamp_model::group::{Dimension, Grouping};

use crate::abi::raw;
use crate::error::{Error, Tried};
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::OpenSockstampMaps;

/// The grouping of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// The dimensions: others than [`Dimension::MEASURED`] divide nothing.
    pub by: Grouping,
    /// The number of slots, 13 kB of kernel memory each; at most [`Grouped::LIMIT`].
    pub limit: u32,
    /// Groups without a message for this time are ended when slots run short.
    pub idle: Duration,
    /// Keep the counts of ended groups under their names, for [`Session::take_ended`] to fetch,
    /// instead of their sum in [`Groups::ended`].
    ///
    /// [`Groups::ended`]: sockstamp_model::group::Groups::ended
    /// [`Session::take_ended`]: crate::Session::take_ended
    pub keep_ended: bool,
}

impl Grouped {
    /// The most groups that there may be.
    pub const LIMIT: u32 = raw::GROUP_INDEX_MASK;

    /// A thousand slots; groups may be idle for ten seconds.
    #[must_use]
    pub fn by(by: Grouping) -> Self {
        Self {
            by,
            limit: 1000,
            idle: Duration::from_secs(10),
            keep_ended: false,
        }
    }

    pub(super) fn slots(&self) -> u32 {
        self.limit.clamp(1, Self::LIMIT) + 1
    }
}

/// Set the maps' sizes before they are made.
pub(crate) fn size_maps(
    maps: &mut OpenSockstampMaps<'_>,
    grouped: Option<&Grouped>,
) -> Result<(), Error> {
    let slots = grouped.map_or(1, Grouped::slots);
    for map in [
        &mut maps.groups,
        &mut maps.group_slots,
        &mut maps.group_caps,
        &mut maps.group_free,
        &mut maps.group_tokens,
    ] {
        map.set_max_entries(slots).tried("size the groups")?;
    }
    Ok(())
}

/// Set the dimensions of groups.
pub(crate) fn constants(constants: &mut Constants, grouped: Option<&Grouped>) {
    constants.setting_groups = setting(grouped);
}

/// Return the dimensions as the programs know them.
pub(super) fn setting(grouped: Option<&Grouped>) -> u32 {
    grouped.map_or(0, |grouped| {
        grouped
            .by
            .dimensions()
            .map(bit)
            .fold(0, |set, bit| set | bit)
    })
}

fn bit(dimension: Dimension) -> u32 {
    match dimension {
        Dimension::Pid => raw::group_by::GROUP_BY_PID,
        Dimension::Comm => raw::group_by::GROUP_BY_COMM,
        Dimension::Cgroup | Dimension::Container => raw::group_by::GROUP_BY_CGROUP,
        Dimension::Port => raw::group_by::GROUP_BY_PORT,
        Dimension::Peer => raw::group_by::GROUP_BY_PEER,
        Dimension::Interface => raw::group_by::GROUP_BY_INTERFACE,
        Dimension::Proto => raw::group_by::GROUP_BY_PROTO,
        Dimension::Netns => raw::group_by::GROUP_BY_NETNS,
        Dimension::Flow => raw::group_by::GROUP_BY_FLOW,
        Dimension::Cpu | Dimension::Size | Dimension::Opened | Dimension::Retransmitted => 0,
    }
}

/// The messages of a group that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupCap {
    /// As many as of others, by [`Sampling`](crate::Sampling).
    #[default]
    Common,
    /// Up to so many per second, flow and direction, where [`Sampling`](crate::Sampling) has a rate
    /// cap; lowered with it.
    Rate(NonZeroU32),
    /// None.
    Off,
}

impl GroupCap {
    pub(super) fn raw(self) -> u32 {
        match self {
            Self::Common => 0,
            Self::Rate(cap) => cap.get().min(raw::GROUP_OFF - 1),
            Self::Off => raw::GROUP_OFF,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_know_every_dimension_that_is_measured() {
        for dimension in Dimension::ALL {
            let grouped = Grouped::by(Grouping::new([dimension]).unwrap());
            let bits = u32::from(Dimension::MEASURED.contains(&dimension));
            assert_eq!(setting(Some(&grouped)).count_ones(), bits, "{dimension}");
        }
        assert_eq!(setting(None), 0);
        let all = Grouped::by(Grouping::new(Dimension::ALL).unwrap());
        // A container is known by its cgroup.
        assert_eq!(setting(Some(&all)), 0x1ff);
    }

    #[test]
    fn there_is_room_for_one_group_at_least() {
        let slots = |limit| {
            Grouped {
                limit,
                ..Grouped::by(Grouping::new([Dimension::Port]).unwrap())
            }
            .slots()
        };
        assert_eq!([slots(0), slots(1), slots(u32::MAX)], [2, 2, 4096]);
    }
}
