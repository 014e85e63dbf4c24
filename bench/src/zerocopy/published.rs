//! Print the published results of a kernel change that avoids the error queue, next to our results
//! with memory.

use std::fmt;

use testbed::Family;

use crate::network::Peer;

use super::setting::Setting;
use super::transport::Transport;

/// The method of [`PUBLISHED`] and ours over the classic one, of each column.
#[derive(Debug, Default)]
pub(super) struct Table {
    here: [[Option<f64>; 4]; 2],
}

const INTERVALS: [u64; 2] = [1, 32];

/// Percent of the classic method, of TCP over IPv4 and IPv6 and UDP over both: from the series
/// "net: A lightweight zero-copy notification mechanism for MSG_ZEROCOPY" (netdev, 2024), which has
/// sendmsg(2) copy completions into a control message.
const PUBLISHED: [[f64; 4]; 2] = [[117.0, 117.0, 121.0, 126.0], [106.0, 108.0, 100.0, 100.0]];

impl Table {
    pub(super) fn note(&mut self, setting: Setting, ratio: f64) {
        let row = INTERVALS
            .iter()
            .position(|&interval| interval == setting.interval);
        let Some(row) = row.filter(|_| setting.peer == Peer::Sink) else {
            return;
        };
        let udp = usize::from(setting.transport == Transport::Udp);
        let v6 = usize::from(setting.family == Family::V6);
        self.here[row][2 * udp + v6] = Some(ratio * 100.0);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nnotified by memory, the error queue read classically = 100 %\n{:<40} {:>7} {:>7} {:>7} {:>7}",
            "", "TCP v4", "TCP v6", "UDP v4", "UDP v6"
        )?;
        for ((interval, published), here) in INTERVALS.iter().zip(PUBLISHED).zip(self.here) {
            write!(f, "every {interval:<2} published for a kernel patch     ")?;
            published
                .iter()
                .try_for_each(|percent| write!(f, " {percent:>6.0}%"))?;
            write!(f, "\nevery {interval:<2} here                            ")?;
            here.iter().try_for_each(|percent| match percent {
                Some(percent) => write!(f, " {percent:>6.0}%"),
                None => write!(f, " {:>7}", "-"),
            })?;
            writeln!(f)?;
        }
        writeln!(
            f,
            "The published ones are of another machine, and of a change of the kernel."
        )
    }
}
