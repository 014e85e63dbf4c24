//! A socket whose sends and receives are stamped.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use socket2::Socket;
use sockstamp::socket_options;
use sockstamp::timestamping::{
    Destination, Match, Matcher, MessageOptions, Options, Outcome, Support, TxKind, TxStamp, send,
};
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::event::Fallback;

/// The destination of a probe, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probe {
    pub(crate) destination: u32,
    pub(crate) number: u64,
}

/// A socket, and which of its sends has which id.
#[derive(Debug)]
pub(crate) struct Port {
    socket: Socket,
    options: Options,
    sends: Matcher<Probe>,
    /// The number of sends to remember.
    capacity: usize,
    ids: Ids,
    drops: u32,
}

/// The source of numbers for stamped sends.
#[derive(Debug)]
enum Ids {
    /// We do (SCM_TS_OPT_ID, since v6.13). A send that fails has a number, too: it may have been
    /// stamped before it failed.
    Ours { next: u32 },
    /// The kernel does. Whether one that failed was counted depends on where it failed.
    Kernels {
        uncertain: bool,
        last: Timestamp<Monotonic>,
    },
}

/// Time after which stamps of earlier sends have come, or never will.
const SETTLED: Nanos = Nanos::from_millis(500);

impl Port {
    pub(crate) fn new(
        socket: Socket,
        support: &Support,
        capacity: usize,
    ) -> sockstamp::Result<Self> {
        let options = Options::new()
            .tx_sched()
            .tx_software()
            .tx_hardware()
            .rx_software()
            .rx_hardware()
            .both()
            .id()
            .only_stamps()
            .where_supported(support);
        options.apply(&socket)?;
        let ids = if support.own_id {
            Ids::Ours { next: 0 }
        } else {
            Ids::Kernels {
                uncertain: false,
                last: Timestamp::from_nanos(0),
            }
        };
        Ok(Self {
            socket,
            options,
            sends: Self::matcher(capacity),
            capacity,
            ids,
            drops: 0,
        })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    fn matcher(capacity: usize) -> Matcher<Probe> {
        Matcher::datagrams(capacity, &[TxKind::Sched, TxKind::Snd])
    }

    /// Send one probe. Return the reason if it will have no stamps.
    pub(crate) fn send(
        &mut self,
        probe: Probe,
        packet: &[u8],
        to: SocketAddr,
        now: Timestamp<Monotonic>,
    ) -> (io::Result<()>, Option<Fallback>) {
        self.settle(now);
        let plain = MessageOptions::new().dont_wait();
        let options = match &mut self.ids {
            Ids::Ours { next } => {
                *next = next.wrapping_add(1);
                plain.id(next.wrapping_sub(1))
            }
            Ids::Kernels {
                uncertain: true, ..
            } => plain.unstamped(),
            Ids::Kernels { last, .. } => {
                *last = now;
                plain
            }
        };
        let sent = self.try_twice(packet, to, options);
        let is_certain = match &mut self.ids {
            Ids::Ours { .. } => true,
            Ids::Kernels { uncertain, .. } => {
                let asked = !*uncertain;
                *uncertain |= sent.is_err();
                asked && sent.is_ok()
            }
        };
        if is_certain {
            self.sends.sent(packet.len(), probe);
        }
        (sent, (!is_certain).then_some(Fallback::NoId))
    }

    /// An ICMP error about another probe fails the next send as well, once
    /// (`sock_alloc_send_pskb()` in net/core/sock.c, v6.18).
    fn try_twice(&self, packet: &[u8], to: SocketAddr, options: MessageOptions) -> io::Result<()> {
        let parts = [IoSlice::new(packet)];
        let to = Destination::from(to);
        let sent = match send(&self.socket, &parts, Some(to), options) {
            Err(error) if may_be_anothers(&error) => {
                self.socket.take_error()?;
                send(&self.socket, &parts, Some(to), options)
            }
            sent => sent,
        };
        sent.map(drop)
    }

    /// Restart the count when nothing is awaited any more: ids begin at 0 when the option is set
    /// after it was not (`sock_set_timestamping()` in net/core/sock.c, v6.18).
    fn settle(&mut self, now: Timestamp<Monotonic>) {
        if let Ids::Kernels { uncertain, last } = &mut self.ids
            && *uncertain
            && now.since(*last).is_some_and(|quiet| quiet > SETTLED)
        {
            let again = Options::new()
                .apply(&self.socket)
                .and_then(|()| self.options.apply(&self.socket));
            *uncertain = again.is_err();
            self.sends = Self::matcher(self.capacity);
        }
    }

    /// Give a stamp to its probe.
    pub(crate) fn stamp(&mut self, stamp: &TxStamp, mut give: impl FnMut(Probe)) -> Outcome {
        self.sends
            .stamp(stamp, |Match { message, .. }| give(*message))
    }

    /// Return the number of packets dropped since the last call.
    pub(crate) fn new_drops(&mut self) -> u64 {
        let drops = socket_options::receive_drops(&self.socket).unwrap_or(self.drops);
        let new = drops.wrapping_sub(self.drops);
        self.drops = drops;
        new.into()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Return true for errors that ICMP errors become: `icmp_err_convert` in net/ipv4/icmp.c,
/// `tab_unreach` in net/ipv6/icmp.c, v6.18.
fn may_be_anothers(error: &io::Error) -> bool {
    const ERRORS: [Errno; 9] = [
        Errno::ECONNREFUSED,
        Errno::EHOSTUNREACH,
        Errno::ENETUNREACH,
        Errno::EHOSTDOWN,
        Errno::ENOPROTOOPT,
        Errno::EOPNOTSUPP,
        Errno::EMSGSIZE,
        Errno::EPROTO,
        Errno::EACCES,
    ];
    ERRORS
        .iter()
        .any(|errno| error.raw_os_error() == Some(*errno as i32))
}
