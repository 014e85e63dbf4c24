//! Between windows no program runs for a message. Root.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use sockstamp_bpf::plan::{Reads, Stamps};
use sockstamp_bpf::{Options, Session, Target};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::summary;
use testbed::{HeldSocket, Host, PATIENCE, within_attempts};

use self::common::account::Account;

mod common;

const ROUNDS: u64 = 200;
/// Gaps of 0.4 to 3 seconds.
const ONE_OF: u32 = 8;
/// Connections of which a walk comes to some before a locked one, and to others after it.
const MANY: usize = 8;

/// A host that is measured in windows.
struct Measured {
    host: Host,
    listener: TcpListener,
    /// Messages before the measurement.
    older: Vec<Connection>,
    session: Session,
}

impl Measured {
    /// `None` where this kernel allows no windows.
    fn start(test: &str) -> Option<Self> {
        Self::start_for(test, |host| {
            let inode = u32::try_from(host.netns_inode()).unwrap();
            vec![NetnsInode(inode)]
        })
    }

    fn start_for(test: &str, netns: impl Fn(&Host) -> Vec<NetnsInode>) -> Option<Self> {
        let host = Host::new("windows").unwrap();
        let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let older = (0..MANY).map(|_| Connection::open(&host, &listener));
        let older = older.collect();
        let options = Options {
            target: Target {
                netns: netns(&host),
                ..Target::default()
            },
            udp: false,
            ..Options::default()
        };
        let session = Session::start(&options).unwrap();
        let plan = session.plan();
        if plan.rx != Some(Reads::Tracepoints) || plan.tx != Some(Stamps::Callbacks) {
            let line = format!("SKIP {test}: no windows on this kernel\n");
            io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        }
        drop(session);
        let windows = Options {
            windows: NonZeroU32::new(ONE_OF),
            ..options
        };
        Some(Self {
            session: Session::start(&windows).unwrap(),
            host,
            listener,
            older,
        })
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.host, &self.listener)
    }

    fn windows(&self) -> summary::Windows {
        self.session.summary().windows.unwrap_or_default()
    }

    fn wait_until(&mut self, what: &str, mut reached: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !reached(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.windows());
            self.session
                .poll(Duration::from_millis(10), &mut drop)
                .unwrap();
        }
    }

    /// Wait until sockets give their bits back.
    fn wait_released(&mut self) {
        let before = self.windows().released;
        self.wait_until("a release", |measured| measured.windows().released > before);
    }
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn open(host: &Host, listener: &TcpListener) -> Self {
        let client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        Self { client, server }
    }

    fn exchange(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.client.write_all(&[1]).unwrap();
            self.server.read_exact(&mut [0]).unwrap();
            self.server.write_all(&[2]).unwrap();
            self.client.read_exact(&mut [0]).unwrap();
        }
    }
}

/// Return what ran for the messages of all rounds, rather than for connections of other programs of
/// this host.
fn of_messages(mut ran: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    ran.retain(|_, count| *count >= ROUNDS);
    ran
}

fn calls(ran: &BTreeMap<String, u64>) -> u64 {
    ran.get("on_sockops").copied().unwrap_or(0)
}

#[test]
fn messages_of_selected_flows_run_no_program_between_windows_and_count_in_the_next() {
    let name = "messages_of_selected_flows_run_no_program_between_windows";
    let Some(mut measured) = Measured::start(name) else {
        return;
    };
    let account = Account::open();
    let mut newer = None;
    // A machine that stands still comes to the messages when the next window has begun.
    within_attempts(|| {
        measured.wait_released();
        let ran = account.of(&measured.session, || measured.older[0].exchange(ROUNDS));
        let ran = of_messages(ran);
        if !ran.is_empty() {
            return Err(format!("{ran:?}"));
        }
        let newer = newer.insert(measured.connect());
        let ran = of_messages(account.of(&measured.session, || newer.exchange(ROUNDS)));
        match ran.is_empty() {
            true => Ok(()),
            false => Err(format!("of a connection that is new: {ran:?}")),
        }
    });
    let mut newer = newer.unwrap();
    let closed = measured.connect();
    drop(closed);
    let messages = measured.session.summary().tx.messages;
    // Each send calls again, of either.
    measured.wait_until("calls of the older connection", |measured| {
        let ran = account.of(&measured.session, || measured.older[0].exchange(ROUNDS));
        calls(&ran) >= 2 * ROUNDS
    });
    measured.wait_until("calls of the newer connection", |measured| {
        let ran = account.of(&measured.session, || newer.exchange(ROUNDS));
        calls(&ran) >= 2 * ROUNDS
    });
    measured.wait_until("messages", |measured| {
        newer.exchange(1);
        measured.session.summary().tx.messages > messages
    });
    assert_eq!(measured.session.summary().lost.not_adopted, 0);
}

/// The second walk need not be able to go where the first one did not.
#[test]
fn a_connection_keeps_its_bit_where_no_walk_came_to_a_socket() {
    let name = "a_connection_keeps_its_bit_where_no_walk_came_to_a_socket";
    let Some(mut measured) = Measured::start_for(name, |_| Vec::new()) else {
        return;
    };
    let account = Account::open();
    let other = Host::new("other").unwrap();
    measured.wait_released();
    let listener = other.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut connection = Connection::open(&other, &listener);
    let ran = account.of(&measured.session, || connection.exchange(ROUNDS));
    assert!(calls(&ran) >= 2 * ROUNDS, "{ran:?}");
}

/// A walk that cannot go on at a locked socket is the last one for minutes.
#[test]
fn a_locked_socket_keeps_the_bits_of_all_sockets_and_windows_go_on() {
    let name = "a_locked_socket_keeps_the_bits_of_all_sockets_and_windows_go_on";
    let Some(mut measured) = Measured::start(name) else {
        return;
    };
    let account = Account::open();
    let mut others = measured.older.split_off(1);
    let lock = HeldSocket::hold(measured.older[0].client.try_clone().unwrap()).unwrap();
    for _ in 0..2 {
        let before = measured.windows();
        measured.wait_until("two windows more", |measured| {
            measured.windows().count >= before.count + 2
        });
    }
    let before = measured.windows();
    for other in &mut others {
        let ran = account.of(&measured.session, || other.exchange(ROUNDS));
        assert!(calls(&ran) >= 2 * ROUNDS, "{ran:?}");
    }
    let messages = measured.session.summary().tx.messages;
    measured.wait_until("messages", |measured| {
        others[0].exchange(1);
        measured.session.summary().tx.messages > messages
    });
    assert_eq!(measured.windows().released, before.released);
    drop(lock);
}
