//! `sockstamp pcap`, and its packets as tcpdump and Wireshark have them.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread;

use tempfile::{NamedTempFile, TempPath};
use testbed::{Family, Host, Link, Process};

use crate::capture::{Fragment, Packet, Segment, packets};
use crate::guarded::Excuses;
use crate::{end, is_lowered, sockstamp, wait_until};

/// `sockstamp pcap` in the background.
pub struct Pcap {
    process: Process,
    file: TempPath,
}

impl Pcap {
    /// Start it and return when it writes packets.
    pub fn start(options: &[&str]) -> Self {
        let file = NamedTempFile::new().unwrap().into_temp_path();
        let mut command = Command::new(sockstamp());
        command
            .args(["pcap", "--buffer", "64", "-w"])
            .arg(&file)
            .args(options);
        let mut process = Process::spawn(command).unwrap();
        wait_until("it writes packets", || {
            assert!(process.is_running().unwrap(), "{}", process.stderr());
            is_lowered(process.id())
        });
        Self { process, file }
    }

    /// End it. Return its file, and what it said.
    pub fn finish(self) -> (TempPath, String) {
        (self.file, end(self.process).stderr())
    }
}

/// The fields that distinguish a packet from others.
type Key = (
    u8,
    SocketAddr,
    SocketAddr,
    u32,
    u32,
    Option<Fragment>,
    Option<Segment>,
);

fn key(packet: &Packet) -> Key {
    (
        packet.protocol,
        packet.source,
        packet.destination,
        packet.length,
        packet.id,
        packet.fragment,
        packet.tcp,
    )
}

/// Read a pcapng file by the parser of captures.
pub fn read(file: &Path) -> Vec<Packet> {
    let plain = NamedTempFile::new().unwrap();
    let mut editcap = Command::new("editcap");
    editcap.args(["-F", "nsecpcap"]).arg(file).arg(plain.path());
    let output = editcap.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    packets(&fs::read(plain.path()).unwrap())
}

/// Each packet of `seen` is in `ours`, in the same order for each direction, and at the same time,
/// and there is none else. Missing are those alone that no program can have seen.
pub fn compare(seen: &[Packet], ours: &[Packet], mut excuses: Excuses) -> Result<(), String> {
    let mut indices: HashMap<Key, VecDeque<usize>> = HashMap::new();
    for (index, packet) in ours.iter().enumerate() {
        indices.entry(key(packet)).or_default().push_back(index);
    }
    let mut last: HashMap<SocketAddr, usize> = HashMap::new();
    let mut distances = Vec::new();
    let mut missing = 0;
    for packet in seen {
        let index = indices.get_mut(&key(packet)).and_then(VecDeque::pop_front);
        let Some(index) = index else {
            assert!(
                excuses.take(packet.time),
                "missing: {packet:?}, of {}",
                ours.len()
            );
            missing += 1;
            continue;
        };
        let before = last.insert(packet.source, index);
        assert!(before < Some(index), "out of order: {packet:?}");
        distances.push(packet.time.abs_diff(ours[index].time));
    }
    assert_eq!(ours.len() + missing, seen.len(), "as many packets");
    distances.sort_unstable();
    let median = distances[distances.len() / 2];
    match median < 100_000 {
        true => Ok(()),
        false => Err(format!("{median} ns between the times of a packet")),
    }
}

pub fn send(link: &Link, hosts: [&Host; 2], family: Family, sizes: &[usize]) {
    send_to(link.address_b(family), hosts, sizes);
}

pub fn send_to(address: IpAddr, hosts: [&Host; 2], sizes: &[usize]) {
    let listener = hosts[1].tcp_listen(SocketAddr::new(address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut server, _) = listener.accept().unwrap();
            for size in sizes {
                server.read_exact(&mut vec![0; *size]).unwrap();
                server.write_all(b"done").unwrap();
            }
            server.read_to_end(&mut Vec::new()).unwrap();
        });
        let mut client = hosts[0].tcp_connect(address).unwrap();
        for size in sizes {
            client.write_all(&vec![7; *size]).unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
        }
    });
}

/// Fields of each packet, as Wireshark reads them.
pub fn fields<const N: usize>(file: &Path, names: [&str; N]) -> Vec<[String; N]> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file).args(["-T", "fields"]);
    names.iter().for_each(|name| {
        tshark.args(["-e", name]);
    });
    let output = tshark.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| {
        let mut columns = line.split('\t').map(str::to_owned);
        std::array::from_fn(|_| columns.next().unwrap_or_default())
    };
    text.lines().map(row).collect()
}
