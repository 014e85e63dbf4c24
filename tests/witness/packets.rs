//! The packets that `pcap` writes, compared with tcpdump and as Wireshark reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::{NamedTempFile, tempdir};
use testbed::{
    Cgroup, Family, HeldSocket, Host, Link, LinkConfig, PATIENCE, Process, within_attempts,
};
use with::capture::Capture;
use with::guarded::Guarded;
use with::kernel_counts::wait_closed;
use with::pcap::{Pcap, compare, fields, read, send, send_to};
use with::traced_hosts::wait_acknowledged;
use with::{FAMILIES, agent, sockstamp};

/// Compare what passes on the sender's interface while `work` runs.
fn against_tcpdump(hosts: [&Host; 2], link: &Link, work: impl Fn()) {
    within_attempts(|| {
        let pcap = Pcap::start(&["--netns", hosts[0].netns_name()]);
        let guarded = Guarded::start([link.interface_a()]);
        let capture = Capture::start(hosts[0], link.interface_a(), "tcp or udp");
        work();
        // An acknowledgement of the last FIN.
        hosts.into_iter().for_each(wait_closed);
        let seen = capture.finish();
        let excuses = guarded.finish();
        let (file, said) = pcap.finish();
        assert!(!said.contains("missing"), "{said}");
        assert!(!seen.is_empty());
        compare(&seen, &read(&file), excuses)
    });
}

#[test]
fn no_packet_of_tcp_that_tcpdump_sees_is_missing() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let hosts = [&hosts[0], &hosts[1]];
    for offload in [true, false] {
        let config = LinkConfig::default().offload(offload).loss(0.01);
        let link = Link::relay(hosts[0], hosts[1], config).unwrap();
        against_tcpdump(hosts, &link, || {
            for family in FAMILIES {
                send(&link, hosts, family, &[1, 700, 40_000, 300_000, 5]);
            }
        });
    }
}

#[test]
fn no_fragment_that_tcpdump_sees_is_missing() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let hosts = [&hosts[0], &hosts[1]];
    let link = Link::veth(hosts[0], hosts[1]).unwrap();
    against_tcpdump(hosts, &link, || {
        for family in FAMILIES {
            let addresses = [link.address_a(family), link.address_b(family)];
            ask(addresses, hosts, &[10, 3000, 9000]);
        }
    });
}

/// Send datagrams of these sizes, of which each is answered by one of its size.
fn ask(addresses: [IpAddr; 2], hosts: [&Host; 2], sizes: &[usize]) {
    let bind = |end: usize| {
        let address = SocketAddr::new(addresses[end], 0);
        hosts[end].udp_bind(address).unwrap()
    };
    let [client, server] = [0, 1].map(bind);
    for size in sizes {
        let mut buffer = vec![7; *size];
        client
            .send_to(&buffer, server.local_addr().unwrap())
            .unwrap();
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&buffer[..length], from).unwrap();
        client.recv(&mut buffer).unwrap();
    }
}

#[test]
fn no_packet_of_a_fast_flow_is_missing() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let hosts = [&hosts[0], &hosts[1]];
    let link = Link::veth(hosts[0], hosts[1]).unwrap();
    against_tcpdump(hosts, &link, || {
        send(&link, hosts, Family::V4, &[40_000_000])
    });
}

/// Both ends are the target's, so that programs see a packet where it is sent and where it is
/// received; tcpdump is on the sender's interface alone.
#[test]
fn a_packet_that_stays_on_this_host_is_written_once() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    for family in [Family::V4, Family::V6] {
        let [a, b] = [link.address_a(family), link.address_b(family)];
        let veth = ([a, b], [&hosts[0], &hosts[1]], link.interface_a());
        let loopback = ([a, a], [&hosts[0], &hosts[0]], "lo");
        for (addresses, hosts, interface) in [veth, loopback] {
            within_attempts(|| {
                let pcap = Pcap::start(&[&format!("host {a}")]);
                let guarded = Guarded::start([interface]);
                let capture = Capture::start(hosts[0], interface, "tcp or udp");
                send_to(addresses[1], hosts, &[1, 700, 40_000, 300_000, 5]);
                ask(addresses, hosts, &[10, 3000, 10, 10]);
                hosts.into_iter().for_each(wait_closed);
                let seen = capture.finish();
                let excuses = guarded.finish();
                let (file, said) = pcap.finish();
                assert!(!said.contains("missing"), "{said}");
                compare(&seen, &read(&file), excuses)
            });
        }
    }
}

#[test]
fn a_packet_has_one_id_at_every_stage() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let hosts = [&hosts[0], &hosts[1]];
    let link = Link::veth(hosts[0], hosts[1]).unwrap();
    let pcap = Pcap::start(&["--all-stages", "--netns", hosts[0].netns_name()]);
    send(&link, hosts, Family::V4, &[100; 20]);
    let (file, _) = pcap.finish();
    let names = [
        "frame.packet_id",
        "frame.interface_name",
        "frame.time_epoch",
        "frame.comment",
    ];
    let mut ways: BTreeMap<u64, Vec<[String; 4]>> = BTreeMap::new();
    for row in fields(&file, names) {
        ways.entry(parse_id(&row[0])).or_default().push(row);
    }
    let device = format!("{}@{}", link.interface_a(), hosts[0].netns_name());
    let sent = ["sched", "driver"].map(|stage| format!("{device}/{stage}"));
    let queued = [
        format!("{device}/softirq"),
        format!("socket@{}", hosts[0].netns_name()),
    ];
    // An ACK of a handshake is not of an established connection, nor is one after the end.
    let mut taken = queued.to_vec();
    taken.push(format!("tcp@{}", hosts[0].netns_name()));
    let mut count = [0; 3];
    for (id, way) in &ways {
        let interfaces: Vec<_> = way.iter().map(|row| row[1].as_str()).collect();
        let expected = [&sent, &queued, &taken[..]];
        let direction = expected
            .iter()
            .position(|expected| interfaces == expected[..]);
        count[direction.unwrap_or_else(|| panic!("{id}: {way:?}"))] += 1;
        assert!(way[0][2] < way[1][2], "{way:?}");
        let owner = format!("pid={} comm=", std::process::id());
        assert!(way[0][3].contains(&owner), "{way:?}");
    }
    // Twenty requests and their answers, the handshake and the end.
    let [sent, queued, taken] = count;
    assert!(
        sent > 20 && taken >= 20 && (1..5).contains(&queued),
        "{count:?}"
    );
}

/// TCP does not look at a packet while a task has locked its socket.
#[test]
fn a_packet_waits_between_its_socket_and_tcp_while_a_task_has_locked_the_socket() {
    const HELD: Duration = Duration::from_millis(500);
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    let listener = hosts[1]
        .tcp_listen(SocketAddr::new(link.address_b(Family::V4), 0))
        .unwrap();
    let mut client = hosts[0]
        .tcp_connect(listener.local_addr().unwrap())
        .unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let pcap = Pcap::start(&["--all-stages", "--netns", hosts[1].netns_name()]);
    client.write_all(&[1; 50]).unwrap();
    server.read_exact(&mut [0; 50]).unwrap();
    let lock = HeldSocket::hold(server.try_clone().unwrap()).unwrap();
    client.write_all(&[1; 100]).unwrap();
    thread::sleep(HELD);
    drop(lock);
    server.read_exact(&mut [0; 100]).unwrap();
    let (file, _) = pcap.finish();
    let rows = fields(
        &file,
        ["frame.interface_name", "tcp.len", "frame.time_epoch"],
    );
    let time = |stage: &str, length: &str| {
        let is_it = |row: &&[String; 3]| row[0].starts_with(stage) && row[1] == length;
        let row = rows
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{stage} {length}: {rows:?}"));
        row[2].parse::<f64>().unwrap()
    };
    let [short, long] = ["50", "100"].map(|length| time("tcp@", length) - time("socket@", length));
    assert!(short < HELD.as_secs_f64() / 2.0, "{short}");
    assert!(long >= HELD.as_secs_f64(), "{long}");
}

/// A decimal or a hexadecimal number: versions of Wireshark differ.
fn parse_id(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

#[test]
fn a_commands_packets_have_as_many_bytes_as_are_asked_for() {
    let host = Host::new("a").unwrap();
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let file = NamedTempFile::new().unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf %03000d 5 >&3");
    let mut command = host.command(sockstamp());
    command
        .args(["pcap", "--snaplen", "2000", "-w"])
        .arg(file.path());
    command.args(["--", "bash", "-c", &script]);
    let process = Process::spawn(command).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_to_end(&mut Vec::new()).unwrap();
    process.wait(PATIENCE).unwrap();
    let names = [
        "frame.len",
        "frame.cap_len",
        "tcp.len",
        "tcp.payload",
        "frame.comment",
    ];
    let rows = fields(file.path(), names);
    let data: Vec<_> = rows.iter().filter(|row| row[2] == "3000").collect();
    assert_eq!(data.len(), 1, "{rows:?}");
    let [length, captured, _, payload, comment] = data[0];
    assert_eq!((length.as_str(), captured.as_str()), ("3052", "2000"));
    assert_eq!(payload.replace(':', ""), "30".repeat(2000 - 52));
    assert!(comment.contains("comm=bash"), "{comment}");
    // Only the packets of this connection: the handshake, the data and the end.
    assert!(
        rows.iter().all(|row| row[0].parse::<u32>().unwrap() < 3053),
        "{rows:?}"
    );
}

/// The capture of a service's packets on standard output, which tcpdump and capinfos read.
#[test]
fn a_capture_on_standard_output_is_sound_and_names_the_container() {
    let host = Host::new("a").unwrap();
    let top = Cgroup::new("captured").unwrap();
    let service = format!("web-{}.service", std::process::id());
    let cgroup = top.below(&service).unwrap();
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo >&3");
    let directory = tempdir().unwrap();
    let file = directory.path().join("file.pcapng");
    let mut command = host.command("sh");
    command.args(["-c", "exec \"$0\" pcap -w - -- bash -c \"$1\" > \"$2\""]);
    command.args([sockstamp(), &script]).arg(&file);
    cgroup.start_in(&mut command).unwrap();
    let process = Process::spawn(command).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_to_end(&mut Vec::new()).unwrap();
    process.wait(PATIENCE).unwrap();

    let rows = fields(&file, ["tcp.flags", "frame.comment"]);
    // The handshake, the byte, and the end, some of them acknowledged together.
    assert!((6..=9).contains(&rows.len()), "{rows:?}");
    for [_, comment] in &rows {
        assert!(
            comment.contains(&format!("container={service} ")),
            "{comment}"
        );
        assert!(
            comment.contains("pid=") && comment.contains("comm=bash"),
            "{comment}"
        );
        assert!(comment.contains("stage="), "{comment}");
    }
    let told = run("capinfos", &["-t", "-E", "-c", "-o", "-M"], &file);
    for line in [
        "File type:           pcapng".to_owned(),
        "File encapsulation:  rawip".to_owned(),
        format!("Number of packets:   {}", rows.len()),
        "Strict time order:   True".to_owned(),
    ] {
        assert!(told.contains(&line), "{line}: {told}");
    }
    let printed = run("tcpdump", &["-nn", "-r"], &file);
    assert_eq!(printed.lines().count(), rows.len(), "{printed}");
}

/// Return what a program prints about a file.
fn run(program: &str, options: &[&str], file: &Path) -> String {
    let output = Command::new(program)
        .args(options)
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn packets_of_others_are_not_written() {
    let host = Host::new("a").unwrap();
    let listeners = [0, 1].map(|_| host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap());
    let addresses = [0, 1].map(|index: usize| listeners[index].local_addr().unwrap());
    let filter = format!("tcp port {}", addresses[0].port());
    let pcap = Pcap::start(&["--netns", host.netns_name(), &filter]);
    for address in addresses {
        let mut client = host.tcp_connect(address).unwrap();
        client.write_all(b"hello").unwrap();
        wait_acknowledged(&client);
    }
    let (file, said) = pcap.finish();
    let ports = fields(&file, ["tcp.port"]);
    assert!(
        said.contains(&format!("{} packets written", ports.len())),
        "{said}"
    );
    assert!(ports.len() >= 4);
    let wanted = addresses[0].port().to_string();
    assert!(
        ports
            .iter()
            .all(|[both]| both.split(',').any(|port| port == wanted)),
        "{ports:?}"
    );
}

/// The agent was there before. A target that names it has its packets.
#[test]
fn packets_of_another_sockstamp_are_not_written() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    let here = link.address_a(Family::V4);
    let agent_address = SocketAddr::new(here, 9917);
    let agent = agent::start_in(&hosts[0], agent_address);
    let listener = hosts[0].tcp_listen(SocketAddr::new(here, 0)).unwrap();
    let other = listener.local_addr().unwrap();
    let pid = agent.id().to_string();
    let targets = [["--netns", hosts[0].netns_name()], ["-p", &pid]];
    let pcaps = targets.map(|target| Pcap::start(&target));
    agent::scrape_by(hosts[1].tcp_connect(agent_address).unwrap());
    let mut client = hosts[1].tcp_connect(other).unwrap();
    client.write_all(b"hello").unwrap();
    wait_acknowledged(&client);
    let ports = pcaps.map(|pcap| {
        let (file, _) = pcap.finish();
        let written = read(&file);
        let here = written
            .iter()
            .map(|packet| match packet.source.ip() == here {
                true => packet.source.port(),
                false => packet.destination.port(),
            });
        here.collect::<BTreeSet<u16>>()
    });
    let expected = [other, agent_address].map(|address| BTreeSet::from([address.port()]));
    assert_eq!(ports, expected);
}
