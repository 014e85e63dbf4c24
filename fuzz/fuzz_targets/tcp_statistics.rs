//! `TcpStatistics`: values are bytes of the input, of the size of their type; a cut takes some away
//! and changes none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp::timestamping::TcpStatistics;
use sockstamp_fuzz::{attributes, lies_within};

/// Cuts are this far apart: prime to the alignment of attributes, so that they fall everywhere.
const STEP: usize = 7;
/// Beyond the last that has a name.
const KINDS: std::ops::Range<u16> = 0..40;

fuzz_target!(|bytes: &[u8]| {
    let statistics = TcpStatistics::from_bytes(bytes);
    for kind in KINDS {
        let value = statistics.attribute(kind);
        if let Some(value) = value {
            assert!(value.len() + 4 <= bytes.len());
            assert!(value.is_empty() || lies_within(value, bytes));
        }
        for end in (0..bytes.len()).step_by(STEP) {
            let of_prefix = TcpStatistics::from_bytes(&bytes[..end]).attribute(kind);
            assert!(of_prefix.is_none() || of_prefix == value, "cut at {end}");
        }
    }
    assert_sizes(statistics);

    let found = KINDS.filter_map(|kind| Some((kind, statistics.attribute(kind)?)));
    let again = attributes(found);
    for kind in KINDS {
        assert_eq!(
            TcpStatistics::from_bytes(&again).attribute(kind),
            statistics.attribute(kind)
        );
    }
});

/// Check the size of each statistic, by its number in include/uapi/linux/tcp.h, v6.18.
fn assert_sizes(statistics: TcpStatistics<'_>) {
    let is_long = |kind, length| {
        statistics
            .attribute(kind)
            .is_some_and(|value| value.len() == length)
    };
    assert_eq!(statistics.busy().is_some(), is_long(1, 8));
    assert_eq!(statistics.round_trip().is_some(), is_long(22, 4));
    assert_eq!(statistics.departure().is_some(), is_long(25, 8));
    assert_eq!(statistics.ttl().is_some(), is_long(26, 1));
}
