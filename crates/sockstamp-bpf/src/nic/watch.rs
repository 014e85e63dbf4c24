//! Stamps that NICs could not give: as soon as there are some, nothing is asked any more.

use sockstamp::interface;

/// The counts of NICs, of our own network namespace, that count stamps which were asked for in
/// vain.
#[derive(Debug, Default)]
pub(super) struct Watch {
    before: Vec<(String, u64)>,
}

impl Watch {
    /// Note the counts of these interfaces.
    pub(super) fn begin(names: Vec<String>) -> Self {
        let counts = names.into_iter().filter_map(|name| {
            let missed = missed(&name)?;
            Some((name, missed))
        });
        Self {
            before: counts.collect(),
        }
    }

    /// Return why nothing is to be asked any more, if so. A stamp was missed by us, or by somebody
    /// whose packet asked at the same time: that is not told.
    pub(super) fn objection(&self) -> Option<String> {
        objection(&self.before, missed)
    }
}

/// A driver that does not answer any more counts nothing.
fn missed(name: &str) -> Option<u64> {
    interface::missed_stamps(name).ok().flatten()
}

fn objection(before: &[(String, u64)], now: impl Fn(&str) -> Option<u64>) -> Option<String> {
    before.iter().find_map(|(name, before)| {
        let more = now(name)?.checked_sub(*before).filter(|more| *more > 0)?;
        Some(format!(
            "{name} missed {more} stamps (tx_hwtstamp_skipped, tx_hwtstamp_timeouts of ethtool -S)"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stamp_that_is_missed_is_an_objection() {
        let before = [("eth0".to_owned(), 5), ("eth1".to_owned(), 9)];
        assert_eq!(objection(&before, |_| Some(5)), None, "eth1 was reset");
        assert_eq!(objection(&before, |_| None), None);
        let reason = objection(&before, |name| (name == "eth1").then_some(10));
        assert!(reason.unwrap().starts_with("eth1 missed 1 stamps"));
    }
}
