//! What each man page ends with: exit status, files, environment, and other pages.

use std::io::{self, Write};

/// Pages beside sockstamp(1), by subcommand.
const SEE_ALSO: &[(&str, &[&str])] = &[
    ("stat", &["sockstamp-report(1)", "perf-stat(1)"]),
    ("stuck", &["sockstamp-explain(1)", "ss(8)"]),
    ("trace", &["sockstamp-record(1)", "sockstamp-pcap(1)"]),
    ("top", &["sockstamp-stat(1)"]),
    (
        "pcap",
        &["sockstamp-record(1)", "tcpdump(8)", "pcap-filter(7)"],
    ),
    ("explain", &["sockstamp-record(1)", "sockstamp-diff(1)"]),
    (
        "record",
        &[
            "sockstamp-report(1)",
            "sockstamp-explain(1)",
            "sockstamp-recover(1)",
        ],
    ),
    ("report", &["sockstamp-record(1)", "sockstamp-stat(1)"]),
    ("diff", &["sockstamp-record(1)", "sockstamp-explain(1)"]),
    ("join", &["sockstamp-record(1)"]),
    ("export", &["sockstamp-record(1)"]),
    ("recover", &["sockstamp-record(1)"]),
    ("ping", &["sockstamp-fping(1)", "ping(8)"]),
    ("fping", &["sockstamp-ping(1)", "fping(8)"]),
    ("doctor", &["sockstamp-stat(1)", "capabilities(7)"]),
    ("agent", &["sockstamp-stat(1)", "systemd.service(5)"]),
    ("notifications", &["recvmsg(2)"]),
];

/// The statuses of a subcommand; the empty name is that of the program.
fn statuses(subcommand: &str) -> &'static [(&'static str, &'static str)] {
    const DONE: (&str, &str) = ("0", "Done.");
    const ENDED: (&str, &str) = ("0", "Done, also if Ctrl\\-C ended the measurement.");
    const FAILED: (&str, &str) = ("1", "Failed; one line on standard error says why.");
    const USAGE: (&str, &str) = (
        "2",
        "The command line is wrong; one line says what to type.",
    );
    const OF_COMMAND: (&str, &str) = (
        "of the COMMAND",
        "With a COMMAND that ran; 126 if it cannot be run, 127 if there is none of that name.",
    );
    match subcommand {
        "stat" | "trace" | "pcap" | "explain" | "record" => &[ENDED, FAILED, USAGE, OF_COMMAND],
        "stuck" => &[
            DONE,
            FAILED,
            USAGE,
            ("3", "With \\-\\-fail: something waits."),
        ],
        "diff" => &[
            DONE,
            FAILED,
            USAGE,
            ("3", "A condition of \\-\\-fail\\-if holds."),
        ],
        "doctor" => &[
            ("0", "stat can measure."),
            ("1", "It cannot, or doctor failed."),
            USAGE,
        ],
        "ping" => &[
            ("0", "Every host answered."),
            (
                "1",
                "One did not; with \\-c and \\-w also if one answered less than \\-c probes.",
            ),
            ("2", "An error, or a wrong command line."),
        ],
        "fping" => &[
            ("0", "Every host answered."),
            ("1", "One did not."),
            ("2", "A name has no address."),
            ("4", "An error, or a wrong command line."),
        ],
        "" => &[
            DONE,
            FAILED,
            USAGE,
            ("3", "A condition of diff or stuck holds."),
            OF_COMMAND,
        ],
        "top" | "agent" | "notifications" => &[ENDED, FAILED, USAGE],
        _ => &[DONE, FAILED, USAGE],
    }
}

/// Files and variables of the environment: of all that measure, and of some.
fn files(subcommand: &str) -> &'static [(&'static str, &'static str)] {
    const BTF: (&str, &str) = (
        "/sys/kernel/btf/vmlinux",
        "The types of the running kernel.",
    );
    const CGROUPS: (&str, &str) = (
        "/sys/fs/cgroup",
        "The hierarchy of version 2, in which a COMMAND has its own cgroup.",
    );
    const NAMESPACES: (&str, &str) = (
        "/run/netns",
        "The names of network namespaces, as ip\\-netns(8) has them.",
    );
    const SOCKET: (&str, &str) = (
        "/run/sockstamp/notifications.sock",
        "The socket of the service, unless \\-\\-socket names another.",
    );
    match subcommand {
        "report" | "diff" | "join" | "export" | "recover" => &[(
            "*.parquet, *.packets, *.waits",
            "The messages of a recording, and its packets and waits beside them.",
        )],
        "ping" | "fping" => &[NAMESPACES],
        "notifications" => &[BTF, SOCKET],
        _ => &[BTF, CGROUPS, NAMESPACES],
    }
}

const ENVIRONMENT: [(&str, &str); 2] = [
    (
        "NO_COLOR",
        "If it is not empty, text has no colours unless an option asks for them.",
    ),
    ("TERM", "The terminal, which may have no colours."),
];

/// Render the last sections of a subcommand's page, or of that of the program.
pub(crate) fn render(subcommand: &str, page: &mut impl Write) -> io::Result<()> {
    section("EXIT STATUS", statuses(subcommand), page)?;
    section("FILES", files(subcommand), page)?;
    section("ENVIRONMENT", &ENVIRONMENT, page)?;
    let others = SEE_ALSO.iter().find(|(name, _)| *name == subcommand);
    let all: Vec<String> = match others {
        Some((_, others)) => [&["sockstamp(1)"], *others]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        None => SEE_ALSO
            .iter()
            .map(|(name, _)| format!("sockstamp\\-{name}(1)"))
            .collect(),
    };
    let all = all.join(", ").replace("sockstamp-", "sockstamp\\-");
    writeln!(page, ".SH SEE ALSO\n{all}")
}

fn section(title: &str, entries: &[(&str, &str)], page: &mut impl Write) -> io::Result<()> {
    writeln!(page, ".SH {title}")?;
    for (name, about) in entries {
        writeln!(page, ".TP\n\\fB{name}\\fR\n{about}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use sockstamp_cli::Cli;

    use super::*;

    #[test]
    fn each_subcommand_has_other_pages_that_exist() {
        let root = Cli::command();
        let visible = root.get_subcommands().filter(|one| !one.is_hide_set());
        let names: Vec<_> = visible.map(|one| one.get_name()).collect();
        let listed: Vec<_> = SEE_ALSO.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, names);
        for other in SEE_ALSO.iter().flat_map(|(_, others)| *others) {
            if let Some(name) = other.strip_prefix("sockstamp-") {
                assert!(names.contains(&name.trim_end_matches("(1)")), "{other}");
            }
        }
    }
}
