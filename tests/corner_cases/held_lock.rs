//! Connections whose lock a task holds and does not release.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{HeldSocket, Host, LinkConfig, within_attempts};
use with::bits::{ROUNDS, calls_of_others, selects_by_bit};
use with::traced_hosts::{Connection, Wire, wait_acknowledged};
use with::{Stat, number, wait_until};

/// Longest time of ending on a busy machine, beyond the two seconds of waiting for a locked socket.
const SOON: Duration = Duration::from_secs(20);

/// Longest time that a locked socket adds: one wait each at the start and at the end, and what a
/// busy machine adds to them.
const ADDED: Duration = Duration::from_secs(10);

/// A host with a connection that exists before the measurement.
struct Older {
    host: Host,
    listener: TcpListener,
    connection: Connection,
}

impl Older {
    fn new() -> Older {
        let host = Host::new("held").unwrap();
        let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let connection = Connection::to(&host, &listener, Ipv4Addr::LOCALHOST.into());
        Older {
            host,
            listener,
            connection,
        }
    }

    fn hold(&self) -> HeldSocket {
        HeldSocket::hold(self.connection.client.try_clone().unwrap()).unwrap()
    }

    fn stat(&self) -> Stat {
        Stat::start(&["--netns", self.host.netns_name()])
    }
}

/// The readers of walks that sleep until a lock is released, which init has inherited. Walks of
/// other programs that measure come to this socket, too: theirs do not count.
fn left_behind(of: &Host) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let is_ours = |process: &Path| {
        let arguments = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        arguments
            .split('\0')
            .any(|argument| argument == of.netns_name())
    };
    let sleeps = |process: &Path| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.contains(" (sockstamp) D 1 ")
    };
    let paths = processes.map(|process| process.path());
    paths.filter(|path| is_ours(path) && sleeps(path)).count()
}

/// One byte from the client to the server.
fn pass(connection: &mut Connection) {
    connection.client.write_all(&[1]).unwrap();
    connection.server.read_exact(&mut [0]).unwrap();
}

fn talk(connection: &mut Connection) {
    pass(connection);
    wait_acknowledged(&connection.client);
}

#[test]
fn a_locked_socket_delays_neither_the_start_nor_the_end_of_stat() {
    let older = Older::new();
    let begun = Instant::now();
    older.stat().finish();
    let free = begun.elapsed();
    within_attempts(|| {
        let lock = older.hold();
        let begun = Instant::now();
        let stat = older.stat();
        talk(&mut Connection::to(
            &older.host,
            &older.listener,
            Ipv4Addr::LOCALHOST.into(),
        ));
        let report = stat.finish();
        let locked = begun.elapsed();
        // One walk of the start, of several, and the last one, which takes the marks off, unless
        // walks of other programs wait there in their place.
        let behind = left_behind(&older.host);
        assert!(behind <= 2, "{behind} processes stay behind");
        drop(lock);
        wait_until("nobody stays behind", || left_behind(&older.host) == 0);
        // Two ends of the older connection; the kernel may come to the one first that is not
        // locked.
        let [adopted, missed] = [&report["adopted"], &report["lost"]["not_adopted"]].map(number);
        assert!(missed >= 1 && adopted + missed == 2, "{report}");
        assert_eq!(number(&report["tx"]["messages"]), 1, "{report}");
        match locked < 2 * free + ADDED {
            true => Ok(()),
            false => Err(format!("{locked:?}, and {free:?} without a lock")),
        }
    });
}

/// The kernel lets no walk go on before the lock is released, and ends none that waits.
#[test]
fn however_many_measure_while_a_socket_is_locked_few_stay_behind() {
    const MOST: usize = 3;
    let older = Older::new();
    let lock = older.hold();
    let said: Vec<_> = (0..MOST)
        .map(|_| {
            let mut command = Command::new(with::sockstamp());
            let arguments = ["stat", "--duration", "100ms", "--format", "json", "--netns"];
            command.args(arguments).arg(older.host.netns_name());
            let output = command.output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let [adopted, missed] =
                [&report["adopted"], &report["lost"]["not_adopted"]].map(number);
            assert!(missed >= 1 && adopted + missed == 2, "{report}");
            String::from_utf8(output.stderr).unwrap()
        })
        .collect();
    let behind = left_behind(&older.host);
    assert!(behind <= MOST, "{behind} processes stay behind");
    for said in &said {
        let why = "existing connections are not measured: a task does not release the lock of one";
        assert!(said.contains(why), "{said}");
    }
    let last = said.last().unwrap();
    assert!(
        last.contains("sockets stay marked until they are closed"),
        "{last}"
    );
    drop(lock);
    wait_until("nobody stays behind", || left_behind(&older.host) == 0);
    let report = older.stat().finish();
    assert_eq!(number(&report["adopted"]), 2, "{report}");
}

#[test]
fn the_bit_of_a_locked_socket_is_taken_back_when_the_lock_is_released() {
    if !selects_by_bit(
        "held_lock::the_bit_of_a_locked_socket_is_taken_back_when_the_lock_is_released",
    ) {
        return;
    }
    let mut older = Older::new();
    let stat = older.stat();
    let lock = older.hold();
    let stopped = Instant::now();
    let report = stat.finish();
    assert!(stopped.elapsed() < SOON, "{:?}", stopped.elapsed());
    assert_eq!(number(&report["adopted"]), 2, "{report}");
    drop(lock);
    wait_until("the bit is gone", || {
        // At once: sockets of other programs that measure have calls of their own.
        let calls = calls_of_others(|| (0..ROUNDS).for_each(|_| pass(&mut older.connection)));
        calls < ROUNDS as u64
    });
}

#[test]
fn a_connection_that_is_released_after_the_start_is_not_adopted_late() {
    let mut older = Older::new();
    let lock = older.hold();
    let stat = older.stat();
    drop(lock);
    older.connection.server.read_exact(&mut [0; 4096]).unwrap();
    (0..ROUNDS).for_each(|_| talk(&mut older.connection));
    let report = stat.finish();
    let [adopted, missed] = [&report["adopted"], &report["lost"]["not_adopted"]].map(number);
    assert!(missed >= 1 && adopted + missed == 2, "{report}");
    assert_eq!(number(&report["tx"]["messages"]), 0, "{report}");
}

/// An ACK that comes while a task has the lock waits in the socket's backlog.
#[test]
fn an_ack_has_the_time_when_it_came_however_late_tcp_looks_at_it() {
    const ONE_WAY: Duration = Duration::from_millis(250);
    const HELD: Duration = Duration::from_secs(2);
    const BYTES: usize = 100;
    let wire = Wire::new(LinkConfig::default().delay(ONE_WAY));
    let mut connection = wire.connect();
    connection.client.write_all(&[7; BYTES]).unwrap();
    let lock = HeldSocket::hold(connection.client.try_clone().unwrap()).unwrap();
    thread::sleep(HELD);
    drop(lock);
    connection.server.read_exact(&mut [0; BYTES]).unwrap();
    wait_acknowledged(&connection.client);
    let messages = wire.finish();
    let sent = messages.sent_from(connection.client_address);
    let message = sent
        .iter()
        .find(|message| message.bytes() == BYTES as u64)
        .unwrap();
    assert_eq!(message.verdict(), "valid", "{message:?}");
    let network = message.stage("tx.network");
    assert!((2 * ONE_WAY..HELD).contains(&network), "{message:?}");
}
