//! The parts of the library that depend on the kernel. Each is tried, and none needs a privilege.

use sockstamp::timestamping::{Flag, Support};
use sockstamp::zerocopy;

/// `None` is unknown.
#[derive(Debug, Default)]
pub(super) struct Library {
    /// Options of SO_TIMESTAMPING that this kernel refuses.
    pub(super) missing_options: Option<Vec<Flag>>,
    /// Messages may have ids of their sender's choice.
    pub(super) own_ids: Option<bool>,
    /// Completions of sends without a copy come back with a later send.
    pub(super) returned_by_sends: Option<bool>,
}

impl Library {
    pub(super) fn probe() -> Self {
        let support = Support::probe().ok();
        Self {
            missing_options: support.map(missing),
            own_ids: support.map(|support| support.own_id),
            returned_by_sends: zerocopy::copies_back().ok(),
        }
    }
}

fn missing(support: Support) -> Vec<Flag> {
    let all = Flag::ALL.into_iter();
    all.filter(|flag| !support.has(*flag)).collect()
}
