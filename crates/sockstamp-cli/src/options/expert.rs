//! Choices of experts about measuring: one option, a key each.

use std::num::NonZeroU32;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use sockstamp_bpf::{EntryHook, HolView, Hooks};

use super::heading::MEASURING;

const ID: &str = "expert";
/// The place in `--help`, behind those that everybody uses.
const LAST: usize = 900;
const HELP: &str = "Change how it measures, by keys such as entry=callback (--help lists them)";

/// The values of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expert {
    /// The hook for the entry of send calls.
    pub entry: EntryHook,
    /// The hooks for stamps.
    pub hooks: Hooks,
    /// Examine arriving segments.
    pub causes: bool,
    /// Count a woken reader's wait for a CPU as `rx.wakeup`.
    pub sched: bool,
    /// Attach all hooks at the start.
    pub attach_all: bool,
    /// The view of a read's wait for a missing segment.
    pub hol: HolView,
    /// Measure in windows, one so-many-th of the time.
    pub windows: Option<NonZeroU32>,
}

impl Default for Expert {
    fn default() -> Self {
        Self {
            entry: EntryHook::Auto,
            hooks: Hooks::Best,
            causes: true,
            sched: true,
            attach_all: false,
            hol: HolView::Split,
            windows: None,
        }
    }
}

/// A key, what it is about, its values, and what they set; none: it is no value.
struct Key {
    name: &'static str,
    about: &'static str,
    values: &'static str,
    set: fn(&mut Expert, &str) -> Option<()>,
}

const KEYS: [Key; 7] = [
    Key {
        name: "entry",
        about: "the hook for the entry of send calls",
        values: "auto, tracepoint, callback or off",
        set: |expert, value| {
            expert.entry = match value {
                "auto" => EntryHook::Auto,
                "tracepoint" => EntryHook::Tracepoint,
                "callback" => EntryHook::Callback,
                "off" => EntryHook::Off,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "hooks",
        about: "the hooks for stamps; older are those for kernels before Linux 6.15, with fentry",
        values: "best or older",
        set: |expert, value| {
            expert.hooks = match value {
                "best" => Hooks::Best,
                "older" => Hooks::Older,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "causes",
        about: "examine arriving segments, for the causes in tx.queue",
        values: "on or off",
        set: |expert, value| switch(value, ["on", "off"]).map(|is_on| expert.causes = is_on),
    },
    Key {
        name: "sched",
        about: "separate a woken reader's wait for a CPU (rx.wakeup) from rx.app",
        values: "on or off",
        set: |expert, value| switch(value, ["on", "off"]).map(|is_on| expert.sched = is_on),
    },
    Key {
        name: "attach",
        about: "when hooks are attached that few messages need",
        values: "needed or all",
        set: |expert, value| switch(value, ["all", "needed"]).map(|all| expert.attach_all = all),
    },
    Key {
        name: "hol",
        about: "a read's wait for a missing segment: rx.hol, a part of rx.stack, or no such reads",
        values: "split, include or exclude",
        set: |expert, value| {
            expert.hol = match value {
                "split" => HolView::Split,
                "include" => HolView::Include,
                "exclude" => HolView::Exclude,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "windows",
        about: "measure one Nth of the time, in windows of 250 ms",
        values: "from 1/4 to 1/1000",
        set: |expert, value| {
            // Programs come before a window, and stay a while: less would leave no gap.
            let count = value.strip_prefix("1/")?.parse().ok();
            let count = count.filter(|count: &NonZeroU32| (4..=1000).contains(&count.get()))?;
            expert.windows = Some(count);
            Some(())
        },
    },
];

/// Return true for the first of two words, false for the second.
fn switch(value: &str, [yes, no]: [&str; 2]) -> Option<bool> {
    (value == yes || value == no).then(|| value == yes)
}

/// Read `KEY=VALUE` into what other keys have said; return its key.
fn read(expert: &mut Expert, setting: &str) -> Result<&'static str, String> {
    let names = || KEYS.map(|key| key.name).join(", ");
    let Some((name, value)) = setting.split_once('=') else {
        return Err(format!("it is KEY=VALUE; keys are {}", names()));
    };
    let key = KEYS.iter().find(|key| key.name == name);
    let key = key.ok_or_else(|| format!("there is no key {name:?}; keys are {}", names()))?;
    (key.set)(expert, value).ok_or_else(|| format!("{name} is {}", key.values))?;
    Ok(key.name)
}

/// Return the help, with a paragraph for each key: none of them is for everyday use.
fn long_help() -> String {
    let keys = KEYS.iter().map(|key| {
        let Key {
            name,
            about,
            values,
            ..
        } = key;
        format!("\n\n{name}: {about} ({values})")
    });
    let keys: String = keys.collect();
    format!(
        "Change how it measures, by keys such as entry=callback\n\nSeveral are separated by \
         commas. The first value is the default, but there are no windows without the key:{keys}"
    )
}

impl Expert {
    /// Read all settings; each key is given once. `has_ceiling`: the cost has one that the user
    /// chose.
    fn of<'a>(
        settings: impl Iterator<Item = &'a String>,
        has_ceiling: bool,
    ) -> Result<Self, String> {
        let mut expert = Self::default();
        let mut given = Vec::new();
        for setting in settings {
            let name = read(&mut expert, setting)?;
            if given.contains(&name) {
                return Err(format!("--expert {name} is given twice: write it once"));
            }
            given.push(name);
        }
        let is_windowed = expert.windows.is_some();
        let one_of = |one, other| Err(format!("{one} cannot be used with {other}: write one"));
        match expert {
            _ if is_windowed && has_ceiling => one_of("--expert windows", "--max-cost"),
            Self { causes: true, .. } => Ok(expert),
            _ if is_windowed => one_of("--expert windows", "causes=off"),
            _ if expert.hol == HolView::Include => one_of("--expert hol=include", "causes=off"),
            _ => Ok(expert),
        }
    }
}

impl FromArgMatches for Expert {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let has_ceiling = matches.ids().any(|id| id == "max_cost")
            && matches.value_source("max_cost") == Some(ValueSource::CommandLine);
        let settings = matches.get_many::<String>(ID).unwrap_or_default();
        let expert = Self::of(settings, has_ceiling);
        expert.map_err(|told| Error::raw(ErrorKind::ArgumentConflict, told))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Expert {
    fn augment_args(command: Command) -> Command {
        let setting = |text: &str| read(&mut Self::default(), text).map(|_| text.to_owned());
        let expert = Arg::new(ID).long(ID).value_name("KEY=VALUE").help(HELP);
        command.arg(
            expert
                .long_help(long_help())
                .action(ArgAction::Append)
                .value_delimiter(',')
                .value_parser(setting)
                .help_heading(MEASURING)
                .display_order(LAST),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Expert, String> {
        let command = Command::new("stat").no_binary_name(true);
        let command = command.arg(Arg::new("max_cost").long("max-cost"));
        let matches = Expert::augment_args(command).try_get_matches_from(words);
        let expert = matches.and_then(|matches| Expert::from_arg_matches(&matches));
        expert.map_err(|error| error.to_string().lines().next().unwrap_or("").to_owned())
    }

    #[test]
    fn keys_are_given_in_one_option_or_several() {
        let expected = Expert {
            entry: EntryHook::Callback,
            sched: false,
            windows: NonZeroU32::new(10),
            ..Expert::default()
        };
        let [entry, others] = ["entry=callback", "sched=off,windows=1/10"];
        assert_eq!(of(&["--expert", entry, "--expert", others]), Ok(expected));
        assert_eq!(of(&[]), Ok(Expert::default()));
    }

    /// A value that does nothing would be a promise that nobody keeps.
    #[test]
    fn each_value_that_an_error_names_is_read_and_one_is_the_default() {
        for key in &KEYS[..6] {
            let values = key.values.replace(" or ", ", ");
            let read = values.split(", ").map(|value| {
                let mut expert = Expert::default();
                assert!((key.set)(&mut expert, value).is_some(), "{}", key.name);
                expert
            });
            let defaults = read.filter(|expert| *expert == Expert::default());
            assert_eq!(defaults.count(), 1, "{}", key.name);
        }
    }

    #[test]
    fn a_wrong_setting_is_answered_by_the_keys_or_the_values() {
        let keys = "keys are entry, hooks, causes, sched, attach, hol, windows";
        for (setting, end) in [
            ("callback", keys),
            ("entri=off", keys),
            ("entry=no", "entry is auto, tracepoint, callback or off"),
            ("windows=10", "windows is from 1/4 to 1/1000"),
            ("windows=1/3", "windows is from 1/4 to 1/1000"),
            ("windows=1/1001", "windows is from 1/4 to 1/1000"),
            ("causes=", "causes is on or off"),
        ] {
            let told = of(&["--expert", setting]).unwrap_err();
            assert!(told.ends_with(end), "{setting}: {told}");
        }
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        for (words, end) in [
            (&["--expert", "sched=off,sched=on"][..], "write it once"),
            (
                &["--expert", "windows=1/4,causes=off"],
                "causes=off: write one",
            ),
            (
                &["--expert", "hol=include,causes=off"],
                "causes=off: write one",
            ),
            (
                &["--expert", "windows=1/4", "--max-cost", "1%"],
                "--max-cost: write one",
            ),
        ] {
            let told = of(words).unwrap_err();
            assert!(told.ends_with(end), "{words:?}: {told}");
        }
    }
}
