//! The takers of messages, one by one.

use sockstamp_model::message::Message;

use crate::findings::Findings;
use crate::hindsight::Hindsight;
use crate::otlp::Sender;
use crate::owners::Owners;
use crate::slow::Slow;

/// Each takes what the settings let it have.
#[derive(Debug)]
pub(crate) struct Takers {
    /// The last minutes on disk, if they are wanted.
    pub(crate) hindsight: Option<Hindsight>,
    /// The way to a receiver of OpenTelemetry's protocol, if there is one.
    pub(crate) sender: Option<Sender>,
    /// The last slow messages, for the page.
    pub(crate) slow: Slow,
    /// Where time was lost in the last minutes.
    pub(crate) findings: Findings,
    pub(crate) owners: Owners,
}

impl Takers {
    pub(crate) fn push(&mut self, message: &Message) {
        let owner = self.owners.of(message);
        if let Some(hindsight) = &mut self.hindsight {
            hindsight.push(message, owner);
        }
        self.slow.push(message, owner);
        self.findings.push(message, owner);
        let sender = self.sender.as_mut();
        let context = sender.and_then(|sender| sender.push(message, owner));
        if let Some((context, slot)) = context.zip(message.group) {
            self.owners.trace(slot, message, context);
        }
    }
}
