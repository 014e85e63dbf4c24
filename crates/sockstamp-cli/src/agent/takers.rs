//! Those who take messages one by one.

use sockstamp_model::message::Message;

use super::hindsight::Hindsight;
use super::otlp::Sender;
use super::owners::Owners;
use super::slow::Slow;

/// Each takes what the settings let it have.
#[derive(Debug)]
pub(super) struct Takers {
    /// The last minutes on disk, if they are wanted.
    pub(super) hindsight: Option<Hindsight>,
    /// The way to a receiver of OpenTelemetry's protocol, if there is one.
    pub(super) sender: Option<Sender>,
    /// The last slow messages, for the page.
    pub(super) slow: Slow,
    pub(super) owners: Owners,
}

impl Takers {
    pub(super) fn push(&mut self, message: &Message) {
        let owner = self.owners.of(message);
        if let Some(hindsight) = &mut self.hindsight {
            hindsight.push(message, owner);
        }
        self.slow.push(message, owner);
        let sender = self.sender.as_mut();
        let context = sender.and_then(|sender| sender.push(message, owner));
        if let Some((context, slot)) = context.zip(message.group) {
            self.owners.trace(slot, message, context);
        }
    }
}
