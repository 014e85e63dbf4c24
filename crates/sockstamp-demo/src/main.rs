//! Run the demo of `make run`: `sockstamp stat` over a client and a server that talk TCP across two
//! network namespaces, joined by a link of 10 ms each way.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sockstamp_demo::{need_root, sockstamp};
use testbed::{Cgroup, Family, Host, Link, LinkConfig, Process};

const DELAY: Duration = Duration::from_millis(10);
/// Time in ms that the server thinks per request.
const THINK: &str = "3";
const PORT: &str = "8080";
const MEASURED: &str = "5s";
/// Longest delay in noticing the end of a program or a signal.
const STEP: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sockstamp-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    need_root()?;
    // From now on a signal ends the measurement, and everything is removed on exit.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot catch signals")?;
    let setup = DemoHosts::build()?;
    let mut stat = measure(&setup.cgroup)?;
    let mut client = None;
    let status = loop {
        if let Some(status) = stat.try_wait().context("cannot wait for sockstamp")? {
            break status;
        }
        for signal in signals.pending() {
            pass_on(&stat, signal);
        }
        // A new connection every half second: whichever begins after sockstamp is ready is
        // measured.
        if !client.as_mut().map_or(Ok(false), Process::is_running)? {
            client = Some(setup.client()?);
        }
        thread::sleep(STEP);
    };
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Two hosts, a link between them, and a server on one. Dropped in this order: programs first.
struct DemoHosts {
    _server: Process,
    cgroup: Cgroup,
    link: Link,
    near: Host,
    _far: Host,
    peer: PathBuf,
}

impl DemoHosts {
    fn build() -> Result<Self> {
        let (near, far) = (Host::new("client")?, Host::new("server")?);
        let link = Link::relay(&near, &far, LinkConfig::default().delay(DELAY))?;
        let cgroup = Cgroup::new("demo")?;
        let peer = testbed::peer_program()?;
        let mut serve = far.command(&peer);
        serve.args([
            "serve",
            "--port",
            PORT,
            "--response",
            "4096",
            "--think",
            THINK,
        ]);
        cgroup.start_in(&mut serve)?;
        let mut server = Process::spawn(serve)?;
        server.wait_for_stdout("listening", Duration::from_secs(5))?;
        Ok(Self {
            _server: server,
            cgroup,
            link,
            near,
            _far: far,
            peer,
        })
    }

    fn client(&self) -> Result<Process> {
        let address = format!("{}:{PORT}", self.link.address_b(Family::V4));
        let mut command = self.near.command(&self.peer);
        command.args([
            "client",
            "--connect",
            &address,
            "--response",
            "4096",
            "--count",
            "20",
        ]);
        self.cgroup.start_in(&mut command)?;
        Ok(Process::spawn(command)?)
    }
}

fn measure(cgroup: &Cgroup) -> Result<Child> {
    let program = sockstamp()?;
    println!(
        "A client asks, a server thinks for {THINK} ms and answers with 4096 bytes, over TCP and a link of {} ms each way:",
        DELAY.as_millis()
    );
    println!(
        "tx.network is the way there and back, {} ms; rx.app of every request is the server that thinks. {MEASURED} of it:",
        2 * DELAY.as_millis()
    );
    println!(
        "\n$ sockstamp stat --cgroup {} --duration {MEASURED}",
        cgroup.path().display()
    );
    Command::new(&program)
        .args(["stat", "--duration", MEASURED, "--cgroup"])
        .arg(cgroup.path())
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))
}

/// A signal from the terminal has reached sockstamp already, and a second one does no harm.
fn pass_on(child: &Child, signal: i32) {
    let (Ok(signal), Ok(pid)) = (Signal::try_from(signal), i32::try_from(child.id())) else {
        return;
    };
    // Ignore the error: the process may have ended meanwhile.
    let _ = kill(Pid::from_raw(pid), signal);
}
