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

mod counts;
mod grouped;
mod names;
mod slots;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use sockstamp_host::cgroup::Cgroup;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::group::{
    Dimension, GroupCgroup, GroupInterface, GroupKey, GroupNetns, GroupSummary, Groups,
};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;

pub(crate) use self::counts::{BEHIND_DRIVER, PARTS_BEHIND_DRIVER, add_parts_behind_driver};
use self::counts::{activity, add_held, in_flight, summary};
use self::grouped::setting;
pub use self::grouped::{GroupCap, Grouped};
pub(crate) use self::grouped::{constants, size_maps};
use self::names::Namespace;
pub(crate) use self::names::{Names, Numbers};
pub(crate) use self::slots::set_cap;
use crate::abi::{self, raw};
use crate::error::Error;
use crate::plan::Plan;
use crate::skeleton::sockstamp::SockstampMaps;

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
    /// Groups that nobody has taken yet.
    fresh: Vec<u32>,
    /// Slots whose messages in flight are waited for.
    retired: Vec<u32>,
    /// The groups at the last look, by slot.
    keys: BTreeMap<u32, GroupKey>,
    ended: GroupSummary,
    ended_groups: u64,
    /// The ended groups that are kept.
    kept: Vec<GroupSummary>,
    /// Counts of messages that were held for a NIC's stamp, by slot.
    held: BTreeMap<u32, GroupSummary>,
    next_sweep: Instant,
    /// The number of slots taken so far, if no sweep finds anything to do until one more is.
    settled: Option<u64>,
}

impl Table {
    /// Give every slot its first token and all but one to the programs.
    pub(crate) fn new(
        grouped: &Grouped,
        cgroup2: &Path,
        maps: &SockstampMaps<'_>,
    ) -> Result<Self, Error> {
        for slot in 0..grouped.slots() {
            slots::set_slot(maps, slot, 1 << raw::GROUP_INDEX_BITS | slot, false)?;
            if slot != raw::GROUP_OTHER {
                slots::give_back(maps, slot)?;
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
            held: BTreeMap::new(),
            next_sweep: Instant::now(),
            settled: None,
        })
    }

    /// Return the counts so far.
    pub(crate) fn read(&mut self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<Groups, Error> {
        let slots = self.slots(maps)?;
        let mut parts = Vec::with_capacity(slots.len());
        self.pass_each(maps, plan, &slots, &mut |group| parts.push(group))?;
        self.keys = slots.into_iter().map(|(key, slot)| (slot, key)).collect();
        self.keys.insert(raw::GROUP_OTHER, GroupKey::default());
        let mut groups = Groups::new(self.grouped.by.clone(), parts);
        groups.other = self.other(maps, plan)?;
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
        self.pass_each(maps, plan, &slots, pass)
    }

    /// Pass the groups in these slots, whose keys are in order. Cgroups of one container have the
    /// same key.
    fn pass_each(
        &self,
        maps: &SockstampMaps<'_>,
        plan: &Plan,
        slots: &[(GroupKey, u32)],
        pass: &mut dyn FnMut(GroupSummary),
    ) -> Result<(), Error> {
        let mut last: Option<GroupSummary> = None;
        for (key, slot) in slots {
            let group = self.summary(maps, *slot, key.clone(), plan)?;
            match &mut last {
                Some(last) if last.key == group.key => last.merge(&group),
                _ => last.replace(group).into_iter().for_each(&mut *pass),
            }
        }
        last.into_iter().for_each(pass);
        Ok(())
    }

    /// Add what the programs have not counted of a message that was held for a NIC's stamp.
    pub(crate) fn add_held(&mut self, message: &Message) {
        let slot = message.group.unwrap_or(raw::GROUP_OTHER);
        add_held(self.held.entry(slot).or_default(), message);
    }

    /// Return the counts of a slot.
    fn summary(
        &self,
        maps: &SockstampMaps<'_>,
        slot: u32,
        key: GroupKey,
        plan: &Plan,
    ) -> Result<GroupSummary, Error> {
        let group = slots::read_group(maps, slot)?;
        let mut summary = summary(&group, key, plan);
        if let Some(more) = self.held.get(&slot) {
            summary.tx.merge(&more.tx);
            summary.tx.complete_parts();
            summary.rx.merge(&more.rx);
        }
        Ok(summary)
    }

    /// Return the keys of all groups, in their order, and their slots.
    fn slots(&mut self, maps: &SockstampMaps<'_>) -> Result<Vec<(GroupKey, u32)>, Error> {
        let mut keys = Vec::new();
        for (slot, _) in slots::used(maps, self.grouped.slots())? {
            keys.push((slots::read_group(maps, slot)?.key, slot));
        }
        self.learn_names(keys.iter().map(|(key, _)| key))?;
        // Groups whose names are not known yet come with the next look: their keys would change.
        keys.retain(|(key, _)| self.names.know(&self.numbers(key)));
        let named = keys.into_iter().map(|(key, slot)| (self.key(&key), slot));
        let mut slots: Vec<_> = named.collect();
        slots.sort_unstable();
        Ok(slots)
    }

    /// Return the sum of messages without a slot, and of groups that ended and are not kept.
    pub(crate) fn rest(
        &self,
        maps: &SockstampMaps<'_>,
        plan: &Plan,
    ) -> Result<GroupSummary, Error> {
        let mut rest = self.other(maps, plan)?;
        rest.merge(&self.ended);
        Ok(rest)
    }

    fn other(&self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<GroupSummary, Error> {
        self.summary(maps, raw::GROUP_OTHER, GroupKey::default(), plan)
    }

    /// Return the groups that ended since the last call, if they are kept.
    pub(crate) fn take_ended(&mut self) -> Vec<GroupSummary> {
        std::mem::take(&mut self.kept)
    }

    /// Return the groups that sweeps found since the last call, by slot. Sweeps find groups that
    /// have a cgroup, an interface or a network namespace.
    pub(crate) fn take_fresh(&mut self) -> Vec<(u32, GroupKey)> {
        let slots = std::mem::take(&mut self.fresh).into_iter();
        let keys = slots.filter_map(|slot| Some((slot, self.seen.get(&slot)?.key)));
        let know = |(_, key): &(u32, raw::group_key)| self.names.know(&self.numbers(key));
        let (keys, unknown): (Vec<_>, Vec<_>) = keys.partition(know);
        self.fresh = unknown.into_iter().map(|(slot, _)| slot).collect();
        keys.into_iter()
            .map(|(slot, key)| (slot, self.key(&key)))
            .collect()
    }

    /// Have the next call of [`take_fresh`](Self::take_fresh) return all groups.
    pub(crate) fn all_are_fresh(&mut self) {
        self.fresh = self.seen.keys().copied().collect();
    }

    /// Return the final counts; nothing is read later.
    pub(crate) fn finish(
        &mut self,
        maps: &SockstampMaps<'_>,
        plan: &Plan,
    ) -> Result<Groups, Error> {
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
        // Read it before the slots: what is made later is seen the next time.
        let made = maps.bss_data.as_ref().map_or(0, |data| data.groups_made);
        fence(Ordering::Acquire);
        if self.settled == Some(made) {
            return Ok(());
        }
        let used = slots::used(maps, self.grouped.slots())?;
        let crowded = used.len() * 8 > self.grouped.limit as usize * 7;
        if self.names_go() || crowded {
            self.look_at(maps, &used, crowded, now)?;
        }
        self.settled = (!crowded && self.retired.is_empty()).then_some(made);
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

    /// Return the numbers of a key that have names.
    fn numbers(&self, key: &raw::group_key) -> Numbers {
        let asked = setting(Some(&self.grouped));
        let has = |bit: raw::group_by::Type| asked & bit != 0;
        let netns = namespace(key);
        Numbers {
            cgroup: has(raw::group_by::GROUP_BY_CGROUP).then_some(key.identity.cgroup),
            interface: has(raw::group_by::GROUP_BY_INTERFACE).then_some((netns, key.ifindex)),
            netns: has(raw::group_by::GROUP_BY_NETNS).then_some(netns),
        }
    }

    /// Learn the names that these keys need, and no others.
    fn learn_names<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a raw::group_key>,
    ) -> Result<(), Error> {
        let (mut cgroups, mut interfaces, mut namespaces) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for numbers in keys.map(|key| self.numbers(key)) {
            cgroups.extend(numbers.cgroup);
            interfaces.extend(numbers.interface);
            namespaces.extend(numbers.netns);
        }
        self.names.learn(&cgroups, &interfaces, &namespaces)
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
            let group = slots::read_group(maps, slot)?;
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
        self.learn_names(keys.iter())
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
            slots::retire(maps, slot, token)?;
            self.retired.push(slot);
        }
        Ok(())
    }

    /// Free the retired slots that no message in flight holds any more.
    fn collect(&mut self, maps: &SockstampMaps<'_>, plan: &Plan) -> Result<(), Error> {
        slots::wait_for_programs(maps)?;
        let mut waiting = Vec::new();
        let mut quiet = Vec::new();
        for slot in self.retired.drain(..) {
            let group = slots::read_group(maps, slot)?;
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
        slots::wait_for_programs(maps)?;
        for slot in quiet {
            if self.grouped.keep_ended {
                let key = self.key(&slots::read_group(maps, slot)?.key);
                let ended = self.summary(maps, slot, key, plan)?;
                self.kept.push(ended);
            } else {
                let ended = self.summary(maps, slot, GroupKey::default(), plan)?;
                self.ended.merge(&ended);
            }
            self.held.remove(&slot);
            self.ended_groups += 1;
            self.seen.remove(&slot);
            slots::clear(maps, slot)?;
        }
        let other = slots::read_slot(maps, raw::GROUP_OTHER)?;
        slots::set_slot(
            maps,
            raw::GROUP_OTHER,
            slots::next_token(slots::word(&other, 0)),
            false,
        )
    }

    fn key(&mut self, key: &raw::group_key) -> GroupKey {
        let by = self.grouped.by.clone();
        let has = |dimension| by.contains(dimension);
        let flow = abi::flow(&key.identity);
        let netns = namespace(key);
        let cgroup = self.names.known_cgroup(key.identity.cgroup);
        GroupKey {
            pid: has(Dimension::Pid).then_some(key.identity.pid),
            comm: has(Dimension::Comm).then(|| abi::comm(&key.identity)),
            container: has(Dimension::Container).then(|| container(key.identity.cgroup, cgroup)),
            cgroup: has(Dimension::Cgroup).then(|| GroupCgroup {
                id: key.identity.cgroup,
                path: cgroup.map(|cgroup| cgroup.path.clone()),
            }),
            port: has(Dimension::Port).then_some(key.port),
            peer: has(Dimension::Peer).then(|| flow.remote.ip().to_canonical()),
            interface: has(Dimension::Interface).then(|| GroupInterface {
                netns: flow.netns,
                index: key.ifindex,
                name: self.names.interface((netns, key.ifindex)),
                netns_name: self.names.netns_of((netns, key.ifindex)),
            }),
            proto: has(Dimension::Proto).then_some(flow.protocol),
            netns: has(Dimension::Netns).then(|| GroupNetns {
                inode: flow.netns,
                name: self.names.named(netns),
            }),
            flow: has(Dimension::Flow).then_some(flow),
            ..GroupKey::default()
        }
    }
}

/// Return the network namespace of a key that has one.
fn namespace(key: &raw::group_key) -> Namespace {
    Namespace {
        inode: NetnsInode(key.identity.netns),
        cookie: key.netns_cookie,
    }
}

/// The container's id, with the user that claims it; empty outside of one. Whose path is not known
/// has the number of its cgroup.
fn container(cgroup: u64, known: Option<&Cgroup>) -> Name {
    match known {
        Some(known) => (known.container.as_ref())
            .map_or_else(Name::default, |container| container.qualified_id().into()),
        None => format!("#{cgroup}").into(),
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::container::{Container, container_of};

    use super::*;

    #[test]
    fn containers_are_known_by_the_paths_of_their_cgroups_and_who_claims_them() {
        let known = |path: &str, user| {
            let found = container_of(path);
            let cgroup = Cgroup {
                path: path.into(),
                container: found.map(|found| Container { user, ..found }),
            };
            container(3, Some(&cgroup))
        };
        let service = "/system.slice/nginx.service";
        assert_eq!(known(service, None), "nginx.service");
        assert_eq!(known(service, Some(1000)), "user-1000/nginx.service");
        assert_eq!(known("/", None), "");
        assert_eq!(container(3, None), "#3");
    }
}
