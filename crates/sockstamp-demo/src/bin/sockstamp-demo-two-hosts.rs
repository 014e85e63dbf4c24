//! Run the demo of `make demo-two-hosts`: both ends of a connection are recorded, and joined.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::signal::Signal;
use sockstamp_demo::{need_root, sockstamp, wait_until_it_measures};
use testbed::{Family, Host, Link, LinkConfig, Process};

const DELAY: Duration = Duration::from_millis(5);
/// Time that the server is busy while a request waits for it, every so many requests.
const BUSY: Duration = Duration::from_millis(40);
const EVERY: usize = 20;
const REQUESTS: usize = 200;
const BYTES: usize = 1_000;
const PORT: u16 = 8080;
const TIMEOUT: Duration = Duration::from_secs(30);

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
    let (client, server) = (Host::new("client")?, Host::new("server")?);
    let link = Link::relay(&client, &server, LinkConfig::default().delay(DELAY))?;
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    let recordings = ["client", "server"].map(|name| directory.path().join(format!("{name}.parquet")));
    println!(
        "A client asks a server {REQUESTS} times, over a link of {} ms each way.\n\
         One request in {EVERY} finds the server busy for {} ms. Each host records its end:",
        DELAY.as_millis(),
        BUSY.as_millis()
    );
    let mut recorders = Vec::new();
    for (host, recording) in [&client, &server].into_iter().zip(&recordings) {
        recorders.push(record(&program, host, recording)?);
    }
    exchange(
        &client,
        &server,
        SocketAddr::new(link.address_b(Family::V4), PORT),
    )?;
    for mut recorder in recorders {
        recorder.signal(Signal::SIGINT)?;
        let status = recorder.wait_status(TIMEOUT)?;
        ensure!(status.success(), "sockstamp: {}", recorder.stderr());
    }
    println!("\n$ sockstamp join client.parquet server.parquet");
    let status = Command::new(&program)
        .arg("join")
        .args(&recordings)
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(status.success(), "sockstamp join failed");
    Ok(())
}

fn record(program: &Path, host: &Host, recording: &Path) -> Result<Process> {
    println!(
        "$ sockstamp record --every --netns {} -o {}.parquet",
        host.netns_name(),
        recording.file_stem().unwrap_or_default().display()
    );
    let mut command = Command::new(program);
    command.args([
        "record",
        "--every",
        "--max-cost=none",
        "--netns",
        host.netns_name(),
        "-o",
    ]);
    command.arg(recording);
    let mut process = Process::spawn(command)?;
    wait_until_it_measures(&mut process)?;
    Ok(process)
}

/// Ask and answer, one after the other.
fn exchange(client: &Host, server: &Host, address: SocketAddr) -> Result<()> {
    let listener = server.tcp_listen(address)?;
    let answering = thread::spawn(move || answer(&listener));
    let mut stream = client.tcp_connect(address)?;
    stream.set_nodelay(true)?;
    for _ in 0..REQUESTS {
        stream.write_all(&[b'?'; BYTES])?;
        stream.read_exact(&mut [0; BYTES])?;
    }
    answering.join().map_err(|_| anyhow!("the server died"))?
}

fn answer(listener: &TcpListener) -> Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    for number in 1..=REQUESTS {
        if number % EVERY == 0 {
            be_busy(&stream)?;
        }
        stream.read_exact(&mut [0; BYTES])?;
        stream.write_all(&[b'!'; BYTES])?;
    }
    Ok(())
}

/// Do something else while a request waits.
fn be_busy(stream: &TcpStream) -> Result<()> {
    stream.peek(&mut [0])?;
    thread::sleep(BUSY);
    Ok(())
}
