//! Idle connections, which exchange a request and its answer on command. They are in separate
//! processes, enough to keep each within the limit of open files per process.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::SockRef;

/// Less than there are ephemeral ports (ip(7), ip_local_port_range) to connect to one address from.
const AN_ADDRESS: usize = 10_000;
/// Limit of a process's descriptors besides its connections.
const OTHER_FILES: u64 = 32;

/// A crowd of connections; it ends with its owner.
#[derive(Debug)]
pub(crate) struct Crowd(Vec<(Child, BufReader<ChildStdout>)>);

impl Crowd {
    /// Open this many connections, in the cgroup of the caller.
    pub(crate) fn open(count: usize) -> Result<Self> {
        let mut crowd = Self(Vec::new());
        let most = connections_a_process()?;
        let mut left = count;
        while left > 0 {
            let part = left.min(most);
            crowd.0.push(start(part)?);
            left -= part;
        }
        crowd.wait()?;
        Ok(crowd)
    }

    /// Send a request and its answer over each connection.
    pub(crate) fn exchange(&mut self) -> Result<()> {
        for (child, _) in &mut self.0 {
            let orders = child
                .stdin
                .as_mut()
                .context("idle connections take no orders")?;
            orders.write_all(b"\n")?;
        }
        self.wait()
    }

    /// Wait until all connections are open, or have executed the last command.
    fn wait(&mut self) -> Result<()> {
        for (_, answers) in &mut self.0 {
            let mut line = String::new();
            answers.read_line(&mut line)?;
            (line.trim() == READY)
                .then_some(())
                .context("idle connections cannot be used")?;
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            // End the child by its input. Neither call can fail for a child that was not waited
            // for.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn connections_a_process() -> Result<usize> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let files = hard.saturating_sub(OTHER_FILES).max(2);
    Ok(usize::try_from(files / 2).unwrap_or(usize::MAX))
}

fn start(count: usize) -> Result<(Child, BufReader<ChildStdout>)> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["crowd", &count.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start idle connections")?;
    let answers = child
        .stdout
        .take()
        .context("idle connections do not answer")?;
    Ok((child, BufReader::new(answers)))
}

const READY: &str = "ready";

/// Serve as one of the processes. Ends with its input.
pub(crate) fn serve(count: usize) -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let port = listener.local_addr()?.port();
    let connections = (0..count).map(|number| connect(&listener, number, port));
    let connections: io::Result<Vec<_>> = connections.collect();
    let mut connections = connections.context("cannot open an idle connection")?;
    println!("{READY}");
    for line in io::stdin().lines() {
        line?;
        connections.iter_mut().try_for_each(exchange)?;
        println!("{READY}");
    }
    Ok(())
}

fn exchange((client, server): &mut (TcpStream, TcpStream)) -> io::Result<()> {
    let mut bytes = [0; 100];
    client.write_all(&bytes)?;
    server.read_exact(&mut bytes)?;
    server.write_all(&bytes)?;
    client.read_exact(&mut bytes)
}

fn connect(listener: &TcpListener, number: usize, port: u16) -> io::Result<(TcpStream, TcpStream)> {
    let client = TcpStream::connect((address(number), port))?;
    let (server, _) = listener.accept()?;
    // Close by RST, which leaves nothing behind.
    SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
    SockRef::from(&server).set_linger(Some(Duration::ZERO))?;
    Ok((client, server))
}

/// All of 127.0.0.0/8 leads here: RFC 1122, 3.2.1.3.
fn address(number: usize) -> Ipv4Addr {
    let place = u8::try_from(number / AN_ADDRESS).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, 1, 1, place)
}
