//! The messages of a cause, so that another can be looked for among the others.

use sockstamp_model::message::Message;

use crate::component::Kind;
use crate::excess::{Carried, Claim, Explanation};
use crate::slices::{Addition, Slice};
use crate::times::Limits;

/// A component that makes messages of a kind slow, for one slice of them or for all.
#[derive(Debug, Clone)]
pub struct Cause {
    kind: Kind,
    limits: Limits,
    first: Carried,
    /// Of the whole message.
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
}
