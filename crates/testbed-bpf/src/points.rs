//! The points of the receive path where netstacklat examines packets, and the point where TCP wakes
//! the reader, by programs of our own on the same functions: tests compare these times with ours.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use libbpf_rs::Link;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::skel::OpenSkel;
use sockstamp_bpf::opening;
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::NetnsInode;

use crate::attach::attach_traced;
use crate::skeleton::points::{PointsSkel, PointsSkelBuilder};

/// The points, in the order of the programs' `enum point`.
const POINTS: [&str; 8] = [
    "ip-start",
    "tcp-start",
    "udp-start",
    "tcp-socket-enqueued",
    "udp-socket-enqueued",
    "tcp-data-ready",
    "tcp-socket-read",
    "udp-socket-read",
];

/// The programs, attached.
pub struct Points {
    _links: Vec<Link>,
    skeleton: PointsSkel<'static>,
}

impl std::fmt::Debug for Points {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Points").finish_non_exhaustive()
    }
}

impl Points {
    /// Attach to every function of these that the kernel has: static ones may be inlined.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attach(netns: NetnsInode) -> Result<Self> {
        let kernel = Btf::from_vmlinux().context("cannot read the kernel's types")?;
        let clocks = sockstamp::clock::measure().context("cannot read the clocks")?;
        let mut open = opening::open(PointsSkelBuilder::default())?;
        if let Some(data) = open.maps.rodata_data.as_mut() {
            data.points_netns = netns.0;
            data.points_tai_minus_realtime = clocks.tai().delta().0;
        }
        for mut program in open.open_object_mut().progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let function = section.split('/').next_back().unwrap_or_default();
            program.set_autoload(kernel.type_by_name::<Func<'_>>(function).is_some());
        }
        let mut skeleton = open.load().context("cannot load the programs")?;
        let links = attach_traced(&mut skeleton)?;
        Ok(Self {
            _links: links,
            skeleton,
        })
    }

    /// Every point, with how long after their RX software stamps packets were there, the shortest
    /// first.
    #[must_use]
    pub fn times(&self) -> BTreeMap<&'static str, Vec<Nanos>> {
        let reached = self
            .skeleton
            .maps
            .bss_data
            .iter()
            .flat_map(|data| &data.points);
        POINTS
            .into_iter()
            .zip(reached)
            .map(|(point, reached)| {
                let count = usize::try_from(reached.count).unwrap_or(usize::MAX);
                let mut times: Vec<_> = reached
                    .times_ns
                    .iter()
                    .copied()
                    .take(count)
                    .map(Nanos)
                    .collect();
                times.sort_unstable();
                (point, times)
            })
            .collect()
    }
}
