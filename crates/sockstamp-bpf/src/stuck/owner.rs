//! Choose the process that a socket's wait belongs to: forks and handed-over sockets have several.

use std::collections::BTreeMap;

use crate::abi::raw::stuck_socket;

/// Keep one record of each socket.
pub(super) fn one_each(records: Vec<stuck_socket>) -> Vec<stuck_socket> {
    let mut sockets = BTreeMap::<u64, stuck_socket>::new();
    for record in records {
        let kept = sockets.entry(record.socket).or_insert(record);
        if preference(&record) < preference(kept) {
            *kept = record;
        }
    }
    sockets.into_values().collect()
}

/// A process whose task sleeps for the socket comes first, then the one that was there first.
fn preference(record: &stuck_socket) -> (bool, u32) {
    (record.flow.pid != record.waiter_pid, record.flow.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(socket: u64, pid: u32, waiter_pid: u32) -> stuck_socket {
        let mut record = stuck_socket {
            socket,
            waiter_pid,
            ..stuck_socket::default()
        };
        record.flow.pid = pid;
        record
    }

    #[test]
    fn a_socket_belongs_to_the_process_that_sleeps_for_it() {
        let records = vec![
            held(1, 10, 12),
            held(1, 12, 12),
            held(1, 11, 12),
            held(2, 21, 0),
            held(2, 20, 0),
        ];
        let owners: Vec<_> = one_each(records).iter().map(|kept| kept.flow.pid).collect();
        assert_eq!(owners, [12, 20]);
    }
}
