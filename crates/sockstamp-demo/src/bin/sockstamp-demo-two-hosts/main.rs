//! Run the demo of `make demo-two-hosts`: a client, NAT, a server, and five causes of delay. Each
//! is injected on both hosts, recorded by both, and searched in the output of `sockstamp join`.

#![forbid(unsafe_code)]

mod cause;
mod exchange;
mod recording;
mod topology;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use sockstamp_demo::{need_root, sockstamp};

use cause::Cause;
use recording::{Recordings, print_lives, shares};
use topology::Topology;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sockstamp-demo-two-hosts: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    need_root()?;
    let program = sockstamp()?;
    println!(
        "A client asks a server {} times, through NAT. Each of five causes of delay is planted on\n\
         both hosts in turn, and each host records its end:",
        exchange::REQUESTS
    );
    for (number, cause) in (1..).zip(Cause::ALL) {
        println!("\n{number}. {}", cause.words());
        if cause == Cause::Processor && std::thread::available_parallelism()?.get() < 2 {
            println!("   (left out: each host needs a processor of its own)");
            continue;
        }
        show(&program, cause).with_context(|| format!("with {}", cause.stage()))?;
    }
    Ok(())
}

fn show(program: &Path, cause: Cause) -> Result<()> {
    let topology = Topology::build(cause)?;
    let mut recordings = Recordings::start(program, &topology)?;
    exchange::run(&topology, cause)?;
    recordings.end()?;
    print_lives(program, &recordings)?;
    let [there, back] = shares(program, &recordings, cause.stage())?;
    println!(
        "   planted in {}: it has {there:.1} % of the time from client to server, {back:.1} % of that back",
        cause.stage()
    );
    Ok(())
}
