//! Count connections that did not come to be.

use std::collections::BTreeMap;

use serde::Serialize;
use sockstamp_explain::Kind;
use sockstamp_model::message::Message;

/// The numbers of failed connects and accepts, by the name of their verdict.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Failed(BTreeMap<&'static str, BTreeMap<&'static str, u64>>);

impl Failed {
    pub(super) fn add(&mut self, message: &Message) {
        let mut kinds = Kind::ALL.into_iter();
        if let Some(kind) = kinds.find(|kind| kind.has_failed(message)) {
            let verdicts = self.0.entry(kind.name()).or_default();
            *verdicts.entry(message.verdict.name()).or_default() += u64::from(message.weight);
        }
    }

    /// Return the number of a kind, and each verdict with its own, the largest first.
    pub(super) fn of(&self, kind: Kind) -> Option<(u64, Vec<(&'static str, u64)>)> {
        let mut verdicts: Vec<_> = self
            .0
            .get(kind.name())?
            .iter()
            .map(|(name, n)| (*name, *n))
            .collect();
        verdicts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some((verdicts.iter().map(|(_, count)| count).sum(), verdicts))
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::fixture;
    use sockstamp_model::stage::{Direction, Stage};
    use sockstamp_model::verdict::Verdict;

    use super::*;

    #[test]
    fn only_connections_that_failed_are_counted() {
        let of = |stage, verdict, weight| {
            let mut message = fixture::message(Direction::Tx);
            message.stages[stage] = Some(Nanos(7));
            message.verdict = verdict;
            message.weight = weight;
            message
        };
        let mut failed = Failed::default();
        for message in [
            of(Stage::ConnHandshake, Verdict::Valid, 1),
            of(Stage::TxCopy, Verdict::Split, 1),
            of(Stage::ConnHandshake, Verdict::ConnectRefused, 1),
            of(Stage::ConnHandshake, Verdict::ConnectTimeout, 3),
            of(Stage::ConnAccept, Verdict::Unaccepted, 2),
        ] {
            failed.add(&message);
        }
        let connects = vec![("connect-timeout", 3), ("connect-refused", 1)];
        assert_eq!(failed.of(Kind::Connect), Some((4, connects)));
        assert_eq!(failed.of(Kind::Accept), Some((2, vec![("unaccepted", 2)])));
        assert_eq!(failed.of(Kind::Sent), None);
    }
}
