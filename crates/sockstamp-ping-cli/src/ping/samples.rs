//! Sample answers for tests.

use std::net::{IpAddr, Ipv4Addr};

use sockstamp_model::clock::Nanos;
use sockstamp_ping::{Answer, AnswerKind, Refusal, RefusalKind, RxKind, Times, TxKind, Waits};

pub(super) const TARGET: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(super) const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// Return an answer after that many milliseconds in the network, and 100 µs of our own.
pub(super) fn answer(milliseconds: u64) -> Answer {
    Answer {
        kind: AnswerKind::EchoReply,
        from: TARGET,
        times: times(milliseconds),
        hop_limit: Some(64),
        bytes: 56,
        missing: 0,
        reordered: false,
    }
}

fn times(milliseconds: u64) -> Times {
    let rtt = Nanos::from_millis(milliseconds);
    Times {
        rtt,
        user_rtt: rtt + Nanos::from_micros(100),
        tx: TxKind::Software,
        rx: RxKind::Software,
        fallback: None,
        waits: Waits {
            send: Some(Nanos::from_micros(20)),
            neighbour: None,
            qdisc: Some(Nanos::from_micros(1)),
            wakeup: Some(Nanos::from_micros(70)),
            read: Some(Nanos::from_micros(9)),
        },
    }
}

/// Return a router's refusal: time to live exceeded.
pub(super) fn refusal() -> Refusal {
    Refusal {
        kind: RefusalKind::HopLimit,
        from: Some(ROUTER),
        icmp_type: 11,
        icmp_code: 0,
        errno: 113,
        times: times(1),
    }
}
