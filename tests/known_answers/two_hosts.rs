//! Recordings of two hosts, joined. Both are network namespaces of one kernel, so that their clocks
//! are the same: the offset that `join` finds must allow for zero.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::tempdir;
use testbed::{Family, Hog, Host, Link, LinkConfig, within_attempts};
use with::recording::record;
use with::{end, number};

const MESSAGES: usize = 60;
/// Longer than anything that this machine does by itself, mostly.
const DELAY: Duration = Duration::from_millis(20);
const BYTES: usize = 1_000;

/// The cost on a busy host must not refuse it.
const EVERY: [&str; 2] = ["--every", "--max-cost=none"];

/// A fault, and where it must be seen.
struct Planted {
    name: &'static str,
    delay_of_link: Duration,
    /// Time that the server, and the client, do something else while data waits for them.
    server_is_busy: Duration,
    client_is_busy: Duration,
    /// The link loses each fourth message of the client, once.
    loses: bool,
    /// Time that the server's processor computes for a task of higher priority.
    hog: Duration,
    /// Bits per second that the client's interface sends.
    rate: Option<&'static str>,
    /// The place among `directions`, and the stage.
    direction: usize,
    stage: &'static str,
}

const NOTHING: Planted = Planted {
    name: "nothing",
    delay_of_link: Duration::ZERO,
    server_is_busy: Duration::ZERO,
    client_is_busy: Duration::ZERO,
    loses: false,
    hog: Duration::ZERO,
    rate: None,
    direction: 0,
    stage: "",
};

#[test]
fn the_network_between_the_hosts_is_named() {
    check(&Planted {
        name: "the network",
        delay_of_link: DELAY,
        stage: "net.forward",
        ..NOTHING
    });
}

#[test]
fn a_busy_reader_on_the_second_host_is_named() {
    check(&Planted {
        name: "a busy server",
        server_is_busy: DELAY,
        stage: "rx.app",
        ..NOTHING
    });
}

#[test]
fn a_busy_reader_on_the_first_host_is_named() {
    check(&Planted {
        name: "a busy client",
        client_is_busy: DELAY,
        direction: 1,
        stage: "rx.app",
        ..NOTHING
    });
}

#[test]
fn a_slow_interface_of_the_first_host_is_named() {
    check(&Planted {
        name: "a slow interface",
        // A message takes 17 ms of it.
        rate: Some("500kbit"),
        stage: "tx.qdisc",
        ..NOTHING
    });
}

#[test]
fn loss_between_the_hosts_is_named() {
    check(&Planted {
        name: "loss",
        loses: true,
        stage: "net.forward",
        ..NOTHING
    });
}

#[test]
fn a_busy_processor_of_the_second_host_is_named() {
    check(&Planted {
        name: "a busy processor",
        hog: DELAY,
        stage: "rx.wakeup",
        ..NOTHING
    });
}

/// NAT changes addresses, and leaves the numbers as they are.
#[test]
fn hosts_with_nat_between_them_are_joined() {
    const EACH: usize = 5 * MESSAGES;
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let link = Link::relay(&hosts[0], &hosts[1], LinkConfig::default()).unwrap();
    let outside = link.translate().unwrap();
    let directory = tempdir().unwrap();
    let recordings =
        ["first", "second"].map(|name| directory.path().join(format!("{name}.parquet")));
    let recorders =
        [0, 1].map(|host| record(&recordings[host], &hosts[host], &["--sample", "2^11"]));
    let address = SocketAddr::new(link.address_b(Family::V4), 7000);
    let seen = exchange(&hosts, &link, address, EACH, &NOTHING);
    assert_eq!(seen.ip(), outside, "the server sees the client itself");
    recorders
        .into_iter()
        .for_each(|recorder| drop(end(recorder)));
    let joined = join(&recordings[0], &recordings[1]);
    let messages = number(&joined["hosts"][0]["messages"]);
    assert_eq!(joined["directions"][0]["total"]["count"], 0, "{joined}");
    assert!(
        number(&joined["not_joined"]["one-sided"]) >= 2 * messages - 4,
        "{joined}"
    );
    let joined = join_with(&recordings[0], &recordings[1], &["--nat"]);
    println!("not joined: {}", joined["not_joined"]);
    assert_eq!(joined["translated"], 2, "{joined}");
    let missing: u64 = joined["not_joined"]
        .as_object()
        .unwrap()
        .values()
        .map(number)
        .sum();
    assert_eq!(
        missing,
        number(&joined["not_joined"]["refused"]),
        "{joined}"
    );
    assert!(missing <= 4 && messages > 200, "{joined}");
    the_clocks_are_the_same(&joined);
}

/// The witness that both choose the same bytes: no message that one end measured is missing at the
/// other, though packets are lost and come in another order.
#[test]
fn hosts_in_step_measure_the_same_messages() {
    const IN_STEP: [&str; 2] = ["--sample", "2^12"];
    const EACH: usize = 10 * MESSAGES;
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let config = LinkConfig::default().loss(0.02).reorder(0.05).seed(1);
    let link = Link::relay(&hosts[0], &hosts[1], config).unwrap();
    let directory = tempdir().unwrap();
    let recordings =
        ["first", "second"].map(|name| directory.path().join(format!("{name}.parquet")));
    let recorders = [0, 1].map(|host| record(&recordings[host], &hosts[host], &IN_STEP));
    let address = SocketAddr::new(link.address_b(Family::V4), 7000);
    exchange(&hosts, &link, address, EACH, &NOTHING);
    recorders
        .into_iter()
        .for_each(|recorder| drop(end(recorder)));
    let joined = join(&recordings[0], &recordings[1]);
    let reasons = &joined["not_joined"];
    let refused = number(&reasons["refused"]);
    println!("not joined: {reasons}");
    for reason in [
        "one-sided",
        "not-read",
        "not-sent",
        "read-with-later",
        "read-in-parts",
    ] {
        assert_eq!(reasons[reason], 0, "{reason}: {joined}");
    }
    for direction in [0, 1] {
        let total = &joined["directions"][direction]["total"];
        let (messages, weight) = (EACH as u64, number(&total["count"]));
        println!("weights are {weight} of {messages}, {refused} refused");
        // A thousand bytes hold a multiple of 4096 or not: some 146 of 600 do, with weight 4 or 5.
        let refused = 5 * refused;
        assert!(
            (messages * 7 / 10..=messages * 13 / 10).contains(&(weight + refused)),
            "{joined}"
        );
    }
}

/// Numbers are known of any connection. What one end sent while the other was not yet measured is
/// not joined, and counted; from then on nothing is missing.
#[test]
fn hosts_in_step_agree_on_a_connection_that_is_older_than_both() {
    const IN_STEP: [&str; 2] = ["--sample", "2^11"];
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    let directory = tempdir().unwrap();
    let recordings =
        ["first", "second"].map(|name| directory.path().join(format!("{name}.parquet")));
    let address = SocketAddr::new(link.address_b(Family::V4), 7000);
    let listener = hosts[1].tcp_listen(address).unwrap();
    let mut client = hosts[0].tcp_connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let mut ask = |messages: usize| {
        for _ in 0..messages {
            client.write_all(&[2; BYTES]).unwrap();
            turn(&mut server, Duration::ZERO);
            server.write_all(&[1; BYTES]).unwrap();
            turn(&mut client, Duration::ZERO);
        }
    };
    ask(MESSAGES);
    let first = record(&recordings[0], &hosts[0], &IN_STEP);
    ask(MESSAGES);
    let second = record(&recordings[1], &hosts[1], &IN_STEP);
    ask(5 * MESSAGES);
    [first, second]
        .into_iter()
        .for_each(|recorder| drop(end(recorder)));
    let lives = directory.path().join("lives.json");
    let joined = join_with(
        &recordings[0],
        &recordings[1],
        &["--lives", lives.to_str().unwrap()],
    );
    let messages = [0, 1].map(|host| number(&joined["hosts"][host]["messages"]));
    let lives = fs::read_to_string(lives).unwrap().lines().count() as u64;
    let reasons = &joined["not_joined"];
    println!("{messages:?} messages, {lives} lives, not joined: {reasons}");
    let of = |reason: &str| number(&reasons[reason]);
    // A first message after the adoption may be refused, at either end.
    assert!(of("refused") <= 4, "{joined}");
    assert_eq!(messages[1], lives + of("refused"), "{joined}");
    assert_eq!(
        messages[0] - messages[1],
        of("not-read") + of("not-sent"),
        "{joined}"
    );
    // Some 29 of 60 messages each way hold a multiple.
    assert!(of("not-read") > 10 && of("not-sent") > 10, "{joined}");
    assert!(lives > 200, "{joined}");
}

fn check(planted: &Planted) {
    within_attempts(|| attempt(planted).map_err(|missed| format!("{}: {missed}", planted.name)));
}

fn attempt(planted: &Planted) -> Result<(), String> {
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let config = LinkConfig::default().delay(planted.delay_of_link);
    let link = match planted.delay_of_link.is_zero() && !planted.loses {
        true => Link::veth(&hosts[0], &hosts[1]),
        false => Link::relay(&hosts[0], &hosts[1], config),
    };
    let link = link.unwrap();
    if let Some(rate) = planted.rate {
        let limits = ["rate", rate, "burst", "1600", "limit", "100000"];
        let device = ["qdisc", "add", "dev", link.interface_a(), "root", "tbf"];
        hosts[0]
            .run("tc", &[&device[..], &limits[..]].concat())
            .unwrap();
    }
    let directory = tempdir().unwrap();
    let recordings =
        ["first", "second"].map(|name| directory.path().join(format!("{name}.parquet")));
    let recorders = [0, 1].map(|host| record(&recordings[host], &hosts[host], &EVERY));
    let address = SocketAddr::new(link.address_b(Family::V4), 7000);
    exchange(&hosts, &link, address, MESSAGES, planted);
    recorders
        .into_iter()
        .for_each(|recorder| drop(end(recorder)));
    let joined = join(&recordings[0], &recordings[1]);
    the_clocks_are_the_same(&joined);
    the_fault_is_named(&joined, planted)
}

fn join(first: &Path, second: &Path) -> Value {
    join_with(first, second, &[])
}

fn join_with(first: &Path, second: &Path, options: &[&str]) -> Value {
    let output = Command::new(with::sockstamp())
        .args(["join", "--format", "json"])
        .args(options)
        .args([first, second])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ask and answer, one after the other. Return the client's address as the server sees it.
fn exchange(
    hosts: &[Host; 2],
    link: &Link,
    address: SocketAddr,
    messages: usize,
    planted: &Planted,
) -> SocketAddr {
    let listener = hosts[1].tcp_listen(address).unwrap();
    let (server_is_busy, has_hog) = (planted.server_is_busy, !planted.hog.is_zero());
    let server = thread::spawn(move || {
        if has_hog {
            stay_on(HOGGED);
        }
        let (mut stream, peer) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        for _ in 0..messages {
            turn(&mut stream, server_is_busy);
            stream.write_all(&[1; BYTES]).unwrap();
        }
        peer
    });
    if has_hog {
        stay_on(HOGGED + 1);
    }
    let mut stream = hosts[0].tcp_connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    for message in 0..messages {
        if planted.loses && message % 4 == 1 {
            link.lose_next_data(testbed::Direction::AToB, 1).unwrap();
        }
        let hog = has_hog.then(|| Hog::start(HOGGED, planted.hog).unwrap());
        stream.write_all(&[2; BYTES]).unwrap();
        turn(&mut stream, planted.client_is_busy);
        hog.map(Hog::finish).transpose().unwrap();
    }
    server.join().unwrap()
}

/// The processor that is kept busy.
const HOGGED: usize = 0;

/// Let this thread run on one processor alone.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

/// Be busy, then read a message.
fn turn(stream: &mut TcpStream, busy: Duration) {
    if !busy.is_zero() {
        let mut byte = [0];
        stream.peek(&mut byte).unwrap();
        thread::sleep(busy);
    }
    stream.read_exact(&mut [0; BYTES]).unwrap();
}

/// The interval is a guarantee, whatever delays there are: it is never measured again.
fn the_clocks_are_the_same(joined: &Value) {
    let clocks = &joined["clocks"];
    assert_eq!(clocks["quality"], "accurate", "{joined}");
    let (offset, error) = (
        clocks["offset_ns"].as_i64().unwrap(),
        number(&clocks["error_ns"]),
    );
    println!("the clocks are {offset} ± {error} ns apart");
    assert!(offset.unsigned_abs() <= error, "{joined}");
}

fn the_fault_is_named(joined: &Value, planted: &Planted) -> Result<(), String> {
    let direction = &joined["directions"][planted.direction];
    let refused = number(&joined["not_joined"]["refused"]);
    let joined_messages = number(&direction["total"]["count"]);
    assert!(refused <= 2, "{joined}");
    assert!(joined_messages + refused >= MESSAGES as u64, "{joined}");
    let total = number(&direction["total"]["sum_ns"]);
    let stage = number(&direction["stages"][planted.stage]["sum_ns"]);
    println!("{} has {stage} of {total} ns", planted.stage);
    match stage * 10 >= total * 9 {
        true => Ok(()),
        false => Err(format!(
            "{} has {stage} of {total} ns: {direction}",
            planted.stage
        )),
    }
}
