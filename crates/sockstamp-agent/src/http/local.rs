//! A socket of this host, for its owner alone: who reaches it needs no token.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Sockets of agents are here, by the port that each serves.
const DIRECTORY: &str = "/run/sockstamp";

/// Return the socket of the agent that serves this port.
pub(crate) fn path(port: u16) -> PathBuf {
    Path::new(DIRECTORY).join(format!("agent-{port}.sock"))
}

/// A socket that goes with the agent.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    path: PathBuf,
}

impl LocalSocket {
    /// Listen at a path, whose directory is made for its owner alone.
    pub(crate) fn bind(path: PathBuf) -> io::Result<(UnixListener, Self)> {
        if let Some(directory) = path.parent() {
            let mut private = DirBuilder::new();
            private.recursive(true).mode(0o700).create(directory)?;
        }
        let listener = match UnixListener::bind(&path) {
            // An agent that was killed left it.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(&path) => {
                fs::remove_file(&path)?;
                UnixListener::bind(&path)?
            }
            listener => listener?,
        };
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok((listener, Self { path }))
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // The next agent takes its place in any case.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_abandoned(path: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    UnixStream::connect(path).is_err_and(refused)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_socket_is_its_owners_and_goes_and_one_that_was_left_is_replaced() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("run/agent.sock");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (listener, socket) = LocalSocket::bind(path.clone()).unwrap();
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        let taken = LocalSocket::bind(path.clone()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
        drop(listener);
        drop(UnixListener::bind(&path).unwrap());
        let (_listener, _socket) = LocalSocket::bind(path).unwrap();
    }
}
