//! `--tag`, compared with tcpdump on both hosts: which segments carry a tag, its content, and the
//! effect of a middlebox between the hosts.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;
use testbed::{Experiments, Family};
use with::capture::{Capture, Packet};
use with::number;
use with::recording::messages;
use with::tagged::{Hosts, MESSAGES, exchange, figures_of, joined_messages, stop, tagged};

/// Added to the first host's numbers: no multiple of 2^11, and beyond the half of all numbers.
pub(crate) const SHIFT: u32 = 0x8765_4321;

/// Addresses and sequence numbers are rewritten: only tags can show which messages are the same.
#[test]
fn messages_are_joined_through_a_middlebox_that_rewrites_numbers() {
    let hosts = Hosts::new();
    hosts.link.translate().unwrap();
    hosts.link.shift_sequence(SHIFT).unwrap();

    let recorders = [0, 1].map(|host| hosts.record(host, &[]));
    exchange(&mut hosts.connect(), MESSAGES);
    recorders
        .into_iter()
        .for_each(|recorder| drop(stop(recorder)));
    let blind = hosts.join(&["--nat"]);
    assert!(blind["directions"][0]["total"]["count"] == 0, "{blind}");

    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    let captures = hosts.capture();
    exchange(&mut hosts.connect(), MESSAGES);
    let packets = captures.map(Capture::finish);
    let figures = recorders.map(figures_of);
    for figure in &figures {
        assert_eq!([figure("written"), figure("read")], [1, 1]);
        assert_eq!([figure("changed"), figure("sent again")], [0, 0]);
    }
    let joined = hosts.join(&["--nat"]);
    println!("not joined: {}", joined["not_joined"]);
    for count in joined_messages(&joined) {
        // Each has a weight of about three.
        assert!(count > MESSAGES as u64 * 7 / 10, "{joined}");
    }
    let missing = joined["not_joined"].as_object().unwrap();
    let missing: u64 = missing.values().map(number).sum();
    assert!(missing <= 4, "{joined}");

    numbers_are_the_senders(&packets, &hosts);
}

/// Compare tags and recordings with what tcpdump saw on both ends.
fn numbers_are_the_senders(packets: &[Vec<Packet>; 2], hosts: &Hosts) {
    for sender in [0, 1] {
        // Each direction, by its sender: only the server has port 7000.
        let from_sender = |packet: &&Packet| (packet.source.port() == 7000) == (sender == 1);
        let of_wire = |host: usize| {
            let sent: Vec<_> = packets[host].iter().filter(from_sender).cloned().collect();
            sent
        };
        let (here, there) = (of_wire(sender), of_wire(1 - sender));
        let (tags, seen) = (tagged(&here), tagged(&there));
        assert_eq!((tags.len(), seen.len()), (1, 1), "{tags:?} {seen:?}");
        let (written, seen) = (tags[0].tcp.unwrap(), seen[0].tcp.unwrap());
        println!("host {sender}: {written:?}, seen as {seen:?}");
        assert_eq!(written.tag, Some(written.seq));
        assert_eq!(seen.tag, written.tag);
        assert_eq!(
            seen.seq.wrapping_sub(written.seq),
            if sender == 0 { SHIFT } else { 0 }
        );
        // The first segment with data, not one of the handshake.
        let first = here.iter().find(|packet| packet.length > 0).unwrap();
        assert_eq!(first.tcp.unwrap().seq, written.seq);
        let ends: BTreeSet<u32> = here
            .iter()
            .map(|packet| packet.tcp.unwrap().seq.wrapping_add(packet.length))
            .collect();
        let rows = messages(&hosts.path(1 - sender));
        let is_read = |row: &&Message| row.direction == Direction::Rx && !row.is_connection();
        let read: Vec<_> = rows.iter().filter(is_read).collect();
        assert!(read.len() > MESSAGES / 5, "{}", read.len());
        for row in read {
            assert!(
                ends.contains(&row.seq_end),
                "{} is none of the sender's",
                row.seq_end
            );
        }
    }
}

/// A tag that contradicts an earlier one is counted: the numbers of one of them are wrong.
#[test]
fn tags_that_contradict_each_other_are_counted() {
    let hosts = Hosts::new();
    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    let mut ends = hosts.connect();
    exchange(&mut ends, 10);
    let [first, second] = recorders;
    drop(stop(second));
    thread::sleep(Duration::from_millis(1_100));
    hosts.link.treat_experiments(Experiments::Alter).unwrap();
    let newcomer = hosts.record(1, &["--tag"]);
    exchange(&mut ends, MESSAGES);
    let [first, newcomer] = [first, newcomer].map(figures_of);
    assert_eq!([first("read"), first("changed")], [2, 1]);
    assert_eq!([newcomer("read"), newcomer("changed")], [1, 0]);
}

/// A host without sockstamp sends no tags, and gets one tag per connection.
#[test]
fn a_peer_that_is_silent_gets_one_tag() {
    let hosts = Hosts::new();
    let recorder = hosts.record(0, &["--tag"]);
    let captures = hosts.capture();
    let mut ends = hosts.connect();
    exchange(&mut ends, MESSAGES);
    thread::sleep(Duration::from_millis(1_100));
    exchange(&mut ends, MESSAGES);
    let packets = captures.map(Capture::finish);
    let figure = figures_of(recorder);
    assert_eq!(
        [figure("written"), figure("read"), figure("sent again")],
        [1, 0, 0]
    );
    assert_eq!(tagged(&packets[1]).len(), 1);
}

/// Both ends learn the numbers of a connection that is older than either, whichever measures first.
#[test]
fn a_tag_tells_each_newcomer_the_numbers_of_an_older_connection() {
    let hosts = Hosts::over(Family::V6);
    hosts.link.shift_sequence(SHIFT).unwrap();
    let mut ends = hosts.connect();
    exchange(&mut ends, 10);
    let first = hosts.record(0, &["--tag"]);
    exchange(&mut ends, 10);
    // A tag is answered a second after the last tag.
    thread::sleep(Duration::from_millis(1_100));
    let second = hosts.record(1, &["--tag"]);
    exchange(&mut ends, MESSAGES);
    let figures = [first, second].map(figures_of);
    assert_eq!([figures[0]("written"), figures[0]("read")], [2, 1]);
    assert_eq!([figures[1]("written"), figures[1]("read")], [1, 1]);
    for count in joined_messages(&hosts.join(&[])) {
        assert!(count > MESSAGES as u64 * 7 / 10, "{count} of {MESSAGES}");
    }
}

/// Segments with the option are lost: TCP sends it again without, and after three times no peer of
/// that address gets another.
#[test]
fn tags_that_are_dropped_on_the_way_are_given_up() {
    const CONNECTIONS: u64 = 5;
    let hosts = Hosts::new();
    hosts.link.treat_experiments(Experiments::Drop).unwrap();
    let recorder = hosts.record(0, &["--tag"]);
    let captures = hosts.capture();
    for _ in 0..CONNECTIONS {
        exchange(&mut hosts.connect(), 10);
    }
    let packets = captures.map(Capture::finish);
    let figure = figures_of(recorder);
    assert_eq!([figure("written"), figure("sent again")], [3, 3]);
    assert_eq!(figure("withheld"), CONNECTIONS - 3);
    assert_eq!(
        [tagged(&packets[0]).len(), tagged(&packets[1]).len()],
        [3, 0]
    );
}

/// A segment without the option carries no tag, and breaks nothing.
#[test]
fn tags_that_are_stripped_on_the_way_cost_nothing_more() {
    let hosts = Hosts::new();
    hosts.link.treat_experiments(Experiments::Strip).unwrap();
    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    exchange(&mut hosts.connect(), MESSAGES);
    for figure in recorders.map(figures_of) {
        assert_eq!(
            [figure("written"), figure("read"), figure("sent again")],
            [1, 0, 0]
        );
    }
    // No other field was changed: the numbers are the same without tags.
    for count in joined_messages(&hosts.join(&[])) {
        assert!(count > MESSAGES as u64 * 7 / 10, "{count} of {MESSAGES}");
    }
}

/// A server that keeps nothing of a connection before it is established (SYN cookies) is no other.
#[test]
fn connections_by_cookies_are_tagged_as_others() {
    let hosts = Hosts::new();
    hosts.link.shift_sequence(SHIFT).unwrap();
    let always = || fs::write("/proc/sys/net/ipv4/tcp_syncookies", "2");
    hosts.hosts[1].enter(always).unwrap();
    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    exchange(&mut hosts.connect(), MESSAGES);
    for figure in recorders.map(figures_of) {
        assert_eq!(
            [figure("written"), figure("read"), figure("sent again")],
            [1, 1, 0]
        );
    }
    for count in joined_messages(&hosts.join(&[])) {
        assert!(count > MESSAGES as u64 * 7 / 10, "{count} of {MESSAGES}");
    }
}

/// A segment that fills its packet has no room, and none is split or grows for a tag.
#[test]
fn full_segments_get_no_tag_and_no_packet_grows() {
    const MTU: u32 = 1_500;
    const HEADERS: u32 = 20 + 20 + 12;
    let hosts = Hosts::new();
    let recorder = hosts.record(0, &["--tag"]);
    let captures = hosts.capture();
    let [mut client, mut server] = hosts.connect();
    // A message fills a packet, then is a byte too long for one with a tag, then fits.
    let mut length = MTU - HEADERS;
    for sent in [length, length - 7, length - 8] {
        length = sent;
        let bytes = vec![1; length as usize];
        client.write_all(&bytes).unwrap();
        server.read_exact(&mut vec![0; length as usize]).unwrap();
        // Its acknowledgement, so that nothing is sent with it.
        server.write_all(&[1]).unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
    let packets = captures.map(Capture::finish);
    let figure = figures_of(recorder);
    let of_client: Vec<_> = packets[1]
        .iter()
        .filter(|packet| packet.destination.port() == 7000 && packet.length > 0)
        .collect();
    let lengths: Vec<_> = of_client.iter().map(|packet| packet.length).collect();
    assert_eq!(
        lengths,
        [MTU - HEADERS, MTU - HEADERS - 7, MTU - HEADERS - 8]
    );
    let tags = tagged(&packets[1]);
    println!("{tags:?}");
    // An acknowledgement between them may have it, too, but no full segment.
    assert_eq!((tags.len(), figure("written")), (1, 1));
    assert!([0, length].contains(&tags[0].length), "{tags:?}");
}

/// The kernel remembers an unknown option, so it calls the program for each later segment that it
/// has not predicted. These calls end.
#[test]
fn segments_after_a_tag_are_not_searched_for_another() {
    let hosts = Hosts::new();
    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    let mut ends = hosts.connect();
    exchange(&mut ends, 1);
    // A segment with an urgent byte is none that it predicts (TCP_HP_BITS).
    for _ in 0..100 {
        for end in &ends {
            SockRef::from(end).send_out_of_band(&[1]).unwrap();
        }
    }
    drop(ends);
    for figure in recorders.map(figures_of) {
        assert_eq!(
            [figure("written"), figure("read"), figure("unheard")],
            [1, 1, 1]
        );
    }
}
