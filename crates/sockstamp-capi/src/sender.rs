//! Sends without a copy: a buffer is free, the program's, or the kernel's.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use sockstamp::control::socket_address;
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::zerocopy::{How, NotSent, Options, Sent, Support, ZeroCopySender};

use crate::boundary::{Errno, Result, address_bytes};
use crate::buffer::Buffer;
use crate::completions::Completions;
use crate::header::{
    SOCKSTAMP_ZEROCOPY_AVAILABLE, SOCKSTAMP_ZEROCOPY_IN_USE, SOCKSTAMP_ZEROCOPY_UNSUPPORTED,
    sockstamp_how, sockstamp_report, sockstamp_sender_counters, sockstamp_sender_options,
};
use crate::report;

/// `struct sockstamp_sender`.
pub struct Sender {
    sender: ZeroCopySender<OwnedFd, Buffer>,
    queue: ErrorQueue,
    free: Vec<Buffer>,
    acquired: Vec<Buffer>,
    others: Others,
}

impl Sender {
    pub(crate) fn new(socket: BorrowedFd<'_>, options: &sockstamp_sender_options) -> Result<Self> {
        if options.buffer_size == 0 || options.buffers == 0 || options.reserved != 0 {
            return Err(Errno::INVALID);
        }
        let mut how = Options::default();
        if options.threshold != 0 {
            how = how.threshold(options.threshold as usize);
        }
        if let Some(sends) = NonZeroU32::new(options.stop_when_copied) {
            how = how.stop_when_copied(sends);
        }
        let socket = socket.try_clone_to_owned().map_err(Errno::from)?;
        let sender = ZeroCopySender::new(socket, how)?;
        let buffers = (0..options.buffers).map(|_| Buffer::new(options.buffer_size));
        Ok(Self {
            sender,
            queue: ErrorQueue::new(),
            free: buffers.collect::<Result<_>>()?,
            acquired: Vec::with_capacity(options.buffers as usize),
            others: Others::default(),
        })
    }

    pub(crate) fn support(&self) -> u32 {
        match self.sender.support() {
            Support::Available => SOCKSTAMP_ZEROCOPY_AVAILABLE,
            Support::Unsupported => SOCKSTAMP_ZEROCOPY_UNSUPPORTED,
            Support::InUse => SOCKSTAMP_ZEROCOPY_IN_USE,
        }
    }

    pub(crate) fn use_memory(&mut self, completions: &Completions, stamps: bool) -> Result<()> {
        Ok(self.sender.use_memory(&completions.connection, stamps)?)
    }

    /// Return a buffer that now belongs to the program.
    pub(crate) fn acquire(&mut self, timeout: Duration) -> Result<*mut u8> {
        self.take_back();
        if self.free.is_empty() {
            self.wait_for_one(timeout)?;
        }
        let mut buffer = self.free.pop().ok_or(Errno(libc::EAGAIN))?;
        let start = buffer.start();
        self.acquired.push(buffer);
        Ok(start)
    }

    fn wait_for_one(&mut self, timeout: Duration) -> Result<()> {
        if self.sender.in_flight() == 0 {
            return Err(Errno(libc::ENOBUFS));
        }
        let others = &mut self.others;
        let returned = self
            .sender
            .wait_returned(&mut self.queue, timeout, |entry| others.keep(&entry))?;
        self.free.extend(returned.map(|returned| returned.buffer));
        Ok(())
    }

    /// Take back buffers that the kernel has released.
    fn take_back(&mut self) {
        while let Some(returned) = self.sender.next_returned() {
            self.free.push(returned.buffer);
        }
    }

    /// Return the number of bytes not taken yet. If the socket has no room, the program keeps the
    /// buffer.
    pub(crate) fn submit(
        &mut self,
        address: usize,
        length: usize,
        how: Option<&sockstamp_how>,
    ) -> Result<usize> {
        let mut buffer = self.program_gives(address)?;
        let ready = buffer
            .set_length(length)
            .and_then(|()| how.map_or(Ok(How::default()), how_of));
        let how = match ready {
            Ok(how) => how,
            Err(errno) => {
                self.free.push(buffer);
                return Err(errno);
            }
        };
        match self.sender.send_by(buffer, how) {
            Ok(Sent::InFlight) => Ok(0),
            Ok(Sent::Copied(buffer)) => {
                self.free.push(buffer);
                Ok(0)
            }
            Ok(Sent::Partly { left }) => Ok(left),
            Err(NotSent::WouldBlock(buffer)) => {
                self.acquired.push(buffer);
                Err(Errno(libc::EAGAIN))
            }
            Err(NotSent::Failed { buffer, error }) => {
                self.free.extend(buffer);
                Err(error.into())
            }
        }
    }

    pub(crate) fn release(&mut self, address: usize) -> Result<()> {
        let buffer = self.program_gives(address)?;
        self.free.push(buffer);
        Ok(())
    }

    fn program_gives(&mut self, address: usize) -> Result<Buffer> {
        let place = self
            .acquired
            .iter()
            .position(|buffer| buffer.is_at(address));
        Ok(self.acquired.swap_remove(place.ok_or(Errno::INVALID)?))
    }

    pub(crate) fn flush(&mut self) -> Result<usize> {
        self.sender.flush()?;
        Ok(self.sender.unsent())
    }

    pub(crate) fn reports(
        &mut self,
        reports: &mut [MaybeUninit<sockstamp_report>],
    ) -> Result<usize> {
        let others = &mut self.others;
        self.sender
            .drain(&mut self.queue, |entry| others.keep(&entry))?;
        self.sender
            .stamps(|stamp| others.keep_in_c(report::of_stamp(&stamp, None)));
        Ok(others.give(reports))
    }

    /// Return the number of buffers still held by the kernel.
    pub(crate) fn wait_idle(&mut self, timeout: Duration) -> Result<usize> {
        let others = &mut self.others;
        self.sender
            .wait_idle(&mut self.queue, timeout, |entry| others.keep(&entry))?;
        Ok(self.sender.in_flight())
    }

    pub(crate) fn ask_again(&mut self) {
        self.sender.ask_again();
    }

    pub(crate) fn counters(&self) -> sockstamp_sender_counters {
        let counters = self.sender.counters();
        sockstamp_sender_counters {
            lent: counters.lent,
            completed: counters.completed,
            completed_copied: counters.completed_copied,
            below_threshold: counters.below_threshold,
            not_asked: counters.not_asked,
            refused: counters.refused,
            repeated: counters.repeated,
            foreign: counters.foreign,
            in_flight: self.sender.in_flight() as u64,
            reports_lost: self.others.lost,
        }
    }
}

/// -1 is for as long as it takes: ten years.
pub(crate) fn timeout(milliseconds: i32) -> Duration {
    const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
    u64::try_from(milliseconds).map_or(FOREVER, Duration::from_millis)
}

fn how_of(how: &sockstamp_how) -> Result<How> {
    let mut sent = How::default();
    let to = address_bytes(&how.to)?;
    if !to.is_empty() {
        sent = sent.to(socket_address(to).ok_or(Errno::INVALID)?);
    }
    if how.segment != 0 {
        sent = sent.segments(how.segment);
    }
    Ok(if how.more == 0 { sent } else { sent.more() })
}

/// Unread reports other than completions.
struct Others {
    kept: VecDeque<sockstamp_report>,
    lost: u64,
}

impl Default for Others {
    fn default() -> Self {
        Self {
            kept: VecDeque::with_capacity(Self::MOST),
            lost: 0,
        }
    }
}

impl Others {
    /// The limit documented in the header.
    const MOST: usize = 256;

    fn keep(&mut self, entry: &Report<'_>) {
        self.keep_in_c(report::in_c(entry));
    }

    fn keep_in_c(&mut self, report: sockstamp_report) {
        if self.kept.len() < Self::MOST {
            self.kept.push_back(report);
        } else {
            self.lost += 1;
        }
    }

    fn give(&mut self, places: &mut [MaybeUninit<sockstamp_report>]) -> usize {
        let count = places.len().min(self.kept.len());
        for (place, report) in places.iter_mut().zip(self.kept.drain(..count)) {
            place.write(report);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use sockstamp::error_queue::ZeroCopyRange;

    use super::*;

    const OPTIONS: sockstamp_sender_options = sockstamp_sender_options {
        buffer_size: 5_000,
        buffers: 2,
        threshold: 1,
        stop_when_copied: 0,
        reserved: 0,
    };

    fn sender() -> (Sender, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(receiver.local_addr().unwrap()).unwrap();
        (Sender::new(socket.as_fd(), &OPTIONS).unwrap(), receiver)
    }

    #[test]
    fn a_buffer_has_one_owner_at_a_time() {
        let (mut sender, receiver) = sender();
        let first = sender.acquire(Duration::ZERO).unwrap().addr();
        let second = sender.acquire(Duration::ZERO).unwrap().addr();
        assert_ne!(first, second);
        assert_eq!((first % 4096, second % 4096), (0, 0));
        assert_eq!(sender.acquire(Duration::ZERO), Err(Errno(libc::ENOBUFS)));
        assert_eq!(sender.submit(first + 1, 1, None), Err(Errno::INVALID));
        assert_eq!(sender.submit(first, 4_000, None), Ok(0));
        assert_eq!(sender.submit(first, 4_000, None), Err(Errno::INVALID));
        assert_eq!(sender.release(first), Err(Errno::INVALID));
        assert_eq!(sender.release(second), Ok(()));
        // UDP on this host: the kernel copies, and is done when the receiver has read.
        assert_eq!(receiver.recv(&mut [0; 5_000]).unwrap(), 4_000);
        assert_eq!(sender.wait_idle(Duration::from_secs(10)), Ok(0));
        let counters = sender.counters();
        assert_eq!((counters.lent, counters.completed), (1, 1));
    }

    #[test]
    fn a_refused_submission_gives_the_buffer_back_to_the_pool() {
        let (mut sender, _receiver) = sender();
        let buffer = sender.acquire(Duration::ZERO).unwrap().addr();
        let too_long = sender.submit(buffer, 5_001, None);
        assert_eq!(too_long, Err(Errno(libc::EMSGSIZE)));
        assert_eq!(sender.release(buffer), Err(Errno::INVALID));
        assert_eq!((sender.free.len(), sender.acquired.len()), (2, 0));
    }

    #[test]
    fn unread_reports_are_kept_up_to_a_limit_and_counted_beyond() {
        let mut others = Others::default();
        let range = |id| {
            report::of_range(ZeroCopyRange {
                first: id,
                last: id,
                copied: false,
            })
        };
        (0..258).for_each(|id| others.keep_in_c(range(id)));
        assert_eq!(others.lost, 2);
        let mut places = [const { MaybeUninit::uninit() }; 200];
        assert_eq!(
            (others.give(&mut places), others.give(&mut places)),
            (200, 56)
        );
        assert_eq!(others.give(&mut places), 0);
    }

    #[test]
    fn a_timeout_of_minus_one_is_long_and_does_not_overflow() {
        assert!(std::time::Instant::now().checked_add(timeout(-1)).is_some());
        assert_eq!(timeout(5), Duration::from_millis(5));
    }
}
