//! Judge from one look at a socket whether somebody waits on it, for what, and since when. Pure.
//!
//! TCP keeps the time of the last segment with data in each direction, in ticks of its clock, and
//! that of the first segment in flight to the microsecond. They outlive any pause, so a wait that
//! began before anybody looked is known by its socket alone.

use std::cmp::Ordering;

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::Kind;

use crate::abi::raw::stuck_socket as Socket;
use crate::abi::raw::stuck_watch as watch;

const SYN_SENT: u8 = 2;
const FIN_WAIT1: u8 = 4;
const LISTEN: u8 = 10;

pub(super) const RCV_SHUTDOWN: u8 = 1;

/// `RTT_UNKNOWN` of abi.h; bindgen does not evaluate its `~`.
const RTT_UNKNOWN: u32 = u32::MAX;

/// Longest delay of an acknowledgement that waits for data to go with (`TCP_DELACK_MAX`,
/// include/net/tcp.h, v6.18).
const DELAYED_ACK: Nanos = Nanos::from_millis(200);

/// Sends beyond two for each answer that a flow of questions does not have.
const ONE_WAY_SENDS: u32 = 8;

/// The thing that a socket is waited on for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) kind: Kind,
    pub(super) age: Nanos,
    /// The beginning may lie earlier.
    pub(super) at_least: bool,
    /// A question that was sent at once after an answer, whose task may as well be pushed to; or
    /// a request whose task watches for more of the same: it may as well push, or owe no answer.
    pub(super) or_pushed_to: bool,
    pub(super) bytes: u32,
}

impl Verdict {
    /// Return true for a request that no task watches for more of.
    pub(super) fn is_owed(&self) -> bool {
        self.kind == Kind::Service && !self.or_pushed_to
    }
}

/// A look at a socket, with what its ticks mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) socket: &'a Socket,
    /// The length of a jiffy.
    pub(super) tick: Nanos,
    /// The peer opened the connection.
    pub(super) accepted: bool,
}

impl Look<'_> {
    /// Return what it is waited on for; `None` if nobody is known to wait.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        match self.socket.state {
            SYN_SENT => Some(self.connect()),
            LISTEN => self.accept(),
            _ => self
                .room()
                .or_else(|| self.hole())
                .or_else(|| self.answer())
                .or_else(|| self.acknowledgement())
                .or_else(|| self.greeting())
                .or_else(|| self.unread())
                .or_else(|| self.service()),
        }
    }

    fn connect(&self) -> Verdict {
        let age = Nanos(u64::from(self.socket.syn_sent_ago_us) * 1000);
        exactly(Kind::Connect, age, 0)
    }

    fn accept(&self) -> Option<Verdict> {
        let age = Nanos(self.socket.oldest_ago);
        (self.socket.backlog > 0).then(|| exactly(Kind::Accept, age, 0))
    }

    /// A send found no room. Room comes with acknowledgements, so it has lacked since the last one.
    fn room(&self) -> Option<Verdict> {
        let socket = self.socket;
        let sends = self.watched_by(watch::STUCK_IN_CALL) && socket.write_pending != 0;
        let polls = self.watched_by(watch::STUCK_POLLS_OUT | watch::STUCK_EPOLL_OUT)
            && socket.no_space != 0;
        (!self.has_room() && (sends || polls))
            .then(|| exactly(Kind::Room, self.undelivered(), self.queued()))
    }

    /// Segments wait for a missing one, and a task for them.
    fn hole(&self) -> Option<Verdict> {
        let kind = match self.accepted {
            true => Kind::Request,
            false => Kind::Rest,
        };
        let age = self.received_ago();
        (self.socket.hole != 0 && self.is_read()).then(|| exactly(kind, age, self.unread_bytes()))
    }

    /// Judge a socket that asked, and on which a task waits for what comes.
    fn answer(&self) -> Option<Verdict> {
        let socket = self.socket;
        let asks = !self.accepted
            && self.is_read()
            && self.unread_bytes() == 0
            && socket.shutdown & RCV_SHUTDOWN == 0
            && self.spoke_last()
            && !self.is_one_way();
        let pause = self.received_ago().saturating_sub(self.sent_ago());
        let at_once = pause <= self.tick;
        asks.then(|| Verdict {
            or_pushed_to: at_once && socket.receives > 0,
            ..exactly(Kind::Answer, self.asked_ago(), self.queued())
        })
    }

    /// Data does not get through.
    fn acknowledgement(&self) -> Option<Verdict> {
        let socket = self.socket;
        let age = self.undelivered();
        let resent = socket.retransmits > 0 || socket.connection.backoff > 0;
        let late = age > self.slowest_ack();
        let in_flight = self.unacknowledged() > 0 && (resent || late);
        let shut_out = socket.connection.unsent > 0 && self.unacknowledged() == 0;
        (in_flight || shut_out).then(|| exactly(Kind::Acknowledgement, age, self.queued()))
    }

    /// A task sleeps for the first byte of a connection on which nobody has spoken.
    fn greeting(&self) -> Option<Verdict> {
        let socket = self.socket;
        let silent = socket.sends == 0 && socket.receives == 0 && self.queued() == 0;
        (silent && self.is_slept_for() && !self.accepted)
            .then(|| exactly(Kind::Greeting, Nanos(socket.connection.heard_ago), 0))
    }

    /// A request is not read. The time of its first byte is in no field.
    fn unread(&self) -> Option<Verdict> {
        let bytes = self.unread_bytes();
        (bytes > 0 && self.accepted).then(|| Verdict {
            at_least: true,
            ..exactly(Kind::Read, self.received_ago(), bytes)
        })
    }

    /// A request was read, and nothing was sent since. A task that sleeps for this socket alone
    /// waits for more of it. An event loop watches every socket: while it sleeps, it owes no answer
    /// to who mostly sends, nor to who speaks at once after it (a confirmation).
    fn service(&self) -> Option<Verdict> {
        let socket = self.socket;
        let is_idle = self.watched_by(watch::STUCK_EPOLL_SLEEPS | watch::STUCK_URING);
        let confirms = socket.sends > 0 && self.after_answer() <= self.tick;
        let owes = self.heard_last()
            && socket.shutdown & RCV_SHUTDOWN == 0
            && !self.is_slept_for()
            && !self.watched_by(watch::STUCK_OTHERWISE)
            && !(is_idle && confirms)
            && !(self.is_read() && self.hears_one_way());
        (owes && self.accepted).then(|| Verdict {
            or_pushed_to: self.is_read(),
            ..exactly(Kind::Service, self.received_ago(), 0)
        })
    }

    /// Return the time between the last data that was sent and the data that came after it.
    fn after_answer(&self) -> Nanos {
        self.sent_ago().saturating_sub(self.received_ago())
    }

    /// Return whether the last data came from the peer, as `stuck_heard_last()` does.
    pub(super) fn heard_last(&self) -> bool {
        let socket = self.socket;
        if socket.receives == 0 || self.queued() > 0 {
            return false;
        }
        match self.received_ago().cmp(&self.sent_ago()) {
            _ if socket.sends == 0 => true,
            Ordering::Less => true,
            Ordering::Equal => socket.pure_ack_last == 0,
            Ordering::Greater => false,
        }
    }

    /// Return whether it mostly hears: a log, figures, an upload.
    fn hears_one_way(&self) -> bool {
        let socket = self.socket;
        let few = socket.sends.saturating_mul(2).saturating_add(ONE_WAY_SENDS);
        socket.receives > few
    }

    /// Return whether the last data was sent by this end: a question, or the last word.
    pub(super) fn spoke_last(&self) -> bool {
        let socket = self.socket;
        if self.queued() > 0 || socket.sends == 0 || socket.receives == 0 {
            return self.queued() > 0 || socket.sends > 0;
        }
        match self.sent_ago().cmp(&self.received_ago()) {
            Ordering::Less => true,
            Ordering::Equal => self.spoke_last_in_one_tick(),
            Ordering::Greater => false,
        }
    }

    /// Return the same where both were in one tick, which is so in most exchanges with a peer that
    /// is near. An answer acknowledges its question, so what came later than the tick, and
    /// acknowledged the question, was no answer. Otherwise the segment that last moved the window
    /// tells: a mere acknowledgement has the number of the next byte to come (`tcp_update_wl()`),
    /// as have answers to probes of an idle connection, which come later.
    fn spoke_last_in_one_tick(&self) -> bool {
        let received = self.received_ago();
        let since_acknowledged = self.since_us(self.socket.delivered_us);
        if received.saturating_sub(since_acknowledged) >= self.tick + self.tick {
            return true;
        }
        let until_heard = received.saturating_sub(Nanos(self.socket.connection.heard_ago));
        self.socket.pure_ack_last != 0 && until_heard <= self.slowest_ack()
    }

    /// Return the time after which an acknowledgement is late: two round trips, and its delay.
    fn slowest_ack(&self) -> Nanos {
        match self.socket.connection.srtt_us {
            RTT_UNKNOWN => DELAYED_ACK,
            srtt => Nanos::from_micros(2 * u64::from(srtt)) + DELAYED_ACK,
        }
    }

    /// Return whether it mostly sends small segments, and nobody sleeps for this socket alone: an
    /// event loop watches every socket, also those that only log or acknowledge.
    fn is_one_way(&self) -> bool {
        let socket = self.socket;
        !self.is_slept_for()
            && socket.sends
                > socket
                    .receives
                    .saturating_mul(2)
                    .saturating_add(ONE_WAY_SENDS)
    }

    /// Return whether a task sleeps for this socket, and no event loop alone watches it.
    pub(super) fn is_slept_for(&self) -> bool {
        self.watched_by(watch::STUCK_IN_CALL | watch::STUCK_POLLS_IN)
    }

    fn asked_ago(&self) -> Nanos {
        match self.socket.first_sent_us {
            0 => self.sent_ago(),
            first_sent => self.since_us(first_sent),
        }
    }

    /// Return the time without an acknowledgement of data, since there was data to acknowledge.
    fn undelivered(&self) -> Nanos {
        match self.socket.delivered_us {
            0 => self.sent_ago(),
            delivered => self.since_us(delivered),
        }
    }

    /// Return whether any task waits for data.
    pub(super) fn is_read(&self) -> bool {
        let calls = self.watched_by(watch::STUCK_IN_CALL) && self.socket.write_pending == 0;
        let ways = watch::STUCK_POLLS_IN | watch::STUCK_EPOLL_IN | watch::STUCK_URING;
        calls || self.watched_by(ways)
    }

    fn watched_by(&self, ways: watch::Type) -> bool {
        self.socket.watch & ways != 0
    }

    /// As `sk_stream_is_writeable()`, include/net/sock.h, v6.18, without `TCP_NOTSENT_LOWAT`.
    fn has_room(&self) -> bool {
        let queued = self.socket.send_queue;
        self.socket.send_buffer - queued >= queued / 2
    }

    /// Bytes that were not acknowledged, and those that were not sent.
    fn queued(&self) -> u32 {
        let unsent = self.socket.connection.unsent;
        self.unacknowledged().saturating_add(unsent)
    }

    /// Without the FIN, which counts as a byte.
    fn unacknowledged(&self) -> u32 {
        let fin = u32::from(self.socket.state == FIN_WAIT1);
        let unacknowledged = self.socket.connection.unacknowledged;
        unacknowledged.saturating_sub(fin)
    }

    fn unread_bytes(&self) -> u32 {
        let fin = u32::from(self.socket.shutdown & RCV_SHUTDOWN != 0);
        self.socket.connection.unread.saturating_sub(fin)
    }

    /// Time since it sent data.
    fn sent_ago(&self) -> Nanos {
        Nanos(self.socket.connection.sent_ago)
    }

    /// Time since it received data.
    fn received_ago(&self) -> Nanos {
        Nanos(self.socket.connection.received_ago)
    }

    fn since_us(&self, time: u64) -> Nanos {
        Nanos(self.socket.now.saturating_sub(time * 1000))
    }
}

fn exactly(kind: Kind, age: Nanos, bytes: u32) -> Verdict {
    Verdict {
        kind,
        age,
        at_least: false,
        or_pushed_to: false,
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 4_000_000;
    const ESTABLISHED: u8 = 1;

    /// A socket on which the last data went so many ticks ago, in each direction, and all of it was
    /// acknowledged within a tick.
    fn socket(sent: u64, received: u64) -> Socket {
        let mut socket = Socket {
            state: ESTABLISHED,
            now: 3_600_000_000_000,
            sends: 3,
            receives: 3,
            send_buffer: 1000,
            watch: watch::STUCK_EPOLL_IN,
            ..Socket::default()
        };
        let acknowledged = socket.now - sent * TICK + 50_000;
        socket.first_sent_us = (acknowledged - 50_000) / 1000;
        socket.delivered_us = acknowledged / 1000;
        socket.connection.sent_ago = sent * TICK;
        socket.connection.received_ago = received * TICK;
        socket.connection.heard_ago = sent.min(received) * TICK;
        socket.connection.srtt_us = 100;
        socket
    }

    fn judged(socket: &Socket, accepted: bool) -> Option<Verdict> {
        let tick = Nanos(TICK);
        Look {
            socket,
            tick,
            accepted,
        }
        .verdict()
    }

    fn kind(socket: &Socket) -> Option<Kind> {
        judged(socket, false).map(|verdict| verdict.kind)
    }

    #[test]
    fn a_question_is_as_old_as_its_first_byte() {
        let verdict = judged(&socket(500, 900), false).unwrap();
        assert_eq!(verdict.kind, Kind::Answer);
        assert_eq!(verdict.age, Nanos(500 * TICK));
        assert!(!verdict.or_pushed_to);
    }

    #[test]
    fn who_was_the_last_to_hear_or_has_accepted_waits_for_nothing() {
        assert_eq!(kind(&socket(900, 500)), None);
        assert_eq!(judged(&socket(500, 900), true), None);
        let mut unwatched = socket(500, 900);
        unwatched.watch = 0;
        assert_eq!(kind(&unwatched), None);
    }

    #[test]
    fn in_one_tick_the_acknowledgement_tells_which_came_last() {
        let answered = socket(500, 500);
        assert_eq!(kind(&answered), None);
        let mut asked = socket(500, 500);
        asked.pure_ack_last = 1;
        let verdict = judged(&asked, false).unwrap();
        assert!(verdict.or_pushed_to, "{verdict:?}");
        // A probe of the idle connection was answered a minute later.
        let mut probed = asked;
        probed.connection.heard_ago = TICK;
        assert_eq!(kind(&probed), None);
        // The peer acknowledged only 40 ms later: no answer took the acknowledgement along.
        let mut delayed = probed;
        delayed.delivered_us += 40_000;
        assert_eq!(kind(&delayed), Some(Kind::Answer));
    }

    #[test]
    fn a_sender_that_hears_little_is_one_way_unless_a_task_sleeps_for_it() {
        let mut log = socket(500, 900);
        (log.sends, log.receives) = (400, 1);
        assert_eq!(kind(&log), None);
        log.watch |= watch::STUCK_IN_CALL;
        assert_eq!(kind(&log), Some(Kind::Answer));
    }

    #[test]
    fn data_that_does_not_get_through_is_a_wait_of_its_own() {
        let mut sent = socket(100, 900);
        sent.watch = 0;
        sent.connection.unacknowledged = 34;
        assert_eq!(kind(&sent), Some(Kind::Acknowledgement));
        sent.connection.srtt_us = 400_000;
        assert_eq!(kind(&sent), None);
        sent.retransmits = 1;
        let verdict = judged(&sent, true).unwrap();
        assert_eq!((verdict.kind, verdict.bytes), (Kind::Acknowledgement, 34));
    }

    #[test]
    fn room_is_missing_since_the_last_acknowledgement() {
        let mut full = socket(100, 900);
        (full.watch, full.write_pending) = (watch::STUCK_IN_CALL, 1);
        (full.send_queue, full.connection.unsent) = (990, 990);
        full.delivered_us = (full.now - 7_000_000_000) / 1000;
        let verdict = judged(&full, false).unwrap();
        assert_eq!((verdict.kind, verdict.bytes), (Kind::Room, 990));
        assert_eq!(verdict.age, Nanos::from_secs(7));
        full.send_queue = 100;
        assert_ne!(kind(&full), Some(Kind::Room));
    }

    #[test]
    fn unread_bytes_count_at_a_service_alone() {
        let mut unread = socket(900, 500);
        unread.connection.unread = 12;
        assert_eq!(kind(&unread), None);
        let verdict = judged(&unread, true).unwrap();
        assert_eq!((verdict.kind, verdict.at_least), (Kind::Read, true));
        // The FIN alone is no byte.
        unread.connection.unread = 1;
        unread.shutdown = RCV_SHUTDOWN;
        assert_eq!(judged(&unread, true), None);
    }

    #[test]
    fn a_request_that_was_read_is_owed_an_answer() {
        let mut request = socket(900, 500);
        let verdict = judged(&request, true).unwrap();
        assert_eq!(verdict.kind, Kind::Service);
        assert_eq!(verdict.age, Nanos(500 * TICK));
        assert!(verdict.or_pushed_to);
        assert_eq!(judged(&request, false), None);
        // The task works on the request, and watches for nothing.
        request.watch = 0;
        assert!(!judged(&request, true).unwrap().or_pushed_to);
        request.watch = watch::STUCK_IN_CALL;
        assert_eq!(judged(&request, true), None);
        request.watch = watch::STUCK_OTHERWISE;
        assert_eq!(judged(&request, true), None);
        request.watch = 0;
        request.shutdown = RCV_SHUTDOWN;
        assert_eq!(judged(&request, true), None);
    }

    #[test]
    fn who_confirms_or_goes_on_sending_is_owed_nothing_by_an_event_loop() {
        let mut confirmed = socket(501, 500);
        assert!(judged(&confirmed, true).is_some());
        confirmed.watch |= watch::STUCK_EPOLL_SLEEPS;
        assert_eq!(judged(&confirmed, true), None);
        let mut log = socket(900, 500);
        (log.sends, log.receives) = (0, 9);
        assert_eq!(judged(&log, true), None);
        log.receives = 1;
        assert!(judged(&log, true).is_some());
        // In one tick: the answer was acknowledged after the request, or the request came last.
        let mut both = socket(500, 500);
        (both.watch, both.pure_ack_last) = (0, 1);
        assert_eq!(judged(&both, true), None);
        both.pure_ack_last = 0;
        assert_eq!(judged(&both, true).unwrap().kind, Kind::Service);
    }

    #[test]
    fn silence_is_waited_on_only_by_a_task_that_sleeps_for_it() {
        let mut silent = socket(500, 500);
        (silent.sends, silent.receives) = (0, 0);
        assert_eq!(kind(&silent), None);
        silent.watch = watch::STUCK_IN_CALL;
        assert_eq!(kind(&silent), Some(Kind::Greeting));
    }

    #[test]
    fn a_connection_is_waited_for_until_it_is_established_and_accepted() {
        let connecting = Socket {
            state: SYN_SENT,
            syn_sent_ago_us: 3_000_000,
            ..Socket::default()
        };
        let verdict = judged(&connecting, false).unwrap();
        assert_eq!(
            (verdict.kind, verdict.age),
            (Kind::Connect, Nanos::from_secs(3))
        );
        let mut listener = Socket {
            state: LISTEN,
            oldest_ago: 5 * TICK,
            ..Socket::default()
        };
        assert_eq!(judged(&listener, true), None);
        listener.backlog = 2;
        let verdict = judged(&listener, true).unwrap();
        assert_eq!((verdict.kind, verdict.age), (Kind::Accept, Nanos(5 * TICK)));
    }
}
