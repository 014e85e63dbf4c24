//! Sends without a copy by io_uring, one at a time: each has its result before the next begins.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::Duration;

use io_uring::{IoUring, Probe, cqueue, opcode, types};
use nix::errno::Errno;

use super::number;

/// IORING_SEND_ZC_REPORT_USAGE of include/uapi/linux/io_uring.h, v6.2.
pub(crate) const REPORT_USAGE: u16 = 1 << 3;
/// IORING_NOTIF_USAGE_ZC_COPIED of include/uapi/linux/io_uring.h, v6.2.
pub(crate) const USAGE_COPIED: u32 = 1 << 31;

/// Bytes for the control messages of a send.
pub(crate) const CONTROL: usize = 64;

/// The description of one send, kept where the kernel finds it when it takes the request.
struct Message {
    header: libc::msghdr,
    to: [u8; size_of::<libc::sockaddr_in6>()],
    control: [u8; CONTROL],
}

/// A send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) parts: &'a [IoSlice<'a>],
    /// A socket address, empty for none.
    pub(crate) to: &'a [u8],
    /// Control messages: [`CONTROL`] bytes at most.
    pub(crate) control: &'a [u8],
    /// MSG_*.
    pub(crate) flags: i32,
}

/// A ring for sends.
///
/// Invariant: its submission queue is empty between calls, unless it is `broken`; then nothing is
/// submitted any more.
pub(crate) struct SendRing {
    ring: IoUring,
    message: Box<Message>,
    broken: Option<Errno>,
}

/// The result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes that were taken.
    pub(crate) result: nix::Result<usize>,
    /// A [`Notification`] of it follows. That is possible after a failed send too.
    pub(crate) notified: bool,
}

/// The kernel is done with the bytes of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notification {
    /// The name of the send.
    pub(crate) name: u64,
    /// The kernel made a copy after all.
    pub(crate) copied: bool,
}

impl SendRing {
    /// `notifications` is how many fit into the ring; the kernel keeps further ones aside.
    ///
    /// The kernel writes those of a `deferred` ring when the thread that made it asks, which no
    /// other thread may (IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_SINGLE_ISSUER, since v6.1), and
    /// otherwise when it likes, by interrupting the thread.
    pub(crate) fn new(notifications: u32, deferred: bool) -> nix::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(notifications.max(2));
        if deferred {
            builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag();
        }
        let ring = builder.build(1).map_err(|error| errno(&error))?;
        Ok(Self {
            ring,
            message: Box::new(Message {
                // SAFETY: integers and pointers only, for which zero bytes are valid.
                header: unsafe { std::mem::zeroed() },
                to: [0; size_of::<libc::sockaddr_in6>()],
                control: [0; CONTROL],
            }),
            broken: None,
        })
    }

    /// Return true if the kernel has IORING_OP_SENDMSG_ZC.
    pub(crate) fn knows_sends(&self) -> bool {
        let mut probe = Probe::new();
        self.ring.submitter().register_probe(&mut probe).is_ok()
            && probe.is_supported(opcode::SendMsgZc::CODE)
    }

    /// Send without a copy. Never blocks. Notifications that are found meanwhile are given to
    /// `notify`.
    pub(crate) fn send(
        &mut self,
        socket: impl AsFd,
        outgoing: Outgoing<'_>,
        name: u64,
        notify: impl FnMut(Notification),
    ) -> nix::Result<Sent> {
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        let header = self.write(&outgoing);
        let entry = opcode::SendMsgZc::new(types::Fd(socket.as_fd().as_raw_fd()), header)
            .flags((outgoing.flags | libc::MSG_DONTWAIT).cast_unsigned())
            .ioprio(REPORT_USAGE)
            .build()
            .user_data(name);
        // SAFETY: the entry points to `self.message`, which is on the heap and lives as long as the
        // ring, and by that to itself and to `outgoing.parts`, each of the layout of `struct iovec`
        // (documentation of IoSlice), and their bytes. The kernel reads all of these only until it
        // has issued the request; then it holds pages of these bytes, which it reads. With
        // MSG_DONTWAIT it issues the request or fails it while it is submitted (REQ_F_NOWAIT;
        // `io_sendmsg_zc()` in io_uring/net.c, v6.18), and `outcome` does not return before its
        // result is there, or before nothing is submitted any more (invariant). The descriptor is
        // open, as it is borrowed for the call.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the submission queue is empty between calls");
        self.outcome(name, notify)
    }

    /// Give each notification that has come to `notify`.
    pub(crate) fn reap(&mut self, notify: impl FnMut(Notification)) -> nix::Result<()> {
        let submission = self.ring.submission();
        let enter = submission.cq_overflow() || submission.taskrun();
        drop(submission);
        if enter && self.broken.is_none() {
            self.enter(None)?;
        }
        self.completions(None, notify);
        Ok(())
    }

    /// Wait for a notification, at most `longest`.
    pub(crate) fn wait(&mut self, longest: Duration) -> nix::Result<()> {
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        self.enter(Some(longest))
    }

    fn outcome(&mut self, name: u64, mut notify: impl FnMut(Notification)) -> nix::Result<Sent> {
        let mut longest = None;
        loop {
            if let Err(errno) = self.enter(longest) {
                self.broken = Some(errno);
                return Err(errno);
            }
            if let Some(outcome) = self.completions(Some(name), &mut notify) {
                return Ok(outcome);
            }
            longest = Some(Duration::from_secs(1));
        }
    }

    fn enter(&self, longest: Option<Duration>) -> nix::Result<()> {
        let submitter = self.ring.submitter();
        let entered = match longest {
            None => submitter.submit(),
            Some(longest) => {
                let longest = types::Timespec::from(longest);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&longest))
            }
        };
        match entered.map_err(|error| errno(&error)) {
            Ok(_) | Err(Errno::EINTR | Errno::ETIME | Errno::EBUSY) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// The outcome of the send with that name, if it has come.
    fn completions(
        &mut self,
        name: Option<u64>,
        mut notify: impl FnMut(Notification),
    ) -> Option<Sent> {
        let mut outcome = None;
        for entry in self.ring.completion() {
            if cqueue::notif(entry.flags()) {
                notify(Notification {
                    name: entry.user_data(),
                    copied: entry.result().cast_unsigned() & USAGE_COPIED != 0,
                });
            } else if Some(entry.user_data()) == name {
                outcome = Some(Sent {
                    result: usize::try_from(entry.result())
                        .map_err(|_| Errno::from_raw(-entry.result())),
                    notified: cqueue::more(entry.flags()),
                });
            }
        }
        outcome
    }

    fn write(
        &mut self,
        &Outgoing {
            parts, to, control, ..
        }: &Outgoing<'_>,
    ) -> *const libc::msghdr {
        let message = &mut *self.message;
        message.to[..to.len()].copy_from_slice(to);
        message.control[..control.len()].copy_from_slice(control);
        let header = &mut message.header;
        header.msg_name = at(&mut message.to, to.len()).cast();
        header.msg_namelen = u32::try_from(to.len()).expect("no longer than its room");
        header.msg_iov = parts.as_ptr().cast_mut().cast();
        header.msg_iovlen = number(parts.len());
        header.msg_control = at(&mut message.control, control.len()).cast();
        header.msg_controllen = number(control.len());
        &raw const message.header
    }
}

impl fmt::Debug for SendRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SendRing")
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

// SAFETY: the pointers in `message` are into itself and to what is read by the kernel during `send`
// alone.
unsafe impl Send for Message {}

// SAFETY: as for Send: no pointer in it is followed by this program.
unsafe impl Sync for Message {}

fn at(bytes: &mut [u8], length: usize) -> *mut u8 {
    if length == 0 {
        ptr::null_mut()
    } else {
        bytes.as_mut_ptr()
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
