//! Choose slow messages that show what slow ones are like.

use sockstamp_model::message::Message;

use crate::cause::Cause;
use crate::sample::Sample;

/// Messages that are shown.
const SHOWN: usize = 3;

/// A sample of slow messages.
#[derive(Debug, Default)]
pub struct Lives(Sample<Message>);

impl Lives {
    pub(crate) fn add(&mut self, message: &Message) {
        self.0.add(|| message.clone());
    }

    /// Return those of a cause that are at a quarter, the half and three quarters of them by time,
    /// the fastest first; fewer if there are no more.
    #[must_use]
    pub fn typical(self, cause: &Cause) -> Vec<Message> {
        let mut of_cause = self.0.into_kept();
        of_cause.retain(|message| cause.covers(message));
        of_cause.sort_by_key(|message| cause.kind().time(message));
        let count = of_cause.len();
        let mut places: Vec<usize> = (1..=SHOWN).map(|place| place * count / (SHOWN + 1)).collect();
        places.dedup();
        let chosen = places.into_iter().filter_map(|place| of_cause.get(place));
        chosen.cloned().collect()
    }
}
