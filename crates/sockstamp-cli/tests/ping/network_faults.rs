//! Networks that lose, refuse and repeat.

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use testbed::{Direction, Family, Host, Link, LinkConfig, Uplink};
use with::{FAMILIES, number, wait_until};

use crate::run::{delayed_hosts, json, ping, text};

const DELAY: Duration = Duration::from_millis(2);

#[test]
fn lost_probes_have_an_error_instead_of_times() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    link.set_direction(Direction::AToB, LinkConfig::default().loss(1.0))
        .unwrap();
    let address = link.address_b(Family::V4).to_string();
    let run = json(ping(
        &prober,
        &["-c", "2", "-i", "10ms", "-W", "50ms", &address],
    ));
    assert_eq!(
        (run.status, run.count("lost"), run.count("sent")),
        (1, 2, 2)
    );
    for probe in &run.probes {
        assert_eq!(probe["error"], "lost", "{probe}");
        assert!(
            probe["rtt_ns"].is_null() && probe["stamps"].is_null(),
            "{probe}"
        );
    }
    let text = text(ping(&prober, &["-c", "1", "-W", "50ms", &address]));
    assert!(
        text.stdout
            .contains(&format!("\nno answer yet for icmp_seq=1: {address}\n")),
        "{}",
        text.stdout
    );
    assert!(
        text.stdout
            .contains("\n1 packets transmitted, 0 received, 100% packet loss, "),
        "{}",
        text.stdout
    );
}

/// Not all of several answered.
#[test]
fn one_that_does_not_answer_is_the_exit_status() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let silent = match link.address_b(Family::V4) {
        std::net::IpAddr::V4(address) => std::net::Ipv4Addr::from_bits(address.to_bits() + 7),
        std::net::IpAddr::V6(address) => panic!("{address}"),
    };
    let (good, silent) = (link.address_b(Family::V4).to_string(), silent.to_string());
    let run = json(ping(&prober, &["-c", "1", "-W", "1s", &good, &silent]));
    assert_eq!(
        (run.status, run.count("answered"), run.count("sent")),
        (1, 1, 2)
    );
}

#[test]
fn open_and_closed_ports_answer() {
    let (prober, target, link) = delayed_hosts(DELAY);
    for family in FAMILIES {
        let address = link.address_b(family);
        let _listener: TcpListener = target.tcp_listen(SocketAddr::new(address, 80)).unwrap();
        let address = address.to_string();
        let probe = |port: [&str; 2]| {
            json(ping(
                &prober,
                &["-c", "2", "-i", "20ms", port[0], port[1], &address],
            ))
        };
        for (port, kind) in [
            (["--tcp", "80"], "syn-ack"),
            (["--tcp", "81"], "rst"),
            (["--udp", "81"], "port-unreachable"),
        ] {
            let run = probe(port);
            assert_eq!(
                (run.status, run.count("answered")),
                (0, 2),
                "{port:?}: {}",
                run.summary
            );
            assert_eq!(run.all("kind"), [kind, kind], "{port:?}");
            assert_eq!(run.all("stamps"), ["software", "software"], "{port:?}");
        }
    }
    let address = link.address_b(Family::V4).to_string();
    let text = text(ping(&prober, &["-c", "1", "--tcp", "81", &address]));
    assert!(
        text.stdout
            .contains(&format!("RST (port closed) from {address}: seq=1 ")),
        "{}",
        text.stdout
    );
}

/// The router refuses the probe; its address and the time are reported.
#[test]
fn a_ttl_that_does_not_suffice_is_reported() {
    let [prober, router, target] =
        ["prober", "router", "target"].map(|name| Host::new(name).unwrap());
    let uplink = Uplink::routed(&prober, &router, &target).unwrap();
    for family in FAMILIES {
        let address = uplink.peer_address(family).to_string();
        let through = json(ping(&prober, &["-c", "1", "-t", "2", &address]));
        assert_eq!(through.status, 0, "{:?}", through.probes);
        let run = json(ping(
            &prober,
            &["-c", "2", "-i", "20ms", "-t", "1", &address],
        ));
        assert_eq!(
            (run.status, run.count("refused"), run.count("answered")),
            (1, 2, 0)
        );
        for probe in &run.probes {
            assert_eq!(probe["error"], "ttl-exceeded", "{probe}");
            assert_eq!(
                probe["from"],
                uplink.gateway_address(family).to_string(),
                "{probe}"
            );
            assert!(number(&probe["after_ns"]) > 0, "{probe}");
        }
        let text = text(ping(&prober, &["-c", "1", "-t", "1", &address]));
        let line = format!(
            "From {} icmp_seq=1 {}",
            uplink.gateway_address(family),
            match family {
                Family::V4 => "Time to live exceeded (ICMP type 11 code 0)",
                Family::V6 => "Time exceeded: Hop limit (ICMPv6 type 3 code 0)",
            }
        );
        assert!(text.stdout.contains(&line), "{}", text.stdout);
    }
}

/// The kernel itself knows no way.
#[test]
fn probes_without_a_route_are_reported() {
    let host = Host::new("alone").unwrap();
    let text = text(ping(&host, &["-c", "1", "10.1.2.3"]));
    assert_eq!(text.status, 1, "{}", text.stderr);
    assert!(
        text.stdout
            .contains("not sent to 10.1.2.3: icmp_seq=1: Network is unreachable"),
        "{}",
        text.stdout
    );
}

/// The kernel gives up ARP after three requests. Programs that read ping(8) look for its words.
#[test]
fn a_neighbour_that_is_not_there_is_unreachable() {
    let (prober, target) = (Host::new("prober").unwrap(), Host::new("target").unwrap());
    let link = Link::veth(&prober, &target).unwrap();
    let times = format!("net.ipv4.neigh.{}.retrans_time_ms", link.interface_a());
    prober.set_sysctl(&times, "50").unwrap();
    let std::net::IpAddr::V4(peer) = link.address_b(Family::V4) else {
        panic!("an address of IPv4")
    };
    let nobody = std::net::Ipv4Addr::from_bits(peer.to_bits() ^ 4).to_string();
    let own = link.address_a(Family::V4);
    let in_time = text(ping(&prober, &["-c", "2", "-i", "10ms", &nobody]));
    let line = format!("From {own} icmp_seq=1 Destination Host Unreachable (ICMP type 3 code 1)");
    assert!(in_time.stdout.contains(&line), "{}", in_time.stdout);
    assert!(
        in_time.stdout.contains(", +2 errors, 100% packet loss"),
        "{}",
        in_time.stdout
    );
    let late = json(ping(
        &prober,
        &["-c", "20", "-i", "20ms", "-W", "20ms", &nobody],
    ));
    let events = late.events.iter();
    let refused = events
        .filter(|event| event["event"] == "late-refusal")
        .count();
    assert!(refused > 0, "{late:?}");
    assert_eq!(late.counter("late_refused"), refused as u64);
    assert_eq!(late.counter("stray_error"), 0, "{late:?}");
}

/// The peer answers ARP only after a while, and that is nobody's delay but the neighbour's.
#[test]
fn the_wait_for_a_neighbours_address_is_a_stage() {
    const SILENT: Duration = Duration::from_millis(300);
    /// Requests of ARP before the kernel gives up.
    const REQUESTS: &str = "20";
    let (prober, target) = (Host::new("prober").unwrap(), Host::new("target").unwrap());
    let link = Link::veth(&prober, &target).unwrap();
    let times = format!("net.ipv4.neigh.{}.retrans_time_ms", link.interface_a());
    prober.set_sysctl(&times, "200").unwrap();
    let requests = format!("net.ipv4.neigh.{}.mcast_solicit", link.interface_a());
    prober.set_sysctl(&requests, REQUESTS).unwrap();
    let ignores = format!("net.ipv4.conf.{}.arp_ignore", link.interface_b());
    target.set_sysctl(&ignores, "8").unwrap();
    prober
        .run("ip", &["neigh", "flush", "dev", link.interface_a()])
        .unwrap();
    let address = link.address_b(Family::V4).to_string();
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("its address is asked for", || {
                let shown = prober.run("ip", &["neigh", "show", &address]).unwrap();
                shown.contains("INCOMPLETE")
            });
            thread::sleep(SILENT);
            target.set_sysctl(&ignores, "0").unwrap();
        });
        json(ping(&prober, &["-c", "2", "-i", "3s", "-W", "5", &address]))
    });
    let [first, second] = run.probes.as_slice() else {
        panic!("{run:?}")
    };
    let neighbour = number(&first["stages"]["tx.neighbour"]);
    assert!(neighbour > 150_000_000, "{first}");
    assert!(number(&first["prober_delay_ns"]) < neighbour / 2, "{first}");
    assert!(number(&first["rtt_ns"]) < neighbour / 2, "{first}");
    assert!(second["stages"]["tx.neighbour"].is_null(), "{second}");
}

/// After the timeout, but before the end.
#[test]
fn an_answer_after_its_time_is_late() {
    let (prober, _target, link) = delayed_hosts(Duration::from_millis(100));
    let address = link.address_b(Family::V4).to_string();
    let run = json(ping(
        &prober,
        &["-w", "2s", "-i", "50ms", "-W", "30ms", &address],
    ));
    assert!(
        run.count("lost") > 2 && run.count("late") > 2,
        "{}",
        run.summary
    );
    assert_eq!(run.status, 1, "a late answer is none in time");
    let late = run
        .events
        .iter()
        .find(|event| event["event"] == "late")
        .unwrap();
    assert!(number(&late["rtt_ns"]) >= 100_000_000, "{late}");
}
