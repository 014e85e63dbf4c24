//! The subcommands, with their descriptions.

use clap::Parser;
use sockstamp_ping_cli::{fping, ping};

use crate::{
    agent, diff, doctor, explain, export, janitor, join, notifications, pcap, record, recover,
    report, stat, stuck, top, trace,
};

/// Measure the latency of each message in the Linux network stack, stage by stage.
#[derive(Debug, Parser)]
#[command(
    name = "sockstamp",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
    /// Explain the words of the output, on one page
    #[arg(long)]
    pub explain_words: bool,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Print a table of the stages, their distributions and shares
    ///
    /// With a COMMAND: run it in its own cgroup, measure only the sockets of that cgroup, and print
    /// the table to standard error when the command ends; the exit status is the command's.
    /// Without: measure until Ctrl-C or --duration, and print to standard output.
    ///
    /// Quantiles come from histograms with 8 buckets per power of two and are off by at most 4.5 %,
    /// those of groups (--by) by 9.2 %; counts, sums and maxima are exact.
    Stat(stat::Options),
    /// List everything that waits now, the oldest first
    ///
    /// One line for each wait: how long, whose, for whom and for what. One look at the sockets of
    /// all network namespaces shows also what began to wait long before. One-way senders,
    /// subscribers and idle connections wait for nobody, and questions over UDP leave nothing to
    /// see.
    ///
    /// Exit status: 0 done, 3 if --fail is given and something waits.
    Stuck(stuck::Options),
    /// Print a line per message as it completes
    ///
    /// A line has the time of day (UTC), the direction, pid/comm, local → remote address, bytes,
    /// the stages and their total. Lines go to standard output, like the output of a COMMAND; -o
    /// separates them.
    Trace(trace::Options),
    /// Show live where the time goes, full screen
    ///
    /// Rows are groups of messages; columns are stages, coloured by their share of the time. Enter
    /// opens a group's flows, then a flow's last messages; ? lists the keys. Figures cover the last
    /// interval.
    ///
    /// Quantiles are off by at most 9.2 %. NO_COLOR disables colours.
    Top(top::Options),
    /// Write every packet of the target as pcapng, for Wireshark
    ///
    /// Write the packets that tcpdump would show, of existing and new connections and sockets, with
    /// their process and container in a comment. Each is written once, where it is seen first: at
    /// the driver if it is sent, after GRO if it is received. With --all-stages it is written at
    /// each stage, on a separate interface.
    Pcap(pcap::Options),
    /// Find the stages that make slow messages slow
    ///
    /// Compare the slowest 1 % of messages with normal ones, separately for sends, reads, answers,
    /// connects and accepts: which stage or part carries how much of the excess, how sure that is,
    /// and what usually cures it. Measure a target, or read recordings. A conclusion needs slow
    /// messages in 20 flows or 20 seconds.
    Explain(explain::Options),
    /// Record messages in Parquet files, one row each
    ///
    /// A file is readable up to its last row group whenever the recording is killed: at most the
    /// last 10 seconds are lost, or 2 seconds if 4096 messages came in them; of a single file 1/256
    /// of its time, if that is longer. `sockstamp recover` cuts the rest, for other readers.
    Record(record::Options),
    /// Print the table of `stat` from recordings
    ///
    /// Counts, sums and distributions are those of the recorded messages by weight, as in `stat`.
    /// Figures that recordings lack are zero: messages in flight, segments of unmeasured messages.
    /// The duration runs from the first message to the last. --by and --interval sum by group and
    /// by time.
    Report(report::Options),
    /// Find the stages that changed from one recording to another
    ///
    /// Compare quantiles of each stage, with 95 % intervals that hold for all together. A star
    /// marks a significant change.
    ///
    /// Exit status: 0 done, 3 if a condition of --fail-if holds.
    Diff(diff::Options),
    /// Join the recordings of two hosts: each message from its send call to its read call
    ///
    /// TCP messages are matched by sequence numbers. `net.forward`, the path between the hosts,
    /// needs the offset of their clocks, which is computed from the messages, with its uncertainty
    /// (± clocks).
    Join(join::Options),
    /// Convert recordings for other programs
    ///
    /// A trace for Perfetto has the tracks of each flow below its process. They show messages,
    /// their stages and the parts of stages, with times to the nanosecond.
    Export(export::Options),
    /// Cut recordings after their last complete row group
    ///
    /// A recording that was killed, or whose disk was full, may end with bytes that other readers
    /// of Parquet refuse. Complete files do not change.
    Recover(recover::Options),
    /// Probe hosts; print round-trip times by kernel stamps, and the prober's own delay
    ///
    /// Send one probe per host and interval, by ICMP, --udp or --tcp, and print a line per result.
    /// Times run from the kernel's stamp of the probe to its stamp of the answer; a user-space
    /// pinger would add the prober delay, which is printed separately. ICMP needs no privilege if
    /// net.ipv4.ping_group_range includes the user's group, and CAP_NET_RAW otherwise. Without
    /// that, --tcp opens and closes connections, and takes the times in user space.
    ///
    /// Exit status: 0 if every host answered, 1 if one did not, 2 on errors. With both -c and -w it
    /// is also 1 if fewer than -c probes were answered. Ctrl-C ends it with the summary.
    #[command(version)]
    Ping(ping::Options),
    /// Probe hosts as fping does: its options, output and exit status, with the kernel's times
    ///
    /// For programs that run fping and read what it prints; a link to sockstamp named `fping` is
    /// the same. Times are milliseconds there.
    ///
    /// Exit status: 0 if every host answered, 1 if one did not, 2 if a name has no address, 4 on
    /// errors.
    Fping(fping::Options),
    /// Show what this kernel and this process can measure, and what is missing
    ///
    /// Print the plan that `stat` would use with the same options, hook by hook. It measures only a
    /// few messages of its own, over the loopback interface. Options that choose no hook change
    /// nothing, and a COMMAND does not run.
    ///
    /// Exit status: 0 if `stat` can measure, 1 if not.
    Doctor(doctor::Options),
    /// Measure continuously, and serve metrics to Prometheus
    ///
    /// Serve /metrics over HTTP until Ctrl-C or SIGTERM: distributions of the stages by container,
    /// messages, bytes, verdicts, losses and the agent's own cost, as counters that only grow.
    /// It also serves /healthz, /readyz and /config. /metrics says what each metric counts, and
    /// --print-settings lists the settings.
    Agent(agent::Options),
    /// Publish zerocopy completions and stamps in memory of the applications that register
    ///
    /// An application registers its own sockets (library sockstamp, module completions). The
    /// entries of their error queues then also appear in memory, which only this application can
    /// read, without a system call. Run until Ctrl-C or SIGTERM, and log applications and refusals
    /// to standard error.
    Notifications(notifications::Options),
    /// Remove a command's cgroup once standard input ends
    #[command(hide = true)]
    Janitor(janitor::Options),
    /// Read memory of processes for the parent, until standard input ends
    #[command(hide = true)]
    Reader,
}
