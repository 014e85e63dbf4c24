//! The options of fping(8). Times are milliseconds there.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args};

/// Options of `fping`.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
#[command(group = ArgGroup::new("counting").args(["count", "vcount", "forever"]))]
pub struct Options {
    /// Hosts to probe, without any those on standard input; with -g a network, or a first and a
    /// last address
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Print the hosts that answer
    #[arg(short, long)]
    pub alive: bool,
    /// Print addresses in the place of names
    #[arg(short = 'A', long = "addr")]
    pub addresses: bool,
    /// Bytes of payload
    #[arg(
        short = 'b',
        long,
        value_name = "BYTES",
        default_value_t = 56,
        value_parser = clap::value_parser!(u16).range(..=65507),
    )]
    pub size: u16,
    /// The timeout of each retry, as a multiple of its predecessor's
    #[arg(short = 'B', long, value_name = "N", default_value = "1.5", value_parser = percent)]
    pub backoff: u32,
    /// Send N probes to each host
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The same, and print the time of each
    #[arg(short = 'C', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub vcount: Option<u64>,
    /// Begin the lines of probes with the time of day, in seconds since 1970
    #[arg(short = 'D', long)]
    pub timestamp: bool,
    /// Print the time of the answer
    #[arg(short, long)]
    pub elapsed: bool,
    /// Read the hosts from this file, one per line; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "targets")]
    pub file: Option<PathBuf>,
    /// Probe each address of a network, or from a first to a last one
    #[arg(short, long, conflicts_with = "file")]
    pub generate: bool,
    /// TTL of IPv4, hop limit of IPv6
    #[arg(short = 'H', long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: Option<u8>,
    /// Accepted as fping's: probes of different hosts are spread over the period
    #[arg(short, long, value_name = "MSEC", value_parser = milliseconds)]
    pub interval: Option<Duration>,
    /// Send through this interface
    #[arg(short = 'I', long, value_name = "IFACE")]
    pub iface: Option<String>,
    /// Probe until Ctrl-C
    #[arg(short = 'l', long = "loop")]
    pub forever: bool,
    /// Set the Don't Fragment flag
    #[arg(short = 'M', long = "dontfrag")]
    pub dont_fragment: bool,
    /// Print for netdata; with -l and -Q
    #[arg(short = 'N', long, requires_all = ["forever", "every"])]
    pub netdata: bool,
    /// Print the accumulated time without answers
    #[arg(short, long)]
    pub outage: bool,
    /// TOS of IPv4, traffic class of IPv6
    #[arg(short = 'O', long, value_name = "TOS", value_parser = crate::ping::options::traffic_class)]
    pub tos: Option<u8>,
    /// Time between probes of one host, with -c, -C or -l
    #[arg(short, long, value_name = "MSEC", default_value = "1000", value_parser = milliseconds)]
    pub period: Duration,
    /// Print neither hosts nor probes, but the summary
    #[arg(short, long)]
    pub quiet: bool,
    /// The same, with a summary of each SECS seconds
    #[arg(short = 'Q', long = "squiet", value_name = "SECS", value_parser = seconds)]
    pub every: Option<Duration>,
    /// Probe a host without an answer N times more
    #[arg(short, long, value_name = "N", default_value_t = 3)]
    pub retry: u64,
    /// Accepted as fping's: 8 bytes of each probe are random
    #[arg(short = 'R', long)]
    pub random: bool,
    /// Print statistics of all hosts at the end
    #[arg(short, long)]
    pub stats: bool,
    /// Use this source address
    #[arg(short = 'S', long, value_name = "IP")]
    pub src: Option<String>,
    /// Time for an answer; without it 500, or with -c, -C or -l the period, at most 2000
    #[arg(short, long, value_name = "MSEC", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// Print the hosts that do not answer
    #[arg(short, long)]
    pub unreach: bool,
    /// Print the version
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub version: bool,
    /// Print whether at least N hosts answer
    #[arg(short = 'x', long, value_name = "N")]
    pub reachable: Option<usize>,
}

impl Options {
    /// Return true if probes are counted, and false if a host is done with its first answer.
    pub(super) fn counts(&self) -> bool {
        self.count.is_some() || self.vcount.is_some() || self.forever
    }

    /// Return the file of hosts: standard input where nothing names them.
    pub(super) fn list(&self) -> Option<PathBuf> {
        let names_none = self.targets.is_empty() && !self.generate;
        let of_input = names_none.then(|| PathBuf::from("-"));
        self.file.clone().or(of_input)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet || self.every.is_some()
    }

    pub(super) fn patience(&self) -> Duration {
        const FIRST: Duration = Duration::from_millis(500);
        const LONGEST: Duration = Duration::from_secs(2);
        let usual = match self.counts() {
            true => self.period.min(LONGEST),
            false => FIRST,
        };
        self.timeout.unwrap_or(usual)
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    time(text, 1e-3)
}

fn seconds(text: &str) -> Result<Duration, String> {
    time(text, 1.0)
}

fn time(text: &str, unit: f64) -> Result<Duration, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .ok_or_else(|| "it is a number of at least 0".to_owned())
}

/// Parse a factor from 1.0 to 5.0, of which two decimals count, as percent.
fn percent(text: &str) -> Result<u32, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let percent = format!("{whole}{part:0<2.2}").parse().ok();
    percent
        .filter(|percent| (100..=500).contains(percent))
        .ok_or_else(|| "it is from 1.0 to 5.0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds_or_seconds_and_factors_percent() {
        assert_eq!(milliseconds("0.5"), Ok(Duration::from_micros(500)));
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(
            ["1", "1.5", "2.25"].map(percent),
            [Ok(100), Ok(150), Ok(225)]
        );
        assert!(percent("0.9").is_err() && percent("5.01").is_err() && percent("x").is_err());
        assert!(milliseconds("-1").is_err() && seconds("1s").is_err());
    }
}
