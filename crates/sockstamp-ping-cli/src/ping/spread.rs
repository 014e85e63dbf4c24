//! Average and deviation as ping(8) has them.

use std::fmt;

use sockstamp_model::clock::Nanos;

/// The extremes, the mean and the standard deviation of round trips.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread {
    count: u64,
    min: Nanos,
    max: Nanos,
    sum: u128,
    squares: u128,
}

impl Spread {
    pub(crate) fn record(&mut self, rtt: Nanos) {
        self.merge(&Self {
            count: 1,
            min: rtt,
            max: rtt,
            sum: rtt.0.into(),
            squares: u128::from(rtt.0) * u128::from(rtt.0),
        });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = match self.count {
            0 => other.min,
            _ => self.min.min(other.min),
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// Return the mean; none without round trips.
    pub(crate) fn mean(&self) -> Option<Nanos> {
        let mean = self.sum.checked_div(self.count.into())?;
        Some(Nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Return the least, the mean and the most.
    pub(crate) fn ends(&self) -> Option<(Nanos, Nanos, Nanos)> {
        Some((self.min, self.mean()?, self.max))
    }

    /// Return the root of the mean square's distance from the square of the mean, `mdev` of
    /// ping(8).
    pub(super) fn deviation(&self) -> Option<Nanos> {
        let mean = self.mean()?;
        let square = self.squares.checked_div(self.count.into())?;
        let variance = square.saturating_sub(u128::from(mean.0) * u128::from(mean.0));
        Some(Nanos(u64::try_from(variance.isqrt()).unwrap_or(u64::MAX)))
    }
}

/// `0.013/0.019/0.025/0.005 ms`: least, mean, most, deviation.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = [
            Some(self.min),
            self.mean(),
            Some(self.max),
            self.deviation(),
        ];
        for (place, figure) in figures.into_iter().enumerate() {
            let slash = if place == 0 { "" } else { "/" };
            write!(f, "{slash}{}", Milliseconds(figure.unwrap_or_default()))?;
        }
        f.write_str(" ms")
    }
}

/// A moving average of round trips: each one moves it by an eighth of its distance, as in ping(8).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MovingAverage(Option<f64>);

impl MovingAverage {
    pub(super) fn record(&mut self, rtt: Nanos) {
        let rtt = rtt.0 as f64;
        self.0 = Some(
            self.0
                .map_or(rtt, |average| average + (rtt - average) / 8.0),
        );
    }
}

impl fmt::Display for MovingAverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0.unwrap_or_default() / 1e6)
    }
}

/// A time in milliseconds with three digits after the point, as ping(8) prints times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Milliseconds(pub(super) Nanos);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.0.saturating_add(500) / 1000;
        write!(f, "{}.{:03}", micros / 1000, micros % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_printed_as_ping_prints_it() {
        let mut spread = Spread::default();
        assert_eq!(spread.mean(), None);
        for micros in [10_000, 10_000, 13_000] {
            spread.record(Nanos::from_micros(micros));
        }
        assert_eq!(spread.to_string(), "10.000/11.000/13.000/1.414 ms");
    }

    #[test]
    fn a_round_trip_moves_the_average_by_an_eighth() {
        let mut average = MovingAverage::default();
        for micros in [8_000, 16_000, 9_000] {
            average.record(Nanos::from_micros(micros));
        }
        assert_eq!(average.to_string(), "9.000");
    }

    #[test]
    fn milliseconds_are_rounded() {
        assert_eq!(Milliseconds(Nanos(17_499)).to_string(), "0.017");
        assert_eq!(Milliseconds(Nanos(1_203_999_500)).to_string(), "1204.000");
    }
}
