//! A link of known delay: the ACK comes a round trip after the driver had the message.

use std::io::IoSlice;
use std::net::TcpStream;
use std::time::Duration;

use sockstamp::timestamping::{MessageOptions, Options, TxKind, send};
use testbed::{Family, Host, Link, LinkConfig, within_attempts};

use crate::common::{FAMILIES, now, read_all, software, stamps};

const DELAY: Duration = Duration::from_millis(20);
/// Additional time of a round trip on a busy machine, as in the kernel's own test.
const TOLERANCE: Duration = Duration::from_millis(8);
const MESSAGES: usize = 10;

/// Nanoseconds from the send to the driver, and from there to the ACK.
fn measure(stream: &TcpStream) -> (Duration, Duration) {
    let before = now();
    send(
        stream,
        &[IoSlice::new(b"ping")],
        None,
        MessageOptions::new(),
    )
    .unwrap();
    let got = stamps(stream, 2);
    let time = |kind| software(got.iter().find(|stamp| stamp.kind == kind).unwrap());
    let (sent, acknowledged) = (time(TxKind::Snd), time(TxKind::Ack));
    (
        Duration::from_nanos(sent - before),
        Duration::from_nanos(acknowledged - sent),
    )
}

fn round_trips(family: Family) -> Result<(), String> {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default().delay(DELAY)).unwrap();
    let listener = server
        .tcp_listen((link.address_b(family), 0).into())
        .unwrap();
    let stream = client.tcp_connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    read_all(listener.accept().unwrap().0);
    Options::new()
        .tx_software()
        .tx_ack()
        .id()
        .only_stamps()
        .apply(&stream)
        .unwrap();
    let mut late = 0;
    for _ in 0..MESSAGES {
        let (to_driver, to_ack) = measure(&stream);
        assert!(to_ack >= 2 * DELAY, "{family:?}: an ACK after {to_ack:?}");
        late += usize::from(to_ack > 2 * DELAY + TOLERANCE || to_driver > TOLERANCE);
    }
    // The relay is a program, and waits for a CPU like others.
    match late <= MESSAGES / 2 {
        true => Ok(()),
        false => Err(format!(
            "{family:?}: {late} of {MESSAGES} were late, {:?}",
            link.statistics()
        )),
    }
}

#[test]
fn acks_show_the_round_trip() {
    for family in FAMILIES {
        within_attempts(|| round_trips(family));
    }
}
