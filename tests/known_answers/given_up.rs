//! Waits that end without what was waited for: an ordinary program meets a peer that is silent,
//! that resets, that closes, that does not listen, and ports that are used up. The witness is the
//! program, by its own counts and clock. One that waits for nobody does the same, and is silent.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testbed::{Family, Host, Link, PATIENCE, Process, within_attempts};
use with::expected::{ms, within_clock};
use with::netfilter::NETFILTER;
use with::{hooks, number, run, sockstamp, stat_command};

/// Serves `port`: each connection to it has a fate of its own.
const FATES: &str = "
import socket, struct, threading, time
def serve(port, fate):
    s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', port)); s.listen(50)
    def loop():
        while True:
            c, _ = s.accept()
            threading.Thread(target=fate, args=(c,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
def silent(c): time.sleep(60)
def resets(c):
    c.recv(99); c.setsockopt(1, 13, struct.pack('ii', 1, 0)); c.close()
def closes(c): c.recv(99); c.close()
def answers(c):
    while d := c.recv(99): c.sendall(d)
def answers_with_fin(c):
    c.recv(99); c.setsockopt(6, 3, 1); c.sendall(b'bye'); c.close()
def reads_some(c):
    for _ in range(4): c.recv(99)
    c.close()
for port, fate in [(1, silent), (2, resets), (3, closes), (5, answers), (6, answers_with_fin),
                   (7, reads_some)]:
    serve(8000 + port, fate)
";

/// Meets each fate three times, and prints the counts of its errors and the seconds of its waits.
/// It gives up early only where nothing else ends its wait: a slow machine changes no count.
const ASKS: &str = "
import collections, errno
met = collections.Counter(); spent = 0.0
for port in [1, 2, 3, 4]:
    for _ in range(3):
        c = socket.socket(); c.settimeout(30); begun = time.monotonic()
        try:
            c.connect(('127.0.0.1', 8000 + port)); c.sendall(b'question')
            if port == 1: c.settimeout(0.3)
            met['eof' if c.recv(99) == b'' else 'answer'] += 1
        except TimeoutError: met['timeout'] += 1; spent += time.monotonic() - begun
        except OSError as e: met[errno.errorcode[e.errno]] += 1
        c.close()
print(met['timeout'], met['ECONNRESET'], met['eof'], met['ECONNREFUSED'], int(spent * 1e9))
";

/// Asks, is answered and leaves; says a last word and leaves; sends at a pace until it is cut off;
/// reaches a service by the second of its addresses.
const LEAVES: &str = "
for _ in range(3):
    c = socket.create_connection(('127.0.0.1', 8005))
    c.sendall(b'question'); c.recv(99); c.sendall(b'quit'); c.close()
    c = socket.create_connection(('127.0.0.1', 8006)); c.sendall(b'question'); c.recv(99)
    time.sleep(0.02); c.close()
    c = socket.create_connection(('127.0.0.1', 8007))
    for _ in range(4): c.sendall(b'log'); time.sleep(0.03)
    c.close()
    for address in ['::1', '127.0.0.1']:
        try: socket.create_connection((address, 8005)).close()
        except ConnectionRefusedError: pass
";

fn failures(report: &Value) -> Vec<(&str, &str, u64)> {
    println!("{}", report["diagnosis"]);
    let findings = report["diagnosis"]["findings"].as_array().unwrap();
    let failed = findings.iter().filter_map(|finding| {
        let how = finding["failure"].as_str()?;
        let service = finding["services"][0].as_str()?;
        Some((how, service, number(&finding["count"])))
    });
    let mut failed: Vec<_> = failed.collect();
    failed.sort_unstable();
    failed
}

#[test]
fn waits_that_end_without_an_answer_are_named_by_their_ends() {
    let host = Host::new("fates").unwrap();
    within_attempts(|| {
        let measured = stat_command(&host, &["python3", "-c", &format!("{FATES}{ASKS}")]);
        let met: Vec<u64> = measured
            .stdout
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let [given_up, reset, closed, refused, waited] = met[..] else {
            panic!("{} {}", measured.stdout, measured.stderr);
        };
        assert_eq!([given_up, reset, closed, refused], [3; 4]);
        let expected = [
            ("closed-by-peer", "127.0.0.1:8003", closed),
            ("given-up", "127.0.0.1:8001", given_up),
            ("refused", "127.0.0.1:8004", refused),
            ("reset", "127.0.0.1:8002", reset),
        ];
        assert_eq!(failures(&measured.report), expected);
        let waits = measured.report["wall_time"]["waits"].as_array().unwrap();
        let silent = waits
            .iter()
            .find(|wait| wait["kind"] == "waiting" && wait["peer"] == "127.0.0.1:8001");
        let silent = silent.unwrap_or_else(|| panic!("{}", measured.report["wall_time"]));
        assert_eq!(
            (&silent["questions"], &silent["unanswered"]),
            (&3.into(), &3.into())
        );
        within_clock("the wait", number(&silent["ns"]), ms(890), waited)
    });
}

/// Serves each connection until a lock is needed that nobody gives back; a client that asks as soon
/// as it is answered prints how many of its requests were answered, and how many were not.
const HANGS: &str = "
import socket, threading
held = threading.Lock(); held.acquire()
def serve(c):
    for _ in range(5): c.recv(99); c.sendall(b'answer')
    c.recv(99); held.acquire()
s = socket.create_server(('127.0.0.1', 8011))
def loop():
    while True:
        threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=loop, daemon=True).start()
answered = given_up = 0
for _ in range(4):
    c = socket.create_connection(('127.0.0.1', 8011))
    try:
        for patience in [30] * 5 + [0.3]:
            c.settimeout(patience); c.sendall(b'question'); c.recv(99); answered += 1
    except TimeoutError: given_up += 1
    c.close()
print(answered, given_up)
";

/// The request that hangs comes within a tick of the answer before it.
#[test]
fn a_request_that_hangs_is_held_against_all_that_were_read() {
    let host = Host::new("hangs").unwrap();
    let measured = stat_command(&host, &["python3", "-c", HANGS]);
    assert_eq!(measured.stdout.trim(), "20 4");
    let findings = measured.report["diagnosis"]["findings"].as_array().unwrap();
    let served = findings.iter().find(|finding| finding["role"] == "serves");
    let served = served.unwrap_or_else(|| panic!("{}", measured.report["waits"]));
    let counts = ["count", "tried"].map(|name| number(&served[name]));
    assert_eq!(
        (counts, &served["failure"]),
        ([4, 24], &"closed-by-peer".into())
    );
}

/// Return what a command prints about a recording.
fn told(words: &[&str], file: &Path) -> String {
    let mut command = Command::new(sockstamp());
    run(command.args(words).arg(file))
}

/// Return the sentence of a finding as it is in text, where lines are broken.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_recording_has_the_waits_that_no_data_ended() {
    let host = Host::new("recorded").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fates.parquet");
    let mut command = host.command(sockstamp());
    command.args(["record", "--every", "-o"]).arg(&file);
    command.args(hooks()).args(["--", "python3", "-c"]);
    command.arg(format!("{FATES}{ASKS}"));
    let mut process = Process::spawn(command).unwrap();
    assert!(process.wait_status(PATIENCE).unwrap().success());
    let stdout = process.stdout();
    let met: Vec<u64> = stdout
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let [given_up, reset, closed, refused, waited] = met[..] else {
        panic!("{stdout} {}", process.stderr());
    };
    let report = told(&["report", "--format", "json"], &file);
    let report: Value = serde_json::from_str(&report).unwrap();
    let expected = [
        ("closed-by-peer", "127.0.0.1:8003", closed),
        ("given-up", "127.0.0.1:8001", given_up),
        ("refused", "127.0.0.1:8004", refused),
        ("reset", "127.0.0.1:8002", reset),
    ];
    assert_eq!(failures(&report), expected);
    let waits = report["waits"].as_array().unwrap();
    let silent = waits.iter().filter(|wait| wait["end"] == "given-up");
    let silent: u64 = silent.map(|wait| number(&wait["lasted_ns"])).sum();
    // The program's clock begins before its connect, and ends after its timeout.
    assert!((ms(890)..=waited).contains(&silent), "{silent} {waited}");
    // All that reads a recording tells the same in the same words.
    let sentence = report["diagnosis"]["findings"][0]["sentence"].as_str();
    let sentence = in_one_line(sentence.unwrap());
    let finding = format!("diagnosis: {sentence}");
    let report = in_one_line(&told(&["report"], &file));
    assert!(report.contains(&finding), "{report}");
    let explained = in_one_line(&told(&["explain", "-r"], &file));
    assert!(explained.starts_with(&finding), "{explained}");
    let page = directory.path().join("page.html");
    told(&["report", "--html", page.to_str().unwrap()], &file);
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains(&format!("<ol><li>{sentence} → ")), "{page}");
}

#[test]
fn a_program_that_waits_for_nobody_fails_nowhere() {
    let host = Host::new("leaves").unwrap();
    let measured = stat_command(&host, &["python3", "-c", &format!("{FATES}{LEAVES}")]);
    assert!(measured.status.success(), "{}", measured.stderr);
    assert_eq!(failures(&measured.report), []);
}

/// All local ports are in TIME_WAIT: connect() fails before a SYN.
#[test]
fn connects_that_find_no_port_are_counted() {
    let host = Host::new("ports").unwrap();
    let range = "net.ipv4.ip_local_port_range=40000 40003";
    host.run("sysctl", &["-qw", range, "net.ipv4.tcp_tw_reuse=0"])
        .unwrap();
    let script = "
failed = 0
for _ in range(10):
    c = socket.socket()
    try: c.connect(('127.0.0.1', 8005)); c.sendall(b'q'); c.recv(9)
    except OSError as e: failed += e.errno == 99
    c.close()
print(failed)";
    let measured = stat_command(&host, &["python3", "-c", &format!("{FATES}{script}")]);
    let failed: u64 = measured.stdout.trim().parse().unwrap();
    assert_eq!(failed, 6);
    let expected = [("no-port", "127.0.0.1:8005", failed)];
    assert_eq!(failures(&measured.report), expected);
    assert_eq!(measured.report["diagnosis"]["findings"][0]["tried"], 10);
    let waits = measured.report["waits"].as_array().unwrap();
    let denied = waits
        .iter()
        .filter(|wait| wait["kind"] == "connect" && wait["end"] == "no-port");
    assert_eq!(denied.count() as u64, failed);
}

/// There is no route: connect() fails, and the state of the socket never changes.
#[test]
fn connects_without_a_route_are_counted_by_address() {
    let host = Host::new("routes").unwrap();
    let script = "
import errno, socket
failed = {'192.0.2.1': 0, '2001:db8::1': 0}
for family, address in [(2, '192.0.2.1')] * 4 + [(10, '2001:db8::1')] * 3:
    c = socket.socket(family)
    try: c.connect((address, 8005))
    except OSError as e: failed[address] += e.errno == errno.ENETUNREACH
    c.close()
c = socket.create_connection(('127.0.0.1', 8005)); c.close()
print(*failed.values())";
    let measured = stat_command(&host, &["python3", "-c", &format!("{FATES}{script}")]);
    assert_eq!(measured.stdout.trim(), "4 3", "{}", measured.stderr);
    // One finding: neither of the two fares better.
    let expected = [("no-route", "192.0.2.1:8005", 7)];
    assert_eq!(failures(&measured.report), expected);
    let waits = measured.report["waits"].as_array().unwrap();
    let connects = |remote: &str| {
        let of = |wait: &&Value| wait["end"] == "no-route" && wait["remote"] == remote;
        waits.iter().filter(of).count()
    };
    assert_eq!(connects("192.0.2.1:8005"), 4);
    assert_eq!(connects("[2001:db8::1]:8005"), 3);
    let failed = &measured.report["connections"]["failed"];
    assert_eq!(failed["connect-failed"], 7);
}

/// Has a firewall of this network namespace drop all that is sent, as
///
///     nft add table inet filter
///     nft add chain inet filter out { type filter hook output priority 0 \; policy drop \; }
const DROPS: &str = "
chain = nested(4, attribute(1, 3), attribute(2, 0))
commit(add(0, attribute(1, 'filter')),
       add(3, attribute(1, 'filter'), attribute(3, 'out'), chain, attribute(5, 0),
           attribute(7, 'filter')))
";

/// Connects with a timeout of its own and with the kernel's, sends a datagram, and prints the
/// counts of its errors.
const KEPT: &str = "
import collections, socket, errno
met = collections.Counter()
def go(action):
    try: action()
    except OSError as e: met['timeout' if e.errno is None else errno.errorcode[e.errno]] += 1
for patience in [0.3, 0.3, None, None]:
    c = socket.socket(); c.settimeout(patience)
    go(lambda: c.connect(('127.0.0.1', 8005))); c.close()
c = socket.socket(2, 2)
for _ in range(3): go(lambda: c.sendto(b'who', ('127.0.0.1', 8006)))
print(met['timeout'], met['ETIMEDOUT'], met['EPERM'])
";

/// A firewall drops SYNs in silence: TCP sends them again, and nothing tells the program.
#[test]
fn what_a_firewall_of_this_host_drops_was_not_lost_on_the_way() {
    let host = Host::new("firewall").unwrap();
    host.run("sysctl", &["-qw", "net.ipv4.tcp_syn_retries=1"])
        .unwrap();
    host.run("python3", &["-c", &format!("{NETFILTER}{DROPS}")])
        .unwrap();
    let measured = stat_command(&host, &["python3", "-c", KEPT]);
    let expected = [
        ("denied", "127.0.0.1:8005", 4),
        ("denied", "127.0.0.1:8006", 3),
    ];
    assert_eq!(measured.stdout.trim(), "2 2 3", "{}", measured.stderr);
    let waits = measured.report["waits"].as_array().unwrap();
    let lost = &measured.report["lost"];
    assert_eq!(failures(&measured.report), expected, "{lost} {waits:?}");
    let connects = waits.iter().filter(|wait| wait["kind"] == "connect");
    let left = connects.map(|wait| number(&wait["evidence"]["syns"]));
    assert_eq!(left.collect::<Vec<_>>(), [0; 4]);
}

/// Asks a name server that is silent and ports that are closed; then sends statistics to nobody.
const DATAGRAMS: &str = "
import socket, time
silent = socket.socket(2, 2); silent.bind(('127.0.0.1', 53))
statistics = socket.socket(2, 2); statistics.bind(('127.0.0.1', 8125))
given_up = refused = 0; spent = 0.0
for _ in range(2):
    c = socket.socket(2, 2); c.connect(('127.0.0.1', 53)); c.settimeout(0.3)
    begun = time.monotonic(); c.send(b'who')
    try: c.recv(99)
    except TimeoutError: given_up += 1
    c.close(); spent += time.monotonic() - begun
for _ in range(3):
    c = socket.socket(2, 2); c.connect(('127.0.0.1', 8010)); c.send(b'who')
    try: c.recv(99)
    except ConnectionRefusedError: refused += 1
    c.close()
c = socket.socket(2, 2); c.connect(('127.0.0.1', 8125))
for _ in range(5): c.send(b'count:1'); time.sleep(0.03)
c.close()
print(given_up, refused, int(spent * 1e9))
";

#[test]
fn questions_over_udp_end_too_and_statistics_are_none() {
    let host = Host::new("datagrams").unwrap();
    within_attempts(|| {
        let measured = stat_command(&host, &["python3", "-c", DATAGRAMS]);
        let told: Vec<u64> = measured
            .stdout
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let [given_up, refused, waited] = told[..] else {
            panic!("{} {}", measured.stdout, measured.stderr);
        };
        assert_eq!([given_up, refused], [2, 3]);
        let expected = [
            ("given-up", "127.0.0.1:53", given_up),
            ("refused", "127.0.0.1:8010", refused),
        ];
        assert_eq!(failures(&measured.report), expected);
        let waits = measured.report["wall_time"]["waits"].as_array().unwrap();
        let [wait] = &waits[..1] else {
            panic!("{}", measured.report["wall_time"]);
        };
        assert_eq!(wait["peer"], "127.0.0.1:53");
        within_clock("the wait", number(&wait["ns"]), ms(590), waited)
    });
}

/// Asks a name server that is not there, and then one that is, by one socket without a peer: as
/// resolvers of proxies do.
const ASKS_IN_TURN: &str = "
import socket, sys, threading, time
there = socket.socket(2, 2); there.bind(('127.0.0.1', 53))
def answer():
    while True:
        name, asker = there.recvfrom(99); there.sendto(name + b'answer', asker)
threading.Thread(target=answer, daemon=True).start()
c = socket.socket(2, 2); given_up = answered = 0; spent = 0.0
for _ in range(3):
    begun = time.monotonic(); c.settimeout(0.3); c.sendto(b'who', (sys.argv[1], 53))
    try: c.recv(99)
    except TimeoutError: given_up += 1
    c.sendto(b'who', ('127.0.0.1', 53)); spent += time.monotonic() - begun
    c.settimeout(30); c.recv(99); answered += 1
print(given_up, answered, int(spent * 1e9))
";

/// A datagram to a host that is not there waits for the neighbour's address, and is a question too.
#[test]
fn questions_that_wait_for_a_neighbour_for_ever_are_given_up() {
    let (host, other) = (Host::new("asker").unwrap(), Host::new("empty").unwrap());
    let link = Link::veth(&host, &other).unwrap();
    let IpAddr::V4(there) = link.address_b(Family::V4) else {
        unreachable!("the link has addresses of both families")
    };
    let [a, b, c, _] = there.octets();
    let absent = format!("{a}.{b}.{c}.98");
    within_attempts(|| {
        let measured = stat_command(&host, &["python3", "-c", ASKS_IN_TURN, &absent]);
        let told: Vec<u64> = measured
            .stdout
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let [given_up, answered, waited] = told[..] else {
            panic!("{} {}", measured.stdout, measured.stderr);
        };
        assert_eq!([given_up, answered], [3, 3]);
        let service = format!("{absent}:53");
        assert_eq!(
            failures(&measured.report),
            [("given-up", service.as_str(), given_up)]
        );
        let waits = measured.report["waits"].as_array().unwrap();
        let lasted = waits.iter().filter(|wait| wait["end"] == "given-up");
        let lasted: u64 = lasted.map(|wait| number(&wait["lasted_ns"])).sum();
        within_clock("the waits", lasted, ms(890), waited)
    });
}

/// The first question is lost. The program waits by poll(2), and so reads nothing that is not
/// there.
const REPEATS: &str = "
import socket, threading, time
s = socket.socket(2, 2); s.bind(('127.0.0.1', 5354))
def serve():
    s.recvfrom(99); _, asker = s.recvfrom(99); s.sendto(b'known', asker)
threading.Thread(target=serve, daemon=True).start()
c = socket.socket(2, 2); c.connect(('127.0.0.1', 5354)); c.settimeout(1.5)
begun = time.monotonic(); c.send(b'q0')
try: c.recv(99)
except TimeoutError: pass
c.send(b'q1'); again = time.monotonic()
assert c.recv(99) == b'known'
print(int((again - begun) * 1e9))
";

/// Nothing tells that it is a question, and no datagram for a log, before the second one has its
/// answer.
#[test]
fn the_wait_for_a_lost_question_is_told_when_its_repetition_is_answered() {
    let host = Host::new("repeats").unwrap();
    within_attempts(|| {
        let measured = stat_command(&host, &["python3", "-c", REPEATS]);
        assert!(measured.status.success(), "{}", measured.stderr);
        let clock: u64 = measured.stdout.trim().parse().unwrap();
        let waits = measured.report["waits"].as_array().unwrap();
        let again = waits
            .iter()
            .find(|wait| wait["end"] == "asked-again" && wait["remote"] == "127.0.0.1:5354");
        let again = again.unwrap_or_else(|| panic!("{}", measured.report["waits"]));
        within_clock("the wait", number(&again["lasted_ns"]), ms(1490), clock)?;
        let waited = measured.report["wall_time"]["waits"].as_array().unwrap();
        assert_eq!(waited[0]["peer"], "127.0.0.1:5354", "{waited:?}");
        Ok(())
    });
}

/// Each question is asked by a socket of its own; one of them is lost, and asked again.
const BY_NEW_SOCKETS: &str = "
import select, socket, threading, time
s = socket.socket(2, 2); s.bind(('127.0.0.1', 5355))
def serve():
    for count in range(99):
        question, asker = s.recvfrom(99)
        if count != 3: s.sendto(b'known', asker)
threading.Thread(target=serve, daemon=True).start()
silent = [socket.socket(2, 2) for _ in range(2)]
for port, sink in enumerate(silent, 8126): sink.bind(('127.0.0.1', port))
def ask(question, port, wait):
    c = socket.socket(2, 2); c.connect(('127.0.0.1', port)); asked = time.monotonic()
    c.send(question); sent = time.monotonic()
    if select.select([c], [], [], wait)[0]: c.recv(99)
    c.close()
    return asked, sent
times = [ask(b'question', 5355, 0.6) for _ in range(6)]
for _ in range(3): ask(b'figures', 8126, 0.05); ask(b'others', 8127, 0.05)
print(int((times[4][1] - times[3][0]) * 1e9))
";

#[test]
fn a_question_that_a_new_socket_asks_again_is_told() {
    let host = Host::new("newsockets").unwrap();
    within_attempts(|| {
        let measured = stat_command(&host, &["python3", "-c", BY_NEW_SOCKETS]);
        assert!(measured.status.success(), "{}", measured.stderr);
        let clock: u64 = measured.stdout.trim().parse().unwrap();
        let waits = measured.report["waits"].as_array().unwrap();
        let again = waits.iter().filter(|wait| wait["end"] == "asked-again");
        let again: Vec<_> = again.collect();
        let [wait] = &again[..] else {
            panic!("{}", measured.report["waits"]);
        };
        assert_eq!(wait["remote"], "127.0.0.1:5355");
        within_clock("the wait", number(&wait["lasted_ns"]), ms(590), clock)
    });
}
