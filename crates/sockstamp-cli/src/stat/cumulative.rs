//! `stat --cumulative`: how long after the RX stamp of its last byte a message was where, by the
//! names of netstacklat.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::summary::{Cumulative, StageSummary, Summary};
use sockstamp_print::colour::Brush;
use sockstamp_print::counters;
use sockstamp_print::row::figures;

/// A point on a message's path, called as netstacklat calls its hook there.
type Hook = &'static str;

const NO_TRACEPOINT: &str = "no tracepoint between the stamp and the socket";
const NO_TCP: &str = "no stamps of reads: see sockstamp doctor";
const NO_UDP: &str = "UDP is not measured: see sockstamp doctor";

/// Every hook in the order of the way, with the time from the stamp to it or why there is none.
///
/// Return the distributions that are counted as sums: the first stage of a read, which starts at
/// the stamp, and the total. A distribution of sums cannot be computed from those of its parts.
fn hooks(summary: &Summary) -> [(Hook, Result<&Histogram, &'static str>); 7] {
    let Cumulative { tcp, udp } = &summary.rx.cumulative;
    let (tcp, udp) = (tcp.as_ref().ok_or(NO_TCP), udp.as_ref().ok_or(NO_UDP));
    [
        ("ip-start", Err(NO_TRACEPOINT)),
        ("tcp-start", Err(NO_TRACEPOINT)),
        ("udp-start", Err(NO_TRACEPOINT)),
        ("tcp-socket-enqueued", tcp.map(|reads| &reads.enqueued)),
        ("udp-socket-enqueued", udp.map(|reads| &reads.enqueued)),
        ("tcp-socket-read", tcp.map(|reads| &reads.read)),
        ("udp-socket-read", udp.map(|reads| &reads.read)),
    ]
}

/// Print a table.
pub(crate) fn table(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    writeln!(
        output,
        "\n rx: {} messages, {} bytes in {}; time since the RX software stamp\n",
        summary.rx.messages, summary.rx.bytes, summary.duration
    )?;
    writeln!(
        output,
        " {:<19}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "hook", "count", "p50", "p90", "p99", "p99.9", "max", "mean"
    )?;
    for (hook, found) in hooks(summary) {
        match found {
            Ok(histogram) => row(output, hook, histogram)?,
            Err(reason) => writeln!(output, " {hook:<19}{:>9}  {reason}", "-")?,
        }
    }
    writeln!(output)?;
    counters::verdicts(output, summary, Brush::default())?;
    counters::losses(output, summary, Brush::default())
}

fn row(output: &mut dyn Write, hook: Hook, histogram: &Histogram) -> io::Result<()> {
    write!(output, " {hook:<19}{:>9}", histogram.count())?;
    for value in figures(histogram).chain([histogram.mean()]) {
        match value {
            Some(value) => write!(output, "{value:>8}")?,
            None => write!(output, "{:>8}", "-")?,
        }
    }
    writeln!(output)
}

/// Print comma-separated values.
pub(crate) fn csv(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    writeln!(
        output,
        "hook,count,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,sum_ns"
    )?;
    for (hook, found) in hooks(summary) {
        if let Ok(histogram) = found {
            write!(output, "{hook},{}", histogram.count())?;
            for value in figures(histogram) {
                match value {
                    Some(Nanos(value)) => write!(output, ",{value}")?,
                    None => write!(output, ",")?,
                }
            }
            writeln!(output, ",{}", histogram.sum_ns())?;
        }
    }
    Ok(())
}

/// The JSON of the summary with one key more.
#[derive(Serialize)]
pub(crate) struct Json<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    cumulative: Hooks,
}

#[derive(Serialize)]
struct Hooks {
    hooks: BTreeMap<Hook, StageSummary>,
    absent: BTreeMap<Hook, &'static str>,
}

impl<'a> Json<'a> {
    pub(crate) fn new(summary: &'a Summary) -> Json<'a> {
        let mut cumulative = Hooks {
            hooks: BTreeMap::new(),
            absent: BTreeMap::new(),
        };
        for (hook, found) in hooks(summary) {
            match found {
                Ok(histogram) => drop(cumulative.hooks.insert(hook, StageSummary::from(histogram))),
                Err(reason) => drop(cumulative.absent.insert(hook, reason)),
            }
        }
        Json {
            summary,
            cumulative,
        }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::summary::Reads;

    use super::*;

    fn of(nanos: u64) -> Histogram {
        let mut histogram = Histogram::new();
        histogram.record(Nanos(nanos), 1);
        histogram
    }

    /// A read of TCP that could be read after 1 ms and was after 5 ms; of UDP, after 2 ms and 6 ms.
    fn summary() -> Summary {
        let reads = |enqueued, read| {
            Some(Reads {
                enqueued: of(enqueued),
                read: of(read),
            })
        };
        let mut summary = Summary::default();
        summary.rx.cumulative.tcp = reads(1_000_000, 5_000_000);
        summary.rx.cumulative.udp = reads(2_000_000, 6_000_000);
        summary.rx.messages = 2;
        summary
    }

    fn printed(
        print: impl Fn(&mut dyn Write, &Summary) -> io::Result<()>,
        summary: &Summary,
    ) -> String {
        let mut output = Vec::new();
        print(&mut output, summary).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn times_are_since_the_stamp() {
        assert_eq!(
            printed(csv, &summary()),
            "hook,count,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,sum_ns\n\
             tcp-socket-enqueued,1,1000000,1000000,1000000,1000000,1000000,1000000\n\
             udp-socket-enqueued,1,2000000,2000000,2000000,2000000,2000000,2000000\n\
             tcp-socket-read,1,5000000,5000000,5000000,5000000,5000000,5000000\n\
             udp-socket-read,1,6000000,6000000,6000000,6000000,6000000,6000000\n"
        );
        let text = printed(table, &summary());
        assert!(
            text.contains(
                " tcp-socket-read            1 5.00 ms 5.00 ms 5.00 ms 5.00 ms 5.00 ms 5.00 ms\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(" ip-start                   -  no tracepoint"),
            "{text}"
        );
    }

    #[test]
    fn json_is_that_of_the_summary_and_the_hooks() {
        let json = serde_json::to_value(Json::new(&summary())).unwrap();
        assert_eq!(json["rx"]["messages"], 2);
        let hooks = &json["cumulative"]["hooks"];
        assert_eq!(hooks["tcp-socket-enqueued"]["sum_ns"], 1_000_000);
        assert_eq!(hooks["tcp-socket-read"]["max_ns"], 5_000_000);
        assert_eq!(json["cumulative"]["absent"]["ip-start"], NO_TRACEPOINT);
    }

    #[test]
    fn a_protocol_that_is_not_measured_is_absent() {
        let json = serde_json::to_value(Json::new(&Summary::default())).unwrap();
        assert_eq!(json["cumulative"]["hooks"], serde_json::json!({}));
        assert_eq!(json["cumulative"]["absent"]["tcp-socket-read"], NO_TCP);
        assert_eq!(json["cumulative"]["absent"]["udp-socket-read"], NO_UDP);
    }
}
