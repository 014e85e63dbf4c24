//! Test that `sockstamp doctor` is right: on a host that lacks something, the stages of its plan
//! are measured and the absent ones are absent for its reason, or nothing starts, for the obstacle
//! that it names. Root.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{self, Command};
use std::thread;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;
use testbed::{Host, PATIENCE, Process};
use with::leftovers::Leftovers;
use with::{direction_of, messages, report, skip, sockstamp, stage, wait_attached};

/// On one connection, and as many answers.
const REQUESTS: usize = 20;

/// A command that runs sockstamp on a poorer host than this.
type Poor = fn() -> Command;

#[test]
fn without_bpf_and_perfmon_sys_admin_is_enough() {
    as_doctor_says(|| without_capabilities("-bpf,-perfmon"), None);
}

#[test]
fn stat_agrees_with_doctor_without_sys_admin() {
    let said = as_doctor_says(|| without_capabilities("-sys_admin"), None);
    assert!(
        said.contains("other network namespaces are not measured: CAP_SYS_ADMIN is missing"),
        "{said}"
    );
}

/// The kernel keeps no account for it, so no ceiling can be held: not the default one either.
#[test]
fn without_sys_admin_the_cost_is_not_limited_and_nobody_is_left_to_believe_it() {
    let run = |words: &[&str]| {
        let mut command = without_capabilities("-sys_admin");
        let output = command
            .args(words)
            .args(["--duration", "100ms"])
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), errors)
    };
    for words in [&["stat"][..], &["stat", "--max-cost=5%"]] {
        let (measured, said) = run(words);
        let told = said.contains("the cost is not limited: ");
        assert!(measured && told, "{words:?}: {said}");
    }
    for words in [
        &["stat", "--every"][..],
        &["trace", "--every", "--max-cost=5%"],
        &["trace", "--slow=1ms"],
    ] {
        let (measured, said) = run(words);
        let told = said.contains("is unknown: ") && said.contains("--max-cost none measures");
        assert!(!measured && told, "{words:?}: {said}");
    }
    let (measured, said) = run(&["stat", "--every", "--max-cost=none"]);
    assert!(measured && !said.contains("cost"), "{said}");
}

#[test]
fn stat_agrees_with_doctor_without_syslog() {
    as_doctor_says(|| without_capabilities("-syslog"), None);
}

#[test]
fn stat_agrees_with_doctor_without_bpf() {
    as_doctor_says(
        || without_capabilities("-sys_admin,-bpf"),
        Some("missing CAP_BPF:"),
    );
}

#[test]
fn stat_agrees_with_doctor_without_perfmon() {
    as_doctor_says(
        || without_capabilities("-sys_admin,-perfmon"),
        Some("missing CAP_PERFMON:"),
    );
}

#[test]
fn stat_agrees_with_doctor_without_net_admin() {
    as_doctor_says(
        || without_capabilities("-net_admin"),
        Some("missing CAP_NET_ADMIN:"),
    );
}

#[test]
fn stat_agrees_with_doctor_without_btf() {
    as_doctor_says(without_btf_in_sight, Some("no BTF"));
}

#[test]
fn stat_agrees_with_doctor_in_a_user_namespace() {
    as_doctor_says(in_a_user_namespace, Some("in a user namespace"));
}

#[test]
fn stat_agrees_with_doctor_behind_a_filter_of_system_calls() {
    as_doctor_says(without_the_call, Some("a seccomp filter refuses bpf(2)"));
}

#[test]
fn stat_agrees_with_doctor_where_sys_is_hidden() {
    as_doctor_says(without_sys, Some("/sys/kernel is hidden"));
}

#[test]
fn stat_agrees_with_doctor_without_room_for_descriptors() {
    as_doctor_says(
        with_few_descriptors,
        Some("at most 16 descriptors may be open"),
    );
}

/// A name whose namespace is gone stays a plain file; others bind to names what is none.
#[test]
fn names_in_run_netns_without_a_network_namespace_are_passed_over() {
    const HIDE: &str = "mount -t tmpfs none /run/netns && : > /run/netns/gone \
        && mkfifo /run/netns/fifo && ln -s nowhere /run/netns/dangling && : > /run/netns/uts \
        && mount --bind /proc/self/ns/uts /run/netns/uts && exec \"$0\" \"$@\"";
    let measurements: [&[&str]; 3] = [
        &["stat", "--duration", "100ms"],
        &["trace", "--duration", "100ms"],
        &["top", "--once"],
    ];
    for arguments in measurements {
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", HIDE, sockstamp()])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        let tells_of = |words: &str| said.contains(words);
        let wrong = [
            "Invalid argument",
            "No such file",
            "Inappropriate",
            "cannot ",
        ];
        assert!(!wrong.into_iter().any(tells_of), "{arguments:?}: {said}");
    }
}

/// Threads enter other network namespaces, and a walk over sockets is a child.
#[test]
fn without_room_for_further_tasks_an_error_says_so() {
    let hierarchy = Path::new("/sys/fs/cgroup/pids");
    if !hierarchy.exists() {
        skip(
            "poor_hosts::without_room_for_further_tasks_an_error_says_so",
            "the controller of tasks is not mounted",
        );
        return;
    }
    let full = hierarchy.join(format!("sockstamp-test-{}", process::id()));
    fs::create_dir(&full).unwrap();
    fs::write(full.join("pids.max"), "1").unwrap();
    let _other = Host::new("other").unwrap();
    let output = Command::new("sh")
        .args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""])
        .arg(&full)
        .arg(sockstamp())
        .args(["stat", "--duration", "100ms"])
        .output()
        .unwrap();
    fs::remove_dir(&full).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert_eq!(
        said,
        "sockstamp: accept queues are left out: Resource temporarily unavailable\n\
         sockstamp: cannot start the thread that ends the process: Resource temporarily unavailable\n"
    );
}

/// Root without these, in the words of setpriv(1).
fn without_capabilities(these: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--inh-caps", these, "--bounding-set", these])
        .arg(sockstamp());
    command
}

/// No file is at the paths where libbpf looks for BTF (btf__load_vmlinux_btf()).
fn without_btf_in_sight() -> Command {
    const HIDE: &str = "for place in /sys/kernel/btf /boot /lib/modules /usr/lib/debug; do \
        [ ! -d $place ] || mount -t tmpfs none $place; done; exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", HIDE, sockstamp()]);
    command
}

/// Root of its own user namespace, with all capabilities there.
fn in_a_user_namespace() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(sockstamp());
    command
}

/// As in a container whose profile has not bpf(2).
fn without_the_call() -> Command {
    let mut command = Command::new("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/without_bpf.py");
    command.arg(script).arg(sockstamp());
    command
}

fn without_sys() -> Command {
    const HIDE: &str = "mount -t tmpfs none /sys && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", HIDE, sockstamp()]);
    command
}

fn with_few_descriptors() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 16; exec \"$0\" \"$@\"", sockstamp()]);
    command
}

/// The obstacle that is expected, if one is. Gives what `stat` said on standard error.
fn as_doctor_says(poor: Poor, obstacle: Option<&str>) -> String {
    let before = Leftovers::before();
    let doctor = doctor(poor);
    let said = match obstacle {
        Some(obstacle) => {
            nothing_starts(poor, &doctor, obstacle);
            String::new()
        }
        None => {
            assert_eq!(doctor["ready"], true, "{}", doctor["obstacles"]);
            assert_eq!(
                doctor["self_test"]["messages"], 40,
                "{}",
                doctor["self_test"]
            );
            messages_are_traced(poor);
            the_screen_is_drawn(poor);
            stages_are_measured(poor, &doctor)
        }
    };
    before.assert_none();
    said
}

fn doctor(poor: Poor) -> Value {
    let output = poor()
        .args(["doctor", "--format", "json"])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ready"], output.status.success(), "{output:?}");
    report
}

fn nothing_starts(poor: Poor, doctor: &Value, obstacle: &str) {
    assert_eq!(doctor["ready"], false);
    assert_eq!(doctor["self_test"], Value::Null);
    let named = doctor["obstacles"][0].as_str().unwrap();
    assert!(named.contains(obstacle), "{named}");
    for arguments in [
        &["stat"][..],
        &["stat", "--", "true"],
        &["trace"],
        &["top", "--once"],
    ] {
        let output = poor().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            format!("sockstamp: {named}\n"),
            "{arguments:?}"
        );
    }
}

fn stages_are_measured(poor: Poor, doctor: &Value) -> String {
    let (output, said) = measured(poor, "stat");
    let found = report(output.path());
    for (name, way) in doctor["plan"].as_object().unwrap() {
        let absent = &way["absent"];
        assert_eq!(&found["absent"][name], absent, "{name}");
        let measured = &found[direction_of(name)]["stages"][name];
        if absent.is_string() {
            assert_eq!(*measured, Value::Null, "{name}");
        // No segment is missing here, and no question or answer comes in parts.
        } else if !["rx.hol", "peer.rest", "client.request"].contains(&name.as_str()) {
            assert!(
                stage(&found, name, "count") > 0,
                "{name} by {way}: {measured}"
            );
        }
    }
    said
}

fn messages_are_traced(poor: Poor) {
    let (output, _) = measured(poor, "trace");
    let found = messages(output.path());
    let valid = found.iter().filter(|message| message["verdict"] == "valid");
    assert!(valid.count() >= REQUESTS, "{found:?}");
}

fn the_screen_is_drawn(poor: Poor) {
    let output = poor()
        .args(["top", "--once", "--interval", "300ms"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let screen = String::from_utf8_lossy(&output.stdout);
    assert!(screen.contains("sockstamp top"), "{screen}");
}

/// Return the output of the subcommand for a conversation over loopback, and its standard error.
fn measured(poor: Poor, subcommand: &str) -> (NamedTempFile, String) {
    let output = NamedTempFile::new().unwrap();
    let mut command = poor();
    command
        .args([
            subcommand,
            "--every",
            "--max-cost=none",
            "--format",
            "json",
            "-o",
        ])
        .arg(output.path());
    command.args(["-p", &process::id().to_string()]);
    let mut process = Process::spawn(command).unwrap();
    wait_attached(&mut process);
    converse();
    process.signal(Signal::SIGINT).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    assert!(status.success(), "{status}: {}", process.stderr());
    (output, process.stderr())
}

fn converse() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut bytes = [0; 100];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 100];
            while server.read_exact(&mut bytes).is_ok() {
                server.write_all(&bytes).unwrap();
            }
        });
        for _ in 0..REQUESTS {
            client.write_all(&bytes).unwrap();
            client.read_exact(&mut bytes).unwrap();
        }
        drop(client);
    });
}
