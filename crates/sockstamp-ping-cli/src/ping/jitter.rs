//! Jitter as RFC 3550 has it.

use sockstamp_model::clock::Nanos;

/// The interarrival jitter of RFC 3550, section 6.4.1, of round trips instead of transit times, in
/// the order of their answers: each difference of two neighbours moves it by a sixteenth of the
/// deviation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Jitter {
    last: Option<Nanos>,
    /// Times sixteen, so that whole numbers lose nothing: the sample code of appendix A.8.
    scaled: u64,
}

impl Jitter {
    pub(super) fn record(&mut self, rtt: Nanos) {
        if let Some(last) = self.last.replace(rtt) {
            let difference = rtt.0.abs_diff(last.0);
            self.scaled =
                self.scaled.saturating_add(difference) - (self.scaled.saturating_add(8) >> 4);
        }
    }

    /// None before the second round trip.
    pub(super) fn value(&self) -> Option<Nanos> {
        (self.scaled > 0 || self.last.is_some()).then_some(Nanos(self.scaled >> 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_adds_a_sixteenth_to_the_jitter() {
        let mut jitter = Jitter::default();
        assert_eq!(jitter.value(), None);
        jitter.record(Nanos(10_000));
        jitter.record(Nanos(11_600));
        assert_eq!(jitter.value(), Some(Nanos(100)));
        jitter.record(Nanos(11_600));
        // (1 - 1/16) × 100, rounded.
        assert_eq!(jitter.value(), Some(Nanos(93)));
    }

    #[test]
    fn jitter_converges_to_the_mean_difference() {
        let mut jitter = Jitter::default();
        for turn in 0..1000 {
            jitter.record(Nanos(5_000_000 + 1_000_000 * (turn % 2)));
        }
        let Nanos(value) = jitter.value().unwrap();
        assert!(value.abs_diff(1_000_000) < 10, "{value}");
    }

    #[test]
    fn jitter_does_not_overflow() {
        let mut jitter = Jitter::default();
        for turn in 0..100 {
            jitter.record(Nanos(if turn % 2 == 0 { 0 } else { u64::MAX }));
        }
        assert!(jitter.value().is_some());
    }
}
