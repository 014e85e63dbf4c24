//! A proxy inside the kernel (sockmap): bytes of one socket leave by another one, by calls that no
//! program makes.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags};
use sockstamp_bpf::opening;

use crate::skeleton::redirect::{RedirectSkel, RedirectSkelBuilder};

/// Which bytes of a socket leave by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    /// Messages that it receives: a worker of the kernel sends them, without waiting.
    Received,
    /// Messages that its program sends: the program's task sends them, and may wait.
    Sent,
}

/// A redirection, which ends when it is dropped.
pub struct Redirect {
    _skeleton: RedirectSkel<'static>,
}

impl std::fmt::Debug for Redirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redirect").finish_non_exhaustive()
    }
}

impl Redirect {
    /// Have these bytes of `from` leave by `to` from now on. Both are connected TCP sockets.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn new(bytes: Bytes, from: impl AsFd, to: impl AsFd) -> Result<Self> {
        let skeleton = opening::open(RedirectSkelBuilder::default())?
            .load()
            .context("cannot load the programs")?;
        let (maps, programs) = (&skeleton.maps, &skeleton.progs);
        let (map, program) = match bytes {
            Bytes::Received => (&maps.redirect_receivers, &programs.redirect_received),
            Bytes::Sent => (&maps.redirect_senders, &programs.redirect_sent),
        };
        program
            .attach_sockmap(map.as_fd().as_raw_fd())
            .context("cannot attach to the map")?;
        put(&maps.redirect_targets, to)?;
        put(map, from)?;
        Ok(Self {
            _skeleton: skeleton,
        })
    }
}

fn put(map: &impl MapCore, socket: impl AsFd) -> Result<()> {
    let descriptor = i64::from(socket.as_fd().as_raw_fd());
    map.update(
        &0_u32.to_ne_bytes(),
        &descriptor.to_ne_bytes(),
        MapFlags::ANY,
    )
    .context("cannot put the socket into the map")
}
