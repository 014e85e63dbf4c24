//! A live test: a few messages over the loopback interface, measured like all others.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sockstamp::ReceiveStamping;
use sockstamp_bpf::{Options, Session, Target};
use sockstamp_host::{cgroup, netns};
use sockstamp_model::verdict::Verdict;

/// The result of the self-test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SelfTest {
    Done { messages: u64, valid: u64 },
    Failed(String),
    NotRun,
}

/// Requests; each is answered, and each is sent and read: four messages.
const ROUNDS: u64 = 10;
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) fn run() -> SelfTest {
    measure().unwrap_or_else(|error| SelfTest::Failed(format!("{error:#}")))
}

/// Measure this connection only, so that no other one is touched. It is chosen by its port: in a
/// PID namespace, the kernel knows this process by another number.
fn measure() -> Result<SelfTest> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let options = Options {
        target: Target {
            // Sockets of a named cgroup are measured, whatever program has them.
            cgroup: Some(cgroup::root()?),
            netns: vec![netns::own()?],
            filter: Some(format!("tcp port {port}").parse()?),
            ..Target::default()
        },
        new_only: true,
        // Exclude UDP: the probe for receive stamping is a datagram.
        udp: false,
        ..Options::default()
    };
    let mut session = Session::start(&options)?;
    wait_for_stamping()?;
    exchange(&listener).context("cannot talk over the loopback interface")?;
    session.settle(PATIENCE, &mut drop)?;
    session.give_back()?;
    let summary = session.stop(&mut drop)?;
    Ok(SelfTest::Done {
        messages: summary.tx.messages + summary.rx.messages,
        valid: summary.verdict(Verdict::Valid),
    })
}

/// The kernel takes some milliseconds to switch receive stamping on.
fn wait_for_stamping() -> Result<()> {
    let start = Instant::now();
    while !ReceiveStamping::is_on()? && start.elapsed() < PATIENCE {}
    Ok(())
}

fn exchange(listener: &TcpListener) -> io::Result<()> {
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    let mut bytes = [0; 64];
    for _ in 0..ROUNDS {
        client.write_all(&bytes)?;
        server.read_exact(&mut bytes)?;
        server.write_all(&bytes)?;
        client.read_exact(&mut bytes)?;
    }
    Ok(())
}
