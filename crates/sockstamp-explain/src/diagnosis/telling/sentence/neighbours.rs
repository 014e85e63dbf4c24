//! Next hops on the way to a peer: what was seen of their link addresses.

use crate::diagnosis::evidence::neighbour::{Flips, Neighbour, NextHop};
use crate::diagnosis::tally::Account;

/// Return the end of a sentence about a next hop whose link address may be wrong.
pub(super) fn neighbour(account: &Account<'_>) -> String {
    let found = set_neighbour(account).or_else(|| flips(account));
    found.unwrap_or_default()
}

/// The next hop that does not answer, where it was seen.
pub(super) fn silent_neighbour(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let Neighbour {
        address, device, ..
    } = seen.find_map(|seen| seen.neighbour.clone())?;
    Some(format!("{address} on {device}"))
}

/// The next hop whose link address packets waited for, where it was found.
pub(super) fn next_hop(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let NextHop { address, device } = seen.find_map(|seen| seen.next_hop.clone())?;
    Some(format!("{address} on {device}"))
}

/// The next hop whose link address was set by hand, where all waits go by such a one.
fn set_neighbour(account: &Account<'_>) -> Option<String> {
    let seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let all: Option<Vec<_>> = seen.map(|seen| seen.set_neighbour.as_ref()).collect();
    let Neighbour {
        address, device, ..
    } = all?.into_iter().next()?;
    Some(format!(
        "; nothing comes from there, and somebody set the link address of {address} on {device} \
         (PERMANENT, ip neigh): it may be another host's"
    ))
}

/// The next hop whose link address changed back and forth, where all waits go by such a one.
fn flips(account: &Account<'_>) -> Option<String> {
    let seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let all: Option<Vec<_>> = seen.map(|seen| seen.flips.as_ref()).collect();
    let Flips {
        address,
        device,
        changes,
        between: [one, other],
        ..
    } = all?.into_iter().next()?;
    Some(format!(
        "; the link address of {address} on {device} changed {changes} times meanwhile, from {one} \
         to {other} and back: two hosts have this address, or seem to (ip monitor neigh)"
    ))
}
