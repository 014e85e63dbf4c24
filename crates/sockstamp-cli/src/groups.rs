//! `stat --by`: a table of groups, and CSV.

use std::io::{self, Write};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{Dimension, GroupDirection, GroupHistogram, GroupSummary, Groups};
use sockstamp_model::stage::Direction;

/// Columns for names.
const WIDEST: usize = 80;

/// Read a dimension by its name, with all names in help and completions.
pub(crate) fn dimension() -> impl TypedValueParser<Value = Dimension> {
    let names = PossibleValuesParser::new(Dimension::ALL.map(Dimension::name));
    names.try_map(|name| name.parse::<Dimension>())
}

/// The first `count` groups, two lines each, and the rest.
pub(crate) fn table(output: &mut dyn Write, groups: &Groups, count: usize) -> io::Result<()> {
    let (top, other) = groups.top(count);
    let hidden = groups.groups.len() - top.len();
    let other_name = match hidden {
        0 => "other".to_owned(),
        hidden => format!("other ({hidden} more)"),
    };
    let has_other = other.messages() > 0 || other.tx.retransmits > 0;
    let names = top.iter().map(|group| group.key.to_string());
    let rows: Vec<_> = names
        .zip(top)
        .chain(has_other.then_some((other_name, &other)))
        .collect();
    let headline = format!("by {}", groups.by);
    let width = rows.iter().map(|(name, _)| name.chars().count());
    // The path of a cgroup may have 4096 bytes: such a row stands out of the table, and does not
    // widen it.
    let width = width.max().unwrap_or(0).min(WIDEST).max(headline.len());

    writeln!(
        output,
        " {headline:<width$}   {:>10}{:>9}{:>10}{:>10}{:>10}  largest stage",
        "messages", "retrans", "p50", "p99", "max"
    )?;
    for (name, group) in &rows {
        line(output, &format!("{name:<width$}"), Direction::Tx, group)?;
        line(output, &" ".repeat(width), Direction::Rx, group)?;
    }
    writeln!(output)
}

fn line(output: &mut dyn Write, name: &str, direction: Direction, group: &GroupSummary) -> io::Result<()> {
    let part = group.direction(direction);
    write!(output, " {name} {direction}{:>10}", part.messages)?;
    match direction {
        Direction::Tx => write!(output, "{:>9}", part.retransmits)?,
        Direction::Rx => write!(output, "{:>9}", "")?,
    }
    let total = &part.total;
    for value in [total.quantile(0.5), total.quantile(0.99), total.max()] {
        match value {
            Some(value) => write!(output, "{value:>10}")?,
            None => write!(output, "{:>10}", "-")?,
        }
    }
    match part.largest_stage() {
        Some((stage, share)) => writeln!(output, "  {stage} {:.1} %", share * 100.0),
        None => writeln!(output, "  -"),
    }
}

/// A line for each group, direction and distribution.
pub(crate) fn csv(output: &mut dyn Write, groups: &Groups) -> io::Result<()> {
    for dimension in groups.by.dimensions() {
        write!(output, "{dimension},")?;
    }
    writeln!(
        output,
        "direction,messages,measured,refused,bytes,retransmits,stage,count,p50_ns,p90_ns,p99_ns,max_ns,sum_ns"
    )?;
    let mut other = groups.other.clone();
    other.merge(&groups.ended);
    for group in groups.groups.iter().chain([&other]) {
        for direction in Direction::ALL {
            let part = group.direction(direction);
            let head = head(groups, group, direction, part);
            for (stage, histogram) in part.stages.present() {
                csv_line(output, &head, stage.name(), histogram)?;
            }
            csv_line(output, &head, "total", &part.total)?;
        }
    }
    Ok(())
}

/// Print the common columns of a direction's lines. For messages outside groups the dimensions are
/// empty.
fn head(groups: &Groups, group: &GroupSummary, direction: Direction, part: &GroupDirection) -> String {
    let value = |dimension: Dimension| quoted(&group.key.value(dimension).unwrap_or_default());
    let mut fields: Vec<_> = groups.by.dimensions().map(value).collect();
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
    let is_formula = value != "-" && value.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    let value = format!("{}{value}", if is_formula { "'" } else { "" });
    if value.contains([',', '"']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value
    }
}

fn csv_line(output: &mut dyn Write, head: &str, name: &str, histogram: &GroupHistogram) -> io::Result<()> {
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
    use sockstamp_model::stage::Stage;

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
        group.tx.total.record(Nanos(4_000_000), messages);
        let network = group.tx.stages[Stage::TxNetwork].get_or_insert_default();
        network.record(Nanos(3_000_000), messages);
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
                " by comm,port       messages  retrans       p50       p99       max  largest stage\n",
                " nginx 443      tx         7        0   3.95 ms   4.00 ms   4.00 ms  tx.network 75.0 %\n",
                "                rx         0                  -         -         -  -\n",
                " other (2 more) tx         8        0   3.95 ms   4.00 ms   4.00 ms  tx.network 75.0 %\n",
                "                rx         6                  -         -         -  -\n",
                "\n",
            )
        );
        let all = printed(|output| table(output, &groups(), 9));
        assert!(all.contains("\n other "), "{all}");
    }

    #[test]
    fn a_hostile_name_stays_in_its_line_and_its_cell() {
        let hostile = "\u{1b}]0;x\u{7}\n\u{202e},\"";
        let groups = Groups::new("comm,port".parse().unwrap(), [group(hostile, 1)]);
        let table = printed(|output| table(output, &groups, 9));
        assert!(table.contains(r#" \x1b]0;x\x07\n\u{202e}," 443 tx "#), "{table}");
        assert_eq!(table.lines().count(), 4, "{table}");
        let csv = printed(|output| csv(output, &groups));
        assert!(csv.contains(r#""\x1b]0;x\x07\n\u{202e},""",443,tx,"#), "{csv}");
        for text in [table, csv] {
            assert!(text.chars().all(|c| c == '\n' || sockstamp_model::name::shows(c)));
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

    #[test]
    fn a_long_name_widens_no_other_row() {
        let long = format!("/{}", "x".repeat(4000));
        let groups = Groups::new("comm".parse().unwrap(), [group(&long, 2), group("short", 1)]);
        let table = printed(|output| table(output, &groups, 9));
        assert!(table.contains(&long));
        let short = table.lines().find(|line| line.contains("short")).unwrap();
        assert!(short.len() < 200, "{short}");
    }

    #[test]
    fn csv_has_a_line_for_each_distribution() {
        let csv = printed(|output| csv(output, &groups()));
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(
            &lines[..4],
            [
                "comm,port,direction,messages,measured,refused,bytes,retransmits,stage,count,p50_ns,p90_ns,p99_ns,max_ns,sum_ns",
                "nginx,443,tx,7,7,0,70,0,tx.network,7,2878612,3000000,3000000,3000000,21000000",
                "nginx,443,tx,7,7,0,70,0,total,7,3952848,4000000,4000000,4000000,28000000",
                "nginx,443,rx,0,0,0,0,0,total,0,,,,,0",
            ]
        );
        assert!(lines.iter().any(|line| line.starts_with("\"a,b\",443,tx,2,")));
        assert!(lines.contains(&",,rx,6,0,0,0,0,total,0,,,,,0"));
    }
}
