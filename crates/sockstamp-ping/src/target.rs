use std::net::IpAddr;
use std::time::Duration;

use sockstamp::socket_options::PathMtu;

use crate::{Error, Namespace, Result};

/// Probes of one target that are remembered at most, whether they wait for their answer or have an
/// outcome already. A probe that is pushed out while it waits is lost, and counted
/// ([`Counters::evicted`](crate::Counters::evicted)).
pub const MAX_IN_FLIGHT: usize = 4096;

/// The largest payload: an IPv4 packet of 65535 bytes without its header and eight bytes of ICMP or
/// UDP.
pub const MAX_PAYLOAD: usize = 65_507;

/// The smallest payload that has room for what keeps a checksum the same.
pub const ONE_PATH_PAYLOAD: usize = 10;

/// As many as iputils' ping sends ahead at most.
const MAX_PRELOAD: u64 = 65_536;

/// The destination, method and source of probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The address. Names are the caller's business.
    pub address: IpAddr,
    /// The interface that a link-local address of IPv6 belongs to, as its index; else 0.
    pub scope: u32,
    /// The protocol.
    pub protocol: Protocol,
    /// The network namespace.
    pub namespace: Namespace,
    /// The settings.
    pub settings: Settings,
}

impl Target {
    /// Create a target for our own network namespace, with default settings.
    #[must_use]
    pub fn new(address: IpAddr, protocol: Protocol) -> Self {
        Self {
            address,
            scope: 0,
            protocol,
            namespace: Namespace::Own,
            settings: Settings::default(),
        }
    }
}

/// The kind of probe, and its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// An echo request; the echo reply. By a ping socket where `net.ipv4.ping_group_range` allows
    /// one, else by a raw socket, which needs CAP_NET_RAW.
    Icmp,
    /// A datagram; any datagram from that port, or ICMP's "port unreachable".
    Udp {
        /// The port.
        port: u16,
    },
    /// A SYN; the SYN-ACK, to which the kernel answers with RST, or a RST. No data are sent and no
    /// connection is made.
    ///
    /// Without CAP_NET_RAW a connection is made and closed at once, and the times are user space's
    /// ([`Fallback::NoPrivilege`](crate::Fallback::NoPrivilege)).
    Tcp {
        /// The port.
        port: u16,
    },
}

/// The settings of a target. The defaults are those of ping(8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// End after this many probes. `None`: never.
    pub count: Option<u64>,
    /// Time between probes. Default: 1 s.
    pub interval: Duration,
    /// Delays each probe by a random time up to this, at most half of the interval, so that probes
    /// fall into step with nothing. Default: 0.
    pub jitter: Duration,
    /// A probe without an answer after this time is lost. Default: 1 s.
    pub timeout: Duration,
    /// How long a target that answered none of its [`count`](Self::count) probes is kept after the
    /// last one, for late errors. Default: 0.
    pub linger: Duration,
    /// Ends that long after the target was added, whatever is still in flight. Default: none.
    pub deadline: Option<Duration>,
    /// Send the next probe as soon as an answer comes, at the latest after the interval.
    pub flood: bool,
    /// The thread that probes it, of those of its network namespace. Default: 0.
    pub thread: u16,
    /// The shortest time between two probes of a flood. Default: 0.
    pub closest: Duration,
    /// Probes that are sent together at the beginning. A flood keeps as many in flight. Default: 1.
    pub preload: u64,
    /// End with the first answer: further probes are retries.
    pub until_answered: bool,
    /// The interval and the timeout of each probe as a percentage of its predecessor's, at most
    /// 1000. Default: 100.
    pub backoff_percent: u32,
    /// Bytes of payload, of ICMP and UDP. Fewer than 8 weaken the protection against forged
    /// answers. Default: 56.
    pub payload: usize,
    /// Bytes that fill the payload after the first 8, again and again. Default: bytes that count
    /// up.
    pub pattern: Vec<u8>,
    /// Keep every probe on one path: routers that share load choose the next hop by ports and
    /// checksum, which are then the same in each. Targets of one address and port that differ in
    /// their hop limit alone share them, too. A payload needs [`ONE_PATH_PAYLOAD`] bytes for it.
    pub one_path: bool,
    /// TTL of IPv4, hop limit of IPv6. Default: the system's.
    pub hop_limit: Option<u8>,
    /// TOS of IPv4, traffic class of IPv6. Default: 0.
    pub traffic_class: Option<u8>,
    /// The source address. Default: the route's.
    pub source: Option<IpAddr>,
    /// The interface (SO_BINDTODEVICE). Default: the route's.
    pub interface: Option<String>,
    /// When probes may be fragmented. Default: the system's.
    pub path_mtu: Option<PathMtu>,
    /// The mark of their packets, for routes and firewalls (SO_MARK; needs CAP_NET_ADMIN or
    /// CAP_NET_RAW). Default: none.
    pub mark: Option<u32>,
    /// The identifier of echo requests. Default: one that no other prober of this host has.
    pub identifier: Option<u16>,
    /// Bytes of the send buffer (SO_SNDBUF). Default: the system's.
    pub send_buffer: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            count: None,
            interval: Duration::from_secs(1),
            jitter: Duration::ZERO,
            timeout: Duration::from_secs(1),
            linger: Duration::ZERO,
            deadline: None,
            flood: false,
            thread: 0,
            closest: Duration::ZERO,
            preload: 1,
            until_answered: false,
            backoff_percent: 100,
            payload: 56,
            pattern: Vec::new(),
            one_path: false,
            hop_limit: None,
            traffic_class: None,
            source: None,
            interface: None,
            path_mtu: None,
            mark: None,
            identifier: None,
            send_buffer: None,
        }
    }
}

/// Longer is no time to wait, and its nanoseconds fit into 64 bits wherever they are added up.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);
/// Shorter is a burst.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(10);

impl Target {
    pub(crate) fn check(&self) -> Result<()> {
        let settings = &self.settings;
        let refuse = |setting, reason| Err(Error::Setting { setting, reason });
        if settings.count == Some(0) {
            return refuse("count", "it is at least 1");
        }
        if settings.interval < SHORTEST_INTERVAL || settings.interval > LONGEST {
            return refuse("interval", "it is from 10 µs to 10^9 s");
        }
        if settings.jitter > settings.interval / 2 {
            return refuse("jitter", "it is at most half of the interval");
        }
        if settings.timeout.is_zero() || settings.timeout > LONGEST {
            return refuse("timeout", "it is more than 0 and at most 10^9 s");
        }
        if settings.linger > LONGEST {
            return refuse("linger", "it is at most 10^9 s");
        }
        if settings.deadline.is_some_and(|deadline| deadline > LONGEST) {
            return refuse("deadline", "it is at most 10^9 s");
        }
        if settings.payload > MAX_PAYLOAD {
            return refuse("payload", "a packet has at most 65507 bytes");
        }
        let is_syn = matches!(self.protocol, Protocol::Tcp { .. });
        if settings.one_path && !is_syn && settings.payload < ONE_PATH_PAYLOAD {
            return refuse("payload", "to keep to one path it has at least 10 bytes");
        }
        if settings.preload == 0 || settings.preload > MAX_PRELOAD {
            return refuse("preload", "it is from 1 to 65536");
        }
        if !(100..=1000).contains(&settings.backoff_percent) {
            return refuse("backoff", "it is from 100 % to 1000 %");
        }
        if settings.hop_limit == Some(0) {
            return refuse("hop_limit", "it is from 1 to 255");
        }
        if settings
            .source
            .is_some_and(|source| source.is_ipv4() != self.address.is_ipv4())
        {
            return refuse("source", "it has another IP version than the target");
        }
        if self.address.is_unspecified() || self.address.is_multicast() {
            return refuse("address", "it is not the address of one host");
        }
        if matches!(
            self.protocol,
            Protocol::Udp { port: 0 } | Protocol::Tcp { port: 0 }
        ) {
            return refuse("port", "it is from 1 to 65535");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn refused(change: impl FnOnce(&mut Target)) -> &'static str {
        let mut target = Target::new(Ipv4Addr::LOCALHOST.into(), Protocol::Udp { port: 7 });
        change(&mut target);
        match target.check() {
            Err(Error::Setting { setting, .. }) => setting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn impossible_settings_are_refused_by_name() {
        assert_eq!(refused(|target| target.settings.count = Some(0)), "count");
        assert_eq!(
            refused(|target| target.settings.interval = Duration::ZERO),
            "interval"
        );
        assert_eq!(
            refused(|target| target.settings.jitter = Duration::from_millis(501)),
            "jitter"
        );
        assert_eq!(
            refused(|target| target.settings.timeout = Duration::MAX),
            "timeout"
        );
        assert_eq!(
            refused(|target| target.settings.payload = MAX_PAYLOAD + 1),
            "payload"
        );
        assert_eq!(
            refused(|target| {
                target.settings.one_path = true;
                target.settings.payload = ONE_PATH_PAYLOAD - 1;
            }),
            "payload"
        );
        assert_eq!(refused(|target| target.settings.preload = 0), "preload");
        assert_eq!(
            refused(|target| target.settings.backoff_percent = 99),
            "backoff"
        );
        assert_eq!(
            refused(|target| target.settings.hop_limit = Some(0)),
            "hop_limit"
        );
        let other = Some(Ipv6Addr::LOCALHOST.into());
        assert_eq!(refused(|target| target.settings.source = other), "source");
        assert_eq!(
            refused(|target| target.address = Ipv4Addr::UNSPECIFIED.into()),
            "address"
        );
        assert_eq!(
            refused(|target| target.protocol = Protocol::Tcp { port: 0 }),
            "port"
        );
    }

    #[test]
    fn the_defaults_are_accepted() {
        let target = Target::new(Ipv6Addr::LOCALHOST.into(), Protocol::Icmp);
        assert!(target.check().is_ok());
    }
}
