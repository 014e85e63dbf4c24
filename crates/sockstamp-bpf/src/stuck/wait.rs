//! Derive a wait in the words of the model from looks at a socket, one after the other.

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, Opened};
use sockstamp_model::wait::{End, Evidence, Kind, Sending, Wait};

use super::judge::{Look, RCV_SHUTDOWN, Verdict};
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
    /// is pushed to. A service was the last to hear, and watches for more: it owes an answer, or
    /// pushes when it has something.
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
    /// The end of what was queued at an earlier look and has not left since.
    unsent: Option<Mark>,
    /// The end of what was unread at an earlier look and has not been read since: who reads late
    /// all the time may never have read all.
    unread: Option<Mark>,
    /// Some has been read since the last look.
    reads: bool,
    /// TCP's clocks at the first look.
    first: Clocks,
    /// The socket was the last to speak.
    spoke_last: bool,
    /// The socket has gone on sending since, and nothing came.
    one_way: bool,
    /// The socket was the last to hear.
    heard_last: bool,
    /// More has come since, and nothing was sent.
    hears_on: bool,
    /// A task has waited for more since what came last.
    was_read: bool,
}

/// The end of a socket's queue at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    seq: u32,
    since: u64,
}

impl Mark {
    /// Return true if bytes before it have not left.
    fn is_behind(self, sent: u32) -> bool {
        self.seq.wrapping_sub(sent).cast_signed() > 0
    }
}

/// Times that TCP counts over the life of a connection, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clocks {
    now: u64,
    window: u64,
    buffer: u64,
    resent: u32,
    dsacks: u32,
    reordered: u32,
    sends: u32,
    receives: u32,
    acknowledged: u64,
}

impl Clocks {
    fn of(socket: &stuck_socket) -> Self {
        Self {
            now: socket.now,
            window: socket.connection.window_limited,
            buffer: socket.connection.buffer_limited,
            resent: socket.connection.resent,
            dsacks: socket.connection.dsacks,
            reordered: socket.connection.reordered,
            sends: socket.connection.sends,
            receives: socket.connection.receives,
            acknowledged: socket.acknowledged,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            now: self.now.saturating_sub(before.now),
            window: self.window.saturating_sub(before.window),
            buffer: self.buffer.saturating_sub(before.buffer),
            resent: self.resent.saturating_sub(before.resent),
            dsacks: self.dsacks.saturating_sub(before.dsacks),
            reordered: self.reordered.saturating_sub(before.reordered),
            sends: self.sends.saturating_sub(before.sends),
            receives: self.receives.saturating_sub(before.receives),
            acknowledged: self.acknowledged.saturating_sub(before.acknowledged),
        }
    }
}

/// Return the mark of what is queued: that of an earlier look, while it has not left.
fn unsent(socket: &stuck_socket, before: Option<&History>) -> Option<Mark> {
    let sent = socket.write_seq.wrapping_sub(socket.connection.unsent);
    let earlier = before.and_then(|before| before.unsent);
    let stays = earlier.filter(|mark| mark.is_behind(sent));
    let now = Mark {
        seq: socket.write_seq,
        since: socket.now,
    };
    stays.or_else(|| (socket.connection.unsent > 0).then_some(now))
}

/// Return the mark of what is unread: that of an earlier look, while it has not been read.
fn unread(socket: &stuck_socket, before: Option<&History>) -> Option<Mark> {
    let earlier = before.and_then(|before| before.unread);
    let stays = earlier.filter(|mark| mark.is_behind(socket.copied_seq));
    let now = Mark {
        seq: socket.copied_seq.wrapping_add(socket.connection.unread),
        since: socket.now,
    };
    stays.or_else(|| (socket.connection.unread > 1).then_some(now))
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
        let hears_on = before.is_some_and(|before| {
            let heard = before.receives != socket.receives;
            before.heard_last && heard && before.write_seq == socket.write_seq
        });
        let was_read =
            before.is_some_and(|before| before.was_read && before.copied_seq == socket.copied_seq);
        Self {
            now: socket.now,
            copied_seq: socket.copied_seq,
            write_seq: socket.write_seq,
            receives: socket.receives,
            heard_last: look.heard_last(),
            hears_on,
            was_read: was_read || look.is_read(),
            unread_since,
            unsent: unsent(socket, before),
            unread: unread(socket, before),
            reads: before.is_some_and(|before| before.copied_seq != socket.copied_seq),
            first: before.map_or_else(|| Clocks::of(socket), |before| before.first),
            spoke_last: look.spoke_last(),
            one_way: goes_on && !look.is_slept_for(),
        }
    }

    /// Return true if a socket has not moved since.
    pub(super) fn is_of(&self, socket: &stuck_socket) -> bool {
        (self.copied_seq, self.write_seq, self.receives)
            == (socket.copied_seq, socket.write_seq, socket.receives)
    }

    /// Return the wait of bytes that have not left since an earlier look.
    pub(super) fn unsent(&self) -> Option<Verdict> {
        let age = self.now.saturating_sub(self.unsent?.since);
        (age > 0).then_some(Verdict {
            kind: Kind::Acknowledgement,
            age: Nanos(age),
            at_least: true,
            or_pushed_to: false,
            bytes: 0,
        })
    }

    /// Return the wait of bytes that have not been read since an earlier look, where others have
    /// been, or where there is no room for more. Few that stay may be of no interest: tickets of
    /// TLS, or notices that are read with the next answer.
    pub(super) fn unread(&self, socket: &stuck_socket) -> Option<Verdict> {
        let age = self.now.saturating_sub(self.unread?.since);
        let is_full = socket.connection.own_window < socket.connection.segment;
        let is_late = age > 0 && socket.shutdown & RCV_SHUTDOWN == 0 && (self.reads || is_full);
        is_late.then_some(Verdict {
            kind: Kind::Read,
            age: Nanos(age),
            at_least: true,
            or_pushed_to: false,
            bytes: socket.connection.unread,
        })
    }

    /// Return what TCP's clocks show of a connection that sent data, or has a rate.
    pub(super) fn sending(&self, socket: &stuck_socket, opened: Opened) -> Option<Sending> {
        let seen = Clocks::of(socket).since(self.first);
        let sending = Sending {
            flow: abi::flow(&socket.flow),
            opened,
            seen_for: Nanos(seen.now),
            window: Nanos(seen.window),
            buffer: Nanos(seen.buffer),
            resent: seen.resent,
            in_vain: seen.dsacks,
            reordered: seen.reordered,
            sends: seen.sends,
            receives: seen.receives,
            acknowledged: seen.acknowledged,
            connection: record::connection(&socket.connection)?,
        };
        (seen.sends > 0 || sending.goes_on()).then_some(sending)
    }

    /// Correct what this look alone has shown.
    pub(super) fn judge(&self, verdict: Verdict) -> Option<Verdict> {
        match verdict.kind {
            Kind::Answer if self.one_way => None,
            Kind::Service if self.hears_on => None,
            Kind::Service => Some(Verdict {
                or_pushed_to: self.was_read,
                ..verdict
            }),
            Kind::Read => {
                let marked = self.unread.map_or(self.now, |mark| mark.since);
                let since = self.unread_since.min(marked);
                Some(Verdict {
                    age: Nanos(self.now.saturating_sub(since)),
                    ..verdict
                })
            }
            _ => Some(verdict),
        }
    }
}

/// Describe a wait that goes on.
pub(super) fn open(
    socket: &stuck_socket,
    opened: Opened,
    verdict: Verdict,
    history: &History,
) -> Open {
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
        evidence: evidence(socket, verdict, history),
    };
    Open {
        wait,
        at_least: verdict.at_least,
        or_pushed_to: verdict.or_pushed_to,
    }
}

fn evidence(socket: &stuck_socket, verdict: Verdict, history: &History) -> Evidence {
    let seen = Clocks::of(socket).since(history.first);
    let is_listener = verdict.kind == Kind::Accept;
    let asked = socket.now.saturating_sub(verdict.age.as_nanos());
    let acknowledged = (socket.delivered_us * 1000).checked_sub(asked);
    let is_acknowledged = verdict.kind == Kind::Answer && verdict.bytes == 0;
    let shut_out = socket.connection.peer_window == 0 && socket.connection.unsent > 0;
    Evidence {
        acknowledged: acknowledged.filter(|_| is_acknowledged).map(Nanos),
        syns: (socket.state == SYN_SENT).then(|| match socket.syn_kept {
            0 => 1 + u32::from(socket.retransmits),
            _ => 0,
        }),
        // Of a longer time than the wait's, they say nothing of it.
        resent: (!is_listener && seen.now > 0 && seen.now <= verdict.age.0).then_some(seen.resent),
        window_closed: match shut_out {
            true => Some(verdict.age),
            false => (seen.window > 0).then(|| Nanos(seen.window.min(verdict.age.0))),
        },
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
        // A part of it was read, and the rest was there at the first look.
        socket.copied_seq = 6;
        let third = history(&socket, Some(&second));
        assert_eq!(
            third.judge(verdict(Kind::Read)).unwrap().age,
            Nanos(2_000_000)
        );
        assert_eq!(third.unread(&socket).unwrap().age, Nanos(2_000_000));
        assert_eq!(second.unread(&socket), None);
        socket.copied_seq = 14;
        let last = history(&socket, Some(&third));
        assert_eq!(last.judge(verdict(Kind::Read)).unwrap().age, Nanos(10));
        assert_eq!(last.unread(&socket), None);
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
    fn who_hears_more_without_an_answer_owes_none() {
        let mut socket = stuck_socket {
            receives: 1,
            copied_seq: 5,
            ..stuck_socket::default()
        };
        let first = history(&socket, None);
        let owed = first.judge(verdict(Kind::Service)).unwrap();
        assert!(!owed.or_pushed_to);
        (socket.receives, socket.copied_seq) = (2, 9);
        let second = history(&socket, Some(&first));
        assert_eq!(second.judge(verdict(Kind::Service)), None);
        // The task was about to look for more, and now does something else.
        socket.watch = stuck_watch::STUCK_EPOLL_IN;
        let watched = history(&socket, Some(&second));
        socket.watch = 0;
        let busy = history(&socket, Some(&watched));
        assert!(busy.judge(verdict(Kind::Service)).unwrap().or_pushed_to);
    }

    #[test]
    fn only_syns_that_left_are_counted() {
        let mut socket = stuck_socket {
            state: SYN_SENT,
            retransmits: 2,
            ..stuck_socket::default()
        };
        let syns = |socket: &stuck_socket| {
            let history = history(socket, None);
            evidence(socket, verdict(Kind::Connect), &history).syns
        };
        assert_eq!(syns(&socket), Some(3));
        socket.syn_kept = 1;
        assert_eq!(syns(&socket), Some(0));
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
