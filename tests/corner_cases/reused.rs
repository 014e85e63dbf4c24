//! Names and numbers that are used again: each message has those that were true when it left.

use std::fs;
use std::io::{Read, Write};
use std::iter;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{Family, Host, Link};
use with::traced_hosts::{Connection, wait_acknowledged};
use with::{Stat, Trace, end, number, sockstamp, start};

const LOOPBACK: &str = "127.0.0.1:0";
/// So many namespaces, one after the other, until one has the number that another had.
const TRIES: usize = 100;
/// So many times the case begins anew where the kernel gave the number to somebody else on this
/// host, who keeps it.
const ROUNDS: usize = 10;
/// The kernel frees a namespace behind its last user (`cleanup_net()`).
const FREED: Duration = Duration::from_millis(20);

/// Send once and be answered once, on a connection of its own.
fn talk(host: &Host) -> SocketAddr {
    let listener = host.tcp_listen(LOOPBACK.parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut connection = Connection::to(host, &listener, address.ip());
    exchange(&mut connection);
    connection.client_address
}

fn exchange(connection: &mut Connection) {
    connection.client.write_all(&[0; 100]).unwrap();
    connection.server.read_exact(&mut [0; 100]).unwrap();
    wait_acknowledged(&connection.client);
}

/// Create namespaces until one has this number; none, if another program took it.
fn with_the_number(inode: u64) -> Option<Host> {
    let mut others = Vec::new();
    for _ in 0..TRIES {
        let host = Host::new("second").unwrap();
        if host.netns_inode() == inode {
            return Some(host);
        }
        others.push(host);
        thread::sleep(FREED);
    }
    None
}

/// Build a situation, anew while it could not be built.
fn built<T>(build: impl FnMut() -> Option<T>) -> T {
    iter::repeat_with(build)
        .take(ROUNDS)
        .flatten()
        .next()
        .expect("each number was taken by somebody else")
}

/// `ip link set NAME name OTHER`: the table of interfaces has the first name.
#[test]
fn an_interface_has_the_name_that_it_had_when_a_message_left() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let listener = b
        .tcp_listen(SocketAddr::new(link.address_b(Family::V4), 0))
        .unwrap();
    let trace = Trace::start(&["--netns", a.netns_name(), "tcp"]);
    let ask = || {
        let mut connection = Connection::to(&a, &listener, link.address_b(Family::V4));
        exchange(&mut connection);
        connection.client_address.to_string()
    };
    let before = (ask(), link.interface_a().to_owned());
    let renamed = "renamed0";
    let ip = |words: &[&str]| a.run("ip", words).unwrap();
    ip(&["link", "set", link.interface_a(), "down"]);
    ip(&["link", "set", link.interface_a(), "name", renamed]);
    ip(&["link", "set", renamed, "up"]);
    let after = (ask(), renamed.to_owned());
    let messages = trace.finish();
    for (local, name) in [before, after] {
        let sent = messages
            .iter()
            .find(|message| message["local"] == local.as_str() && message["direction"] == "tx");
        let sent = sent.unwrap_or_else(|| panic!("none of {local}: {messages:?}"));
        for end in ["first", "last"] {
            assert_eq!(sent["interfaces"][end]["name"], name.as_str(), "{sent}");
        }
    }
}

/// Groups of two namespaces: 3 messages of the first one, and one of another that has its number.
struct TwoNamespaces {
    inode: u64,
    names: [String; 2],
    report: Value,
}

impl TwoNamespaces {
    fn build() -> Option<TwoNamespaces> {
        let stat = Stat::start(&["--by", "netns", "tcp"]);
        // One that was there at the start would be held until the end.
        let first = Host::new("first").unwrap();
        let (inode, name) = (first.netns_inode(), first.netns_name().to_owned());
        for _ in 0..3 {
            talk(&first);
        }
        // Names are looked up once a second.
        thread::sleep(Duration::from_millis(2500));
        drop(first);
        let second = with_the_number(inode)?;
        talk(&second);
        Some(TwoNamespaces {
            inode,
            names: [name, second.netns_name().to_owned()],
            report: stat.finish(),
        })
    }
}

/// The second namespace has the first one's number, and is another group.
#[test]
fn groups_of_namespaces_with_one_number_are_two() {
    let TwoNamespaces {
        inode,
        names,
        report,
    } = built(TwoNamespaces::build);
    let groups = report["groups"].as_array().unwrap();
    for (name, messages) in names.iter().zip([3, 1]) {
        let key = json!({"inode": inode, "name": name});
        let group = groups.iter().find(|group| group["key"]["netns"] == key);
        let group = group.unwrap_or_else(|| panic!("no {key} in {groups:?}"));
        assert_eq!(number(&group["tx"]["messages"]), messages, "{group}");
    }
}

/// A recording of a namespace that has ended, and another that has its number.
struct Recorded {
    directory: TempDir,
    name: String,
    second: Host,
}

impl Recorded {
    const FILE: &str = "file.parquet";

    fn build() -> Option<Recorded> {
        let first = Host::new("first").unwrap();
        let (inode, name) = (first.netns_inode(), first.netns_name().to_owned());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(Self::FILE);
        let record = start(&[
            "record",
            "-o",
            file.to_str().unwrap(),
            "--netns",
            &name,
            "tcp",
        ]);
        talk(&first);
        end(record);
        drop(first);
        Some(Recorded {
            directory,
            name,
            second: with_the_number(inode)?,
        })
    }
}

/// `report` names namespaces as they were called where and when it was recorded: another one has
/// the number when it reads.
#[test]
fn a_recording_has_the_names_of_its_own_namespaces() {
    let recorded = built(Recorded::build);
    let text = report(&recorded.directory.path().join(Recorded::FILE));
    let name = &recorded.name;
    assert!(text.contains(name), "no {name} in {text}");
    assert!(!text.contains(recorded.second.netns_name()), "{text}");
}

fn report(file: &Path) -> String {
    let output = file.with_extension("txt");
    let status = Command::new(sockstamp())
        .arg("report")
        .arg(file)
        .arg("-o")
        .arg(&output)
        .status()
        .unwrap();
    assert!(status.success());
    fs::read_to_string(output).unwrap()
}
