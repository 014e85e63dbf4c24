//! The socket that applications connect to.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
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
    /// Another that replaced its name is not removed.
    inode: Inode,
}

/// The device and inode of a name.
type Inode = (u64, u64);

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
        let left = left_over(path).tried(step())?;
        let (socket, new) = bind_beside(path).tried(step())?;
        // Moved when it is complete, so that nothing connects before it has its permissions.
        let inode = complete(&socket, &new, mode, group)
            .and_then(|()| inode_at(&new))
            .and_then(|inode| place(&new, path, left).map(|()| inode))
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
        if inode_at(&self.path).is_ok_and(|found| found == self.inode) {
            // Ignore the error: a successor replaces the name as well.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(file: &Metadata) -> Inode {
    (file.dev(), file.ino())
}

fn inode_at(path: &Path) -> io::Result<Inode> {
    fs::symlink_metadata(path).map(|file| inode(&file))
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

/// Return a socket with a name of its own beside the path. Others may have such names: a service of
/// the same process id, as in a container, that was killed.
fn bind_beside(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    const MOST: u32 = 100;
    let socket = new_socket()?;
    let mut taken = Errno::ADDRINUSE;
    for number in 0..MOST {
        let new = path.with_extension(format!("new-{}-{number}", std::process::id()));
        match bind(&socket, &SocketAddrUnix::new(&new)?) {
            Ok(()) => return Ok((socket, new)),
            Err(errno) => taken = errno,
        }
        if taken != Errno::ADDRINUSE {
            break;
        }
    }
    Err(taken.into())
}

fn complete(socket: &OwnedFd, path: &Path, mode: u32, group: Option<u32>) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    if group.is_some() {
        chown(path, None, group)?;
    }
    Ok(listen(socket, BACKLOG)?)
}

/// Give a name to what is at `new`, in exchange for what is left there from an earlier service.
/// A file that has come there meanwhile stays.
fn place(new: &Path, path: &Path, left: Option<Inode>) -> io::Result<()> {
    match exchange(new, path, left) {
        // Network file systems know neither flag of renameat2(2).
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => fs::rename(new, path),
        placed => placed,
    }
}

fn exchange(new: &Path, path: &Path, left: Option<Inode>) -> io::Result<()> {
    let rename = |flags| renameat_with(CWD, new, CWD, path, flags);
    let Some(left) = left else {
        return Ok(rename(RenameFlags::NOREPLACE)?);
    };
    rename(RenameFlags::EXCHANGE)?;
    if inode_at(new)? == left {
        return fs::remove_file(new);
    }
    rename(RenameFlags::EXCHANGE)?;
    Err(Errno::ADDRINUSE.into())
}

/// A name may be left from a service that was killed: return what it names. Only the kernel's
/// refusal shows that nobody listens there: another type of socket is EPROTOTYPE, and EAGAIN says
/// that more wait than may.
fn left_over(path: &Path) -> io::Result<Option<Inode>> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(Errno::EXIST.into());
    }
    match connect(&new_socket()?, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(Some(inode(&found))),
        // The name has gone just now.
        Err(Errno::NOENT) => Ok(None),
        _ => Err(Errno::ADDRINUSE.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn names_of_others_beside_its_path_stay() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("path");
        let beside = path.with_extension(format!("new-{}-0", std::process::id()));
        fs::write(&beside, "precious").unwrap();
        let listener = Listener::bind(&path, 0o600, None).unwrap();
        std::os::unix::net::UnixStream::connect(&path).unwrap_err();
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
        drop(listener);
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(fs::read(&beside).unwrap(), b"precious");
    }

    /// Another process is faster than the service, between a look at the path and a socket there.
    #[test]
    fn what_has_come_to_its_path_meanwhile_stays() {
        let directory = TempDir::new().unwrap();
        let [new, path] = ["new", "path"].map(|name| directory.path().join(name));
        fs::write(&new, "own").unwrap();
        fs::write(&path, "precious").unwrap();
        for left in [None, Some((0, 0))] {
            place(&new, &path, left).unwrap_err();
            assert_eq!(fs::read(&path).unwrap(), b"precious");
            assert_eq!(fs::read(&new).unwrap(), b"own");
        }
        let left = inode_at(&path).unwrap();
        place(&new, &path, Some(left)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"own");
        assert!(!new.exists());
    }

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
