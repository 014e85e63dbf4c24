//! The groups of a session, as far as single messages need them: a message names its group by its
//! place.

use std::collections::HashMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;

use super::rules::Rule;

/// The group of a message.
#[derive(Debug, Default, Clone)]
pub(super) struct Owner {
    /// The time of a rule that stands in the place of all others.
    slower_than: Option<Nanos>,
    /// The container, empty outside of one; unknown of groups that came just now.
    pub(super) container: Option<Name>,
}

impl Owner {
    pub(super) fn new(key: &GroupKey, rule: Option<&Rule>) -> Self {
        Self {
            slower_than: rule.and_then(|rule| rule.slower_than).map(Nanos::from),
            container: key.container.clone(),
        }
    }

    /// Return the time from which on a message is slow, if slow ones are wanted at all.
    pub(super) fn least(&self, usual: Option<Nanos>) -> Option<Nanos> {
        usual.map(|usual| self.slower_than.unwrap_or(usual))
    }
}

/// The groups by their places.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_place: HashMap<u32, Owner>,
    unknown: Owner,
}

impl Owners {
    pub(super) fn set(&mut self, place: u32, owner: Owner) {
        self.by_place.insert(place, owner);
    }

    pub(super) fn of(&self, message: &Message) -> &Owner {
        let known = message.group.and_then(|place| self.by_place.get(&place));
        known.unwrap_or(&self.unknown)
    }
}
