//! Tables and lines for people.

use std::io::{self, Write};

use sockstamp_host::places::Places;
use sockstamp_model::summary::{Connections, DirectionSummary, Lost, Summary};

use crate::colour::Brush;
use crate::columns::Column;
use crate::counters::{connections, losses, verdicts};
use crate::directions::{DIRECTIONS, are_lives, directions};
use crate::findings::Shown;
use crate::headline::headline;
use crate::numbers::counted;
use crate::paragraph::wrapped;
use crate::stages::all_stages;
use crate::{coalescing, interfaces, listeners};

/// The table of `stat`.
pub fn table(
    output: &mut dyn Write,
    summary: &Summary,
    columns: &[Column],
    findings: &Shown<'_>,
    places: &Places,
    brush: Brush,
) -> io::Result<()> {
    writeln!(output)?;
    for direction in directions(summary) {
        headline(output, direction, summary)?;
    }
    if summary.adopted > 0 {
        writeln!(
            output,
            " adopted: {} that existed before",
            counted(summary.adopted, "connection")
        )?;
    }
    windows(output, summary)?;
    cost(output, summary)?;
    if has_times(summary) {
        all_stages(output, summary, columns, brush)?;
    }
    writeln!(output)?;
    connections(output, &summary.connections)?;
    verdicts(output, summary, brush)?;
    listeners::lines(output, &summary.listeners, places.home, &places.names)?;
    interfaces::summary(output, &summary.interfaces, places.home, &places.names)?;
    begins_unseen(output, summary)?;
    losses(output, summary, brush)?;
    coalescing::lines(output, &summary.coalescing, places.home, &places.names)?;
    findings.print(output, brush)?;
    writeln!(output)
}

/// Tell of how many sends the begin was not seen, where that of others was.
fn begins_unseen(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let (unseen, sent) = (summary.tx.begins_unseen, summary.tx.sent.count());
    if unseen == 0 || are_lives(summary) {
        return Ok(());
    }
    let words = format!(
        "{unseen} of {sent} sends, of connected UDP sockets: their time is from tx.qdisc on, and \
         \"tx sent\" took at least that long (doctor: fentry/udp_sendmsg)"
    );
    let line = wrapped(" begin not seen:", words.split(' '), "");
    writeln!(output, "{line}")
}

/// Print which counts are estimates.
fn windows(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let Some(windows) = &summary.windows else {
        return Ok(());
    };
    let late = match windows.late {
        0 => String::new(),
        late => format!(", {late} of them late"),
    };
    let failed = match windows.failed {
        0 => String::new(),
        failed => format!(", {failed} more left out"),
    };
    let items = [
        format!("measured in {} windows{late}{failed}", windows.count),
        format!("1/{} of the time at the end", windows.one_of),
        "counts of stages are sums of weights".to_owned(),
    ];
    writeln!(output, "{}", wrapped(" windows:", items, ";"))
}

/// Print the cost of the measurement, and how it is limited.
fn cost(output: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let Some(cost) = &summary.cost else {
        return Ok(());
    };
    let percent = |millionths: u32| format!("{:.2} %", f64::from(millionths) / 1e4);
    let total = percent(cost.programs.saturating_add(cost.process));
    let mut items = vec![format!("{total} of a core")];
    if let (true, Some(cap)) = (cost.lowered, cost.rate_cap) {
        items.push(format!(
            "lowered to {cap} messages per second, flow and direction"
        ));
    }
    if cost.over > 0 {
        items.push(format!(
            "above --max-cost in {} of {} looks",
            cost.over, cost.looks
        ));
    }
    writeln!(output, "{}", wrapped(" cost:", items, ";"))
}

/// Return true if any row of stages would have a figure.
fn has_times(summary: &Summary) -> bool {
    let any = |direction| {
        let part = summary.direction(direction);
        let mut stages = part.stages.present();
        part.messages > 0 || stages.any(|(_, histogram)| histogram.count() > 0)
    };
    DIRECTIONS.into_iter().any(any)
}

/// Return true if there is nothing to print.
pub fn is_empty(summary: &Summary) -> bool {
    let quiet = |direction: &DirectionSummary| {
        (
            direction.messages,
            direction.retransmits,
            direction.out_of_order,
            direction.drops,
        ) == (0, 0, 0, 0)
    };
    quiet(&summary.tx)
        && quiet(&summary.rx)
        && summary.lost == Lost::default()
        && summary.connections == Connections::default()
        && summary
            .listeners
            .iter()
            .all(|listener| listener.dropped == 0)
        && summary.refusals().count() == 0
}

/// Programs that talk by these seem to be silent.
pub const OTHER_TRAFFIC: &str =
    "not measured: SCTP, SMC, UDP-Lite, vsock; in part: QUIC, Unix sockets";

/// The table without messages.
pub fn nothing(output: &mut dyn Write, summary: &Summary, why: &str) -> io::Result<()> {
    let words = format!("{}: {why}", summary.duration);
    writeln!(
        output,
        "{}",
        wrapped(" no messages in", words.split(' '), "")
    )
}

#[cfg(test)]
mod tests {
    use sockstamp_explain::diagnosis::{Case, Scope};
    use sockstamp_model::interface::{Interface, InterfaceSummary, Medium};
    use sockstamp_model::unpaired::Unpaired;

    use sockstamp_model::clock::Nanos;
    use sockstamp_model::histogram::Histogram;
    use sockstamp_model::part::{Part, PartSummary};
    use sockstamp_model::stage::Stage;
    use sockstamp_model::summary::Resent;
    use sockstamp_model::verdict::Verdict;

    use super::*;
    use crate::paragraph::WIDTH;

    /// Every counter at its widest, and every refusal.
    fn crowded() -> Summary {
        let mut summary = Summary {
            duration: Nanos(3_600_000_000_000),
            in_flight: 999_999,
            ..Summary::default()
        };
        let mut histogram = Histogram::new();
        histogram.record(Nanos(123_456_789), 99_999_999);
        for direction in DIRECTIONS {
            let part = summary.direction_mut(direction);
            part.messages = u64::from(u32::MAX);
            part.measured = 1_234_567;
            part.bytes = u64::from(u32::MAX) * 1_000;
            part.retransmits = 1_234_567;
            part.resent = Some(Resent {
                syns: 1_234_567,
                probes: 1_234_567,
                window: 1_234_567,
                fast: 1_234_567,
                timeouts: 1_234_567,
                needless: 1_234_567,
            });
            part.segments = Some(u64::from(u32::MAX));
            part.out_of_order = 1_234_567;
            part.unpaired.add(Unpaired::Pipelined, 1_234_567);
            part.drops = 1_234_567;
            part.sent = histogram.clone();
            part.total = histogram.clone();
            for stage in Stage::ALL
                .into_iter()
                .filter(|stage| stage.direction() == direction)
            {
                part.stages[stage] = Some(histogram.clone());
                for of in Part::of(stage) {
                    part.parts[of] = Some(PartSummary {
                        count: 9_999_999,
                        sum_ns: histogram.sum_ns() / 7,
                        max_ns: Some(Nanos(123_456_789)),
                    });
                }
            }
        }
        summary.verdicts = Verdict::ALL.map(|verdict| (verdict, 1_234_567)).into();
        summary.lost.evicted = 123_456_789;
        summary.lost.unmatched = 123_456_789;
        summary.lost.turned_away = 123_456_789;
        summary.lost.skipped = 123_456_789;
        summary.lost.groups = 123_456_789;
        summary.interfaces = vec![InterfaceSummary {
            interface: Some(Interface {
                name: "veth0123456789a".into(),
                index: 2,
                netns: sockstamp_model::NetnsInode(4_026_531_840),
            }),
            medium: Some(Medium::Virtual("veth".to_owned())),
            leads_on: true,
            messages: u64::MAX,
        }];
        summary
    }

    fn printed(summary: &Summary) -> String {
        printed_with(summary, false)
    }

    fn printed_with(summary: &Summary, why: bool) -> String {
        printed_as(summary, why, &Column::USUAL)
    }

    fn printed_as(summary: &Summary, why: bool, columns: &[Column]) -> String {
        let mut text = Vec::new();
        table(
            &mut text,
            summary,
            columns,
            &Shown {
                diagnosis: &Case::new(Scope::default()).diagnose(summary),
                why,
            },
            &Places::default(),
            Brush::default(),
        )
        .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn no_line_of_the_table_is_wider_than_a_terminal() {
        let text = printed_with(&crowded(), true);
        assert!(text.contains("\n   check: "), "{text}");
        for line in text.lines() {
            assert!(
                line.chars().count() <= WIDTH,
                "{}: {line}",
                line.chars().count()
            );
        }
    }

    #[test]
    fn begins_are_unseen_of_udp_alone() {
        let mut summary = Summary::default();
        // Of TCP, recorded without the hooks on the entry.
        summary.tx.sent.record(Nanos(4_000), 3);
        assert!(!printed(&summary).contains("begin not seen"));
        summary.tx.begins_unseen = 2;
        let text = printed(&summary);
        assert!(text.contains(" begin not seen: 2 of 3 sends,"), "{text}");
    }

    #[test]
    fn the_share_of_a_stage_is_of_the_time_until_messages_left() {
        let mut summary = Summary::default();
        for (stage, nanos) in [(Stage::TxQdisc, 3_000), (Stage::TxNetwork, 90_000)] {
            summary.tx.stages[stage]
                .get_or_insert_default()
                .record(Nanos(nanos), 1);
        }
        summary.tx.sent.record(Nanos(4_000), 1);
        summary.tx.total.record(Nanos(94_000), 1);
        let text = printed(&summary);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line(" tx.qdisc ").ends_with(" 75.0 % ███"), "{text}");
        assert!(line(" tx sent ").ends_with(" 100.0 %"), "{text}");
        assert!(line(" tx.network ").ends_with(" after"), "{text}");
        assert!(!text.contains("tx total"), "{text}");
    }

    #[test]
    fn the_table_has_the_columns_that_were_chosen() {
        let mut summary = Summary::default();
        let copy = summary.tx.stages[Stage::TxCopy].get_or_insert_default();
        copy.record(Nanos(1_000), 3);
        copy.record(Nanos(5_000), 1);
        summary.tx.parts[Part::Sndbuf] = Some(PartSummary {
            count: 2,
            sum_ns: 4_000,
            max_ns: Some(Nanos(3_000)),
        });
        summary.tx.sent.record(Nanos(8_000), 1);
        let text = printed_as(&summary, false, &[Column::Min, Column::Mean, Column::Max]);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(
            line(" stage "),
            " stage           count      min     mean      max   share"
        );
        let [stage, part] = [" tx.copy ", "   sndbuf "].map(line);
        assert!(
            stage.starts_with(" tx.copy             4  1.00 µs  2.00 µs  5.00 µs "),
            "{text}"
        );
        assert!(
            part.starts_with("   sndbuf            2           2.00 µs  3.00 µs "),
            "{text}"
        );
    }

    #[test]
    fn drops_have_the_kernels_reasons_beside_them() {
        let mut summary = Summary::default();
        summary.rx.drops = 42;
        summary.rx.drop_reasons = [("SOCKET_RCVBUFF", 40), ("UDP_CSUM", 2)]
            .map(|(reason, count)| (reason.into(), count))
            .into();
        summary.tx.drop_reasons.insert("QDISC_DROP".into(), 3);
        summary.verdicts.insert(Verdict::Dropped, 3);
        let text = printed(&summary);
        assert!(
            text.contains(" 42 dropped (SOCKET_RCVBUFF 40, UDP_CSUM 2)\n"),
            "{text}"
        );
        assert!(text.contains(" dropped 3 (QDISC_DROP)\n"), "{text}");
        // A message may have several packets.
        summary.tx.drop_reasons.insert("QDISC_OVERLIMIT".into(), 40);
        let text = printed(&summary);
        let both = "dropped 3 (of packets: QDISC_OVERLIMIT 40, QDISC_DROP 3)\n";
        assert!(text.contains(both), "{text}");
    }

    #[test]
    fn retransmits_are_of_the_segments_sent() {
        let mut summary = Summary::default();
        summary.tx.retransmits = 25;
        assert!(printed(&summary).contains(" 25 retransmits\n"));
        summary.tx.segments = Some(1800);
        let text = printed(&summary);
        assert!(
            text.contains(" retransmits 25 of 1800 segments (1.4 %)\n"),
            "{text}"
        );
        summary.tx.resent = Some(Resent {
            syns: 1,
            probes: 4,
            fast: 20,
            needless: 3,
            ..Resent::default()
        });
        let text = printed(&summary);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(
            words
                .join(" ")
                .contains("segments (1.4 %), 1 SYN, 4 probes, 3 needless"),
            "{text}"
        );
        summary.tx.resent = None;
        // SYNs alone.
        summary.tx.segments = Some(3);
        assert!(printed(&summary).contains(" 25 retransmits\n"));
    }

    #[test]
    fn only_counters_that_counted_are_printed() {
        let mut summary = Summary::default();
        assert!(printed(&summary).contains("\n lost: nothing\n"));
        summary.lost.evicted = 2;
        summary.lost.not_adopted = 1;
        assert!(printed(&summary).contains("\n lost: evicted 2, not adopted 1\n"));
        assert!(!printed(&summary).contains("not followed"));
        summary.lost = Lost {
            datagrams: 14,
            ..Lost::default()
        };
        let calls = "\n lost: nothing\n not followed: at least 14 calls of UDP sockets, before";
        assert!(printed(&summary).contains(calls), "{}", printed(&summary));
    }

    #[test]
    fn the_diagnosis_is_the_last_line() {
        let mut summary = Summary::default();
        assert!(!printed(&summary).contains("diagnosis"));
        summary.rx.drops = 100;
        let text = printed(&summary);
        let begin = text.rfind("\n diagnosis: ").unwrap();
        let words = text[begin..]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            words.starts_with("diagnosis: 100 of 100 datagrams were dropped at their socket")
                && words.ends_with("→ sockstamp stat --by comm,port"),
            "{text}"
        );
    }
}
