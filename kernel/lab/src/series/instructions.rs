//! Count the instructions per message, and compare them with the kept counts.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, ensure};

/// The kernel and its compiler, which instructions follow from.
pub(crate) const MADE_OF: &str =
    r"sed -E 's/^Linux version ([^ ]+) \([^)]*\) \((.*), GNU ld.*/# Linux \1, \2/' /proc/version";

/// A row of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) instructions: u64,
    /// Runs of programs per thousand messages. Rows `command.…`: messages lost per thousand.
    pub(crate) runs: u64,
}

/// Counts by the name of the row; `None` if the kernel lacks the feature.
pub(crate) type Counts = BTreeMap<String, Option<Count>>;

/// The largest distance of a count above the kept one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Percentage of the instructions of a row.
    whole: u64,
    /// The same of what a row has more than the one without programs, which is the hook's price.
    more: u64,
    /// Instructions that the price may grow by in any case: counts repeat within these,
    noise: u64,
    /// or within this per mille of the row.
    repeats: u64,
}

/// For counts of the same kernel and compilers.
pub(crate) const SAME: Limits = Limits {
    whole: 3,
    more: 10,
    noise: 80,
    repeats: 5,
};
/// For others: another compiler makes other code of the same text.
pub(crate) const OTHERS: Limits = Limits {
    whole: 10,
    more: 30,
    noise: 160,
    repeats: 10,
};
/// For idle rows, where only timers fire: intervals of waking are random.
const IDLE: u64 = 100;
/// Runs per thousand messages that may differ: those of one packet more in the 200 messages of a
/// batch, for instance an acknowledgement by a timer, which three programs see.
const RUNS: u64 = 15;

/// Parse lines `NAME INSTRUCTIONS RUNS`, or `NAME lacking`.
pub(crate) fn parse(output: &str) -> Result<Counts> {
    let lines = output.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| row(line).with_context(|| format!("cannot parse the line {line}")))
        .collect()
}

fn row(line: &str) -> Result<(String, Option<Count>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, count) = match words[..] {
        [name, "lacking"] => (name, None),
        [name, instructions, runs] => (name, Some((instructions, runs))),
        _ => anyhow::bail!("neither a count nor its lack"),
    };
    let Some((instructions, runs)) = count else {
        return Ok((name.to_owned(), None));
    };
    let count = Count {
        instructions: instructions.parse()?,
        runs: thousandths(runs)?,
    };
    Ok((name.to_owned(), Some(count)))
}

/// Read a number with up to three decimals.
fn thousandths(text: &str) -> Result<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    ensure!(
        whole.len() < 7 && decimals.len() <= 3,
        "{text} is no number of runs"
    );
    Ok(format!("{whole}{decimals:0<3}").parse()?)
}

/// The kernel, its compiler and that of the programs: what counts follow from, in comments.
pub(crate) fn made_of(output: &str) -> String {
    let lines = output.lines().filter_map(|line| line.strip_prefix("# "));
    lines.collect::<Vec<_>>().join(", ")
}

fn count(counts: &Counts, name: &str) -> Option<Count> {
    counts.get(name).copied().flatten()
}

/// Return the row without programs, of the same messages. The command's own process adds to its
/// rows, and they have none.
fn base(name: &str) -> Option<String> {
    let (traffic, _) = name.rsplit_once('.')?;
    let base = match name.split('.').next()? {
        "command" | "idle" | "zc" | "stamps" => return None,
        "sockstamp" if name.ends_with(".large") => return None,
        "sockstamp" if name.starts_with("sockstamp.udp.") => "sockstamp.udp.nothing".to_owned(),
        "sockstamp" => "sockstamp.nothing".to_owned(),
        _ if traffic.ends_with(".sendmsg") => format!("{traffic}.plain"),
        _ if traffic == "tcp.receive" => "tcp.send.nothing".to_owned(),
        _ if traffic == "udp.receive" => "udp.send.nothing".to_owned(),
        _ => format!("{traffic}.nothing"),
    };
    (base != name).then_some(base)
}

/// Return what a row has more than the one without programs.
fn more(counts: &Counts, name: &str) -> Option<u64> {
    let base = count(counts, &base(name)?)?;
    let count = count(counts, name)?;
    Some(count.instructions.saturating_sub(base.instructions))
}

/// Return regressions, one per line: more instructions, other programs that run, or other rows.
pub(crate) fn worse(kept: &Counts, found: &Counts, limits: Limits) -> String {
    let mut text = String::new();
    for name in found.keys().filter(|&name| !kept.contains_key(name)) {
        let _ = writeln!(text, "{name}: no count is kept");
    }
    for name in kept.keys() {
        let Some(before) = count(kept, name) else {
            continue;
        };
        let Some(now) = count(found, name) else {
            let _ = writeln!(
                text,
                "{name}: {} instructions are kept, and none were counted",
                before.instructions
            );
            continue;
        };
        let complaints = [
            whole(name, before, now, limits),
            price(name, kept, found, limits),
            runs(name, before, now),
        ];
        for complaint in complaints.into_iter().flatten() {
            let _ = writeln!(text, "{name}: {complaint}");
        }
    }
    text
}

fn whole(name: &str, before: Count, now: Count, limits: Limits) -> Option<String> {
    let above = match name.starts_with("idle.") {
        true => IDLE,
        false => limits.whole,
    };
    let (before, now) = (before.instructions, now.instructions);
    (now * 100 > before * (100 + above))
        .then(|| format!("{now} instructions, more than {above} % above {before}"))
}

/// A hook's price is small next to the message, of which a few percent may be several times as
/// much.
fn price(name: &str, kept: &Counts, found: &Counts, limits: Limits) -> Option<String> {
    let (before, now) = (more(kept, name)?, more(found, name)?);
    let row = count(kept, name)?.instructions;
    let noise = limits.noise.max(row * limits.repeats / 1000);
    let most = before + noise.max(before * limits.more / 100);
    let base = base(name)?;
    (now > most)
        .then(|| format!("{now} instructions more than {base}, above {most} ({before} are kept)"))
}

/// Fewer programs are suspicious as well: a callback that does not come costs nothing.
fn runs(name: &str, before: Count, now: Count) -> Option<String> {
    let runs = |count: Count| count.runs as f64 / 1000.0;
    (!name.starts_with("idle.") && before.runs.abs_diff(now.runs) > RUNS)
        .then(|| format!("{:.3} program runs, not {:.3}", runs(now), runs(before)))
}

/// Rows of sockets that request nothing, on the kernel of the series.
const UNSELECTED: [&str; 6] = [
    "tcp.send.callbacks-of-others",
    "udp.send.callbacks-of-others",
    "sockstamp.unselected",
    "sockstamp.unselected.tcp",
    "sockstamp.unselected.no-causes",
    "sockstamp.udp.unselected",
];
/// Percentage of a small send and of a large one that its header option may cost, if the length is
/// cached.
const OPTION: u64 = 2;

/// By how much counts of one build differ, in thousandths.
const REPEAT: u64 = 2;
/// Per mille: returned completions may cost so much more than those of the error queue, since
/// counts repeat within this.
const REPEATS: u64 = 2;

/// Return what the series aims at and does not reach, one per line. Of rows that were not counted,
/// nothing is said.
pub(crate) fn missed(found: &Counts) -> String {
    let mut text = String::new();
    let mut miss = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    for name in UNSELECTED {
        if count(found, name).is_some_and(|count| count.runs > 0) {
            miss(format!("{name}: programs run"));
        }
    }
    for traffic in ["tcp.small", "tcp.request", "tcp.bulk"] {
        let [cached, asked] =
            ["option-cached", "option"].map(|how| more(found, &format!("{traffic}.{how}")));
        if cached
            .zip(asked)
            .is_some_and(|(cached, asked)| cached >= asked)
        {
            miss(format!(
                "{traffic}: a cached length costs as much as another"
            ));
        }
    }
    for traffic in ["tcp.small", "tcp.bulk"] {
        let [nothing, cached] = ["nothing", "option-cached"].map(|how| format!("{traffic}.{how}"));
        let send = count(found, &nothing).zip(more(found, &cached));
        let most = 10 * OPTION + REPEAT;
        if send.is_some_and(|(send, more)| more * 1000 > send.instructions * most) {
            miss(format!("{cached}: more than {OPTION} % of the send"));
        }
    }
    for (name, classic) in found {
        let Some(row) = name.strip_suffix(".classic") else {
            continue;
        };
        let returned = count(found, &format!("{row}.returned"));
        if classic.zip(returned).is_some_and(|(classic, returned)| {
            returned.instructions * 1000 > classic.instructions * (1000 + REPEATS)
        }) {
            miss(format!("{row}.returned: more than by the error queue"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(kept: &str, found: &str, limits: Limits) -> String {
        worse(&parse(kept).unwrap(), &parse(found).unwrap(), limits)
    }

    #[test]
    fn more_than_three_percent_is_worse_and_less_is_not() {
        let found = |found: &str| {
            compared(
                "# a comment\na 1000 0.0\nb 1000 1.0\nc lacking\n",
                found,
                SAME,
            )
        };
        assert_eq!(found("a 1030 0\nb 900 1\nc 7 7\n"), "");
        assert_eq!(
            found("a 1031 0\nb lacking\n"),
            "a: 1031 instructions, more than 3 % above 1000\n\
             b: 1000 instructions are kept, and none were counted\n"
        );
        assert_eq!(
            found("a 1000 0\nb 1000 1\nd 1 0\n"),
            "d: no count is kept\n"
        );
    }

    #[test]
    fn idle_rows_may_differ_by_their_random_wakings() {
        let found = |found: &str| compared("idle.stat 1000 1.0\n", found, SAME);
        assert_eq!(found("idle.stat 2000 1.5\n"), "");
        assert_eq!(
            found("idle.stat 2001 1.0\n"),
            "idle.stat: 2001 instructions, more than 100 % above 1000\n"
        );
    }

    #[test]
    fn other_programs_are_worse_whether_more_or_fewer_run() {
        let found = |found: &str| compared("tcp.send.callbacks 15253 2.000\n", found, SAME);
        assert_eq!(found("tcp.send.callbacks 15253 2.015\n"), "");
        assert_eq!(
            found("tcp.send.callbacks 15253 2.016\n"),
            "tcp.send.callbacks: 2.016 program runs, not 2.000\n"
        );
        assert_eq!(
            found("tcp.send.callbacks 14900 1.000\n"),
            "tcp.send.callbacks: 1.000 program runs, not 2.000\n"
        );
    }

    #[test]
    fn the_price_of_a_hook_is_bounded_beside_the_message() {
        let kept = "tcp.send.nothing 15000 0\ntcp.send.entry 15117 1\ntcp.send.stamps 16000 5\n\
                    tcp.receive.callbacks 15600 4\n";
        let found = |entry: u64, stamps: u64, receive: u64| {
            let found = format!(
                "tcp.send.nothing 15010 0\ntcp.send.entry {entry} 1\ntcp.send.stamps {stamps} 5\n\
                 tcp.receive.callbacks {receive} 4\n"
            );
            compared(kept, &found, SAME)
        };
        // 80 for a small one, 10 % of a large one, whatever the message takes.
        assert_eq!(found(15207, 16110, 15690), "");
        assert_eq!(
            found(15208, 16111, 15691),
            "tcp.receive.callbacks: 681 instructions more than tcp.send.nothing, above 680 (600 are kept)\n\
             tcp.send.entry: 198 instructions more than tcp.send.nothing, above 197 (117 are kept)\n\
             tcp.send.stamps: 1101 instructions more than tcp.send.nothing, above 1100 (1000 are kept)\n"
        );
    }

    #[test]
    fn the_price_of_a_hook_in_a_long_row_repeats_as_the_row_does() {
        let kept = "udp.fragments.nothing 237000 0\nudp.fragments.stamps 238000 4\n";
        let found = |stamps: u64| {
            let found =
                format!("udp.fragments.nothing 237000 0\nudp.fragments.stamps {stamps} 4\n");
            compared(kept, &found, SAME)
        };
        assert_eq!(found(239_190), "");
        assert_ne!(found(239_191), "");
    }

    #[test]
    fn the_row_without_programs_is_that_of_the_same_messages() {
        for (name, of) in [
            ("tcp.small.option-cached", Some("tcp.small.nothing")),
            ("tcp.small.nothing", None),
            ("udp.sendmsg.control", Some("udp.sendmsg.plain")),
            ("udp.receive.callbacks", Some("udp.send.nothing")),
            ("sockstamp.unselected.tcp", Some("sockstamp.nothing")),
            ("sockstamp.udp.measured", Some("sockstamp.udp.nothing")),
            ("sockstamp.udp.nothing", None),
            ("sockstamp.in-step.tagged.large", None),
            ("command.stat", None),
            ("zc.tcp4.each.classic", None),
        ] {
            assert_eq!(base(name).as_deref(), of, "{name}");
        }
    }

    #[test]
    fn counts_of_another_compiler_have_wider_limits_and_the_same_programs() {
        let kept = "tcp.send.nothing 15000 0\ntcp.send.entry 15117 1\n";
        let found = |found: &str| compared(kept, found, OTHERS);
        assert_eq!(
            found("tcp.send.nothing 16351 0\ntcp.send.entry 16628 1\n"),
            ""
        );
        assert_eq!(
            found("tcp.send.nothing 16501 0\ntcp.send.entry 16779 2\n"),
            "tcp.send.entry: 16779 instructions, more than 10 % above 15117\n\
             tcp.send.entry: 278 instructions more than tcp.send.nothing, above 277 (117 are kept)\n\
             tcp.send.entry: 2.000 program runs, not 1.000\n\
             tcp.send.nothing: 16501 instructions, more than 10 % above 15000\n"
        );
    }

    #[test]
    fn a_line_that_is_no_count_is_no_lack() {
        for line in ["a", "a 1", "a -1 0", "a 1 x", "a 1 NaN", "a 1 0 0"] {
            assert!(parse(line).is_err(), "{line}");
        }
        let counts = parse("a lacking\nb 5 0.037\n").unwrap();
        assert_eq!(counts["a"], None);
        let b = Count {
            instructions: 5,
            runs: 37,
        };
        assert_eq!(counts["b"], Some(b));
    }

    #[test]
    fn what_the_series_aims_at_is_said_where_it_is_missed() {
        let missed = |found: &str| missed(&parse(found).unwrap());
        let good = "tcp.bulk.nothing 32900 0\ntcp.bulk.option-cached 33623 1\n\
                    tcp.small.nothing 1950 0\ntcp.small.option 2220 1\ntcp.small.option-cached 1992 0\n\
                    zc.udp6.32nd.classic 64418 0\nzc.udp6.32nd.returned 64546 0\n\
                    udp.send.callbacks-of-others 7000 0\nsockstamp.unselected 15233 0\n";
        assert_eq!(missed(good), "");
        assert_eq!(missed("tcp.bulk.option-cached lacking\n"), "");
        let bad = good
            .replace("cached 1992", "cached 1993")
            .replace("cached 33623", "cached 33624")
            .replace("option 2220", "option 1985")
            .replace("64546", "64547")
            .replace("others 7000 0", "others 7000 1")
            .replace("15233 0", "15233 0.005");
        assert_eq!(
            missed(&bad),
            "udp.send.callbacks-of-others: programs run\n\
             sockstamp.unselected: programs run\n\
             tcp.small: a cached length costs as much as another\n\
             tcp.small.option-cached: more than 2 % of the send\n\
             tcp.bulk.option-cached: more than 2 % of the send\n\
             zc.udp6.32nd.returned: more than by the error queue\n"
        );
    }
}
