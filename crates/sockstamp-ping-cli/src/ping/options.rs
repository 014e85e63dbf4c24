//! The options of `sockstamp ping`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Command, FromArgMatches, ValueEnum};
use sockstamp::socket_options::PathMtu;
use sockstamp_print::colour::Colours;
use sockstamp_print::destination::Output;
use sockstamp_print::output::Format;
use sockstamp_run::duration::duration;

/// Options of `ping`.
#[derive(Debug, Args)]
pub struct Options {
    /// Hosts to probe: addresses, names (their first address), 10.0.0.0/24, 10.0.0.1-10.0.0.9
    #[arg(value_name = "HOST", required_unless_present = "targets", value_parser = host)]
    pub hosts: Vec<String>,
    /// Read further hosts from this file, one per line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Send datagrams to this port; a reply or ICMP "port unreachable" is an answer
    #[arg(
        long,
        value_name = "PORT",
        conflicts_with = "tcp",
        value_parser = clap::value_parser!(u16).range(1..),
    )]
    pub udp: Option<u16>,
    /// Send SYNs to this port; a SYN-ACK or RST is an answer
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub tcp: Option<u16>,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Stop after N probes to each host
    #[arg(short, long, value_name = "N", value_parser = number)]
    pub count: Option<u64>,
    /// Time between probes of one host; less than 2ms needs root
    /// (0: with each answer, as -f, but as much is printed)
    #[arg(short, long, value_name = "TIME", value_parser = pace, default_value = "1s")]
    pub interval: Duration,
    /// Stop after this time, even if answers are outstanding
    #[arg(short = 'w', long, value_name = "TIME", value_parser = patience)]
    pub deadline: Option<Duration>,
    /// Count a probe as lost if it is not answered within this time (0: never); without it 1s, and
    /// a host that never answered is awaited for 3.2s after its last probe
    #[arg(short = 'W', long, value_name = "TIME", value_parser = patience_or_none)]
    pub timeout: Option<Duration>,
    /// Bytes of payload, for ICMP and UDP
    #[arg(
        short,
        long,
        value_name = "BYTES",
        default_value_t = 56,
        value_parser = clap::value_parser!(u16).range(..=65507),
        conflicts_with = "tcp",
    )]
    pub size: u16,
    /// TTL of IPv4, hop limit of IPv6
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: Option<u8>,
    /// TOS of IPv4, traffic class of IPv6: a number, or 0x and hexadecimal digits
    #[arg(short = 'Q', long, value_name = "TOS", value_parser = traffic_class)]
    pub tos: Option<u8>,
    /// When probes may be fragmented: never (do; probe: even above the known path MTU), by this
    /// host (want), by routers too (dont)
    #[arg(short = 'M', long = "pmtudisc", value_name = "WHEN")]
    pub path_mtu: Option<Fragmentation>,
    /// Mark the packets of probes, for routes and firewalls
    #[arg(short = 'm', long, value_name = "MARK", value_parser = mark)]
    pub mark: Option<u32>,
    /// The identifier of echo requests; by default one that is not in use
    #[arg(
        short = 'e',
        long,
        value_name = "ID",
        value_parser = clap::value_parser!(u16).range(1..),
        conflicts_with_all = ["udp", "tcp"],
    )]
    pub identifier: Option<u16>,
    /// Bytes of the sockets' send buffers
    #[arg(
        short = 'S',
        long,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)),
    )]
    pub sndbuf: Option<u32>,
    /// Send through this interface, or from this source address
    #[arg(short = 'I', long, value_name = "IFACE|ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    pub interface: Option<String>,
    /// Probe from each of these network namespaces: a name of ip-netns(8), or a process in it
    #[arg(
        long,
        value_name = "NAME|PID",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
    )]
    pub netns: Vec<String>,
    /// Probe from the network namespaces of these containers, by a prefix of id or name
    #[arg(
        long,
        value_name = "ID|NAME",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
    )]
    pub container: Vec<String>,
    /// Begin each line with the time of day, in seconds since 1970
    #[arg(short = 'D', long)]
    pub timestamps: bool,
    /// Print only the summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Ring the terminal's bell with each answer that has a line
    #[arg(short = 'a', long)]
    pub audible: bool,
    /// Accepted as ping's: addresses are never looked up as names
    #[arg(short)]
    pub numeric: bool,
    /// Accepted as ping's: a lost probe always has a line
    #[arg(short = 'O')]
    pub outstanding: bool,
    /// Accepted as ping's: errors always have a line
    #[arg(short)]
    pub verbose: bool,
    /// Accepted as ping's: the prober's delay is always printed
    #[arg(short = 'U')]
    pub user_to_user: bool,
    /// Print the addresses that answered, one per line, and nothing else
    #[arg(long, conflicts_with_all = ["dead", "format", "quiet"])]
    pub alive: bool,
    /// Print the addresses that did not answer, one per line, and nothing else
    #[arg(long, conflicts_with_all = ["format", "quiet"])]
    pub dead: bool,
    /// Send the next probe when the last is answered, or after 10 ms, and print a dot for each
    /// that is not answered; needs root
    #[arg(short, long, conflicts_with = "interval")]
    pub flood: bool,
    /// Send the next probe when the last is answered, at the latest after the interval
    #[arg(short = 'A', long, conflicts_with = "flood")]
    pub adaptive: bool,
    /// Send N probes at once at the beginning, and keep N in flight with -f or -A
    #[arg(
        short = 'l',
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=65536),
    )]
    pub preload: u64,
    /// Fill the payload after its first 8 bytes with these: up to 16, as hexadecimal digits
    #[arg(short, long, value_name = "HEX", value_parser = pattern)]
    pub pattern: Option<Pattern>,
    /// Stop with the first answer of a host; probe it N times more without one
    #[arg(long, value_name = "N", conflicts_with = "count")]
    pub retries: Option<u64>,
    /// Print a line with the counts and times so far to standard error at this interval
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub every: Option<Duration>,
    /// Probe each hop of the path to the host: its times and loss, and the path MTU
    #[arg(
        long,
        conflicts_with_all = [
            "ttl",
            "flood",
            "adaptive",
            "preload",
            "pattern",
            "retries",
            "every",
            "alive",
            "dead",
            "path_mtu",
            "timestamps",
        ],
    )]
    pub path: bool,
    /// Output format: a line of text or a JSON object per probe, and the summary
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The colours of text.
    #[command(flatten)]
    pub colours: Colours,
    /// Where it is printed.
    #[command(flatten)]
    pub output: Output,
}

impl Options {
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// The defaults.
    pub(crate) fn of(hosts: Vec<String>) -> Self {
        const SECOND: Duration = Duration::from_secs(1);
        Self {
            hosts,
            targets: None,
            udp: None,
            tcp: None,
            ipv4: false,
            ipv6: false,
            count: None,
            interval: SECOND,
            deadline: None,
            timeout: None,
            size: 56,
            ttl: None,
            tos: None,
            path_mtu: None,
            mark: None,
            identifier: None,
            sndbuf: None,
            interface: None,
            netns: Vec::new(),
            container: Vec::new(),
            timestamps: false,
            quiet: false,
            audible: false,
            numeric: false,
            outstanding: false,
            verbose: false,
            user_to_user: false,
            alive: false,
            dead: false,
            flood: false,
            adaptive: false,
            preload: 1,
            pattern: None,
            retries: None,
            every: None,
            path: false,
            format: Format::Text,
            colours: Colours::default(),
            output: Output::default(),
        }
    }
}

/// The words of ping(8)'s `-M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fragmentation {
    /// Never.
    Do,
    /// Never, and the known path MTU is not minded.
    Probe,
    /// By this host, to the known path MTU.
    Want,
    /// By routers, too.
    Dont,
}

impl From<Fragmentation> for PathMtu {
    fn from(word: Fragmentation) -> Self {
        match word {
            Fragmentation::Do => Self::Do,
            Fragmentation::Probe => Self::Probe,
            Fragmentation::Want => Self::Want,
            Fragmentation::Dont => Self::Dont,
        }
    }
}

/// Bytes that fill a payload. A type of its own, since a list would be an option that repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their digits.
    pub typed: String,
}

/// Refuse a small number, which would be an address that no host has.
fn host(text: &str) -> Result<String, String> {
    let number = text.parse::<u64>();
    if number.is_ok_and(|number| (1..1 << 24).contains(&number)) {
        let port = match text.parse::<u16>() {
            Ok(port) => format!("; for a port: --tcp {port}"),
            Err(_) => String::new(),
        };
        return Err(format!(
            "as an address it is 0.x.x.x, which no host has; to end after {text} probes: \
             -c {text}{port}"
        ));
    }
    Ok(text.to_owned())
}

/// As ping(8), which takes up to 16 bytes.
fn pattern(text: &str) -> Result<Pattern, String> {
    const MOST: usize = 16;
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let bytes: Vec<u8> = digits
        .unwrap_or_default()
        .chunks(2)
        .map(|digits| digits.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    match bytes.len() {
        1..=MOST => Ok(Pattern {
            bytes,
            typed: text.to_owned(),
        }),
        _ => Err(format!("it is 1 to {} hexadecimal digits", 2 * MOST)),
    }
}

/// Parse a count, which scripts may precede with a blank, as strtol(3) allows.
fn number(text: &str) -> Result<u64, String> {
    let number = text.trim_start().parse().ok();
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| "it is at least 1".to_owned())
}

/// Read the options of a command line that is ping's and valid. Scripts call it for a single probe,
/// which takes less time than to describe all subcommands.
pub fn read(arguments: &[OsString]) -> Option<Options> {
    let [_, subcommand, options @ ..] = arguments else {
        return None;
    };
    if subcommand != "ping" {
        return None;
    }
    let command = Options::augment_args(Command::new("ping")).no_binary_name(true);
    let matches = command.try_get_matches_from(options).ok()?;
    Options::from_arg_matches(&matches).ok()
}

/// Parse a value that [`sockstamp_ping::Settings::interval`] accepts, or 0, which is a flood.
fn pace(text: &str) -> Result<Duration, String> {
    let interval = duration(text.trim_start())?;
    if interval.is_zero() || (Duration::from_micros(10)..=LONGEST).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval of probes is 0, or from 0.01ms to 10^9 s".to_owned())
    }
}

/// Parse a value that [`sockstamp_ping::Settings::timeout`] accepts.
fn patience(text: &str) -> Result<Duration, String> {
    let patience = duration(text.trim_start())?;
    if patience.is_zero() || patience > LONGEST {
        Err("it is more than 0 and at most 10^9 s".to_owned())
    } else {
        Ok(patience)
    }
}

/// Parse the same, or 0, which is ping(8)'s word for as long as it takes.
fn patience_or_none(text: &str) -> Result<Duration, String> {
    match duration(text.trim_start())? {
        Duration::ZERO => Ok(LONGEST),
        _ => patience(text),
    }
}

const LONGEST: Duration = Duration::from_secs(1_000_000_000);

pub(crate) fn traffic_class(text: &str) -> Result<u8, String> {
    let wrong = || "it is from 0 to 255, or from 0x00 to 0xff".to_owned();
    u8::try_from(mark(text).map_err(|_| wrong())?).map_err(|_| wrong())
}

fn mark(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "it is a number of 32 bits, decimal or after 0x".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_pattern_is_up_to_16_bytes() {
        let bytes = |text| pattern(text).map(|pattern| pattern.bytes);
        assert_eq!(bytes("ff00a"), Ok(vec![0xff, 0, 0x0a]));
        assert_eq!(bytes(&"0".repeat(32)), Ok(vec![0; 16]));
        for wrong in ["", "fg", &"0".repeat(33)] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn intervals_and_patience_are_neither_nothing_nor_for_ever() {
        assert_eq!(pace("0.2ms"), Ok(Duration::from_micros(200)));
        assert_eq!(pace("0"), Ok(Duration::ZERO));
        assert_eq!(patience_or_none("0"), Ok(LONGEST));
        assert_eq!(patience_or_none("0.5"), Ok(Duration::from_millis(500)));
        assert!(pace("1us").is_err() && patience("0").is_err() && patience("1e10").is_err());
    }
}
