//! The socket that applications connect to.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
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
    /// The device and inode of its name: another that replaced it is not removed.
    inode: (u64, u64),
}

impl Listener {
    /// Listen at `path`, whose directory is made if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], with EADDRINUSE if another service listens there, of whichever type its
    /// socket is, and with EEXIST if something else than a socket is there.
    pub fn bind(path: &Path, mode: u32, group: Option<u32>) -> Result<Self, Error> {
        let step = || format!("listen at {}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).tried(step())?;
        }
        require_free(path).tried(step())?;
        // Rename it when it is complete, so that nothing connects before it has its permissions.
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let (socket, inode) = bind_at(&new, mode, group)
            .and_then(|socket| Ok((socket, inode(&fs::symlink_metadata(&new)?))))
            .and_then(|bound| fs::rename(&new, path).map(|()| bound))
            .inspect_err(|_| drop(fs::remove_file(&new)))
            .tried(step())?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            inode,
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
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| inode(&found) == self.inode) {
            // Ignore the error: a successor replaces the name as well.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
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

/// A name may be left from a service that was killed. Only the kernel's refusal shows that nobody
/// listens there: another type of socket is EPROTOTYPE, and EAGAIN says that more wait than may.
fn require_free(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(Errno::EXIST.into());
    }
    match connect(&new_socket()?, &SocketAddrUnix::new(path)?) {
        // The name may also have gone just now.
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(()),
        _ => Err(Errno::ADDRINUSE.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    fn told(path: &Path) -> String {
        match Listener::bind(path, 0o600, None) {
            Ok(_) => panic!("it listens"),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn nothing_of_others_at_its_path_is_replaced() {
        let directory = TempDir::new().unwrap();
        let [file, link, stream, path] =
            ["file", "link", "stream", "path"].map(|name| directory.path().join(name));
        fs::write(&file, "precious").unwrap();
        symlink(&file, &link).unwrap();
        for taken in [&file, &link] {
            assert!(told(taken).contains("File exists"), "{}", told(taken));
        }
        assert_eq!(fs::read(&link).unwrap(), b"precious");
        let other = UnixListener::bind(&stream).unwrap();
        assert!(told(&stream).contains("Address already in use"));
        std::os::unix::net::UnixStream::connect(&stream).unwrap();
        // The service was killed, and its name is left.
        drop(other);
        drop(Listener::bind(&stream, 0o600, None).unwrap());
        assert!(!stream.exists());
        let first = Listener::bind(&path, 0o600, None).unwrap();
        assert!(told(&path).contains("Address already in use"));
        // Another has taken its name.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        drop(first);
        assert!(path.exists());
    }
}
