//! The Unix socket to the service.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt,
    send, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::protocol::{REPLY_BYTES, Reply, Request};
use crate::sys::descriptor;
use crate::{Error, Result};

/// The service answers in microseconds; it may be busy with another application for some ten
/// milliseconds.
const PATIENCE_SECONDS: i64 = 10;

#[derive(Debug)]
pub(super) struct Connection {
    server: String,
    socket: OwnedFd,
    /// Requests and their replies come in pairs.
    turn: Mutex<()>,
}

impl Connection {
    /// Connect to a service that runs as a user who is `trusted`.
    pub(super) fn open(path: &Path, trusted: impl Fn(u32) -> bool) -> Result<Self> {
        let server = path.display().to_string();
        let socket = socket(
            AddressFamily::Unix,
            SockType::SeqPacket,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(Error::call("socket(SOCK_SEQPACKET)", &server))?;
        let patience = TimeVal::seconds(PATIENCE_SECONDS);
        setsockopt(&socket, sockopt::ReceiveTimeout, &patience)
            .and_then(|()| setsockopt(&socket, sockopt::SendTimeout, &patience))
            .map_err(Error::call("setsockopt(SO_RCVTIMEO)", &server))?;
        let address = UnixAddr::new(path).map_err(Error::call("connect", &server))?;
        connect(socket.as_raw_fd(), &address).map_err(Error::call("connect", &server))?;
        let listens = getsockopt(&socket, sockopt::PeerCredentials)
            .map_err(Error::call("getsockopt(SO_PEERCRED)", &server))?;
        let user = listens.uid();
        if !trusted(user) {
            return Err(Error::Untrusted { server, user });
        }
        Ok(Self {
            server,
            socket,
            turn: Mutex::new(()),
        })
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn no_answer(&self) -> Error {
        Error::NoAnswer {
            server: self.server.clone(),
        }
    }

    /// Send a request with its descriptor, and wait for the reply.
    pub(super) fn ask(
        &self,
        request: Request,
        passed: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Option<OwnedFd>)> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = request.to_bytes();
        let descriptors = passed.map(|passed| passed.as_raw_fd());
        let rights = [ControlMessage::ScmRights(descriptors.as_slice())];
        let control = if passed.is_some() {
            rights.as_slice()
        } else {
            &[]
        };
        // A service without room replies before any request, and closes: the reply can still be
        // read.
        let _ = sendmsg::<()>(
            self.socket.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        let mut answer = [0; REPLY_BYTES];
        let (length, came) = self.receive(&mut answer).map_err(|_| self.no_answer())?;
        match Reply::from_bytes(&answer[..length]) {
            Some(Reply::Refused(refusal)) => Err(Error::Refused {
                server: self.server.clone(),
                refusal,
            }),
            Some(reply) => Ok((reply, came)),
            None => Err(self.no_answer()),
        }
    }

    /// Skip one error before the reply: a service that closes before it has read our request leaves
    /// one (`unix_release_sock()`, net/unix/af_unix.c, v6.18).
    fn receive(&self, answer: &mut [u8]) -> nix::Result<(usize, Option<OwnedFd>)> {
        match descriptor::receive(&self.socket, answer) {
            Err(Errno::ECONNRESET) => descriptor::receive(&self.socket, answer),
            result => result,
        }
    }

    /// Send a request without a reply. If it cannot be sent, the service forgets it with the
    /// connection.
    pub(super) fn tell(&self, request: Request) {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let _ = send(self.socket.as_raw_fd(), &request.to_bytes(), flags);
    }

    /// The service sends nothing unasked: readable is the end of the connection.
    pub(super) fn is_open(&self) -> bool {
        let mut watched = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(
            poll(&mut watched, PollTimeout::ZERO),
            Ok(0) | Err(Errno::EINTR)
        )
    }
}
