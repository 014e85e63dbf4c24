//! Datagrams, which have the numbers of their samples alone.

use sockstamp_model::flow::Protocol;
use sockstamp_model::stage::Direction;
use sockstamp_model::verdict::Verdict;

use super::hosts::{Lives, NO_STEP, Skew, datagrams, exchange, forward, joined};
use crate::{Host, Quality, Reason, Trust};

#[test]
fn datagrams_are_joined_by_their_numbers() {
    let mut random = fastrand::Rng::with_seed(15);
    let truths = exchange(&mut random, 40, [60_000, 60_000]);
    let skew = Skew {
        offset: -5_000_000,
        drift: 3_000,
        step: NO_STEP,
    };
    let mut rows = datagrams(&truths, skew);
    // An end that is not bound to an address, as that of a server mostly is.
    for row in &mut rows[1] {
        row.flow.local.set_ip("0.0.0.0".parse().unwrap());
    }
    let (lives, join) = joined(rows, Trust::Messages);
    assert_eq!(lives.len(), truths.len());
    assert_eq!(join.clocks().late(), 0);
    let lives = Lives::new(&lives);
    for &truth in &truths {
        let life = lives.of(truth).unwrap();
        assert_eq!((life.back(), life.protocol), (None, Protocol::Udp));
        assert!(
            !life.sender.address.ip().is_unspecified()
                && !life.reader.address.ip().is_unspecified()
        );
        assert_eq!(life.clocks.quality, Quality::Accurate);
        assert!(forward(life).abs_diff(truth.forward) <= life.clocks.error.0 + 100);
    }
}

#[test]
fn datagrams_that_are_alike_or_lost_are_counted() {
    let mut random = fastrand::Rng::with_seed(17);
    let truths = exchange(&mut random, 4, [60_000, 60_000]);
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let mut rows = datagrams(&truths, skew);
    let mut of_first = truths.iter().filter(|truth| truth.from == Host::First);
    let [lost, unseen, alike, other, refused] = [(); 5].map(|()| *of_first.next().unwrap());
    rows[1].retain(|row| row.seq_end != lost.seq_end);
    rows[0].retain(|row| row.seq_end != unseen.seq_end);
    // The same bytes twice, of which the first was lost.
    rows[1].retain(|row| row.seq_end != alike.seq_end);
    for row in rows.iter_mut().flatten() {
        if row.seq_end == other.seq_end {
            (row.seq_end, row.bytes) = (alike.seq_end, alike.bytes);
        }
        if row.seq_end == refused.seq_end && row.direction == Direction::Rx {
            row.verdict = Verdict::ClockStep;
        }
    }
    let (lives, join) = joined(rows, Trust::Messages);
    assert_eq!(lives.len(), truths.len() - 5);
    let counted = Reason::ALL.map(|reason| join.unmatched()[reason]);
    let expected = Reason::ALL.map(|reason| match reason {
        Reason::NotRead | Reason::NotSent | Reason::Refused => 1,
        Reason::Ambiguous => 3,
        _ => 0,
    });
    assert_eq!(counted, expected);
}
