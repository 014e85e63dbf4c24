//! Find the size from which on a send without a copy is faster: the value of `Options::THRESHOLD`.

use std::time::Duration;

use anyhow::Result;
use testbed::Family;

use crate::effort::Effort;
use crate::network::{Network, Peer};
use crate::paired::{Spread, in_turn};
use crate::processor::Processors;
use crate::report::Report;

use super::methods::{Method, Task};
use super::transport::Transport;

const ROUND: Duration = Duration::from_millis(20);
const KIBIBYTES: [usize; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 63];
/// Read completions once for this many sends, like a program with much to send.
const INTERVAL: u64 = 32;

pub(crate) fn run(processors: Processors, effort: Effort, report: &mut Report) -> Result<()> {
    for transport in Transport::ALL {
        let network = Network::new(Peer::Sink, processors.load)?;
        let name = format!("threshold.{}", transport.name());
        if !report.wants(&name) {
            continue;
        }
        let mut medians = Vec::new();
        for kibibytes in KIBIBYTES {
            if transport == Transport::Tcp {
                network.set_mtu(mtu(kibibytes << 10))?;
            }
            let rates = in_turn(
                effort.rounds(16),
                [Method::Batched, Method::Copied],
                |method| {
                    let task = Task {
                        method,
                        bytes: kibibytes << 10,
                        interval: INTERVAL,
                        time: ROUND,
                        completions: None,
                    };
                    transport.run(&network, Family::V4, &task)
                },
            )?;
            let spread = Spread::of_ratios(&rates[0], &rates[1]);
            medians.push(spread.median);
            report.add(format!("{name}.{kibibytes}-KiB/copied"), "×", spread, None);
        }
        let loses = medians.iter().rposition(|&ratio| ratio < 1.0);
        let wins = KIBIBYTES.get(loses.map_or(0, |last| last + 1));
        report.note(match wins {
            Some(kibibytes) => format!("{name}: without a copy is faster from {kibibytes} KiB on"),
            None => format!("{name}: a copy is always faster"),
        });
    }
    Ok(())
}

/// A send of TCP has one or two long segments, of half a window of 64 KiB at most
/// (`tcp_bound_to_half_wnd()` in include/net/tcp.h, v6.18), and a short one, with which the sink
/// acknowledges all; or it is short.
fn mtu(bytes: usize) -> usize {
    const LONGEST_SEGMENT: usize = 32 << 10;
    const SHORT: usize = 2048;
    if bytes <= SHORT {
        2 * SHORT
    } else if bytes <= LONGEST_SEGMENT {
        bytes
    } else {
        bytes / 2
    }
}
