//! `stat --by`: groups have names, and with the rest they are the whole.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{Cgroup, Direction, Family, Host, Link, LinkConfig};
use with::answerer::Answerer;
use with::traced_hosts::{Connection, wait_acknowledged};
use with::{Stat, number};

/// The groups, and the sums outside of them.
fn parts(report: &Value) -> Vec<&Value> {
    let groups = report["groups"].as_array().unwrap();
    groups
        .iter()
        .chain([&report["other"], &report["ended"]])
        .collect()
}

/// Every count, and every sum to the nanosecond.
fn assert_adds_up(report: &Value) {
    let parts = parts(report);
    let sum = |pointer: &str| -> u64 {
        let values = parts.iter().filter_map(|part| part.pointer(pointer));
        values.map(number).sum()
    };
    for direction in ["tx", "rx"] {
        for figure in ["messages", "bytes", "retransmits"] {
            let whole = number(&report[direction][figure]);
            assert_eq!(
                sum(&format!("/{direction}/{figure}")),
                whole,
                "{direction} {figure}"
            );
        }
        let stages = report[direction]["stages"].as_object().unwrap().iter();
        let stages = stages.map(|(name, whole)| (format!("stages/{name}"), whole));
        for (name, whole) in stages.chain([("total".to_owned(), &report[direction]["total"])]) {
            for figure in ["count", "sum_ns"] {
                let parts = sum(&format!("/{direction}/{name}/{figure}"));
                assert_eq!(parts, number(&whole[figure]), "{direction} {name} {figure}");
            }
        }
    }
    let verdicts = report["verdicts"].as_object().unwrap().iter();
    let refused =
        verdicts.filter(|(verdict, _)| !["valid", "in-flight"].contains(&verdict.as_str()));
    let refused: u64 = refused.map(|(_, count)| number(count)).sum();
    assert_eq!(sum("/tx/refused") + sum("/rx/refused"), refused);
}

/// The only group with this value of its key.
fn group<'a>(report: &'a Value, dimension: &str, value: &Value) -> &'a Value {
    let groups = report["groups"].as_array().unwrap();
    let mut found = groups
        .iter()
        .filter(|group| group["key"][dimension] == *value);
    let group = found
        .next()
        .unwrap_or_else(|| panic!("no {value}: {groups:?}"));
    assert!(found.next().is_none(), "two of {value}");
    group
}

/// Mix retransmissions, refused messages, messages in flight, and a SYN without an answer.
#[test]
fn groups_of_a_link_that_fails_add_up() {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let config = LinkConfig::default().delay(Duration::from_millis(2));
    let link = Link::relay(&client, &server, config.clone()).unwrap();
    let address = link.address_b(Family::V4);
    let stat = Stat::start(&[
        "--netns",
        client.netns_name(),
        "--by",
        "port,peer,interface",
    ]);

    let mut lossy = Connection::new(&client, &server, address);
    for round in 0..20 {
        if round % 10 == 5 {
            link.lose_next_data(Direction::AToB, 1).unwrap();
        }
        lossy.client.write_all(&[0; 3000]).unwrap();
        lossy.server.read_exact(&mut [0; 3000]).unwrap();
        lossy.server.write_all(&[0; 3000]).unwrap();
        lossy.client.read_exact(&mut [0; 3000]).unwrap();
    }
    let mut reset = Connection::new(&client, &server, address);
    wait_acknowledged(&lossy.client);
    link.set_config(config.loss(1.0)).unwrap();
    reset.client.write_all(&[0; 100]).unwrap();
    // RFC 6298, section 2.1: the SYN is sent again after a second.
    let dead = SocketAddr::new(address, 9);
    let asked = Instant::now();
    let unanswered =
        client.enter(|| std::net::TcpStream::connect_timeout(&dead, Duration::from_millis(1_500)));
    assert!(unanswered.is_err());
    let most = asked.elapsed().as_secs();
    lossy.client.write_all(&[0; 100]).unwrap();
    thread::sleep(Duration::from_millis(300));
    let report = stat.finish();

    assert_adds_up(&report);
    let lossy = group(&report, "port", &json!(lossy.server_address.port()));
    assert!(number(&lossy["tx"]["retransmits"]) > 0, "{lossy}");
    assert_eq!(number(&lossy["tx"]["messages"]), 21);
    assert_eq!(lossy["key"]["peer"], json!(address.to_string()));
    assert_eq!(lossy["key"]["interface"]["name"], json!(link.interface_a()));
    let unanswered = group(&report, "port", &json!(9));
    // One, unless this machine stood still.
    let retransmits = number(&unanswered["tx"]["retransmits"]);
    assert!((1..=most).contains(&retransmits), "{unanswered}");
    assert_eq!(number(&unanswered["tx"]["messages"]), 0);
}

/// A server and two clients, none of which is connected.
#[test]
fn datagrams_are_grouped_by_the_service_and_the_peer_that_each_has() {
    let host = Host::new("groups").unwrap();
    let bound = |last: u8, port| {
        let address = SocketAddr::from(([127, 0, 0, last], port));
        host.udp_bind(address).unwrap()
    };
    let (server, clients) = (bound(1, 1053), [2, 3].map(|last| bound(last, 0)));
    let target = ["--netns", host.netns_name(), "--expert=attach=all"];
    let stat = Stat::start(&[&target[..], &["--by", "port,peer"]].concat());
    for client in clients.iter().chain(&clients[1..]) {
        client
            .send_to(&[0; 100], server.local_addr().unwrap())
            .unwrap();
        let (_, from) = server.recv_from(&mut [0; 100]).unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        server.send_to(&[0; 10], from).unwrap();
        client.recv_from(&mut [0; 10]).unwrap();
    }
    let report = stat.finish();

    assert_adds_up(&report);
    assert_eq!(report["groups"].as_array().unwrap().len(), 3, "{report}");
    for (peer, messages) in [("127.0.0.1", 3), ("127.0.0.2", 1), ("127.0.0.3", 2)] {
        let group = group(&report, "peer", &json!(peer));
        assert_eq!(group["key"]["port"], 1053, "{group}");
        let counted = ["tx", "rx"].map(|direction| number(&group[direction]["messages"]));
        assert_eq!(counted, [messages; 2], "{group}");
    }
}

#[test]
fn several_cgroups_of_a_container_are_one_group() {
    let host = Host::new("corner").unwrap();
    let top = Cgroup::new("groups").unwrap();
    let id = format!("{:064x}", std::process::id());
    let scope = format!("system.slice/docker-{id}.scope");
    let places = ["init", "work"].map(|name| top.below(&format!("{scope}/{name}")).unwrap());
    let mut answerers = places
        .each_ref()
        .map(|cgroup| Answerer::start(&host, Some(cgroup)));
    let target = ["--cgroup", top.path().to_str().unwrap(), "--by"];
    let measured = |by, answerers: &mut [Answerer]| {
        let stat = Stat::start(&[&target[..], &[by]].concat());
        answerers.iter_mut().for_each(Answerer::ask);
        stat.finish()
    };

    let report = measured("container", &mut answerers);
    assert_adds_up(&report);
    assert_eq!(report["groups"].as_array().unwrap().len(), 1, "{report}");
    group(&report, "container", &json!(id));
    let report = measured("cgroup", &mut answerers);
    assert_adds_up(&report);
    for cgroup in &places {
        let paths: Vec<_> = parts(&report)
            .iter()
            .filter_map(|part| part.pointer("/key/cgroup/path")?.as_str())
            .collect();
        let ends = paths.iter().any(|path| cgroup.path().ends_with(&path[1..]));
        assert!(ends, "{paths:?}");
    }
}
