//! Implement the methods by which a program learns that it may reuse a buffer.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};
use sockstamp::completions::Completions;
use sockstamp::error_queue::ErrorQueue;
use sockstamp::zerocopy::{NotSent, Options, RingSender, Sent, Support, ZeroCopySender};

use crate::paired::to_float;

const PATIENCE: Duration = Duration::from_secs(10);
/// The loop reads the clock after this many sends.
const SENDS: u64 = 32;
/// More than are ever in flight where completions are looked for after every send.
const BUFFERS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// By recvmsg(2) on the error queue, one entry per call, until it is empty; after poll(2) if
    /// more are to come. The kernel's own test does so, tools/testing/selftests/net/msg_zerocopy.c
    /// (v6.18).
    Classic,
    /// The same, but it counts, and stops as soon as it can.
    Counting,
    /// By the library, from the error queue, many entries per call.
    Batched,
    /// By the library, from memory that `sockstamp notifications` writes.
    Memory,
    /// By the library and io_uring.
    Ring,
    /// Never: the lower bound of the cost of completions.
    Never,
    /// Sends copy, and need no completion.
    Copied,
}

impl Method {
    pub(super) const ALL: [Self; 7] = [
        Self::Classic,
        Self::Counting,
        Self::Batched,
        Self::Memory,
        Self::Ring,
        Self::Never,
        Self::Copied,
    ];

    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Return true if it is by the library.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Batched | Self::Memory | Self::Ring)
    }
}

/// The work of a socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) method: Method,
    /// Bytes of a send.
    pub(super) bytes: usize,
    /// Sends between two reads of completions.
    pub(super) interval: u64,
    pub(super) time: Duration,
    /// The service, for [`Method::Memory`].
    pub(super) completions: Option<&'a Completions>,
}

impl Task<'_> {
    /// Return bytes per second.
    pub(super) fn run<S: AsFd>(&self, socket: &S) -> Result<f64> {
        let mut sends = self.start(socket)?;
        let (mut sent, started) = (0, Instant::now());
        while started.elapsed() < self.time {
            for _ in 0..SENDS {
                sends.send()?;
                sent += 1;
                if sent % self.interval == 0 {
                    sends.look()?;
                }
            }
        }
        let elapsed = started.elapsed().as_secs_f64();
        Ok(to_float(sent * self.bytes as u64) / elapsed)
    }

    fn start<'a, S: AsFd>(&self, socket: &'a S) -> Result<Box<dyn Sends + 'a>> {
        // Use the same number for all methods, so that all find equally warm caches.
        let buffers = vec![vec![1; self.bytes]; BUFFERS];
        let wanted = usize::try_from(self.interval)?;
        let options = Options::default().threshold(0);
        Ok(match self.method {
            Method::Classic => Box::new(Bare::new(socket, buffers, Reading::All(wanted))?),
            Method::Counting => Box::new(Bare::new(socket, buffers, Reading::Expected(wanted))?),
            Method::Never => Box::new(Bare::new(socket, buffers, Reading::Nothing)?),
            Method::Copied => Box::new(Copied(socket, Turns::new(buffers))),
            Method::Batched => Box::new(Library::new(socket, buffers, options, wanted, None)?),
            Method::Memory => Box::new(Library::new(
                socket,
                buffers,
                options,
                wanted,
                self.completions,
            )?),
            Method::Ring => Box::new(Ring {
                sender: RingSender::new(socket, options, u32::try_from(BUFFERS)?)?,
                free: buffers.into(),
                wanted,
            }),
        })
    }
}

trait Sends {
    fn send(&mut self) -> Result<()>;
    /// Learn of completions, and wait only if there is no buffer for the next sends.
    fn look(&mut self) -> Result<()>;
}

/// Buffers that no reader waits for.
struct Turns(Vec<Vec<u8>>, usize);

impl Turns {
    fn new(buffers: Vec<Vec<u8>>) -> Self {
        Self(buffers, 0)
    }

    fn next(&mut self) -> &[u8] {
        self.1 = (self.1 + 1) % self.0.len();
        &self.0[self.1]
    }
}

struct Copied<'a, S>(&'a S, Turns);

impl<S: AsFd> Sends for Copied<'_, S> {
    fn send(&mut self) -> Result<()> {
        send_all(self.0, self.1.next(), MsgFlags::empty())?;
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The completions read so far, and the buffers wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    All(usize),
    Expected(usize),
    Nothing,
}

/// System calls alone.
struct Bare<'a, S> {
    socket: &'a S,
    buffers: Turns,
    reading: Reading,
    sent: u32,
    completed: u32,
}

impl<'a, S: AsFd> Bare<'a, S> {
    fn new(socket: &'a S, buffers: Vec<Vec<u8>>, reading: Reading) -> Result<Self> {
        let sender = ZeroCopySender::<_, Vec<u8>>::new(socket, Options::default())?;
        ensure!(sender.support() == Support::Available, "no SO_ZEROCOPY");
        Ok(Self {
            socket,
            buffers: Turns::new(buffers),
            reading,
            sent: 0,
            completed: 0,
        })
    }

    /// `false`: there was none.
    fn read_completion(&mut self) -> Result<bool> {
        let mut control = nix::cmsg_space!([u8; 64]);
        let mut parts: [IoSliceMut<'_>; 0] = [];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let fd = self.socket.as_fd().as_raw_fd();
        let message = match recvmsg::<()>(fd, &mut parts, Some(&mut control), flags) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(false),
            Err(errno) => return Err(errno).context("recvmsg(MSG_ERRQUEUE)"),
        };
        for part in message.cmsgs()? {
            let (ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _)) = part
            else {
                bail!("not a completion: {part:?}");
            };
            self.completed += error.ee_data - error.ee_info + 1;
        }
        Ok(true)
    }
}

impl<S: AsFd> Sends for Bare<'_, S> {
    fn send(&mut self) -> Result<()> {
        let flags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
        self.sent += send_all(self.socket, self.buffers.next(), flags)?;
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let (Reading::All(wanted) | Reading::Expected(wanted)) = self.reading else {
            return Ok(());
        };
        loop {
            let found = self.read_completion()?;
            let in_flight = self.sent - self.completed;
            if in_flight == 0 && matches!(self.reading, Reading::Expected(_)) {
                return Ok(());
            }
            if found {
                continue;
            }
            if in_flight as usize + wanted <= BUFFERS {
                return Ok(());
            }
            await_events(self.socket, PollFlags::empty())?;
        }
    }
}

struct Library<'a, S> {
    sender: ZeroCopySender<&'a S, Vec<u8>>,
    queue: ErrorQueue,
    free: VecDeque<Vec<u8>>,
    wanted: usize,
}

impl<'a, S: AsFd> Library<'a, S> {
    fn new(
        socket: &'a S,
        buffers: Vec<Vec<u8>>,
        options: Options,
        wanted: usize,
        completions: Option<&Completions>,
    ) -> Result<Self> {
        let mut sender = ZeroCopySender::new(socket, options)?;
        if let Some(completions) = completions {
            sender.use_memory(completions, false)?;
        }
        Ok(Self {
            sender,
            queue: ErrorQueue::new(),
            free: buffers.into(),
            wanted,
        })
    }
}

impl<S: AsFd> Sends for Library<'_, S> {
    fn send(&mut self) -> Result<()> {
        let buffer = self.free.pop_front().context("as many buffers as sends")?;
        match self.sender.send(buffer) {
            Ok(Sent::InFlight) => Ok(()),
            other => bail!("copied: {:?}", other.is_ok()),
        }
    }

    fn look(&mut self) -> Result<()> {
        self.sender.drain(&mut self.queue, |_| {})?;
        while let Some(returned) = self.sender.next_returned() {
            self.free.push_back(returned.buffer);
        }
        while self.free.len() < self.wanted {
            let returned = self
                .sender
                .wait_returned(&mut self.queue, PATIENCE, |_| {})?;
            self.free.push_back(returned.context("in flight")?.buffer);
        }
        Ok(())
    }
}

struct Ring<'a, S> {
    sender: RingSender<&'a S, Vec<u8>>,
    free: VecDeque<Vec<u8>>,
    wanted: usize,
}

impl<S: AsFd> Sends for Ring<'_, S> {
    fn send(&mut self) -> Result<()> {
        let mut buffer = self.free.pop_front().context("as many buffers as sends")?;
        loop {
            match self.sender.send(buffer) {
                Ok(Sent::InFlight | Sent::Partly { .. }) => return Ok(()),
                Err(NotSent::WouldBlock(same)) => buffer = same,
                _ => bail!("not sent, or copied"),
            }
            await_events(self.sender.socket(), PollFlags::POLLOUT)?;
        }
    }

    fn look(&mut self) -> Result<()> {
        self.sender.reap()?;
        while let Some(returned) = self.sender.next_returned() {
            self.free.push_back(returned.buffer);
        }
        while self.free.len() < self.wanted {
            while !self.sender.flush()? {
                await_events(self.sender.socket(), PollFlags::POLLOUT)?;
            }
            let returned = self.sender.wait_returned(PATIENCE)?;
            self.free.push_back(returned.context("in flight")?.buffer);
        }
        Ok(())
    }
}

/// Send in several calls: TCP may take a part.
fn send_all(socket: &impl AsFd, bytes: &[u8], flags: MsgFlags) -> Result<u32> {
    let (mut sent, mut calls) = (0, 0);
    while sent < bytes.len() {
        sent += send(socket.as_fd().as_raw_fd(), &bytes[sent..], flags)?;
        calls += 1;
    }
    Ok(calls)
}

/// Besides errors, which poll(2) always reports.
fn await_events(socket: &impl AsFd, events: PollFlags) -> Result<()> {
    let mut fds = [PollFd::new(socket.as_fd(), events)];
    let ready = poll(&mut fds, PollTimeout::try_from(PATIENCE)?)?;
    ensure!(ready == 1, "nothing for {PATIENCE:?}");
    Ok(())
}
