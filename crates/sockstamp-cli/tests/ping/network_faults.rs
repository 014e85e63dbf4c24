//! Networks that lose, refuse and repeat.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use testbed::{Direction, Family, Host, LinkConfig, Uplink};
use with::{FAMILIES, number};

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
            .contains(&format!("\nno answer from {address}: seq=1\n")),
        "{}",
        text.stdout
    );
    assert!(
        text.stdout.contains("1 sent, 0 answered, 100.0 % lost"),
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
    let run = json(ping(&prober, &["-c", "1", "-W", "100ms", &good, &silent]));
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
            "refused by {} for {address}: seq=1: time to live exceeded (ICMP type ",
            uplink.gateway_address(family)
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
            .contains("not sent to 10.1.2.3: seq=1: Network is unreachable"),
        "{}",
        text.stdout
    );
}

/// After the timeout, but before the end.
#[test]
fn an_answer_after_its_time_is_late() {
    let (prober, _target, link) = delayed_hosts(Duration::from_millis(100));
    let address = link.address_b(Family::V4).to_string();
    let run = json(ping(
        &prober,
        &["-w", "600ms", "-i", "50ms", "-W", "30ms", &address],
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
