//! Student's t, by the finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3
//! and 26.7.4).

use std::f64::consts::{FRAC_2_PI, PI};

/// Beyond so many degrees of freedom the distribution is as good as normal.
const MOST: u32 = 200;

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is within the bounds of the clamp"
)]
fn whole(freedom: f64) -> u32 {
    // Rounded down, which widens intervals.
    freedom.clamp(1.0, f64::from(MOST)) as u32
}

/// Return the chance that a figure is less than so many of its estimated deviations above its mean.
#[must_use]
pub fn below(deviations: f64, freedom: f64) -> f64 {
    let freedom = whole(freedom);
    let angle = (deviations / f64::from(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    // The sum of cos^k times 1·3·…/2·4·…, or 2·4·…/1·3·… for odd degrees of freedom.
    let mut term = 1.0;
    let mut sum = 0.0;
    let mut step = 1 + freedom % 2;
    let mut left = freedom / 2;
    while left > 0 {
        sum += term;
        term *= cosine * cosine * f64::from(step) / f64::from(step + 1);
        step += 2;
        left -= 1;
    }
    let both = match freedom % 2 {
        0 => sine * sum,
        _ => FRAC_2_PI * (angle + sine * cosine * sum),
    };
    f64::midpoint(1.0, both)
}

/// Return how many of its estimated deviations a figure exceeds, on either side, with this chance.
#[must_use]
pub fn critical(chance: f64, freedom: f64) -> f64 {
    let tail = 1.0 - chance.clamp(0.0, 1.0) / 2.0;
    // A tangent reaches all tails, the widest of which is that of one degree of freedom.
    let (mut least, mut most) = (0.0, PI / 2.0);
    for _ in 0..60 {
        let middle = f64::midpoint(least, most);
        match below(middle.tan(), freedom) < tail {
            true => least = middle,
            false => most = middle,
        }
    }
    least.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of Abramowitz and Stegun, 26.10.
    #[test]
    fn critical_values_are_those_of_tables() {
        for (freedom, chance, expected) in [
            (1.0, 0.05, 12.706),
            (2.0, 0.05, 4.303),
            (3.0, 0.01, 5.841),
            (4.0, 0.05, 2.776),
            (7.0, 0.05, 2.365),
            (7.9, 0.001, 5.408),
            (30.0, 0.05, 2.042),
            (1e9, 0.05, 1.972),
        ] {
            let found = critical(chance, freedom);
            assert!(
                (found / expected - 1.0).abs() < 1e-3,
                "{freedom} {chance}: {found}"
            );
        }
    }

    #[test]
    fn both_sides_are_alike() {
        for freedom in [1.0, 2.0, 5.0, 6.0] {
            assert!((below(0.0, freedom) - 0.5).abs() < 1e-12);
            let both = below(1.7, freedom) + below(-1.7, freedom);
            assert!((both - 1.0).abs() < 1e-12, "{freedom}");
        }
    }
}
