//! Convert the kernel's groups to the model's, and free slots for new groups.
//!
//! A slot becomes free again without a message that is counted for the wrong group, in three
//! steps:
//!
//! 1. **Retire.** The group's key is deleted and its slot gets another token. A flow compares the
//!    token that it keeps at every message, finds it out of date and looks its group up anew. Once
//!    every program that may have compared before has ended, no new message comes.
//! 2. **Wait** until the messages in flight, which keep the slot itself, have ended.
//! 3. **Collect.** The counts go to [`Groups::ended`], the slot is cleared and given back.
//!
//! Messages whose group has no slot meanwhile are in `other`. Its token changes each time that
//! slots are freed, so that its flows try again.

mod names;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapImpl};
use sockstamp_model::container::container_of;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::group::{
    Dimension, GroupCgroup, GroupDirection, GroupHistogram, GroupInterface, GroupKey, GroupNetns,
    GroupSummary, Grouping, Groups, SLOTS,
};
use sockstamp_model::name::Name;
use sockstamp_model::part::PartMap;
use sockstamp_model::stage::{Direction, StageMap};

pub(crate) use self::names::Names;
use crate::abi::{self, raw};
use crate::error::{Error, Tried};
use crate::map_view;
use crate::plan::Plan;
use crate::skeleton::sockstamp::{OpenSockstampMaps, SockstampMaps};

pub(crate) use raw::group as Group;

const _: () = assert!(raw::GROUP_HISTOGRAM_SLOTS as usize == SLOTS);

/// The grouping of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// The dimensions.
    pub by: Grouping,
    /// The number of slots, 13 kB of kernel memory each; at most [`Grouped::LIMIT`].
    pub limit: u32,
    /// Groups without a message for this time are ended when slots run short.
    pub idle: Duration,
    /// Keep the counts of ended groups under their names, for [`Session::take_ended`] to fetch,
    /// instead of their sum in [`Groups::ended`].
    ///
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

    fn slots(&self) -> u32 {
        self.limit.clamp(1, Self::LIMIT) + 1
    }
}

/// Set the maps' sizes before they are made.
pub(crate) fn size_maps(maps: &mut OpenSockstampMaps<'_>, grouped: Option<&Grouped>) -> Result<(), Error> {
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

/// The dimensions as the programs know them.
pub(crate) fn setting(grouped: Option<&Grouped>) -> u32 {
    grouped.map_or(0, |grouped| {
        grouped.by.dimensions().map(bit).fold(0, |set, bit| set | bit)
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
    fn raw(self) -> u32 {
        match self {
            Self::Common => 0,
            Self::Rate(cap) => cap.get().min(raw::GROUP_OFF - 1),
            Self::Off => raw::GROUP_OFF,
        }
    }
}

/// Interval between sweeps of slots.
const SWEEP: Duration = Duration::from_secs(1);

/// A group in its slot.
#[derive(Debug)]
struct Seen {
    token: u32,
    key: raw::group_key,
    /// Everything that grows with each message and each retransmission.
    activity: u64,
    since: Instant,
}

/// The groups of a session.
#[derive(Debug)]
pub(crate) struct Table {
    grouped: Grouped,
    names: Names,
    /// The groups that were there at the last sweep, by slot.
    seen: BTreeMap<u32, Seen>,
    /// Those of them that nobody has taken.
    fresh: Vec<u32>,
    /// Slots whose messages in flight are waited for.
    retired: Vec<u32>,
    /// The groups at the last look, by slot.
    keys: BTreeMap<u32, GroupKey>,
    ended: GroupSummary,
    ended_groups: u64,
    /// The ended groups that are kept.
    kept: Vec<GroupSummary>,
    next_sweep: Instant,
}

impl Table {
    /// Give every slot its first token and all but one to the programs.
    pub(crate) fn new(grouped: &Grouped, cgroup2: &Path, maps: &SockstampMaps<'_>) -> Result<Self, Error> {
        for slot in 0..grouped.slots() {
            set_slot(maps, slot, 1 << raw::GROUP_INDEX_BITS | slot, false)?;
            if slot != raw::GROUP_OTHER {
                give_back(maps, slot)?;
            }
        }
        Ok(Self {
            grouped: grouped.clone(),
            names: Names::new(cgroup2),
            seen: BTreeMap::new(),
            fresh: Vec::new(),
            retired: Vec::new(),
            keys: BTreeMap::new(),
            ended: GroupSummary::default(),
            ended_groups: 0,
            kept: Vec::new(),
            next_sweep: Instant::now(),
        })
    }

    /// Return the counts so far.
    pub(crate) fn read(&mut self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<Groups, Error> {
        let slots = self.slots(maps)?;
        let mut parts = Vec::with_capacity(slots.len());
        pass_each(maps, plan, &slots, &mut |group| parts.push(group))?;
        self.keys = slots.into_iter().map(|(key, slot)| (slot, key)).collect();
        self.keys.insert(raw::GROUP_OTHER, GroupKey::default());
        let mut groups = Groups::new(self.grouped.by.clone(), parts);
        groups.other = Self::other(maps, plan)?;
        groups.ended = self.ended.clone();
        groups.ended_groups = self.ended_groups;
        Ok(groups)
    }

    /// Pass the counts so far, group by group, in the order of their keys.
    pub(crate) fn each(
        &mut self,
        maps: &SockstampMaps<'_>,
        plan: &Plan,
        pass: &mut dyn FnMut(GroupSummary),
    ) -> Result<(), Error> {
        let slots = self.slots(maps)?;
        pass_each(maps, plan, &slots, pass)
    }

    /// Return the keys of all groups, in their order, and their slots.
    fn slots(&mut self, maps: &SockstampMaps<'_>) -> Result<Vec<(GroupKey, u32)>, Error> {
        let mut keys = Vec::new();
        for (slot, _) in self.used(maps)? {
            keys.push((read_group(maps, slot)?.key, slot));
        }
        self.learn_names(keys.iter().map(|(key, _)| key));
        let named = keys.into_iter().map(|(key, slot)| (self.key(&key), slot));
        let mut slots: Vec<_> = named.collect();
        slots.sort_unstable();
        Ok(slots)
    }

    /// Return the sum of messages without a slot, and of groups that ended and are not kept.
    pub(crate) fn rest(&self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<GroupSummary, Error> {
        let mut rest = Self::other(maps, plan)?;
        rest.merge(&self.ended);
        Ok(rest)
    }

    fn other(maps: &SockstampMaps<'_>, plan: &Plan) -> Result<GroupSummary, Error> {
        let other = read_group(maps, raw::GROUP_OTHER)?;
        Ok(summary(&other, GroupKey::default(), plan))
    }

    /// Return the groups that ended since the last call, if they are kept.
    pub(crate) fn take_ended(&mut self) -> Vec<GroupSummary> {
        std::mem::take(&mut self.kept)
    }

    /// Return the groups that sweeps found since the last call, by slot. Sweeps find groups that
    /// have a cgroup, an interface or a network namespace.
    pub(crate) fn take_fresh(&mut self) -> Vec<(u32, GroupKey)> {
        let slots = std::mem::take(&mut self.fresh);
        let keys: Vec<_> = slots
            .into_iter()
            .filter_map(|slot| Some((slot, self.seen.get(&slot)?.key)))
            .collect();
        keys.into_iter()
            .map(|(slot, key)| (slot, self.key(&key)))
            .collect()
    }

    /// Have the next call of [`take_fresh`](Self::take_fresh) return all groups.
    pub(crate) fn all_are_fresh(&mut self) {
        self.fresh = self.seen.keys().copied().collect();
    }

    /// Return the final counts; nothing is read later.
    pub(crate) fn finish(&mut self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<Groups, Error> {
        self.names.wake();
        self.read(maps, plan)
    }

    /// The group that had this slot at the last look.
    pub(crate) fn at(&self, slot: u32) -> Option<&GroupKey> {
        self.keys.get(&slot)
    }

    /// Return the time until [`refresh`](Self::refresh) has something to do.
    pub(crate) fn until_sweep(&self) -> Duration {
        self.next_sweep.saturating_duration_since(Instant::now())
    }

    /// Do the work due once per second while groups come and go.
    pub(crate) fn refresh(&mut self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<(), Error> {
        let now = Instant::now();
        if now < self.next_sweep {
            return Ok(());
        }
        self.next_sweep = now + SWEEP;
        let used = self.used(maps)?;
        let crowded = used.len() * 8 > self.grouped.limit as usize * 7;
        if self.names_go() || crowded {
            self.look_at(maps, &used, crowded, now)?;
        }
        if crowded {
            self.retire_idle(maps, now)?;
        }
        if !self.retired.is_empty() {
            self.collect(maps, plan)?;
        }
        Ok(())
    }

    /// Return whether a name has to be learned while there is somebody to have it: a cgroup's path
    /// is gone with its last process, an interface's name with its namespace.
    fn names_go(&self) -> bool {
        let named = raw::group_by::GROUP_BY_CGROUP
            | raw::group_by::GROUP_BY_INTERFACE
            | raw::group_by::GROUP_BY_NETNS;
        setting(Some(&self.grouped)) & named != 0
    }

    /// Learn the names that these keys need, and no others.
    fn learn_names<'a>(&mut self, keys: impl Iterator<Item = &'a raw::group_key>) {
        let asked = setting(Some(&self.grouped));
        let (mut cgroups, mut interfaces, mut namespaces) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for key in keys {
            if asked & raw::group_by::GROUP_BY_CGROUP != 0 {
                cgroups.insert(key.identity.cgroup);
            }
            if asked & raw::group_by::GROUP_BY_INTERFACE != 0 {
                interfaces.insert((NetnsInode(key.identity.netns), key.ifindex));
            }
            if asked & raw::group_by::GROUP_BY_NETNS != 0 {
                namespaces.insert(NetnsInode(key.identity.netns));
            }
        }
        self.names.learn(&cgroups, &interfaces, &namespaces);
    }

    /// The slots that hold a group, with its token.
    fn used(&self, maps: &SockstampMaps<'_>) -> Result<Vec<(u32, u32)>, Error> {
        let mut used = Vec::new();
        let slots = maps
            .group_slots
            .lookup_batch(self.grouped.slots(), MapFlags::ANY, MapFlags::ANY)
            .tried("read the groups")?;
        for (slot, value) in slots {
            let [token, in_use] = [word(&value, 0), word(&value, 1)];
            if in_use != 0 {
                used.push((word(&slot, 0), token));
            }
        }
        Ok(used)
    }

    /// Learn the names of new groups. When slots run short, also find the groups that are idle: a
    /// group is large to read, and there may be thousands.
    fn look_at(
        &mut self,
        maps: &SockstampMaps<'_>,
        used: &[(u32, u32)],
        crowded: bool,
        now: Instant,
    ) -> Result<(), Error> {
        let tokens: BTreeMap<_, _> = used.iter().copied().collect();
        self.seen
            .retain(|slot, seen| tokens.get(slot) == Some(&seen.token));
        for &(slot, token) in used {
            if !crowded && self.seen.contains_key(&slot) {
                continue;
            }
            let group = read_group(maps, slot)?;
            let activity = activity(&group);
            let fresh = || Seen {
                token,
                key: group.key,
                activity,
                since: now,
            };
            match self.seen.entry(slot) {
                Entry::Vacant(vacant) => {
                    self.fresh.push(*vacant.key());
                    vacant.insert(fresh());
                }
                Entry::Occupied(mut seen) if seen.get().activity != activity => {
                    seen.insert(fresh());
                }
                Entry::Occupied(_) => {}
            }
        }
        let keys: Vec<_> = self.seen.values().map(|seen| seen.key).collect();
        self.learn_names(keys.iter());
        Ok(())
    }

    /// Retires idle groups, those that were so for longest first, down to three quarters.
    fn retire_idle(&mut self, maps: &SockstampMaps<'_>, now: Instant) -> Result<(), Error> {
        let mut idle: Vec<_> = self
            .seen
            .iter()
            .filter(|(slot, seen)| {
                !self.retired.contains(slot) && now.duration_since(seen.since) >= self.grouped.idle
            })
            .map(|(&slot, seen)| (seen.since, slot, seen.token))
            .collect();
        idle.sort_unstable();
        let surplus = (self.seen.len() - self.retired.len())
            .saturating_sub(self.grouped.limit as usize * 3 / 4)
            .max(1);
        for &(_, slot, token) in idle.iter().take(surplus) {
            retire(maps, slot, token)?;
            self.retired.push(slot);
        }
        Ok(())
    }

    /// Free the retired slots that no message in flight holds any more.
    fn collect(&mut self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<(), Error> {
        wait_for_programs(maps)?;
        let mut waiting = Vec::new();
        let mut quiet = Vec::new();
        for slot in self.retired.drain(..) {
            let group = read_group(maps, slot)?;
            match in_flight(&group) {
                0 => quiet.push(slot),
                _ => waiting.push(slot),
            }
        }
        self.retired = waiting;
        if quiet.is_empty() {
            return Ok(());
        }
        // The program that ended the last message may still be adding to its distributions.
        wait_for_programs(maps)?;
        for slot in quiet {
            let group = read_group(maps, slot)?;
            if self.grouped.keep_ended {
                let key = self.key(&group.key);
                self.kept.push(summary(&group, key, plan));
            } else {
                self.ended.merge(&summary(&group, GroupKey::default(), plan));
            }
            self.ended_groups += 1;
            self.seen.remove(&slot);
            clear(maps, slot)?;
        }
        let other = read_slot(maps, raw::GROUP_OTHER)?;
        set_slot(maps, raw::GROUP_OTHER, next_token(word(&other, 0)), false)
    }

    fn key(&mut self, key: &raw::group_key) -> GroupKey {
        let by = self.grouped.by.clone();
        let has = |dimension| by.contains(dimension);
        let flow = abi::flow(&key.identity);
        let path = (has(Dimension::Cgroup) || has(Dimension::Container))
            .then(|| self.names.cgroup(key.identity.cgroup));
        GroupKey {
            pid: has(Dimension::Pid).then_some(key.identity.pid),
            comm: has(Dimension::Comm).then(|| abi::comm(&key.identity)),
            container: has(Dimension::Container)
                .then(|| container(key.identity.cgroup, path.as_ref().and_then(Option::as_ref))),
            cgroup: has(Dimension::Cgroup).then(|| GroupCgroup {
                id: key.identity.cgroup,
                path: path.flatten(),
            }),
            port: has(Dimension::Port).then_some(key.port),
            peer: has(Dimension::Peer).then(|| flow.remote.ip().to_canonical()),
            interface: has(Dimension::Interface).then(|| GroupInterface {
                netns: flow.netns,
                index: key.ifindex,
                name: self.names.interface((flow.netns, key.ifindex)),
                netns_name: self.names.netns_name(flow.netns),
            }),
            proto: has(Dimension::Proto).then_some(flow.protocol),
            netns: has(Dimension::Netns).then(|| GroupNetns {
                inode: flow.netns,
                name: self.names.named(flow.netns),
            }),
            flow: has(Dimension::Flow).then_some(flow),
        }
    }
}

/// Pass the groups in these slots, whose keys are in order. Cgroups of one container have the same
/// key.
fn pass_each(
    maps: &SockstampMaps<'_>,
    plan: &Plan,
    slots: &[(GroupKey, u32)],
    pass: &mut dyn FnMut(GroupSummary),
) -> Result<(), Error> {
    let mut last: Option<GroupSummary> = None;
    for (key, slot) in slots {
        let group = read_group(maps, *slot)?;
        let group = summary(&group, key.clone(), plan);
        match &mut last {
            Some(last) if last.key == group.key => last.merge(&group),
            _ => last.replace(group).into_iter().for_each(&mut *pass),
        }
    }
    last.into_iter().for_each(pass);
    Ok(())
}

/// The container's id; empty outside of one. Whose path is not known has the number of its cgroup.
fn container(cgroup: u64, path: Option<&Name>) -> Name {
    match path {
        Some(path) => container_of(path.as_bytes())
            .map_or_else(Name::default, |container| container.qualified_id().into()),
        None => format!("#{cgroup}").into(),
    }
}

fn activity(group: &Group) -> u64 {
    let messages: u64 = group.counts.iter().map(|counts| counts.messages).sum();
    messages + group.retransmits + group.tx_ended
}

fn in_flight(group: &Group) -> u64 {
    group.counts[Direction::Tx as usize]
        .measured
        .saturating_sub(group.tx_ended)
}

/// Return when every program that runs now has ended. Programs run inside RCU read sections, and
/// the kernel waits for a grace period when a map of maps is updated, so that no program uses the
/// map that was there before. membarrier(2) would wait for one, too, but not on a host with
/// `nohz_full` (kernel/sched/membarrier.c, v6.18: EINVAL).
fn wait_for_programs(maps: &SockstampMaps<'_>) -> Result<(), Error> {
    let nothing = maps.group_nothing.as_fd().as_raw_fd();
    maps.group_grace
        .update(&0_u32.to_ne_bytes(), &nothing.to_ne_bytes(), MapFlags::ANY)
        .tried("wait for programs")
}

fn retire(maps: &SockstampMaps<'_>, slot: u32, token: u32) -> Result<(), Error> {
    let group = read_group_bytes(maps, slot)?;
    maps.group_tokens
        .delete(&group[..size_of::<raw::group_key>()])
        .tried("retire a group")?;
    set_slot(maps, slot, next_token(token), true)
}

fn clear(maps: &SockstampMaps<'_>, slot: u32) -> Result<(), Error> {
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

fn give_back(maps: &SockstampMaps<'_>, slot: u32) -> Result<(), Error> {
    maps.group_free
        .update(&[], &slot.to_ne_bytes(), MapFlags::ANY)
        .tried("free a group")
}

/// Return the token of the same slot for another group. No token is 0, which stands for a flow that
/// has not looked for one yet.
fn next_token(token: u32) -> u32 {
    let next = token.wrapping_add(1 << raw::GROUP_INDEX_BITS);
    let generation = next >> raw::GROUP_INDEX_BITS;
    next + u32::from(generation == 0) * (1 << raw::GROUP_INDEX_BITS)
}

fn set_slot(maps: &SockstampMaps<'_>, slot: u32, token: u32, used: bool) -> Result<(), Error> {
    let mut value = [0; 8];
    value[..4].copy_from_slice(&token.to_ne_bytes());
    value[4..].copy_from_slice(&u32::from(used).to_ne_bytes());
    maps.group_slots
        .update(&slot.to_ne_bytes(), &value, MapFlags::ANY)
        .tried("set up the groups")
}

fn read_slot(maps: &SockstampMaps<'_>, slot: u32) -> Result<Vec<u8>, Error> {
    lookup(&maps.group_slots, slot)
}

fn read_group_bytes(maps: &SockstampMaps<'_>, slot: u32) -> Result<Vec<u8>, Error> {
    lookup(&maps.groups, slot)
}

fn read_group(maps: &SockstampMaps<'_>, slot: u32) -> Result<Box<Group>, Error> {
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
fn word(bytes: &[u8], index: usize) -> u32 {
    let bytes = bytes.chunks_exact(4).nth(index);
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

fn summary(group: &Group, key: GroupKey, plan: &Plan) -> GroupSummary {
    GroupSummary {
        key,
        tx: direction(group, plan, Direction::Tx),
        rx: direction(group, plan, Direction::Rx),
    }
}

fn direction(group: &Group, plan: &Plan, direction: Direction) -> GroupDirection {
    let index = direction as usize;
    let counts = &group.counts[index];
    let stages = StageMap::from_fn(|stage| {
        let measured = stage.direction() == direction && plan.stages[stage].is_measured();
        measured.then(|| distribution(&group.distributions[stage as usize]))
    });
    let mut summary = GroupDirection {
        messages: counts.messages,
        measured: counts.measured,
        refused: counts.refused,
        bytes: counts.bytes,
        retransmits: match direction {
            Direction::Tx => group.retransmits,
            Direction::Rx => 0,
        },
        parts: PartMap::from_fn(|part| {
            let index = abi::part_index(part).filter(|_| stages[part.stage()].is_some())?;
            Some(abi::part_summary(&group.parts[index]))
        }),
        stages,
        sent: match direction {
            Direction::Tx => distribution(&group.distributions[abi::SENT]),
            Direction::Rx => GroupHistogram::default(),
        },
        total: distribution(&group.distributions[abi::total(direction)]),
    };
    summary.complete_parts();
    summary
}

fn distribution(raw: &raw::group_distribution) -> GroupHistogram {
    GroupHistogram::from_counts(&raw.counts, raw.sum_ns.into(), raw.max_ns)
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

    #[test]
    fn the_programs_know_every_dimension() {
        for dimension in Dimension::ALL {
            let grouped = Grouped::by(Grouping::new([dimension]).unwrap());
            assert_eq!(setting(Some(&grouped)).count_ones(), 1, "{dimension}");
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

    #[test]
    fn containers_are_known_by_the_paths_of_their_cgroups() {
        assert_eq!(
            container(3, Some(&"/system.slice/nginx.service".into())),
            "nginx.service"
        );
        assert_eq!(container(3, Some(&"/".into())), "");
        assert_eq!(container(3, None), "#3");
    }
}
