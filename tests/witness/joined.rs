//! Datagrams that two hosts measured in step, against tcpdump on both: which were chosen, which
//! were joined, and how long they were on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sockstamp_model::stage::{Direction, Stage};
use tempfile::tempdir;
use testbed::{Family, Host, Link, LinkConfig, Stolen, within_attempts};
use with::capture::{Capture, Packet};
use with::end;
use with::recording::{messages, record_in_step};

/// One datagram per about this many bytes.
const BITS: u32 = 10;
const DATAGRAMS: u64 = 400;
/// Largest difference of most times from their witness, and of any time, besides the clocks'
/// uncertainty.
const SLACK_NS: u64 = 200_000;
const LONGEST_SLACK_NS: u64 = 1_000_000;
/// A datagram that has not come after this time is lost.
const LATE: Duration = Duration::from_secs(1);

/// The number of a datagram by its definition (`udp/in_step.bpf.h`).
fn number(payload: &[u8], length: u32) -> u32 {
    let mut head = [0; 32];
    let shown = payload.len().min(head.len());
    head[..shown].copy_from_slice(&payload[..shown]);
    let mut hash = length + 8;
    for word in head.chunks_exact(4) {
        hash = (hash ^ u32::from_be_bytes(word.try_into().unwrap())).wrapping_mul(0x9e37_79b1);
        hash ^= hash >> 15;
    }
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)).max(1)
}

/// The time when each datagram that must be chosen passed, by sender's port and number.
fn chosen(packets: &[Packet]) -> BTreeMap<(u16, u32), u64> {
    let named = packets.iter().map(|packet| {
        let number = number(&packet.payload, packet.length);
        ((packet.source.port(), number), packet)
    });
    named
        .filter(|((_, number), packet)| number & ((1 << BITS) - 1) < packet.length)
        .map(|(name, packet)| (name, packet.time))
        .collect()
}

/// Datagrams of any length and content, each with an answer.
fn exchange(client: &UdpSocket, server: &UdpSocket, address: SocketAddr) {
    let patience = Some(Duration::from_millis(50));
    client.set_read_timeout(patience).unwrap();
    server.set_read_timeout(patience).unwrap();
    let mut random = fastrand::Rng::with_seed(23);
    let mut payload = [0; 1200];
    let mut room = [0; 2048];
    for _ in 0..DATAGRAMS {
        random.fill(&mut payload);
        let sent = &payload[..random.usize(1..payload.len())];
        client.send_to(sent, address).unwrap();
        // The link loses some.
        if answer(server, &mut room) {
            let _ = client.recv(&mut [0; 2048]);
        }
    }
    // A busy machine brings some later.
    for socket in [client, server] {
        socket.set_read_timeout(Some(LATE)).unwrap();
    }
    while answer(server, &mut room) {}
    while client.recv(&mut [0; 2048]).is_ok() {}
}

/// Answer a datagram, if one comes.
fn answer(server: &UdpSocket, room: &mut [u8]) -> bool {
    let Ok((length, from)) = server.recv_from(room) else {
        return false;
    };
    let answer = &mut room[..length / 2 + 1];
    answer.reverse();
    server.send_to(answer, from).unwrap();
    true
}

#[test]
fn datagrams_in_step_are_chosen_and_joined_as_on_the_wire() {
    within_attempts(attempt);
}

fn attempt() -> Result<(), String> {
    let stolen = Stolen::begin();
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let config = LinkConfig::default().loss(0.03).seed(5);
    let link = Link::relay(&hosts[0], &hosts[1], config).unwrap();
    let directory = tempdir().unwrap();
    let paths: [PathBuf; 2] = ["first", "second"].map(|name| directory.path().join(name));
    let address = SocketAddr::new(link.address_b(Family::V4), 7001);
    // The server is bound to no address: its messages have a port alone.
    let any = SocketAddr::new([0, 0, 0, 0].into(), address.port());
    let server = hosts[1].udp_bind(any).unwrap();
    let here = SocketAddr::new(link.address_a(Family::V4), 0);
    let client = hosts[0].udp_bind(here).unwrap();
    client.connect(address).unwrap();
    let recorders = [0, 1].map(|host| record_in_step(&paths[host], &hosts[host], BITS));
    let interfaces = [link.interface_a(), link.interface_b()];
    let captures = [0, 1].map(|host| Capture::start(&hosts[host], interfaces[host], "udp"));
    exchange(&client, &server, address);
    let packets = captures.map(Capture::finish);
    recorders
        .into_iter()
        .for_each(|recorder| drop(end(recorder)));
    let wire = [0, 1].map(|host| chosen(&packets[host]));
    let ports = [client.local_addr().unwrap().port(), address.port()];
    both_chose_the_same(&paths, &wire, ports);
    joined_as_on_the_wire(&paths, &wire, directory.path(), &stolen)
}

/// Each end measured exactly the datagrams that must be chosen, among those that passed it.
fn both_chose_the_same(
    paths: &[PathBuf; 2],
    wire: &[BTreeMap<(u16, u32), u64>; 2],
    ports: [u16; 2],
) {
    for host in [0, 1] {
        let rows = messages(&paths[host]);
        for direction in Direction::ALL {
            let from = match direction {
                Direction::Tx => ports[host],
                Direction::Rx => ports[1 - host],
            };
            let of_direction = rows.iter().filter(|row| row.direction == direction);
            let measured: BTreeSet<u32> = of_direction.map(|row| row.seq_end).collect();
            let of_port = wire[host].keys().filter(|(port, _)| *port == from);
            let expected: BTreeSet<u32> = of_port.map(|(_, number)| *number).collect();
            println!("host {host} {direction}: {} chosen", expected.len());
            assert!(expected.len() > 50, "{expected:?}");
            assert_eq!(measured, expected, "host {host} {direction}");
        }
    }
}

/// Each datagram that was chosen and came has a life, unless an end of it was refused.
fn joined_as_on_the_wire(
    paths: &[PathBuf; 2],
    wire: &[BTreeMap<(u16, u32), u64>; 2],
    directory: &Path,
    stolen: &Stolen,
) -> Result<(), String> {
    let output = directory.join("lives");
    let mut command = Command::new(with::sockstamp());
    command
        .args(["join", "--format", "json", "-o"])
        .arg(&output);
    let told = command.args(paths).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let reasons = &told["not_joined"];
    println!("not joined: {reasons}");
    let both = wire[0]
        .keys()
        .filter(|name| wire[1].contains_key(name))
        .count() as u64;
    let joined = usize::try_from(both).unwrap();
    let lost = wire[0].len().abs_diff(joined) + wire[1].len().abs_diff(joined);
    let of = |reason: &str| with::number(&reasons[reason]);
    assert!(lost > 0, "a perfect link");
    assert_eq!(of("not-read"), lost as u64, "{told}");
    assert_eq!(
        (of("udp"), of("ambiguous"), of("not-sent")),
        (0, 0, 0),
        "{told}"
    );
    let lives = messages(&output);
    let refused = of("refused") + of("no-clock") + of("contradiction");
    assert_eq!(lives.len() as u64 + refused, both, "{told}");
    assert!(refused * 20 < both, "{told}");
    let mut off = 0;
    for life in &lives {
        let name = (life.flow.local.port(), life.seq_end);
        let [sent, came] = [
            &wire[usize::from(name.0 == 7001)],
            &wire[usize::from(name.0 != 7001)],
        ];
        let witness = came[&name].checked_sub(sent[&name]).unwrap();
        let forward = life.stages[Stage::NetForward].unwrap().0;
        let beyond = forward
            .abs_diff(witness)
            .saturating_sub(life.clock_error.unwrap().0);
        if beyond > LONGEST_SLACK_NS {
            let told = format!("{forward} ns, not {witness}: {life:?}");
            // Unless the hypervisor stopped the machine between a stamp and its witness.
            assert!(stolen.much().is_some(), "{told}");
            return Err(told);
        }
        off += u64::from(beyond > SLACK_NS);
        assert_eq!(life.stages[Stage::NetBack], None);
        assert!(!life.flow.local.ip().is_unspecified() && !life.flow.remote.ip().is_unspecified());
    }
    println!("{} lives, of which {off} are off", lives.len());
    match off * 20 <= lives.len() as u64 {
        true => Ok(()),
        false => Err(format!(
            "{off} of {} lives differ from the wire",
            lives.len()
        )),
    }
}
