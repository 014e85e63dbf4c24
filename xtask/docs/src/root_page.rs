//! The parts of man pages beyond the definition of the command line: examples, and in sockstamp(1)
//! the words of the output.

use std::io::{self, Write};

use sockstamp_print::words::{self, Section};

/// Questions, and the command that answers each.
const EXAMPLES: [(&str, &str); 11] = [
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
        "How long do messages from servers on port 443 to one network take?",
        "sockstamp stat src port 443 and net 10.0.0.0/8",
    ),
    (
        "Which messages of a process take more than 10 ms?",
        "sockstamp trace --slow 10ms -p 4711",
    ),
    (
        "Show live where the time goes in a network namespace.",
        "sockstamp top --netns blue",
    ),
    (
        "Which packets went where, and which processes sent them? For Wireshark.",
        "sockstamp pcap -w web.pcapng --container web --duration 10",
    ),
    (
        "What can this kernel measure, and what is missing?",
        "sockstamp doctor",
    ),
];

/// The examples of the subcommands' pages; those of `stat` and `trace` are among them.
const OF_SUBCOMMANDS: &[(&str, &str)] = &[
    (
        "Where does the time of one command go?",
        "sockstamp stat -- curl -s https://example.org",
    ),
    (
        "The same for every message of a running process, for ten seconds.",
        "sockstamp stat --every --duration 10 -p 4711",
    ),
    (
        "Which peer takes the longest to answer?",
        "sockstamp stat --by peer,port --sort peer.answer --duration 10",
    ),
    (
        "The figures of a container, for a program.",
        "sockstamp stat --container web --duration 10 --format json",
    ),
    (
        "Print each message of a command.",
        "sockstamp trace --every -- curl -s https://example.org",
    ),
    (
        "Print messages of a process that take more than 10 ms.",
        "sockstamp trace --slow 10ms -p 4711",
    ),
    (
        "Print the messages that servers on port 443 send, as JSON, for one minute.",
        "sockstamp trace --format json --duration 1m src port 443",
    ),
    (
        "Show all programs and services of this host.",
        "sockstamp top",
    ),
    (
        "Show the peers of a service, every five seconds.",
        "sockstamp top --by peer --interval 5 --comm nginx",
    ),
    (
        "Print one screen of ten seconds as text.",
        "sockstamp top --once --interval 10",
    ),
    (
        "Write the packets of a service to a file.",
        "sockstamp pcap -w postgres.pcapng tcp port 5432",
    ),
    (
        "Write them to a pipe, to wireshark -k -i - for instance.",
        "sockstamp pcap -w - tcp port 5432",
    ),
    (
        "Show where each packet of a command waits in this host.",
        "sockstamp pcap -w curl.pcapng --all-stages -- curl -s https://example.org",
    ),
    (
        "Why are some messages of a service slow? Measure for a minute.",
        "sockstamp explain --duration 1m --comm nginx",
    ),
    (
        "The same, from recordings.",
        "sockstamp explain -r monday.parquet tuesday.parquet",
    ),
    (
        "Why do messages of a recording take more than 20 ms? As JSON.",
        "sockstamp explain --slow 20ms --format json -r monday.parquet",
    ),
    (
        "Record the messages of a service for an hour.",
        "sockstamp record -o monday.parquet --duration 60m --comm nginx",
    ),
    (
        "Record continuously, in hourly files, and keep the last 10 GB.",
        "sockstamp record -o /var/log/sockstamp/ --max-size 10000",
    ),
    (
        "Record only messages that take more than 50 ms.",
        "sockstamp record -o slow.parquet --slow 50ms",
    ),
    (
        "Print the table of a recording.",
        "sockstamp report monday.parquet",
    ),
    (
        "Print it as JSON.",
        "sockstamp report --format json monday.parquet",
    ),
    (
        "Print the peers of each minute.",
        "sockstamp report --by peer --interval 1m monday.parquet",
    ),
    (
        "Draw a page of its figures.",
        "sockstamp report --html monday.html monday.parquet",
    ),
    (
        "Show messages that took long in ui.perfetto.dev.",
        "sockstamp export --perfetto --slow 20ms -o slow.pftrace monday.parquet",
    ),
    (
        "Which stages changed from Monday to Tuesday?",
        "sockstamp diff monday.parquet tuesday.parquet",
    ),
    (
        "Follow messages from one host to another.",
        "sockstamp join host1.parquet host2.parquet",
    ),
    (
        "Make a recording readable for other programs after its writer was killed.",
        "sockstamp recover monday.parquet",
    ),
    ("Probe a host until Ctrl-C.", "sockstamp ping 192.0.2.1"),
    (
        "Probe a TCP port of several hosts ten times.",
        "sockstamp ping --tcp 443 -c 10 192.0.2.1 192.0.2.2",
    ),
    (
        "Probe from a network namespace, ten times per second, as JSON.",
        "sockstamp ping --netns blue -i 100ms --format json 192.0.2.1",
    ),
    (
        "Which hosts of a network answer?",
        "sockstamp fping -a -g 192.0.2.0/30",
    ),
    (
        "Probe two hosts three times, and print counts and times alone.",
        "sockstamp fping -q -c 3 192.0.2.1 192.0.2.2",
    ),
    (
        "What can this kernel measure, and what is missing?",
        "sockstamp doctor",
    ),
    (
        "Which hooks would stat use to measure a container?",
        "sockstamp doctor --container web",
    ),
    ("The same for a program.", "sockstamp doctor --format json"),
    (
        "Serve the figures of this host to Prometheus.",
        "sockstamp agent",
    ),
    (
        "Is the configuration file valid?",
        "sockstamp agent --check --config agent.toml",
    ),
    (
        "Serve the applications of this host.",
        "sockstamp notifications",
    ),
    (
        "Serve up to 64 applications per user.",
        "sockstamp notifications --per-user 64",
    ),
    (
        "How much of the running service is in use?",
        "sockstamp notifications --status",
    ),
    (
        "What does a program that hangs wait for, and since when?",
        "sockstamp stuck -p 4711",
    ),
    (
        "What has waited for a second or longer on this host?",
        "sockstamp stuck --slow 1s",
    ),
    (
        "Fail, in a check, if something has waited for five seconds.",
        "sockstamp stuck --slow 5s --fail",
    ),
];

/// Render the examples of a subcommand's page.
pub(crate) fn examples_of(subcommand: &str, page: &mut impl Write) -> io::Result<()> {
    let of = |command: &str| command.split(' ').nth(1) == Some(subcommand);
    examples(
        OF_SUBCOMMANDS.iter().filter(|(_, command)| of(command)),
        page,
    )
}

fn examples<'a>(
    examples: impl IntoIterator<Item = &'a (&'a str, &'a str)>,
    page: &mut impl Write,
) -> io::Result<()> {
    writeln!(page, ".SH EXAMPLES")?;
    for (question, command) in examples {
        writeln!(
            page,
            ".TP\n{}\n\\fB{}\\fR",
            escaped(question),
            escaped(command)
        )?;
    }
    Ok(())
}

pub(crate) fn render(page: &mut impl Write) -> io::Result<()> {
    examples(&EXAMPLES, page)?;
    for Section {
        title,
        about,
        words,
    } in words::sections()
    {
        section(page, title, about, &words)?;
    }
    Ok(())
}

fn section(
    page: &mut impl Write,
    title: &str,
    about: &str,
    words: &[(&str, &str)],
) -> io::Result<()> {
    writeln!(page, ".SH {title}\n{}", escaped(about))?;
    for (name, description) in words {
        writeln!(
            page,
            ".TP\n\\fB{}\\fR\n{}",
            escaped(name),
            escaped(description)
        )?;
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
    use clap::{CommandFactory, Parser};
    use sockstamp_cli::Cli;

    use super::*;

    #[test]
    fn each_example_is_a_command_line_that_sockstamp_takes() {
        for (_, command) in EXAMPLES.into_iter().chain(OF_SUBCOMMANDS.iter().copied()) {
            let parsed = Cli::try_parse_from(command.split_whitespace());
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }

    #[test]
    fn each_subcommand_has_examples() {
        let command = Cli::command();
        for subcommand in command
            .get_subcommands()
            .filter(|subcommand| !subcommand.is_hide_set())
        {
            let mut page = Vec::new();
            examples_of(subcommand.get_name(), &mut page).unwrap();
            let page = String::from_utf8(page).unwrap();
            assert!(
                page.contains(&format!("sockstamp {}", subcommand.get_name())),
                "{page}"
            );
        }
    }
}
