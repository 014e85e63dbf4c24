//! Fuzz filter expressions: printed ones parse back the same, tables jump forward within their
//! bounds, errors point into the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp_model::filter::{Filter, MAX_TESTS, Next};

fuzz_target!(|text: &str| {
    match text.parse::<Filter>() {
        Ok(filter) => {
            assert_eq!(filter.to_string().parse().as_ref(), Ok(&filter));
            assert_table(&filter);
        }
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.column()));
            assert_eq!(error.to_string().lines().count(), 3);
        }
    }
});

fn assert_table(filter: &Filter) {
    let table = filter.table();
    let tests = table.tests();
    assert!((1..=MAX_TESTS).contains(&tests.len()));
    for (index, test) in tests.iter().enumerate() {
        for next in [test.on_true, test.on_false] {
            if let Next::Test(next) = next {
                assert!((index + 1..tests.len()).contains(&usize::from(next)));
            }
        }
    }
}
