//! The last line of plain `stat`: which fault it names, and that it names none where there is none.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::NamedTempFile;
use testbed::{Cgroup, Family, Host, LinkConfig, PATIENCE, Process, within_attempts};
use with::{hooks, sockstamp, wait_attached};

use crate::programs::{Redis, halves, run, slow_web, start_chat, start_slow_web};
use crate::support::Pair;

/// Return the last sentence of `stat -- command` on a host.
pub(crate) fn last_line_on(host: &Host, command: &[&str]) -> String {
    let output = NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let hooks = hooks();
    let mut arguments = vec!["stat", "--max-cost=none", "-o", path];
    arguments.extend(hooks.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(command);
    host.run(sockstamp(), &arguments).unwrap();
    last_line_of(path)
}

/// Return the last sentence of `stat` with a target while `load` runs.
pub(crate) fn last_line_while(target: &[&str], load: impl FnOnce()) -> String {
    let output = NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let mut command = Command::new(sockstamp());
    command
        .args(["stat", "--max-cost=none", "-o", path])
        .args(hooks())
        .args(target);
    let mut stat = Process::spawn(command).unwrap();
    wait_attached(&mut stat);
    load();
    stat.signal(Signal::SIGINT).unwrap();
    stat.wait(PATIENCE).unwrap();
    last_line_of(path)
}

fn last_line_of(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap();
    println!("{text}");
    let text = text.trim_end();
    // A sentence may take several lines.
    let start = text
        .rfind("\n diagnosis:")
        .or_else(|| text.rfind('\n'))
        .unwrap_or(0);
    text[start..]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Check a diagnosis.
pub(crate) fn tells(line: String, expected: &str) -> Result<(), String> {
    if line.starts_with("diagnosis: ") && line.contains(expected) {
        Ok(())
    } else {
        Err(line)
    }
}

/// Check that there is no diagnosis: the line before it is the last one.
pub(crate) fn silent(line: String) -> Result<(), String> {
    match line.starts_with("lost: ") {
        true => Ok(()),
        false => Err(line),
    }
}

pub(crate) fn assert_silent(line: &str) {
    silent(line.to_owned()).unwrap();
}

#[test]
fn a_peer_that_thinks_is_named_by_the_last_line_of_stat() {
    let link = LinkConfig::default().delay(Duration::from_millis(5));
    let pair = Pair::relay(link, Family::V4);
    let _web = start_slow_web(&pair.server, pair.address, ["0.06", "0"]);
    let url = format!("http://{}/?[1-10]", pair.address);
    within_attempts(|| {
        tells(
            last_line_on(&pair.client, &["curl", "-s", &url]),
            "ms to answer on average, of which the path is at least 10",
        )
    });
}

#[test]
fn nagles_algorithm_is_named_by_the_last_line_of_stat() {
    let pair = Pair::veth(Family::V4);
    let _chat = start_chat(&pair.server, pair.address);
    let client = halves(pair.address, "0", false);
    let client: Vec<_> = client.iter().map(String::as_str).collect();
    within_attempts(|| tells(last_line_on(&pair.client, &client), "Nagle's algorithm"));
}

#[test]
fn a_cpu_quota_is_named_by_the_last_line_of_stat() {
    let host = Host::new("quota").unwrap();
    let mut quota = Cgroup::new("quota").unwrap();
    quota
        .set_cpu_quota(Duration::from_millis(5), Duration::from_millis(50))
        .unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8081));
    let mut server = slow_web(
        &host,
        &["taskset", "--cpu-list", "0"],
        address,
        ["0", "0.01"],
    );
    quota.start_in(&mut server).unwrap();
    let server = Process::spawn(server).unwrap();
    host.wait_for_port(address, PATIENCE)
        .unwrap_or_else(|error| panic!("{error}: {}", server.stderr()));
    let processes = quota
        .processes()
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>();
    let name = quota
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let expected = format!("the CPU quota of /{name} was used up in ");
    within_attempts(|| {
        let line = last_line_while(&["-p", &processes[0]], || {
            run(&host, "curl -s http://127.0.0.1:8081/?[1-20]");
        });
        tells(line, &expected)
    });
}

#[test]
fn no_fault_is_named_where_requests_are_answered_at_once() {
    let pair = Pair::veth(Family::V4);
    let redis = Redis::start(&pair.server, pair.address.ip(), &[]);
    let client = redis.client("-r 500 ping");
    let client: Vec<_> = client.split(' ').collect();
    assert_silent(&last_line_on(&pair.client, &client));
}
