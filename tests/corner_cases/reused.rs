//! Names and numbers that are used again: each message has those that were true when it left.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::json;
use testbed::{Family, Host, Link};
use with::traced_hosts::{Connection, wait_acknowledged};
use with::{Stat, Trace, end, number, sockstamp, start};

const LOOPBACK: &str = "127.0.0.1:0";
/// So many namespaces, one after the other, until one has the number that another had.
const TRIES: usize = 60;
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

/// Create namespaces until one has this number, which nobody holds any more.
fn with_the_number(inode: u64) -> Host {
    let mut others = Vec::new();
    for _ in 0..TRIES {
        let host = Host::new("second").unwrap();
        if host.netns_inode() == inode {
            return host;
        }
        others.push(host);
        thread::sleep(FREED);
    }
    panic!("no namespace got the number {inode} again");
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

/// The second namespace has the first one's number, and is another group.
#[test]
fn groups_of_namespaces_with_one_number_are_two() {
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
    let second = with_the_number(inode);
    talk(&second);
    let report = stat.finish();
    let groups = report["groups"].as_array().unwrap();
    for (name, messages) in [(name.as_str(), 3), (second.netns_name(), 1)] {
        let key = json!({"inode": inode, "name": name});
        let group = groups.iter().find(|group| group["key"]["netns"] == key);
        let group = group.unwrap_or_else(|| panic!("no {key} in {groups:?}"));
        assert_eq!(number(&group["tx"]["messages"]), messages, "{group}");
    }
}

/// `report` names namespaces as they were called where and when it was recorded: another one has
/// the number when it reads.
#[test]
fn a_recording_has_the_names_of_its_own_namespaces() {
    let first = Host::new("first").unwrap();
    let (inode, name) = (first.netns_inode(), first.netns_name().to_owned());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file.parquet");
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
    let second = with_the_number(inode);
    let text = report(&file);
    assert!(text.contains(&name), "no {name} in {text}");
    assert!(!text.contains(second.netns_name()), "{text}");
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
