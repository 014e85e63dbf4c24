//! The slots of groups in the maps of the programs: who holds them, and how they are given back.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapImpl};

use super::grouped::GroupCap;
use crate::abi::raw::{self, group as Group};
use crate::error::{Error, Tried};
use crate::map_view;
use crate::skeleton::sockstamp::SockstampMaps;

/// The slots that hold a group, with its token.
pub(super) fn used(maps: &SockstampMaps<'_>, slots: u32) -> Result<Vec<(u32, u32)>, Error> {
    let mut used = Vec::new();
    let slots = maps
        .group_slots
        .lookup_batch(slots, MapFlags::ANY, MapFlags::ANY)
        .tried("read the groups")?;
    for (slot, value) in slots {
        let [token, in_use] = [word(&value, 0), word(&value, 1)];
        if in_use != 0 {
            used.push((word(&slot, 0), token));
        }
    }
    Ok(used)
}

/// Return when every program that runs now has ended. Programs run inside RCU read sections, and
/// the kernel waits for a grace period when a map of maps is updated, so that no program uses the
/// map that was there before. membarrier(2) would wait for one, too, but not on a host with
/// `nohz_full` (kernel/sched/membarrier.c, v6.18: EINVAL).
pub(super) fn wait_for_programs(maps: &SockstampMaps<'_>) -> Result<(), Error> {
    let nothing = maps.group_nothing.as_fd().as_raw_fd();
    maps.group_grace
        .update(&0_u32.to_ne_bytes(), &nothing.to_ne_bytes(), MapFlags::ANY)
        .tried("wait for programs")
}

pub(super) fn retire(maps: &SockstampMaps<'_>, slot: u32, token: u32) -> Result<(), Error> {
    let group = read_group_bytes(maps, slot)?;
    maps.group_tokens
        .delete(&group[..size_of::<raw::group_key>()])
        .tried("retire a group")?;
    set_slot(maps, slot, next_token(token), true)
}

pub(super) fn clear(maps: &SockstampMaps<'_>, slot: u32) -> Result<(), Error> {
    let zeros = [0; size_of::<Group>()];
    maps.groups
        .update(&slot.to_ne_bytes(), &zeros, MapFlags::ANY)
        .tried("clear a group")?;
    let token = word(&read_slot(maps, slot)?, 0);
    set_slot(maps, slot, token, false)?;
    set_cap(maps, slot, GroupCap::Common)?;
    give_back(maps, slot)
}

/// Measure up to this many messages of the group in a slot, each flow from its next window on.
pub(crate) fn set_cap(maps: &SockstampMaps<'_>, slot: u32, cap: GroupCap) -> Result<(), Error> {
    maps.group_caps
        .update(&slot.to_ne_bytes(), &cap.raw().to_ne_bytes(), MapFlags::ANY)
        .tried("cap a group")
}

pub(super) fn give_back(maps: &SockstampMaps<'_>, slot: u32) -> Result<(), Error> {
    maps.group_free
        .update(&[], &slot.to_ne_bytes(), MapFlags::ANY)
        .tried("free a group")
}

/// Return the token of the same slot for another group. No token is 0, which stands for a flow that
/// has not looked for one yet.
pub(super) fn next_token(token: u32) -> u32 {
    let next = token.wrapping_add(1 << raw::GROUP_INDEX_BITS);
    let generation = next >> raw::GROUP_INDEX_BITS;
    next + u32::from(generation == 0) * (1 << raw::GROUP_INDEX_BITS)
}

pub(super) fn set_slot(
    maps: &SockstampMaps<'_>,
    slot: u32,
    token: u32,
    used: bool,
) -> Result<(), Error> {
    let mut value = [0; 8];
    value[..4].copy_from_slice(&token.to_ne_bytes());
    value[4..].copy_from_slice(&u32::from(used).to_ne_bytes());
    maps.group_slots
        .update(&slot.to_ne_bytes(), &value, MapFlags::ANY)
        .tried("set up the groups")
}

pub(super) fn read_slot(maps: &SockstampMaps<'_>, slot: u32) -> Result<Vec<u8>, Error> {
    lookup(&maps.group_slots, slot)
}

fn read_group_bytes(maps: &SockstampMaps<'_>, slot: u32) -> Result<Vec<u8>, Error> {
    lookup(&maps.groups, slot)
}

pub(super) fn read_group(maps: &SockstampMaps<'_>, slot: u32) -> Result<Box<Group>, Error> {
    let bytes = read_group_bytes(maps, slot)?;
    let group = map_view::group(&bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
    group.tried("read a group: its size is not the expected one")
}

/// An element of an array is always there.
fn lookup(map: &MapImpl<'_>, slot: u32) -> Result<Vec<u8>, Error> {
    let value = map
        .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
        .tried("read the groups")?;
    Ok(value.unwrap_or_default())
}

/// The word at this index; 0 behind the end.
pub(super) fn word(bytes: &[u8], index: usize) -> u32 {
    let bytes = bytes.chunks_exact(4).nth(index);
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_slot_and_are_never_zero() {
        let slot = 7;
        let first = 1 << raw::GROUP_INDEX_BITS | slot;
        let second = next_token(first);
        assert_ne!(first, second);
        assert_eq!(second & raw::GROUP_INDEX_MASK, slot);
        let last = u32::MAX << raw::GROUP_INDEX_BITS | slot;
        assert_eq!(next_token(last), first);
        assert_ne!(next_token(u32::MAX << raw::GROUP_INDEX_BITS), 0);
    }
}
