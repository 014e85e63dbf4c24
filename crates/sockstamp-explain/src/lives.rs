//! A sample of slow messages, from which typical ones are chosen.

use sockstamp_model::message::Message;

use crate::sample::Sample;

/// A sample of slow messages.
#[derive(Debug, Default)]
pub struct Lives(Sample<Message>);

impl Lives {
    pub(crate) fn add(&mut self, message: &Message) {
        self.0.add(|| message.clone());
    }

    pub(crate) fn into_kept(self) -> Vec<Message> {
        self.0.into_kept()
    }
}
