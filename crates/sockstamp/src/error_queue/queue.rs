//! The reader of error queues.

use std::os::fd::AsFd;

use nix::errno::Errno;

use super::counters::Counters;
use super::{Report, Unreported, ZeroCopyRange};
use crate::sys::message::{BATCH, Buffers, Received, receive_many};
use crate::{Error, Result};

/// Bytes for the control messages of one entry.
const CONTROL: usize = Report::SPACE;

pub(super) const FLAGS: i32 = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;

/// Reads error queues; one can serve many sockets.
///
/// Holds 32 KiB for control messages, allocated once.
#[derive(Debug)]
pub struct ErrorQueue {
    pub(super) control: Box<[[u8; CONTROL]; BATCH]>,
    pub(super) received: Box<[Received; BATCH]>,
    /// The result of the last successful look: as many entries are likely the next time, and
    /// preparing more buffers would be wasted.
    expected: usize,
    counters: Counters,
}

impl ErrorQueue {
    /// Allocates the buffers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            control: Box::new([[0; CONTROL]; BATCH]),
            received: Box::new([Received::default(); BATCH]),
            expected: 1,
            counters: Counters::default(),
        }
    }

    /// Return the counters of all sockets so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Take all entries out of the error queue of `socket` and give each to `report`; how many
    /// were taken, among them those that [`Counters::lost`] counts.
    ///
    /// Never blocks: an empty queue is 0. One system call takes up to 32 entries, and it is
    /// repeated until one finds fewer than it had room for.
    ///
    /// If `report` panics, up to 31 later entries are lost, and counted
    /// ([`Counters::interrupted`]).
    ///
    /// Source: recvmmsg(2) with MSG_ERRQUEUE and MSG_DONTWAIT.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if `socket` is none or of a family without an error queue, or no memory is
    /// left.
    pub fn drain(
        &mut self,
        socket: impl AsFd,
        mut report: impl FnMut(Report<'_>),
    ) -> Result<usize> {
        self.drain_by(|queue, room| queue.take(&socket, room, &mut report))
    }

    /// Do the same, but pass each range of completions to `completed`, before the other entries
    /// that were taken with it: a panic of `report` loses none.
    pub(crate) fn drain_completions(
        &mut self,
        socket: impl AsFd,
        mut completed: impl FnMut(ZeroCopyRange),
        mut report: impl FnMut(Report<'_>),
    ) -> Result<usize> {
        self.drain_by(|queue, room| {
            queue.take_completions(&socket, room, &mut completed, &mut report)
        })
    }

    fn drain_by(
        &mut self,
        mut take: impl FnMut(&mut Self, usize) -> Result<usize>,
    ) -> Result<usize> {
        let mut taken = 0;
        // Free room shows that there were no more.
        let mut room = BATCH.min(self.expected + 1);
        loop {
            let batch = take(self, room)?;
            taken += batch;
            if batch < room {
                self.expect(taken);
                return Ok(taken);
            }
            room = BATCH;
        }
    }

    /// Like [`drain`](Self::drain), but take at most `most` entries.
    ///
    /// # Errors
    ///
    /// Those of [`drain`](Self::drain).
    pub fn drain_at_most(
        &mut self,
        most: usize,
        socket: impl AsFd,
        mut report: impl FnMut(Report<'_>),
    ) -> Result<usize> {
        let mut taken = 0;
        while taken < most {
            let room = BATCH.min(most - taken);
            let batch = self.take(&socket, room, &mut report)?;
            taken += batch;
            if batch < room {
                break;
            }
        }
        Ok(taken)
    }

    /// Return the likely number of entries: 1 to [`BATCH`].
    pub(crate) fn expected(&self) -> usize {
        self.expected
    }

    /// Note the result of the last look.
    pub(crate) fn expect(&mut self, entries: usize) {
        if entries > 0 {
            self.expected = entries.min(BATCH);
        }
    }

    /// Take at most `room` entries, of 1 to [`BATCH`], in one call. As many mean that there may be
    /// more.
    pub(crate) fn take(
        &mut self,
        socket: impl AsFd,
        room: usize,
        report: &mut impl FnMut(Report<'_>),
    ) -> Result<usize> {
        let count = self.receive(socket, room)?;
        self.hand_out_all(count, report);
        Ok(count)
    }

    /// Do the same, as [`drain_completions`](Self::drain_completions) does.
    pub(crate) fn take_completions(
        &mut self,
        socket: impl AsFd,
        room: usize,
        completed: &mut impl FnMut(ZeroCopyRange),
        report: &mut impl FnMut(Report<'_>),
    ) -> Result<usize> {
        let count = self.receive(socket, room)?;
        for (received, control) in self.received.iter().zip(&*self.control).take(count) {
            if let Ok(Report::ZeroCopy(range)) = understand(*received, control) {
                completed(range);
            }
        }
        self.hand_out_all(count, &mut |entry| match entry {
            Report::ZeroCopy(_) => {}
            entry => report(entry),
        });
        Ok(count)
    }

    fn receive(&mut self, socket: impl AsFd, room: usize) -> Result<usize> {
        let buffers = self.control.iter_mut().take(room).map(|control| Buffers {
            control,
            ..Buffers::default()
        });
        taken(receive_many(socket, buffers, &mut self.received, FLAGS))
    }

    fn hand_out_all(&mut self, count: usize, report: &mut impl FnMut(Report<'_>)) {
        let mut left = Left {
            queue: self,
            entries: count,
        };
        for index in 0..count {
            left.entries -= 1;
            left.queue.hand_out(index, &mut *report);
        }
    }

    /// Report one of the entries that were taken.
    pub(super) fn hand_out(&mut self, index: usize, report: impl FnOnce(Report<'_>)) {
        self.counters.entries += 1;
        match understand(self.received[index], &self.control[index]) {
            Ok(understood) => report(understood),
            Err(Unreported::Truncated) => self.counters.truncated += 1,
            Err(Unreported::WithoutTime) => self.counters.without_time += 1,
            Err(_) => self.counters.malformed += 1,
        }
    }
}

/// Entries that were taken and not handed out. None are left, unless a panic ends this earlier.
struct Left<'a> {
    queue: &'a mut ErrorQueue,
    entries: usize,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        let lost = self.entries as u64;
        self.queue.counters.entries += lost;
        self.queue.counters.interrupted += lost;
    }
}

/// An empty queue has no entries.
pub(super) fn taken(result: nix::Result<usize>) -> Result<usize> {
    match result {
        Ok(taken) => Ok(taken),
        Err(Errno::EAGAIN) => Ok(0),
        Err(errno) => Err(Error::call("recvmmsg(MSG_ERRQUEUE)", "a socket")(errno)),
    }
}

fn understand(received: Received, control: &[u8]) -> std::result::Result<Report<'_>, Unreported> {
    if received.flags & libc::MSG_CTRUNC != 0 {
        return Err(Unreported::Truncated);
    }
    Report::parse(&control[..received.control])
}

impl Default for ErrorQueue {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::IoSlice;
    use std::net::{IpAddr, SocketAddr, UdpSocket};
    use std::time::{Duration, Instant};

    use nix::sys::socket::{setsockopt, sockopt};

    use super::*;
    use crate::control::{Address, Origin};
    use crate::sys::message::send;
    use crate::sys::options;
    use crate::timestamping::{Options, TxKind};

    /// Return a socket that receives ICMP errors, and an address without a listener.
    fn deaf(address: &str) -> (UdpSocket, SocketAddr) {
        let gone = UdpSocket::bind(address).unwrap();
        let socket = UdpSocket::bind(address).unwrap();
        let nowhere = gone.local_addr().unwrap();
        if nowhere.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4RecvErr, &true).unwrap();
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvErr, &true).unwrap();
        }
        (socket, nowhere)
    }

    /// Return a socket that has received that many errors.
    fn refused(address: &str, sends: usize) -> UdpSocket {
        let (socket, nowhere) = deaf(address);
        for _ in 0..sends {
            // Send until a pending error fails the send, which then sends nothing.
            while socket.send_to(b"x", nowhere).is_err() {}
        }
        socket
    }

    #[test]
    fn icmp_errors_have_their_origin_and_offender() {
        for (address, origin, kind, code) in [
            ("127.0.0.1:0", Origin::Icmp, 3, 3),
            ("[::1]:0", Origin::Icmp6, 1, 4),
        ] {
            let socket = refused(address, 1);
            let mut seen = Vec::new();
            let taken = ErrorQueue::new()
                .drain(&socket, |report| match report {
                    Report::Network(error) => seen.push(error),
                    other => panic!("{other:?}"),
                })
                .unwrap();
            let offender: IpAddr = socket.local_addr().unwrap().ip();
            assert_eq!(taken, 1);
            assert_eq!(
                (seen[0].origin, seen[0].kind, seen[0].code),
                (origin, kind, code)
            );
            assert_eq!(
                seen[0].error().kind(),
                std::io::ErrorKind::ConnectionRefused
            );
            assert_eq!(seen[0].offender, Some(offender));
        }
    }

    #[test]
    fn entries_behind_a_panic_are_counted() {
        let (mut queue, socket) = (ErrorQueue::new(), refused("127.0.0.1:0", 3));
        // Room for one entry and a look for more.
        assert_eq!(queue.drain(&socket, |_| {}).unwrap(), 3);
        let socket = refused("127.0.0.1:0", 3);
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queue.drain(&socket, |report| panic!("{report:?}"))
        }));
        assert!(panics.is_err());
        let counters = queue.counters();
        assert_eq!((counters.entries, counters.interrupted), (6, 2));
        assert_eq!(counters.lost(), 2);
        assert_eq!(queue.drain(&socket, |_| {}).unwrap(), 0);
    }

    /// All three kinds of one socket, a send at a time so that none merges with the next.
    #[test]
    fn stamps_completions_and_errors_are_distinguished() {
        const SENDS: u32 = 5;
        for (address, origin) in [("127.0.0.1:0", Origin::Icmp), ("[::1]:0", Origin::Icmp6)] {
            let (socket, nowhere) = deaf(address);
            options::set(&socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32).unwrap();
            Options::new()
                .tx_software()
                .id()
                .only_stamps()
                .apply(&socket)
                .unwrap();
            let (mut queue, mut seen, start) = (ErrorQueue::new(), [0; 3], Instant::now());
            for sent in 1..=SENDS {
                let (payload, to) = ([0; 1_000], Address::from(nowhere));
                let parts = [IoSlice::new(&payload)];
                send(&socket, &parts, to.as_bytes(), &[], libc::MSG_ZEROCOPY).unwrap();
                while seen != [sent; 3] && start.elapsed() < Duration::from_secs(10) {
                    let report = |report: Report<'_>| match report {
                        Report::Stamp { stamp, .. } => {
                            assert_eq!((stamp.kind, stamp.id), (TxKind::Snd, seen[0]));
                            seen[0] += 1;
                        }
                        Report::ZeroCopy(range) => {
                            assert_eq!((range.first, range.last), (seen[1], seen[1]));
                            seen[1] += 1;
                        }
                        Report::Network(error) => {
                            assert_eq!(error.origin, origin);
                            assert_eq!(error.error().kind(), std::io::ErrorKind::ConnectionRefused);
                            seen[2] += 1;
                        }
                        other => panic!("{other:?}"),
                    };
                    queue.drain(&socket, report).unwrap();
                }
            }
            assert_eq!(seen, [SENDS; 3], "{address}");
            assert_eq!(queue.counters().lost(), 0);
        }
    }

    #[test]
    fn one_drain_takes_more_than_a_batch_and_the_next_finds_none() {
        let socket = refused("127.0.0.1:0", BATCH + 5);
        let mut queue = ErrorQueue::new();
        let mut reported = 0;
        let taken = queue.drain(&socket, |_| reported += 1).unwrap();
        assert_eq!((taken, reported), (BATCH + 5, BATCH + 5));
        assert_eq!(queue.drain(&socket, |_| {}).unwrap(), 0);
        assert_eq!(queue.counters().entries, 37);
        assert_eq!(queue.counters().lost(), 0);
    }

    #[test]
    fn entries_beyond_the_limit_stay_in_the_queue() {
        let socket = refused("127.0.0.1:0", BATCH + 5);
        let mut queue = ErrorQueue::new();
        let mut drain = |most| queue.drain_at_most(most, &socket, |_| {}).unwrap();
        assert_eq!((drain(0), drain(2), drain(BATCH + 1)), (0, 2, BATCH + 1));
        assert_eq!((drain(usize::MAX), drain(usize::MAX)), (2, 0));
    }

    fn receive_one(socket: &impl AsFd, control: &mut [u8]) -> Received {
        let buffers = Buffers {
            control,
            ..Buffers::default()
        };
        let mut received = [Received::default(); BATCH];
        let buffers = std::iter::once(buffers);
        receive_many(socket, buffers, &mut received, libc::MSG_ERRQUEUE).unwrap();
        received[0]
    }

    #[test]
    fn cut_control_messages_are_a_loss_even_if_the_rest_makes_sense() {
        let socket = refused("127.0.0.1:0", 1);
        let mut control = [0; CONTROL];
        let received = receive_one(&socket, &mut control);
        assert!(understand(received, &control).is_ok());
        let cut = Received {
            flags: received.flags | libc::MSG_CTRUNC,
            ..received
        };
        assert_eq!(understand(cut, &control), Err(Unreported::Truncated));
    }

    /// The kernel truncates messages that do not fit (`put_cmsg()` in net/core/scm.c, v6.18).
    #[test]
    fn truncation_by_the_kernel_is_noticed() {
        let socket = refused("127.0.0.1:0", 1);
        let mut control = [0; 40];
        let received = receive_one(&socket, &mut control);
        assert_eq!(understand(received, &control), Err(Unreported::Truncated));
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_an_error() {
        let file = File::open("/proc/self/status").unwrap();
        let error = ErrorQueue::new().drain(&file, |_| {}).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("recvmmsg(MSG_ERRQUEUE) on a socket: "),
            "{error}"
        );
    }
}
