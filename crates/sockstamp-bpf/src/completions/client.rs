//! A connection to an application, and the messages that come by it.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use rustix::io::Errno;
use rustix::net::ipproto::{TCP, UDP};
use rustix::net::sockopt::{socket_domain, socket_protocol};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use sockstamp::completions::protocol::{REQUEST_BYTES, Refusal, Reply, Request};

use super::application::Application;
use super::workers::Workers;

/// A connected application, or one that wants to join.
pub(super) struct Client {
    /// A number that no other one has.
    pub(super) number: u64,
    pub(super) connection: Arc<OwnedFd>,
    pub(super) user: u32,
    pub(super) process: i32,
    /// A worker receives its next message: nothing else is received until that is answered.
    pub(super) receiving: bool,
    pub(super) application: Option<Application>,
}

/// A client has gone, or must go.
pub(super) struct Gone;

/// Describe how a client was served.
pub(super) struct Arrived {
    /// [`Client::number`]
    pub(super) client: u64,
    /// Empty if nothing had come.
    pub(super) message: Result<Option<Message>, Gone>,
    /// Dropped last: then the worker closes the passed descriptors.
    _answered: Sender<()>,
}

/// A message.
pub(super) struct Message {
    /// `None` if it is none of this version.
    pub(super) request: Option<Request>,
    pub(super) passed: Option<Passed>,
}

/// A descriptor that came with it.
pub(super) struct Passed {
    descriptor: Arc<OwnedFd>,
    pub(super) kind: Result<Kind, Refusal>,
}

/// Sockets that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    Udp,
}

impl Client {
    /// Have a worker receive the next message and inspect its descriptors.
    pub(super) fn receive(&mut self, workers: &Workers, arrived: Sender<Arrived>) {
        self.receiving = true;
        let connection = Arc::clone(&self.connection);
        let (client, tell) = (self.number, workers.clone());
        workers.run(self.user, move || {
            let (answered, wait) = channel();
            let received = receive(&connection);
            let mut descriptor = None;
            let message = received.map(|received| {
                received.map(|(request, passed)| {
                    descriptor = passed.map(Arc::new);
                    let passed = descriptor.as_ref().map(|descriptor| Passed {
                        kind: kind(descriptor.as_fd()),
                        descriptor: Arc::clone(descriptor),
                    });
                    Message { request, passed }
                })
            });
            let _ = arrived.send(Arrived {
                client,
                message,
                _answered: answered,
            });
            tell.tell();
            // Wait until the sender is dropped.
            let _ = wait.recv();
            drop(descriptor);
        });
    }

    /// A client that does not read its replies is disconnected.
    pub(super) fn send(&self, reply: Reply) -> Result<(), Gone> {
        let memory = match (&reply, &self.application) {
            (Reply::Joined { .. }, Some(application)) => Some([application.memory.as_fd()]),
            _ => None,
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(memory) = &memory {
            control.push(SendAncillaryMessage::ScmRights(memory));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = sendmsg(
            &self.connection,
            &[IoSlice::new(&reply.to_bytes())],
            &mut control,
            flags,
        );
        sent.map(drop).map_err(|_| Gone)
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} of user {}", self.process, self.user)
    }
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

type Received = (Option<Request>, Option<OwnedFd>);

/// Receive one message, with the first descriptor that comes with it: the kernel closes others, as
/// there is no room for them.
fn receive(connection: &OwnedFd) -> Result<Option<Received>, Gone> {
    // Receive one byte more than allowed, to notice longer messages.
    let mut bytes = [0; REQUEST_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let length = match recvmsg(connection, &mut parts, &mut control, flags) {
        Ok(message) if message.bytes > 0 => message.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Ok(_) | Err(_) => return Err(Gone),
    };
    let mut passed = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed = descriptors.last().or(passed);
        }
    }
    Ok(Some((Request::from_bytes(&bytes[..length]), passed)))
}

fn kind(descriptor: BorrowedFd<'_>) -> Result<Kind, Refusal> {
    let domain = socket_domain(descriptor).map_err(|_| Refusal::NotASocket)?;
    let protocol = socket_protocol(descriptor).map_err(|_| Refusal::NotASocket)?;
    if ![AddressFamily::INET, AddressFamily::INET6].contains(&domain) {
        return Err(Refusal::WrongSocket);
    }
    match protocol {
        Some(TCP) => Ok(Kind::Tcp),
        Some(UDP) => Ok(Kind::Udp),
        _ => Err(Refusal::WrongSocket),
    }
}
