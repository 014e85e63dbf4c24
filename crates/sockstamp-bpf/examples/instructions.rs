//! Count the instructions of a TCP message while this measures, in a guest whose clock counts them:
//! one a nanosecond.
//!
//! Prints a line per row: name, instructions per message, programs run per message; `lacking` where
//! the kernel has not what the row is about. Both ends are in one thread, over loopback, as in
//! `kernel/series/count`: a message is sent, acknowledged and read. Root.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use sockstamp_bpf::plan::Entry;
use sockstamp_bpf::{EntryHook, Error, Hooks, Options, Sampling, Session, Target};
use sockstamp_host::cgroup;

const MESSAGE: [u8; 64] = [1; 64];
/// Messages before the first that count, so that the connection's window has grown.
const WARM_UP: u64 = 200;
/// Messages of a batch, and batches, of which the median counts.
const BATCH: u64 = 200;
const BATCHES: usize = 5;
/// The kernel's account of runs costs instructions itself.
const ACCOUNT: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn main() -> Result<(), Error> {
    report("sockstamp.nothing", Some(count(None)));
    for (name, options) in rows() {
        let counted = match Session::start(&options) {
            Ok(session) => Some(count(Some(&session))),
            Err(Error::Plan(_)) => None,
            Err(error) => return Err(error),
        };
        report(name, counted);
    }
    Ok(())
}

fn rows() -> Vec<(&'static str, Options)> {
    let by = |entry| Options {
        entry: EntryHook::By(entry),
        ..selected()
    };
    vec![
        ("sockstamp.unselected", unselected()),
        (
            "sockstamp.passed-over",
            Options {
                sampling: Sampling::OneIn(u32::MAX),
                ..selected()
            },
        ),
        ("sockstamp.measured", selected()),
        (
            "sockstamp.recorded",
            Options {
                record: true,
                ..selected()
            },
        ),
        ("sockstamp.entry-by-tracepoint", by(Entry::Tracepoint)),
        ("sockstamp.entry-by-option-length", by(Entry::Callback)),
        ("sockstamp.entry-by-callback", by(Entry::Begin)),
        (
            "sockstamp.by-fentry",
            Options {
                hooks: Hooks::Older,
                ..selected()
            },
        ),
        (
            "sockstamp.by-fentry.unselected",
            Options {
                hooks: Hooks::Older,
                ..unselected()
            },
        ),
    ]
}

/// Measure every flow, this process's among them.
fn selected() -> Options {
    with(Target {
        cgroup: cgroup::mount(),
        ..Target::default()
    })
}

/// Measure none.
fn unselected() -> Options {
    with(Target {
        comms: vec!["no such task".into()],
        ..Target::default()
    })
}

fn with(target: Target) -> Options {
    Options {
        target,
        ..Options::default()
    }
}

/// Return instructions and program runs per message.
fn count(session: Option<&Session>) -> (u128, f64) {
    let mut connection = connect();
    pass(&mut connection, WARM_UP);
    let mut batches = [(); BATCHES].map(|()| {
        let begun = Instant::now();
        pass(&mut connection, BATCH);
        begun.elapsed().as_nanos() / u128::from(BATCH)
    });
    batches.sort_unstable();
    (
        batches[BATCHES / 2],
        session.map_or(0.0, |session| runs(session, &mut connection)),
    )
}

fn connect() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (server, _) = listener.accept().expect("the connection");
    client.set_nodelay(true).expect("TCP_NODELAY");
    (client, server)
}

fn pass((from, to): &mut (TcpStream, TcpStream), messages: u64) {
    let mut buffer = MESSAGE;
    for _ in 0..messages {
        from.write_all(&MESSAGE).expect("a send");
        to.read_exact(&mut buffer).expect("a read");
    }
}

fn runs(session: &Session, connection: &mut (TcpStream, TcpStream)) -> f64 {
    fs::write(ACCOUNT, "1").expect("root");
    let before = runs_so_far(session);
    pass(connection, BATCH);
    let runs = runs_so_far(session) - before;
    fs::write(ACCOUNT, "0").expect("root");
    runs as f64 / BATCH as f64
}

/// `bpf_prog_show_fdinfo()`, kernel/bpf/syscall.c, v6.18.
fn runs_so_far(session: &Session) -> u64 {
    let of = |descriptor| {
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).expect("an account");
        let count = text.lines().find_map(|line| line.strip_prefix("run_cnt:"));
        count
            .and_then(|count| count.trim().parse::<u64>().ok())
            .expect("a count")
    };
    let programs = session.programs().into_iter();
    programs.map(|(_, program)| of(program.as_raw_fd())).sum()
}

fn report(name: &str, counted: Option<(u128, f64)>) {
    let line = match counted {
        Some((instructions, runs)) => format!("{name:<34} {instructions:>7} {runs:>8.3}\n"),
        None => format!("{name:<34} lacking\n"),
    };
    io::stdout().write_all(line.as_bytes()).expect("output");
}
