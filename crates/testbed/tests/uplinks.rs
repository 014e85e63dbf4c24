//! A container's way out through its host.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use testbed::{Family, Host, Result, Uplink, UplinkHosts};

type Build = fn(&Host, &Host, &Host) -> Result<Uplink>;

/// Packets that left by the uplink: field 10 of a line of /proc/net/dev, its name counted
/// (proc_pid_net(5)).
fn sent_by_uplink(setup: &UplinkHosts) -> u64 {
    let table = setup
        .host
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    let line = table.lines().find_map(|line| {
        let (name, counters) = line.split_once(':')?;
        (name.trim() == setup.uplink.uplink_interface()).then_some(counters)
    });
    let packets = line.unwrap().split_whitespace().nth(9).unwrap();
    packets.parse().unwrap()
}

fn talk(setup: &UplinkHosts, family: Family) {
    let listener = setup
        .peer
        .tcp_listen(SocketAddr::new(setup.uplink.peer_address(family), 0))
        .unwrap();
    let before = sent_by_uplink(setup);
    let mut client = setup
        .container
        .tcp_connect(listener.local_addr().unwrap())
        .unwrap();
    let (mut server, address) = listener.accept().unwrap();
    assert_eq!(address, client.local_addr().unwrap());
    client.write_all(b"request").unwrap();
    server.read_exact(&mut [0; 7]).unwrap();
    server.write_all(b"response").unwrap();
    client.read_exact(&mut [0; 8]).unwrap();
    assert!(sent_by_uplink(setup) > before);
}

fn forwarded(setup: &UplinkHosts, family: Family) -> u64 {
    let (file, name) = match family {
        Family::V4 => ("/proc/thread-self/net/snmp", "Ip:"),
        Family::V6 => ("/proc/thread-self/net/snmp6", "Ip6OutForwDatagrams"),
    };
    let text = setup.host.enter(|| std::fs::read_to_string(file).unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with(name));
    let value = match family {
        // A line of names, then one of values: ForwDatagrams is the sixth.
        Family::V4 => lines.nth(1).unwrap().split_whitespace().nth(6),
        Family::V6 => lines.next().unwrap().split_whitespace().nth(1),
    };
    value.unwrap().parse().unwrap()
}

#[test]
fn a_bridge_leads_out_and_forwards_nothing_by_ip() {
    let setup = UplinkHosts::new(Uplink::bridged);
    for family in [Family::V4, Family::V6] {
        talk(&setup, family);
        assert_eq!(forwarded(&setup, family), 0);
    }
}

#[test]
fn a_routing_host_leads_out_by_ip() {
    let setup = UplinkHosts::new(Uplink::routed);
    for family in [Family::V4, Family::V6] {
        talk(&setup, family);
        assert!(forwarded(&setup, family) > 0);
    }
}

#[test]
fn nothing_is_left_in_a_host_that_goes_on() {
    for build in [Uplink::bridged as Build, Uplink::routed] {
        let UplinkHosts {
            container,
            host,
            peer,
            uplink,
        } = UplinkHosts::new(build);
        drop(uplink);
        for host in [&container, &host, &peer] {
            let links = host.run("ip", &["-o", "link", "show"]).unwrap();
            assert_eq!(links.lines().count(), 1, "{links}");
        }
    }
}

#[test]
fn the_hosts_may_go_first() {
    let UplinkHosts {
        container,
        host,
        peer,
        uplink,
    } = UplinkHosts::new(Uplink::bridged);
    let name = host.netns_name().to_owned();
    drop((container, host, peer));
    assert!(!Path::new("/run/netns").join(name).exists());
    drop(uplink);
}
