//! A TCP socket whose lock a task holds for as long as a test likes.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Context, Error, Result};
use crate::patience::PATIENCE;
use crate::sys::AbsentPage;

/// A connection inside a send call whose memory does not come, such as a page of a file on a file
/// system that hangs.
///
/// `tcp_sendmsg()` copies while it holds the socket's lock (net/ipv4/tcp.c, v6.18). Other tasks
/// that call `lock_sock()` sleep until the lock is released, and no signal wakes them. When this is
/// dropped the page comes and the lock is released.
#[derive(Debug)]
pub struct HeldSocket {
    faults: Option<OwnedFd>,
    sender: Option<JoinHandle<()>>,
}

impl HeldSocket {
    /// Sends on `socket`, and returns once its lock is held.
    pub fn hold(socket: impl AsFd + Send + 'static) -> Result<HeldSocket> {
        let (page, faults) = AbsentPage::new().context("make", "a page that does not come")?;
        let sender = thread::spawn(move || {
            let _ = page.send(&socket);
        });
        let timeout = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
        let mut watched = [PollFd::new(faults.as_fd(), PollFlags::POLLIN)];
        let waits = poll(&mut watched, timeout).context("poll", "faults of a page")? > 0;
        let held = HeldSocket {
            faults: Some(faults),
            sender: Some(sender),
        };
        match waits {
            true => Ok(held),
            false => Err(Error::Timeout {
                what: "a send of an absent page".to_owned(),
                after: PATIENCE,
            }),
        }
    }
}

impl Drop for HeldSocket {
    fn drop(&mut self) {
        drop(self.faults.take());
        let _ = self.sender.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn nothing_that_locks_the_socket_returns_before_the_page_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let held = HeldSocket::hold(client.try_clone().unwrap()).unwrap();
        let (done, returned) = channel();
        let waiter = thread::spawn(move || {
            // `do_tcp_setsockopt()` takes the lock.
            SockRef::from(&client).set_tcp_nodelay(true).unwrap();
            done.send(()).unwrap();
        });
        let early = returned.recv_timeout(Duration::from_millis(300));
        assert_eq!(early, Err(RecvTimeoutError::Timeout));
        drop(held);
        waiter.join().unwrap();
        assert_eq!(returned.recv(), Ok(()));
    }
}
