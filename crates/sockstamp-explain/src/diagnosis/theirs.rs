//! Notes whose the services are that waits are for, where these are on this host. A service may
//! have a process for each connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::flow::NetnsInode;

use super::slow::Slow;
use super::there::There;
use super::tree::Node;

/// By the namespace of the end that asks, the address of the service, and that of the end itself.
pub(super) type Known = BTreeMap<(NetnsInode, SocketAddr, SocketAddr), There>;

/// Note whose services are waited for.
pub(super) fn note(waits: &mut [Slow], known: &Known) {
    let asks = |wait: &&mut Slow| wait.key.root == Node::Answer;
    for wait in waits.iter_mut().filter(asks) {
        wait.seen.there = find(wait, known).cloned();
    }
}

/// Return the program at the other end of the connection, or else of another one to the service.
fn find<'a>(wait: &Slow, known: &'a Known) -> Option<&'a There> {
    let (netns, service) = (wait.flow.netns, wait.key.service);
    let is_of = |(of, at, _): &(NetnsInode, SocketAddr, SocketAddr)| (*of, *at) == (netns, service);
    let others = || known.iter().find(|(ends, _)| is_of(ends));
    let own = known.get(&(netns, service, wait.flow.local));
    own.or_else(|| others().map(|(_, there)| there))
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
            let asked = case.asked().into_iter().next().unwrap();
            assert_eq!(asked, (to.netns, to.remote, to.local));
            if let Some(there) = there {
                case.there(asked, there);
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
    #[test]
    fn a_service_may_have_a_process_for_each_connection() {
        let mut case = Case::new(Scope::default());
        for of in 0..2 {
            let to = flow(&format!("10.0.0.1:4000{of}"), "10.0.0.2:5432");
            for end in [200, 900, 1_600, 2_400] {
                case.message(&answer(to, "app", end + u64::from(of) * 150, 120));
            }
            let backend = There {
                process: Some((7 + of, "postgres".into())),
                netns: None,
            };
            case.there((to.netns, to.remote, to.local), backend);
        }
        let said = case.diagnose(&summary()).findings[0].sentence.clone();
        assert!(
            said.ends_with(
                "the work of postgres (2 processes), on this host; or the way there and back"
            ),
            "{said}"
        );
    }
}
