//! What a shell offers at TAB: names of this host, by the option that takes them.
//!
//! `COMPLETE=bash sockstamp` prints the script that asks, for every shell that clap_complete knows.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use sockstamp_host::{cgroup, container, netns};
use sockstamp_model::container::Container;
use sockstamp_model::flow::CgroupId;

use crate::command_line::Cli;
use crate::options::filter::FILTER_WORDS;

/// Answer a shell and exit, if one asks.
pub(crate) fn answer() {
    let words: Vec<_> = env::args_os().skip(1).collect();
    // The shell's words stand behind a `--` of its own.
    let words = words.get(1..).unwrap_or_default();
    let place = Place::of(words);
    CompleteEnv::with_factory(move || command(place)).complete();
}

/// Where the last word stands.
#[derive(Clone, Copy)]
struct Place {
    /// The place in a command behind `--`.
    in_command: Option<usize>,
    /// Behind a word that may be a file. clap_complete counts the second of several as the first.
    behind_file: bool,
}

impl Place {
    fn of(words: &[OsString]) -> Self {
        let before = words.split_last().map_or(words, |(_, before)| before);
        // Behind the program and its subcommand.
        let is_file = |word: &OsString| !word.as_encoded_bytes().starts_with(b"-");
        Self {
            in_command: place_in_command(words),
            behind_file: before.iter().skip(2).any(is_file),
        }
    }
}

/// Return the place of the last word in a command behind `--`; none before one.
fn place_in_command(words: &[OsString]) -> Option<usize> {
    let mark = words.iter().position(|word| word == "--")?;
    (words.len() - mark).checked_sub(2)
}

/// The command line, with what completes the values of its arguments. clap_complete takes a command
/// behind `--` for words of the filter.
fn command(place: Place) -> Command {
    let root = Cli::command();
    let names: Vec<_> = root
        .get_subcommands()
        .map(|one| one.get_name().to_owned())
        .collect();
    names.into_iter().fold(root, |root, name| {
        root.mut_subcommand(name, |subcommand| {
            subcommand.mut_args(|arg| completed(arg, place))
        })
    })
}

fn completed(arg: Arg, place: Place) -> Arg {
    let from = |find: fn() -> Names| ArgValueCandidates::new(move || candidates(find()));
    match arg.get_id().as_str() {
        "pids" => arg.add(from(processes)),
        "comms" => arg.add(from(comms)),
        "netns" => arg.add(from(namespaces)),
        "interface" | "nic" => arg.add(from(interfaces)),
        "container" => arg.add(from(containers)),
        "cgroup" => arg.add(ArgValueCompleter::new(
            PathCompleter::dir().current_dir(cgroups()),
        )),
        "filter" => match place.in_command {
            Some(place) => arg.add(ArgValueCompleter::new(OfCommand(place))),
            None => arg.add(from(filter_words)),
        },
        "files" | "read" => arg.add(ArgValueCompleter::new(FilesThenFilter(place))),
        _ => arg,
    }
}

/// Names, and what they are.
type Names = BTreeMap<String, Option<String>>;

fn candidates(names: Names) -> Vec<CompletionCandidate> {
    let plain = |text: &str| text.chars().all(is_plain);
    names
        .into_iter()
        .filter(|(name, _)| !name.is_empty() && plain(name))
        .map(|(name, about)| {
            let about = about.filter(|about| plain(about));
            CompletionCandidate::new(name).help(about.map(Into::into))
        })
        .collect()
}

/// Others chose these names, and a shell inserts them: one with any other character is not offered.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.:@/+".contains(character)
}

/// Return the processes that have a program: threads of the kernel have no message.
fn processes() -> Names {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            fs::read_link(entry.path().join("exe")).ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            Some((pid.to_string(), Some(name.trim_end().to_owned())))
        })
        .collect()
}

fn comms() -> Names {
    let names = processes().into_values().flatten();
    names.map(|name| (name, None)).collect()
}

fn namespaces() -> Names {
    let named = netns::names().into_values();
    named.map(|name| (name.to_string(), None)).collect()
}

fn interfaces() -> Names {
    let entries = fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.map(|name| (name, None)).collect()
}

/// Return containers by their names, and services.
fn containers() -> Names {
    let mut ids = BTreeSet::new();
    add_cgroups(&cgroups(), LEVELS, &mut ids);
    let found = container::of_cgroups(&ids, None).unwrap_or_default();
    let found: BTreeMap<_, _> = found
        .into_values()
        .flatten()
        .map(|container| (container.qualified_id(), container))
        .collect();
    let details = container::details(&found.keys().cloned().collect());
    let named = |(id, container): (&String, &Container)| {
        let name = details.get(id).and_then(|details| details.name.as_ref());
        let short = container.short_id().to_owned();
        (name.map_or(short, ToString::to_string), None)
    };
    found.iter().map(named).collect()
}

/// Directories within each other, below those that runtimes and systemd make.
const LEVELS: usize = 6;

fn add_cgroups(directory: &Path, levels: usize, ids: &mut BTreeSet<CgroupId>) {
    ids.extend(directory.metadata().map(|of| CgroupId(of.ino())).ok());
    let below = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    if levels > 0 {
        directories.for_each(|entry| add_cgroups(&entry.path(), levels - 1, ids));
    }
}

fn cgroups() -> PathBuf {
    cgroup::mount().unwrap_or_else(|| "/sys/fs/cgroup".into())
}

fn filter_words() -> Names {
    FILTER_WORDS.map(|word| (word.to_owned(), None)).into()
}

/// Completes recordings, and the words of the filter behind them.
struct FilesThenFilter(Place);

impl ValueCompleter for FilesThenFilter {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let mut offered = PathCompleter::any().complete(current);
        if self.0.behind_file {
            offered.extend(beginning(filter_words(), current));
        }
        offered
    }
}

/// Completes the word at this place of a command: a program, and files behind it.
struct OfCommand(usize);

impl ValueCompleter for OfCommand {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let is_path = current.as_encoded_bytes().contains(&b'/');
        match self.0 > 0 || is_path {
            true => PathCompleter::any().complete(current),
            false => beginning(programs(), current),
        }
    }
}

fn beginning(names: Names, with: &OsStr) -> Vec<CompletionCandidate> {
    let begin = with.to_str().unwrap_or_default();
    let fitting = names
        .into_iter()
        .filter(|(name, _)| name.starts_with(begin));
    candidates(fitting.collect())
}

/// Return the programs in PATH.
fn programs() -> Names {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path);
    let entries = directories.flat_map(|directory| fs::read_dir(directory).into_iter().flatten());
    entries
        .flatten()
        .filter(|entry| is_program(&entry.path()))
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, None)))
        .collect()
}

fn is_program(path: &Path) -> bool {
    let runs = |file: fs::Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    path.metadata().is_ok_and(runs)
}

#[cfg(test)]
mod tests {
    use clap_complete::engine::complete;

    use super::*;

    /// Return what is offered for the last word.
    fn offered(words: &str) -> Vec<String> {
        let words: Vec<_> = words.split(' ').map(OsString::from).collect();
        let last = words.len() - 1;
        let mut command = command(Place::of(&words));
        let offered = complete(&mut command, words, last, None).unwrap();
        let values = offered.iter().map(|one| one.get_value().to_owned());
        values.map(|value| value.into_string().unwrap()).collect()
    }

    #[test]
    fn options_offer_what_the_host_has() {
        let pid = std::process::id();
        assert!(offered("sockstamp stat -p ").contains(&pid.to_string()));
        assert!(offered(&format!("sockstamp stat -p 1,{pid}")).contains(&format!("1,{pid}")));
        assert!(offered("sockstamp trace --interface ").contains(&"lo".to_owned()));
        assert!(
            offered("sockstamp stuck --comm ")
                .iter()
                .all(|name| name.chars().all(is_plain))
        );
        assert!(!offered("sockstamp top --comm ").is_empty());
        let by = offered("sockstamp stat --by pid,");
        assert!(by.contains(&"pid,comm".to_owned()), "{by:?}");
        assert_eq!(offered("sockstamp stat --format js"), ["json"]);
    }

    #[test]
    fn a_filter_and_a_command_are_offered() {
        assert!(offered("sockstamp stat tcp por").contains(&"portrange".to_owned()));
        assert!(offered("sockstamp stat -- tru").contains(&"true".to_owned()));
        assert!(offered("sockstamp stat -- cat /etc/host").contains(&"/etc/hosts".to_owned()));
        for line in [
            "explain -r a.parquet por",
            "report a.parquet por",
            "report a.parquet b.parquet por",
            "export a.parquet tcp and por",
            "diff a.parquet b.parquet por",
        ] {
            let offered = offered(&format!("sockstamp {line}"));
            assert!(offered.contains(&"port".to_owned()), "{line}");
        }
        assert!(offered("sockstamp report por").is_empty());
    }

    #[test]
    fn a_name_that_a_shell_might_run_is_not_offered() {
        let names = ["web", "a b", "$(id)", "x;y", "", "\x1b[31m"];
        let names = names.map(|name| (name.to_owned(), None));
        let kept = candidates(names.into());
        let kept: Vec<_> = kept.iter().map(CompletionCandidate::get_value).collect();
        assert_eq!(kept, ["web"]);
    }
}
