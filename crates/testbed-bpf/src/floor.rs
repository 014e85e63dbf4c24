//! Empty programs on the same hooks: what being called costs, before anything is done. Benchmarks
//! give our cost as a multiple of it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use sockstamp_bpf::opening;

use crate::attach::attach_traced;
use crate::skeleton::floor::{FloorSkel, FloorSkelBuilder};

/// The empty programs, attached.
pub struct Floor {
    _links: Vec<Link>,
    skeleton: FloorSkel<'static>,
}

impl std::fmt::Debug for Floor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Floor").finish_non_exhaustive()
    }
}

impl Floor {
    /// Attach to every hook of a [`sockstamp_bpf::Session`]; sockets of `cgroup` are selected.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attach(cgroup: &Path) -> Result<Self> {
        let mut skeleton = opening::open(FloorSkelBuilder::default())?
            .load()
            .context("cannot load the empty programs")?;
        let mut links = attach_traced(&mut skeleton)?;
        let cgroup =
            File::open(cgroup).with_context(|| format!("cannot open {}", cgroup.display()))?;
        let programs = &skeleton.progs;
        for program in [
            &programs.floor_cgroup_ingress,
            &programs.floor_sock_create,
            &programs.floor_sock_release,
            &programs.floor_sendmsg4,
            &programs.floor_sendmsg6,
            &programs.floor_sockops,
        ] {
            let link = program.attach_cgroup(cgroup.as_raw_fd());
            links.push(link.context("cannot attach to the cgroup")?);
        }
        Ok(Self {
            _links: links,
            skeleton,
        })
    }

    /// Descriptors of the programs by the name of the hook.
    #[must_use]
    pub fn programs(&self) -> Vec<(String, BorrowedFd<'_>)> {
        let programs = &self.skeleton.progs;
        [
            &programs.floor_sockops,
            &programs.floor_tcp_sendmsg_locked,
            &programs.floor_sock_send_length,
            &programs.floor_tcp_retransmit_skb,
            &programs.floor_tcp_probe,
            &programs.floor_sk_data_ready,
            &programs.floor_sock_recv_length,
            &programs.floor_inet_sock_set_state,
            &programs.floor_net_dev_queue,
            &programs.floor_net_dev_start_xmit,
            &programs.floor_kfree_skb,
            &programs.floor_cgroup_ingress,
            &programs.floor_sock_create,
            &programs.floor_sock_release,
            &programs.floor_sendmsg4,
            &programs.floor_sendmsg6,
        ]
        .into_iter()
        .map(|program| {
            (
                program.name().to_string_lossy().into_owned(),
                program.as_fd(),
            )
        })
        .collect()
    }
}
