//! The filter expression as the programs have it.

#[cfg(test)]
mod tests;

use sockstamp_model::filter::{Condition, End, MAX_TESTS, Next, Test};

use crate::abi::raw::{self, filter_field, filter_next, filter_side, filter_test};

const _: () = assert!(raw::FILTER_TESTS as usize == MAX_TESTS);

/// Sets `setting_filter` in the read-only data of a skeleton: each skeleton has a type of its own
/// for its tests.
macro_rules! set_filter {
    ($settings:expr, $filter:expr) => {{
        let settings = $settings;
        settings.setting_filtered = true;
        let table = $filter.table();
        for (slot, test) in settings.setting_filter.iter_mut().zip(table.tests()) {
            let raw = $crate::select::filter::encode(test);
            slot.field = raw.field;
            slot.side = raw.side;
            slot.on_true = raw.on_true;
            slot.on_false = raw.on_false;
            slot.first = raw.first;
            slot.last = raw.last;
            slot.network = raw.network;
            slot.mask = raw.mask;
        }
    }};
}
pub(crate) use set_filter;

/// Encode a test in the layout of `filter.h`.
pub(crate) fn encode(test: &Test) -> filter_test {
    let mut raw = match test.condition {
        Condition::Protocol(protocol) => filter_test {
            field: byte(filter_field::FILTER_PROTOCOL),
            first: protocol.number().into(),
            ..filter_test::default()
        },
        Condition::Address { end, network, mask } => filter_test {
            field: byte(filter_field::FILTER_ADDRESS),
            side: side(end),
            network: words(network),
            mask: words(mask),
            ..filter_test::default()
        },
        Condition::Ports { end, first, last } => filter_test {
            field: byte(filter_field::FILTER_PORT),
            side: side(end),
            first,
            last,
            ..filter_test::default()
        },
    };
    raw.on_true = next(test.on_true);
    raw.on_false = next(test.on_false);
    raw
}

fn side(end: End) -> u8 {
    byte(match end {
        End::Source => filter_side::FILTER_SOURCE,
        End::Destination => filter_side::FILTER_DESTINATION,
    })
}

fn next(next: Next) -> u8 {
    match next {
        Next::Test(index) => index,
        Next::Accept => byte(filter_next::FILTER_ACCEPT),
        Next::Reject => byte(filter_next::FILTER_REJECT),
    }
}

/// Convert an enumerator: none is near 256.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the header's enumerators fit"
)]
const fn byte(enumerator: u32) -> u8 {
    enumerator as u8
}

/// Return words in network order, as the kernel keeps addresses.
pub(crate) fn words(bits: u128) -> [u32; 4] {
    let bytes = bits.to_be_bytes();
    std::array::from_fn(|word| {
        u32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * word + byte]))
    })
}
