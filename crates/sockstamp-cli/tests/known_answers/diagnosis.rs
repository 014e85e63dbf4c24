//! The last line of plain `stat`: which fault it names, and that it names none where there is none.

use std::fs;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::NamedTempFile;
use testbed::{Cgroup, Family, Host, LinkConfig, Process, within_attempts};

use crate::common::{hooks, peer, sockstamp, wait_attached};
use crate::support::Pair;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Return the last sentence of `stat -- client`.
fn last_line(pair: &Pair, words: &str) -> String {
    let (address, peer) = (pair.address.to_string(), peer());
    let words: Vec<_> = words.split_whitespace().collect();
    last_line_on(
        &pair.client,
        &[&[&peer[..]], &words[..], &["--connect", &address]].concat(),
    )
}

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
    stat.wait(TIMEOUT).unwrap();
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
    text[start..].split_whitespace().collect::<Vec<_>>().join(" ")
}

fn says(pair: &Pair, words: &str, expected: &str) -> Result<(), String> {
    tells(last_line(pair, words), expected)
}

/// Check what a diagnosis says.
pub(crate) fn tells(line: String, expected: &str) -> Result<(), String> {
    if line.starts_with("diagnosis: ") && line.contains(expected) {
        Ok(())
    } else {
        Err(line)
    }
}

/// Check that there is no diagnosis: the line before it is the last one.
pub(crate) fn is_silent(line: String) -> Result<(), String> {
    match line.starts_with("lost: ") {
        true => Ok(()),
        false => Err(line),
    }
}

#[test]
fn a_peer_that_thinks_is_named_by_the_last_line_of_stat() {
    let link = LinkConfig::default().delay(Duration::from_millis(5));
    let pair = Pair::relay(link, Family::V4);
    let _serve = pair.serve(&["serve", "--think", "60"]);
    within_attempts(|| {
        says(
            &pair,
            "client --count 10",
            "ms to answer, of which the path is 10",
        )
    });
}

#[test]
fn nagles_algorithm_is_named_by_the_last_line_of_stat() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve", "--request", "128"]);
    let words = "client --count 20 --request 128 --pieces 2 --nodelay false";
    within_attempts(|| says(&pair, words, "Nagle's algorithm"));
}

#[test]
fn a_cpu_quota_is_named_by_the_last_line_of_stat() {
    let pair = Pair::veth(Family::V4);
    let mut quota = Cgroup::new("quota").unwrap();
    quota
        .set_cpu_quota(Duration::from_millis(10), Duration::from_millis(50))
        .unwrap();
    let mut server = pair.server.command("taskset");
    let port = pair.address.port().to_string();
    server.args(["--cpu-list", "0", &peer()]);
    server.args(["serve", "--port", &port, "--compute", "5"]);
    quota.start_in(&mut server).unwrap();
    let _serve = Process::spawn(server).unwrap();
    pair.server.wait_for_port(pair.address, TIMEOUT).unwrap();
    let processes = quota.processes().iter().map(u32::to_string).collect::<Vec<_>>();
    let name = quota.path().file_name().unwrap().to_str().unwrap().to_owned();
    let expected = format!("the CPU quota of /{name} was used up in ");
    within_attempts(|| {
        let line = last_line_while(&["-p", &processes[0]], || {
            pair.run_peer("client --count 40");
        });
        tells(line, &expected)
    });
}

#[test]
fn no_fault_is_named_where_requests_are_answered_at_once() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve"]);
    within_attempts(|| is_silent(last_line(&pair, "client --count 500")));
}
