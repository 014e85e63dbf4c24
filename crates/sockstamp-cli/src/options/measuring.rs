//! Define the options of measuring that subcommands share.

use std::time::Duration;

use clap::Args;
use sockstamp_bpf::nic::Ask;
use sockstamp_bpf::{Ceiling, Sampling};
use sockstamp_run::max_cost::{MaxCost, max_cost};
use sockstamp_run::sample::{Sample, sample};

use super::expert::Expert;
use super::heading::MEASURING;

/// Options of measuring.
#[derive(Debug, Args)]
pub struct Measuring {
    /// The choices of experts. The first, because clap takes values of fields away in their order.
    #[command(flatten)]
    pub expert: Expert,
    /// Measure all messages, or some
    ///
    /// N/s: up to N messages per second, flow and direction; above that, one in M, with weight M.
    /// 1/N: one message in N, at any rate. 2^K: messages whose bytes hold a multiple of 2^K, by
    /// sequence number, so that both ends of a connection choose the same messages, for `join`;
    /// datagrams by a hash of their bytes, as often as messages of TCP of the same length.
    #[arg(
        long,
        value_name = "all|N/s|1/N|2^K",
        value_parser = sample,
        default_value = "100/s",
        help_heading = MEASURING,
    )]
    pub sample: Sample,
    /// Measure every message, as --sample all
    #[arg(long, conflicts_with = "sample", help_heading = MEASURING)]
    pub every: bool,
    /// Let measuring cost up to this share of one core: a percentage, or none
    ///
    /// The cost is that of sockstamp's process and of its programs, which the kernel accounts in
    /// short samples. Above this ceiling, the rate of --sample N/s is lowered, to no less than a
    /// sixteenth; if that does not suffice, it measures in windows (--expert windows). Without this
    /// option, `stat` and `top` try to stay below 1% by lower rates alone. Nothing lowers the
    /// cost of --every, and of --slow where only slow messages are kept: if they start above the
    /// ceiling, they are refused. The kernel reports the cost only with CAP_SYS_ADMIN: without it
    /// nothing is limited, and these two need `none`.
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = max_cost,
        help_heading = MEASURING,
    )]
    pub max_cost: Option<MaxCost>,
    /// Measure up to N connections and UDP sockets at a time [default: limited by --max-memory]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = MEASURING,
    )]
    pub max_flows: Option<u32>,
    /// Use up to this many megabytes of kernel memory for the state of connections and UDP sockets
    #[arg(
        long,
        value_name = "MB",
        default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..=65536),
        help_heading = MEASURING,
    )]
    pub max_memory: u32,
    /// Keep records of messages in this many megabytes of kernel memory until they are read
    ///
    /// `trace`, `record` and `explain` count a record as lost (`ring`) if there is no room for it.
    /// With `--packets`, records of packets have twice as much.
    #[arg(
        long,
        value_name = "MB",
        default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=1024),
        help_heading = MEASURING,
    )]
    pub buffer: u32,
    /// Ask NICs that stamp sends for stamps of some messages, for `tx.nic`, and use those of
    /// received packets, for `rx.nic`
    ///
    /// RATE: at most so many per second, for the whole host. auto: 100, if each NIC that stamps has
    /// a stamp for each packet. By default none is asked: a NIC with room for a single stamp would
    /// miss those of PTP. So none is asked while a process holds the clock of such a NIC, as ptp4l
    /// does. Messages above the rate are still measured, without `tx.nic`. Stamps of received
    /// packets are used at the same rate, where a NIC stamps all that it receives; they are taken
    /// from nobody.
    #[arg(long, value_name = "auto|off|RATE", default_value_t, help_heading = MEASURING)]
    pub nic_stamps: Ask,
    /// Follow packets of containers and VPNs through this host to the last interface
    ///
    /// Where this host routes them, the kernel reports only the first interface, and later waits
    /// count as tx.network. With this option they count as tx.qdisc, including the time of
    /// forwarding. Without it, datagrams end at the container's own interface, also behind a
    /// bridge. It costs one more test per packet that this host sends, and, while selected sockets
    /// move datagrams, some per packet that it sends, receives and frees.
    #[arg(long, help_heading = MEASURING)]
    pub host_path: bool,
}

impl Measuring {
    /// Measure every message, because a search must not miss one.
    pub(crate) fn sampling(&self, slow_only: Option<Duration>) -> Sampling {
        match self.sample {
            _ if self.every || slow_only.is_some() => Sampling::Every,
            sample => sample.into(),
        }
    }

    /// Return K of `--sample 2^K`.
    pub(crate) fn in_step(&self) -> Option<u32> {
        match self.sample {
            Sample::InStep(bits) => Some(bits),
            Sample::All | Sample::PerSecond(_) | Sample::OneIn(_) => None,
        }
    }

    /// Return the ceiling of the cost. `limited`: there is one unless the user says otherwise.
    pub(crate) fn ceiling(&self, limited: bool) -> Option<Ceiling> {
        match self.max_cost {
            Some(MaxCost(millionths)) => millionths.map(|millionths| Ceiling {
                millionths,
                windows: true,
            }),
            None if self.expert.windows.is_some() || !limited => None,
            None => MaxCost::ONE_PERCENT.0.map(|millionths| Ceiling {
                millionths,
                windows: false,
            }),
        }
    }
}
