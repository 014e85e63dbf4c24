//! `--path` over chains of hosts, whose delays, losses, limits and MTUs are known.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use testbed::{Direction, Family, Host, Link, LinkConfig, within_attempts};
use with::{FAMILIES, number};

use crate::run::{ping, text};

/// Hosts in a row. Each forwards to the next, and answers go back by the link they came from.
struct Chain {
    hosts: Vec<Host>,
    links: Vec<Link>,
}

impl Chain {
    /// A host more than links.
    fn new(links: &[fn(&Host, &Host) -> Link]) -> Self {
        let hosts: Vec<_> = (0..=links.len())
            .map(|n| Host::new(&format!("hop{n}")).unwrap())
            .collect();
        let links: Vec<_> = links
            .iter()
            .enumerate()
            .map(|(n, link)| link(&hosts[n], &hosts[n + 1]))
            .collect();
        let chain = Self { hosts, links };
        chain.route();
        chain
    }

    fn route(&self) {
        for (n, host) in self.hosts.iter().enumerate() {
            forwards_and_answers(host);
            for family in FAMILIES {
                let onward = self.links.get(n).map(|link| link.address_b(family));
                let back = n.checked_sub(1).map(|n| self.links[n].address_a(family));
                let first = network(self.links[0].address_a(family));
                if let Some(gateway) = onward.or(back) {
                    ip(
                        host,
                        &["route", "add", "default", "via", &gateway.to_string()],
                    );
                }
                if let (2.., Some(_), Some(back)) = (n, onward, back) {
                    ip(host, &["route", "add", &first, "via", &back.to_string()]);
                }
            }
        }
    }

    /// The address of the last host.
    fn target(&self, family: Family) -> String {
        self.links[self.links.len() - 1]
            .address_b(family)
            .to_string()
    }

    /// The address with which each host answers.
    fn addresses(&self, family: Family) -> Vec<String> {
        let addresses = self.links.iter().map(|link| link.address_b(family));
        addresses.map(|address| address.to_string()).collect()
    }

    fn path(&self, arguments: &[&str]) -> Value {
        let text = text(ping(
            &self.hosts[0],
            &[&["--path", "--format", "json", "-q"], arguments].concat(),
        ));
        let line = text.lines().last().copied().unwrap_or_default();
        let object: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{error}: {}{}", text.stdout, text.stderr));
        object["path"].clone()
    }

    /// Check three hops, of which the second link is slow.
    fn has_its_delays(&self, family: Family, protocol: &[&str]) -> Result<(), String> {
        let target = self.target(family);
        let path = self.path(&[protocol, &["-c", "4", "-i", "100ms", &target]].concat());
        assert_eq!(addresses(&path), self.addresses(family), "{path}");
        assert_eq!(all(&path, "answered"), [4, 4, 4], "{path}");
        assert_eq!(all(&path, "verdict"), ["clean", "clean", "clean"]);
        assert_eq!(
            (&path["reached"], &path["mtu"]),
            (&true.into(), &1500.into())
        );
        let least: Vec<_> = all(&path, "min_ns").into_iter().map(number).collect();
        let behind = |time: &u64| (10_000_000..14_000_000).contains(time);
        match least[0] < 3_000_000 && least[1..].iter().all(behind) {
            true => Ok(()),
            false => Err(format!("{least:?} ns")),
        }
    }
}

/// A router without limits: tests set theirs.
fn forwards_and_answers(host: &Host) {
    for (setting, value) in [
        ("ipv4.ip_forward", "1"),
        ("ipv6.conf.all.forwarding", "1"),
        ("ipv4.icmp_ratelimit", "0"),
        ("ipv6.icmp.ratelimit", "0"),
    ] {
        host.set_sysctl(&format!("net.{setting}"), value).unwrap();
    }
}

fn ip(host: &Host, arguments: &[&str]) {
    let version = if arguments.iter().any(|word| word.contains(':')) {
        "-6"
    } else {
        "-4"
    };
    host.run("ip", &[&[version], arguments].concat()).unwrap();
}

/// The network of a link: of 24 bits, or of 64.
fn network(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, ..] = address.segments();
            format!("{a:x}:{b:x}::/64")
        }
    }
}

fn veth(a: &Host, b: &Host) -> Link {
    Link::veth(a, b).unwrap()
}

const ONE_WAY: Duration = Duration::from_millis(5);

fn slow(a: &Host, b: &Host) -> Link {
    Link::relay(a, b, LinkConfig::default().delay(ONE_WAY)).unwrap()
}

fn hops(path: &Value) -> &Vec<Value> {
    path["hops"].as_array().unwrap()
}

fn all<'a>(path: &'a Value, key: &str) -> Vec<&'a Value> {
    hops(path).iter().map(|hop| &hop[key]).collect()
}

fn addresses(path: &Value) -> Vec<&str> {
    let of = |hop: &'_ Value| hop["addresses"][0]["address"].as_str().map(str::to_owned);
    assert!(hops(path).iter().all(|hop| of(hop).is_some()), "{path}");
    all(path, "addresses")
        .into_iter()
        .map(|addresses| addresses[0]["address"].as_str().unwrap())
        .collect()
}

#[test]
fn each_hop_has_its_address_and_the_delay_up_to_it() {
    let chain = Chain::new(&[veth, slow, veth]);
    for family in FAMILIES {
        for protocol in [&[][..], &["--udp", "33434"], &["--tcp", "80"]] {
            within_attempts(|| chain.has_its_delays(family, protocol));
        }
    }
}

/// The first router answers once a second, and the link after it loses a third. Later hops tell the
/// two apart.
#[test]
fn a_hop_that_limits_its_answers_is_told_from_a_lossy_one() {
    let chain = Chain::new(&[veth, slow, veth]);
    let lossy = LinkConfig::default().loss(0.33);
    chain.links[1]
        .set_direction(Direction::AToB, lossy)
        .unwrap();
    chain.hosts[1]
        .set_sysctl("net.ipv4.icmp_ratelimit", "1000")
        .unwrap();
    let target = chain.target(Family::V4);
    let path = chain.path(&["-c", "80", "-i", "20ms", "-W", "1s", &target]);
    assert_eq!(
        all(&path, "verdict"),
        ["rate-limited", "lossy", "clean"],
        "{path}"
    );
    let text = text(ping(
        &chain.hosts[0],
        &["--path", "-c", "80", "-i", "20ms", "-W", "1s", &target],
    ));
    assert_eq!(text.status, 0, "{}", text.stderr);
    for (hop, remark) in [
        (1, "limits its answers, no loss of the path"),
        (2, "the path loses packets from here on"),
    ] {
        let line = format!("   {hop}  {}", chain.addresses(Family::V4)[hop - 1]);
        assert!(
            text.lines()
                .iter()
                .any(|text| text.starts_with(&line) && text.ends_with(remark)),
            "{}",
            text.stdout
        );
    }
}

#[test]
fn the_path_mtu_is_found_with_the_router_before_the_narrow_link() {
    const NARROW: u32 = 1380;
    let chain = Chain::new(&[veth, veth, veth]);
    let link = &chain.links[1];
    for (host, interface) in [
        (&chain.hosts[1], link.interface_a()),
        (&chain.hosts[2], link.interface_b()),
    ] {
        ip(
            host,
            &["link", "set", interface, "mtu", &NARROW.to_string()],
        );
    }
    for family in FAMILIES {
        let target = chain.target(family);
        for protocol in [&[][..], &["--udp", "33434"]] {
            let path = chain.path(&[protocol, &["-c", "3", "-i", "100ms", &target]].concat());
            assert_eq!(path["mtu"], NARROW, "{path}");
            let narrowed = &path["mtu_narrowed"][0];
            assert_eq!(
                (&narrowed["hop"], &narrowed["mtu"]),
                (&1.into(), &NARROW.into())
            );
            assert_eq!(path["mtu_black_hole"], false);
        }
    }
}

/// The far end of a veth pair drops what exceeds its own MTU and room for a VLAN tag, and says
/// nothing (`is_skb_forwardable()` in net/core/dev.c, v6.18).
#[test]
fn a_path_mtu_that_no_router_tells_is_found() {
    const NARROW: u64 = 1380;
    const TAG: u64 = 4;
    let chain = Chain::new(&[veth, veth, veth]);
    let far = chain.links[1].interface_b();
    ip(
        &chain.hosts[2],
        &["link", "set", far, "mtu", &NARROW.to_string()],
    );
    let path = chain.path(&[
        "-c",
        "3",
        "-i",
        "100ms",
        "-W",
        "100ms",
        &chain.target(Family::V4),
    ]);
    assert_eq!(path["mtu_black_hole"], true, "{path}");
    assert!(
        (NARROW..=NARROW + TAG).contains(&number(&path["mtu"])),
        "{path}"
    );
    assert_eq!(path["mtu_narrowed"], Value::Array(Vec::new()));
}

/// Two routers between two others share the load by ports. Runs have different ports, and so both
/// routers; a run has one.
#[test]
fn probes_keep_to_one_of_several_paths() {
    let chain = Chain::new(&[veth, veth, veth]);
    let (fork, join) = (&chain.hosts[1], &chain.hosts[2]);
    let other = Host::new("other").unwrap();
    let (into, out) = (veth(fork, &other), veth(&other, join));
    forwards_and_answers(&other);
    for family in FAMILIES {
        let version = if family == Family::V4 { "ipv4" } else { "ipv6" };
        let policy = format!("net.{version}.fib_multipath_hash_policy");
        fork.set_sysctl(&policy, "1").unwrap();
        let first = network(chain.links[0].address_a(family));
        let back = into.address_a(family).to_string();
        ip(&other, &["route", "add", &first, "via", &back]);
        let onward = out.address_b(family).to_string();
        ip(&other, &["route", "add", "default", "via", &onward]);
        let one = chain.links[1].address_b(family).to_string();
        let two = into.address_b(family).to_string();
        let target = chain.target(family);
        let via = |gateway| ["nexthop", "via", gateway];
        let route = ["route", "replace", "default"];
        ip(fork, &[&route[..], &via(&one), &via(&two)].concat());
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            let arguments = [
                "--udp", "33434", "-c", "8", "-i", "20ms", "-W", "1s", &target,
            ];
            let path = chain.path(&arguments);
            let second = &hops(&path)[1];
            let addresses = second["addresses"].as_array().unwrap();
            assert_eq!(
                (addresses.len(), &second["answered"]),
                (1, &8.into()),
                "{path}"
            );
            seen.insert(addresses[0]["address"].as_str().unwrap().to_owned());
            if seen.len() == 2 {
                break;
            }
        }
        assert_eq!(seen, BTreeSet::from([one, two]));
    }
}

#[test]
fn a_path_that_ends_early_says_where_and_why() {
    let chain = Chain::new(&[veth, veth]);
    let nobody = format!("{}9", chain.target(Family::V4));
    let run = text(ping(
        &chain.hosts[0],
        &["--path", "-c", "5", "-W", "4s", &nobody],
    ));
    assert_eq!(run.status, 1, "{}{}", run.stdout, run.stderr);
    let router = chain.addresses(Family::V4)[0].clone();
    assert!(
        run.stdout.contains("the host did not answer"),
        "{}",
        run.stdout
    );
    assert!(
        run.lines()
            .iter()
            .any(|line| line.contains(&router) && line.contains("Destination Host Unreachable")),
        "{}",
        run.stdout
    );
}
