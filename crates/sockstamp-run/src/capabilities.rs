//! The capabilities of threads beside the one that measures.

use anyhow::{Context, Result};
use caps::CapSet;
pub use caps::Capability;

use crate::escape::complain;

/// Give up all capabilities of the calling thread but these, for good: a fault of a thread that
/// serves others, or reads their files, then reaches no further than its work. Report it where the
/// kernel refuses, as a seccomp filter may: the thread works all the same.
pub fn keep(kept: &[Capability]) {
    if let Err(error) = try_to_keep(kept) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a");
        complain(format_args!(
            "the thread {name} keeps all capabilities: {error:#}"
        ));
    }
}

fn try_to_keep(kept: &[Capability]) -> Result<()> {
    // Ambient ones go with those that are not inheritable (capabilities(7)).
    caps::clear(None, CapSet::Inheritable).context("cannot drop inheritable ones")?;
    // The permitted ones last: those in effect must be among them.
    for set in [CapSet::Effective, CapSet::Permitted] {
        let held = caps::read(None, set).context("cannot read them")?;
        let kept = held.into_iter().filter(|held| kept.contains(held));
        caps::set(None, set, &kept.collect()).context("cannot drop them")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Run as root; without privilege there is nothing to drop.
    #[test]
    fn a_thread_keeps_what_it_needs_and_others_keep_all() {
        let held = || caps::read(None, CapSet::Effective).unwrap();
        let before = held();
        let sets = thread::spawn(|| {
            try_to_keep(&[Capability::CAP_NET_RAW]).unwrap();
            [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable]
                .map(|set| caps::read(None, set).unwrap())
        });
        let net_raw = before.iter().copied();
        let net_raw = net_raw
            .filter(|held| *held == Capability::CAP_NET_RAW)
            .collect();
        let [effective, permitted, inheritable] = sets.join().unwrap();
        assert_eq!((&effective, &permitted), (&net_raw, &net_raw));
        assert!(inheritable.is_empty());
        assert_eq!(held(), before);
    }
}
