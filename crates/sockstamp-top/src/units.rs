//! Figures in five columns.

use sockstamp_model::clock::Nanos;

/// Units in steps of a thousand, with their nanoseconds.
const TIMES: [(u64, &str); 4] = [
    (1, "ns"),
    (1_000, "µs"),
    (1_000_000, "ms"),
    (1_000_000_000, "s"),
];
const COUNTS: [(u64, &str); 5] = [
    (1, ""),
    (1_000, "k"),
    (1_000_000, "M"),
    (1_000_000_000, "G"),
    (1_000_000_000_000, "T"),
];

/// A duration: `0ns`, `9.8µs`, `120ms`.
pub(super) fn time(Nanos(nanos): Nanos) -> String {
    scaled(nanos, &TIMES)
}

/// Format a count or a rate: `7`, `1.2k`, `340M`.
pub(super) fn count(count: u64) -> String {
    scaled(count, &COUNTS)
}

/// Whole percent of `whole`.
pub(super) fn percent(part: u128, whole: u128) -> u64 {
    let rounded = (part.saturating_mul(100) + whole / 2).checked_div(whole);
    rounded.map_or(0, |percent| u64::try_from(percent).unwrap_or(u64::MAX))
}

/// Two digits below ten of a unit, else whole units: as exact as the histograms are.
fn scaled(value: u64, units: &[(u64, &str)]) -> String {
    let mut units = units.iter().copied().peekable();
    let (mut one, mut name) = units.next().unwrap_or((1, ""));
    // 999.5 would be printed as 1000.
    while let Some(&(next_one, next_name)) = units.peek()
        && value >= next_one - one / 2
    {
        (one, name) = (next_one, next_name);
        units.next();
    }
    let tenths = (u128::from(value) * 10 + u128::from(one) / 2) / u128::from(one);
    if one > 1 && tenths < 100 {
        return format!("{}.{}{name}", tenths / 10, tenths % 10);
    }
    let whole = (u128::from(value) + u128::from(one) / 2) / u128::from(one);
    format!("{whole}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_five_columns() {
        for (nanos, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.0µs"),
            (9_949, "9.9µs"),
            (9_950, "10µs"),
            (123_456, "123µs"),
            (999_499, "999µs"),
            (999_500, "1.0ms"),
            (999_500_000, "1.0s"),
            (64_000_000_000, "64s"),
        ] {
            assert_eq!(time(Nanos(nanos)), text);
        }
    }

    #[test]
    fn counts_have_five_columns() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0k"),
            (999_500, "1.0M"),
            (12_345_678, "12M"),
            (999_499_999_999, "999G"),
        ] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn percents_are_rounded() {
        assert_eq!(percent(1, 3), 33);
        assert_eq!(percent(2, 3), 67);
        assert_eq!(percent(0, 0), 0);
    }
}
