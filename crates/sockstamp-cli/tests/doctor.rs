//! `sockstamp doctor` on this host: as root, and without any privilege.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json as value};
use sockstamp_bpf::plan::{Method, Plan};
use sockstamp_bpf::{EntryHook, Options, Session, Target};
use with::leftovers::Leftovers;
use with::unprivileged::Unprivileged;

/// Some tenths of a second when nothing else runs.
const LONGEST: Duration = Duration::from_secs(10);

fn json(mut command: Command) -> Value {
    let output = command
        .args(["doctor", "--format", "json"])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The exit status tells scripts whether anything can be measured.
    assert_eq!(report["ready"], output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    report
}

/// A plan as doctor's JSON has it.
fn stages(plan: &Plan) -> Value {
    let stages = plan.methods();
    let methods = stages.map(|(stage, method)| {
        let shown = match method {
            Method::Absent(reason) => value!({ "absent": reason.to_string() }),
            method => value!({ "hooks": method.to_string() }),
        };
        (stage.name().to_owned(), shown)
    });
    Value::Object(methods.collect())
}

fn assert_succeeded(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

fn states(report: &Value, used: bool) -> Vec<(&str, &str)> {
    let hooks = report["hooks"].as_array().unwrap().iter();
    hooks
        .filter(|hook| hook["used"] == used)
        .map(|hook| {
            (
                hook["hook"].as_str().unwrap(),
                hook["state"].as_str().unwrap(),
            )
        })
        .collect()
}

/// Sends twenty datagrams on a connected socket, and as many with an address each.
const SENDS: &str = "
import socket
reader, connected, other = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
reader.bind(('127.0.0.1', 0))
connected.connect(reader.getsockname())
for _ in range(20):
    connected.send(b'.')
    other.sendto(b'.', reader.getsockname())
";

/// Without fentry the begin of sends on connected sockets is not seen: their program has counted
/// them.
#[test]
fn doctor_and_stat_tell_what_a_refused_hook_takes_away() {
    let output = Command::new(with::sockstamp()).arg("doctor").output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_refused = text.contains("fentry/udp_sendmsg refused");
    let loss = ": sends of connected UDP sockets have no tx.copy";
    assert_eq!(text.contains(loss), is_refused, "{text}");
    let mut command = Command::new(with::sockstamp());
    command.args([
        "stat",
        "--every",
        "--max-cost=none",
        "--",
        "python3",
        "-c",
        SENDS,
    ]);
    let output = command.output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let told = "begin not seen: 20 of 40 sends, of connected UDP sockets";
    assert_eq!(text.contains(told), is_refused, "{text}");
}

#[test]
fn doctor_as_root_tries_every_hook_and_passes_its_self_test() {
    let before = Leftovers::before();
    let start = Instant::now();
    let report = json(Command::new(with::sockstamp()));
    assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
    assert_eq!(report["version"], 1);
    assert_eq!(report["ready"], true);
    assert_eq!(report["missing_capabilities"], serde_json::json!([]));
    let others = states(&report, false);
    let traced = others.contains(&("fentry/tcp_sendmsg", "works"));
    for (hook, state) in states(&report, true) {
        // Without functions, tracepoints show UDP.
        let is_refused = !traced && hook.starts_with("fentry/udp");
        assert_eq!(
            state,
            if is_refused { "refused" } else { "works" },
            "{hook}"
        );
    }
    for (hook, state) in others {
        assert_ne!(state, "unknown", "{hook}");
    }
    assert_eq!(report["notifications"]["entries"]["state"], "works");
    assert!(report["plan"]["tx.network"]["hooks"].is_string());
    let test = &report["self_test"];
    assert_eq!(test["messages"], 40);
    assert_eq!(test["valid"], test["messages"]);
    before.assert_none();
}

#[test]
fn the_plan_is_the_one_by_which_the_same_options_measure() {
    let of_tcp = Target {
        filter: Some("tcp".parse().unwrap()),
        ..Target::default()
    };
    let requests: [(&[&str], Options); 5] = [
        (&[], Options::default()),
        (
            &["--host-path", "--expert=sched=off", "--expert=causes=off"],
            Options {
                host_path: true,
                sched: false,
                causes: false,
                ..Options::default()
            },
        ),
        (
            &["--expert", "entry=off"],
            Options {
                entry: EntryHook::Off,
                ..Options::default()
            },
        ),
        (
            &[
                "--by",
                "container",
                "--expert=sched=off",
                "--",
                "a",
                "command",
            ],
            Options {
                new_only: true,
                on_demand: None,
                sched: false,
                ..Options::default()
            },
        ),
        (
            &["tcp"],
            Options {
                target: of_tcp,
                ..Options::default()
            },
        ),
    ];
    let mut plans = Vec::new();
    for (words, options) in requests {
        let output = Command::new(with::sockstamp())
            .args(["doctor", "--format", "json"])
            .args(words)
            .output()
            .unwrap();
        assert_succeeded(&output);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let session = Session::start(&options).unwrap();
        assert_eq!(report["plan"], stages(session.plan()), "{words:?}");
        let udp = session.plan().udp;
        let shown = udp.map_or_else(
            |reason| value!({ "absent": reason.to_string() }),
            |datagrams| value!({ "hooks": datagrams.to_string() }),
        );
        assert_eq!(report["udp"], shown, "{words:?}");
        plans.push((report["plan"].clone(), report["udp"].clone()));
    }
    for (at, plan) in plans.iter().enumerate() {
        assert!(
            !plans[..at].contains(plan),
            "every request makes a difference"
        );
    }
}

#[test]
fn facts_are_those_of_the_host() {
    let report = json(Command::new(with::sockstamp()));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(report["kernel"], release.trim());
    assert_eq!(report["btf"], Path::new("/sys/kernel/btf/vmlinux").exists());
    assert_eq!(
        report["mptcp"]["enabled"],
        Path::new("/proc/sys/net/mptcp").exists()
    );
    let cgroup2 = Path::new(report["cgroup2"].as_str().unwrap());
    assert!(cgroup2.join("cgroup.procs").exists());
    let interfaces = report["interfaces"].as_array().unwrap();
    let lo = interfaces
        .iter()
        .find(|interface| interface["name"] == "lo")
        .unwrap();
    assert_eq!(lo["tx_software"], true);
    assert_eq!(lo["tx_hardware"], false);
}

#[test]
fn receive_stamping_is_seen_when_some_socket_asks_for_it() {
    let _stamping = sockstamp::ReceiveStamping::enable().unwrap();
    while !sockstamp::ReceiveStamping::is_on().unwrap() {}
    let report = json(Unprivileged::new().command());
    assert_eq!(report["receive_stamping"], true);
}

#[test]
fn doctor_without_privilege_names_what_is_unknown() {
    let before = Leftovers::before();
    let copy = Unprivileged::new();
    let report = json(copy.command());
    assert_eq!(report["ready"], false);
    assert_eq!(
        report["missing_capabilities"],
        serde_json::json!(["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"])
    );
    for (hook, state) in states(&report, true) {
        assert_eq!(state, "unknown", "{hook}");
    }
    assert!(report["self_test"].is_null());
    assert_eq!(report["notifications"]["tcp_stamps"]["state"], "unknown");

    let output = copy.command().arg("doctor").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not tried: missing capabilities"), "{text}");
    assert!(
        text.contains("cannot measure") && text.contains("setcap"),
        "{text}"
    );
    before.assert_none();
}

#[test]
fn three_capabilities_are_enough() {
    let report = json(Unprivileged::new().with_capabilities("-all,+bpf,+perfmon,+net_admin"));
    assert_eq!(report["ready"], true);
    assert_eq!(report["self_test"]["valid"], 40);
}

#[test]
fn a_reader_that_closes_is_no_failure() {
    let mut command = Command::new(with::sockstamp());
    command
        .arg("doctor")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_succeeded(&child.wait_with_output().unwrap());
}

/// Loopback is on every host, and stamps in software alone.
#[test]
fn an_interface_without_a_clock_says_so() {
    let doctor = |words: &[&str]| {
        let output = Command::new(with::sockstamp())
            .arg("doctor")
            .args(words)
            .output()
            .unwrap();
        assert_succeeded(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    let text = doctor(&["--nic", "lo"]);
    for line in [
        "lo\n",
        "  clock                       none: this interface has no NIC clock\n",
        "  to enable what is missing   nothing helps: it stamps in software alone\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let report: Value =
        serde_json::from_str(&doctor(&["--nic", "lo", "--format", "json"])).unwrap();
    assert_eq!(report["tx_hardware"], false);
    assert_eq!(report["clock"], Value::Null);
    assert_eq!(report["command"], Value::Null);
    let missing = Command::new(with::sockstamp())
        .args(["doctor", "--nic", "sockstamp-none"])
        .output()
        .unwrap();
    assert!(!missing.status.success());
    assert_eq!(
        String::from_utf8_lossy(&missing.stderr),
        "sockstamp: ioctl(ETHTOOL_GET_TS_INFO) on sockstamp-none: No such device\n"
    );
}
