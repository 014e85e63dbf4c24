//! Wrong use and hosts that lack something: one clear line, the right exit status, nothing left
//! behind.

mod mistakes;

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::{fs, thread};

use nix::unistd::gettid;
use tempfile::NamedTempFile;
use testbed::Host;
use with::leftovers::Leftovers;
use with::unprivileged::Unprivileged;

/// Run `command`; it must end with `status`, print `text` in one line and leave nothing behind.
fn refused(mut command: Command, status: i32, text: &str) {
    let before = Leftovers::before();
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.starts_with("sockstamp: ") && stderr.contains(text),
        "{stderr}"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    before.assert_none();
}

fn sockstamp(arguments: &[&str]) -> Command {
    let mut command = Command::new(with::sockstamp());
    command.args(arguments);
    command
}

/// `sockstamp stat` in a mount namespace of its own, after `prepare` changed it.
fn in_other_mounts(prepare: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("set -e; {prepare} \"$0\" stat -- true");
    command.args(["--mount", "sh", "-c", &script, with::sockstamp()]);
    command
}

#[test]
fn missing_privilege_is_named() {
    let copy = Unprivileged::new();
    for arguments in [
        &["stat", "--duration", "1s"] as &[&str],
        &["trace", "--duration", "1s"],
        &["stat", "--", "true"],
        &["trace", "--", "true"],
    ] {
        let mut command = copy.command();
        command.args(arguments);
        refused(
            command,
            1,
            "missing CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN: run as root",
        );
    }
}

#[test]
fn missing_btf_is_named() {
    refused(
        in_other_mounts("mount -t tmpfs none /sys/kernel/btf;"),
        1,
        "this kernel has no BTF",
    );
}

/// Takes the hierarchy away from the command that follows.
const NO_CGROUP2: &str =
    "awk '$3 == \"cgroup2\" { print $2 }' /proc/self/mounts | xargs umount --lazy;";

/// CAP_SYS_ADMIN could mount it where no other process sees it.
#[test]
fn missing_cgroup2_is_named() {
    let without = format!("{NO_CGROUP2} setpriv --bounding-set=-sys_admin");
    refused(
        in_other_mounts(&without),
        1,
        "no cgroup2 file system is mounted",
    );
}

/// Run as below `ip netns exec`, which mounts its own /sys.
#[test]
fn stat_works_where_no_cgroup2_is_mounted() {
    let before = Leftovers::before();
    let output = in_other_mounts(NO_CGROUP2).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("no messages"), "{stderr}");
    before.assert_none();
}

#[test]
fn commands_that_cannot_run_are_refused() {
    refused(
        sockstamp(&["stat", "--", "/nonexistent/command"]),
        127,
        "cannot run /nonexistent/command",
    );
    refused(
        sockstamp(&["stat", "--", "sockstamp-no-such-command"]),
        127,
        "cannot run",
    );
    refused(
        sockstamp(&["stat", "--", "/etc/passwd"]),
        126,
        "cannot run /etc/passwd",
    );
    refused(sockstamp(&["trace", "--", "/etc"]), 126, "cannot run /etc");
}

#[test]
fn packets_cannot_be_chosen_by_the_age_of_their_connection() {
    for arguments in [
        &["pcap", "-w", "/dev/null"][..],
        &["record", "--packets", "-o", "/dev/null"],
    ] {
        let output = sockstamp(arguments).arg("--new-only").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("cannot be used with"), "{stderr}");
    }
}

#[test]
fn targets_that_do_not_exist_are_refused() {
    refused(
        sockstamp(&["stat", "-p", "4194305"]),
        1,
        "no process 4194305",
    );
    refused_thread();
    refused(
        sockstamp(&["stat", "--cgroup", "/no/such/cgroup"]),
        1,
        "no cgroup /no/such/cgroup",
    );
    refused(
        sockstamp(&["stat", "--cgroup", "/tmp"]),
        1,
        "/tmp is not a cgroup2 directory",
    );
    refused(
        sockstamp(&["stat", "--netns", "no-such-netns"]),
        1,
        "no network namespace no-such-netns",
    );
    refused(
        sockstamp(&["stat", "-i", "no-such-if"]),
        1,
        "no interface no-such-if",
    );
    let host = Host::new("wrong").unwrap();
    let arguments = ["trace", "--netns", host.netns_name(), "-i", "no-such-if"];
    refused(
        sockstamp(&arguments),
        1,
        &format!("in network namespace {}: no interface", host.netns_name()),
    );
    refused(
        sockstamp(&["stat", "-o", "/nonexistent/file", "--", "true"]),
        1,
        "cannot write /nonexistent/file",
    );
}

#[test]
fn an_interface_of_another_namespace_is_named_with_it() {
    let host = Host::new("elsewhere").unwrap();
    let mut ip = host.command("ip");
    ip.args([
        "link",
        "add",
        "sst-there",
        "type",
        "veth",
        "peer",
        "sst-peer",
    ]);
    assert!(ip.status().unwrap().success());
    let name = host.netns_name();
    let told = format!("no interface sst-there here: it is in network namespace {name}: ");
    refused(
        sockstamp(&["trace", "-i", "sst-there"]),
        1,
        &format!("{told}write --netns {name}"),
    );
    refused(
        sockstamp(&["trace", "-i", &format!("sst-there@{name}")]),
        1,
        &format!("write -i sst-there --netns {name}"),
    );
    let file = format!("/var/run/netns/{name}");
    refused(
        sockstamp(&["stat", "--netns", &file]),
        1,
        &format!("it is called {name}: write --netns {name}"),
    );
}

/// As with fping(8).
#[test]
fn hosts_of_fping_stand_on_standard_input_where_none_are_named() {
    let mut shell = Command::new("sh");
    let script = format!("echo 127.0.0.1 | {} fping -c 1 -q", with::sockstamp());
    let output = shell.args(["-c", &script]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("127.0.0.1 : xmt/rcv/%loss = 1/1/0%"),
        "{stderr}"
    );
}

/// The output is a file of settings.
#[test]
fn an_agent_prints_its_settings_and_takes_them_again() {
    let output = sockstamp(&["agent", "--print-settings"]).output().unwrap();
    assert!(output.status.success());
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, &output.stdout).unwrap();
    let path = file.path().to_str().unwrap();
    let again = sockstamp(&["agent", "--print-settings", "--config", path]).output();
    assert_eq!(again.unwrap().stdout, output.stdout);
    assert!(output.stdout.starts_with(b"listen = "));
}

/// `/proc` has a directory for any thread, but messages belong to processes.
fn refused_thread() {
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        tell.send(gettid()).unwrap();
        // Fails when the other end is closed, so the thread lives until then.
        ended.recv().unwrap_err();
    });
    let tid = told.recv().unwrap().to_string();
    let text = format!("{tid} is a thread of process {}", std::process::id());
    refused(sockstamp(&["stat", "-p", &tid]), 1, &text);
    drop(end);
    thread.join().unwrap();
}

#[test]
fn wrong_options_are_refused() {
    let before = Leftovers::before();
    for arguments in [
        &["stat", "--no-such-option"] as &[&str],
        &["no-such-subcommand"],
        &[],
        &["stat", "--duration", "soon"],
        &["stat", "-p", "1", "--", "true"],
        &["stat", "--comm", ""],
    ] {
        let output = sockstamp(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            !output.stderr.is_empty() && output.stdout.is_empty(),
            "{arguments:?}"
        );
    }
    before.assert_none();
}

/// A wrong filter is wrong use, and takes one line wherever it stands. Nothing is started.
#[test]
fn filters_that_cannot_be_parsed_are_refused() {
    let before = Leftovers::before();
    let kept = NamedTempFile::new().unwrap();
    fs::write(&kept, "an older result").unwrap();
    let path = kept.path().to_str().unwrap();
    for arguments in [
        &["stat", "-o", path, "tcp port wwww or udp"] as &[&str],
        &["trace", "-o", path, "tcp", "port", "wwww", "or", "udp"],
        &[
            "stat", "tcp", "port", "wwww", "or", "udp", "--", "echo", "started",
        ],
        &["report", "a", "tcp", "port", "wwww", "or", "udp"],
        &["trace", "-r", "a", "tcp", "port", "wwww", "or", "udp"],
        &["diff", "a", "b", "tcp", "port", "wwww", "or", "udp"],
        &[
            "diff",
            "--before",
            "a",
            "--after",
            "b",
            "tcp port wwww or udp",
        ],
    ] {
        let output = sockstamp(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            stderr,
            "sockstamp: filter, column 10: expected a port number, 0 to 65535 (names of services \
             are not looked up), found `wwww`\n"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(fs::read_to_string(path).unwrap(), "an older result");

    let long = vec!["port 1"; 33].join(" or ");
    let output = sockstamp(&["stat", &long]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("sockstamp: filter, column 321: too long: it takes more than 64 tests"),
        "{stderr}"
    );
    before.assert_none();
}

/// An error of the kernel reads the same wherever it comes from: without a number or a name.
#[test]
fn errors_of_the_kernel_are_words() {
    const NONE: &str = "No such file or directory";
    for (arguments, status, end) in [
        (&["stat", "--netns", "sst-none"] as &[&str], 1, NONE),
        (&["stat", "--cgroup", "/sst-none"], 1, NONE),
        (&["stat", "-o", "/sst-none/a", "--", "true"], 1, NONE),
        (&["report", "/sst-none"], 1, NONE),
        (&["agent", "--config", "/sst-none"], 1, NONE),
        (&["ping", "--targets", "/sst-none"], 2, NONE),
        (&["ping", "-I", "sst-none", "::1"], 2, "No such device"),
        (
            &["notifications", "--status", "--socket", "/sst-none"],
            1,
            NONE,
        ),
    ] {
        let output = sockstamp(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.ends_with(&format!(": {end}\n")), "{stderr}");
        assert!(!stderr.contains(": EN"), "{stderr}");
    }
}

/// No filter, as with tcpdump(8).
#[test]
fn an_empty_filter_selects_everything() {
    let output = sockstamp(&["stat", "--format", "json", "", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_name_that_no_process_has_is_reported_and_a_silent_target_is_one_line_and_a_note() {
    let output = sockstamp(&["stat", "--comm", "sst-nobody", "--duration", "10ms"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(stderr, "sockstamp: no process is named sst-nobody yet\n");
    assert!(
        stdout.starts_with(" no messages in ")
            && stdout.contains(
                ": the target sent and read nothing over TCP or UDP\n note: not measured: "
            ),
        "{stdout}"
    );
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
}

/// A program that talks by Unix sockets alone has nothing to explain either.
#[test]
fn explain_of_a_silent_target_names_what_is_not_measured() {
    let script = "import socket\na, b = socket.socketpair()\na.send(b'x')\nb.recv(1)";
    let output = sockstamp(&["explain", "--", "python3", "-c", script]).output();
    // Standard output is the program's.
    let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
    let named = " no messages\n note: not measured: SCTP, SMC, UDP-Lite, vsock;";
    assert!(stderr.contains(named), "{stderr}");
}

/// A reader that has seen enough, as head(1), is no failure.
#[test]
fn a_closed_pipe_ends_quietly() {
    // Traffic of others may have to be told.
    let host = Host::new("closed").unwrap();
    let target = ["--netns", host.netns_name()];
    let mut process = sockstamp(&["stat", "--duration", "500ms"])
        .args(target)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
