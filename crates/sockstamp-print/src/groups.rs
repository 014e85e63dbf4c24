//! `stat --by` and `report --by`: a table of groups, and CSV.

use std::cmp::Reverse;
use std::io::{self, Write};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sockstamp_explain::diagnosis;
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{
    Dimension, GroupDirection, GroupHistogram, GroupSummary, Grouping, Groups,
};
use sockstamp_model::part::Part;
use sockstamp_model::percent::share;
use sockstamp_model::stage::{Direction, Stage};

use crate::colour::Brush;
use crate::paragraph::{WIDTH, wrapped};

/// Columns of the names of directions and stages.
const LABEL: usize = 16;

/// Read one of these dimensions by its name, with all names in help and completions.
pub fn dimension<const N: usize>(of: [Dimension; N]) -> impl TypedValueParser<Value = Dimension> {
    let names = PossibleValuesParser::new(of.map(Dimension::name));
    names.try_map(|name| name.parse::<Dimension>())
}

/// The figure that groups are sorted by, the largest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Messages of both directions.
    #[default]
    Count,
    /// Bytes of both directions.
    Bytes,
    /// Time of all messages until they left the host or were read.
    Total,
    /// Time of all messages in one stage.
    Stage(Stage),
}

impl Sort {
    const OTHERS: [(&str, Self); 3] = [
        ("count", Self::Count),
        ("bytes", Self::Bytes),
        ("total", Self::Total),
    ];

    fn of(self, group: &GroupSummary) -> u128 {
        match self {
            Self::Count => group.messages().into(),
            Self::Bytes => u128::from(group.tx.bytes) + u128::from(group.rx.bytes),
            Self::Total => group.sum_ns(),
            Self::Stage(stage) => {
                let histogram = group.direction(stage.direction()).stages[stage].as_ref();
                histogram.map_or(0, GroupHistogram::sum_ns)
            }
        }
    }
}

/// Read the name of a figure, with all names in help and completions.
pub fn sort() -> impl TypedValueParser<Value = Sort> {
    let others = Sort::OTHERS.map(|(name, _)| name);
    let names = others.into_iter().chain(Stage::ALL.map(Stage::name));
    PossibleValuesParser::new(names).try_map(|name| {
        let other = Sort::OTHERS.into_iter().find(|(other, _)| *other == name);
        other.map_or_else(|| name.parse().map(Sort::Stage), |(_, sort)| Ok(sort))
    })
}

/// Sort groups; equal ones keep their order.
pub fn order(groups: &mut Groups, by: Sort) {
    groups.groups.sort_by_key(|group| Reverse(by.of(group)));
}

/// The first `count` groups, and the rest.
pub fn table(output: &mut dyn Write, groups: &Groups, count: usize) -> io::Result<()> {
    rows(output, &format!("by {}", groups.by), &named(groups, count))
}

/// Return the first `count` groups with their names, and the rest if there is any.
pub fn named(groups: &Groups, count: usize) -> Vec<(String, GroupSummary)> {
    let (top, other) = groups.top(count);
    let hidden = groups.groups.len() - top.len();
    let other_name = match hidden {
        0 => "other".to_owned(),
        hidden => format!("other ({hidden} more)"),
    };
    let has_other = other.messages() > 0 || other.tx.retransmits > 0;
    let top = top
        .iter()
        .map(|group| (group.key.to_string(), group.clone()));
    top.chain(has_other.then_some((other_name, other)))
        .collect()
}

/// A table of groups: the name of each, and a line per direction and stage between messages.
pub fn rows(
    output: &mut dyn Write,
    headline: &str,
    rows: &[(String, GroupSummary)],
) -> io::Result<()> {
    let headline = format!(" {headline}");
    let label = match headline.len() <= LABEL {
        true => headline.as_str(),
        false => {
            writeln!(output, "{headline}")?;
            ""
        }
    };
    writeln!(
        output,
        "{label:<LABEL$}{:>9}{:>8}{:>9}{:>9}{:>9}  largest stage",
        "messages", "retrans", "~p50", "~p99", "max"
    )?;
    for (name, group) in rows {
        named_line(output, name)?;
        for direction in Direction::ALL
            .into_iter()
            .filter(|direction| has(group, *direction))
        {
            line(output, direction, group)?;
        }
        for (stage, histogram) in between(group) {
            stage_line(output, stage, histogram, group.direction(stage.direction()))?;
        }
    }
    writeln!(output)
}

/// Print a name whole: the path of a cgroup may have 4096 bytes.
fn named_line(output: &mut dyn Write, name: &str) -> io::Result<()> {
    let signs: Vec<char> = name.chars().collect();
    for (number, signs) in signs.chunks(WIDTH - 2).enumerate() {
        let indent = if number == 0 { " " } else { "  " };
        writeln!(output, "{indent}{}", signs.iter().collect::<String>())?;
    }
    Ok(())
}

/// Return true if a group has messages of a direction, or none of either.
fn has(group: &GroupSummary, direction: Direction) -> bool {
    let moved = |direction| {
        let part = group.direction(direction);
        part.messages > 0 || part.retransmits > 0
    };
    moved(direction) || (direction == Direction::Tx && !moved(Direction::Rx))
}

/// Groups that have a sentence of their own.
const DIAGNOSES: usize = 3;

/// Diagnose the groups whose causes took the most time.
pub fn diagnoses(
    output: &mut dyn Write,
    groups: &Groups,
    slow: Nanos,
    brush: Brush,
) -> io::Result<()> {
    let found = groups.groups.iter().filter_map(|group| {
        let (ns, sentence) = diagnosis::of_group(group, slow)?;
        Some((ns, group, sentence))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(ns, ..)| Reverse(*ns));
    found.truncate(DIAGNOSES);
    for (_, group, sentence) in &found {
        let text = format!("{}: {sentence}", group.key);
        let text = wrapped(" diagnosis of", text.split(' '), "");
        writeln!(output, "{}", brush.bold(&text))?;
    }
    if !found.is_empty() {
        writeln!(output)?;
    }
    Ok(())
}

/// The stages between messages that a group has.
fn between(group: &GroupSummary) -> impl Iterator<Item = (Stage, &GroupHistogram)> {
    let stages = Stage::ALL
        .into_iter()
        .filter(|stage| stage.is_between_messages());
    stages.filter_map(|stage| {
        let histogram = group.direction(stage.direction()).stages[stage].as_ref()?;
        (!histogram.is_empty()).then_some((stage, histogram))
    })
}

fn stage_line(
    output: &mut dyn Write,
    stage: Stage,
    histogram: &GroupHistogram,
    whole: &GroupDirection,
) -> io::Result<()> {
    let label = format!("  {stage}");
    write!(
        output,
        "{label:<LABEL$}{:>9}{:>8}",
        short(histogram.count()),
        ""
    )?;
    times(output, histogram)?;
    let largest = Part::of(stage)
        .filter_map(|part| Some((part, whole.parts[part].as_ref()?.sum_ns)))
        .max_by_key(|&(_, sum)| sum);
    match largest {
        Some((part, sum)) => writeln!(output, "  {part} {}", share(sum, histogram.sum_ns())),
        None => writeln!(output, "  -"),
    }
}

fn times(output: &mut dyn Write, histogram: &GroupHistogram) -> io::Result<()> {
    for value in [
        histogram.quantile(0.5),
        histogram.quantile(0.99),
        histogram.max(),
    ] {
        match value {
            Some(value) => write!(output, "{value:>9}")?,
            None => write!(output, "{:>9}", "-")?,
        }
    }
    Ok(())
}

fn line(output: &mut dyn Write, direction: Direction, group: &GroupSummary) -> io::Result<()> {
    let part = group.direction(direction);
    let label = format!("  {direction}");
    write!(output, "{label:<LABEL$}{:>9}", short(part.messages))?;
    match direction {
        Direction::Tx => write!(output, "{:>8}", short(part.retransmits))?,
        Direction::Rx => write!(output, "{:>8}", "")?,
    }
    times(output, part.time(direction))?;
    match part.largest_stage() {
        Some((stage, share)) => writeln!(output, "  {stage} {:.1} %", share * 100.0),
        None => writeln!(output, "  -"),
    }
}

/// Write a count in seven columns at most, in millions if it has more.
fn short(count: u64) -> String {
    match count {
        0..=9_999_999 => count.to_string(),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// Print the names of columns, and a line for each group, direction and distribution.
pub fn csv(output: &mut dyn Write, groups: &Groups) -> io::Result<()> {
    csv_names(output, Some(&groups.by))?;
    csv_lines(output, Some(&groups.by), groups)
}

/// Print the names of columns, after those of the dimensions.
pub fn csv_names(output: &mut dyn Write, by: Option<&Grouping>) -> io::Result<()> {
    for dimension in by.into_iter().flat_map(Grouping::dimensions) {
        write!(output, "{dimension},")?;
    }
    writeln!(
        output,
        "direction,messages,measured,refused,bytes,retransmits,stage,count,p50_ns,p90_ns,p99_ns,max_ns,sum_ns"
    )
}

/// Print a line for each group, direction and distribution. Messages outside groups have lines if
/// there are any.
pub fn csv_lines(output: &mut dyn Write, by: Option<&Grouping>, groups: &Groups) -> io::Result<()> {
    let mut other = groups.other.clone();
    other.merge(&groups.ended);
    let other = Some(&other).filter(|other| other.messages() > 0);
    for group in groups.groups.iter().chain(other) {
        for direction in Direction::ALL {
            let part = group.direction(direction);
            let head = head(by, group, direction, part);
            for (stage, histogram) in part.stages.present() {
                csv_line(output, &head, stage.name(), histogram)?;
            }
            if direction == Direction::Tx {
                csv_line(output, &head, "sent", &part.sent)?;
            }
            csv_line(output, &head, "total", &part.total)?;
        }
    }
    Ok(())
}

/// Print the common columns of a direction's lines. For messages outside groups the dimensions are
/// empty.
fn head(
    by: Option<&Grouping>,
    group: &GroupSummary,
    direction: Direction,
    part: &GroupDirection,
) -> String {
    let value = |dimension: Dimension| quoted(&group.key.value(dimension).unwrap_or_default());
    let dimensions = by.into_iter().flat_map(Grouping::dimensions);
    let mut fields: Vec<_> = dimensions.map(value).collect();
    fields.push(direction.name().to_owned());
    fields.extend(
        [
            part.messages,
            part.measured,
            part.refused,
            part.bytes,
            part.retransmits,
        ]
        .map(|count| count.to_string()),
    );
    fields.join(",")
}

/// Quote a foreign name as a field of RFC 4180, section 2. It is escaped, so it has no end of line.
/// Spreadsheets take a field that begins with one of these signs for a formula, even in quotes, but
/// not after an apostrophe.
fn quoted(value: &str) -> String {
    let is_formula =
        value != "-" && value.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    let value = format!("{}{value}", if is_formula { "'" } else { "" });
    if value.contains([',', '"']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value
    }
}

fn csv_line(
    output: &mut dyn Write,
    head: &str,
    name: &str,
    histogram: &GroupHistogram,
) -> io::Result<()> {
    write!(output, "{head},{name},{}", histogram.count())?;
    let quantiles = [0.5, 0.9, 0.99].map(|quantile| histogram.quantile(quantile));
    for value in quantiles.into_iter().chain([histogram.max()]) {
        match value {
            Some(Nanos(value)) => write!(output, ",{value}")?,
            None => write!(output, ",")?,
        }
    }
    writeln!(output, ",{}", histogram.sum_ns())
}

#[cfg(test)]
mod tests {
    use sockstamp_model::group::GroupKey;
    use sockstamp_model::part::PartSummary;

    use super::*;

    fn group(comm: &str, messages: u64) -> GroupSummary {
        let mut group = GroupSummary::new(GroupKey {
            comm: Some(comm.into()),
            port: Some(443),
            ..GroupKey::default()
        });
        group.tx.messages = messages;
        group.tx.measured = messages;
        group.tx.bytes = 10 * messages;
        group.tx.sent.record(Nanos(4_000_000), messages);
        group.tx.total.record(Nanos(9_000_000), messages);
        let qdisc = group.tx.stages[Stage::TxQdisc].get_or_insert_default();
        qdisc.record(Nanos(3_000_000), messages);
        group
    }

    fn groups() -> Groups {
        let parts = [group("nginx", 7), group("a,b", 2), group("c", 1)];
        let mut groups = Groups::new("port,comm".parse().unwrap(), parts);
        groups.other.tx.messages = 5;
        groups.ended.rx.messages = 6;
        groups
    }

    fn printed(print: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut output = Vec::new();
        print(&mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_table_has_the_top_and_the_rest() {
        assert_eq!(
            printed(|output| table(output, &groups(), 1)),
            concat!(
                " by comm,port    messages retrans     ~p50     ~p99      max  largest stage\n",
                " nginx 443\n",
                "  tx                    7       0  3.95 ms  4.00 ms  4.00 ms  tx.qdisc 75.0 %\n",
                " other (2 more)\n",
                "  tx                    8       0  3.95 ms  4.00 ms  4.00 ms  tx.qdisc 75.0 %\n",
                "  rx                    6                -        -        -  -\n",
                "\n",
            )
        );
        let all = printed(|output| table(output, &groups(), 9));
        assert!(all.contains("\n other\n"), "{all}");
    }

    #[test]
    fn the_time_of_a_peer_has_a_line_outside_the_messages() {
        let mut asking = group("curl", 7);
        let answer = asking.rx.stages[Stage::PeerAnswer].get_or_insert_default();
        answer.record(Nanos(60_000_000), 5);
        for (part, sum_ns) in [(Part::Network, 50_000_000), (Part::Peer, 250_000_000)] {
            asking.rx.parts[part] = Some(PartSummary {
                count: 5,
                sum_ns,
                max_ns: None,
            });
        }
        let groups = Groups::new("port,comm".parse().unwrap(), [asking]);
        let table = printed(|output| table(output, &groups, 9));
        assert!(
            table.contains(
                "\n  peer.answer           5          56.2 ms  60.0 ms  60.0 ms  peer 83.3 %\n"
            ),
            "{table}"
        );
    }

    const SLOW: Nanos = Nanos(10_000_000);

    #[test]
    fn the_groups_whose_causes_took_the_most_time_have_a_sentence_each() {
        let slow = |name: &str, millis: u64| {
            let mut group = group(name, 10);
            let app = group.rx.stages[Stage::RxApp].get_or_insert_default();
            app.record(Nanos(millis * 1_000_000), 10);
            group.rx.total.record(Nanos(millis * 1_000_000), 10);
            group
        };
        let slow = [("a", 20), ("b", 90), ("c", 30), ("d", 1), ("e", 40)]
            .map(|(name, millis)| slow(name, millis));
        let groups = Groups::new("port,comm".parse().unwrap(), slow);
        let text = printed(|output| diagnoses(output, &groups, SLOW, Brush::default()));
        let begins: Vec<_> = text
            .lines()
            .filter(|line| line.contains("diagnosis of"))
            .collect();
        assert_eq!(begins.len(), 3, "{text}");
        for (line, name) in begins.iter().zip(["b", "e", "c"]) {
            assert!(
                line.starts_with(&format!(" diagnosis of {name} 443: reads come late by ")),
                "{line}"
            );
        }
        let healthy = Groups::new("port,comm".parse().unwrap(), [group("f", 10)]);
        assert_eq!(
            printed(|output| diagnoses(output, &healthy, SLOW, Brush::default())),
            ""
        );
    }

    #[test]
    fn groups_are_in_the_order_of_the_figure_that_is_asked_for() {
        let mut groups = groups();
        let names = |groups: &Groups| -> Vec<_> {
            groups
                .groups
                .iter()
                .map(|group| group.key.to_string())
                .collect()
        };
        let slow = groups.groups[2].rx.stages[Stage::RxApp].get_or_insert_default();
        slow.record(Nanos(9_000), 1);
        groups.groups[1].tx.bytes = 1_000_000;
        order(&mut groups, Sort::Bytes);
        assert_eq!(names(&groups)[0], "a,b 443");
        order(&mut groups, Sort::Stage(Stage::RxApp));
        assert_eq!(names(&groups)[0], "c 443");
        order(&mut groups, Sort::Total);
        assert_eq!(names(&groups)[0], "nginx 443");
        order(&mut groups, Sort::Count);
        assert_eq!(names(&groups), ["nginx 443", "a,b 443", "c 443"]);
    }

    #[test]
    fn a_hostile_name_stays_in_its_line_and_its_cell() {
        let hostile = "\u{1b}]0;x\u{7}\n\u{202e},\"";
        let groups = Groups::new("comm,port".parse().unwrap(), [group(hostile, 1)]);
        let table = printed(|output| table(output, &groups, 9));
        assert!(
            table.contains("\n \\x1b]0;x\\x07\\n\\u{202e},\" 443\n"),
            "{table}"
        );
        assert_eq!(table.lines().count(), 4, "{table}");
        let csv = printed(|output| csv(output, &groups));
        assert!(
            csv.contains(r#""\x1b]0;x\x07\n\u{202e},""",443,tx,"#),
            "{csv}"
        );
        for text in [table, csv] {
            assert!(
                text.chars()
                    .all(|c| c == '\n' || sockstamp_model::name::shows(c))
            );
        }
    }

    #[test]
    fn no_cell_is_a_formula() {
        for (name, cell) in [
            ("=cmd|'/c calc'!A0", "'=cmd|'/c calc'!A0"),
            ("+1,2", "\"'+1,2\""),
            ("-1", "'-1"),
            ("@SUM", "'@SUM"),
            ("＝1", "'＝1"),
            ("-", "-"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(quoted(name), cell);
        }
    }

    /// Every count and time at its widest, with names of any length.
    #[test]
    fn no_line_is_wider_than_a_terminal_and_names_are_whole() {
        const HOUR: Nanos = Nanos(3_600_000_000_000);
        let long = format!("/{}", "x".repeat(4000));
        let mut widest = group(&long, 1);
        widest.tx.retransmits = u64::from(u32::MAX);
        for stage in Stage::ALL {
            let direction = match stage.direction() {
                Direction::Tx => &mut widest.tx,
                Direction::Rx => &mut widest.rx,
            };
            direction.messages = u64::MAX / 1_000_000_000;
            let histogram = direction.stages[stage].get_or_insert_default();
            histogram.record(HOUR, 9_999_999);
            direction.sent.record(HOUR, 9_999_999);
            direction.total.record(HOUR, 9_999_999);
        }
        widest.rx.complete_parts();
        widest.tx.complete_parts();
        let by = "pid,comm,container,port,peer,flow,interface"
            .parse()
            .unwrap();
        let groups = Groups::new(by, [widest, group("short", 1)]);
        let table = printed(|output| table(output, &groups, 9));
        for line in table.lines() {
            assert!(
                line.chars().count() <= WIDTH,
                "{}: {line}",
                line.chars().count()
            );
        }
        let joined: String = table.split_whitespace().collect();
        assert!(joined.contains(&long), "{table}");
    }

    #[test]
    fn csv_has_a_line_for_each_distribution() {
        let csv = printed(|output| csv(output, &groups()));
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(
            &lines[..5],
            [
                "comm,port,direction,messages,measured,refused,bytes,retransmits,stage,count,p50_ns,p90_ns,p99_ns,max_ns,sum_ns",
                "nginx,443,tx,7,7,0,70,0,tx.qdisc,7,2878612,3000000,3000000,3000000,21000000",
                "nginx,443,tx,7,7,0,70,0,sent,7,3952848,4000000,4000000,4000000,28000000",
                "nginx,443,tx,7,7,0,70,0,total,7,8385255,9000000,9000000,9000000,63000000",
                "nginx,443,rx,0,0,0,0,0,total,0,,,,,0",
            ]
        );
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("\"a,b\",443,tx,2,"))
        );
        assert!(lines.contains(&",,rx,6,0,0,0,0,total,0,,,,,0"));
    }
}
