//! Whether a finding is worth saying.

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::Protocol;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::End;

use super::scope::Scope;
use super::tally::{Account, Counted};
use super::tree::Node;

/// As many occasions are no accident.
pub(super) const OCCASIONS: usize = 3;
/// One occasion of this length is one that people noticed.
const LONG: u64 = 1_000_000_000;
/// Failures are worth saying from one in this many attempts.
const FAILED: u64 = 20;
/// Slow waits are worth saying from one in this many, of waits or of time.
const SLOW: u64 = 10;

/// The least length of rare waits, in times of what is slow.
const RARE: u64 = 10;

/// What a finding is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Support {
    pub(super) scope: Scope,
    pub(super) duration: Nanos,
}

impl Support {
    pub(super) fn is_worth(&self, account: &Account<'_>, summary: &Summary) -> bool {
        match account.failure {
            Some(_) => self.is_failing(account, summary),
            None => self.is_repeated(account) && self.is_common(account, summary),
        }
    }

    /// Few of many waits, each much longer than slow ones, that have half of the time of all: who
    /// looks at high quantiles asks for them, and others need not.
    pub(super) fn is_tail(&self, account: &Account<'_>, summary: &Summary) -> bool {
        let all = account.root().and_then(|root| spent(summary, root));
        let times = account.times();
        let least = times.first().copied().unwrap_or(0);
        account.failure.is_none()
            && account.occasions().len() >= OCCASIONS
            && least >= self.scope.slow.0.saturating_mul(RARE)
            && all.is_some_and(|all| u128::from(account.lost()) * 2 >= all)
    }

    /// A command's time is one occasion, if it lost a quarter: its user waits for the whole.
    fn is_repeated(&self, account: &Account<'_>) -> bool {
        let occasions = account.occasions();
        // A connection that its peer closes at last may have been idle.
        let may_be_idle = account.counted.iter().any(ends_by_close);
        let is_long = !may_be_idle && occasions.iter().any(|&length| length > LONG);
        let of_command = self.scope.is_command && account.lost() * 4 >= self.duration.0;
        occasions.len() >= OCCASIONS || is_long || of_command
    }

    /// A tenth of the waits, or of the time of the connections that asked.
    fn is_common(&self, account: &Account<'_>, summary: &Summary) -> bool {
        let slow: u64 = account
            .counted
            .iter()
            .map(|counted| u64::from(counted.wait.weight))
            .sum();
        let all = account
            .tried
            .map(|tried| tried.count)
            .or_else(|| counted(summary, account.root()?));
        let asked = u128::from(self.duration.0) * account.connections() as u128;
        let lost = u128::from(account.lost()) * u128::from(SLOW);
        all.is_some_and(|all| slow * SLOW >= all) || lost >= asked
    }

    /// Three and one in twenty, or all of at least two; or two that took longer than a second each,
    /// and one in ten; or three as long that never arrived, however many others did, and two where
    /// large segments alone do not. The only one of a command is all that it asked for, and the
    /// only one that was never answered is noticed if it took as long.
    fn is_failing(&self, account: &Account<'_>, summary: &Summary) -> bool {
        let failed = account.counted.len() as u64;
        let ended = account.root().and_then(|root| counted(summary, root));
        let all = account.tried.map_or_else(
            || ended.unwrap_or(0).saturating_add(failed),
            |tried| tried.count.max(failed),
        );
        let are_long = account.times().first().is_some_and(|least| *least > LONG);
        let had_no_answer = matches!(account.failure, Some(End::GivenUp | End::TimedOut));
        let is_tcp = |counted: &Counted<'_>| counted.wait.flow.protocol == Protocol::Tcp;
        let is_counted = account.tried.is_some() && account.counted.iter().all(is_tcp);
        let is_noticed = self.scope.is_command || (are_long && had_no_answer && is_counted);
        let is_all = failed == all && (failed >= 2 || is_noticed);
        let cost_time = are_long && failed >= 2 && failed * SLOW >= all;
        let never_arrived = |counted: &Counted<'_>| counted.wait.is_unacknowledged();
        let vanishes = |counted: &Counted<'_>| {
            let seen = &counted.wait.seen;
            never_arrived(counted) && seen.is_large && seen.others_arrive && !seen.large_arrive
        };
        let least = if account.counted.iter().all(vanishes) {
            2
        } else {
            3
        };
        let are_lost = are_long && failed >= least && account.counted.iter().all(never_arrived);
        is_all || cost_time || are_lost || (failed >= 3 && failed * FAILED >= all)
    }
}

fn ends_by_close(counted: &Counted<'_>) -> bool {
    counted.lost.of(Node::RestClose) > 0
}

/// Return the number of waits of this kind in the whole measurement.
fn counted(summary: &Summary, root: Node) -> Option<u64> {
    let stage = |stage: Stage| {
        let histogram = summary.direction(stage.direction()).stages[stage].as_ref();
        histogram.map(|histogram| histogram.count())
    };
    match root {
        Node::Connect => stage(Stage::ConnHandshake),
        Node::Accept => stage(Stage::ConnAccept),
        Node::Answer => stage(Stage::PeerAnswer),
        Node::Service => stage(Stage::AppService),
        Node::Delivery => Some(summary.tx.time(Direction::Tx).count()),
        Node::Read => Some(summary.rx.time(Direction::Rx).count()),
        _ => None,
    }
}

/// Return the time of all waits of this kind in the whole measurement.
fn spent(summary: &Summary, root: Node) -> Option<u128> {
    let stage = match root {
        Node::Answer => Stage::PeerAnswer,
        Node::Service => Stage::AppService,
        _ => return None,
    };
    let all = summary.direction(stage.direction()).stages[stage].as_ref();
    all.map(Histogram::sum_ns)
}
