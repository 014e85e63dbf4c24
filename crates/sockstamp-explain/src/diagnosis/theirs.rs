//! Notes whose the services are that waits are for, where these are on this host.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::flow::NetnsInode;

use super::slow::Slow;
use super::there::There;
use super::tree::Node;

/// By the namespace of the end that asks, and the address of the service.
pub(super) type Known = BTreeMap<(NetnsInode, SocketAddr), There>;

/// Note whose services are waited for.
pub(super) fn note(waits: &mut [Slow], known: &Known) {
    let asks = |wait: &&mut Slow| wait.key.root == Node::Answer;
    for wait in waits.iter_mut().filter(asks) {
        let service = (wait.flow.netns, wait.key.service);
        wait.seen.there = known.get(&service).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, flow, summary};
    use super::super::{Case, Scope};
    use super::*;

    #[test]
    fn a_peer_on_this_host_is_not_beyond_it() {
        let told = |there: Option<There>| {
            let mut case = Case::new(Scope::default());
            let to = flow("10.0.0.1:40000", "10.0.0.2:8000");
            for end in [200, 900, 1_600, 2_400] {
                case.message(&answer(to, "app", end, 120));
            }
            let (_, asked) = case.asked().into_iter().next().unwrap();
            assert_eq!(asked, to.local);
            if let Some(there) = there {
                case.there(to.netns, to.remote, there);
            }
            case.diagnose(&summary()).findings[0].sentence.clone()
        };
        assert!(told(None).contains("beyond this host"));
        let known = There {
            process: Some((7, "python3".into())),
            netns: Some("blue".into()),
        };
        assert!(told(Some(known)).ends_with(
            "the work of python3 (PID 7), in network namespace blue of this host; or the way \
                 there and back"
        ));
    }
}
