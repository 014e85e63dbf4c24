//! Messages that are joined, and the reasons of those that are not.

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::Protocol;
use sockstamp_model::stage::Direction;
use sockstamp_model::verdict::Verdict;

use super::hosts::{NO_STEP, Skew, Truth, datagrams, exchange, joined, message, rows};
use crate::{Host, Join, Reason, Settings, Trust};

/// A row may claim the end of time: the host that has ended is asked for no more.
#[test]
fn a_host_that_has_ended_is_not_asked_again() {
    let settings = Settings {
        trust: Trust::Messages,
        apart: Nanos::from_secs(10),
        in_step: false,
    };
    for ended in Host::ALL {
        let mut join = Join::new(settings);
        let mut last = message(Direction::Tx, ended.peer(), 1, 1);
        last.time = Timestamp::from_nanos(u64::MAX);
        join.add(ended.peer(), &last, &mut |_| {});
        join.ends(ended);
        assert_eq!(join.needs(), ended.peer());
    }
}

#[test]
fn a_life_is_a_message_with_the_stages_of_both_hosts() {
    let mut random = fastrand::Rng::with_seed(13);
    let truths = exchange(&mut random, 2, [50_000, 70_000]);
    let skew = Skew {
        offset: 7_000,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, _) = joined(rows(&truths, skew), Trust::Messages);
    for life in &lives {
        let message = life.to_message().unwrap();
        assert!(message.is_life());
        assert_eq!(
            (message.time(), message.total()),
            (life.total(), life.total())
        );
        assert_eq!(message.clock_error, Some(life.clocks.error));
        assert_eq!(message.stages, life.stages);
    }
    let mut many = lives[0].clone();
    many.weight = 1 << 32;
    assert_eq!(many.to_message(), None);
}

#[test]
fn what_has_no_life_is_counted_by_its_reason() {
    let truth = |seq_end: u32, bytes, begin: u64| Truth {
        from: Host::First,
        seq_end,
        bytes,
        begin: begin * 1_000_000,
        sending: 1_000,
        forward: 50_000,
        stack: 2_000,
        app: 1_000,
        back: 50_000,
    };
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let single = truth(1_000, 100, 10);
    let early = truth(1_100, 100, 11);
    let late = truth(1_200, 100, 12);
    let large = truth(2_200, 1_000, 13);
    let half = truth(1_700, 500, 13);
    let unseen = truth(2_300, 100, 14);
    let refused = truth(2_400, 100, 15);
    let unsent = truth(2_500, 100, 16);
    let mut both = late.read(skew);
    both.bytes = 200;
    let mut invalid = refused.read(skew);
    invalid.verdict = Verdict::ClockStep;
    let mut datagram = single.sent(skew);
    datagram.flow.protocol = Protocol::Udp;
    datagram.seq_end = 0;
    let mut elsewhere = single.sent(skew);
    elsewhere.flow.remote = "10.0.0.9:80".parse().unwrap();
    let sends = [single, early, late, large, unseen, refused].map(|truth| truth.sent(skew));
    let sends = sends.into_iter().chain([datagram, elsewhere]).collect();
    let reads = [single, half, large, unsent].map(|truth| truth.read(skew));
    let reads = reads.into_iter().chain([both, invalid]).collect();
    let (lives, join) = joined([sends, reads], Trust::Messages);
    assert_eq!(lives.len(), 3);
    let counted = Reason::ALL.map(|reason| (reason, join.unmatched()[reason]));
    let expected = [
        (Reason::OneSided, 1),
        (Reason::NotRead, 1),
        (Reason::ReadWithLater, 1),
        (Reason::NotSent, 1),
        (Reason::ReadInParts, 1),
        (Reason::Refused, 1),
        (Reason::NoClock, 0),
        (Reason::Contradiction, 0),
        (Reason::Ambiguous, 0),
        (Reason::Udp, 1),
    ];
    assert_eq!(counted, expected);
}

/// Datagrams of one direction bound the clocks to one side alone.
#[test]
fn messages_without_an_offset_of_the_clocks_are_counted() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut truths = exchange(&mut random, 5, [60_000, 60_000]);
    truths.retain(|truth| truth.from == Host::First);
    let skew = Skew {
        offset: 1_000,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, join) = joined(datagrams(&truths, skew), Trust::Messages);
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::NoClock], truths.len() as u64);
}

/// Clocks that are trusted, and are a millisecond apart.
#[test]
fn messages_that_arrive_before_they_leave_are_counted() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut truths = exchange(&mut random, 5, [60_000, 60_000]);
    truths.retain(|truth| truth.from == Host::First && truth.forward < 900_000);
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let mut rows = rows(&truths, skew);
    for row in rows
        .iter_mut()
        .flatten()
        .filter(|row| row.direction == Direction::Rx)
    {
        row.time = row.time.before(Nanos(1_000_000)).unwrap();
    }
    let (lives, join) = joined(rows, Trust::Clocks);
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::Contradiction], truths.len() as u64);
}
