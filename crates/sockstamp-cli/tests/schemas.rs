//! The JSON of each subcommand, as its schema in docs/json has it, and the recipes for jq.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use testbed::{Host, PATIENCE, Process};
use with::schema::{misfits, schema};
use with::wait_attached;

/// The questions of a client that are answered after this time; the last one is never.
const QUESTIONS: usize = 20;
const LATE: Duration = Duration::from_millis(30);
const WITHOUT: Duration = Duration::from_millis(1200);

/// A host whose client asks, and whose server answers, late, or not at all.
fn talk(host: &Host) {
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let socket = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener));
        ask(socket);
    });
}

fn serve(listener: &TcpListener) {
    let (mut socket, _) = listener.accept().unwrap();
    let mut byte = [0];
    for _ in 0..QUESTIONS {
        socket.read_exact(&mut byte).unwrap();
        thread::sleep(LATE);
        socket.write_all(&byte).unwrap();
    }
    while socket.read(&mut byte).unwrap() > 0 {}
}

fn ask(mut socket: TcpStream) {
    for _ in 0..QUESTIONS {
        socket.write_all(b"?").unwrap();
        socket.read_exact(&mut [0]).unwrap();
    }
    socket.write_all(b"?").unwrap();
    socket.set_read_timeout(Some(WITHOUT)).unwrap();
    socket.read_exact(&mut [0]).unwrap_err();
}

/// Return what it printed while the host talked.
fn measured(host: &Host, arguments: &[&str]) -> String {
    let mut command = Command::new(with::sockstamp());
    command.args(arguments).args(["--every", "--max-cost=none"]);
    command.args(["--netns", host.netns_name()]);
    let mut process = Process::spawn(command).unwrap();
    wait_attached(&mut process);
    talk(host);
    if arguments.contains(&"--interval") {
        process.wait_for_stdout("\n", PATIENCE).unwrap();
    }
    process.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    process.wait(PATIENCE).unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(with::sockstamp()).args(arguments).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// Compare each line with the schema; there must be one.
fn fits(name: &str, lines: &str) {
    let schema = schema(name);
    assert!(!lines.is_empty(), "{name}");
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let misfits = misfits(&schema, &value);
        assert!(misfits.is_empty(), "{name}: {misfits:#?} of {line}");
    }
}

const JSON: [&str; 2] = ["--format", "json"];

#[test]
fn what_is_measured_is_as_its_schema_has_it() {
    let host = Host::new("schemas").unwrap();
    fits("stat", &measured(&host, &["stat", JSON[0], JSON[1]]));
    let by = ["stat", "--by", "peer,comm,pid,container", JSON[0], JSON[1]];
    fits("stat", &measured(&host, &by));
    let once = [
        "top",
        "--once",
        "--interval",
        "300ms",
        "--netns",
        host.netns_name(),
    ];
    fits("top", &printed(&[&once[..], &JSON].concat()));
    let every = ["stat", "--interval", "300ms", JSON[0], JSON[1]];
    let lines = measured(&host, &every);
    let (intervals, whole) = lines.trim_end().rsplit_once('\n').unwrap();
    fits("stat-interval", intervals);
    fits("stat", whole);
    fits("trace", &measured(&host, &["trace", JSON[0], JSON[1]]));
    fits("explain", &measured(&host, &["explain", JSON[0], JSON[1]]));
    let of_command = ["stat", "-o", "-", JSON[0], JSON[1], "--", "true"];
    fits("stat", &printed(&of_command));
    let repeat = [
        "stat",
        "--netns",
        host.netns_name(),
        "--repeat",
        "2",
        "--duration",
        "100ms",
        JSON[0],
        JSON[1],
    ];
    fits("stat-repeat", &printed(&repeat));
}

#[test]
fn what_needs_no_measurement_is_as_its_schema_has_it() {
    fits("doctor", &printed(&["doctor", JSON[0], JSON[1]]));
    let nic = ["doctor", "--nic", "lo", JSON[0], JSON[1]];
    fits("doctor-nic", &printed(&nic));
    let host = Host::new("schemas-now").unwrap();
    let netns = ["--netns", host.netns_name()];
    let cumulative = [
        "stat",
        netns[0],
        netns[1],
        "--cumulative",
        "--duration",
        "10ms",
        JSON[0],
        JSON[1],
    ];
    fits("stat-cumulative", &printed(&cumulative));
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut socket = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    socket.write_all(b"?").unwrap();
    let stuck = ["stuck", "--slow", "0", "--why", netns[0], netns[1]];
    fits("stuck", &printed(&[&stuck[..], &JSON].concat()));
    for target in [
        &["127.0.0.1"][..],
        &["127.0.0.1", "127.0.0.2"],
        &["--path", "127.0.0.1"],
    ] {
        let ping = [&["ping", "-c", "1", JSON[0], JSON[1]], target].concat();
        fits("ping", &printed(&ping));
    }
}

#[test]
fn what_recordings_have_is_as_its_schema_has_it() {
    let (host, directory) = (Host::new("schemas-read").unwrap(), tempdir().unwrap());
    let [a, b] = ["a.parquet", "b.parquet"].map(|name| {
        let path = directory.path().join(name).to_str().unwrap().to_owned();
        measured(&host, &["record", "-o", &path]);
        path
    });
    // The other host recorded at the same time.
    let copy = directory
        .path()
        .join("copy.parquet")
        .to_str()
        .unwrap()
        .to_owned();
    fs::copy(&a, &copy).unwrap();
    for (name, arguments) in [
        ("report", vec!["report", &a]),
        (
            "report",
            vec!["report", "--by", "comm,port", "--interval", "1s", &a],
        ),
        ("explain", vec!["explain", "-r", &a]),
        ("diff", vec!["diff", &a, &b]),
        ("join", vec!["join", &a, &copy]),
        ("trace", vec!["trace", "-r", &a]),
        ("stuck-recorded", vec!["stuck", "-r", &a]),
        ("recover", vec!["recover", &a]),
    ] {
        fits(name, &printed(&[&arguments[..], &JSON].concat()));
    }
}

#[test]
fn the_recipes_of_the_manual_print_something() {
    let host = Host::new("schemas-jq").unwrap();
    let directory = tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let by = ["stat", "--by", "peer,port", JSON[0], JSON[1]];
    write("stat.json", &measured(&host, &by));
    write(
        "trace.jsonl",
        &measured(&host, &["trace", JSON[0], JSON[1]]),
    );
    write("stuck.json", &stuck_now(&host));
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/output.md");
    let manual = fs::read_to_string(manual).unwrap();
    let recipes: Vec<_> = manual
        .lines()
        .filter(|line| line.starts_with("jq "))
        .collect();
    assert_eq!(recipes.len(), 5);
    for recipe in recipes {
        let text = shell(recipe, &directory);
        assert!(
            !text.trim().is_empty() && !text.contains("null"),
            "{recipe}: {text}"
        );
    }
}

/// List a question that has waited for more than a second.
fn stuck_now(host: &Host) -> String {
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut socket = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let _accepted = listener.accept().unwrap();
    socket.write_all(b"?").unwrap();
    let ends = socket.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| socket.read(&mut [0]));
        thread::sleep(WITHOUT);
        let listed = printed(&["stuck", "--netns", host.netns_name(), JSON[0], JSON[1]]);
        ends.shutdown(Shutdown::Both).unwrap();
        listed
    })
}

fn shell(line: &str, directory: &TempDir) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(directory);
    with::run(&mut shell)
}
