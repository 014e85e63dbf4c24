//! The place of a new file. Its directory is opened once: whatever the path leads to later, the
//! file is created and removed there.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

#[derive(Debug)]
pub(crate) struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::EISDIR)?;
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let parent = parent.unwrap_or(Path::new("."));
        Ok(Self {
            directory: openat(AT_FDCWD, parent, flags, Mode::empty())?,
            name: name.to_owned(),
        })
    }

    /// Create the file, or open one that is there; return whether it was created. Follow no link.
    pub(crate) fn create(&self) -> io::Result<(File, bool)> {
        let open = |flags| {
            // Without O_NONBLOCK, open() would wait for a reader of a pipe.
            let flags = flags | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
            let mode = Mode::S_IRUSR | Mode::S_IWUSR;
            openat(&self.directory, &*self.name, flags | OFlag::O_CLOEXEC, mode)
        };
        match open(OFlag::O_CREAT | OFlag::O_EXCL) {
            Err(Errno::EEXIST) => match open(OFlag::empty()) {
                Err(Errno::ELOOP) => Err(io::Error::other("it is a symbolic link")),
                there => Ok((there?.into(), false)),
            },
            created => Ok((created?.into(), true)),
        }
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        let flags = UnlinkatFlags::NoRemoveDir;
        Ok(unlinkat(&self.directory, &*self.name, flags)?)
    }
}

/// Return the reason why others can read or change what is written to a file that was there, as one
/// that another user has put into /tmp beforehand. A change of its mode would not help: a process
/// that has it open keeps it.
pub(crate) fn shared(file: &Metadata) -> Option<String> {
    let mode = file.mode() & 0o777;
    if file.uid() != geteuid().as_raw() {
        Some(format!("it belongs to user {}", file.uid()))
    } else if mode & 0o077 != 0 {
        Some(format!("others may use it: its mode is {mode:04o}"))
    } else if file.nlink() != 1 {
        Some(format!("it has {} names", file.nlink()))
    } else {
        None
    }
}
