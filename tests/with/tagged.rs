//! Two hosts that record with tags.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, Process};

use crate::capture::{Capture, Packet};
use crate::recording::record;
use crate::{end, number, sockstamp};

pub const MESSAGES: usize = 200;

const BYTES: usize = 700;

/// One message in about three.
const IN_STEP: [&str; 2] = ["--sample", "2^11"];

/// Two hosts and the link between them.
pub struct Hosts {
    family: Family,
    pub hosts: [Host; 2],
    pub link: Link,
    directory: TempDir,
}

impl Hosts {
    pub fn new() -> Self {
        Self::over(Family::V4)
    }

    pub fn over(family: Family) -> Self {
        let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
        let link = Link::relay(&hosts[0], &hosts[1], LinkConfig::default()).unwrap();
        let directory = tempdir().unwrap();
        Self {
            family,
            hosts,
            link,
            directory,
        }
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.link.address_b(self.family), 7000)
    }

    pub fn path(&self, host: usize) -> PathBuf {
        self.directory.path().join(["first", "second"][host])
    }

    pub fn record(&self, host: usize, options: &[&str]) -> Process {
        // An earlier one was joined.
        let _ = fs::remove_file(self.path(host));
        let options = [&IN_STEP, options].concat();
        record(&self.path(host), &self.hosts[host], &options)
    }

    pub fn capture(&self) -> [Capture; 2] {
        let interfaces = [self.link.interface_a(), self.link.interface_b()];
        [0, 1].map(|host| Capture::start(&self.hosts[host], interfaces[host], "tcp"))
    }

    pub fn connect(&self) -> [TcpStream; 2] {
        let listener = self.hosts[1].tcp_listen(self.address()).unwrap();
        let client = self.hosts[0].tcp_connect(self.address()).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        [client, server]
    }

    pub fn join(&self, options: &[&str]) -> Value {
        let mut command = Command::new(sockstamp());
        command.args(["join", "--format", "json"]).args(options);
        let output = command.args([self.path(0), self.path(1)]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Ask and answer, one after the other.
pub fn exchange(ends: &mut [TcpStream; 2], messages: usize) {
    for _ in 0..messages {
        for (from, to) in [(0, 1), (1, 0)] {
            ends[from].write_all(&[7; BYTES]).unwrap();
            ends[to].read_exact(&mut [0; BYTES]).unwrap();
        }
    }
}

/// End a recording. Return what it said.
pub fn stop(process: Process) -> String {
    let said = end(process).stderr();
    println!("{said}");
    said
}

/// End a recording. Return its figures of tags by name.
pub fn figures_of(process: Process) -> impl Fn(&str) -> u64 {
    let said = stop(process);
    move |name: &str| {
        let line = said.lines().find_map(|line| line.split_once("tags: "));
        let figures = line.map_or("", |(_, figures)| figures).split(", ");
        let figure = figures
            .filter_map(|figure| figure.strip_prefix(name))
            .next();
        figure.expect(name).trim().parse().unwrap()
    }
}

pub fn joined_messages(joined: &Value) -> [u64; 2] {
    [0, 1].map(|direction| number(&joined["directions"][direction]["total"]["count"]))
}

pub fn tagged(packets: &[Packet]) -> Vec<&Packet> {
    let is_tagged = |packet: &&Packet| packet.tcp.is_some_and(|segment| segment.tag.is_some());
    packets.iter().filter(is_tagged).collect()
}
