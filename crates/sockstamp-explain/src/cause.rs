//! The messages of a cause, so that another can be looked for among the others.

use sockstamp_model::message::Message;

use crate::component::Kind;
use crate::excess::{Carried, Claim, Explanation};
use crate::lives::Lives;
use crate::slices::{Addition, Slice};
use crate::times::Limits;

/// Typical messages that are shown.
const SHOWN: usize = 3;

/// A component that makes messages of a kind slow, for one slice of them or for all.
#[derive(Debug, Clone)]
pub struct Cause {
    kind: Kind,
    limits: Limits,
    first: Carried,
    /// The time of the whole message.
    norm: f64,
    slice: Option<Slice>,
}

impl Cause {
    /// Form the cause that is concluded, if one is; `leader` is the slice that it is concluded for.
    #[must_use]
    pub fn new(explanation: &Explanation, leader: Option<&Addition>) -> Option<Self> {
        let first = explanation.carried.first();
        let first = first.filter(|_| explanation.claim == Claim::First)?;
        Some(Self {
            kind: explanation.kind,
            limits: explanation.limits,
            first: *first,
            norm: explanation.norm(),
            slice: leader.map(|leader| leader.slice.clone()),
        })
    }

    /// Return the kind of messages.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Return true if a message is one of the slice, slow or not; for all messages, if it is slower
    /// than normal ones by the component in the first place.
    #[must_use]
    pub fn covers(&self, message: &Message) -> bool {
        if let Some(slice) = &self.slice {
            return slice.has(message);
        }
        self.kind.time(message).is_some_and(|time| {
            let first = self.first.component.of(message).0 as f64 - self.first.norm;
            time > self.limits.p75 && first * 2.0 > time.0 as f64 - self.norm
        })
    }
    /// Return those of its messages that are at a quarter, the half and three quarters of them by
    /// time, the fastest first; fewer if there are no more.
    #[must_use]
    pub fn typical(&self, lives: Lives) -> Vec<Message> {
        let mut covered = lives.into_kept();
        covered.retain(|message| self.covers(message));
        covered.sort_by_key(|message| self.kind.time(message));
        let count = covered.len();
        let mut indexes: Vec<usize> = (1..=SHOWN)
            .map(|number| number * count / (SHOWN + 1))
            .collect();
        indexes.dedup();
        let chosen = indexes.into_iter().filter_map(|index| covered.get(index));
        chosen.cloned().collect()
    }
}
