//! Names for what the kernel knows by number.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

use nix::net::if_::if_nameindex;
use nix::sched::{CloneFlags, setns};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::flow::network_namespaces;

/// Every number is looked up once: where it is not found now, it will not be later, for the kernel gives no number
/// of a cgroup twice.
#[derive(Debug)]
pub(crate) struct Names {
    cgroup2: PathBuf,
    cgroups: HashMap<u64, Option<Name>>,
    interfaces: HashMap<(NetnsInode, u32), Option<Name>>,
}

impl Names {
    pub(crate) fn new(cgroup2: &Path) -> Self {
        Self {
            cgroup2: cgroup2.to_owned(),
            cgroups: HashMap::new(),
            interfaces: HashMap::new(),
        }
    }

    /// The path of a cgroup from the root of the hierarchy; `None` if it is gone.
    ///
    /// The number is the inode of its directory (`kernfs_ino()`, include/linux/kernfs.h, v6.18).
    pub(crate) fn cgroup(&mut self, id: u64) -> Option<Name> {
        if !self.cgroups.contains_key(&id) {
            self.read_cgroups();
        }
        self.cgroups.entry(id).or_default().clone()
    }

    fn read_cgroups(&mut self) {
        if let Ok(root) = fs::metadata(&self.cgroup2) {
            self.cgroups.insert(root.ino(), Some("/".into()));
        }
        let mut pending = vec![self.cgroup2.clone()];
        while let Some(directory) = pending.pop() {
            // One that went away meanwhile has nothing below it.
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let path = entry.path();
                    let below = path.strip_prefix(&self.cgroup2).unwrap_or(&path);
                    let name = Path::new("/").join(below);
                    self.cgroups.insert(entry.ino(), Some(name.as_os_str().into()));
                    pending.push(path);
                }
            }
        }
    }

    /// The name of an interface in a network namespace; `None` if it is gone or we may not enter the namespace.
    pub(crate) fn interface(&mut self, netns: NetnsInode, index: u32) -> Option<Name> {
        if !self.interfaces.contains_key(&(netns, index)) {
            let names = interface_names(netns).into_iter();
            self.interfaces
                .extend(names.map(|(index, name)| ((netns, index), Some(name))));
        }
        self.interfaces.entry((netns, index)).or_default().clone()
    }
}

fn interface_names(netns: NetnsInode) -> Vec<(u32, Name)> {
    let is_own = fs::metadata("/proc/self/ns/net").is_ok_and(|own| own.ino() == u64::from(netns.0));
    if is_own {
        return own_interface_names();
    }
    let Some(path) = network_namespaces().remove(&u64::from(netns.0)) else {
        return Vec::new();
    };
    // A thread that went elsewhere must not be used for anything else.
    thread::spawn(move || {
        let entered = File::open(path).map(|file| setns(file, CloneFlags::CLONE_NEWNET));
        match entered {
            Ok(Ok(())) => own_interface_names(),
            _ => Vec::new(),
        }
    })
    .join()
    .unwrap_or_default()
}

fn own_interface_names() -> Vec<(u32, Name)> {
    let interfaces = if_nameindex().ok();
    interfaces
        .iter()
        .flatten()
        .map(|interface| (interface.index(), interface.name().to_bytes().into()))
        .collect()
}
