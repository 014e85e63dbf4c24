//! The settings of a prober.

use std::time::Duration;

use sockstamp_metrics::ledger::SERIES_PER_HISTOGRAM;

use crate::config::ProbeTable;

/// The peers that are probed, and how often.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) table: ProbeTable,
    /// Series of one metric.
    pub(crate) max_series: usize,
    /// The target of the measurement.
    pub(crate) target: sockstamp_bpf::Target,
    /// Time after its last connection for which a peer is still probed.
    pub(crate) expire: Duration,
}

impl Settings {
    /// Return the largest number of peers: each has one histogram.
    pub(super) fn most(&self) -> usize {
        let targets = usize::try_from(self.table.max_targets).unwrap_or(usize::MAX);
        targets.min(self.max_series / SERIES_PER_HISTOGRAM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_peers_together_have_no_more_series_than_a_metric_may_have() {
        let settings = |max_targets, max_series| Settings {
            table: ProbeTable {
                max_targets,
                ..ProbeTable::default()
            },
            max_series,
            target: sockstamp_bpf::Target::default(),
            expire: Duration::ZERO,
        };
        assert_eq!(settings(100, 100_000).most(), 100);
        let most = settings(10_000, 100_000).most();
        assert!(
            most * SERIES_PER_HISTOGRAM <= 100_000 && (most + 1) * SERIES_PER_HISTOGRAM > 100_000
        );
    }
}
