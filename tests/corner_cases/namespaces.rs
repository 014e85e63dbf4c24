//! sockstamp in a PID namespace and in a time namespace, where numbers of processes and clocks
//! differ from the kernel's.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::{NamedTempFile, TempDir};
use testbed::{Host, Process};
use with::traced_hosts::Connection;
use with::{end, messages, number, sockstamp, wait_attached};

/// The process with that number here would be another one there.
#[test]
fn a_process_is_not_taken_for_another_one_of_the_host() {
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(sockstamp())
        .args(["stat", "-p", "1", "--duration", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("PID namespace"), "{text}");
}

fn realtime() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

#[test]
fn the_clock_of_a_time_namespace_is_not_the_kernels() {
    let host = Host::new("times").unwrap();
    let output = NamedTempFile::new().unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--time", "--monotonic", "86400"])
        .arg(sockstamp())
        .args(["trace", "--every", "--max-cost=none", "--format", "json"])
        .args(["--netns", host.netns_name(), "-o"])
        .arg(output.path());
    let mut trace = Process::spawn(command).unwrap();
    wait_attached(&mut trace);
    let begin = realtime();
    let mut connection = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    connection.client.write_all(&[0; 100]).unwrap();
    connection.server.read_exact(&mut [0; 100]).unwrap();
    let finish = realtime();
    drop(connection);
    end(trace);
    let messages = messages(output.path());
    let read = messages.iter().find(|message| message["direction"] == "rx");
    let read = read.unwrap_or_else(|| panic!("{messages:?}"));
    assert_eq!(read["verdict"], "valid", "{read}");
    let time = number(&read["time_ns"]);
    assert!((begin..=finish).contains(&time), "{begin} {finish} {read}");
}

/// Waits are found in the kernel's clock, and written by the time of the day.
#[test]
fn recorded_waits_of_a_time_namespace_are_of_this_day() {
    let host = Host::new("times").unwrap();
    let directory = TempDir::new().unwrap();
    let mut connection = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    connection.client.write_all(&[0; 100]).unwrap();
    let begin = realtime();
    let status = Command::new("unshare")
        .args(["--time", "--monotonic", "864000"])
        .arg(sockstamp())
        .args(["record", "--max-cost=none", "--duration", "1"])
        .args(["--netns", host.netns_name(), "-o"])
        .arg(directory.path().join("recorded/"))
        .status()
        .unwrap();
    let finish = realtime();
    assert!(status.success(), "{status}");
    drop(connection);
    let waits = Command::new(sockstamp())
        .args(["stuck", "--slow", "1ms", "--format", "json", "-r"])
        .arg(directory.path().join("recorded"))
        .output()
        .unwrap();
    let waits: serde_json::Value = serde_json::from_slice(&waits.stdout).unwrap();
    let rows = waits["waits"].as_array().unwrap();
    let times: Vec<_> = rows.iter().map(|row| number(&row["time_ns"])).collect();
    assert!(!times.is_empty(), "{waits}");
    let is_of_the_recording = |time: &u64| (begin..=finish).contains(time);
    assert!(
        times.iter().all(is_of_the_recording),
        "{begin} {finish} {waits}"
    );
}
