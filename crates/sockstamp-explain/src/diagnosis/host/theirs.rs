//! Notes whose the services are that waits are for, where these are on this host. A service may
//! have a process for each connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::diagnosis::evidence::there::There;
use crate::diagnosis::slow::Slow;
use crate::diagnosis::tree::Node;

/// By the namespace of the end that asks, the address of the service, and that of the end itself.
pub(in crate::diagnosis) type Known = BTreeMap<(NetnsInode, SocketAddr, SocketAddr), There>;

/// The namespace that asks, the service, and true for waits that failed: these may have met another
/// process than those that were answered.
type Fate = (NetnsInode, SocketAddr, bool);

fn fate(wait: &Slow) -> Fate {
    (wait.flow.netns, wait.key.service, wait.is_failure())
}

/// Note whose services are waited for.
pub(in crate::diagnosis) fn note(waits: &mut [Slow], known: &Known) {
    let mut alike = BTreeMap::<Fate, BTreeSet<_>>::new();
    for wait in waits.iter().filter(|wait| asks(wait)) {
        let process = own(wait, known).and_then(|there| there.process.clone());
        alike.entry(fate(wait)).or_default().extend(process);
    }
    for wait in waits.iter_mut().filter(|wait| asks(wait)) {
        let processes = alike.get(&fate(wait));
        let only = processes.filter(|processes| processes.len() == 1);
        wait.seen.there = find(wait, known, only.and_then(BTreeSet::first));
    }
}

/// Return true for a wait that the program at the other end may end.
const fn asks(wait: &Slow) -> bool {
    matches!(wait.key.root, Node::Answer | Node::Connect)
}

/// Return the program at the other end of the connection itself.
fn own<'a>(wait: &Slow, known: &'a Known) -> Option<&'a There> {
    known.get(&(wait.flow.netns, wait.key.service, wait.flow.local))
}

/// Return the program at the other end of the connection, or else of others to the service: the
/// `only` process that those of the same fate met, if they met one; of several it may be any. A
/// socket that was closed while its holder was looked for has none.
fn find(wait: &Slow, known: &Known, only: Option<&(u32, Name)>) -> Option<There> {
    let own = own(wait, known);
    if own.is_some_and(|own| own.process.is_some()) {
        return own.cloned();
    }
    let (netns, service) = (wait.flow.netns, wait.key.service);
    let is_of = |(of, at, _): &(NetnsInode, SocketAddr, SocketAddr)| (*of, *at) == (netns, service);
    let least = SocketAddr::from(([0, 0, 0, 0], 0));
    let of_service = known.range((netns, service, least)..);
    let of_service = of_service.take_while(|(ends, _)| is_of(ends));
    let all: Vec<_> = of_service.map(|(_, there)| there).collect();
    let mut others = all.iter().filter(|there| there.process.is_some());
    if let Some(met) = others.clone().find(|there| there.process.as_ref() == only) {
        return Some((**met).clone());
    }
    let Some(first) = others.next() else {
        return all.first().copied().cloned();
    };
    match others.all(|other| other.process == first.process) {
        true => Some((**first).clone()),
        false => Some((**first).clone().of_any_process()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::tests::{answer, flow, summary};
    use crate::diagnosis::{Case, Scope};

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
    /// One of several processes of a service hangs: a connection that nobody looked for may be of
    /// any of them, unless all that are known are of one.
    #[test]
    fn a_connection_of_an_unknown_process_is_of_any() {
        let told = |pids: [u32; 2]| {
            let mut case = Case::new(Scope::default());
            for (of, pid) in [(0_u64, Some(pids[0])), (1, Some(pids[1])), (2, None)] {
                let to = flow(&format!("10.0.0.1:4000{of}"), "10.0.0.2:8000");
                for end in [200, 900, 1_600] {
                    case.message(&answer(to, "app", end + of * 150, 120));
                }
                if let Some(pid) = pid {
                    let process = Some((pid, "web".into()));
                    let ends = (to.netns, to.remote, to.local);
                    case.there(
                        ends,
                        There {
                            process,
                            netns: None,
                        },
                    );
                }
            }
            case.diagnose(&summary()).findings[0].sentence.clone()
        };
        let (one, several) = (told([7, 7]), told([7, 8]));
        assert!(one.contains("the work of web (PID 7)"), "{one}");
        assert!(
            several.contains("the work of web (2 processes)"),
            "{several}"
        );
    }
}
