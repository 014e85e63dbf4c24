//! The groups of a session: their results, and those that come and go.

use sockstamp_model::group::{GroupKey, GroupSummary, Groups};

use crate::error::Error;
use crate::group::{self, GroupCap};

use super::Session;

impl Session {
    /// Return the results so far in groups; `None` if they were not requested. [`Summary::groups`]
    /// has them at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    ///
    /// [`Summary::groups`]: sockstamp_model::summary::Summary::groups
    pub fn groups(&mut self) -> Result<Option<Groups>, Error> {
        let table = self.groups.as_mut();
        table
            .map(|table| table.read(&self.skeleton.maps, &self.plan))
            .transpose()
    }

    /// Pass the results so far group by group, and return the sum of messages in none of them;
    /// `None` if groups were not requested. All groups at once, as [`groups`](Self::groups) returns
    /// them, take several kB of memory each.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn each_group(
        &mut self,
        pass: &mut dyn FnMut(GroupSummary),
    ) -> Result<Option<GroupSummary>, Error> {
        let Some(table) = &mut self.groups else {
            return Ok(None);
        };
        table.each(&self.skeleton.maps, &self.plan, pass)?;
        table.rest(&self.skeleton.maps, &self.plan).map(Some)
    }

    /// Return the groups that ended since the last call, if [`Grouped::keep_ended`] requests them:
    /// no later [`Session::groups`] has their counts. They are kept in memory until they are taken.
    ///
    /// [`Grouped::keep_ended`]: crate::Grouped::keep_ended
    pub fn take_ended(&mut self) -> Vec<GroupSummary> {
        self.groups
            .as_mut()
            .map_or_else(Vec::new, group::Table::take_ended)
    }

    /// Return the groups that came since the last call, with their slots. They are looked for once
    /// per second, if groups differ by cgroup, container, interface or network namespace.
    pub fn take_new_groups(&mut self) -> Vec<(u32, GroupKey)> {
        self.groups
            .as_mut()
            .map_or_else(Vec::new, group::Table::take_fresh)
    }

    /// Make [`take_new_groups`](Self::take_new_groups) return all groups again.
    pub fn renew_groups(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.all_are_fresh();
        }
    }

    /// Limit the measured messages of the group in a slot. Each flow has the new cap within a
    /// second.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn cap_group(&self, slot: u32, cap: GroupCap) -> Result<(), Error> {
        group::set_cap(&self.skeleton.maps, slot, cap)
    }

    /// Return the group that a message names in [`Message::group`], as of the last
    /// [`Session::groups`]; the default key for messages without a slot. `None` for a newer group.
    ///
    /// [`Message::group`]: sockstamp_model::message::Message::group
    #[must_use]
    pub fn group_at(&self, slot: u32) -> Option<&GroupKey> {
        self.groups.as_ref()?.at(slot)
    }
}
