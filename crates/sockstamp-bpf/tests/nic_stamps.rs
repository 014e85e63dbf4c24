//! Test that no packet of a measurement requests a stamp from a NIC that stamps sends for PTP.
//! Root.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use libbpf_rs::ProgramType;
use libbpf_rs::query::ProgInfoIter;
use sockstamp::interface::{self, HardwareStamping};
use sockstamp_bpf::facts::Facts;
use sockstamp_bpf::plan::{Plan, Request, Stamps};
use sockstamp_bpf::{Grouped, Options, Sampling, Session, Target, probe};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;
use sockstamp_model::verdict::Verdict;
use testbed::{Family, Host, Link, LinkConfig, within_attempts};
use testbed_bpf::stranger::Stranger;

/// On the connection, and as many answers.
const REQUESTS: u64 = 50;
const REQUEST: [u8; 500] = [1; 500];
const ONE_WAY: Duration = Duration::from_millis(10);

#[test]
fn no_packet_is_asked_for_stamps_and_messages_are_measured() {
    let Some(facts) = with_callbacks("no_packet_is_asked_for_stamps_and_messages_are_measured")
    else {
        return;
    };
    let mut ptp = facts.clone();
    ptp.stamping_nics.insert("eth0".into());
    let ptp = probe::try_what_is_used(ptp, &Options::default()).unwrap();
    within_attempts(|| {
        for (facts, asks) in [(&facts, true), (&ptp, false)] {
            let before = others_measure();
            let (summary, asking) = measure(facts, None, None);
            println!("asks: {asks}: {asking} packets, {:?}", summary.verdicts);
            // Packets ask for the stamps of any session that has selected their socket.
            if asking > 0 && !asks && (before || others_measure()) {
                return Err(format!("another session asked {asking} packets"));
            }
            assert_eq!(asking > 0, asks);
            assert_eq!(summary.tx.messages, 2 * REQUESTS);
            assert!(summary.verdict(Verdict::Valid) >= 4 * REQUESTS * 95 / 100);
            let network = summary.tx.stages[Stage::TxNetwork].as_ref().unwrap();
            let median = Duration::from(network.quantile(0.5).unwrap());
            if !(2 * ONE_WAY..3 * ONE_WAY).contains(&median) {
                return Err(format!("asks: {asks}: tx.network {median:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn nics_are_asked_for_no_more_stamps_than_allowed_and_every_message_is_measured() {
    const PER_SECOND: u32 = 10;
    let name = "nics_are_asked_for_no_more_stamps_than_allowed_and_every_message_is_measured";
    let Some(facts) = with_callbacks(name) else {
        return;
    };
    let mut ptp = facts;
    ptp.stamping_nics.insert("eth0".into());
    let ptp = probe::try_what_is_used(ptp, &Options::default()).unwrap();
    let (summary, asking) = measure(&ptp, NonZeroU32::new(PER_SECOND), None);
    let most = Duration::from(summary.duration).as_secs_f64() * f64::from(PER_SECOND) + 1.0;
    let stamps = summary.nic_stamps.unwrap();
    println!("{stamps:?}, {asking} packets of the client, at most {most}");
    assert_eq!(stamps.asked + stamps.spared, 2 * REQUESTS);
    assert!(
        stamps.asked > 1 && stamps.asked as f64 <= most,
        "{stamps:?}"
    );
    // A packet may be sent again.
    assert!(asking > 0 && asking < REQUESTS, "{asking}");
    // No NIC has stamped it: what lies behind its driver is counted all the same, and once.
    // Nobody reads while it lasts: where one finds no room, the programs count it.
    assert!(stamps.unstamped > 0, "{summary:?}");
    assert_eq!(stamps.unstamped + summary.lost.ring, stamps.asked);
    assert_eq!((stamps.stamped, stamps.nic_clock), (0, 0));
    assert_eq!(stamps.bounds, None);
    let count = |stage: Stage| summary.tx.stages[stage].as_ref().unwrap().count();
    assert_eq!(count(Stage::TxNic), 0);
    assert_eq!(count(Stage::TxNetwork), count(Stage::TxQdisc));
    assert_eq!(summary.tx.sent.count(), count(Stage::TxQdisc));
    let sum = |stage: Stage| summary.tx.stages[stage].as_ref().unwrap().sum_ns();
    let stages = [
        Stage::TxCopy,
        Stage::TxQueue,
        Stage::TxQdisc,
        Stage::TxNetwork,
    ];
    let whole: u128 = stages.into_iter().map(sum).sum();
    assert_eq!(whole, summary.tx.total.sum_ns());
    let groups = summary.groups.as_ref().unwrap();
    let of_groups = groups.groups.iter().chain([&groups.other]);
    let of_groups = of_groups.filter_map(|group| group.tx.stages[Stage::TxNetwork].as_ref());
    let of_groups: u64 = of_groups.map(|network| network.count()).sum();
    assert_eq!(of_groups, count(Stage::TxNetwork));
    assert!(
        summary.verdict(Verdict::Valid) >= 4 * REQUESTS * 95 / 100,
        "{summary:?}"
    );
}

#[test]
fn reads_of_packets_that_no_nic_has_stamped_are_counted_as_without() {
    let name = "reads_of_packets_that_no_nic_has_stamped_are_counted_as_without";
    let Some(mut facts) = with_callbacks(name) else {
        return;
    };
    facts.receiving_nics.insert("eth0".into());
    let (summary, _) = measure(&facts, None, NonZeroU32::new(1_000));
    let reads = summary.nic_reads.unwrap();
    println!("{reads:?}, {:?}", summary.verdicts);
    assert_eq!((reads.stamped, reads.spared, reads.nic_clock), (0, 0, 0));
    assert!(reads.unstamped >= 2 * REQUESTS * 95 / 100, "{reads:?}");
    assert_eq!(reads.unstamped, summary.rx.total.count());
    let nic = summary.rx.stages[Stage::RxNic].as_ref().unwrap();
    assert_eq!(nic.count(), 0);
    assert_eq!(summary.nic_stamps, None);
}

/// Check the drivers' answer to SIOCGHWTSTAMP: veth and tun do not support it.
#[test]
fn interfaces_without_a_clock_stamp_nothing() {
    let (here, there) = (Host::new("here").unwrap(), Host::new("there").unwrap());
    let _links = [
        Link::veth(&here, &there).unwrap(),
        Link::relay(&here, &there, LinkConfig::default()).unwrap(),
    ];
    let answers = here.enter(|| {
        let names = interface::names().unwrap().into_iter();
        let answer = |name: String| (interface::hardware_stamping(&name).unwrap(), name);
        names.map(answer).collect::<Vec<_>>()
    });
    println!("{answers:?}");
    assert_eq!(answers.len(), 3, "lo, a veth and a tun device: {answers:?}");
    for (stamping, name) in answers {
        assert_eq!(stamping, HardwareStamping::default(), "{name}");
    }
}

/// Return true if programs of a session are there while this test has none.
fn others_measure() -> bool {
    ProgInfoIter::default().any(|program| program.ty == ProgramType::SockOps)
}

/// Return the facts of this host. `None`, and a line that says so, without BPF timestamping, by
/// which packets ask for stamps.
fn with_callbacks(test: &str) -> Option<Facts> {
    let facts = probe::try_what_is_used(probe::facts(), &Options::default()).unwrap();
    let is_there = Plan::outlook(&facts, &Request::default()).tx == Some(Stamps::Callbacks);
    if !is_there {
        let line = format!("SKIP {test}: no BPF timestamping\n");
        io::stderr().write_all(line.as_bytes()).unwrap();
    }
    is_there.then_some(facts)
}

/// Return what was measured at both ends, and the number of packets that requested stamps.
fn measure(
    facts: &Facts,
    nic_stamps: Option<NonZeroU32>,
    nic_reads: Option<NonZeroU32>,
) -> (Summary, u64) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let config = LinkConfig {
        delay: ONE_WAY,
        ..LinkConfig::default()
    };
    let link = Link::relay(&client, &server, config).unwrap();
    let netns = NetnsInode(client.netns_inode().try_into().unwrap());
    let stranger = Stranger::attach(facts.cgroup2.as_deref().unwrap(), netns, 0).unwrap();
    let options = Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        sampling: Sampling::Every,
        groups: Some(Grouped::by(Grouping::new([Dimension::Port]).unwrap())),
        nic_stamps,
        nic_reads,
        ..Options::default()
    };
    let mut session = Session::start_on(facts, &options).unwrap();
    let listener = server
        .tcp_listen(SocketAddr::new(link.address_b(Family::V4), 0))
        .unwrap();
    let mut client = client.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut buffer = REQUEST;
    for _ in 0..REQUESTS {
        client.write_all(&REQUEST).unwrap();
        server.read_exact(&mut buffer).unwrap();
        server.write_all(&REQUEST).unwrap();
        client.read_exact(&mut buffer).unwrap();
    }
    session.settle(Duration::from_secs(2), &mut drop).unwrap();
    let asking = stranger.asking_packets();
    (session.stop(&mut drop).unwrap(), asking)
}
