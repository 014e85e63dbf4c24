//! Explanations as sentences.

use std::io::{self, Write};

use sockstamp_explain::diagnosis::Diagnosis;
use sockstamp_explain::diagnosis::tree::Node;
use sockstamp_explain::{Addition, Carried, Claim, Episode, Explanation, Kind};
use sockstamp_explain::{advice, diagnosis};
use sockstamp_model::clock::Nanos;
use sockstamp_print::colour::Brush;
use sockstamp_print::findings::Shown;
use sockstamp_print::line::time_of_day;
use sockstamp_print::numbers::counted;
use sockstamp_print::paragraph::wrapped;
use sockstamp_print::text::OTHER_TRAFFIC;
use sockstamp_run::utc::utc;

use super::causes::Explained;
use super::failed::Failed;
use super::told::Told;
use super::waterfall;

/// Nobody measures so many times as long.
const MOST_NEEDED: f64 = 100.0;
/// Components that carry less of the excess are not listed.
const LISTED: f64 = 0.05;

pub(super) fn all(output: &mut dyn Write, told: &Told, brush: Brush) -> io::Result<()> {
    let diagnosis = without_itself(&told.diagnosis);
    let shown = Shown {
        diagnosis: &diagnosis,
        why: false,
    };
    shown.print(output, brush)?;
    if told.explained.is_empty() {
        writeln!(output, " no messages\n note: {OTHER_TRAFFIC}")?;
    }
    if let Some(slow_only) = &told.slow_only {
        sentence(output, " recording:", &slow_only.to_string())?;
    }
    for explained in &told.explained {
        one(output, explained)?;
    }
    failures(output, &told.failed)?;
    for full in told.listeners.iter().filter_map(diagnosis::full_queue) {
        writeln!(output)?;
        sentence(output, " listener:", &full)?;
        actions_of(output, Node::AcceptQueue)?;
    }
    output.flush()
}

/// Let no finding name the command that prints it.
fn without_itself(diagnosis: &Diagnosis) -> Diagnosis {
    let mut diagnosis = diagnosis.clone();
    for finding in &mut diagnosis.findings {
        if finding.next.starts_with("explain") {
            finding.next.clear();
        }
    }
    diagnosis
}

/// Print how many connections failed, and how.
fn failures(output: &mut dyn Write, failed: &Failed) -> io::Result<()> {
    for kind in Kind::ALL {
        let Some((all, verdicts)) = failed.of(kind) else {
            continue;
        };
        let verdicts: Vec<_> = (verdicts
            .iter()
            .map(|(name, count)| format!("{count} {name}")))
        .collect();
        let words = format!(
            "{all} failed, and are left out above: {}",
            verdicts.join(", ")
        );
        writeln!(output)?;
        sentence(output, &format!(" {}:", kind.name()), &words)?;
        if kind == Kind::Connect {
            actions_of(output, Node::Connect)?;
        }
    }
    Ok(())
}

/// Say how many messages there are, how many of them are slow, and by how much.
fn head(explanation: &Explanation) -> String {
    let limits = &explanation.limits;
    let noun = match explanation.kind {
        Kind::Connect | Kind::Accept => "connection",
        _ => "message",
    };
    let all = format!(
        "p99 is {} where p50 is {}; {}",
        limits.p99,
        limits.p50,
        counted(limits.messages, noun),
    );
    if explanation.slow == 0 {
        return format!("{all}; none took longer than {}", limits.slow);
    }
    if explanation.claim == Claim::NoneNormal {
        return format!(
            "{all}, of which {} took longer than {}: too few others are left to compare them with; \
             take a longer --slow",
            explanation.slow, limits.slow
        );
    }
    format!(
        "{all}, of which the slowest {} (above {}) took {} more than normal ones, in {} and {}",
        explanation.slow,
        limits.slow,
        explanation.excess(),
        counted(explanation.flows as u64, "flow"),
        counted(explanation.seconds as u64, "second"),
    )
}

fn one(output: &mut dyn Write, explained: &Explained) -> io::Result<()> {
    let explanation = &explained.explanation;
    writeln!(output)?;
    let without = if explained.rest { " without these" } else { "" };
    sentence(
        output,
        &format!(" {}{without}:", explanation.kind.name()),
        &head(explanation),
    )?;
    if explanation.limits.are_rounded {
        let why =
            "there are too many different times to hold: percentiles are up to 0.05 % too long";
        sentence(output, "  ", why)?;
    }
    if matches!(explanation.claim, Claim::NoneSlow | Claim::NoneNormal) {
        return Ok(());
    }
    components(output, explanation)?;
    sentence(output, "   another:", &another(explanation))?;
    let Some(first) = explanation
        .carried
        .first()
        .filter(|_| explanation.claim != Claim::Small)
    else {
        return Ok(());
    };
    if let Some((leader, alike)) = explained.leaders.split_first() {
        for_whom(output, leader, alike)?;
    }
    if let Some(episode) = explanation.episode {
        sentence(output, "   when:", &when(episode))?;
    }
    let advice = advice::of(first.named());
    sentence(output, "   meaning:", advice.meaning)?;
    actions(output, advice.check, advice.cure)?;
    for life in &explained.lives {
        waterfall::one(output, explanation.kind, life)?;
    }
    Ok(())
}

/// Say what another recording would show.
fn another(explanation: &Explanation) -> String {
    let Some(first) = explanation.carried.first() else {
        return String::new();
    };
    let name = first.named();
    let least = &explanation.least;
    match explanation.claim {
        Claim::Small => format!(
            "too small to matter to anybody: less than {:.0} % of a normal message's time, or than {} \
             (--least-share, --least-time)",
            least.share * 100.0,
            nanos(least.time),
        ),
        Claim::First => format!("{name} would carry much of another recording's, too"),
        Claim::Usual => format!(
            "{name} would carry much of another recording's, too; normal messages consist of it as \
             much: it is what always takes longest"
        ),
        _ => suspect(explanation, &name.to_string()),
    }
}

/// Say how likely the best suspect is the first of another recording, and what would tell.
fn suspect(explanation: &Explanation, name: &str) -> String {
    let Some(again) = explanation.again else {
        let moments = match explanation.seconds {
            1 => "Nearly all of it came in one moment, which tells nothing of others",
            _ => "It came in too few moments to tell of others",
        };
        return format!("{name} is the best suspect. {moments}: measure until it comes again");
    };
    let odds = match again {
        again if again < 0.6 => "even odds".to_owned(),
        again => format!("odds of {:.0} to 1", (again / (1.0 - again)).min(1000.0)),
    };
    let needed = match explanation.needed {
        Some(needed) if needed <= MOST_NEEDED => format!(
            "about {:.0} times as long a recording would tell",
            needed.ceil().max(2.0)
        ),
        _ => "a longer recording is unlikely to name a single one".to_owned(),
    };
    format!("{name} is the best suspect, with {odds} that it comes first again; {needed}")
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
fn nanos(time: f64) -> Nanos {
    Nanos(time.round() as u64)
}

fn components(output: &mut dyn Write, explanation: &Explanation) -> io::Result<()> {
    let listed = |carried: &&Carried| carried.share >= LISTED && carried.excess() > Nanos::ZERO;
    for carried in explanation.carried.iter().filter(listed) {
        let margin = match carried.margin {
            Some(margin) => format!(" ± {:.0}", margin.min(1.0) * 100.0),
            None => String::new(),
        };
        let head = format!("   {:>3.0} %{margin}", carried.share * 100.0);
        let mut words = format!(
            "of the excess is {}: {} more than its norm of {}",
            carried.component,
            carried.excess(),
            carried.norm(),
        );
        if let Some((part, share)) = carried.mostly {
            words += &format!("; {:.0} % of it is {part}", share * 100.0);
        }
        sentence(output, &head, &words)?;
    }
    Ok(())
}

/// Say which slice of the messages adds the excess, and how common it is.
fn for_whom(output: &mut dyn Write, leader: &Addition, alike: &[Addition]) -> io::Result<()> {
    let margin = match leader.margin {
        Some(margin) => format!(" ± {:.0}", margin.min(1.0) * 100.0),
        None => String::new(),
    };
    let mut words = format!(
        "{}, {:.0} % of the messages: {:.0} %{margin} of it would vanish if these were like the others",
        leader.slice,
        leader.common * 100.0,
        leader.share * 100.0,
    );
    if !leader.is_beyond_chance() {
        words += " (in this recording: it may be chance)";
    }
    for other in alike {
        words += &format!("; or {}, which cannot be distinguished", other.slice);
    }
    sentence(output, "   for whom:", &words)?;
    sentence(output, "   how often:", &how_often(leader))?;
    let counter = format!(
        "they are also {:.0} % of the normal messages, and {:.0} % of the slow ones",
        leader.of_normal * 100.0,
        leader.of_slow * 100.0,
    );
    sentence(output, "   against it:", &counter)
}

/// Say in which short time most of the excess came.
fn when(episode: Episode) -> String {
    let [begin, end] = [episode.begin, episode.end()].map(|second| {
        let nanos = second.saturating_mul(1_000_000_000);
        time_of_day(nanos).as_str()[..8].to_owned()
    });
    let [date, ..] = utc(episode.begin);
    format!(
        "{:.0} % of it came in {} of {} seconds, on {date} from {begin} to {end} UTC",
        episode.share * 100.0,
        episode.seconds,
        episode.of,
    )
}

/// Distinguish a slice that is always slow from one that is slow at times.
fn how_often(leader: &Addition) -> String {
    let seconds = format!("{} of {} seconds", leader.long_seconds, leader.seconds);
    match (leader.is_chronic(), leader.long_seconds) {
        (true, _) => format!("chronic: in {seconds}, most of these messages took that long"),
        (false, 0) => format!(
            "sporadic: in none of {} seconds, most of these messages took that long",
            leader.seconds
        ),
        (false, _) => format!("episodic: most of these messages took that long in {seconds} only"),
    }
}

/// Print what docs/diagnosis.md advises for a node.
fn actions_of(output: &mut dyn Write, node: Node) -> io::Result<()> {
    let (check, cure) = advice::at(node);
    actions(output, check, cure)
}

fn actions(output: &mut dyn Write, check: &str, cure: &str) -> io::Result<()> {
    sentence(output, "   check:", check)?;
    sentence(output, "   usual cure:", cure)
}

fn sentence(output: &mut dyn Write, head: &str, words: &str) -> io::Result<()> {
    writeln!(output, "{}", wrapped(head, words.split(' '), ""))
}

#[cfg(test)]
mod tests {
    use sockstamp_explain::{Border, Excess, Times};
    use sockstamp_model::fixture;
    use sockstamp_model::message::Message;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;

    /// Return the words about so many reads of 200 µs, and one of 3 s, of one flow and one second.
    fn told(others: usize, border: Border) -> String {
        let read = |time: Nanos| {
            let mut message = fixture::message(Direction::Rx);
            message.stages[Stage::RxApp] = Some(time);
            message
        };
        let mut reads: Vec<Message> = vec![read(Nanos::from_micros(200)); others];
        reads.push(read(Nanos::from_secs(3)));
        let mut times = Times::new(Kind::Read);
        reads.iter().for_each(|read| times.add(read));
        let mut excess = Excess::new(Kind::Read, times.limits(border).unwrap());
        reads.iter().for_each(|read| excess.add(read));
        let explained = Explained {
            explanation: excess.explanation(),
            leaders: Vec::new(),
            lives: Vec::new(),
            rest: false,
        };
        let mut text = Vec::new();
        one(&mut text, &explained).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_seen_of_few_messages_is_told() {
        for (others, border, expected) in [
            (
                59,
                Border::default(),
                "60 messages; none took longer than 3.00 s",
            ),
            (
                59,
                Border::Time(Nanos::from_micros(100)),
                "60 messages, of which 60 took longer than 100 µs: too few others are left to compare \
                 them with; take a longer --slow",
            ),
            (
                59,
                Border::Time(Nanos::from_secs(10)),
                "60 messages; none took longer than 10.0 s",
            ),
            (
                0,
                Border::default(),
                "1 message; none took longer than 3.00 s",
            ),
            (
                59,
                Border::Time(Nanos::from_secs(1)),
                "more than normal ones, in 1 flow and 1 second 100 % of the excess is rx.app",
            ),
            (
                59,
                Border::Time(Nanos::from_secs(1)),
                "rx.app is the best suspect. Nearly all of it came in one moment",
            ),
        ] {
            let text = told(others, border);
            assert!(text.contains(expected), "{text}");
        }
    }
}
