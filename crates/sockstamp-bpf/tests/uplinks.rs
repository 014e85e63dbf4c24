//! Test a container behind a host: tables without room. Root.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sockstamp_bpf::{Options, Session, Target};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::summary::Summary;
use testbed::{Family, Host, Uplink, UplinkHosts};

const REQUEST: [u8; 1000] = [1; 1000];

fn measure(setup: &UplinkHosts, options: Options, load: impl FnOnce()) -> Summary {
    let target = Target {
        netns: vec![NetnsInode(
            setup.container.netns_inode().try_into().unwrap(),
        )],
        ..Target::default()
    };
    let mut session = Session::start(&Options { target, ..options }).unwrap();
    load();
    session.settle(Duration::from_secs(5), &mut drop).unwrap();
    session.stop(&mut drop).unwrap()
}

/// Send one request on each of this many connections, all in flight at once.
fn send(setup: &UplinkHosts, connections: usize) {
    let address = SocketAddr::new(setup.uplink.peer_address(Family::V4), 0);
    let listener = setup.peer.tcp_listen(address).unwrap();
    let address = listener.local_addr().unwrap();
    let mut pairs: Vec<(TcpStream, TcpStream)> = (0..connections)
        .map(|_| {
            (
                setup.container.tcp_connect(address).unwrap(),
                listener.accept().unwrap().0,
            )
        })
        .collect();
    for (client, _) in &mut pairs {
        client.write_all(&REQUEST).unwrap();
    }
    for (_, server) in &mut pairs {
        server.read_exact(&mut REQUEST.clone()).unwrap();
    }
}

fn limit(setup: &UplinkHosts) {
    let device = setup.uplink.uplink_interface();
    let tbf = [
        "root", "tbf", "rate", "1mbit", "burst", "2kb", "limit", "1mb",
    ];
    setup
        .host
        .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
        .unwrap();
}

/// Check that each message was counted at the uplink, or found no room.
fn counted(setup: &UplinkHosts, summary: &Summary) {
    let device = setup.uplink.uplink_interface();
    let of = |name: &str| {
        let found = summary.interfaces.iter().find(|entry| {
            let interface = entry.interface.as_ref();
            interface.is_some_and(|interface| interface.name == name)
        });
        found.map_or(0, |entry| entry.messages)
    };
    // The first packets find the line free: one may be over before the next one comes.
    assert!(of(device) > 0 && summary.lost.host_path > 0, "{summary:?}");
    assert_eq!(
        of(setup.uplink.container_interface()),
        summary.lost.host_path
    );
    assert_eq!(of(device) + summary.lost.host_path, 5);
}

/// At 1 Mbit/s a request takes 8 ms, so that all of them are on their way at the same time.
#[test]
fn packets_without_room_are_counted_and_keep_the_stamp_of_the_container() {
    let setup = UplinkHosts::new(Uplink::routed);
    limit(&setup);
    let options = Options {
        host_path: true,
        paths: 1,
        ..Options::default()
    };
    let summary = measure(&setup, options, || send(&setup, 5));
    assert_eq!(summary.tx.total.count(), 5);
    counted(&setup, &summary);
}

/// As above, for datagrams.
#[test]
fn datagrams_without_room_are_counted_and_keep_the_stamp_of_the_container() {
    let setup = UplinkHosts::new(Uplink::routed);
    limit(&setup);
    let options = Options {
        host_path: true,
        paths: 1,
        on_demand: None,
        ..Options::default()
    };
    let bind = |host: &Host, address| host.udp_bind(SocketAddr::new(address, 0)).unwrap();
    let receiver = bind(&setup.peer, setup.uplink.peer_address(Family::V4));
    let sender = bind(&setup.container, setup.uplink.container_address(Family::V4));
    let summary = measure(&setup, options, || {
        for _ in 0..5 {
            let to = receiver.local_addr().unwrap();
            sender.send_to(&REQUEST, to).unwrap();
        }
        for _ in 0..5 {
            receiver.recv(&mut REQUEST.clone()).unwrap();
        }
    });
    assert_eq!(summary.tx.total.count(), 5, "{summary:?}");
    counted(&setup, &summary);
}

#[test]
fn interfaces_without_room_are_counted_together() {
    let setup = UplinkHosts::new(Uplink::bridged);
    let options = Options {
        interfaces: 1,
        ..Options::default()
    };
    let summary = measure(&setup, options, || send(&setup, 3));
    assert_eq!(summary.tx.total.count(), 3);
    let [other] = summary.interfaces.as_slice() else {
        panic!("{:?}", summary.interfaces);
    };
    assert_eq!(other.interface, None);
    assert_eq!(other.messages, 3);
}
