//! Accounts that are alike are one finding, and what is said of a service stands together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::diagnosis::descent::deepest;
use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::Role;
use crate::diagnosis::source::unix::is_stand_in;
use crate::diagnosis::tally::Account;
use crate::diagnosis::tree::Node;

/// Go up where siblings lose alike: accounts of one program, or of one service, with the same
/// deepest node are one, unless one of them carries four fifths.
pub(super) fn merged(accounts: Vec<Account<'_>>) -> Vec<Account<'_>> {
    let by_program = |account: &Account<'_>| {
        let service = account.services.iter().next()?;
        // Services behind Unix sockets have no port.
        let alike = match is_stand_in(service) {
            true => service.to_string(),
            false => service.port().to_string(),
        };
        let program = account.programs.iter().next()?;
        Some(format!("{program} {alike}"))
    };
    let by_service =
        |account: &Account<'_>| account.services.iter().next().map(ToString::to_string);
    merged_by(merged_by(accounts, by_program), by_service)
}

fn merged_by<'a>(
    accounts: Vec<Account<'a>>,
    shared: impl Fn(&Account<'a>) -> Option<String>,
) -> Vec<Account<'a>> {
    type Alike = (Option<Node>, Option<String>, Option<Role>, Option<String>);
    let mut alike = BTreeMap::<Alike, Vec<Account<'a>>>::new();
    for account in accounts {
        let root = account.root();
        let node = root.map(|root| deepest(&account.parts(), root).node);
        let role = account.counted.first().map(|counted| counted.wait.key.role);
        let failure = account.failure.map(|failure| failure.to_string());
        let key = (node, failure, role, shared(&account));
        alike.entry(key).or_default().push(account);
    }
    alike.into_values().flat_map(joined).collect()
}

fn joined(accounts: Vec<Account<'_>>) -> Vec<Account<'_>> {
    let lost = |account: &Account<'_>| u128::from(account.lost());
    let whole: u128 = accounts.iter().map(lost).sum();
    let most = accounts.iter().map(lost).max().unwrap_or(0);
    if most * 5 >= whole * 4 {
        return accounts;
    }
    let mut accounts = accounts.into_iter();
    let Some(mut first) = accounts.next() else {
        return Vec::new();
    };
    accounts.for_each(|account| first.merge(account));
    vec![first]
}

/// Put what tells more of the same before what tells less: what was lost and never acknowledged
/// before what waits for the recovery from losses of the same service; and what a program asks
/// before its `vague` services, of which nothing was seen but that they wait for something, if that
/// has a tenth of their time.
pub(super) fn deepened(findings: Vec<Finding>, vague: &BTreeSet<Vec<SocketAddr>>) -> Vec<Finding> {
    let is_loss = |finding: &Finding| matches!(finding.node, Node::AnswerLoss | Node::DeliveryLoss);
    let tells_more = |finding: &Finding, than: &Finding| {
        let is_never = finding.failure.is_some() && is_loss(finding);
        let recovers = than.failure.is_none() && is_loss(than);
        let is_same = than.services == finding.services && than.role == finding.role;
        let is_asleep = matches!(than.node, Node::ServiceAsleep | Node::ServiceUnknown);
        let is_vague = than.role == Role::Serves && is_asleep && vague.contains(&than.services);
        let is_asked = finding.role == Role::Asks
            && finding.programs == than.programs
            && finding.lost.0.saturating_mul(10) >= than.lost.0;
        (is_never && recovers && is_same) || (is_vague && is_asked)
    };
    let mut ordered = Vec::<Finding>::new();
    for finding in findings {
        let before = ordered.iter().position(|than| tells_more(&finding, than));
        ordered.insert(before.unwrap_or(ordered.len()), finding);
    }
    ordered
}

/// Put what is said of a service first before what else is said of the same: with two faults at
/// once each is among the first.
pub(super) fn varied(findings: Vec<Finding>) -> Vec<Finding> {
    let mut told = BTreeSet::new();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for finding in findings {
        let is_known = finding
            .services
            .iter()
            .all(|service| told.contains(service));
        told.extend(finding.services.iter().copied());
        match is_known && !finding.services.is_empty() {
            true => again.push(finding),
            false => first.push(finding),
        }
    }
    first.extend(again);
    first
}
