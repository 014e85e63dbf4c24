//! Waits for something that is lost, reset or refused, and next hops whose link addresses change:
//! where two hosts have one address, the answers are now of one and now of the other.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sockstamp_model::flow::NetnsInode;

use super::{lossy, unheard};
use crate::diagnosis::evidence::neighbour::Flips;
use crate::diagnosis::slow::Slow;

/// By namespace and peer.
pub(in crate::diagnosis) type Changes = BTreeMap<(NetnsInode, IpAddr), Flips>;

/// Return true for a wait that failed, or may have lost what it was for.
pub(in crate::diagnosis) fn is_troubled(wait: &Slow) -> bool {
    wait.how.is_failure() || lossy::is_lossy(wait) || unheard::is_unheard(wait)
}

/// Note next hops whose link addresses changed back and forth meanwhile.
pub(in crate::diagnosis) fn note(waits: &mut [Slow], changes: &Changes) {
    for wait in waits.iter_mut().filter(|wait| is_troubled(wait)) {
        let flips = changes.get(&(wait.flow.netns, wait.peer()));
        wait.seen.flips = flips.filter(|flips| wait.meets(flips.time)).cloned();
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::wait::{End, Kind, Waits};

    use super::*;
    use crate::diagnosis::tests::{at, summary, wait};
    use crate::diagnosis::{Case, Scope};

    #[test]
    fn two_hosts_with_one_address_are_named_beside_what_they_reset() {
        let told_at = |end: End, changes: u32, time: u64| {
            let mut case = Case::new(Scope::default());
            case.waits(&Waits {
                list: (0..4)
                    .map(|of| wait(Kind::Answer, end, of * 900, 120))
                    .collect(),
                ..Waits::default()
            });
            for (from, peer) in case.troubled() {
                let flips = Flips {
                    address: peer,
                    device: "eth0".into(),
                    changes,
                    between: ["02:00:00:00:00:01".into(), "02:00:00:00:00:02".into()],
                    time: (at(time).unwrap(), at(time + 3_000).unwrap()),
                };
                case.flips(from, peer, flips);
            }
            case.diagnose(&summary()).findings[0].sentence.clone()
        };
        let told = |end, changes| told_at(end, changes, 0);
        assert!(
            told(End::Reset, 5).ends_with(
                "met a connection that was reset; the link address of 10.0.0.2 on eth0 changed 5 \
                 times meanwhile, from 02:00:00:00:00:01 to 02:00:00:00:00:02 and back: two hosts \
                 have this address, or seem to (ip monitor neigh)"
            ),
            "{}",
            told(End::Reset, 5)
        );
        // An answer that is slow alone tells nothing of that.
        assert!(!told(End::Data, 5).contains("link address"));
        // The addresses changed later.
        assert!(!told_at(End::Reset, 5, 10_000).contains("link address"));
    }
}
