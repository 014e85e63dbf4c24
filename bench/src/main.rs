//! Measure the cost of measuring, with a budget for each figure. Absolute times mean little on a
//! shared machine, so figures are ratios of rounds that ran in turn: see `paired.rs`.

#![forbid(unsafe_code)]

mod command;
mod condition;
mod crowd;
mod effort;
mod footprint;
mod hol;
mod hooks;
mod idle;
mod interrupt;
mod joins;
mod latency;
mod load;
mod machine;
mod memory;
mod network;
mod paired;
mod pingers;
mod processor;
mod program_statistics;
mod programs;
mod recordings;
mod report;
mod ring;
mod service;
mod stamps;
mod tags;
mod throughput;
mod user_space_pinger;
mod windows;
mod zerocopy;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use crate::effort::Effort;
use crate::load::Load;
use crate::machine::Machine;
use crate::processor::Processors;
use crate::report::Report;

#[derive(Debug, Parser)]
#[command(
    version,
    about = "What measuring with sockstamp costs, as ratios against their budgets"
)]
struct Cli {
    /// Six times the rounds: an hour and a half in place of fifteen minutes
    #[arg(long)]
    full: bool,
    /// One round of each, to show that all of it works; the figures mean nothing
    #[arg(long, conflicts_with = "full")]
    smoke: bool,
    /// Only these benchmarks
    #[arg(long, value_enum, value_name = "NAME", num_args = 1..)]
    only: Vec<Benchmark>,
    /// Of zerocopy, threshold, stamps, windows and programs, only rows whose name contains this
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    part: String,
    /// A table as it grows, or one object at the end
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(subcommand)]
    process: Option<Process>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Process {
    /// The client and the server, in a process of their own
    #[command(hide = true)]
    Load { processor: usize },
    /// Idle connections, in a process of their own
    #[command(hide = true)]
    Crowd { connections: usize },
    /// Run as one of the pingers
    #[command(hide = true)]
    UserSpacePinger { address: IpAddr },
    /// Answer datagrams with themselves
    #[command(hide = true)]
    UdpEchoServer { address: SocketAddr },
    /// Send datagrams to that server, this many at a time
    #[command(hide = true)]
    UdpEchoClient {
        server: SocketAddr,
        window: usize,
        milliseconds: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// Time in our programs per send and read, over empty programs; and for an unselected flow
    Hooks,
    /// Request/response rate, median and 99th percentile
    Latency,
    /// Bulk transfer
    Throughput,
    /// Reads over a link that loses 1 %, with and without looking for missing segments
    Hol,
    /// A message next to 100 000 sockets that are selected and idle
    Idle,
    /// Records read by one processor
    Ring,
    /// Sends without a copy: ways to get completions, TCP and UDP
    Zerocopy,
    /// The size from which on sends without a copy are faster
    Threshold,
    /// Stamps of every send: ways to read them, TCP and UDP
    Stamps,
    /// Round trips by several pingers, with a processor at hand and without
    Ping,
    /// Time to load, attach and adopt; memory of the reader
    Footprint,
    /// Kernel memory of 100 000 connections that are measured
    Memory,
    /// Windows of measuring against every message, and their edges
    Windows,
    /// Tags of TCP connections, over an option in every segment
    Tags,
    /// Real programs next to sockstamp or tcpdump
    Programs,
    /// Time and memory of what reads a recording of ten million messages
    Recordings,
}

impl Benchmark {
    fn run(
        self,
        load: &mut Load,
        processors: Processors,
        effort: Effort,
        report: &mut Report,
    ) -> Result<()> {
        match self {
            Self::Hooks => hooks::run(load, effort, report),
            Self::Latency => latency::run(load, effort, report),
            Self::Throughput => throughput::run(load, effort, report),
            Self::Hol => hol::run(effort, report),
            Self::Idle => idle::run(load, effort, report),
            Self::Ring => ring::run(load, effort, report),
            Self::Zerocopy => zerocopy::run(processors, effort, report),
            Self::Threshold => zerocopy::threshold(processors, effort, report),
            Self::Stamps => stamps::run(processors, effort, report),
            Self::Ping => pingers::run(effort, report),
            Self::Windows => windows::run(load, effort, report),
            Self::Footprint => footprint::run(load, effort, report),
            Self::Memory => memory::run(load, effort, report),
            Self::Tags => tags::run(load, effort, report),
            Self::Programs => programs::run(effort, report),
            Self::Recordings => {
                recordings::run(effort, report)?;
                joins::run(effort, report)
            }
        }
    }
}

fn effort(cli: &Cli) -> Effort {
    match (cli.smoke, cli.full) {
        (true, _) => Effort::Smoke,
        (_, true) => Effort::Full,
        _ => Effort::Quick,
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.process {
        Some(Process::Load { processor }) => load::serve(processor),
        Some(Process::Crowd { connections }) => crowd::serve(connections),
        Some(Process::UserSpacePinger { address }) => user_space_pinger::ping(address),
        Some(Process::UdpEchoServer { address }) => programs::echo::serve(address),
        Some(Process::UdpEchoClient {
            server,
            window,
            milliseconds,
        }) => programs::echo::ask(server, window, milliseconds),
        None => bench(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sockstamp-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(cli: &Cli) -> Result<()> {
    interrupt::catch()?;
    let effort = effort(cli);
    let wanted = if cli.only.is_empty() {
        Benchmark::value_variants()
    } else {
        &cli.only
    };
    let processors = Processors::find()?;
    let mut load = Load::start(processors.load)?;
    processor::stay_on(processors.sockstamp)?;
    let machine = Machine::describe(processors)?;
    let mut report = Report::new(machine, cli.format == Format::Text, cli.part.clone());
    for benchmark in wanted {
        benchmark.run(&mut load, processors, effort, &mut report)?;
    }
    report.finish(&mut io::stdout())?;
    Ok(())
}
