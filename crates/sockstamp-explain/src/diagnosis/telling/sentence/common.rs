//! Traits that the waits of an account have in common.

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::End;

use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::Seen;
use crate::diagnosis::tally::Account;

/// All of them are parts of waits.
pub(super) fn is_part(account: &Account<'_>) -> bool {
    account
        .counted
        .iter()
        .all(|counted| counted.wait.seen.is_part)
}

/// None of them has ended.
pub(super) fn is_open(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    counted.all(|counted| counted.wait.how == End::Open)
}

/// Return true if all that the waits sent was acknowledged.
pub(super) fn are_heard(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    counted.all(|counted| counted.wait.seen.heard)
}

/// Return the round trip of the connections that wait at the end, if it is a tenth of the waits at
/// most: what was sent there was acknowledged, so that neither way is long.
pub(super) fn short_way(finding: &Finding, account: &Account<'_>) -> Option<Nanos> {
    let acknowledged = open(account).filter(|seen| seen.heard);
    let longest = acknowledged.filter_map(|seen| seen.smoothed_rtt).max()?;
    (longest.saturating_mul(10) <= finding.typical.0).then_some(Nanos(longest))
}

/// Return true for waits of which half take the least time, but for a twentieth, and nearly all but
/// for a fifth: a timer ends them, and tasks run somewhat later.
pub(super) fn are_same(account: &Account<'_>) -> bool {
    const LEAST: usize = 5;
    /// A twentieth of it is more than tasks wait for a CPU.
    const LONG: u64 = 50_000_000;
    let times = account.times();
    let Some(&least) = times.first().filter(|least| **least >= LONG) else {
        return false;
    };
    let middle = times[times.len() / 2];
    let most = times[times.len() - 1 - times.len() / 10];
    let are_even = (middle - least) * 20 <= middle && (most - least) * 5 <= most;
    let mut counted = account.counted.iter();
    are_even && times.len() >= LEAST && counted.all(|counted| counted.wait.how == End::Data)
}

/// Connections that were opened for one request each.
pub(super) fn is_chain(account: &Account<'_>) -> bool {
    account
        .counted
        .iter()
        .all(|counted| counted.wait.seen.members > 1)
}

pub(super) fn has_chains(account: &Account<'_>) -> bool {
    account
        .counted
        .iter()
        .any(|counted| counted.wait.seen.members > 1)
}

pub(super) fn open<'a>(account: &'a Account<'_>) -> impl Iterator<Item = &'a Seen> {
    let counted = account.counted.iter().map(|counted| counted.wait);
    counted
        .filter(|wait| wait.how == End::Open)
        .map(|wait| &wait.seen)
}

/// Return how many connections wait at the end.
pub(super) fn now(account: &Account<'_>) -> u64 {
    open(account).map(|seen| u64::from(seen.members)).sum()
}

pub(super) fn oldest(account: &Account<'_>) -> Nanos {
    Nanos(open(account).map(|seen| seen.age).max().unwrap_or(0))
}

/// The age of one that is open is a lower bound.
pub(super) fn open_of_unknown_age(account: &Account<'_>) -> bool {
    open(account).any(|seen| seen.may_be_older)
}

/// All of them are open, and have a lower bound as their age.
pub(super) fn is_of_unknown_age(account: &Account<'_>) -> bool {
    is_open(account) && open(account).all(|seen| seen.may_be_older)
}

/// Waits that overlap are one occasion, also where one follows the other all the time.
pub(super) fn are_at_once(finding: &Finding, account: &Account<'_>) -> bool {
    match account.occasions()[..] {
        [length] => length <= finding.worst.0.saturating_mul(2),
        _ => false,
    }
}
