//! Directories where nobody else can put, move or remove anything.
//!
//! Files are created and removed there by their paths, with root's rights. A directory on the way
//! that another user can write to may turn into a link at any time, and lead to other files. So
//! each of them is opened from the one before it and inspected, as sshd does with its keys
//! (sshd_config(5), `StrictModes`).

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::unistd::{getegid, geteuid};

/// Links that are followed on the way, as many as the kernel does (path_resolution(7)).
const LINKS: usize = 40;

/// The users and groups that may change directories.
#[derive(Debug, Clone)]
pub struct Trusted {
    users: Vec<u32>,
    groups: Vec<u32>,
}

impl Trusted {
    /// Root, and the user that this process runs as.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            users: vec![0, geteuid().as_raw()],
            groups: vec![0, getegid().as_raw()],
        }
    }

    /// The same, and the user that called sudo(8), for a path on its command line.
    #[must_use]
    pub fn ours_and_sudos() -> Self {
        let id = |variable| env::var(variable).ok()?.parse::<u32>().ok();
        let Self {
            mut users,
            mut groups,
        } = Self::ours();
        users.extend(id("SUDO_UID"));
        groups.extend(id("SUDO_GID"));
        Self { users, groups }
    }

    /// Return the reason why others can change what is in a directory. In a sticky one on the way,
    /// they cannot touch what is not theirs.
    fn reason(&self, directory: &FileStat, is_last: bool) -> Option<String> {
        let mode = Mode::from_bits_truncate(directory.st_mode);
        let is_sticky = mode.contains(Mode::S_ISVTX) && !is_last;
        let by_group = mode.contains(Mode::S_IWGRP) && !self.groups.contains(&directory.st_gid);
        if !self.users.contains(&directory.st_uid) {
            Some(format!("belongs to user {}", directory.st_uid))
        } else if (by_group || mode.contains(Mode::S_IWOTH)) && !is_sticky {
            Some("can be written by others".to_owned())
        } else {
            None
        }
    }
}

/// A path that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Another user may change what is there.
    #[error(
        "{} {reason}, so files there could be replaced by links: name a directory that others \
         cannot write to, in none of theirs", path.display()
    )]
    Shared {
        /// The directory, or the link to it.
        path: PathBuf,
        /// Its owner or its mode.
        reason: String,
    },
    /// The system refused.
    #[error("cannot create {}: {source}", path.display())]
    System {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Make a directory for its owner alone, and those before it, unless they are there.
///
/// # Errors
///
/// If one of them belongs to a user who is not trusted, or can be written by others.
pub fn make(path: &Path, trusted: &Trusted) -> Result<(), Refused> {
    let mut walk = Walk::begin(path).map_err(|error| system(path, error))?;
    while let Some(name) = walk.left.pop_front() {
        walk.step(&name, trusted)?;
    }
    Ok(())
}

fn system(path: &Path, error: impl Into<io::Error>) -> Refused {
    Refused::System {
        path: path.to_owned(),
        source: error.into(),
    }
}

/// The way to a directory.
struct Walk {
    /// The last directory that was opened, and its path.
    at: OwnedFd,
    path: PathBuf,
    left: VecDeque<OsString>,
    links: usize,
}

impl Walk {
    fn begin(path: &Path) -> io::Result<Self> {
        Ok(Self {
            at: root()?,
            path: "/".into(),
            left: names(&std::path::absolute(path)?),
            links: 0,
        })
    }

    /// Go to an entry of this directory: into one, or to where a link leads.
    fn step(&mut self, name: &OsStr, trusted: &Trusted) -> Result<(), Refused> {
        let path = self.path.join(name);
        let failed = |error: Errno| system(&path, error);
        let entry = match open(&self.at, name, OFlag::O_DIRECTORY) {
            Err(Errno::ENOENT) => {
                match mkdirat(self.at.as_fd(), name, Mode::S_IRWXU) {
                    // Somebody else was faster.
                    Err(Errno::EEXIST) => {}
                    made => made.map_err(failed)?,
                }
                open(&self.at, name, OFlag::O_DIRECTORY)
            }
            // The path may be a link.
            Err(Errno::ENOTDIR | Errno::ELOOP) => open(&self.at, name, OFlag::empty()),
            opened => opened,
        };
        let entry = entry.map_err(failed)?;
        let about = fstat(&entry).map_err(failed)?;
        let kind = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
        let shared = |reason| Refused::Shared {
            path: path.clone(),
            reason,
        };
        match kind {
            SFlag::S_IFDIR => {
                if let Some(reason) = trusted.reason(&about, self.left.is_empty()) {
                    return Err(shared(reason));
                }
                (self.at, self.path) = (entry, path);
                Ok(())
            }
            SFlag::S_IFLNK if !trusted.users.contains(&about.st_uid) => {
                Err(shared(format!("is a link of user {}", about.st_uid)))
            }
            SFlag::S_IFLNK => self.follow(&entry).map_err(|error| system(&path, error)),
            _ => Err(failed(Errno::ENOTDIR)),
        }
    }

    fn follow(&mut self, link: &OwnedFd) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS {
            return Err(Errno::ELOOP.into());
        }
        let target = PathBuf::from(readlinkat(link, "")?);
        if target.is_absolute() {
            (self.at, self.path) = (root()?, "/".into());
        }
        for name in names(&target).into_iter().rev() {
            self.left.push_front(name);
        }
        Ok(())
    }
}

fn root() -> io::Result<OwnedFd> {
    Ok(openat(
        AT_FDCWD,
        "/",
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?)
}

/// Open an entry of a directory without following it.
fn open(at: &OwnedFd, name: &OsStr, flag: OFlag) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | flag;
    openat(at, name, flags, Mode::empty())
}

/// The names in a path. `..` is one: it leads where the kernel would go.
fn names(path: &Path) -> VecDeque<OsString> {
    let components = path.components();
    let is_name =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let names = components.filter(is_name);
    names.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use tempfile::TempDir;

    use super::*;

    const STRANGER: u32 = 54_321;

    fn told(path: &Path) -> String {
        make(path, &Trusted::ours()).unwrap_err().to_string()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_directory_is_made_for_its_owner_alone() {
        let top = TempDir::new().unwrap();
        let path = top.path().join("a/b");
        for _ in 0..2 {
            make(&path, &Trusted::ours()).unwrap();
        }
        assert_eq!((mode(&top.path().join("a")), mode(&path)), (0o700, 0o700));
        // As /var/run is one.
        symlink("a", top.path().join("link")).unwrap();
        make(&top.path().join("link/../link/c"), &Trusted::ours()).unwrap();
        assert!(top.path().join("a/c").is_dir());
    }

    #[test]
    fn a_directory_of_another_user_is_refused_wherever_on_the_way_it_is() {
        let top = TempDir::new().unwrap();
        let theirs = top.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        lchown(&theirs, Some(STRANGER), None).unwrap();
        fs::create_dir(theirs.join("ours")).unwrap();
        for below in ["", "ours", "new", "ours/new/newer"] {
            let told = told(&theirs.join(below));
            assert!(told.contains("theirs belongs to user 54321, so"), "{told}");
        }
        assert!(!theirs.join("new").exists() && !theirs.join("ours/new").exists());
        let sudos = Trusted {
            users: vec![0, STRANGER],
            groups: vec![0],
        };
        make(&theirs.join("new"), &sudos).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused_unless_it_is_sticky_and_on_the_way() {
        let top = TempDir::new().unwrap();
        let path = top.path().join("open");
        fs::create_dir(&path).unwrap();
        for (mode, here, below) in [
            (0o755, true, true),
            (0o777, false, false),
            (0o1777, false, true),
            (0o770, true, true),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            for (path, is_good) in [(path.clone(), here), (path.join("below"), below)] {
                let made = make(&path, &Trusted::ours());
                assert_eq!(made.is_ok(), is_good, "{mode:o}: {made:?}");
            }
            let _ = fs::remove_dir(path.join("below"));
        }
        lchown(&path, None, Some(STRANGER)).unwrap();
        let told = told(&path);
        assert!(told.contains("open can be written by others"), "{told}");
    }

    #[test]
    fn links_of_others_and_circles_lead_nowhere() {
        let top = TempDir::new().unwrap();
        let [link, circle, file] = ["link", "circle", "file"].map(|name| top.path().join(name));
        symlink("/", &link).unwrap();
        lchown(&link, Some(STRANGER), None).unwrap();
        let said = told(&link);
        assert!(said.contains("link is a link of user 54321"), "{said}");
        symlink("circle", &circle).unwrap();
        assert!(told(&circle).contains("Too many levels"));
        fs::write(&file, "").unwrap();
        assert!(told(&file).contains("Not a directory"));
    }
}
