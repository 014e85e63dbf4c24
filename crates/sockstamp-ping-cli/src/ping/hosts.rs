//! Turn the user's hosts into targets, and refuse invalid ones before anything is sent.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};
use std::path::Path;
use std::thread::{self, Builder};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use nix::unistd::geteuid;
use sockstamp::socket_options::PathMtu;
use sockstamp_host::netns;
use sockstamp_model::name::Name;
use sockstamp_ping::{Namespace, Protocol, Settings, Target};
use sockstamp_run::target;

use super::{Options, ranges};

/// Less than this is root's alone, as in ping(8).
const USERS_INTERVAL: Duration = Duration::from_millis(2);
/// More is root's alone, as in ping(8).
const USERS_PRELOAD: u64 = 3;
/// A flood without answers continues this often.
const FLOOD: Duration = Duration::from_millis(10);
/// The time for an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// ARP gives up after three requests, one a second: `mcast_solicit` and `retrans_time_ms` of Linux.
const LINGER: Duration = Duration::from_millis(3_200);
/// Bytes of a list of hosts: far more than any has.
const LARGEST: u64 = 16 << 20;
/// Names that are looked up at once.
const LOOKUPS: usize = 16;

/// A target, by the user's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// The name as given.
    pub(crate) name: Name,
    pub(crate) address: IpAddr,
    /// The namespace or container that it is probed from, as it was named.
    pub(crate) netns: Option<Name>,
    /// The name of its probes' numbers in lines: ping(8)'s for ICMP.
    pub(crate) counter: &'static str,
}

/// The hosts to probe.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Each host, from every namespace.
    pub(crate) probed: Vec<(Host, Target)>,
    /// Why others are not probed: names without an address.
    pub(crate) unknown: Vec<Error>,
}

/// Find the hosts to probe. A name of several that has no address keeps no other from being probed.
///
/// # Errors
///
/// If no name has one: the first error.
pub(super) fn read(options: &Options) -> Result<Hosts> {
    let mut hosts = known(options)?;
    hosts.unknown = hosts.unknown.into_iter().map(with_option).collect();
    match (hosts.probed.is_empty(), hosts.unknown.is_empty()) {
        (true, false) => Err(first(&mut hosts.unknown)),
        _ => Ok(hosts),
    }
}

/// Find the hosts to probe, of which there may be none.
pub(crate) fn known(options: &Options) -> Result<Hosts> {
    check_privilege(options)?;
    let names = names(options)?;
    let origins = origins(options)?;
    let interface = options.interface.as_deref().map(Interface::read);
    let family = family(options, interface.as_ref());
    let (found, unknown) = resolve_all(&names, family)?;
    let is_found = |name: &str| found.iter().any(|(found, _)| found == name);
    if let Some(unit) = names.iter().find(|name| is_unit(name) && !is_found(name)) {
        bail!("no host is named {unit}: the unit of a time belongs to its number, as in -i 10ms");
    }
    let mut targets = Vec::with_capacity(found.len() * origins.len());
    for origin in &origins {
        let via = interface
            .as_ref()
            .map(|via| via.within(origin))
            .transpose()?;
        for (name, found) in &found {
            let target = target(options, origin, found, via.as_ref())?;
            let host = Host {
                name: name.as_str().into(),
                address: found.address,
                netns: origin.label.as_deref().map(Name::from),
                counter: counter(options),
            };
            targets.push((host, target));
        }
    }
    Ok(Hosts {
        probed: targets,
        unknown,
    })
}

/// Return true for a word that is the unit of a time where no host has this name.
fn is_unit(name: &str) -> bool {
    ["us", "µs", "ms", "s", "sec"].contains(&name)
}

fn counter(options: &Options) -> &'static str {
    match (options.udp, options.tcp) {
        (None, None) => "icmp_seq",
        _ => "seq",
    }
}

fn check_privilege(options: &Options) -> Result<()> {
    let is_root = geteuid().is_root();
    ensure!(
        is_root || !floods(options),
        "only root may flood (-f, -i 0)"
    );
    ensure!(
        !options.path || !floods(options),
        "--path does not flood: give -i a time of 0.01ms or more"
    );
    ensure!(
        is_root || options.preload <= USERS_PRELOAD,
        "only root may send more than 3 probes ahead (-l)"
    );
    ensure!(
        is_root || options.interval >= USERS_INTERVAL,
        "only root may probe more often than every 2 ms (-i)"
    );
    Ok(())
}

/// Return true if a probe is sent with each answer.
pub(super) fn floods(options: &Options) -> bool {
    options.flood || options.interval.is_zero()
}

/// Return the names among the arguments and in the file.
fn names(options: &Options) -> Result<Vec<String>> {
    let mut names = options.hosts.clone();
    if let Some(path) = &options.targets {
        let text = contents(path).with_context(|| format!("cannot read {}", path.display()))?;
        names.extend(listed(&text));
        ensure!(!names.is_empty(), "no host in {}", path.display());
    }
    let expanded: Vec<_> = names
        .iter()
        .map(|word| ranges::expand(word))
        .collect::<Result<_>>()?;
    Ok(expanded.concat())
}

fn contents(path: &Path) -> io::Result<String> {
    match path == Path::new("-") {
        true => bounded(io::stdin()),
        false => bounded(File::open(path)?),
    }
}

/// Read a list that ends: some devices have no end.
fn bounded(list: impl Read) -> io::Result<String> {
    let mut text = String::new();
    list.take(LARGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > LARGEST {
        true => Err(io::Error::other(format!(
            "it has more than {LARGEST} bytes"
        ))),
        false => Ok(text),
    }
}

/// A line each; a comment goes from a # to the end of its line.
fn listed(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// A network namespace to probe from.
#[derive(Debug)]
struct Origin {
    label: Option<String>,
    /// A name of ip-netns(8) or a process in it; none is our own.
    netns: Option<String>,
    namespace: Namespace,
}

impl Origin {
    fn of(label: &str, netns: String) -> Result<Self> {
        Ok(Self {
            label: Some(label.to_owned()),
            namespace: Namespace::Path(netns::existing(&netns)?),
            netns: Some(netns),
        })
    }
}

fn origins(options: &Options) -> Result<Vec<Origin>> {
    let mut origins = Vec::new();
    for name in &options.netns {
        origins.push(Origin::of(name, name.clone())?);
    }
    for name in &options.container {
        let process = target::container(name)?.process();
        let process = process.with_context(|| format!("no process runs in container {name}"))?;
        origins.push(Origin::of(name, process.to_string())?);
    }
    if origins.is_empty() {
        origins.push(Origin {
            label: None,
            netns: None,
            namespace: Namespace::Own,
        });
    }
    Ok(origins)
}

/// The value of -I.
#[derive(Debug)]
enum Interface {
    Source(IpAddr),
    Name(String),
}

/// An interface that there is, or a source address.
#[derive(Debug)]
enum Via {
    Source(IpAddr),
    Interface { name: String, index: u32 },
}

impl Interface {
    fn read(word: &str) -> Self {
        word.parse()
            .map_or_else(|_| Self::Name(word.to_owned()), Self::Source)
    }

    fn within(&self, origin: &Origin) -> Result<Via> {
        Ok(match self {
            Self::Source(address) => Via::Source(*address),
            Self::Name(name) => Via::Interface {
                name: name.clone(),
                index: netns::interface_index(name, origin.netns.as_deref())?.get(),
            },
        })
    }
}

/// An IP version that alone will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn fits(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }

    fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

fn family(options: &Options, interface: Option<&Interface>) -> Option<Family> {
    match interface {
        _ if options.ipv4 => Some(Family::V4),
        _ if options.ipv6 => Some(Family::V6),
        Some(Interface::Source(IpAddr::V4(_))) => Some(Family::V4),
        Some(Interface::Source(IpAddr::V6(_))) => Some(Family::V6),
        _ => None,
    }
}

/// The result of resolving a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    address: IpAddr,
    /// The interface of a link-local address: the name after the %.
    zone: Option<String>,
}

/// Names with their addresses, and what failed.
type Resolved = (Vec<(String, Found)>, Vec<Error>);

/// Return all addresses, in the order of the names.
///
/// # Errors
///
/// If an address is none of one host: the first error.
fn resolve_all(names: &[String], family: Option<Family>) -> Result<Resolved> {
    let share = names.len().div_ceil(LOOKUPS).max(1);
    let resolve_share = |names: &[String]| {
        names
            .iter()
            .map(|name| resolve(name, family))
            .collect::<Vec<_>>()
    };
    // A thread costs as much as a probe, and addresses need none.
    let found: Vec<_> = if names.iter().all(|name| is_address(name)) {
        resolve_share(names)
    } else {
        look_up(names, share, &resolve_share)?
    };
    let (mut resolved, mut wrong) = (Resolved::default(), Vec::new());
    for (name, found) in names.iter().zip(found) {
        match found {
            Ok(found) => resolved.0.push((name.clone(), found)),
            Err(error) if is_address(name) => wrong.push(error),
            Err(error) => resolved.1.push(error),
        }
    }
    match wrong.is_empty() {
        true => Ok(resolved),
        false => Err(first(&mut wrong)),
    }
}

/// Look names up, `share` by each of some threads.
fn look_up(
    names: &[String],
    share: usize,
    resolve_share: &(impl Fn(&[String]) -> Vec<Result<Found>> + Sync),
) -> Result<Vec<Result<Found>>> {
    thread::scope(|scope| {
        let begin = |names| Builder::new().spawn_scoped(scope, move || resolve_share(names));
        let threads: io::Result<Vec<_>> = names.chunks(share).map(begin).collect();
        let results = threads
            .context("cannot look up names")?
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| vec![Err(anyhow!("a lookup of names failed"))])
            });
        Ok(results.flatten().collect())
    })
}

/// Return the first of some errors, with the number of the others.
fn first(errors: &mut Vec<Error>) -> Error {
    let others = errors.len() - 1;
    let first = errors.swap_remove(0);
    match others {
        0 => first,
        _ => anyhow!("{first:#} (and {others} others)"),
    }
}

/// Return true for what needs no lookup: that it is wrong is known before anything is sent.
fn is_address(name: &str) -> bool {
    let host = name.split('%').next().unwrap_or_default();
    host.parse::<IpAddr>().is_ok()
}

fn resolve(name: &str, family: Option<Family>) -> Result<Found> {
    let (host, zone) = match name.split_once('%') {
        Some((host, zone)) => (host, Some(zone.to_owned())),
        None => (name, None),
    };
    let fits = |address: IpAddr| family.is_none_or(|family| family.fits(address));
    let lacks = || match family {
        Some(family) => anyhow!("{name} has no {} address", family.name()),
        None => anyhow!("{name} has no address"),
    };
    let address = if let Ok(address) = host.parse::<IpAddr>() {
        Some(address).filter(|address| fits(*address))
    } else {
        let addresses = (host, 0).to_socket_addrs();
        let addresses = addresses.with_context(|| Unresolved(name.to_owned()))?;
        addresses
            .map(|found| found.ip())
            .find(|address| fits(*address))
    };
    let address = address.ok_or_else(lacks)?.to_canonical();
    ensure!(
        !address.is_unspecified() && !address.is_multicast(),
        "{name} is not the address of one host"
    );
    ensure!(
        zone.is_none() || is_link_local(address),
        "{name}: only link-local addresses of IPv6 have an interface"
    );
    Ok(Found { address, zone })
}

/// A name that led to no address.
#[derive(Debug)]
struct Unresolved(String);

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot resolve {}", self.0)
    }
}

/// Name the option of a port that stands behind a name.
fn with_option(error: Error) -> Error {
    let name = error.downcast_ref::<Unresolved>();
    let divided = name.and_then(|Unresolved(name)| with_port(name));
    match divided {
        Some((host, port)) => anyhow!("a port has an option: write --tcp {port} {host}"),
        None => error,
    }
}

/// Divide a name or an address of IPv4 from a port behind it.
fn with_port(name: &str) -> Option<(&str, u16)> {
    let (host, port) = name.split_once(':')?;
    Some((host, port.parse().ok()?))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if Ipv6Addr::is_unicast_link_local(&address))
}

fn target(options: &Options, origin: &Origin, found: &Found, via: Option<&Via>) -> Result<Target> {
    Ok(Target {
        address: found.address,
        scope: scope(origin, found, via)?,
        protocol: match (options.udp, options.tcp) {
            (Some(port), _) => Protocol::Udp { port },
            (None, Some(port)) => Protocol::Tcp { port },
            (None, None) => Protocol::Icmp,
        },
        namespace: origin.namespace.clone(),
        settings: settings(options, via),
    })
}

/// The index of the interface that a link-local address belongs to.
fn scope(origin: &Origin, found: &Found, via: Option<&Via>) -> Result<u32> {
    match (&found.zone, via) {
        _ if !is_link_local(found.address) => Ok(0),
        (Some(zone), _) => Ok(netns::interface_index(zone, origin.netns.as_deref())?.get()),
        (None, Some(Via::Interface { index, .. })) => Ok(*index),
        (None, _) => bail!(
            "{} is link-local: name its interface, as {}%IFACE or by -I",
            found.address,
            found.address
        ),
    }
}

fn settings(options: &Options, via: Option<&Via>) -> Settings {
    Settings {
        count: options.retries.map(|retries| retries + 1).or(options.count),
        interval: if floods(options) {
            FLOOD
        } else {
            options.interval
        },
        timeout: options.timeout.unwrap_or(PATIENCE),
        linger: match options.timeout.is_some() || options.retries.is_some() {
            true => Duration::ZERO,
            false => LINGER,
        },
        deadline: options.deadline,
        flood: floods(options) || options.adaptive,
        closest: match options.adaptive && !geteuid().is_root() {
            true => USERS_INTERVAL,
            false => Duration::ZERO,
        },
        preload: options.preload,
        until_answered: options.retries.is_some(),
        pattern: options
            .pattern
            .as_ref()
            .map(|pattern| pattern.bytes.clone())
            .unwrap_or_default(),
        payload: options.size.into(),
        hop_limit: options.ttl,
        traffic_class: options.tos,
        source: match via {
            Some(Via::Source(address)) => Some(*address),
            _ => None,
        },
        interface: match via {
            Some(Via::Interface { name, .. }) => Some(name.clone()),
            _ => None,
        },
        path_mtu: options.path_mtu.map(PathMtu::from),
        mark: options.mark,
        identifier: options.identifier,
        send_buffer: options.sndbuf,
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_one_host_per_line_and_comments() {
        let text = "# ours\n10.0.0.1\n\n  example.org   # theirs\r\n::1";
        assert_eq!(
            listed(text).collect::<Vec<_>>(),
            ["10.0.0.1", "example.org", "::1"]
        );
    }

    #[test]
    fn a_list_without_end_is_refused() {
        let error = contents(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, format!("it has more than {LARGEST} bytes"));
        assert_eq!(bounded(&b"::1"[..]).unwrap(), "::1");
    }

    #[test]
    fn addresses_need_no_lookup_and_keep_to_their_version() {
        let found = |name, family| resolve(name, family).map(|found| found.address.to_string());
        assert_eq!(found("127.0.0.1", None).unwrap(), "127.0.0.1");
        assert_eq!(found("::1", Some(Family::V6)).unwrap(), "::1");
        assert_eq!(found("::ffff:10.0.0.1", None).unwrap(), "10.0.0.1");
        let error = |name, family| found(name, family).unwrap_err().to_string();
        assert_eq!(error("::1", Some(Family::V4)), "::1 has no IPv4 address");
        assert_eq!(
            error("0.0.0.0", None),
            "0.0.0.0 is not the address of one host"
        );
        assert_eq!(
            error("ff02::1", None),
            "ff02::1 is not the address of one host"
        );
        assert!(error("10.0.0.1%lo", None).contains("only link-local"));
    }

    #[test]
    fn an_interface_after_the_address_is_kept() {
        let found = resolve("fe80::1%eth0", None).unwrap();
        assert_eq!(found.zone.as_deref(), Some("eth0"));
    }

    #[test]
    fn a_name_without_an_address_keeps_no_other_from_being_probed() {
        let names = ["no such host", "127.0.0.1"].map(str::to_owned);
        let (found, unknown) = resolve_all(&names, None).unwrap();
        assert_eq!(found[0].0, "127.0.0.1");
        assert_eq!((found.len(), unknown.len()), (1, 1));
    }

    #[test]
    fn a_port_behind_a_name_has_an_option_of_ping() {
        let error = resolve("no-such-host.invalid:80", None).unwrap_err();
        assert_eq!(error.to_string(), "cannot resolve no-such-host.invalid:80");
        let told = "a port has an option: write --tcp 80 no-such-host.invalid";
        assert_eq!(with_option(error).to_string(), told);
        let error = resolve("no-such-host.invalid", None).unwrap_err();
        let told = "cannot resolve no-such-host.invalid";
        assert_eq!(with_option(error).to_string(), told);
    }

    #[test]
    fn the_first_wrong_address_is_reported_and_the_others_counted() {
        let names = ["0.0.0.0", "127.0.0.1", "ff02::1", "::"].map(str::to_owned);
        let error = resolve_all(&names, None).unwrap_err().to_string();
        assert_eq!(
            error,
            "0.0.0.0 is not the address of one host (and 2 others)"
        );
    }

    #[test]
    fn many_names_keep_their_order() {
        let names: Vec<_> = (1..100).map(|n| format!("10.0.0.{n}")).collect();
        let (found, _) = resolve_all(&names, None).unwrap();
        let addresses: Vec<_> = found
            .iter()
            .map(|(_, found)| found.address.to_string())
            .collect();
        assert_eq!(addresses, names);
    }
}
