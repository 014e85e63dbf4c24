//! Another user of the bits that a session sets on sockets, and an observer of these bits and of
//! packets: for tests of the other effects of a session on a host.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Iter, Link};
use sockstamp_bpf::opening;
use sockstamp_model::flow::NetnsInode;

use crate::skeleton::stranger::{StrangerSkel, StrangerSkelBuilder};

/// The bits of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// `SK_BPF_CB_TX_TIMESTAMPING`
    pub stamps: bool,
    /// `BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG`
    pub entry: bool,
    /// `BPF_SOCK_OPS_STATE_CB_FLAG`
    pub states: bool,
    /// `BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG`
    pub segments: bool,
}

/// Programs that set all of them on some connections, attached.
pub struct Stranger {
    _links: [Link; 2],
    skeleton: StrangerSkel<'static>,
}

impl std::fmt::Debug for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stranger").finish_non_exhaustive()
    }
}

impl Stranger {
    /// Set the bits on each connection from or to `port` that is made in `netns` from now on,
    /// before any program does that is attached to the same cgroup later.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn attach(cgroup: &Path, netns: NetnsInode, port: u16) -> Result<Self> {
        let mut open = opening::open(StrangerSkelBuilder::default())?;
        if let Some(settings) = open.maps.rodata_data.as_mut() {
            settings.stranger_netns = netns.0;
            settings.stranger_port = port.into();
        }
        let skeleton = open.load().context("cannot load the programs")?;
        let cgroup =
            File::open(cgroup).with_context(|| format!("cannot open {}", cgroup.display()))?;
        let asks = skeleton
            .progs
            .stranger_asks
            .attach_cgroup(cgroup.as_raw_fd());
        let counts = skeleton.progs.stranger_counts.attach();
        Ok(Self {
            _links: [
                asks.context("cannot attach to the cgroup")?,
                counts.context("cannot attach to net_dev_queue")?,
            ],
            skeleton,
        })
    }

    /// Return the number of packets that requested stamps in that namespace.
    #[must_use]
    pub fn asking_packets(&self) -> u64 {
        let counted = self.skeleton.maps.bss_data.as_ref();
        counted.map_or(0, |data| data.stranger_asking_packets)
    }

    /// The bits of each connection of the calling thread's network namespace, by its local and
    /// remote port.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn look(&self) -> Result<BTreeMap<(u16, u16), Bits>> {
        let step = "cannot look at connections";
        let link = self.skeleton.progs.stranger_looks.attach().context(step)?;
        let mut text = String::new();
        let mut iterator = Iter::new(&link).context(step)?;
        iterator.read_to_string(&mut text).context(step)?;
        Ok(text.lines().filter_map(parse).collect())
    }
}

fn parse(line: &str) -> Option<((u16, u16), Bits)> {
    let mut numbers = line.split(' ').map_while(|word| word.parse::<u16>().ok());
    let ports = (numbers.next()?, numbers.next()?);
    let bits = Bits {
        stamps: numbers.next()? != 0,
        entry: numbers.next()? != 0,
        states: numbers.next()? != 0,
        segments: numbers.next()? != 0,
    };
    Some((ports, bits))
}
