//! The words of the output, from one table: for `--explain-words` and sockstamp(1).

use std::io::{self, Write};
use std::process::ExitCode;

use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;
use sockstamp_model::unpaired::Unpaired;
use sockstamp_model::verdict::Verdict;

use crate::paragraph::WIDTH;

/// Words of one kind.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Describe what they have in common.
    pub about: &'static str,
    /// Each word and its meaning.
    pub words: Vec<(&'static str, &'static str)>,
}

/// Words that are no stage, part or verdict.
const COUNTS: &[(&str, &str)] = &[
    (
        "message",
        "The bytes of one send call (tx) or of one read call (rx).",
    ),
    (
        "~p50, ~p99",
        "Quantiles of a group, from buckets of 19 %: up to 9 % off.",
    ),
    (
        "≥",
        "A send whose begin was not seen: it took at least that long.",
    ),
    (
        "flow",
        "A connected socket: network namespace, protocol, local and remote end.",
    ),
    (
        "measured",
        "Messages with stamps. Without --every some stand for others, by their weight.",
    ),
    (
        "adopted",
        "Connections that existed before the measurement and are in it.",
    ),
    (
        "retransmits",
        "Segments that were sent again, as TCP_INFO counts them.",
    ),
    (
        "probes",
        "Segments sent again because an acknowledgement was late (tail loss probes).",
    ),
    (
        "needless",
        "Segments sent again although the first one had come, as the peer reported (D-SACK).",
    ),
    (
        "out of order",
        "Segments that arrived after a missing one, as TCPOFOQueue of nstat(8).",
    ),
    (
        "opened, accepted",
        "Connections with a conn.handshake, and with a conn.accept.",
    ),
    (
        "SYNs sent again",
        "First segments of connections, sent again for lack of an answer.",
    ),
    (
        "dropped",
        "Datagrams that a socket dropped, mostly for lack of buffer space.",
    ),
    (
        "share",
        "Part of the time of all messages until they left the host (tx) or were read (rx).",
    ),
    (
        "after",
        "Time after a message left the host: no task waits for it, so it has no share.",
    ),
    (
        "slow",
        "Longer than --slow until sent, read, answered or connected; acknowledgements aside.",
    ),
    (
        "in-flight",
        "Measured messages that had not ended when the measurement did.",
    ),
];

/// The counters of `lost`.
const LOST: &[(&str, &str)] = &[
    (
        "ring",
        "Records that user space did not take in time: --buffer makes room for more.",
    ),
    (
        "evicted",
        "Arrivals dropped before they were read, because a flow had no room for more.",
    ),
    (
        "unmatched",
        "Stamps of no message in flight, such as those that others requested.",
    ),
    ("flows", "Flows that could not be selected."),
    (
        "turned-away",
        "Connections and UDP sockets beyond --max-flows or --max-memory.",
    ),
    ("mptcp", "Subflows of MPTCP, which are not measured."),
    (
        "host-path",
        "Packets without room in the table of followed packets.",
    ),
    (
        "neighbours",
        "Packets whose wait for a link address found no room.",
    ),
    (
        "skipped",
        "Times that the kernel skipped a program that had interrupted itself.",
    ),
    ("groups", "Times that a flow found no slot for its group."),
    (
        "datagrams",
        "Reads, sends and connects of UDP before its programs were attached, whatever the filter; \
         below the table: not followed.",
    ),
    (
        "not adopted",
        "Connections that a task kept locked at the start.",
    ),
];

/// All words of the output.
#[must_use]
pub fn sections() -> [Section; 6] {
    [
        Section {
            title: "COUNTS",
            about: "Words around the table.",
            words: COUNTS.to_vec(),
        },
        Section {
            title: "STAGES",
            about: "Stretches of a message's path.",
            words: Stage::ALL
                .map(|stage| (stage.name(), stage.description()))
                .to_vec(),
        },
        Section {
            title: "PARTS",
            about: "Parts of a stage, shown indented below it.",
            words: Part::ALL
                .map(|part| (part.name(), part.description()))
                .to_vec(),
        },
        Section {
            title: "VERDICTS",
            about: "Each measured message ends with one: valid, or refused for one reason.",
            words: Verdict::ALL
                .map(|verdict| (verdict.name(), verdict.description()))
                .to_vec(),
        },
        Section {
            title: "WITHOUT A PAIR",
            about: "Valid messages without app.service or peer.answer, and why.",
            words: Unpaired::ALL
                .map(|reason| (reason.name(), reason.description()))
                .to_vec(),
        },
        Section {
            title: "LOST",
            about: "Messages and events that could not be measured or kept.",
            words: LOST.to_vec(),
        },
    ]
}

/// Columns before a meaning.
const INDENT: usize = 20;

/// Print all words on one page.
pub fn print() -> ExitCode {
    // A reader that has seen enough is no failure.
    match io::stdout().write_all(page().as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn page() -> String {
    let mut page = String::new();
    for section in sections() {
        page += &format!("{}: {}\n", section.title, section.about);
        for (word, meaning) in section.words {
            page += &paragraph(word, meaning);
        }
        page.push('\n');
    }
    page
}

/// Write the meaning next to the word, on as many lines as it takes.
fn paragraph(word: &str, meaning: &str) -> String {
    let mut text = format!("  {word:<width$}", width = INDENT - 3);
    let mut column = text.chars().count();
    for part in meaning.split(' ') {
        let length = part.chars().count();
        if column + 1 + length > WIDTH {
            text += &format!("\n{:1$}", "", INDENT - 1);
            column = INDENT - 1;
        }
        text += &format!(" {part}");
        column += 1 + length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use sockstamp_model::summary::Lost;

    use super::*;

    #[test]
    fn the_page_has_all_words_in_80_columns() {
        let page = page();
        for line in page.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        for word in [
            "rx.hol",
            "excess",
            "tsq",
            "adopted",
            "evicted",
            "split",
            "pipelined",
        ] {
            assert!(page.contains(&format!("\n  {word} ")), "{word}: {page}");
        }
    }

    #[test]
    fn each_counter_of_losses_is_explained() {
        let serde_json::Value::Object(counters) = serde_json::to_value(Lost::default()).unwrap()
        else {
            panic!("an object");
        };
        let explained: Vec<_> = LOST
            .iter()
            .map(|(word, _)| word.replace([' ', '-'], "_"))
            .collect();
        for counter in counters.keys() {
            assert!(explained.contains(counter), "{counter}");
        }
    }
}
