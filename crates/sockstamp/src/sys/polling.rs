//! Descriptors in a runtime of tokio.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wait for EPOLLERR of `socket`, in the runtime that this is called in.
///
/// # Panics
///
/// Outside a runtime with I/O.
pub(crate) fn for_errors(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open and the AsyncFd owns it from now on, so it stays open and
    // unchanged until the AsyncFd is dropped. An OwnedFd gives the same number each time.
    let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::ERROR) };
    Ok(registered?)
}
