//! The kernel's answers against the model's. Root.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use proptest::sample::select;
use sockstamp_model::filter::Filter;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::stage::Direction;

use super::words;

/// Return the kernel's answers for each flow, for TX and RX.
fn answers(filter: &Filter, flows: &[Flow]) -> Vec<[bool; 2]> {
    let kernel = testbed_bpf::filter::Filter::load(|settings| super::set_filter!(settings, filter));
    let kernel = kernel.unwrap();
    let ask = |flow: &Flow, direction| kernel.accepts(&mut question(flow, direction)).unwrap();
    flows
        .iter()
        .map(|flow| Direction::ALL.map(|direction| ask(flow, direction)))
        .collect()
}

/// `struct filter_question`: source, destination, protocol.
fn question(flow: &Flow, direction: Direction) -> Vec<u8> {
    let (source, destination) = match direction {
        Direction::Tx => (flow.local, flow.remote),
        Direction::Rx => (flow.remote, flow.local),
    };
    let fields = [end(source), end(destination)].into_iter().flatten();
    fields
        .chain([flow.protocol.number().into()])
        .flat_map(u32::to_ne_bytes)
        .collect()
}

/// `struct filter_end`.
fn end(address: SocketAddr) -> [u32; 5] {
    let mapped = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let [a, b, c, d] = words(mapped.to_bits());
    [a, b, c, d, address.port().into()]
}

fn assert_agree(filter: &Filter, flows: &[Flow]) {
    for (flow, answer) in flows.iter().zip(answers(filter, flows)) {
        let expected = Direction::ALL.map(|direction| filter.selects(flow, direction));
        assert_eq!(answer, expected, "{filter}: {flow}");
    }
}

fn flow(protocol: Protocol, local: SocketAddr, remote: SocketAddr) -> Flow {
    Flow {
        netns: NetnsInode(1),
        protocol,
        local,
        remote,
        cookie: SocketCookie(1),
    }
}

/// Few, so that flows and filters meet.
const ADDRESSES: [&str; 8] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.200.0.1",
    "192.168.1.1",
    "::1",
    "2001:db8::1",
    "2001:db8:1::1",
    "fe80::1",
];
const NETS: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.128.0.0/9",
    "10.0.0.0/30",
    "192.168",
    "::/0",
    "::/80",
    "2001:db8::/32",
    "2001:db8::/47",
];

fn ports() -> impl Strategy<Value = u16> {
    select(vec![0, 1, 255, 256, 443, 1024, 65_535])
}

fn flows() -> impl Strategy<Value = Flow> {
    let end = || {
        (select(ADDRESSES.to_vec()), ports())
            .prop_map(|(address, port)| SocketAddr::new(address.parse().unwrap(), port))
    };
    (select(Protocol::ALL.to_vec()), end(), end())
        .prop_map(|(protocol, local, remote)| flow(protocol, local, remote))
}

fn primitive() -> impl Strategy<Value = String> {
    let base = select(vec!["tcp", "udp", "ip", "ip6"]).prop_map(str::to_owned);
    let value = prop_oneof![
        select(ADDRESSES.to_vec()).prop_map(|address| format!("host {address}")),
        select(NETS.to_vec()).prop_map(|net| format!("net {net}")),
        (ports(), ports()).prop_map(|(one, other)| format!(
            "portrange {}-{}",
            one.min(other),
            one.max(other)
        )),
    ];
    let side = select(vec!["", "src ", "dst ", "src and dst "]);
    prop_oneof![1 => base, 4 => (side, value).prop_map(|(side, value)| format!("{side}{value}"))]
}

/// At most 16 primitives, which take at most four tests each.
fn filters() -> impl Strategy<Value = Filter> {
    let text = primitive().prop_recursive(4, 16, 2, |inner| {
        let join = select(vec!["and", "or"]);
        prop_oneof![
            inner.clone().prop_map(|inner| format!("not ({inner})")),
            (inner.clone(), join, inner)
                .prop_map(|(left, join, right)| format!("({left}) {join} ({right})")),
        ]
    });
    text.prop_map(|text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_kernel_answers_as_the_model_does(
        filter in filters(),
        flows in prop::collection::vec(flows(), 30),
    ) {
        assert_agree(&filter, &flows);
    }
}

/// The verifier takes the longest ones too, whatever their shape.
#[test]
fn the_longest_filters_load() {
    let flows: Vec<Flow> = [
        ("10.0.0.31:1", "10.0.1.0:2"),
        ("10.0.0.32:1", "10.0.0.0:2"),
        ("[::1]:31", "[::1]:32"),
    ]
    .map(|(local, remote)| {
        flow(
            Protocol::Tcp,
            local.parse().unwrap(),
            remote.parse().unwrap(),
        )
    })
    .into();
    let hosts: Vec<String> = (0..32).map(|host| format!("host 10.0.0.{host}")).collect();
    let ports: Vec<String> = (0..32).map(|port| format!("not port {port}")).collect();
    // Each in its own shape: a chain of or, one of and, a ladder, and pairs.
    let ladder = hosts[..31].join(" or (") + &")".repeat(30);
    let pairs: Vec<String> = hosts
        .iter()
        .zip(&ports)
        .take(16)
        .map(|(host, port)| format!("({host} and {port})"))
        .collect();
    let alternating: Vec<String> = ports.chunks(2).map(|pair| pair.join(" or ")).collect();
    for text in [
        hosts.join(" or "),
        ports.join(" and "),
        ladder,
        pairs.join(" or "),
        alternating.join(" and "),
    ] {
        assert_agree(
            &text.parse().unwrap_or_else(|error| panic!("{error}")),
            &flows,
        );
    }
}
