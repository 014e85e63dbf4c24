use sockstamp_model::fixture;
use sockstamp_model::interface::Interface;
use sockstamp_model::packet::PacketStage;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn message(protocol: Protocol, at: u64, bytes: u64, seq_end: u32) -> Message {
    let mut message = fixture::message(Direction::Tx);
    message.flow.protocol = protocol;
    message.stamps.sched_last = Some(Timestamp::from_nanos(at));
    (message.bytes, message.seq_end) = (bytes, seq_end);
    message.time = Timestamp::from_nanos(at + 5);
    message
}

/// Return a sent packet of the messages' flow, which is made at `address` in memory.
fn packet(protocol: Protocol, at: u64, payload: u32, seq: u32) -> Packet<'static> {
    let of = message(protocol, at, 0, 0);
    let (number, header) = match protocol {
        Protocol::Tcp => (6, 20),
        Protocol::Udp => (17, 8),
    };
    let mut bytes = vec![0; 20 + header];
    (bytes[0], bytes[9]) = (0x45, number);
    if protocol == Protocol::Tcp {
        bytes[24..28].copy_from_slice(&seq.to_be_bytes());
        bytes[32] = 0x50;
    }
    Packet {
        stage: PacketStage::Sched,
        direction: Direction::Tx,
        time: Timestamp::from_nanos(at),
        stamp: Timestamp::from_nanos(at),
        address: at,
        flow: of.flow,
        cgroup: None,
        cgroup_path: None,
        pid: None,
        comm: of.comm,
        interface: Interface {
            name: "eth0".into(),
            index: 2,
            netns: of.flow.netns,
        },
        length: u32::try_from(bytes.len()).unwrap() + payload,
        segments: None,
        bytes: bytes.into(),
    }
}

/// Return the times of the packets' messages.
fn named(packets: &[Packet<'_>], messages: &[Message]) -> Vec<Option<u64>> {
    let mut ways = Ways::default();
    packets.iter().for_each(|packet| ways.packet(packet));
    messages.iter().for_each(|message| ways.message(message));
    let times = ways.rest().into_iter().map(|way| way.message);
    times
        .map(|message| message.map(|message| message.time.as_nanos()))
        .collect()
}

#[test]
fn a_segment_has_the_message_of_its_last_byte() {
    let start = u32::MAX - 150;
    let messages = [
        message(Protocol::Tcp, 1000, 100, start.wrapping_add(100)),
        message(Protocol::Tcp, 2000, 200, start.wrapping_add(300)),
    ];
    let packets =
        [(0, 100), (100, 100), (150, 150), (290, 20), (50, 60)].map(|(offset, payload)| {
            let seq = start.wrapping_add(offset);
            packet(Protocol::Tcp, 500 + u64::from(offset), payload, seq)
        });
    let names = named(&packets, &messages);
    assert_eq!(
        names,
        [Some(1005), Some(2005), Some(2005), None, Some(2005)]
    );
}

#[test]
fn a_datagram_has_the_message_with_its_stamp() {
    let packets = [1000, 11_000, 21_000].map(|at| packet(Protocol::Udp, at, 70, 0));
    let messages = [1300, 10_600, 20_000].map(|at| message(Protocol::Udp, at, 70, 0));
    let names = [Some(1305), Some(10_605), Some(20_005)];
    assert_eq!(named(&packets, &messages), names);
    // Of another size.
    let others = messages.clone().map(|message| Message {
        bytes: 71,
        ..message
    });
    assert_eq!(named(&packets, &others), [None; 3]);
    // Far away.
    let late = message(Protocol::Udp, 300_000, 70, 0);
    assert_eq!(named(&packets, &[late]), [None; 3]);
}

#[test]
fn a_datagram_whose_message_was_not_measured_has_no_others() {
    let packets = [1000, 11_000, 21_000].map(|at| packet(Protocol::Udp, at, 70, 0));
    let measured = message(Protocol::Udp, 10_600, 70, 0);
    assert_eq!(named(&packets, &[measured]), [None, Some(10_605), None]);
}

#[test]
fn packets_leave_in_the_order_in_which_they_were_seen_first() {
    let mut ways = Ways::default();
    let first = packet(Protocol::Udp, SECOND, 10, 0);
    let second = packet(Protocol::Udp, SECOND + 5, 10, 0);
    let mut driver = first.clone();
    driver.stage = PacketStage::Driver;
    driver.stamp = Timestamp::from_nanos(SECOND + 9);
    for packet in [&first, &second, &driver] {
        ways.packet(packet);
    }
    assert!(
        ways.ready_at(Timestamp::from_nanos(2 * SECOND - 1))
            .is_empty()
    );
    let ready = ways.ready_at(Timestamp::from_nanos(2 * SECOND));
    let seen: Vec<_> = ready.iter().flat_map(Way::seen).collect();
    assert_eq!(
        seen,
        [
            (PacketStage::Sched, Nanos(0)),
            (PacketStage::Driver, Nanos(9))
        ]
    );
    assert_eq!(ways.rest().len(), 1);
}
