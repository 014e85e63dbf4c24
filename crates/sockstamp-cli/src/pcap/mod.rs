//! `sockstamp pcap`: every packet of the target, for Wireshark.

mod capture;
mod comment;
mod destination;
mod recorded;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use sockstamp_bpf::packets;
use sockstamp_bpf::{Packets, drop_capabilities};
use sockstamp_print::interfaces::Namespaces;
use sockstamp_run::command;
use sockstamp_run::duration::lasting;
use sockstamp_run::escape::complain;
use sockstamp_run::life::Life;

use crate::options::source::Source;

use capture::Capture;
use destination::{create, tell};

/// Options of `pcap`.
#[derive(Debug, Args)]
// A connection is known from any of its packets: which of them are new is not.
#[command(mut_arg("new_only", |arg| arg.hide(true).conflicts_with("write")))]
pub struct Options {
    #[command(flatten)]
    /// Recordings, or the target.
    pub source: Source,
    /// Write the packets of the target, or those of recordings, to this file; - is standard output
    #[arg(short, long, value_name = "FILE|-")]
    pub write: PathBuf,
    /// Write each packet at each stage, on an interface of its own, such as eth0/sched
    ///
    /// The stages are `sched` (it enters the packet scheduler), `driver` (the driver takes it),
    /// `softirq` (it is received), `socket` (it is queued at its socket) and `tcp` (TCP takes it,
    /// on an established connection). A packet has the same `frame.packet_id` at all of them.
    #[arg(long)]
    pub all_stages: bool,
    /// Write up to N bytes of each packet, from the IP header on [default: the headers alone]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(..=65535))]
    pub snaplen: u32,
    /// Keep packets in this many megabytes of kernel memory until they are written
    #[arg(
        long,
        value_name = "MB",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..=1024),
    )]
    pub buffer: u32,
    /// Stop after this time: a number with us, ms, s (default), m or h
    #[arg(short, long, value_name = "TIME", value_parser = lasting)]
    pub duration: Option<Duration>,
    /// Stop after N packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Run this command and write only its packets
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pids", "cgroup", "container", "netns"])]
    pub command: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match options.source.files[..] {
        [] => live(options, &options.write),
        _ => recorded::run(
            &options.source,
            &options.write,
            options.all_stages,
            options.count,
        ),
    }
}

fn live(options: &Options, output: &Path) -> Result<ExitCode> {
    let mut options_of_packets = packets::Options {
        target: options.source.target.resolve()?,
        all_stages: options.all_stages,
        snaplen: options.snaplen,
        ring_bytes: options.buffer.next_power_of_two() << 20,
    };
    // A pipe waits here for its reader: until then, signals end the process as usual.
    let output = create(output)?;
    let mut life = Life::new(options.duration)?;
    if let Some(cgroup) = life.prepare(&options.command)? {
        options_of_packets.target.cgroup = Some(cgroup);
    }
    let mut packets = Packets::start(&options_of_packets)?;
    if options.all_stages && !packets.sees_sockets() {
        complain("the stage `socket` is absent: it needs Linux 6.2");
    }
    let namespaces = Some(Namespaces::read());
    life.start()?;
    // Only now is the file emptied: a command that cannot be started costs nothing.
    let mut capture = Capture::start(output, namespaces, options.all_stages, options.count)?;
    let dropped = drop_capabilities()?;
    life.last(|left, signal| {
        packets.wait(left, &[signal], &mut |packet| capture.packet(packet))?;
        capture.flush();
        let ends = packets.have_outlived_their_target() && !options.source.target.keep;
        Ok(!capture.is_over() && !ends)
    })?;
    drop(dropped);
    let lost = packets.stop(&mut |packet| capture.packet(packet))?;
    let written = capture.finish(lost, 0)?;
    tell(written, lost, options.all_stages);
    Ok(life
        .outlive()?
        .map_or(ExitCode::SUCCESS, command::exit_code))
}
