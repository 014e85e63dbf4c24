//! Name why nothing was printed or recorded: silence says nothing.

use std::ffi::OsString;
use std::time::Duration;

use sockstamp_model::clock::Nanos;
use sockstamp_model::filter::Filter;
use sockstamp_model::summary::Summary;
use sockstamp_model::verdict::Verdict;
use sockstamp_run::escape::complain;

use crate::counters::{counted_losses, unfollowed};

/// The messages that were asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// The time that keeps slow ones alone.
    pub slow: Option<Duration>,
    /// Conditions that a message must match.
    pub filter: Option<&'a Filter>,
    /// The command that was measured.
    pub command: &'a [OsString],
}

/// Complain that a measurement has shown no message.
pub fn tell(summary: &Summary, asked: Asked<'_>) {
    complain(format_args!("{}", told(summary, asked)));
}

fn told(summary: &Summary, asked: Asked<'_>) -> String {
    if summary.lost.ring > 0 {
        return "no message came through: see what was lost".to_owned();
    }
    let seen = summary.tx.messages + summary.rx.messages;
    let valid = summary.verdict(Verdict::Valid);
    let during = summary.duration;
    if let (Some(slow), 1..) = (asked.slow.map(Nanos::from), valid) {
        return format!(
            "none of {valid} messages in {during} took longer than {slow} until it was sent, read \
             or answered; the wait for acknowledgements (tx.network, and so the total) does not \
             count{}",
            others(summary)
        );
    }
    if seen > 0 {
        return format!("none of {seen} messages in {during} was measured to its end");
    }
    let whose = match asked.command {
        [program, time] if program == "sleep" => {
            return format!(
                "sleep sends and reads nothing: for the whole host, write --duration {} in place \
                 of the command",
                time.display()
            );
        }
        [program, ..] => program.display().to_string(),
        [] => "the target".to_owned(),
    };
    let which = match asked.filter {
        Some(filter) => format!("that is measured and matches the filter: {filter}"),
        None => "over TCP or UDP that is measured".to_owned(),
    };
    format!(
        "no message in {during}: {whose} sent and read nothing {which}{}",
        unmeasured(summary)
    )
}

/// Name the messages of which no time is known.
fn others(summary: &Summary) -> String {
    let refused = summary.refusals().map(|(_, count)| count).sum();
    let counts: [(u64, _); 2] = [(refused, "refused"), (summary.in_flight, "in flight")];
    let counted = counts.into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<_> = counted
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("; not known of others: {}", told.join(", ")),
    }
}

/// Name what may be a message and was not measured.
fn unmeasured(summary: &Summary) -> String {
    let mut told = String::new();
    let lost = counted_losses(&summary.lost);
    if !lost.is_empty() {
        told += &format!("; lost: {}", lost.join(", "));
    }
    if summary.lost.datagrams > 0 {
        told += &format!("; not followed: {}", unfollowed(summary.lost.datagrams));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(messages: u64, valid: u64) -> Summary {
        let mut summary = Summary {
            duration: Nanos(2_000_000_000),
            ..Summary::default()
        };
        summary.rx.messages = messages;
        summary.verdicts.insert(Verdict::Valid, valid);
        summary
    }

    fn of(messages: u64, slow: Option<u64>, command: &[&str]) -> String {
        let command: Vec<_> = command.iter().map(OsString::from).collect();
        let asked = Asked {
            slow: slow.map(Duration::from_millis),
            command: &command,
            ..Asked::default()
        };
        told(&summary(messages, messages), asked)
    }

    #[test]
    fn silence_has_its_reason() {
        let nothing = "no message in 2.00 s: the target sent and read nothing over TCP or UDP that \
                       is measured";
        assert_eq!(of(0, None, &[]), nothing);
        assert_eq!(of(0, Some(15), &[]), nothing);
        assert!(of(7, Some(15), &[]).starts_with("none of 7 messages in 2.00 s took longer than "));
        assert!(of(7, Some(15), &[]).ends_with("does not count"));
        assert!(of(7, None, &[]).starts_with("none of 7 messages in 2.00 s was measured"));
        assert!(
            of(0, None, &["sleep", "4"]).contains("write --duration 4 in place of the command")
        );
        assert!(of(0, None, &["true"]).contains(": true sent and read nothing"));
    }

    #[test]
    fn messages_without_a_time_are_not_among_the_fast_ones() {
        let asked = Asked {
            slow: Some(Duration::from_millis(15)),
            ..Asked::default()
        };
        let mut some = summary(7, 4);
        some.verdicts.insert(Verdict::Reset, 2);
        some.in_flight = 1;
        let told_of_some = told(&some, asked);
        assert!(
            told_of_some.starts_with("none of 4 messages in 2.00 s took longer")
                && told_of_some.ends_with("; not known of others: 2 refused, 1 in flight"),
            "{told_of_some}"
        );
        some.verdicts.insert(Verdict::Valid, 0);
        let none = "none of 7 messages in 2.00 s was measured to its end";
        assert_eq!(told(&some, asked), none);
    }

    #[test]
    fn a_filter_and_what_was_lost_are_named() {
        let filter: Filter = "tcp port 443".parse().unwrap();
        let asked = Asked {
            filter: Some(&filter),
            ..Asked::default()
        };
        let mut nothing = summary(0, 0);
        let matches = "no message in 2.00 s: the target sent and read nothing that is measured and \
                       matches the filter: tcp and port 443";
        assert_eq!(told(&nothing, asked), matches);
        nothing.lost.turned_away = 3;
        nothing.lost.not_adopted = 1;
        nothing.lost.datagrams = 2;
        let lost = "; lost: turned-away 3, not adopted 1; not followed: at least 2 calls of UDP sockets, \
                    before programs were attached for them, whatever the filter";
        assert_eq!(told(&nothing, asked), format!("{matches}{lost}"));
    }
}
