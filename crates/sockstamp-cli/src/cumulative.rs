//! `stat --cumulative`: how long after the RX stamp of its last byte a message was where, by the names of
//! netstacklat.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::{StageSummary, Summary};

use crate::text;

/// A point on a message's way, called as netstacklat calls its hook there.
type Hook = &'static str;

const NO_TRACEPOINT: &str = "no tracepoint between the stamp and the socket";
const NO_UDP: &str = "UDP is not measured";

/// Every hook in the order of the way, with the time from the stamp to it or why there is none.
///
/// A distribution of sums does not follow from those of the parts. These two are counted as such: the first stage of
/// a read, which starts at the stamp, and the total of all.
fn hooks(summary: &Summary) -> [(Hook, Result<&Histogram, &str>); 7] {
    let enqueued = summary.rx.stages[Stage::RxStack].as_ref();
    let reason = summary.absent.get(&Stage::RxStack);
    let reason = reason.map_or("no stamps of reads", String::as_str);
    [
        ("ip-start", Err(NO_TRACEPOINT)),
        ("tcp-start", Err(NO_TRACEPOINT)),
        ("udp-start", Err(NO_UDP)),
        ("tcp-socket-enqueued", enqueued.ok_or(reason)),
        ("udp-socket-enqueued", Err(NO_UDP)),
        (
            "tcp-socket-read",
            enqueued.map(|_| &summary.rx.total).ok_or(reason),
        ),
        ("udp-socket-read", Err(NO_UDP)),
    ]
}

/// As a table.
pub(crate) fn table(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    writeln!(
        output,
        "\n rx: {} messages, {} bytes in {}; time since the RX software stamp\n",
        summary.rx.messages, summary.rx.bytes, summary.duration
    )?;
    writeln!(
        output,
        " {:<19}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "hook", "count", "p50", "p90", "p99", "p99.9", "max", "mean"
    )?;
    for (hook, found) in hooks(summary) {
        match found {
            Ok(histogram) => row(output, hook, histogram)?,
            Err(reason) => writeln!(output, " {hook:<19}{:>10}  {reason}", "-")?,
        }
    }
    writeln!(output)?;
    text::verdicts(output, summary)?;
    text::losses(output, summary)
}

fn row(output: &mut dyn Write, hook: Hook, histogram: &Histogram) -> io::Result<()> {
    write!(output, " {hook:<19}{:>10}", histogram.count())?;
    for value in text::figures(histogram).chain([mean(histogram)]) {
        match value {
            Some(value) => write!(output, "{value:>10}")?,
            None => write!(output, "{:>10}", "-")?,
        }
    }
    writeln!(output)
}

fn mean(histogram: &Histogram) -> Option<Nanos> {
    let mean = histogram.sum_ns().checked_div(u128::from(histogram.count()))?;
    Some(Nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
}

/// As comma-separated values.
pub(crate) fn csv(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    writeln!(output, "hook,count,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,sum_ns")?;
    for (hook, found) in hooks(summary) {
        if let Ok(histogram) = found {
            write!(output, "{hook},{}", histogram.count())?;
            for value in text::figures(histogram) {
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
    cumulative: Cumulative<'a>,
}

#[derive(Serialize)]
struct Cumulative<'a> {
    hooks: BTreeMap<Hook, StageSummary>,
    absent: BTreeMap<Hook, &'a str>,
}

impl<'a> Json<'a> {
    pub(crate) fn new(summary: &'a Summary) -> Json<'a> {
        let mut cumulative = Cumulative {
            hooks: BTreeMap::new(),
            absent: BTreeMap::new(),
        };
        for (hook, found) in hooks(summary) {
            match found {
                Ok(histogram) => drop(cumulative.hooks.insert(hook, StageSummary::from(histogram))),
                Err(reason) => drop(cumulative.absent.insert(hook, reason)),
            }
        }
        Json { summary, cumulative }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::stage::StageMap;

    use super::*;

    /// A read that could be read after 1 ms and was after 5 ms.
    fn summary() -> Summary {
        let mut summary = Summary::default();
        let stack = Nanos(1_000_000);
        let mut histogram = Histogram::new();
        histogram.record(stack, 1);
        summary.rx.stages = StageMap::from_fn(|stage| (stage == Stage::RxStack).then(|| histogram.clone()));
        summary.rx.total.record(Nanos(5_000_000), 1);
        summary.rx.messages = 1;
        summary
    }

    fn printed(print: impl Fn(&mut dyn Write, &Summary) -> io::Result<()>, summary: &Summary) -> String {
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
             tcp-socket-read,1,5000000,5000000,5000000,5000000,5000000,5000000\n"
        );
        let text = printed(table, &summary());
        assert!(
            text.contains(
                " tcp-socket-read             1   5.00 ms   5.00 ms   5.00 ms   5.00 ms   5.00 ms   5.00 ms\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(" ip-start                    -  no tracepoint"),
            "{text}"
        );
    }

    #[test]
    fn json_is_that_of_the_summary_and_the_hooks() {
        let json = serde_json::to_value(Json::new(&summary())).unwrap();
        assert_eq!(json["rx"]["messages"], 1);
        let hooks = &json["cumulative"]["hooks"];
        assert_eq!(hooks["tcp-socket-enqueued"]["sum_ns"], 1_000_000);
        assert_eq!(hooks["tcp-socket-read"]["max_ns"], 5_000_000);
        assert_eq!(json["cumulative"]["absent"]["ip-start"], NO_TRACEPOINT);
    }

    #[test]
    fn without_stamps_of_reads_nothing_is_shown() {
        let mut summary = Summary::default();
        summary
            .absent
            .insert(Stage::RxStack, "needs Linux 6.11".to_owned());
        let json = serde_json::to_value(Json::new(&summary)).unwrap();
        assert_eq!(json["cumulative"]["hooks"], serde_json::json!({}));
        assert_eq!(
            json["cumulative"]["absent"]["tcp-socket-read"],
            "needs Linux 6.11"
        );
    }
}
