//! Find pairs of sockets by which a process wakes itself: an event loop watches one end, and other
//! threads or handlers of signals write to the other one (pika, the JVM and libuv on some systems).
//! Nobody waits for an answer on them.
//!
//! A program that asks a service of its own holds both ends of such a connection, too. Its service
//! still listens; who makes a pair closes the listener at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rustc_hash::FxHashSet;
use sockstamp_model::flow::{NetnsInode, canonical};

use crate::abi;
use crate::abi::raw::stuck_socket;

/// Two ports of one address, as a process has them, in a network namespace.
type Ends = (u32, u32, IpAddr, u16, u16);

/// The network namespace of a process, and the ports on which somebody listens there.
type Listening = Option<(NetnsInode, BTreeSet<u16>)>;

/// Leave out pairs. `listening`: of a process; none if it is not known. A socket in another
/// namespace than its process is no such pair: nothing shows who listens there.
pub(super) fn without(
    mut records: Vec<stuck_socket>,
    listening: impl Fn(u32) -> Listening,
) -> Vec<stuck_socket> {
    let pairs = pairs(&records, listening);
    records.retain(|record| !pairs.contains(&record.socket));
    records
}

fn pairs(records: &[stuck_socket], listening: impl Fn(u32) -> Listening) -> BTreeSet<u64> {
    let all: FxHashSet<Ends> = records.iter().filter_map(ends).collect();
    let is_own = |record: &&stuck_socket| {
        ends(record).is_some_and(|(pid, netns, address, local, remote)| {
            all.contains(&(pid, netns, address, remote, local))
        })
    };
    let mut known = BTreeMap::<u32, Listening>::new();
    let mut is_unserved = |record: &&stuck_socket| {
        let pid = record.flow.pid;
        let listening = known.entry(pid).or_insert_with(|| listening(pid));
        listening.as_ref().is_some_and(|(netns, ports)| {
            let served = [record.flow.local_port, record.flow.remote_port];
            netns.0 == record.flow.netns && !served.iter().any(|port| ports.contains(port))
        })
    };
    let own = records.iter().filter(is_own);
    let own = own.filter(|record| is_unserved(record));
    own.map(|record| record.socket).collect()
}

fn ends(record: &stuck_socket) -> Option<Ends> {
    let flow = abi::flow(&record.flow);
    let [local, remote] = [flow.local, flow.remote].map(canonical);
    (local.ip() == remote.ip()).then(|| {
        let (pid, netns) = (record.flow.pid, record.flow.netns);
        (pid, netns, local.ip(), local.port(), remote.port())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AF_INET, include/linux/socket.h.
    const INET: u16 = 2;

    fn end(socket: u64, pid: u32, local_port: u16, remote_port: u16) -> stuck_socket {
        let mut record = stuck_socket {
            socket,
            ..stuck_socket::default()
        };
        record.flow.pid = pid;
        record.flow.family = INET;
        (record.flow.local_port, record.flow.remote_port) = (local_port, remote_port);
        record
    }

    fn left(records: Vec<stuck_socket>, listening: &[u16]) -> Vec<u64> {
        let listening: BTreeSet<u16> = listening.iter().copied().collect();
        let left = without(records, |_| Some((NetnsInode(0), listening.clone())));
        left.iter().map(|record| record.socket).collect()
    }

    #[test]
    fn a_process_wakes_itself_by_a_pair() {
        let pair = || vec![end(1, 7, 40_000, 50_000), end(2, 7, 50_000, 40_000)];
        assert_eq!(left(pair(), &[80]), Vec::<u64>::new());
        // The program asks a service of its own.
        assert_eq!(left(pair(), &[50_000]), [1, 2]);
        // Not known, and in another namespace than the process.
        let unknown = without(pair(), |_| None);
        assert_eq!(unknown.len(), 2);
        let elsewhere = without(pair(), |_| Some((NetnsInode(1), BTreeSet::new())));
        assert_eq!(elsewhere.len(), 2);
        // Two processes, and another namespace.
        let mut two = pair();
        two[1].flow.pid = 8;
        assert_eq!(left(two, &[]), [1, 2]);
        let mut apart = pair();
        apart[1].flow.netns = 9;
        assert_eq!(left(apart, &[]), [1, 2]);
        let others = vec![end(1, 7, 40_000, 50_000), end(2, 7, 50_000, 40_001)];
        assert_eq!(left(others, &[]), [1, 2]);
    }
}
