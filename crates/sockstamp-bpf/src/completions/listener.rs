//! The socket that applications connect to.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::error::{Error, Tried};

/// Connections that wait to be accepted: more than that try again.
const BACKLOG: i32 = 64;

/// A listening Unix socket of type SOCK_SEQPACKET, which keeps messages and their descriptors
/// together. Its name is removed with it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listen at `path`, whose directory is made if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], with EADDRINUSE if another service listens there.
    pub fn bind(path: &Path, mode: u32, group: Option<u32>) -> Result<Self, Error> {
        let step = || format!("listen at {}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).tried(step())?;
        }
        if is_listened_at(path) {
            return Err(io::Error::from(Errno::ADDRINUSE)).tried(step());
        }
        // Rename it when it is complete, so that nothing connects before it has its permissions.
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let socket = bind_at(&new, mode, group)
            .and_then(|socket| fs::rename(&new, path).map(|()| socket))
            .inspect_err(|_| drop(fs::remove_file(&new)))
            .tried(step())?;
        Ok(Self {
            socket,
            path: path.to_owned(),
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Ignore the error: a successor replaces the name as well.
        let _ = fs::remove_file(&self.path);
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

fn bind_at(path: &Path, mode: u32, group: Option<u32>) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    if group.is_some() {
        chown(path, None, group)?;
    }
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A name may be left from one that was killed. EAGAIN: it listens, and more wait than may.
fn is_listened_at(path: &Path) -> bool {
    let address = SocketAddrUnix::new(path);
    let connected =
        address.and_then(|address| connect(&new_socket().map_err(|_| Errno::IO)?, &address));
    matches!(connected, Ok(()) | Err(Errno::AGAIN))
}
