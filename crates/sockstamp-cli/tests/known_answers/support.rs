//! What several of these tests need, and no other test.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::common::{median, stage};

/// Makes a test of each IP version out of a function of the version.
macro_rules! over_both_families {
    ($check:path) => {
        #[test]
        fn over_ipv4() {
            $check(testbed::Family::V4);
        }

        #[test]
        fn over_ipv6() {
            $check(testbed::Family::V6);
        }
    };
}
pub(crate) use over_both_families;

/// Whether a time in nanoseconds is where it belongs.
pub(crate) fn within(what: impl Display, value: u64, bounds: RangeInclusive<u64>) -> Result<(), String> {
    if bounds.contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} is {value} ns, not within {bounds:?}"))
    }
}

/// Nanoseconds of so many milliseconds.
pub(crate) const fn ms(milliseconds: u64) -> u64 {
    milliseconds * 1_000_000
}

/// Whether the median of a stage is where it belongs: exactly in the messages of a trace, and by the histogram
/// in the report of the same messages.
pub(crate) fn median_within(
    name: &str,
    messages: &[&Value],
    report: &Value,
    bounds: RangeInclusive<u64>,
) -> Result<(), String> {
    within(
        format!("the median of {name}"),
        median(messages, name),
        bounds.clone(),
    )?;
    within(format!("p50 of {name}"), stage(report, name, "p50_ns"), bounds)
}
