//! Whose messages are, where tasks share a socket: by the programs' own output.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use testbed::{Family, Host, LinkConfig};
use with::pair::Pair;
use with::{Stat, Trace, in_short, number};

const DELAY: Duration = Duration::from_millis(20);

/// The sends that a trace has, as the program prints them.
fn sends(messages: &[Value]) -> Vec<String> {
    let sent = messages
        .iter()
        .filter(|message| message["direction"] == "tx");
    let mut found: Vec<String> = sent
        .map(|message| {
            assert_eq!(message["verdict"], "valid", "{message}");
            let comm = message["comm"].as_str().unwrap();
            format!("{} {} {comm}", message["bytes"], message["pid"])
        })
        .collect();
    found.sort();
    found
}

/// Each acknowledgement comes when the other task was the last to send.
fn each_message_has_its_caller(protocol: &str) {
    let pair = Pair::relay(LinkConfig::default().delay(DELAY), Family::V4);
    let client = &pair.client;
    let target = ["--netns", client.netns_name(), protocol];
    let _reader = pair.server.udp_bind(pair.address).unwrap();
    let _sink = pair.serve(&["sink"]);
    let trace = Trace::start(&target);
    let stat = Stat::start(&[&target[..], &["--by", "comm"]].concat());
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/witness/callers.py");
    let (ip, port) = (
        pair.address.ip().to_string(),
        pair.address.port().to_string(),
    );
    let said = client
        .run("python3", &[program, protocol, &ip, &port])
        .unwrap();
    let (messages, report) = (trace.finish(), stat.finish());
    println!("{}", in_short(&report));
    let mut expected: Vec<&str> = said.lines().collect();
    expected.sort_unstable();
    assert_eq!(expected.len(), 12, "{said}");
    assert_eq!(sends(&messages), expected);
    for (comm, count) in [("alice", 5), ("bob", 5), ("before", 1), ("after", 1)] {
        let mut groups = report["groups"].as_array().unwrap().iter();
        let group = groups.find(|group| group["key"]["comm"] == comm);
        let group = group.unwrap_or_else(|| panic!("no {comm}: {}", report["groups"]));
        assert_eq!(number(&group["tx"]["messages"]), count, "{group}");
    }
}

#[test]
fn each_message_of_a_shared_connection_has_its_caller() {
    each_message_has_its_caller("tcp");
}

#[test]
fn each_datagram_of_a_shared_socket_has_its_caller() {
    each_message_has_its_caller("udp");
}

/// While one call waits for room in the send buffer, another one queues its bytes between.
#[test]
fn calls_that_wait_for_room_together_have_their_own_bytes() {
    const LENGTHS: [usize; 2] = [300_000, 3_000];
    let host = Host::new("threads").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name(), "tcp"]);
    let listener = host.tcp_listen(([127, 0, 0, 1], 0).into()).unwrap();
    SockRef::from(&listener).set_recv_buffer_size(8192).unwrap();
    let sender = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    SockRef::from(&sender).set_send_buffer_size(16384).unwrap();
    let (mut reader, _) = listener.accept().unwrap();
    thread::scope(|scope| {
        for length in LENGTHS {
            let mut sender: &TcpStream = &sender;
            scope.spawn(move || assert_eq!(sender.write(&vec![1; length]).unwrap(), length));
            thread::sleep(DELAY);
        }
        let mut buffer = [0; 4096];
        let mut left: usize = LENGTHS.iter().sum();
        while left > 0 {
            left -= reader.read(&mut buffer).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    });
    drop((sender, reader));
    let messages = trace.finish();
    let sent = messages
        .iter()
        .filter(|message| message["direction"] == "tx" && message["verdict"] == "valid");
    let mut bytes: Vec<u64> = sent.map(|message| number(&message["bytes"])).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, [3_000, 300_000], "{messages:?}");
}
