//! Datagrams that wait in the packet scheduler, are dropped there, or leave unseen.

use testbed::{Family, Host, Link, within_attempts};
use with::{Stat, Trace, in_short, number, of_direction, skip, stage};

use super::{run, tells_reasons};

/// The short queue of a token bucket drops; the witness is its own count.
#[test]
fn datagrams_that_the_packet_scheduler_drops_are_counted_by_that_reason() {
    if !tells_reasons() {
        skip("drop reasons", "the kernel tells no receiver of drops");
        return;
    }
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let (from, to) = (link.address_a(Family::V4), link.address_b(Family::V4));
    let device = link.interface_a();
    let stat = Stat::start(&["--netns", a.netns_name(), "udp"]);
    // The first ones bring the programs that follow datagrams, and are missed until these are
    // attached; tc(8) may take long enough for the programs to go, so none runs between.
    let printed = run(
        &a,
        &format!(
            r"
import json, subprocess
subprocess.run('tc qdisc replace dev {device} root tbf burst 2kb rate 100kbit limit 4kb', shell=True, check=True)
def drops():
    shown = subprocess.run('tc -s -j qdisc show dev {device}', shell=True, check=True, capture_output=True)
    return json.loads(shown.stdout)[0]['drops']

before = drops()
sender = bound('{from}')
for _ in range(40):
    sender.sendto(b'x', ('{to}', 9))
    time.sleep(.05)
for _ in range(20):
    sender.sendto(b'x' * 1207, ('{to}', 9))
time.sleep(.6)
print(drops() - before)
"
        ),
    );
    let report = stat.finish();
    let dropped: u64 = printed.trim().parse().unwrap();
    assert!(dropped >= 10, "{printed}");
    let reasons: Vec<_> = report["tx"]["drop_reasons"]
        .as_object()
        .unwrap()
        .iter()
        .collect();
    let &[(reason, count)] = reasons.as_slice() else {
        panic!("{reasons:?}");
    };
    assert!(reason.starts_with("QDISC_"), "{reason}");
    let refused = number(&report["verdicts"]["dropped"]);
    assert_eq!((number(count), refused), (dropped, dropped), "{report}");
}

/// In a token bucket each datagram waits 10 ms longer than the one before; a short queue drops.
#[test]
fn waits_and_drops_in_the_packet_scheduler_are_seen() {
    within_attempts(shaped_and_dropped);
}

fn shaped_and_dropped() -> Result<(), String> {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let (from, to) = (link.address_a(Family::V4), link.address_b(Family::V4));
    let device = link.interface_a();
    let trace = Trace::start(&["--netns", a.netns_name(), "udp"]);
    // Only ICMP answers for an unused port, which an unconnected sender does not receive. The first
    // ones bring the programs that follow datagrams, and are missed until these are attached; so do
    // those after tc(8), which may take long enough for the programs to go.
    run(
        &a,
        &format!(
            r"
import subprocess
def shape(what):
    subprocess.run('tc qdisc replace dev {device} root tbf burst 2kb ' + what, shell=True, check=True)

def begin(count):
    for _ in range(count):
        sender.sendto(b'x', ('{to}', 9))
        time.sleep(.05)

sender = bound('{from}')
begin(40)
shape('rate 1mbit limit 1mb')
begin(15)
for _ in range(20):
    sender.sendto(b'x' * 1208, ('{to}', 9))
time.sleep(.4)
shape('rate 100kbit limit 4kb')
begin(15)
for _ in range(20):
    sender.sendto(b'x' * 1207, ('{to}', 9))
time.sleep(.6)
"
        ),
    );
    trace.wait_for_text(r#""bytes":1207"#, 20);
    let messages = trace.finish();
    let sent = of_direction(&messages, "tx");
    let of_size = |bytes: u64| sent.iter().filter(move |sent| sent["bytes"] == bytes);
    let [first, last] = [1208, 1207].map(|bytes| of_size(bytes).count());
    assert_eq!([first, last], [20, 20]);
    let shaped: Vec<(u64, u64)> = (0..)
        .zip(of_size(1208))
        .filter(|(_, message)| message["verdict"] == "valid")
        .map(|(place, message)| (place, number(&message["stages"]["tx.qdisc"])))
        .collect();
    assert!(shaped.len() >= 19, "{shaped:?}");
    // 1250 bytes with their headers at 1 Mbit/s. One that is refused has left in its turn.
    for pair in shaped.windows(2).skip(3) {
        let ((before, shorter), (place, longer)) = (pair[0], pair[1]);
        let step = longer.saturating_sub(shorter) / (place - before);
        if !(9_000_000..11_000_000).contains(&step) {
            return Err(format!("a step is {step} ns: {shaped:?}"));
        }
    }
    let dropped = of_size(1207)
        .filter(|message| message["verdict"] == "dropped")
        .count();
    // A packet leaves each 100 ms, however long it takes to send them.
    match dropped >= 15 {
        true => Ok(()),
        false => Err(format!("{dropped} of 20 dropped")),
    }
}

/// Unmeasured messages wait in the packet scheduler too: no message may end with one of their
/// packets.
#[test]
fn a_message_does_not_end_with_a_packet_of_another() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let [from, to] = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let program = format!(
        r"
import subprocess
subprocess.run('tc qdisc replace dev {} root tbf burst 2kb rate 1mbit limit 1mb', shell=True, check=True)
sender = bound('{from}')
sender.connect(('{to}', 9))
sender.send(b'x')
time.sleep(.2)
def send(count, size):
    for _ in range(count):
        try:
            sender.send(b'x' * size)
        except ConnectionRefusedError:
            sender.send(b'x' * size)
    time.sleep(.8)
",
        link.interface_a()
    );
    let measure = |option: &str, what: &str| {
        let stat = Stat::sampled(option, &["--netns", a.netns_name(), "udp"]);
        run(&a, &format!("{program}{what}"));
        let report = stat.finish();
        println!("{}", in_short(&report));
        report
    };

    // Each waits 10 ms longer than the one before.
    let whole = measure("--sample=1/4", "send(60, 1208)");
    assert_eq!(number(&whole["tx"]["messages"]), 61);
    assert!(stage(&whole, "tx.qdisc", "p50_ns") > 150_000_000, "{whole}");
    assert!(stage(&whole, "tx.qdisc", "max_ns") > 400_000_000, "{whole}");

    // The token bucket takes these apart (tbf_segment()), each waits 25 ms longer.
    for option in ["--every", "--sample=1/4"] {
        let report = measure(
            option,
            "sender.setsockopt(UDP, SEGMENT, 1000)\nsend(20, 3000)",
        );
        assert_eq!(number(&report["tx"]["messages"]), 21);
        assert!(
            stage(&report, "tx.qdisc", "p50_ns") > 150_000_000,
            "{report}"
        );
        assert!(
            stage(&report, "tx.qdisc", "max_ns") > 350_000_000,
            "{report}"
        );
        assert!(report["verdicts"]["no-snd-stamp"].is_null(), "{report}");
    }
}

/// Packets leave a token bucket in softirq, on top of whatever runs. A program that one of them
/// interrupts does not run for it, and no later packet shows it.
#[test]
fn every_message_behind_a_token_bucket_ends_though_its_socket_sends_no_more() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let device = link.interface_a();
    let [from, to] = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let stat = Stat::start(&["--netns", a.netns_name(), "udp"]);
    run(
        &a,
        &format!(
            r"
import subprocess, threading
subprocess.run('tc qdisc replace dev {device} root tbf burst 20kb rate 200mbit limit 10mb', shell=True, check=True)
def send(count):
    sender = bound('{from}')
    for number in range(count):
        sender.sendto(b'x' * 500, ('{to}', 9))
        if number % 20 == 19:
            time.sleep(.001)
    senders.append(sender)
senders = []
threads = [threading.Thread(target=send, args=(1500,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
time.sleep(4)
"
        ),
    );
    let report = stat.finish();
    println!("{}", in_short(&report));
    assert_eq!(number(&report["tx"]["messages"]), 6000, "{report}");
    assert_eq!(number(&report["verdicts"]["in-flight"]), 0, "{report}");
}

/// Without pages that they share with the packet that they were made of, segments are not known
/// when they leave, so the end of their message is never seen.
#[test]
fn a_message_that_leaves_unseen_is_given_up_though_its_socket_sends_no_more() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let [from, to] = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let device = link.interface_a();
    let stat = Stat::start(&["--netns", a.netns_name(), "udp"]);
    run(
        &a,
        &format!(
            r"
import ctypes, fcntl, struct
SIOCETHTOOL, ETHTOOL_SSG = 0x8946, 0x19  # scatter and gather: include/uapi/linux/ethtool.h
off = (ctypes.c_uint * 2)(ETHTOOL_SSG, 0)
fcntl.ioctl(sender, SIOCETHTOOL, struct.pack('16sP', b'{device}', ctypes.addressof(off)))
sender = bound('{from}')
sender.sendto(b'x', ('{to}', 9))
time.sleep(.2)
sender.setsockopt(UDP, SEGMENT, 1000)
sender.sendto(b'x' * 3000, ('{to}', 9))
time.sleep(5)
"
        ),
    );
    let report = stat.finish();
    println!("{}", in_short(&report));
    let verdicts = &report["verdicts"];
    assert_eq!(number(&report["tx"]["messages"]), 2, "{report}");
    assert_eq!(number(&verdicts["valid"]), 1, "{report}");
    assert_eq!(number(&verdicts["no-snd-stamp"]), 1, "{report}");
    assert_eq!(number(&verdicts["in-flight"]), 0, "{report}");
}
