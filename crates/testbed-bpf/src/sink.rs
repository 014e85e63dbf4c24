//! Drop packets before they are received, as a peer that copies nothing: for benchmarks of the cost
//! of sending.

use std::os::fd::AsFd;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{TC_INGRESS, TcHookBuilder};
use nix::net::if_::if_nametoindex;

use crate::error::{Error, Tried};
use crate::object;
use crate::skeleton::sink::SinkSkelBuilder;

/// Has UDP and TCP's payload dropped that arrive at `interface`, of the calling thread's network
/// namespace, from now on, until the interface is gone. TCP is acknowledged up to each segment of
/// at most 2048 bytes; handshakes pass, and so does all else.
///
/// # Errors
///
/// [`Error::Bpf`] or [`Error::Io`] where the kernel refuses.
pub fn attach(interface: &str) -> Result<(), Error> {
    let index = if_nametoindex(interface)
        .map_err(std::io::Error::from)
        .tried(format!("find the interface {interface}"))?;
    let skeleton = object::open(SinkSkelBuilder::default())?
        .load()
        .tried("load the program of the sink")?;
    let hook = TcHookBuilder::new(skeleton.progs.sink_ingress.as_fd())
        .ifindex(index.cast_signed())
        .handle(1)
        .priority(1)
        .hook(TC_INGRESS)
        .create()
        .tried(format!("make a hook of {interface}"))?;
    { hook }.attach().tried(format!("attach to {interface}"))?;
    Ok(())
}
