//! Fuzz `control::parse`: nothing is read twice or out of bounds, truncation loses only the
//! truncated message, and written messages are read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp::control::{Control, Malformed, parse};
use sockstamp_fuzz::{HEADER, lies_within, written};

fuzz_target!(|bytes: &[u8]| {
    let messages: Vec<_> = parse(bytes).collect();
    assert!(messages.len() <= bytes.len().div_ceil(HEADER));
    let ends = messages
        .iter()
        .position(|message| matches!(message, Err(Malformed::Header { .. })));
    assert!(
        ends.is_none_or(|at| at + 1 == messages.len()),
        "read on behind {messages:?}"
    );

    for message in messages.iter().flatten() {
        if let Control::TimestampingStatistics(data) | Control::Other { data, .. } = message {
            assert!(data.is_empty() || lies_within(data, bytes));
        }
    }

    for end in 0..bytes.len() {
        let mut of_prefix: Vec<_> = parse(&bytes[..end]).collect();
        if let Some(Err(Malformed::Header { at })) = of_prefix.last() {
            assert!(*at < end);
            of_prefix.pop();
        }
        assert!(messages.starts_with(&of_prefix), "cut at {end}");
    }

    let read: Vec<_> = messages.into_iter().flatten().collect();
    let again = written(&read);
    let again: Result<Vec<_>, _> = parse(&again).collect();
    assert_eq!(again.as_ref(), Ok(&read));
});
