//! Name why nothing was printed or recorded: silence says nothing.

use std::ffi::OsString;
use std::time::Duration;

use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Summary;
use sockstamp_run::escape::complain;

/// Complain that a measurement has shown no message. `slow`: the time that keeps slow ones alone.
pub fn tell(summary: &Summary, slow: Option<Duration>, command: &[OsString]) {
    complain(format_args!("{}", told(summary, slow, command)));
}

fn told(summary: &Summary, slow: Option<Duration>, command: &[OsString]) -> String {
    if summary.lost.ring > 0 {
        return "no message came through: see what was lost".to_owned();
    }
    let seen = summary.tx.messages + summary.rx.messages;
    let during = summary.duration;
    if let (Some(slow), 1..) = (slow.map(Nanos::from), seen) {
        return format!(
            "none of {seen} messages in {during} took longer than {slow} until it was sent, read or \
             answered; the wait for acknowledgements (tx.network, and so the total) does not count"
        );
    }
    if seen > 0 {
        return format!("none of {seen} messages in {during} was measured to its end");
    }
    match command {
        [program, time] if program == "sleep" => format!(
            "sleep sends and reads nothing: for the whole host, write --duration {} in place of \
             the command",
            time.display()
        ),
        [program, ..] => format!(
            "no message in {during}: {} sent and read nothing over TCP or UDP",
            program.display()
        ),
        [] => format!("no message in {during}: the target sent and read nothing over TCP or UDP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(messages: u64, slow: Option<u64>, command: &[&str]) -> String {
        let mut summary = Summary {
            duration: Nanos(2_000_000_000),
            ..Summary::default()
        };
        summary.rx.messages = messages;
        let command: Vec<_> = command.iter().map(OsString::from).collect();
        told(&summary, slow.map(Duration::from_millis), &command)
    }

    #[test]
    fn silence_has_its_reason() {
        let nothing = "no message in 2.00 s: the target sent and read nothing over TCP or UDP";
        assert_eq!(of(0, None, &[]), nothing);
        assert_eq!(of(0, Some(15), &[]), nothing);
        assert!(of(7, Some(15), &[]).starts_with("none of 7 messages in 2.00 s took longer than "));
        assert!(of(7, None, &[]).starts_with("none of 7 messages in 2.00 s was measured"));
        assert!(
            of(0, None, &["sleep", "4"]).contains("write --duration 4 in place of the command")
        );
        assert!(of(0, None, &["true"]).contains(": true sent and read nothing"));
    }
}
