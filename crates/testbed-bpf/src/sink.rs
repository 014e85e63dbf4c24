//! Drop packets before they are received, as a peer that copies nothing: for benchmarks of the cost
//! of sending.

use std::os::fd::AsFd;

use anyhow::{Context, Result};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{TC_INGRESS, TcHookBuilder};
use nix::net::if_::if_nametoindex;
use sockstamp_bpf::opening;

use crate::skeleton::sink::SinkSkelBuilder;

/// Drop UDP and TCP's payload that arrive at `interface` of the calling thread's network namespace,
/// from now on, until the interface is removed. TCP is acknowledged up to each segment of at most
/// 2048 bytes; handshakes pass, and so does everything else.
///
/// # Errors
///
/// If the kernel refuses.
pub fn attach(interface: &str) -> Result<()> {
    let index = if_nametoindex(interface)
        .with_context(|| format!("cannot find the interface {interface}"))?;
    let skeleton = opening::open(SinkSkelBuilder::default())?
        .load()
        .context("cannot load the program of the sink")?;
    let hook = TcHookBuilder::new(skeleton.progs.sink_ingress.as_fd())
        .ifindex(index.cast_signed())
        .handle(1)
        .priority(1)
        .hook(TC_INGRESS)
        .create()
        .with_context(|| format!("cannot make a hook of {interface}"))?;
    { hook }
        .attach()
        .with_context(|| format!("cannot attach to {interface}"))?;
    Ok(())
}
