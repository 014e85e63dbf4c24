//! Every hook of a plan, once by connections and datagrams of both IP versions.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use sockstamp_bpf::plan::{Obstacle, Reason};
use sockstamp_bpf::{Error, Hooks, Options, Session, Target};
use testbed::{Direction, Family, Host, Link, LinkConfig};

use crate::common::account::{Account, Runs};
use crate::{DATAGRAMS, REQUEST, pass};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// On each connection, and as many answers.
const REQUESTS: u64 = 100;
/// Sends of TCP, and reads, that come one by one.
const MESSAGES: u64 = 2 * REQUESTS * FAMILIES.len() as u64;

#[test]
fn every_hook_of_the_best_plan_runs() {
    every_hook_runs(Hooks::Best);
}

#[test]
fn every_hook_of_the_plan_for_older_kernels_runs() {
    every_hook_runs(Hooks::Older);
}

fn every_hook_runs(hooks: Hooks) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default()).unwrap();
    let account = Account::open();
    let options = Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        hooks,
        host_path: true,
        on_demand: None,
        ..Options::default()
    };
    let mut session = match Session::start(&options) {
        Err(Error::Plan(Obstacle::NothingToMeasure {
            reason: reason @ Reason::NeedsOrFentry(_),
            ..
        })) if hooks == Hooks::Older => {
            let line = format!("SKIP every_hook_of_the_plan_for_older_kernels_runs: {reason}\n");
            io::stderr().write_all(line.as_bytes()).unwrap();
            return;
        }
        started => started.unwrap(),
    };
    for family in FAMILIES {
        converse(&client, &server, &link, family);
        datagrams(&client, &server, &link, family);
    }
    session.settle(Duration::from_secs(2), &mut drop).unwrap();
    let runs = account.runs(&session);
    let summary = session.stop(&mut drop).unwrap();

    for (program, Runs { count, missed }) in &runs {
        println!("{program}: {count} runs, {missed} missed");
    }
    for (program, Runs { count, missed }) in &runs {
        let least = least(program);
        assert!(
            count + missed >= least,
            "{program} ran {count} times, not {least}"
        );
    }
    assert!(summary.tx.messages >= MESSAGES && summary.rx.messages >= MESSAGES);
    assert_eq!(summary.lost.flows, 0);
}

/// Return how often a program must run at least for the traffic of this test. Other processes add
/// some.
fn least(program: &str) -> u64 {
    let connections = FAMILIES.len() as u64;
    match program {
        // Signals are few.
        "on_signal_deliver" => 0,
        // The addresses of next hops are known.
        "on_neigh_event_send" | "on_neigh_update" => 0,
        // SENDMSG, SCHED, SND and ACK.
        "on_sockops" | "on_series" => 4 * MESSAGES,
        // Count both ends, and before that the end that connects.
        "on_connections" => 3 * connections,
        "on_tcp_sendmsg_locked" | "on_sendmsg_begun" | "on_sendmsg_ended" | "on_push" => MESSAGES,
        "on_sock_send_length" | "on_sock_recv_length" => MESSAGES + 2 * DATAGRAMS * connections,
        // No part goes out of a file.
        "on_sendpages_begun" | "on_sendpages_ended" => 0,
        "on_wait_begun" | "on_wait_ended" | "on_tcp_retransmit_skb" => connections,
        "on_kfree_skb" | "on_packet_dropped" => connections,
        "on_tcp_probe" | "on_sk_data_ready" | "on_sock_def_readable" | "on_recvmsg_ended" => {
            MESSAGES
        }
        // The handshake at either end, and data after the FIN.
        "on_rcv_state_process" => 3 * connections,
        // Established and closed, of both ends.
        "on_inet_sock_set_state" => 4 * connections,
        "on_net_dev_queue" | "on_net_dev_start_xmit" | "on_host_xmit" | "on_cgroup_ingress" => {
            MESSAGES
        }
        "on_consume_skb" | "on_host_ingress" | "on_host_queue" => MESSAGES,
        "on_sock_create" | "on_sock_release" => 2 * connections,
        // One of TCP each, of the IP version that the client speaks.
        "on_connect4" | "on_connect6" => 1,
        // One accept each, of the IP version that the listener speaks.
        "on_getpeername4" | "on_getpeername6" => 1,
        "on_sendmsg4" | "on_sendmsg6" => 2 * DATAGRAMS,
        "on_udp_send_begun" | "on_udp_send_ended" => 2 * DATAGRAMS,
        "on_udpv6_send_begun" | "on_udpv6_send_ended" => 2 * DATAGRAMS,
        "on_datagram" | "on_datagram_queued" | "on_datagram_read" => 2 * DATAGRAMS * connections,
        other => panic!("no number of runs is stated for {other}"),
    }
}

/// Use one connection: requests and answers, then events that make rarer hooks run.
fn converse(client: &Host, server: &Host, link: &Link, family: Family) {
    let listener = server
        .tcp_listen(SocketAddr::new(link.address_b(family), 0))
        .unwrap();
    let mut client = client.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for socket in [&client, &server] {
        socket.set_nodelay(true).unwrap();
    }
    for _ in 0..REQUESTS {
        pass(&mut client, &mut server);
        pass(&mut server, &mut client);
    }
    link.lose_next_data(Direction::AToB, 1).unwrap();
    pass(&mut client, &mut server);
    fill_the_send_buffer(&mut client, &mut server);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    pass(&mut server, &mut client);
}

/// Send more than both buffers hold, while no task reads.
fn fill_the_send_buffer(from: &mut TcpStream, to: &mut TcpStream) {
    let bytes = vec![1; 32 << 20];
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            to.read_exact(&mut vec![0; bytes.len()]).unwrap();
        });
        from.write_all(&bytes).unwrap();
    });
}

/// Send datagrams and answers by unconnected sockets, and one to an unused port, which the kernel
/// drops.
fn datagrams(client: &Host, server: &Host, link: &Link, family: Family) {
    let any = match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    let client = client.udp_bind(SocketAddr::new(any, 0)).unwrap();
    let bound = server
        .udp_bind(SocketAddr::new(link.address_b(family), 0))
        .unwrap();
    let address = bound.local_addr().unwrap();
    let mut buffer = REQUEST;
    for _ in 0..DATAGRAMS {
        client.send_to(&REQUEST, address).unwrap();
        let (_, from) = bound.recv_from(&mut buffer).unwrap();
        bound.send_to(&REQUEST, from).unwrap();
        client.recv_from(&mut buffer).unwrap();
    }
    drop(bound);
    client.send_to(&REQUEST, address).unwrap();
}
