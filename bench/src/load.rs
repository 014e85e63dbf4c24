//! The traffic: a client and a server over loopback TCP, in their own process and cgroup, so that
//! they share no lock, address space or cgroup with the measuring process. The process takes
//! commands on its standard input, one per line, and answers each with a line.

use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use sockstamp_bpf::Session;
use testbed::Cgroup;

use crate::crowd::Crowd;
use crate::interrupt;
use crate::paired::to_float;
use crate::processor;

/// Interval between reads of records: as long as `sockstamp trace` may wait.
const POLL: Duration = Duration::from_millis(50);
/// The first transfers of a connection grow its window and are no part of a round.
const WARM_UP: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Traffic {
    /// One request at a time, with an answer of the same length.
    RequestResponse,
    /// The client sends as fast as it can.
    Bulk,
}

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Open(Traffic),
    Run(Duration),
    Close,
    /// Open this many idle connections.
    Idle(usize),
    /// Send a request and its answer over each of these connections.
    Exchange,
    /// Closes them.
    Busy,
}

/// The result of a round of traffic.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Requests that were answered.
    pub(crate) transactions: u64,
    /// Bytes that the server has read.
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// Median of the time from a request to its answer; 0 if there were none.
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
}

impl Outcome {
    pub(crate) fn transactions_per_second(&self) -> f64 {
        to_float(self.transactions) / self.seconds
    }

    pub(crate) fn bytes_per_second(&self) -> f64 {
        to_float(self.bytes) / self.seconds
    }

    /// Requests and answers, each of them one send and one read; of bulk, writes.
    pub(crate) fn messages(&self, traffic: Traffic) -> f64 {
        match traffic {
            Traffic::RequestResponse => to_float(self.transactions * 2),
            Traffic::Bulk => to_float(self.bytes) / to_float(BLOCK as u64),
        }
    }
}

/// The process with the traffic, as the measuring process sees it.
#[derive(Debug)]
pub(crate) struct Load {
    orders: ChildStdin,
    answers: Receiver<io::Result<String>>,
    process: Child,
    cgroup: Cgroup,
    elsewhere: Cgroup,
}

impl Load {
    pub(crate) fn start(processor: usize) -> Result<Self> {
        let cgroup = Cgroup::new("bench")?;
        let mut command = Command::new(env::current_exe()?);
        command.args(["load", &processor.to_string()]);
        // Ctrl-C is for us; we end it then.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        cgroup.start_in(&mut command)?;
        let mut process = command.spawn().context("cannot start the load")?;
        let orders = process
            .stdin
            .take()
            .context("cannot send a command to the load")?;
        let output = process.stdout.take().context("the load gives no answers")?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            let _ = BufReader::new(output)
                .lines()
                .try_for_each(|line| sender.send(line));
        });
        Ok(Self {
            orders,
            answers,
            process,
            cgroup,
            elsewhere: Cgroup::new("bench-empty")?,
        })
    }

    pub(crate) fn cgroup(&self) -> &Path {
        self.cgroup.path()
    }

    /// A cgroup without any process.
    pub(crate) fn elsewhere(&self) -> &Path {
        self.elsewhere.path()
    }

    /// Open a new connection and warm it up, so that programs attached by now can select it.
    pub(crate) fn open(&mut self, traffic: Traffic) -> Result<()> {
        self.execute(&Order::Open(traffic), None)?;
        self.run(WARM_UP, None)?;
        Ok(())
    }

    /// Traffic on that connection, while the session's records are read.
    pub(crate) fn run(
        &mut self,
        duration: Duration,
        session: Option<&mut Session>,
    ) -> Result<Outcome> {
        self.execute(&Order::Run(duration), session)
    }

    pub(crate) fn close(&mut self) -> Result<()> {
        self.execute(&Order::Close, None)?;
        Ok(())
    }

    /// Open idle connections, next to the one with traffic.
    pub(crate) fn open_idle(&mut self, count: usize) -> Result<()> {
        self.execute(&Order::Idle(count), None)?;
        Ok(())
    }

    /// Send a request and its answer over each of these connections.
    pub(crate) fn exchange_idle(&mut self) -> Result<()> {
        self.execute(&Order::Exchange, None)?;
        Ok(())
    }

    pub(crate) fn close_idle(&mut self) -> Result<()> {
        self.execute(&Order::Busy, None)?;
        Ok(())
    }

    /// Run traffic without a session to poll.
    pub(crate) fn unattended(&mut self, traffic: Traffic, duration: Duration) -> Result<()> {
        self.open(traffic)?;
        self.run(duration, None)?;
        self.close()
    }

    fn execute(&mut self, order: &Order, session: Option<&mut Session>) -> Result<Outcome> {
        writeln!(self.orders, "{}", serde_json::to_string(order)?).context("the load has ended")?;
        Ok(serde_json::from_str(&self.answer(session)?)?)
    }

    fn answer(&self, mut session: Option<&mut Session>) -> Result<String> {
        loop {
            interrupt::check()?;
            let patience = match &mut session {
                Some(session) => {
                    session.poll(POLL, &mut |message| drop(black_box(message)))?;
                    Duration::ZERO
                }
                None => POLL,
            };
            match self.answers.recv_timeout(patience) {
                Ok(line) => return line.context("cannot read from the load"),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the load has ended"),
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Ignore the errors: neither call can fail for a child that was not waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process itself. Ends with its input.
pub(crate) fn serve(processor: usize) -> Result<()> {
    processor::stay_on(processor)?;
    let mut load = Serving::new()?;
    for line in io::stdin().lock().lines() {
        let order = serde_json::from_str(&line?)?;
        println!("{}", serde_json::to_string(&load.execute(&order)?)?);
    }
    Ok(())
}

const REQUEST: usize = 64;
/// The block size of iperf3.
const BLOCK: usize = 128 << 10;

struct Serving {
    listener: TcpListener,
    received: Arc<AtomicU64>,
    connection: Option<(TcpStream, Traffic)>,
    idle: Option<Crowd>,
    times: Vec<Duration>,
}

impl Serving {
    fn new() -> Result<Self> {
        Ok(Self {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            received: Arc::default(),
            connection: None,
            idle: None,
            times: Vec::new(),
        })
    }

    fn execute(&mut self, order: &Order) -> Result<Outcome> {
        match order {
            Order::Open(traffic) => self.open(*traffic)?,
            Order::Run(duration) => return self.run(*duration),
            Order::Close => self.connection = None,
            Order::Idle(count) => self.idle = Some(Crowd::open(*count)?),
            Order::Exchange => self.idle.as_mut().map_or(Ok(()), Crowd::exchange)?,
            Order::Busy => self.idle = None,
        }
        Ok(Outcome::default())
    }

    fn open(&mut self, traffic: Traffic) -> Result<()> {
        let client = TcpStream::connect(self.listener.local_addr()?)?;
        let (server, _) = self.listener.accept()?;
        settle(&client)?;
        settle(&server)?;
        let received = Arc::clone(&self.received);
        thread::spawn(move || match traffic {
            Traffic::RequestResponse => echo(server, &received),
            Traffic::Bulk => discard(server, &received),
        });
        self.connection = Some((client, traffic));
        Ok(())
    }

    fn run(&mut self, duration: Duration) -> Result<Outcome> {
        let (client, traffic) = self
            .connection
            .as_mut()
            .ok_or_else(|| anyhow!("no connection is open"))?;
        self.times.clear();
        let before = self.received.load(Ordering::Relaxed);
        let start = Instant::now();
        match traffic {
            Traffic::RequestResponse => request(client, duration, &mut self.times)?,
            Traffic::Bulk => send(client, duration)?,
        }
        let seconds = start.elapsed().as_secs_f64();
        let bytes = self.received.load(Ordering::Relaxed) - before;
        self.times.sort_unstable();
        Ok(Outcome {
            transactions: self.times.len() as u64,
            bytes,
            seconds,
            p50_ns: permille(&self.times, 500),
            p99_ns: permille(&self.times, 990),
            p999_ns: permille(&self.times, 999),
        })
    }
}

/// The default of net.core.wmem_max and rmem_max: no host grants less.
const BUFFER: usize = 212_992;

/// Remove sources of differences between rounds. The host's congestion control may pace by timers,
/// and probe at its own times; Reno does neither, and every kernel has it (net/ipv4/tcp_cong.c).
/// Growing buffers leave the cache at some moment; buffers of a set size do not grow (socket(7)).
fn settle(socket: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_congestion(b"reno")?;
    socket.set_send_buffer_size(BUFFER)?;
    socket.set_recv_buffer_size(BUFFER)
}

fn permille(sorted: &[Duration], permille: usize) -> u64 {
    let value = sorted
        .get(sorted.len() * permille / 1000)
        .copied()
        .unwrap_or_default();
    u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)
}

fn request(
    client: &mut TcpStream,
    duration: Duration,
    times: &mut Vec<Duration>,
) -> io::Result<()> {
    let mut message = [0; REQUEST];
    let start = Instant::now();
    let mut sent = start;
    while sent - start < duration {
        client.write_all(&message)?;
        client.read_exact(&mut message)?;
        let answered = Instant::now();
        times.push(answered - sent);
        sent = answered;
    }
    Ok(())
}

fn send(client: &mut TcpStream, duration: Duration) -> io::Result<()> {
    let block = vec![0; BLOCK];
    let start = Instant::now();
    while start.elapsed() < duration {
        client.write_all(&block)?;
    }
    Ok(())
}

/// Until the client closes.
fn echo(mut server: TcpStream, received: &AtomicU64) {
    let mut message = [0; REQUEST];
    while server.read_exact(&mut message).is_ok() && server.write_all(&message).is_ok() {
        received.fetch_add(REQUEST as u64, Ordering::Relaxed);
    }
}

/// Until the client closes.
fn discard(mut server: TcpStream, received: &AtomicU64) {
    let mut block = vec![0; BLOCK];
    while let Ok(length @ 1..) = server.read(&mut block) {
        received.fetch_add(length as u64, Ordering::Relaxed);
    }
}
