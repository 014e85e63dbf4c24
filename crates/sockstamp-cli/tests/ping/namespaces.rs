//! Probes from within other network namespaces.

use std::process::Command;

use nix::sys::signal::Signal;
use testbed::{Cgroup, Family, Host, Link, PATIENCE, Process};
use with::{sockstamp, wait_until};

use crate::run::{json, text};

/// Ping from our own namespace, where the address is unused.
fn ping(arguments: &[&str]) -> Command {
    let mut command = Command::new(sockstamp());
    command.arg("ping").args(arguments);
    command
}

#[test]
fn namespaces_are_given_by_name_process_or_container() {
    let (prober, target) = (Host::new("prober").unwrap(), Host::new("target").unwrap());
    let link = Link::veth(&prober, &target).unwrap();
    let address = link.address_b(Family::V4).to_string();
    let top = Cgroup::new("containers").unwrap();
    let id = format!(
        "{:032x}{:032x}",
        std::process::id(),
        link.address_b(Family::V4).is_ipv4() as u8
    );
    let cgroup = top
        .below(&format!("system.slice/docker-{id}.scope"))
        .unwrap();
    let mut command = prober.command("sleep");
    command.arg("60");
    cgroup.start_in(&mut command).unwrap();
    let process = Process::spawn(command).unwrap();
    let pid = process.id().to_string();
    for place in [
        ["--netns", prober.netns_name()],
        ["--netns", &pid],
        ["--container", &id],
    ] {
        let run = json(ping(&[
            "-c", "2", "-i", "10ms", place[0], place[1], &address,
        ]));
        assert_eq!(
            (run.status, run.count("answered")),
            (0, 2),
            "{place:?}: {}",
            run.summary
        );
        assert_eq!(run.all("netns"), [place[1], place[1]]);
    }
}

/// One process, several namespaces: each probes its own neighbour with the same address.
#[test]
fn probes_come_from_several_namespaces_at_once() {
    let hosts = ["first", "second"].map(|name| Host::new(name).unwrap());
    let places = hosts.each_ref().map(Host::netns_name).join(",");
    let run = json(ping(&[
        "-c",
        "3",
        "-i",
        "10ms",
        "--netns",
        &places,
        "127.0.0.1",
        "::1",
    ]));
    assert_eq!(
        (run.status, run.count("answered"), run.probes.len()),
        (0, 12, 12)
    );
    let targets = run.summary["targets"].as_array().unwrap();
    for target in targets {
        assert_eq!(target["counts"]["answered"], 3, "{target}");
    }
    assert_eq!(targets.len(), 4);
    let text = text(ping(&[
        "-q",
        "-c",
        "1",
        "--netns",
        hosts[0].netns_name(),
        "127.0.0.1",
    ]));
    let label = format!(
        "PING 127.0.0.1 (127.0.0.1) from {}: 56(84) ",
        hosts[0].netns_name()
    );
    assert!(text.stdout.contains(&label), "{}", text.stdout);
}

/// A flood has two threads, and a host one complaint.
#[test]
fn a_flood_whose_namespace_disappears_complains_once() {
    let goes = Host::new("goes").unwrap();
    let flood = ["-f", "--netns", goes.netns_name(), "127.0.0.1"];
    let mut process = Process::spawn(ping(&flood)).unwrap();
    // An answer takes its dot back.
    process.wait_for_stdout("\u{8} \u{8}", PATIENCE).unwrap();
    let gone = goes.netns_name().to_owned();
    drop(goes);
    assert_eq!(process.wait_status(PATIENCE).unwrap().code(), Some(2));
    assert_eq!(
        process.stderr(),
        format!("sockstamp: 127.0.0.1 from {gone}: its network namespace is gone\n")
    );
}

/// When a namespace is removed its targets end, and the others continue.
#[test]
fn a_namespace_that_disappears_ends_its_targets_alone() {
    let (stays, goes) = (Host::new("stays").unwrap(), Host::new("goes").unwrap());
    let places = [stays.netns_name(), goes.netns_name()].join(",");
    let mut process =
        Process::spawn(ping(&["-i", "50ms", "--netns", &places, "127.0.0.1"])).unwrap();
    let line = format!("from {}: icmp_seq=3 ", goes.netns_name());
    process.wait_for_stdout(&line, PATIENCE).unwrap();
    let gone = goes.netns_name().to_owned();
    drop(goes);
    process.wait_for_stderr("\n", PATIENCE).unwrap();
    let of_other = format!("from {}: icmp_seq=", stays.netns_name());
    let answers = |process: &Process| process.stdout().matches(&of_other).count();
    let before = answers(&process);
    wait_until("the other one goes on", || answers(&process) > before + 5);
    process.signal(Signal::SIGINT).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    let (stdout, stderr) = (process.stdout(), process.stderr());
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert_eq!(
        stderr,
        format!("sockstamp: 127.0.0.1 from {gone}: its network namespace is gone\n")
    );
    assert!(stdout.contains(" 2 targets: "), "{stdout}");
}
