//! Run each example of the man pages as it is written, if the things that it names exist. Their
//! output fits a terminal.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use tempfile::{TempDir, tempdir};
use testbed::Host;
use with::recording::{population, write};

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/man");
/// Columns of a terminal.
const WIDTH: usize = 80;
/// Recordings that examples read.
const RECORDINGS: [&str; 4] = ["monday", "tuesday", "host1", "host2"];
/// Commands with tests of their own: services, the view that needs a terminal, and what fails where
/// others wait.
const ELSEWHERE: [&str; 6] = [
    "sockstamp agent",
    "sockstamp notifications",
    "sockstamp notifications --per-user 64",
    "sockstamp notifications --status",
    "sockstamp stuck --slow 5s --fail",
    "sockstamp top",
];
/// Subcommands that print a line per message, probe, packet or wait, of any width.
const LINES: [&str; 4] = ["trace", "ping", "pcap", "stuck"];

/// Return the examples of all pages, each once.
fn examples() -> BTreeSet<String> {
    let pages = fs::read_dir(PAGES)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "1"));
    pages.flat_map(|path| examples_of(&path)).collect()
}

fn examples_of(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let (_, from) = text
        .split_once(".SH EXAMPLES\n")
        .unwrap_or_else(|| panic!("{} has no examples", page.display()));
    let section = from
        .split_once("\n.SH ")
        .map_or(from, |(section, _)| section);
    // A long one goes on in the next line.
    let commands = section.split("\n\\fB").skip(1).map(|rest| {
        let command = rest.split("\\fR").next().unwrap_or(rest);
        command.replace('\n', " ").replace("\\-", "-")
    });
    let commands: Vec<_> = commands.collect();
    assert!(!commands.is_empty(), "{}: {section}", page.display());
    commands
}

struct ExampleHost {
    directory: TempDir,
    host: Host,
}

impl ExampleHost {
    fn new() -> ExampleHost {
        let directory = tempdir().unwrap();
        for name in RECORDINGS {
            write(
                &directory.path().join(format!("{name}.parquet")),
                &population(2_000),
            );
        }
        fs::write(directory.path().join("agent.toml"), "").unwrap();
        let host = Host::new("blue").unwrap();
        ExampleHost { directory, host }
    }

    /// Put what is here in place of what an example names, and give it an end.
    fn here(&self, example: &str) -> String {
        let log = format!("{}/log/", self.directory.path().display());
        let mut command = example
            .replace("https://example.org", "file:///dev/null")
            .replace("192.0.2.", "127.0.0.")
            .replace("4711", &std::process::id().to_string())
            .replace(
                "--netns blue",
                &format!("--netns {}", self.host.netns_name()),
            )
            .replace("/var/log/sockstamp/", &log)
            // Files that are read are there already.
            .replace("record -o monday", "record -o next-monday");
        if let Some((before, after)) = command.split_once("--duration ") {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            command = format!("{before}--duration 100ms {rest}");
        }
        command = command.replace("--once --interval 10", "--once --interval 1");
        let endless = |subcommand: &str| {
            command.starts_with(&format!("sockstamp {subcommand} "))
                && !command.contains("--duration")
                && !command.contains(" -- ")
        };
        if ["stat", "trace", "record", "pcap"].into_iter().any(endless) {
            let (program, rest) = command.split_at("sockstamp ".len());
            let (subcommand, rest) = rest.split_once(' ').unwrap();
            return format!("{program}{subcommand} --duration 100ms {rest}");
        }
        match command.strip_prefix("sockstamp ping ") {
            Some(rest) if !rest.contains("-c ") => format!("sockstamp ping -c 2 {rest}"),
            _ => command,
        }
    }

    fn run(&self, command: &str) -> Output {
        let program = Path::new(with::sockstamp()).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PATH", path);
        shell.current_dir(self.directory.path()).output().unwrap()
    }

    fn check(&self, example: &str) {
        let output = self.run(&self.here(example));
        let [stdout, stderr] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let done = output.status.success();
        assert!(
            done || is_rightly_refused(example, output.status.code(), &stderr),
            "{example}: {}\n{stderr}",
            output.status
        );
        if !example.contains("json") && !LINES.iter().any(|line| example.contains(line)) {
            // With a command, the table is there.
            for line in stdout
                .lines()
                .chain(stderr.lines().filter(|line| line.starts_with(' ')))
            {
                let width = line.chars().count();
                assert!(width <= WIDTH, "{example}: {width} columns: {line}");
            }
        }
    }
}

/// There is no container, no name server answers, and nothing listens on the port: one line reports
/// that, or the program that was run.
fn is_rightly_refused(example: &str, status: Option<i32>, stderr: &str) -> bool {
    let says = |text: &str| stderr.contains(text) && !stderr.contains("panicked");
    match example {
        _ if example.contains("--container web") => says("no container web"),
        _ if example.contains("-- dig") => says("verdicts:") || says("no messages"),
        _ if example.contains("ping") => status == Some(1),
        _ => false,
    }
}

/// Examples that measure run in turns, some in parallel.
#[test]
fn each_example_of_the_man_pages_runs_and_fits_a_terminal() {
    const AT_ONCE: usize = 4;
    let setup = ExampleHost::new();
    let examples: Vec<String> = examples()
        .into_iter()
        .filter(|example| {
            !ELSEWHERE.contains(&example.as_str()) && !example.starts_with("sockstamp doctor")
        })
        .filter(|example| !example.starts_with("sockstamp top ") || example.contains("--once"))
        .collect();
    assert!(examples.len() >= 22, "{examples:?}");
    for some in examples.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for example in some {
                scope.spawn(|| setup.check(example));
            }
        });
    }
}
