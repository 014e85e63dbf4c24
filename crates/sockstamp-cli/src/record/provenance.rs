//! The facts that the files of a recording keep of its making.

use std::env;
use std::ffi::OsString;
use std::fs;

use sockstamp_bpf::Sampling;
use sockstamp_run::escape::quoted;

use crate::recordings::provenance::{CLOCK_SOURCE, COMMAND, CPUS, KERNEL, SAMPLE};

/// Characters of a command line that are kept: a filter may be as long as a line may be.
const LONGEST: usize = 4000;

/// Return the facts of a recording of this program, of a `command` if there is one. What cannot be
/// read is left out: its readers say that it is not known.
pub(super) fn facts(sampling: Sampling, command: &[OsString]) -> Vec<(&'static str, String)> {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let of_host = [
        (KERNEL, kernel()),
        (CPUS, line("/sys/devices/system/cpu/online")),
        (
            CLOCK_SOURCE,
            line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ),
    ];
    let of_host = of_host
        .into_iter()
        .filter_map(|(key, fact)| Some((key, fact?)));
    [
        (COMMAND, command_line(&words, command)),
        (SAMPLE, sample(sampling)),
    ]
    .into_iter()
    .chain(of_host)
    .collect()
}

/// Return the command line as a shell reads it. The words of a command that is measured are its own
/// affair, as passwords may be among them: only its name is kept.
fn command_line(words: &[OsString], command: &[OsString]) -> String {
    let own = words.len().saturating_sub(command.len());
    let kept = words.iter().take(own).chain(command.first());
    let kept = kept.map(|word| quoted(&word.to_string_lossy()));
    let left_out = (command.len() > 1).then(|| "…".to_owned());
    let program = std::iter::once("sockstamp".to_owned());
    let line: Vec<_> = program.chain(kept).chain(left_out).collect();
    line.join(" ").chars().take(LONGEST).collect()
}

fn sample(sampling: Sampling) -> String {
    match sampling {
        Sampling::Every => "all".to_owned(),
        Sampling::RateCap(cap) => format!("{cap}/s for each flow and direction"),
        Sampling::OneIn(count) => format!("1/{count}"),
        Sampling::InStep { bits, .. } => format!("2^{bits}"),
    }
}

fn kernel() -> Option<String> {
    let release = line("/proc/sys/kernel/osrelease")?;
    Some(format!("{release} {}", env::consts::ARCH))
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_has_our_words_and_the_name_of_the_command() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let own = words("record -o a.parquet --every port&80 -- curl -u me:secret");
        let told = command_line(&own, &own[6..]);
        assert_eq!(
            told,
            "sockstamp record -o a.parquet --every 'port&80' -- curl …"
        );
        let own = words("record -o a/ -p 1");
        assert_eq!(command_line(&own, &[]), "sockstamp record -o a/ -p 1");
        let alone = words("record -- true");
        assert_eq!(
            command_line(&alone, &alone[2..]),
            "sockstamp record -- true"
        );
        let long = words(&format!("record {}", "x".repeat(10_000)));
        assert_eq!(command_line(&long, &[]).len(), LONGEST);
    }
}
