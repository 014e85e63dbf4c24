//! Write an option into every segment: what tags would cost without thought.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use sockstamp_bpf::opening;
use sockstamp_model::flow::NetnsInode;

use crate::skeleton::naive::{NaiveSkel, NaiveSkelBuilder};

/// The program, attached.
pub struct Naive {
    _link: Link,
    skeleton: NaiveSkel<'static>,
}

impl std::fmt::Debug for Naive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Naive").finish_non_exhaustive()
    }
}

impl Naive {
    /// Attach to a cgroup, for connections that are made from now on: all, or those of a network
    /// namespace.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attach(cgroup: &Path, netns: Option<NetnsInode>) -> Result<Self> {
        let mut open = opening::open(NaiveSkelBuilder::default())?;
        if let (Some(settings), Some(netns)) = (open.maps.rodata_data.as_mut(), netns) {
            settings.naive_netns = netns.0;
        }
        let skeleton = open
            .load()
            .context("cannot load the program that writes options")?;
        let cgroup =
            File::open(cgroup).with_context(|| format!("cannot open {}", cgroup.display()))?;
        let link = skeleton
            .progs
            .naive_sockops
            .attach_cgroup(cgroup.as_raw_fd());
        Ok(Self {
            _link: link.context("cannot attach to the cgroup")?,
            skeleton,
        })
    }

    /// Its descriptor, by its name.
    #[must_use]
    pub fn programs(&self) -> Vec<(String, BorrowedFd<'_>)> {
        let program = &self.skeleton.progs.naive_sockops;
        vec![(
            program.name().to_string_lossy().into_owned(),
            program.as_fd(),
        )]
    }
}
