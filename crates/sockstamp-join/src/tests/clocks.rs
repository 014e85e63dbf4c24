//! The offset between the clocks, and its interval.

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::stage::Stage;

use super::hosts::{Lives, NO_STEP, SECOND, Skew, Truth, exchange, forward, joined, rows};
use crate::{Clamped, Host, Quality, Reason, Trust};

/// Join, and check each life against its truth. Return the errors of `net.forward`, in order.
fn errors(truths: &[Truth], skew: Skew, margin: u64) -> Vec<u64> {
    let (lives, _) = joined(rows(truths, skew), Trust::Messages);
    assert_eq!(lives.len(), truths.len());
    let mut errors = Vec::new();
    let lives = Lives::new(&lives);
    for &truth in truths {
        let life = lives.of(truth).unwrap();
        assert_eq!(life.clocks.quality, Quality::Accurate);
        let error = forward(life).abs_diff(truth.forward);
        assert!(
            error <= life.clocks.error.0 + margin,
            "{} ± {}, not {}",
            forward(life),
            life.clocks.error,
            truth.forward
        );
        errors.push(error);
    }
    errors.sort_unstable();
    errors
}

#[test]
fn the_offset_is_found_within_its_interval_for_any_clocks() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let truths = exchange(&mut random, 30, [60_000, 60_000]);
        let skew = Skew {
            offset: random.i64(-1_000_000_000..1_000_000_000_000_000),
            drift: random.i64(-80_000..80_000),
            step: NO_STEP,
        };
        let errors = errors(&truths, skew, 100);
        // At the begin and the end of recordings, a window has few messages.
        let (most, largest) = (errors[errors.len() * 99 / 100], errors[errors.len() - 1]);
        assert!(
            most < 10_000 && largest < 25_000,
            "seed {seed}: {most} and {largest} ns off on a symmetric link"
        );
    }
}

#[test]
fn an_asymmetric_link_errs_by_less_than_its_interval() {
    let mut random = fastrand::Rng::with_seed(3);
    let truths = exchange(&mut random, 20, [50_000, 900_000]);
    let skew = Skew {
        offset: 5 * SECOND.cast_signed(),
        drift: -20_000,
        step: NO_STEP,
    };
    let errors = errors(&truths, skew, 100);
    let middle = errors[errors.len() / 2];
    assert!((400_000..450_000).contains(&middle), "{middle}");
}

#[test]
fn a_step_of_a_clock_splits_its_offset() {
    let mut random = fastrand::Rng::with_seed(5);
    let truths = exchange(&mut random, 30, [60_000, 60_000]);
    for step in [-40_000_000, 3_000_000] {
        let skew = Skew {
            offset: 1_000_000,
            drift: 5_000,
            step: (step, 18 * SECOND + 300_000_000),
        };
        let (lives, join) = joined(rows(&truths, skew), Trust::Messages);
        assert_eq!(join.clocks().steps(), 1);
        let missing = truths.len() - lives.len();
        assert_eq!(
            join.unmatched()[Reason::NoClock] + join.unmatched()[Reason::Contradiction],
            missing as u64
        );
        assert!(missing < truths.len() / 50, "{missing} of {}", truths.len());
        let lives = Lives::new(&lives);
        let wrong = truths.iter().filter(|truth| {
            lives.of(**truth).is_some_and(|life| {
                forward(life).abs_diff(truth.forward) > life.clocks.error.0 + 100
            })
        });
        // A message that is under way while the clock steps has times of both sides of the step.
        assert!(wrong.count() <= 1);
    }
}

#[test]
fn clocks_are_trusted_on_request() {
    let mut random = fastrand::Rng::with_seed(7);
    let truths = exchange(&mut random, 5, [50_000, 900_000]);
    let skew = Skew {
        offset: 123_456_789,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, _) = joined(rows(&truths, skew), Trust::Clocks);
    let lives = Lives::new(&lives);
    for &truth in &truths {
        let life = lives.of(truth).unwrap();
        assert_eq!(forward(life), truth.forward);
        assert_eq!(life.back().unwrap().0, truth.back);
        assert_eq!(
            life.total().0,
            truth.sending + truth.forward + truth.stack + truth.app
        );
    }
}

#[test]
fn times_between_the_hosts_below_zero_are_counted() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut truths = exchange(&mut random, 2, [50_000, 50_000]);
    let skew = Skew {
        offset: 0,
        drift: 0,
        step: NO_STEP,
    };
    let (lives, join) = joined(rows(&truths, skew), Trust::Clocks);
    assert_eq!(
        (lives.len(), join.clamped()),
        (truths.len(), Clamped::default())
    );
    // The acknowledgement comes before the socket is readable.
    let early = &mut truths[4];
    early.stack += 3_000_000;
    let mut rows = rows(&truths, skew);
    let (from, end) = (truths[4].from, truths[4].seq_end);
    let mut sends = rows[from as usize].iter_mut();
    let is_early = |row: &&mut Message| row.seq_end == end && row.stamps.ack.is_some();
    let sent = sends.find(is_early).unwrap();
    let ack = sent.stamps.ack.as_mut().unwrap();
    *ack = Timestamp::from_nanos(ack.as_nanos() - truths[4].back - 1_000);
    let network = sent.stages[Stage::TxNetwork].as_mut().unwrap();
    *network = Nanos(network.0 - truths[4].back - 1_000);
    sent.time = Timestamp::from_nanos(sent.time.as_nanos() - truths[4].back - 1_000);
    let (lives, join) = joined(rows, Trust::Clocks);
    assert_eq!(lives.len(), truths.len());
    assert_eq!(
        join.clamped(),
        Clamped {
            forward: 0,
            back: 1
        }
    );
    let zero = lives.iter().filter(|life| life.back() == Some(Nanos::ZERO));
    assert_eq!(zero.count(), 1);
}

#[test]
fn one_direction_is_bounded_by_its_acknowledgements() {
    let mut random = fastrand::Rng::with_seed(9);
    let mut truths = exchange(&mut random, 10, [60_000, 60_000]);
    truths.retain(|truth| truth.from == Host::Second);
    let skew = Skew {
        offset: -77_000,
        drift: 1_000,
        step: NO_STEP,
    };
    let (lives, _) = joined(rows(&truths, skew), Trust::Messages);
    assert_eq!(lives.len(), truths.len());
    let lives = Lives::new(&lives);
    for &truth in &truths {
        let life = lives.of(truth).unwrap();
        assert_eq!(life.clocks.quality, Quality::Approximate);
        assert!(forward(life).abs_diff(truth.forward) <= life.clocks.error.0 + 100);
    }
}
