//! The groups of a session, as far as single messages need them: a message names the slot of its
//! group.

use std::collections::HashMap;
use std::sync::Arc;

use sockstamp_host::container::Details;
use sockstamp_metrics::{Exemplars, Labels, OfGroup, TraceContext};
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupKey;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;

use crate::rules::Rule;

/// The group of a message.
#[derive(Debug, Default, Clone)]
pub(crate) struct Owner {
    /// None: it came since the groups were last looked at.
    key: Option<GroupKey>,
    /// The threshold of a rule, which replaces all others.
    slow: Option<Nanos>,
    /// The container, empty outside of one; unknown of groups that came just now.
    pub(crate) container: Option<Name>,
    /// The names that runtimes give it.
    pub(crate) details: Arc<Details>,
    /// Labels of its series, if a trace may refer to them.
    labels: Option<Arc<Labels>>,
    /// Its last slow messages.
    traced: OfGroup,
}

impl Owner {
    /// The owner of a group whose names are not known yet.
    pub(crate) fn unnamed(key: &GroupKey) -> Self {
        Self {
            key: Some(key.clone()),
            container: key.container.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn new(
        key: &GroupKey,
        rule: Option<&Rule>,
        details: Arc<Details>,
        labels: Option<Arc<Labels>>,
    ) -> Self {
        Self {
            key: Some(key.clone()),
            labels,
            traced: OfGroup::default(),
            slow: rule.and_then(|rule| rule.slow).map(Nanos::from),
            container: key.container.clone(),
            details,
        }
    }

    /// Return the time above which a message is slow, if slow ones are wanted at all.
    pub(crate) fn slow(&self, usual: Option<Nanos>) -> Option<Nanos> {
        usual.map(|usual| self.slow.unwrap_or(usual))
    }
}

/// The groups by their slots.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    by_slot: HashMap<u32, Owner>,
    unknown: Owner,
}

impl Owners {
    pub(crate) fn set(&mut self, slot: u32, mut owner: Owner) {
        // Keep messages of the same group: those that came before its names were known, too.
        let before = self.by_slot.remove(&slot);
        let is_same = |before: &Owner| before.key.is_none() || before.key == owner.key;
        if let Some(before) = before.filter(is_same) {
            owner.traced = before.traced;
        }
        self.by_slot.insert(slot, owner);
    }

    /// Note a slow message of a group, which need not be known yet.
    pub(crate) fn trace(&mut self, slot: u32, message: &Message, context: TraceContext) {
        let owner = self.by_slot.entry(slot).or_default();
        let traced = owner.traced[message.direction as usize].get_or_insert_default();
        Arc::make_mut(traced).add(message, context);
    }

    /// Return the last slow messages, as of this time in nanoseconds since 1970.
    pub(crate) fn exemplars(&self, now: u64) -> Exemplars {
        let named = self.by_slot.values();
        let named = named.filter_map(|owner| Some((owner.labels.as_ref()?, &owner.traced)));
        Exemplars::new(named, now)
    }

    pub(crate) fn of(&self, message: &Message) -> &Owner {
        let known = message.group.and_then(|slot| self.by_slot.get(&slot));
        known.unwrap_or(&self.unknown)
    }
}
