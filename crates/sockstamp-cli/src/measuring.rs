//! How messages are measured: options that subcommands share.

use std::time::Duration;

use clap::{Args, ValueEnum};
use sockstamp_bpf::{EntryHook, HolView, Sampling, plan};

/// The heading of these options in `--help`.
pub(crate) const HEADING: &str = "Measuring";

/// How messages are measured.
#[derive(Debug, Args)]
pub struct Measuring {
    /// Measure up to N messages a second of each flow and direction, and above that one of so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = HEADING)]
    pub rate_cap: u32,
    /// Measure one message of N, whatever the rate
    #[arg(long, value_name = "1/N", value_parser = one_of, conflicts_with = "rate_cap", help_heading = HEADING)]
    pub sample: Option<u32>,
    /// Measure every message
    #[arg(long, conflicts_with_all = ["rate_cap", "sample"], help_heading = HEADING)]
    pub every: bool,
    /// The hook that shows the entry of send calls
    #[arg(long, value_enum, default_value_t, help_heading = HEADING)]
    pub entry: Entry,
    /// The hooks that stamps come from
    #[arg(long, value_enum, default_value_t, help_heading = HEADING)]
    pub hooks: Hooks,
    /// Count what a read waited for a missing segment as rx.stack, as if it were one time
    #[arg(long, conflicts_with = "exclude_hol", help_heading = HEADING)]
    pub include_hol: bool,
    /// Refuse reads that waited for a missing segment
    #[arg(long, help_heading = HEADING)]
    pub exclude_hol: bool,
    /// Measure messages of up to N TCP connections at one time [default: as many as the memory is for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = HEADING)]
    pub max_flows: Option<u32>,
    /// Use up to so many megabytes of kernel memory for the state of TCP connections
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536),
          help_heading = HEADING)]
    pub max_memory: u32,
    /// Follow the packets of containers and VPNs through this host to the last interface
    ///
    /// Where this host routes them, the kernel tells of the first interface alone: the wait behind it counts as the
    /// network's. With this option it counts as tx.qdisc, with the time for the way. Every packet that this host
    /// sends costs a test more.
    #[arg(long, help_heading = HEADING)]
    pub host_path: bool,
    /// Count what a reader that was woken waited for a CPU as rx.app, not as rx.wakeup
    #[arg(long, help_heading = HEADING)]
    pub no_sched: bool,
}

impl Measuring {
    /// What is looked for among all messages must not be missed.
    pub(crate) fn sampling(&self, slower_than: Option<Duration>) -> Sampling {
        match self.sample {
            _ if self.every || slower_than.is_some() => Sampling::Every,
            Some(count) => Sampling::OneIn(count),
            None => Sampling::RateCap(self.rate_cap),
        }
    }

    pub(crate) fn hol(&self) -> HolView {
        match (self.include_hol, self.exclude_hol) {
            (true, _) => HolView::Include,
            (_, true) => HolView::Exclude,
            _ => HolView::Split,
        }
    }
}

/// The hook that shows the entry of send calls, where tx.copy begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Entry {
    /// The tracepoint where the kernel has it
    #[default]
    Auto,
    /// A tracepoint that every send of the host passes
    Tracepoint,
    /// A callback of the selected sockets alone, several times a send
    Callback,
    /// None: tx.copy is absent
    Off,
}

impl From<Entry> for EntryHook {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Auto => Self::Auto,
            Entry::Tracepoint => Self::By(plan::Entry::Tracepoint),
            Entry::Callback => Self::By(plan::Entry::Callback),
            Entry::Off => Self::Off,
        }
    }
}

/// The hooks that stamps come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Hooks {
    /// The best that the kernel has
    #[default]
    Best,
    /// Those for kernels before Linux 6.15, to compare them (fentry, and tracepoints that packets pass)
    Older,
}

impl From<Hooks> for sockstamp_bpf::Hooks {
    fn from(hooks: Hooks) -> Self {
        match hooks {
            Hooks::Best => Self::Best,
            Hooks::Older => Self::Older,
        }
    }
}

fn one_of(text: &str) -> Result<u32, String> {
    let count = text.strip_prefix("1/").ok_or("it is 1/N, such as 1/64")?;
    match count.parse() {
        Ok(0) | Err(_) => Err(format!("{count:?} is no whole number above 0")),
        Ok(count) => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_one_of_so_many() {
        assert_eq!(one_of("1/64"), Ok(64));
        for wrong in ["64", "2/64", "1/0", "1/-1", "1/"] {
            assert!(one_of(wrong).is_err(), "{wrong}");
        }
    }
}
