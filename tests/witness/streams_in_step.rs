//! Messages of streams that two hosts choose in step, against what the programs at both ends sent
//! and read: packets are cut and put together, lost and sent again, sequence numbers wrap, and the
//! hosts begin to measure in mid-stream.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;
use tempfile::tempdir;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, Process};
use with::recording::{messages, record_in_step};

/// A message holds a number that is a multiple of this power of two.
const BITS: u32 = 16;
/// The first sequence numbers of both directions: they wrap within the second half.
const BEGIN: [u32; 2] = [u32::MAX - 2_000_000, u32::MAX - 3_500_123];
const PORTS: [u16; 2] = [7001, 7002];

/// The lengths of messages, as a program saw them.
#[derive(Deserialize)]
struct Half {
    sent: Vec<u32>,
    read: Vec<u32>,
}

/// A message: the number after its last byte, and its length.
type Name = (u32, u64);

/// Return the messages of the second half that must be chosen. It is unknown where the first one
/// began.
fn expected(begin: u32, halves: [&[u32]; 2]) -> BTreeSet<Name> {
    let before: u32 = halves[0].iter().sum();
    let mut end = begin.wrapping_add(before);
    let named = halves[1].iter().map(|&length| {
        let first = end;
        end = end.wrapping_add(length);
        (first, (end, u64::from(length)))
    });
    let is_chosen = |first: u32, bytes: u64| {
        let step = 1_u64 << BITS;
        let to_multiple = u64::from(first).next_multiple_of(step) - u64::from(first);
        to_multiple < bytes
    };
    let later = named
        .skip(1)
        .filter(|&(first, (_, bytes))| is_chosen(first, bytes));
    later.map(|(_, name)| name).collect()
}

fn measured(rows: &[Message], direction: Direction) -> BTreeSet<Name> {
    let rows = rows.iter().filter(|row| row.direction == direction);
    rows.map(|row| (row.seq_end, row.bytes)).collect()
}

fn peer(host: &Host, link: &Link, end: usize, folder: &Path) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("witness/streams_in_step.py");
    let addresses = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let mut command = host.command("python3");
    command.arg(script);
    for end in [end, 1 - end] {
        command
            .arg(addresses[end].to_string())
            .arg(PORTS[end].to_string());
    }
    for end in [end, 1 - end] {
        command.arg(BEGIN[end].to_string());
    }
    command.arg(end.to_string()).arg(folder);
    let mut process = Process::spawn(command).unwrap();
    process.wait_for_stdout("connected", PATIENCE).unwrap();
    process
}

fn both_ends_choose_as_the_programs_saw(hosts: &[Host; 2], link: &Link) {
    let directory = tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut peers = [0, 1].map(|end| peer(&hosts[end], link, end, directory.path()));
    fs::write(file("begin"), "").unwrap();
    for peer in &mut peers {
        peer.wait_for_stdout("half", PATIENCE).unwrap();
    }
    let paths: [PathBuf; 2] = ["first", "second"].map(file);
    let recorders = [0, 1].map(|end| record_in_step(&paths[end], &hosts[end], BITS));
    fs::write(file("go_on"), "").unwrap();
    let halves = peers.map(|peer| {
        let said = peer.wait(PATIENCE).unwrap();
        let halves: [Half; 2] = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        halves
    });
    recorders
        .into_iter()
        .for_each(|recorder| drop(with::end(recorder)));
    let rows = paths.map(|path| messages(&path));
    for end in [0, 1] {
        let sent = expected(BEGIN[end], [&halves[end][0].sent, &halves[end][1].sent]);
        let reader = &halves[1 - end];
        let read = expected(BEGIN[end], [&reader[0].read, &reader[1].read]);
        let of_both = [
            (sent, measured(&rows[end], Direction::Tx)),
            (read, measured(&rows[1 - end], Direction::Rx)),
        ];
        for (expected, measured) in of_both {
            println!("from {end}: {} chosen", expected.len());
            assert!(expected.len() > 30, "{expected:?}");
            let missing: Vec<_> = expected.difference(&measured).collect();
            let others: Vec<_> = measured.difference(&expected).collect();
            assert!(
                missing.is_empty(),
                "from {end}: {missing:?}, but {others:?}"
            );
            // The first one after the start.
            assert!(others.len() <= 1, "from {end}: {others:?}");
        }
    }
}

#[test]
fn streams_in_step_are_chosen_alike_when_packets_are_cut_and_put_together() {
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    both_ends_choose_as_the_programs_saw(&hosts, &link);
}

#[test]
fn streams_in_step_are_chosen_alike_when_packets_are_lost_and_sent_again() {
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    // Some forty of 4000 segments; of packets as large as the sender makes them, it may be one.
    let config = LinkConfig::default().loss(0.01).seed(7).offload(false);
    let link = Link::relay(&hosts[0], &hosts[1], config).unwrap();
    both_ends_choose_as_the_programs_saw(&hosts, &link);
    let counted = hosts[0].run("nstat", &["-az", "TcpRetransSegs"]).unwrap();
    let line = counted
        .lines()
        .find(|line| line.starts_with("TcpRetransSegs"))
        .unwrap();
    let again: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(again > 10, "{counted}");
}
