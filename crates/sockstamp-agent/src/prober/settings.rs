//! The settings of a prober.

use std::time::Duration;

use sockstamp_metrics::ledger::SERIES_PER_HISTOGRAM;

use crate::config::ProbeTable;

/// Longest pause between two looks, whatever they cost.
const LONGEST: Duration = Duration::from_secs(3600);

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
    /// The part of a core that looking for peers may take.
    pub(crate) share: Option<f64>,
}

impl Settings {
    /// Return the largest number of peers: each has one histogram.
    pub(super) fn most(&self) -> usize {
        let targets = usize::try_from(self.table.max_targets).unwrap_or(usize::MAX);
        targets.min(self.max_series / SERIES_PER_HISTOGRAM)
    }

    /// Return the pause after a look that took this much CPU time.
    pub(super) fn pause(&self, spent: Duration) -> Duration {
        let share = self.share.map_or(Duration::ZERO, |share| {
            Duration::try_from_secs_f64(spent.as_secs_f64() / share).unwrap_or(Duration::MAX)
        });
        share.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_no_more_than_their_share() {
        let settings = Settings {
            table: ProbeTable::default(),
            max_series: 100_000,
            target: sockstamp_bpf::Target::default(),
            expire: Duration::ZERO,
            share: Some(0.005),
        };
        let spent = Duration::from_millis(300);
        assert_eq!(settings.pause(spent), Duration::from_secs(60));
        assert_eq!(settings.pause(Duration::from_secs(100)), LONGEST);
        let share = None;
        assert_eq!(Settings { share, ..settings }.pause(spent), Duration::ZERO);
    }

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
            share: None,
        };
        assert_eq!(settings(100, 100_000).most(), 100);
        let most = settings(10_000, 100_000).most();
        assert!(
            most * SERIES_PER_HISTOGRAM <= 100_000 && (most + 1) * SERIES_PER_HISTOGRAM > 100_000
        );
    }
}
