//! The command line of sockstamp: thin, one file or folder per subcommand, with its options. A library so that the
//! generator of man pages and completions reads the same definition as the program.

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `escape` has the ways out.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod cgroup;
mod command;
mod completions;
mod container;
mod cumulative;
mod doctor;
mod duration;
mod escape;
mod filter;
mod groups;
mod interfaces;
mod janitor;
mod measure;
mod measuring;
mod output;
mod ping;
mod stat;
mod target;
mod text;
mod top;
mod trace;

use std::process::ExitCode;

use clap::Parser;
use sockstamp_model::name::shows;

/// Where did the time of this message go? Per-message latency of the Linux network stack, stage by stage.
#[derive(Debug, Parser)]
#[command(name = "sockstamp", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Count: a table of the stages, their distributions and shares
    ///
    /// With a COMMAND: runs it in a cgroup of its own, measures the sockets of that cgroup alone and prints the
    /// table to standard error when it ends; the exit status is the command's. Without: measures until Ctrl-C or
    /// --duration and prints to standard output.
    ///
    /// Quantiles come from histograms with 8 buckets for every power of two and are off by 4.5 % at most; counts,
    /// sums and maxima are exact.
    Stat(stat::Options),
    /// Watch: a line for each message as it completes
    ///
    /// A line has the time of day (UTC), the direction, pid/comm, local → remote address, bytes, the stages and
    /// their total. Lines go to standard output, as does what a COMMAND prints: -o keeps them apart.
    Trace(trace::Options),
    /// Live: where the time goes, full screen
    ///
    /// Groups of messages are rows, stages are columns, coloured by their share of the time; Enter leads from a
    /// group to its flows and to their last messages, ? lists the keys. Figures are those of the last interval.
    ///
    /// Quantiles are off by 9.2 % at most. Colours are left out if NO_COLOR is set.
    Top(top::Options),
    /// Probe: round-trip times as the kernel saw them, and what the prober itself added
    ///
    /// Sends a probe to each host once an interval, by ICMP unless --udp or --tcp says otherwise, and prints a line
    /// for what became of it. Times go from the kernel's stamp of the probe to its stamp of the answer; what a
    /// prober that reads its own clock would add is printed beside it as prober delay. ICMP needs no privilege
    /// where net.ipv4.ping_group_range allows the user's group, else CAP_NET_RAW. Without that, --tcp makes
    /// connections and closes them, and their times are user space's.
    ///
    /// Exit status: 0 if every host answered, 1 if one did not, 2 on errors. With both -c and -w it is 1 as well if
    /// fewer than -c probes were answered. Ctrl-C ends it with the summary.
    Ping(ping::Options),
    /// Look: what this kernel and this process can measure, and what is missing
    ///
    /// Prints the plan by which `stat` would measure with the same options, hook by hook. Nothing is measured but a
    /// few messages of its own over the loopback interface.
    Doctor(doctor::Options),
    /// Serve: completions of zerocopy sends and stamps, in memory of the applications that ask for it
    ///
    /// An application registers its own sockets (library sockstamp, module completions). What the kernel puts into
    /// their error queues then is in memory that this application alone can read, so that it needs no system call
    /// to learn of it. Runs until Ctrl-C or SIGTERM, and says on standard error who came and what was refused.
    Completions(completions::Options),
    /// Remove a command's cgroup once standard input ends
    #[command(hide = true)]
    Janitor(janitor::Options),
}

/// Runs the command line of this process.
///
/// Exit status: 0 done, 1 failed, 2 wrong usage; with a command, the command's own; of `ping`, ping(8)'s.
#[must_use]
pub fn run() -> ExitCode {
    let subcommand = Cli::try_parse().unwrap_or_else(refuse).subcommand;
    let failed = match subcommand {
        Subcommand::Ping(_) => ping::FAILED,
        _ => 1,
    };
    let result = match subcommand {
        Subcommand::Stat(options) => stat::run(&options),
        Subcommand::Trace(options) => trace::run(&options),
        Subcommand::Top(options) => top::run(&options),
        Subcommand::Ping(options) => ping::run(&options),
        Subcommand::Doctor(options) => doctor::run(&options),
        Subcommand::Completions(options) => completions::run(&options),
        Subcommand::Janitor(options) => janitor::run(&options),
    };
    result.unwrap_or_else(|error| {
        escape::complain(format_args!("{error:#}"));
        let status = error
            .downcast_ref::<command::CannotRun>()
            .map_or(failed, command::CannotRun::status);
        ExitCode::from(status)
    })
}

/// Says why the arguments are none, or gives the help that they ask for.
fn refuse(error: clap::Error) -> Cli {
    let text = error.render().to_string();
    // In colours where nothing in it is hostile: the arguments may be what a script was handed.
    if text
        .chars()
        .all(|character| shows(character) || character == '\n')
    {
        error.exit();
    }
    escape::complain_lines(&text);
    std::process::exit(error.exit_code())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
