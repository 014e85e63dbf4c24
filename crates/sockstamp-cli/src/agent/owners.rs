//! The groups of a session, as far as single messages need them: a message names the slot of its
//! group.

use std::collections::HashMap;
use std::sync::Arc;

use sockstamp_host::container::Details;
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;

use super::rules::Rule;

/// The group of a message.
#[derive(Debug, Default, Clone)]
pub(super) struct Owner {
    /// The threshold of a rule, which replaces all others.
    slower_than: Option<Nanos>,
    /// The container, empty outside of one; unknown of groups that came just now.
    pub(super) container: Option<Name>,
    /// The names that runtimes give it.
    pub(super) details: Arc<Details>,
}

impl Owner {
    pub(super) fn new(key: &GroupKey, rule: Option<&Rule>, details: Arc<Details>) -> Self {
        Self {
            slower_than: rule.and_then(|rule| rule.slower_than).map(Nanos::from),
            container: key.container.clone(),
            details,
        }
    }

    /// Return the time from which on a message is slow, if slow ones are wanted at all.
    pub(super) fn least(&self, usual: Option<Nanos>) -> Option<Nanos> {
        usual.map(|usual| self.slower_than.unwrap_or(usual))
    }
}

/// The groups by their slots.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_slot: HashMap<u32, Owner>,
    unknown: Owner,
}

impl Owners {
    pub(super) fn set(&mut self, slot: u32, owner: Owner) {
        self.by_slot.insert(slot, owner);
    }

    pub(super) fn of(&self, message: &Message) -> &Owner {
        let known = message.group.and_then(|slot| self.by_slot.get(&slot));
        known.unwrap_or(&self.unknown)
    }
}
