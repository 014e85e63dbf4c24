//! Traffic that another sockstamp makes is left out, unless the target names tasks.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;

use serde_json::Value;
use testbed::{Host, PATIENCE};
use with::traced_hosts::{Messages, outline};
use with::unprivileged::NOBODY;
use with::{Stat, Trace, agent, number, sockstamp};

const OLDER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9917);
const NEWER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9918);

/// The datagrams that were sent in this namespace, as the kernel counts them.
fn datagrams(host: &Host) -> u64 {
    let table = host
        .enter(|| fs::read_to_string("/proc/thread-self/net/snmp"))
        .unwrap();
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut fields = names.split(' ').zip(values.split(' '));
    let (_, sent) = fields.find(|(name, _)| *name == "OutDatagrams").unwrap();
    sent.parse().unwrap()
}

fn run(host: &Host, words: &[&str]) -> String {
    // In an emulated guest doctor takes twenty seconds.
    host.spawn(sockstamp(), words)
        .unwrap()
        .wait(3 * PATIENCE)
        .unwrap()
}

fn names(report: &Value) -> BTreeSet<&str> {
    let groups = report["groups"].as_array().unwrap().iter();
    groups
        .map(|group| group["key"]["comm"].as_str().unwrap())
        .collect()
}

/// A start that probes stamps, doctor's self-test, and agents that answer: one exists before, the
/// other comes later.
#[test]
fn what_another_sockstamp_sends_and_reads_is_left_out() {
    let host = Host::new("corner").unwrap();
    let _older = agent::start_in(&host, OLDER);
    let connected_before = host.tcp_connect(OLDER).unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "--by", "comm"]);
    let before = datagrams(&host);
    agent::scrape_by(connected_before);
    agent::scrape_by(host.tcp_connect(OLDER).unwrap());
    let _newer = agent::start_in(&host, NEWER);
    agent::scrape_by(host.tcp_connect(NEWER).unwrap());
    let doctor = run(&host, &["doctor"]);
    assert!(
        doctor.contains("40 of 40 messages over loopback valid"),
        "{doctor}"
    );
    run(&host, &["stat", "--duration", "100ms"]);
    assert!(datagrams(&host) >= before + 2);

    let report = stat.finish();
    let own = fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(names(&report), BTreeSet::from([own.trim_end()]), "{report}");
    assert_eq!(number(&report["tx"]["messages"]), 3, "{report}");
    assert_eq!(number(&report["lost"]["datagrams"]), 0, "{report}");
}

#[test]
fn a_target_that_names_it_measures_a_sockstamp() {
    let host = Host::new("corner").unwrap();
    let agent = agent::start_in(&host, OLDER);
    for target in [["--comm", "sockstamp"], ["-p", &agent.id().to_string()]] {
        let stat = Stat::start(&[&["--netns", host.netns_name(), "tcp"], &target[..]].concat());
        agent::scrape_by(host.tcp_connect(OLDER).unwrap());
        let report = stat.finish();
        assert!(
            number(&report["tx"]["messages"]) > 0,
            "{target:?}: {report}"
        );
    }
}

/// Take the name, become a user if one is given, send to a port and wait until the peer closes.
const NAMED: &str = "
import encodings.idna, os, socket, sys
open('/proc/self/comm', 'w').write('sockstamp')
for user in sys.argv[2:]:
    os.setuid(int(user))
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print(s.getsockname()[1], flush=True)
s.sendall(b'x' * 100)
s.recv(1)
";

/// Run it by these words, as this user; return the address that it had.
fn send_named(host: &Host, listener: &TcpListener, by: &[&str], user: Option<u32>) -> SocketAddr {
    let port = listener.local_addr().unwrap().port().to_string();
    let mut command = host.command(by[0]);
    command.args(&by[1..]).args(["python3", "-c", NAMED, &port]);
    command.args(user.map(|user| user.to_string()));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let (mut server, client) = listener.accept().unwrap();
    server.read_exact(&mut [0; 100]).unwrap();
    drop(server);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line.trim(), client.port().to_string());
    assert!(child.wait().unwrap().success());
    client
}

/// Anybody may take the name. It hides those alone that could hide without it.
#[test]
fn no_user_hides_by_the_name_sockstamp() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let trace = Trace::start(&["--netns", host.netns_name()]);
    let user = send_named(&host, &listener, &["env"], Some(NOBODY));
    let unshare = ["unshare", "--user", "--map-root-user"];
    let own_namespace = send_named(&host, &listener, &unshare, None);
    let root = send_named(&host, &listener, &["env"], None);

    let messages = Messages::new(trace.finish());
    for client in [user, own_namespace] {
        assert_eq!(outline(&messages.sent_from(client)), [(100, "valid")]);
    }
    assert_eq!(outline(&messages.sent_from(root)), []);
}
