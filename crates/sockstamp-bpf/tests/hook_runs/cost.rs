//! Calls that the kernel leaves out, and the cost of a refused read.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sockstamp_bpf::plan::Datagrams;
use sockstamp_bpf::{Options, Session, Target};
use sockstamp_model::flow::NetnsInode;
use testbed::{Host, PATIENCE};

use crate::common::account::Account;

/// A packet may come while the program for the one before runs on that CPU. Here readers work on
/// packets that came while they had the socket's lock, with interrupts on, and the other CPU sends
/// to this one.
#[test]
fn calls_that_the_kernel_leaves_out_are_counted() {
    let host = Host::new("host").unwrap();
    let script = format!(
        "ip netns exec {} sh -c 'echo 3 > /sys/class/net/lo/queues/rx-0/rps_cpus'",
        host.netns_name()
    );
    host.run("sh", &["-c", &script]).unwrap();
    let target = Target {
        pids: vec![std::process::id()],
        ..Target::default()
    };
    let account = Account::open();
    let options = Options {
        target,
        ..Options::default()
    };
    let mut session = Session::start(&options).unwrap();
    // The kernel leaves no run of a cgroup's program out.
    if session.plan().reads_call_back() {
        let line = b"SKIP calls_that_the_kernel_leaves_out_are_counted: no tracing program runs for reads\n";
        io::stderr().write_all(line).unwrap();
        return;
    }
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            let enough = &enough;
            scope.spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    client.write_all(&[1; 1 << 16]).unwrap();
                }
            });
            scope.spawn(move || while server.read(&mut [0; 1 << 16]).unwrap() > 0 {});
        }
        let begun = Instant::now();
        while session.summary().lost.skipped == 0 && begun.elapsed() < PATIENCE {
            session.poll(Duration::from_millis(50), &mut drop).unwrap();
        }
        println!("after {:?}", begun.elapsed());
        enough.store(true, Ordering::Relaxed);
    });
    let skipped = session.summary().lost.skipped;
    let missed: u64 = account
        .runs(&session)
        .values()
        .map(|runs| runs.missed)
        .sum();
    println!(
        "{:?}",
        account
            .runs(&session)
            .iter()
            .filter(|(_, runs)| runs.missed > 0)
            .collect::<Vec<_>>()
    );
    assert!(skipped > 0);
    assert_eq!(skipped, missed);
}

/// Datagrams that came before the start are unknown: their reads search the next one among all
/// unread ones.
#[test]
fn a_refused_read_costs_little_more_than_a_measured_one_where_many_datagrams_are_unread() {
    /// Together they fit into the receive buffer of every kernel.
    const EARLIER: u64 = 30;
    const LATER: u64 = 100;
    let host = Host::new("host").unwrap();
    let bind = || host.udp_bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let (sender, reader) = (bind(), bind());
    sender.connect(reader.local_addr().unwrap()).unwrap();
    reader
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let send = |count| (0..count).for_each(|_| assert_eq!(sender.send(&[7; 10]).unwrap(), 10));
    send(EARLIER);
    let options = Options {
        target: Target {
            netns: vec![NetnsInode(u32::try_from(host.netns_inode()).unwrap())],
            ..Target::default()
        },
        on_demand: None,
        ..Options::default()
    };
    let session = Session::start(&options).unwrap();
    send(LATER);
    let _account = Account::open();
    let read = |count| {
        let before = cost_of_reads(&session);
        (0..count).for_each(|_| assert_eq!(reader.recv(&mut [0; 10]).unwrap(), 10));
        (cost_of_reads(&session) - before) / count
    };
    let (refused, measured) = (read(EARLIER), read(LATER));
    let summary = session.stop(&mut drop).unwrap();
    println!("{refused} ns, {measured} ns; {:?}", summary.verdicts);
    assert!(summary.rx.messages >= EARLIER + LATER);
    assert!(refused < 10 * measured, "{refused} ns, {measured} ns");
}

/// Return the nanoseconds that the program at the end of reads of UDP has run.
fn cost_of_reads(session: &Session) -> u64 {
    let costs = session.costs().into_iter();
    let program = match session.plan().udp {
        Ok(Datagrams::Callbacks { .. }) => "on_series",
        Ok(Datagrams::Tracepoints) => "on_sock_recv_length",
        _ => "on_datagram_read",
    };
    let of_reads = costs.filter(|(name, _)| name == program);
    of_reads.map(|(_, cost)| cost.time.0).sum()
}
