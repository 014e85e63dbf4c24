//! Options that other tools have, and what they are called here.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::command_line::Cli;

/// What somebody types, and what to type instead.
#[derive(Debug)]
struct Spelling {
    typed: &'static [&'static str],
    instead: Instead,
}

#[derive(Debug)]
enum Instead {
    /// An option that had this name before.
    Renamed(&'static str),
    /// The long name of an option, and how it is written.
    Option(&'static str, &'static str),
    /// A filter that is written without an option.
    Filter(&'static str),
    /// A recording, which is named without an option.
    Recording,
    /// Nothing: what the option does is always so.
    Nothing(&'static str),
}

const SPELLINGS: &[Spelling] = &[
    Spelling {
        typed: &["--slower-than", "--worse-than"],
        instead: Instead::Renamed("--slow"),
    },
    Spelling {
        typed: &["--no-color", "--no-colour"],
        instead: Instead::Renamed("--color never"),
    },
    Spelling {
        typed: &["--rate-cap"],
        instead: Instead::Renamed("--sample N/s"),
    },
    Spelling {
        typed: &["--in-step"],
        instead: Instead::Renamed("--sample 2^K"),
    },
    Spelling {
        typed: &["--entry"],
        instead: Instead::Renamed("--expert entry=HOOK"),
    },
    Spelling {
        typed: &["--hooks"],
        instead: Instead::Renamed("--expert hooks=older"),
    },
    Spelling {
        typed: &["--no-causes"],
        instead: Instead::Renamed("--expert causes=off"),
    },
    Spelling {
        typed: &["--no-sched"],
        instead: Instead::Renamed("--expert sched=off"),
    },
    Spelling {
        typed: &["--attach-all"],
        instead: Instead::Renamed("--expert attach=all"),
    },
    Spelling {
        typed: &["--include-hol"],
        instead: Instead::Renamed("--expert hol=include"),
    },
    Spelling {
        typed: &["--exclude-hol"],
        instead: Instead::Renamed("--expert hol=exclude"),
    },
    Spelling {
        typed: &["--windows"],
        instead: Instead::Renamed("--expert windows=1/N"),
    },
    Spelling {
        typed: &["-j", "--json"],
        instead: Instead::Option("format", "--format json"),
    },
    Spelling {
        typed: &["-g", "--group", "--group-by"],
        instead: Instead::Option("by", "--by DIMENSION"),
    },
    Spelling {
        typed: &["--name", "--process", "--task", "--command"],
        instead: Instead::Option("comm", "--comm NAME"),
    },
    Spelling {
        typed: &["-t", "--time", "--timeout", "--seconds", "--for"],
        instead: Instead::Option("duration", "--duration TIME"),
    },
    Spelling {
        typed: &[
            "--latency",
            "--min-latency",
            "--min",
            "--over",
            "--threshold",
        ],
        instead: Instead::Option("slow", "--slow TIME"),
    },
    Spelling {
        typed: &["-w", "--write"],
        instead: Instead::Option("output", "-o FILE"),
    },
    Spelling {
        typed: &["-o", "--output"],
        instead: Instead::Option("write", "-w FILE"),
    },
    Spelling {
        typed: &["-I", "--interval-print"],
        instead: Instead::Option("interval", "--interval TIME"),
    },
    Spelling {
        typed: &["-r"],
        instead: Instead::Option("repeat", "--repeat N, or sockstamp report FILE"),
    },
    Spelling {
        typed: &["-d", "--delay"],
        instead: Instead::Option("interval", "--interval TIME"),
    },
    Spelling {
        typed: &["-C"],
        instead: Instead::Option("comm", "--comm NAME"),
    },
    Spelling {
        typed: &["-G", "--cgroups", "--for-each-cgroup"],
        instead: Instead::Option("cgroup", "--cgroup PATH"),
    },
    Spelling {
        typed: &["-a", "--all", "--all-cpus"],
        instead: Instead::Option(
            "every",
            "--every for every message; without a target it is the whole host",
        ),
    },
    Spelling {
        typed: &["-e", "--event"],
        instead: Instead::Nothing("all stages are measured"),
    },
    Spelling {
        typed: &["-l", "--line-buffered"],
        instead: Instead::Nothing("a line is written when it comes"),
    },
    Spelling {
        typed: &["--overhead", "--cpu-limit"],
        instead: Instead::Option("max-cost", "--max-cost PERCENT"),
    },
    Spelling {
        typed: &["--port"],
        instead: Instead::Filter("port 80"),
    },
    Spelling {
        typed: &["--sport", "--src-port"],
        instead: Instead::Filter("src port 80"),
    },
    Spelling {
        typed: &["--dport", "--dst-port"],
        instead: Instead::Filter("dst port 80"),
    },
    Spelling {
        typed: &["--host", "--ip", "--addr", "--address"],
        instead: Instead::Filter("host 192.0.2.1"),
    },
    Spelling {
        typed: &["--src", "--source"],
        instead: Instead::Filter("src host 192.0.2.1"),
    },
    Spelling {
        typed: &["--dst", "--dest", "--destination", "--peer"],
        instead: Instead::Filter("dst host 192.0.2.1"),
    },
    Spelling {
        typed: &["--net", "--network", "--subnet"],
        instead: Instead::Filter("net 192.0.2.0/24"),
    },
    Spelling {
        typed: &["--tcp"],
        instead: Instead::Filter("tcp"),
    },
    Spelling {
        typed: &["--udp"],
        instead: Instead::Filter("udp"),
    },
    Spelling {
        typed: &["-f", "--filter"],
        instead: Instead::Filter("tcp port 80"),
    },
    Spelling {
        typed: &["-r", "--read", "-i", "--input", "--file"],
        instead: Instead::Recording,
    },
    Spelling {
        typed: &["-n", "--numeric"],
        instead: Instead::Nothing("addresses and ports are never turned into names"),
    },
];

/// Return what to type for an option that a subcommand does not have, in one line.
pub(crate) fn instead(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let name = typed.split('=').next()?;
    let mut root = Cli::command();
    root.build();
    let subcommand = arguments.iter().skip(1).find_map(|word| {
        let word = word.to_str()?;
        root.find_subcommand(word)
    })?;
    let mut of_name = SPELLINGS.iter().filter(|one| one.typed.contains(&name));
    of_name.find_map(|spelling| said(name, &spelling.instead, subcommand))
}

fn said(typed: &str, instead: &Instead, subcommand: &Command) -> Option<String> {
    let has_option = |long: &str| {
        subcommand
            .get_arguments()
            .any(|arg| arg.get_long() == Some(long))
    };
    let has_place = |name: &str| {
        let of = |place: &clap::Arg| {
            let names = place.get_value_names().unwrap_or_default();
            names
                .iter()
                .any(|value| value.split('|').any(|one| one == name))
        };
        subcommand.get_positionals().any(of)
    };
    let called = subcommand.get_name();
    match instead {
        Instead::Renamed(now) => Some(format!("{typed} is called {now} now")),
        Instead::Option(long, written) if has_option(long) => {
            Some(format!("there is no {typed} here: write {written}"))
        }
        Instead::Filter(words) if has_place("FILTER") => Some(format!(
            "there is no {typed} here: a filter stands without an option, as in \
             `sockstamp {called} {words}`"
        )),
        Instead::Recording if has_place("FILE") => Some(format!(
            "there is no {typed} here: a recording stands without an option, as in \
             `sockstamp {called} FILE`"
        )),
        Instead::Nothing(always) => Some(format!("there is no {typed} here: {always}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::refused;

    fn of(words: &str) -> Option<String> {
        let (error, arguments) = refused(words);
        instead(&error, &arguments)
    }

    #[test]
    fn an_option_that_was_renamed_is_refused_by_its_new_name() {
        for (words, now) in [
            ("trace --slower-than 5ms", "--slow"),
            ("record --slower-than=5ms -o x", "--slow"),
            ("export --slower-than 5ms", "--slow"),
            ("explain --worse-than p90", "--slow"),
            ("stat --rate-cap 10", "--sample N/s"),
            ("top --no-color", "--color never"),
            ("top --entry=off", "--expert entry=HOOK"),
            ("doctor --windows 1/4", "--expert windows=1/N"),
            ("trace --no-sched", "--expert sched=off"),
            ("record --in-step 2^16 -o x", "--sample 2^K"),
        ] {
            let line = of(words).unwrap();
            assert!(line.ends_with(&format!("is called {now} now")), "{line}");
        }
    }

    #[test]
    fn an_option_of_another_tool_has_its_name_here() {
        for (words, end) in [
            ("stat --json", "write --format json"),
            ("stat --port 80", "`sockstamp stat port 80`"),
            ("trace --port=80", "`sockstamp trace port 80`"),
            ("trace -n", "never turned into names"),
            ("stat --group-by pid", "write --by DIMENSION"),
            ("report -r a.parquet", "`sockstamp report FILE`"),
            ("stat -r 5", "write --repeat N, or sockstamp report FILE"),
            ("stat -I 1000", "write --interval TIME"),
            ("top -d 2", "write --interval TIME"),
            ("report -i a.parquet", "`sockstamp report FILE`"),
            ("stat -e cycles", "all stages are measured"),
            ("record -w a.parquet", "write -o FILE"),
            ("pcap a.parquet -o a.pcapng", "write -w FILE"),
        ] {
            let line = of(words).unwrap_or_default();
            assert!(line.ends_with(end), "{words}: {line}");
        }
    }

    /// What a subcommand does not have is not suggested.
    #[test]
    fn nothing_is_suggested_that_is_refused_too() {
        for words in ["ping --group-by pid ::1", "ping --port 80 ::1", "top -r a"] {
            assert_eq!(of(words), None, "{words}");
        }
    }

    /// An option that a subcommand has is none of another tool.
    #[test]
    fn each_suggestion_is_an_option_somewhere() {
        let mut root = Cli::command();
        root.build();
        for spelling in SPELLINGS {
            if let Instead::Option(long, _) = spelling.instead {
                let has = |command: &Command| {
                    command
                        .get_arguments()
                        .any(|arg| arg.get_long() == Some(long))
                };
                assert!(root.get_subcommands().any(has), "--{long}");
            }
        }
    }
}
