//! Implement the ways to read the stamps of a socket that sends by its own calls.

use std::hint::black_box;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use sockstamp::completions::{Completions, Registration};
use sockstamp::error_queue::{ErrorQueue, Report as Entry, RingReport, StampRing};

use super::transport::Transport;

/// Entries of stamps that may be in an error queue: a third of a usual receive buffer's capacity.
const ENTRIES: u64 = 96;
/// Room of a ring: more than twice what comes between two reads ([`StampRing::lost`]).
const STAMPS: u32 = 256;

pub(super) trait Reading {
    /// All available stamps.
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()>;
    /// Return their number.
    fn stamps(&self) -> Option<u64>;
}

#[derive(Debug)]
pub(super) struct Nothing;

impl Reading for Nothing {
    fn read(&mut self, _: BorrowedFd<'_>) -> Result<()> {
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        None
    }
}

#[derive(Debug, Default)]
pub(super) struct Naive {
    stamps: u64,
}

impl Naive {
    /// `false`: there was none.
    fn read_one(&mut self, socket: BorrowedFd<'_>) -> Result<bool> {
        let mut control = nix::cmsg_space!([TimeSpec; 3], [u8; 64]);
        let mut parts: [IoSliceMut<'_>; 0] = [];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)
        {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(false),
            Err(errno) => return Err(errno).context("recvmsg(MSG_ERRQUEUE)"),
        };
        for part in message.cmsgs()? {
            match part {
                ControlMessageOwned::ScmTimestampsns(times) => {
                    black_box(times.system);
                }
                ControlMessageOwned::Ipv4RecvErr(error, _) => {
                    black_box((error.ee_info, error.ee_data));
                }
                other => bail!("not of a stamp: {other:?}"),
            }
        }
        self.stamps += 1;
        Ok(true)
    }
}

impl Reading for Naive {
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        while self.read_one(socket)? {}
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        Some(self.stamps)
    }
}

#[derive(Debug, Default)]
pub(super) struct Batched {
    queue: ErrorQueue,
    stamps: u64,
}

impl Reading for Batched {
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        let stamps = &mut self.stamps;
        self.queue.drain(socket, |entry| {
            if let Entry::Stamp { stamp, .. } = entry {
                black_box(stamp);
                *stamps += 1;
            }
        })?;
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        Some(self.stamps)
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    ring: StampRing,
    stamps: u64,
}

impl Ring {
    /// Watch this socket, or return nothing if the kernel cannot.
    pub(super) fn of(socket: BorrowedFd<'_>) -> Result<Option<Self>> {
        let Ok(mut ring) = StampRing::new(STAMPS) else {
            return Ok(None);
        };
        ring.watch(socket, 0)?;
        let mut ended = false;
        ring.read(|report| ended |= matches!(report, RingReport::Ended { .. }))?;
        Ok((!ended).then_some(Self { ring, stamps: 0 }))
    }
}

impl Reading for Ring {
    fn read(&mut self, _: BorrowedFd<'_>) -> Result<()> {
        let stamps = &mut self.stamps;
        self.ring.read(|report| {
            if let RingReport::Stamp { stamp, .. } = report {
                black_box(stamp);
                *stamps += 1;
            }
        })?;
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        Some(self.stamps)
    }
}

#[derive(Debug)]
pub(super) struct Memory {
    registration: Registration,
    /// The error queue, if it has the stamps too.
    queue: Option<ErrorQueue>,
    stamps: u64,
}

impl Memory {
    /// Have the service write down the stamps of TCP, which then needs no error queue.
    pub(super) fn new(
        completions: &Completions,
        socket: BorrowedFd<'_>,
        transport: Transport,
    ) -> Result<Self> {
        let registration = completions.register(socket, transport == Transport::Tcp)?;
        let queue = if registration.has_stamps() {
            None
        } else {
            transport.options().apply(socket)?;
            Some(ErrorQueue::new())
        };
        Ok(Self {
            registration,
            queue,
            stamps: 0,
        })
    }
}

impl Reading for Memory {
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        let stamps = &mut self.stamps;
        self.registration.stamps(|stamp| {
            black_box(stamp);
            *stamps += 1;
        });
        if let Some(queue) = &mut self.queue
            && self.registration.entries_queued() >= ENTRIES
        {
            self.registration.queue_is_read();
            queue.drain(socket, |_| {})?;
        }
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        Some(self.stamps)
    }
}
