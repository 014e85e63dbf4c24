//! Test the limits of the state of connections.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use testbed::{Family, Host, Link};
use with::traced_hosts::{Connection, Messages, wait_acknowledged};
use with::{Stat, Trace, number};

fn exchange(connection: &mut Connection) {
    connection.client.write_all(&[0; 100]).unwrap();
    connection.server.read_exact(&mut [0; 100]).unwrap();
}

#[test]
fn connections_beyond_the_limit_are_counted_and_those_that_end_make_room() {
    let host = Host::new("corner").unwrap();
    let connect = || Connection::new(&host, &host, [127, 0, 0, 1].into());
    // Both ends of a connection are flows.
    let stat = Stat::start(&["--netns", host.netns_name(), "--max-flows", "4"]);
    let mut connections: Vec<_> = (0..4).map(|_| connect()).collect();
    connections.iter_mut().for_each(exchange);
    drop(connections);
    exchange(&mut connect());

    let report = stat.finish();
    assert_eq!(number(&report["lost"]["turned_away"]), 4, "{report}");
    for direction in ["tx", "rx"] {
        assert_eq!(number(&report[direction]["messages"]), 3, "{report}");
    }
}

#[test]
fn arrivals_without_memory_are_evicted_and_counted_and_their_reads_refused() {
    const BEHIND: usize = 40;
    const PILE: usize = 60;
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let connect = || Connection::new(&client, &server, link.address_b(Family::V4));
    // Room for 32 of them.
    let target = ["--netns", server.netns_name(), "--max-memory", "1"];
    let trace = Trace::start(&target);
    let stat = Stat::start(&target);
    // These take all elements that there are.
    let behind: Vec<_> = (0..BEHIND).map(|_| connect()).collect();
    behind
        .iter()
        .for_each(|connection| pile(connection, 10, Duration::ZERO));
    let mut last = connect();
    pile(&last, PILE, Duration::from_millis(10));
    for _ in 0..PILE {
        last.server.read_exact(&mut [0; 10]).unwrap();
    }

    let evicted = number(&stat.finish()["lost"]["evicted"]);
    let messages = Messages::new(trace.finish());
    let read = messages.read_at(last.server_address);
    let refused = read
        .iter()
        .filter(|read| read.verdict() == "evicted")
        .count();
    println!("{evicted} evicted, {refused} of {} refused", read.len());
    assert!(
        evicted > 0 && refused > 0 && refused < read.len(),
        "{read:?}"
    );
    assert!(
        read.iter()
            .all(|read| ["valid", "evicted"].contains(&read.verdict())),
        "{read:?}"
    );
}

/// Send messages of ten bytes that their reader leaves unread.
fn pile(connection: &Connection, messages: usize, apart: Duration) {
    for _ in 0..messages {
        (&connection.client).write_all(&[0; 10]).unwrap();
        wait_acknowledged(&connection.client);
        thread::sleep(apart);
    }
}

#[test]
fn readers_that_end_with_unread_data_give_its_memory_back() {
    readers_end_with_unread_data(&[], 2);
}

#[test]
fn readers_of_tcp_alone_that_end_with_unread_data_give_its_memory_back() {
    readers_end_with_unread_data(&["tcp"], 1);
}

/// One reader in `part` closes after the peer has reset the connection, the others before.
fn readers_end_with_unread_data(filter: &[&str], part: usize) {
    const BEHIND: usize = 40;
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let connect = || Connection::new(&client, &server, link.address_b(Family::V4));
    // Room for 32 of them.
    let target = ["--netns", server.netns_name(), "--max-memory", "1"];
    let stat = Stat::start(&[target.as_slice(), filter].concat());
    let behind: Vec<_> = (0..BEHIND).map(|_| connect()).collect();
    behind
        .iter()
        .for_each(|connection| pile(connection, 10, Duration::ZERO));
    for (number, connection) in behind.into_iter().enumerate() {
        let Connection { client, server, .. } = connection;
        if number % part == 0 {
            SockRef::from(&client)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            drop(client);
        }
        drop(server);
    }
    // A measured socket frees what is left at its address: others take these.
    let _others: Vec<_> = (0..300)
        .map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap())
        .collect();
    let last = connect();
    // So far apart that they are not merged.
    pile(&last, 60, Duration::from_millis(10));
    let lost = &stat.finish()["lost"];
    assert_eq!(number(&lost["evicted"]), 0, "{lost}");
}

#[test]
fn udp_sockets_beyond_the_limits_are_counted_and_those_that_are_closed_make_room() {
    /// In half of a megabyte; the state of each takes 8 kB.
    const ROOM: usize = 64;
    for limit in [["--max-flows", "64"], ["--max-memory", "1"]] {
        let host = Host::new("corner").unwrap();
        let socket = || host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let stat =
            Stat::start(&[&["--netns", host.netns_name()], limit.as_slice(), &["udp"]].concat());
        let reader = socket();
        let send = || {
            let sender = socket();
            sender
                .send_to(&[0; 10], reader.local_addr().unwrap())
                .unwrap();
            reader.recv(&mut [0; 10]).unwrap();
            sender
        };
        let senders: Vec<_> = (0..ROOM + 2).map(|_| send()).collect();
        drop(senders);
        let again: Vec<_> = (0..ROOM - 1).map(|_| send()).collect();
        drop(again);

        let report = stat.finish();
        assert_eq!(
            number(&report["lost"]["turned_away"]),
            3,
            "{limit:?}: {report}"
        );
        assert_eq!(
            number(&report["tx"]["messages"]),
            2 * (ROOM as u64 - 1),
            "{limit:?}: {report}"
        );
        assert_eq!(
            number(&report["rx"]["messages"]),
            2 * ROOM as u64 + 1,
            "{limit:?}: {report}"
        );
    }
}
