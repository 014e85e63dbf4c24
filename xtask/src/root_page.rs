//! What sockstamp(1) has beyond the definition of the command line: examples, and the words of the
//! output.

use std::io::{self, Write};

use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;
use sockstamp_model::verdict::Verdict;

/// Questions, and the command that answers each.
const EXAMPLES: [(&str, &str); 10] = [
    (
        "Where does the time of one command go? The last line of the table says it in a sentence.",
        "sockstamp stat -- curl -s https://example.org",
    ),
    (
        "How long does a DNS server take to answer? See peer.answer.",
        "sockstamp stat -- dig @192.0.2.1 example.org",
    ),
    (
        "Which programs and services of this host wait, and in which stage?",
        "sockstamp stat --by comm,port --top 5 --duration 10",
    ),
    (
        "Which peer takes the longest to answer?",
        "sockstamp stat --by peer,port --sort peer.answer --duration 10",
    ),
    (
        "Is a running server slow itself, or the network?",
        "sockstamp stat --comm nginx --duration 10",
    ),
    (
        "What do the sockets of a container or a systemd service wait for?",
        "sockstamp stat --container web --duration 10",
    ),
    (
        "How long does what servers on port 443 send to one network take?",
        "sockstamp stat src port 443 and net 10.0.0.0/8",
    ),
    (
        "Which messages of a process take more than 10 ms?",
        "sockstamp trace --slower-than 10ms -p 4711",
    ),
    (
        "Show live where the time goes in a network namespace.",
        "sockstamp top --netns blue",
    ),
    (
        "What can this kernel measure, and what is missing?",
        "sockstamp doctor",
    ),
];

pub(crate) fn render(page: &mut impl Write) -> io::Result<()> {
    writeln!(page, ".SH EXAMPLES")?;
    for (question, command) in EXAMPLES {
        writeln!(page, ".TP\n{}\n\\fB{}\\fR", escaped(question), escaped(command))?;
    }
    let stages = Stage::ALL.map(|stage| (stage.name(), stage.description()));
    section(page, "STAGES", "Stretches of a message's way.", &stages)?;
    let parts = Part::ALL.map(|part| (part.name(), part.description()));
    let about = "Parts of a stage, shown indented below it.";
    section(page, "PARTS", about, &parts)?;
    let verdicts = Verdict::ALL.map(|verdict| (verdict.name(), verdict.description()));
    let about = "Each measured message ends with one: valid, or refused for one reason.";
    section(page, "VERDICTS", about, &verdicts)
}

fn section(page: &mut impl Write, title: &str, about: &str, words: &[(&str, &str)]) -> io::Result<()> {
    writeln!(page, ".SH {title}\n{}", escaped(about))?;
    for (name, description) in words {
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(description))?;
    }
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\*(Aq")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use sockstamp_cli::Cli;

    use super::*;

    #[test]
    fn each_example_is_a_command_line_that_sockstamp_takes() {
        for (_, command) in EXAMPLES {
            let parsed = Cli::try_parse_from(command.split_whitespace());
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }
}
