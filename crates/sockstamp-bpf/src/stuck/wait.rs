//! Derive a wait in the words of the model from looks at a socket, one after the other.

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, Opened};
use sockstamp_model::wait::{End, Evidence, Kind, Wait};

use super::judge::{Look, Verdict};
use crate::abi;
use crate::abi::raw::stuck_socket;
use crate::wait::record;

const SYN_SENT: u8 = 2;

/// A wait that goes on, and how well it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The wait, until the look.
    pub wait: Wait,
    /// The age is a lower bound: nothing tells when the wait began.
    pub at_least: bool,
    /// The socket was the last to speak, at once after the peer: its task waits for an answer, or
    /// is pushed to.
    pub or_pushed_to: bool,
}

/// The results of the looks before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct History {
    now: u64,
    copied_seq: u32,
    write_seq: u32,
    receives: u32,
    /// Since when the first unread byte is known to be unread.
    unread_since: u64,
    /// The socket was the last to speak.
    spoke_last: bool,
    /// The socket has gone on sending since, and nothing came.
    one_way: bool,
}

impl History {
    pub(super) fn of(look: &Look<'_>, before: Option<&Self>) -> Self {
        let socket = look.socket;
        let newest = socket.now.saturating_sub(socket.connection.received_ago);
        let unread_since = match before {
            Some(before)
                if socket.connection.unread > 0 && before.copied_seq == socket.copied_seq =>
            {
                before.unread_since.min(newest)
            }
            _ => newest,
        };
        let goes_on = before.is_some_and(|before| {
            let sent = before.write_seq != socket.write_seq;
            before.spoke_last && sent && before.receives == socket.receives
        });
        Self {
            now: socket.now,
            copied_seq: socket.copied_seq,
            write_seq: socket.write_seq,
            receives: socket.receives,
            unread_since,
            spoke_last: look.spoke_last(),
            one_way: goes_on && !look.is_slept_for(),
        }
    }

    /// Correct what this look alone has shown.
    pub(super) fn judge(&self, verdict: Verdict) -> Option<Verdict> {
        match verdict.kind {
            Kind::Answer if self.one_way => None,
            Kind::Read => Some(Verdict {
                age: Nanos(self.now.saturating_sub(self.unread_since)),
                ..verdict
            }),
            _ => Some(verdict),
        }
    }
}

/// Describe a wait that goes on.
pub(super) fn open(socket: &stuck_socket, opened: Opened, verdict: Verdict) -> Open {
    let (pid, comm) = match socket.waiter_pid {
        0 => (socket.flow.pid, socket.flow.comm),
        waiter => (waiter, socket.waiter_comm),
    };
    let mut identity = socket.flow;
    identity.comm = comm;
    let wait = Wait {
        kind: verdict.kind,
        flow: abi::flow(&identity),
        opened: Some(opened),
        cgroup: CgroupId(identity.cgroup),
        pid,
        comm: abi::comm(&identity),
        since: Timestamp::from_nanos(socket.now.saturating_sub(verdict.age.as_nanos())),
        lasted: verdict.age,
        inside: verdict.age,
        end: End::Open,
        members: socket.backlog.max(1),
        bytes: u64::from(verdict.bytes),
        evidence: evidence(socket, verdict),
    };
    Open {
        wait,
        at_least: verdict.at_least,
        or_pushed_to: verdict.or_pushed_to,
    }
}

fn evidence(socket: &stuck_socket, verdict: Verdict) -> Evidence {
    let asked = socket.now.saturating_sub(verdict.age.as_nanos());
    let acknowledged = (socket.delivered_us * 1000).checked_sub(asked);
    let is_acknowledged = verdict.kind == Kind::Answer && verdict.bytes == 0;
    let shut_out = socket.connection.peer_window == 0 && socket.connection.unsent > 0;
    Evidence {
        acknowledged: acknowledged.filter(|_| is_acknowledged).map(Nanos),
        syns: (socket.state == SYN_SENT).then(|| 1 + u32::from(socket.retransmits)),
        window_closed: shut_out.then_some(verdict.age),
        connection: match verdict.kind {
            Kind::Accept => None,
            _ => record::connection(&socket.connection),
        },
        ..Evidence::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::raw::stuck_watch;

    fn history(socket: &stuck_socket, before: Option<&History>) -> History {
        let look = Look {
            socket,
            tick: Nanos::from_millis(4),
            accepted: true,
        };
        History::of(&look, before)
    }

    fn verdict(kind: Kind) -> Verdict {
        Verdict {
            kind,
            age: Nanos(7),
            at_least: false,
            or_pushed_to: false,
            bytes: 1,
        }
    }

    #[test]
    fn bytes_are_unread_since_a_look_that_saw_the_same_first_one() {
        let mut socket = stuck_socket {
            now: 1_000_000,
            copied_seq: 5,
            ..stuck_socket::default()
        };
        socket.connection.unread = 9;
        socket.connection.received_ago = 100;
        let first = history(&socket, None);
        (socket.now, socket.connection.received_ago) = (3_000_000, 10);
        let second = history(&socket, Some(&first));
        let judged = second.judge(verdict(Kind::Read)).unwrap();
        assert_eq!(judged.age, Nanos(2_000_100));
        socket.copied_seq = 6;
        let third = history(&socket, Some(&second));
        assert_eq!(third.judge(verdict(Kind::Read)).unwrap().age, Nanos(10));
    }

    /// A socket that was the last to speak.
    fn speaker() -> stuck_socket {
        let mut socket = stuck_socket {
            sends: 3,
            receives: 1,
            write_seq: 5,
            ..stuck_socket::default()
        };
        (socket.connection.sent_ago, socket.connection.received_ago) = (10, 20);
        socket
    }

    #[test]
    fn who_goes_on_sending_while_nothing_comes_waits_for_no_answer() {
        let mut socket = speaker();
        let first = history(&socket, None);
        assert!(first.judge(verdict(Kind::Answer)).is_some());
        socket.write_seq = 10;
        let second = history(&socket, Some(&first));
        assert_eq!(second.judge(verdict(Kind::Answer)), None);
        let third = history(&socket, Some(&second));
        assert!(third.judge(verdict(Kind::Answer)).is_some());
        // A task that sleeps for it asks again.
        socket.watch = stuck_watch::STUCK_IN_CALL;
        let asked_again = history(&socket, Some(&first));
        assert!(asked_again.judge(verdict(Kind::Answer)).is_some());
    }

    #[test]
    fn who_asks_between_two_looks_waits_for_an_answer() {
        let mut socket = speaker();
        socket.connection.received_ago = 0;
        let first = history(&socket, None);
        let mut socket = speaker();
        socket.write_seq = 10;
        let second = history(&socket, Some(&first));
        assert!(second.judge(verdict(Kind::Answer)).is_some());
    }
}
