//! Test stamps of received messages: each kind of socket, each IP version, each combination of
//! options.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Protocol, Socket, Type};
use sockstamp::ReceiveStamping;
use sockstamp::timestamping::{Flag, Options, ReceiveBatch, Received, receive};
use testbed::{Family, Host, PATIENCE};

use crate::common::{FAMILIES, domain, host, loopback, now, supported, tcp_pair, udp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Raw,
}

/// A socket that receives, and one that sends to it.
#[derive(Debug)]
struct Pair {
    receiver: Socket,
    sender: Socket,
}

impl AsFd for Pair {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl Pair {
    fn new(host: &Host, kind: Kind, family: Family) -> Self {
        host.enter(|| match kind {
            Kind::Tcp => {
                let (sender, receiver) = tcp_pair(family);
                Self {
                    receiver: receiver.into(),
                    sender: sender.into(),
                }
            }
            Kind::Udp => {
                let (receiver, sender) = (udp(family), udp(family));
                sender.connect(&receiver.local_addr().unwrap()).unwrap();
                Self { receiver, sender }
            }
            Kind::Raw => {
                let socket = || {
                    let protocol = Some(Protocol::from(253));
                    Socket::new(domain(family), Type::RAW, protocol).unwrap()
                };
                let (receiver, sender) = (socket(), socket());
                sender.connect(&loopback(family, 0).into()).unwrap();
                Self { receiver, sender }
            }
        })
    }

    fn send(&self) {
        (&self.sender).write_all(b"0123456789").unwrap();
    }
}

/// The options of a socket, and whether its messages have stamps.
#[derive(Debug)]
struct Case {
    options: Options,
    /// SO_TIMESTAMP and SO_TIMESTAMPNS besides.
    others: [bool; 2],
    stamped: bool,
}

fn cases() -> Vec<Case> {
    let case = |flags: &[Flag], others, stamped| Case {
        options: flags.iter().copied().fold(Options::new(), Options::with),
        others,
        stamped,
    };
    let none = [false; 2];
    vec![
        case(&[], none, false),
        case(&[], [true, false], false),
        case(&[], [false, true], false),
        case(&[], [true, true], false),
        case(&[Flag::RxSoftware], none, false),
        // The loopback interface has no clock.
        case(&[Flag::RxHardware], none, false),
        case(&[Flag::RxHardware, Flag::RawHardware], none, false),
        case(&[Flag::RxSoftware, Flag::RxHardware], none, false),
        case(&[Flag::RawHardware, Flag::OptRxFilter], none, false),
        case(&[Flag::Software, Flag::OptRxFilter], none, false),
        // Others made the kernel stamp, and this one has it.
        case(&[Flag::Software], none, true),
        case(
            &[Flag::Software, Flag::RxSoftware, Flag::OptRxFilter],
            none,
            true,
        ),
        case(&[Flag::Software, Flag::RxSoftware], none, true),
        case(&[Flag::Software, Flag::RxSoftware], [true, false], true),
        case(&[Flag::Software, Flag::RxSoftware], [false, true], true),
    ]
}

fn check(pair: &Pair, kind: Kind, family: Family, case: &Case) {
    let context = format!("{kind:?} {family:?} {case:?}");
    case.options.apply(pair).unwrap();
    setsockopt(pair, sockopt::ReceiveTimestamp, &case.others[0]).unwrap();
    setsockopt(pair, sockopt::ReceiveTimestampns, &case.others[1]).unwrap();
    let before = now();
    pair.send();
    let mut payload = [0; 64];
    let received = receive(pair, &mut payload).unwrap();
    let header = match (kind, family) {
        (Kind::Raw, Family::V4) => 20,
        _ => 0,
    };
    assert_eq!(received.length, header + 10, "{context}");
    assert_eq!(
        &payload[header..received.length],
        b"0123456789",
        "{context}"
    );
    assert!(
        !received.truncated && !received.stamp_lost,
        "{context}: {received:?}"
    );
    assert_eq!(received.stamp.hardware, None, "{context}");
    assert_eq!(received.stamp.software.is_some(), case.stamped, "{context}");
    if let Some(time) = received.stamp.software {
        assert!(
            (before..=now()).contains(&time.as_nanos()),
            "{context}: {time:?}"
        );
    }
}

#[test]
fn each_receive_option_gives_its_stamps() {
    let stamping = ReceiveStamping::enable().unwrap();
    assert!(stamping.settle(PATIENCE).unwrap());
    let host = host("receive");
    for case in cases() {
        if supported(
            "receive::each_receive_option_gives_its_stamps",
            case.options,
        )
        .is_none()
        {
            continue;
        }
        for kind in [Kind::Tcp, Kind::Udp, Kind::Raw] {
            for family in FAMILIES {
                check(&Pair::new(&host, kind, family), kind, family, &case);
            }
        }
    }
}

#[test]
fn many_messages_come_with_their_stamps() {
    let stamping = ReceiveStamping::enable().unwrap();
    assert!(stamping.settle(PATIENCE).unwrap());
    let host = host("batch");
    for family in FAMILIES {
        let pair = Pair::new(&host, Kind::Udp, family);
        Options::new().rx_software().wide().apply(&pair).unwrap();
        let before = now();
        for _ in 0..40 {
            pair.send();
        }
        let mut batch = ReceiveBatch::new(8);
        let mut messages: Vec<Received> = Vec::new();
        let mut take = |received: Received, payload: &[u8]| {
            assert_eq!(payload, b"01234567");
            messages.push(received);
        };
        // Receive a whole batch, then the rest.
        assert_eq!(
            batch.receive(&pair, &mut take).unwrap(),
            ReceiveBatch::MESSAGES
        );
        assert_eq!(
            batch.receive(&pair, &mut take).unwrap(),
            40 - ReceiveBatch::MESSAGES
        );
        let from = pair.sender.local_addr().unwrap().as_socket();
        for received in &messages {
            assert!(received.truncated && !received.stamp_lost, "{received:?}");
            assert_eq!(received.from, from);
        }
        let times: Vec<_> = messages
            .iter()
            .map(|received| received.stamp.software.unwrap().as_nanos())
            .collect();
        assert!(
            times.is_sorted() && before <= times[0] && times[39] <= now(),
            "{times:?}"
        );
    }
}

#[test]
fn nothing_to_receive_is_would_block() {
    let pair = Pair::new(&host("nothing"), Kind::Udp, Family::V4);
    pair.receiver
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    let error = receive(&pair, &mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    pair.receiver.set_nonblocking(true).unwrap();
    let error = ReceiveBatch::new(1).receive(&pair, |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}
