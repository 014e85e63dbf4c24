//! Completions that come back with the next send: a control message that the kernel fills in,
//! SCM_ZC_NOTIFICATION.
//!
//! Source: the patches of kernel/series, which no mainline kernel has. An earlier proposal, "sock:
//! add MSG_ZEROCOPY notification mechanism based on msg_control" (netdev, July 2024, not merged),
//! had other layouts, and the number 78, which Linux 6.12 gave to SO_DEVMEM_LINEAR. A future kernel
//! may give our number to something else. So the number proves nothing: the probe requests a
//! completion and checks that it comes.

use std::io::IoSlice;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use crate::control::{Writer, space};
use crate::error_queue::ZeroCopyRange;
use crate::sys::{message, options};
use crate::zerocopy::options::{How, SEGMENT_SPACE};
use crate::zerocopy::receive_buffer::Watch;
use crate::{Error, Result};

/// The number of kernel/series until Linux assigns one, far from those that it has given away.
const SCM_ZC_NOTIFICATION: i32 = 500;
const SO_EE_CODE_ZEROCOPY_COPIED: u32 = 1;

/// `struct scm_zc_notification`: a count of four bytes, then `struct scm_zc_range`, three words
/// each.
const COUNT: usize = 4;
const WORDS: usize = 3;
const ROOM: usize = 8;
const DATA: usize = COUNT + ROOM * WORDS * 4;

/// Return true if the running kernel returns completions by a control message of a send, in the
/// layout of kernel/series. No kernel of kernel.org does.
///
/// Makes two sends to itself by a socket of its own, which take no time worth mentioning.
///
/// # Errors
///
/// [`Error::Call`] if a socket cannot be made, or cannot send to itself over loopback.
pub fn copies_back() -> Result<bool> {
    let failed = |call| Error::call(call, "a socket of our own");
    let socket = to_itself().map_err(|errno| Error::Call {
        call: "bind",
        on: "a socket of our own".into(),
        errno,
    })?;
    match options::set(&socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32) {
        Err(Errno::ENOPROTOOPT | Errno::EOPNOTSUPP) => return Ok(false),
        result => result.map_err(failed("setsockopt(SO_ZEROCOPY)"))?,
    }
    message::send(&socket, &[IoSlice::new(b"?")], &[], &[], libc::MSG_ZEROCOPY)
        .map_err(failed("sendmsg(MSG_ZEROCOPY)"))?;
    wait_for_completion(&socket);
    let mut returned = ReturnedBySends::new();
    match returned.send(&socket, &[IoSlice::new(b"?")], How::default(), 0) {
        Err(Errno::EINVAL) => Ok(false),
        Err(errno) => Err(failed("sendmsg(SCM_ZC_NOTIFICATION)")(errno)),
        Ok(_) => Ok(returned
            .take()
            .next()
            .is_some_and(|range| (range.first, range.last) == (0, 0))),
    }
}

fn to_itself() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    Ok(socket)
}

/// Over loopback the completion exists when the send is done; if it does not, nothing can return,
/// and the answer is no.
fn wait_for_completion(socket: impl AsFd) {
    const AT_MOST_MS: u8 = 100;
    let _ = poll(
        &mut [PollFd::new(socket.as_fd(), PollFlags::empty())],
        AT_MOST_MS,
    );
}

/// Sends after which the receive buffer is first looked at. Three stamps each take 18 kB, of 131 kB
/// that a TCP socket has at first.
const UNWATCHED: u64 = 8;

/// Ranges that sends have returned, and when the error queue must also be read.
#[derive(Debug)]
pub(super) struct ReturnedBySends {
    ranges: [ZeroCopyRange; ROOM],
    filled: usize,
    /// No send was made since the last look: only the queue can have something new.
    idle: bool,
    queue_read: Instant,
    /// Sends since then, each of which may have brought stamps.
    sends: u64,
    watch: Watch,
}

impl ReturnedBySends {
    pub(super) fn new() -> Self {
        const NONE: ZeroCopyRange = ZeroCopyRange {
            first: 0,
            last: 0,
            copied: false,
        };
        Self {
            ranges: [NONE; ROOM],
            filled: 0,
            idle: true,
            queue_read: Instant::now(),
            sends: 0,
            watch: Watch::from(UNWATCHED),
        }
    }

    /// Return true if the ranges of the last send were taken, so that there is room again.
    pub(super) fn has_room(&self) -> bool {
        self.filled == 0
    }

    /// Send `parts`, and keep the ranges that come back.
    pub(super) fn send(
        &mut self,
        socket: impl AsFd,
        parts: &[IoSlice<'_>],
        how: How,
        flags: i32,
    ) -> nix::Result<usize> {
        let how = how.encode();
        let mut control = [0; SEGMENT_SPACE + space(DATA)];
        let (before, request) = control.split_at_mut(how.control().len());
        before.copy_from_slice(how.control());
        let mut writer = Writer::new(request);
        writer
            .push(libc::SOL_SOCKET, SCM_ZC_NOTIFICATION, &[0; DATA])
            .expect("it has the space for that");
        let length = before.len() + writer.written().len();
        let control = &mut control[..length];
        let flags = how.flags | flags;
        let sent = loop {
            let sent = message::send_returning(&socket, parts, how.to(), control, flags);
            if sent != Err(Errno::EINTR) {
                break sent?;
            }
        };
        self.idle = false;
        self.keep(&control[length - space(DATA)..]);
        Ok(sent)
    }

    /// Decode what the kernel wrote into a request.
    fn keep(&mut self, request: &[u8]) {
        let data = &request[space(0)..][..DATA];
        let (words, _) = data.as_chunks::<4>();
        let mut words = words.iter().map(|bytes| u32::from_ne_bytes(*bytes));
        let count = words.next().unwrap_or(0) as usize;
        self.filled = count.min(ROOM);
        for range in &mut self.ranges[..self.filled] {
            let mut next = || words.next().unwrap_or(0);
            *range = ZeroCopyRange {
                first: next(),
                last: next(),
                copied: next() & SO_EE_CODE_ZEROCOPY_COPIED != 0,
            };
        }
    }

    pub(super) fn take(&mut self) -> impl Iterator<Item = ZeroCopyRange> + use<> {
        let filled = std::mem::take(&mut self.filled);
        self.ranges.into_iter().take(filled)
    }

    /// Return true if the error queue may have something that sends do not return soon: after a
    /// look without a send, now and then for stamps and errors, and before stamps find no room.
    pub(super) fn queue_is_due(&mut self, socket: impl AsFd) -> bool {
        const LONGEST: Duration = Duration::from_millis(10);
        let idle = std::mem::replace(&mut self.idle, true);
        idle || self.queue_read.elapsed() >= LONGEST || self.watch.is_full(self.sends, socket)
    }

    /// Count a send of any kind that was made.
    pub(super) fn count_send(&mut self) {
        self.sends += 1;
    }

    pub(super) fn queue_is_read(&mut self) {
        self.queue_read = Instant::now();
        self.sends = 0;
        self.watch = Watch::from(UNWATCHED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as the kernel gives it back.
    fn returned(words: &[u32]) -> Vec<ZeroCopyRange> {
        let mut control = [0; space(DATA)];
        for (to, word) in control[space(0)..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let mut returned = ReturnedBySends::new();
        returned.keep(&control);
        returned.take().collect()
    }

    #[test]
    fn returned_completions_are_read() {
        let range = |first, last, copied| ZeroCopyRange {
            first,
            last,
            copied,
        };
        assert_eq!(returned(&[1, 3, 5, 0, 9, 9, 9]), [range(3, 5, false)]);
        let two = [range(3, 3, true), range(7, u32::MAX, false)];
        assert_eq!(returned(&[2, 3, 3, 1, 7, u32::MAX, 0]), two);
    }

    #[test]
    fn an_untouched_request_has_no_completion() {
        assert_eq!(returned(&[]), []);
    }

    #[test]
    fn more_than_there_is_room_for_is_not_believed() {
        assert_eq!(returned(&[u32::MAX]).len(), ROOM);
    }

    #[test]
    fn ranges_are_taken_once() {
        let mut returned = ReturnedBySends::new();
        returned.filled = 2;
        assert!(!returned.has_room());
        assert_eq!(returned.take().count(), 2);
        assert!(returned.has_room());
        assert_eq!(returned.take().count(), 0);
    }

    #[test]
    fn a_drain_without_a_send_reads_the_queue() {
        let socket = to_itself().unwrap();
        let mut returned = ReturnedBySends::new();
        returned.idle = false;
        assert!(!returned.queue_is_due(&socket));
        assert!(returned.queue_is_due(&socket));
    }

    #[test]
    fn completions_come_back_where_the_kernel_has_the_function() {
        let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let has = symbols.contains(" msg_zerocopy_cmsg_copy_back");
        assert_eq!(copies_back().unwrap(), has);
    }
}
