//! The options, as the user sees them. Help, man pages and completions come from here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, ValueEnum};
use sockstamp_model::group::Dimension;

use crate::filter::FilterWords;

/// Where did the time of this message go? Per-message latency of the Linux network stack, stage by stage.
#[derive(Debug, Parser)]
#[command(name = "sockstamp", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Count: a table of the stages, their distributions and shares
    ///
    /// With a COMMAND: runs it in a cgroup of its own, measures the sockets of that cgroup alone and prints the
    /// table to standard error when it ends; the exit status is the command's. Without: measures until Ctrl-C or
    /// --duration and prints to standard output.
    ///
    /// Quantiles come from histograms with 8 buckets for every power of two and are off by 4.5 % at most; counts,
    /// sums and maxima are exact.
    Stat(Stat),
    /// Watch: a line for each message as it completes
    ///
    /// A line has the time of day (UTC), the direction, pid/comm, local → remote address, bytes, the stages and
    /// their total. Lines go to standard output, as does what a COMMAND prints: -o keeps them apart.
    Trace(Trace),
    /// Live: where the time goes, full screen
    ///
    /// Groups of messages are rows, stages are columns, coloured by their share of the time; Enter leads from a
    /// group to its flows and to their last messages, ? lists the keys. Figures are those of the last interval.
    ///
    /// Quantiles are off by 9.2 % at most. Colours are left out if NO_COLOR is set.
    Top(Top),
    /// Probe: round-trip times as the kernel saw them, and what the prober itself added
    ///
    /// Sends a probe to each host once an interval, by ICMP unless --udp or --tcp says otherwise, and prints a line
    /// for what became of it. Times go from the kernel's stamp of the probe to its stamp of the answer; what a
    /// prober that reads its own clock would add is printed beside it as prober delay. ICMP needs no privilege
    /// where net.ipv4.ping_group_range allows the user's group, else CAP_NET_RAW. Without that, --tcp makes
    /// connections and closes them, and their times are user space's.
    ///
    /// Exit status: 0 if every host answered, 1 if one did not, 2 on errors. With both -c and -w it is 1 as well if
    /// fewer than -c probes were answered. Ctrl-C ends it with the summary.
    Ping(Ping),
    /// Look: what this kernel and this process can measure, and what is missing
    ///
    /// Prints the plan by which `stat` would measure with the same options, hook by hook. Nothing is measured but a
    /// few messages of its own over the loopback interface.
    Doctor(Doctor),
    /// Serve: completions of zerocopy sends and stamps, in memory of the applications that ask for it
    ///
    /// An application registers its own sockets (library sockstamp, module completions). What the kernel puts into
    /// their error queues then is in memory that this application alone can read, so that it needs no system call
    /// to learn of it. Runs until Ctrl-C or SIGTERM, and says on standard error who came and what was refused.
    Completions(Completions),
    /// Remove a command's cgroup once standard input ends
    #[command(hide = true)]
    Janitor(Janitor),
}

pub(crate) const TARGET: &str = "Target";

/// Which messages are measured. All conditions must hold.
#[derive(Debug, Args, Default)]
pub struct Target {
    /// Messages that these processes send or read, on connections they opened or listened for, or hold at the start
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',', help_heading = TARGET)]
    pub pids: Vec<u32>,
    /// The same, of processes by name (as ps -C); also of those that start later
    #[arg(long = "comm", value_name = "NAME", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new(), help_heading = TARGET)]
    pub comms: Vec<String>,
    /// Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount's root
    #[arg(long, value_name = "PATH", help_heading = TARGET)]
    pub cgroup: Option<PathBuf>,
    /// Sockets of this container: docker, containerd, CRI-O, podman or a systemd service, by a prefix of id or name
    #[arg(long, value_name = "ID|NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = TARGET)]
    pub container: Option<String>,
    /// Sockets of this network namespace: a name of ip-netns(8), or a process in it
    #[arg(long, value_name = "NAME|PID", help_heading = TARGET)]
    pub netns: Option<String>,
    /// Sockets whose route leaves through this interface of our network namespace, or of that of --netns
    #[arg(short, long, value_name = "IFACE", help_heading = TARGET)]
    pub interface: Option<String>,
    /// Leave connections alone that exist at the start
    #[arg(long, help_heading = TARGET)]
    pub new_only: bool,
    /// Which flows' messages.
    #[command(flatten)]
    pub filter: FilterWords,
}

const MEASURING: &str = "Measuring";

/// How messages are measured.
#[derive(Debug, Args)]
pub struct Measuring {
    /// Measure up to N messages a second of each flow and direction, and above that one of so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = MEASURING)]
    pub rate_cap: u32,
    /// Measure one message of N, whatever the rate
    #[arg(long, value_name = "1/N", value_parser = one_of, conflicts_with = "rate_cap", help_heading = MEASURING)]
    pub sample: Option<u32>,
    /// Measure every message
    #[arg(long, conflicts_with_all = ["rate_cap", "sample"], help_heading = MEASURING)]
    pub every: bool,
    /// The hook that shows the entry of send calls
    #[arg(long, value_enum, default_value_t, help_heading = MEASURING)]
    pub entry: Entry,
    /// The hooks that stamps come from
    #[arg(long, value_enum, default_value_t, help_heading = MEASURING)]
    pub hooks: Hooks,
    /// Count what a read waited for a missing segment as rx.stack, as if it were one time
    #[arg(long, conflicts_with = "exclude_hol", help_heading = MEASURING)]
    pub include_hol: bool,
    /// Refuse reads that waited for a missing segment
    #[arg(long, help_heading = MEASURING)]
    pub exclude_hol: bool,
    /// Follow the packets of containers and VPNs through this host to the last interface
    ///
    /// Where this host routes them, the kernel tells of the first interface alone: the wait behind it counts as the
    /// network's. With this option it counts as tx.qdisc, with the time for the way. Every packet that this host
    /// sends costs a test more.
    #[arg(long, help_heading = MEASURING)]
    pub host_path: bool,
    /// Count what a reader that was woken waited for a CPU as rx.app, not as rx.wakeup
    #[arg(long, help_heading = MEASURING)]
    pub no_sched: bool,
}

/// Options of `stat`.
#[derive(Debug, Args)]
pub struct Stat {
    #[command(flatten)]
    /// Which messages.
    pub target: Target,
    #[command(flatten)]
    /// How they are measured.
    pub measuring: Measuring,
    /// Stop after this time: a number with ms, s (default) or m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Sum messages by whose they are as well, in groups that differ in each of these
    ///
    /// The port is the service's: the local one of accepted connections, the remote one of others. A container is
    /// that of the socket's cgroup. An interface is that of the socket's route at its first message. There is room
    /// for 1000 groups at once; what finds none is summed as "other".
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',', value_parser = dimension(), conflicts_with = "cumulative")]
    pub by: Vec<Dimension>,
    /// How many groups to print as text, those with the most messages first
    #[arg(long, value_name = "N", default_value_t = 10, requires = "by")]
    pub top: usize,
    /// Print the times from a read's RX stamp to each point on its way, by netstacklat's names
    #[arg(long)]
    pub cumulative: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub format: StatFormat,
    /// Print to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Run this command and measure it alone
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pids", "cgroup", "container", "netns"])]
    pub command: Vec<OsString>,
}

/// Options of `trace`.
#[derive(Debug, Args)]
pub struct Trace {
    #[command(flatten)]
    /// Which messages.
    pub target: Target,
    #[command(flatten)]
    /// How they are measured.
    pub measuring: Measuring,
    /// Stop after this time: a number with ms, s (default) or m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Show only messages that took longer than this in all; every message is measured
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["rate_cap", "sample"],
          help_heading = MEASURING)]
    pub slower_than: Option<Duration>,
    /// How to print: a line of text or a JSON object for each message
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Print to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Run this command and measure it alone
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pids", "cgroup", "container", "netns"])]
    pub command: Vec<OsString>,
}

/// Options of `top`.
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    /// Which messages.
    pub target: Target,
    #[command(flatten)]
    /// How they are measured.
    pub measuring: Measuring,
    /// What a row is: messages that have each of these in common
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',', value_parser = dimension(),
          default_values = ["comm", "port"])]
    pub by: Vec<Dimension>,
    /// Time between two pictures: a number with ms, s (default) or m
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    pub interval: Duration,
    /// Stop after this time: a number with ms, s (default) or m
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "once")]
    pub duration: Option<Duration>,
    /// Print one screen as text after one interval, and stop
    #[arg(long)]
    pub once: bool,
    /// Use no colours
    #[arg(long)]
    pub no_color: bool,
}

/// Options of `ping`.
#[derive(Debug, Args)]
pub struct Ping {
    /// Whom: names or addresses, of names the first address
    #[arg(value_name = "HOST", required_unless_present = "targets")]
    pub hosts: Vec<String>,
    /// Read further hosts from this file, one a line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Send datagrams to this port: a reply answers, and so does ICMP's "port unreachable"
    #[arg(long, value_name = "PORT", conflicts_with = "tcp", value_parser = clap::value_parser!(u16).range(1..))]
    pub udp: Option<u16>,
    /// Send SYNs to this port: a SYN-ACK answers, and so does a RST
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub tcp: Option<u16>,
    /// Use IPv4 alone
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 alone
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Stop after N probes to each host
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// From one probe of a host to its next; less than 2ms is root's alone
    #[arg(short, long, value_name = "TIME", value_parser = pace, default_value = "1s")]
    pub interval: Duration,
    /// Stop after this time, whatever is still under way
    #[arg(short = 'w', long, value_name = "TIME", value_parser = patience)]
    pub deadline: Option<Duration>,
    /// A probe that is not answered after this time is lost
    #[arg(short = 'W', long, value_name = "TIME", value_parser = patience, default_value = "1s")]
    pub timeout: Duration,
    /// Bytes of payload, of ICMP and UDP
    #[arg(short, long, value_name = "BYTES", default_value_t = 56, value_parser = clap::value_parser!(u16).range(..=65507),
          conflicts_with = "tcp")]
    pub size: u16,
    /// TTL of IPv4, hop limit of IPv6
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: Option<u8>,
    /// TOS of IPv4, traffic class of IPv6: a number, or 0x and hexadecimal digits
    #[arg(short = 'Q', long, value_name = "TOS", value_parser = traffic_class)]
    pub tos: Option<u8>,
    /// Send by this interface, or from this source address
    #[arg(short = 'I', long, value_name = "IFACE|ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    pub interface: Option<String>,
    /// Probe from this network namespace: a name of ip-netns(8), or a process in it; of several, from each
    #[arg(long, value_name = "NAME|PID", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub netns: Vec<String>,
    /// Probe from the network namespace of this container, by a prefix of id or name
    #[arg(long, value_name = "ID|NAME", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub container: Vec<String>,
    /// Begin each line with the time of day, in seconds since 1970
    #[arg(short = 'D', long)]
    pub timestamps: bool,
    /// Print the summary alone
    #[arg(short, long)]
    pub quiet: bool,
    /// Send the next probe as soon as the last is answered, or after 10 ms; root only
    #[arg(short, long, conflicts_with = "interval")]
    pub flood: bool,
    /// Print a JSON object for each probe, and the summary as the last one; all times in nanoseconds
    #[arg(long)]
    pub json: bool,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    /// Which messages would be measured.
    pub target: Target,
    #[command(flatten)]
    /// How they would be.
    pub measuring: Measuring,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The Unix socket that applications connect to; its directory is made if there is none
    #[arg(long, value_name = "PATH", default_value = sockstamp::completions::DEFAULT_PATH)]
    pub socket: PathBuf,
    /// Who may connect, as chmod(1) has it in digits
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    pub mode: u32,
    /// The group of the socket: a name or a number
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Serve up to N applications at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub applications: u32,
    /// Serve up to N applications of one user at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub per_user: u32,
    /// Have room for N sockets of each application, of 4672 bytes each
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub sockets: u32,
    /// Print how much of the service that runs is in use, and end
    #[arg(long)]
    pub status: bool,
}

/// Options of the process that removes a command's cgroup.
#[derive(Debug, Args)]
pub struct Janitor {
    /// The cgroup, from the root of the hierarchy.
    pub cgroup: PathBuf,
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

/// The hooks that stamps come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Hooks {
    /// The best that the kernel has
    #[default]
    Best,
    /// Those for kernels before Linux 6.15, to compare them (fentry, and tracepoints that packets pass)
    Older,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, times with units
    #[default]
    Text,
    /// JSON, all times in nanoseconds
    Json,
}

/// How a table is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum StatFormat {
    /// For people, times with units
    #[default]
    Text,
    /// One JSON object, all times in nanoseconds
    Json,
    /// A line a stage, all times in nanoseconds
    Csv,
}

/// A dimension by its name, with all names in help and completions.
fn dimension() -> impl TypedValueParser<Value = Dimension> {
    let names = PossibleValuesParser::new(Dimension::ALL.map(Dimension::name));
    names.try_map(|name| name.parse::<Dimension>())
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("it is three octal digits, such as 660".to_owned()),
    }
}

fn one_of(text: &str) -> Result<u32, String> {
    let count = text.strip_prefix("1/").ok_or("it is 1/N, such as 1/64")?;
    match count.parse() {
        Ok(0) | Err(_) => Err(format!("{count:?} is no whole number above 0")),
        Ok(count) => Ok(count),
    }
}

/// Faster than anybody reads, or slower than anybody waits, is a slip of the finger.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval is from 100ms to 60m".to_owned())
    }
}

/// What [`sockstamp_ping::Settings::interval`] takes.
fn pace(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if (Duration::from_micros(10)..=LONGEST).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval of probes is from 0.01ms to 10^9 s".to_owned())
    }
}

/// What [`sockstamp_ping::Settings::timeout`] takes.
fn patience(text: &str) -> Result<Duration, String> {
    let patience = duration(text)?;
    if patience.is_zero() || patience > LONGEST {
        Err("it is more than 0 and at most 10^9 s".to_owned())
    } else {
        Ok(patience)
    }
}

const LONGEST: Duration = Duration::from_secs(1_000_000_000);

fn traffic_class(text: &str) -> Result<u8, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "it is from 0 to 255, or from 0x00 to 0xff".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let unit = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("unknown unit {unit:?}: use ms, s or m")),
    };
    let seconds = number
        .parse::<f64>()
        .map_err(|_| format!("{number:?} is not a number"))?
        * scale;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_sample_is_one_of_so_many() {
        assert_eq!(one_of("1/64"), Ok(64));
        for wrong in ["64", "2/64", "1/0", "1/-1", "1/"] {
            assert!(one_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_traffic_class_is_decimal_or_hexadecimal() {
        assert_eq!(
            (traffic_class("184"), traffic_class("0xb8")),
            (Ok(0xb8), Ok(0xb8))
        );
        for wrong in ["256", "0x100", "b8", "-1", ""] {
            assert!(traffic_class(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert!(interval("0").is_err() && interval("61m").is_err());
        assert_eq!(pace("0.2ms"), Ok(Duration::from_micros(200)));
        assert!(pace("0").is_err() && patience("0").is_err() && patience("1e10").is_err());
        assert!(duration("2h").is_err());
        assert!(duration("s").is_err());
        assert!(duration("-1").is_err());
    }
}
