//! Keep messages of a live run, for the passes over them.

use fastrand::Rng;
use sockstamp_model::message::Message;

use crate::measure::Observer;

/// Messages that are kept: a few hundred megabytes.
const KEPT: usize = 400_000;

/// Keeps all messages, every second one by chance, every fourth one, …: those of the whole run, in
/// bounded memory. One that is kept counts for those that are not.
#[derive(Debug)]
pub(super) struct Kept {
    messages: Vec<Message>,
    most: usize,
    /// The logarithm to base 2 of what one counts for.
    thinned: u32,
    chance: Rng,
}

impl Default for Kept {
    fn default() -> Self {
        Self::new(KEPT)
    }
}

impl Kept {
    fn new(most: usize) -> Self {
        Self {
            messages: Vec::new(),
            most,
            thinned: 0,
            chance: Rng::new(),
        }
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Return how many messages one stands for.
    pub(super) const fn one_in(&self) -> u64 {
        1 << self.thinned
    }

    /// By chance: questions and answers alternate, so every second one may be of one direction.
    fn thin(&mut self) {
        let chance = &mut self.chance;
        self.messages.retain(|_| chance.bool());
        for message in &mut self.messages {
            message.weight = message.weight.saturating_mul(2);
        }
        self.thinned += 1;
    }
}

impl Observer for Kept {
    fn message(&mut self, message: &Message) {
        if self.messages.len() >= self.most {
            self.thin();
        }
        if self.chance.u64(..self.one_in()) == 0 {
            let one_in = u32::try_from(self.one_in()).unwrap_or(u32::MAX);
            let weight = message.weight.saturating_mul(one_in);
            self.messages.push(Message {
                weight,
                ..message.clone()
            });
        }
    }

    fn round_is_over(&mut self) -> bool {
        true
    }

    fn wants_containers(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_explain::{Border, Claim, Kind, Least};
    use sockstamp_model::clock::{Nanos, Timestamp};
    use sockstamp_model::fixture;
    use sockstamp_model::flow::SocketCookie;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;
    use crate::explain::causes;

    const SEEN: u64 = 100_000;
    const MOST: usize = 6000;

    /// Keep reads, the last tenth of which are late at times.
    fn kept(seed: u64) -> Kept {
        let mut kept = Kept::new(MOST);
        kept.chance = Rng::with_seed(seed);
        let mut usual = Rng::with_seed(seed);
        for number in 0..SEEN {
            let mut message = fixture::message(Direction::Rx);
            message.weight = 3;
            message.flow.cookie = SocketCookie(number % 50);
            message.time = Timestamp::from_nanos(number * 1_000_000);
            message.stages[Stage::RxStack] = Some(Nanos(10_000 + usual.u64(..10_000)));
            let is_late = number > SEEN * 9 / 10 && usual.u8(..5) == 0;
            message.stages[Stage::RxApp] = Some(Nanos(if is_late { 20_000_000 } else { 5000 }));
            kept.message(&message);
            assert!(kept.messages.len() <= MOST);
        }
        kept
    }

    #[test]
    fn messages_of_the_whole_run_are_kept_and_count_for_all() {
        for seed in 0..5 {
            let kept = kept(seed);
            let weight: u64 = kept
                .messages()
                .iter()
                .map(|one| u64::from(one.weight))
                .sum();
            assert!(weight.abs_diff(3 * SEEN) < 3 * SEEN / 10, "{weight}");
            assert!(
                kept.messages().len() * 3 > MOST,
                "{}",
                kept.messages().len()
            );
            assert!(
                kept.messages()
                    .iter()
                    .all(|one| u64::from(one.weight) == 3 * kept.one_in())
            );
            let half = Timestamp::from_nanos(SEEN / 2 * 1_000_000);
            let early = kept.messages().iter().filter(|one| one.time < half).count();
            assert!(
                early.abs_diff(kept.messages().len() / 2) < MOST / 20,
                "{early}"
            );
        }
    }

    #[test]
    fn a_cause_late_in_a_long_run_is_seen() {
        let kept = kept(7);
        let each = |_, take: &mut dyn FnMut(&Message)| {
            kept.messages().iter().for_each(take);
            Ok(())
        };
        let (explained, _) = causes::of(Border::default(), Least::default(), each).unwrap();
        let reads = explained
            .iter()
            .find(|one| one.explanation.kind == Kind::Read);
        let explanation = &reads.unwrap().explanation;
        // One stretch of eight seconds: another run need not have it.
        assert_eq!(explanation.claim, Claim::Suspect, "{explanation:?}");
        assert_eq!(explanation.carried[0].component.stage, Stage::RxApp);
    }
}
