//! A client that asks, and a server that answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use testbed::{Hog, Host, run_first_on};

use crate::cause::Cause;
use crate::topology::Topology;

pub(crate) const REQUESTS: usize = 30;
const BYTES: usize = 1_000;
const BUSY: Duration = Duration::from_millis(20);

/// An end of the connection, on a processor of its own, if there are two.
struct End {
    stream: TcpStream,
    datagrams: UdpSocket,
    peer: SocketAddr,
    cause: Cause,
    processor: usize,
}

/// Ask and answer, one after the other.
pub(crate) fn run(topology: &Topology, cause: Cause) -> Result<()> {
    let [client, server] = &topology.hosts;
    let listener = server.tcp_listen(topology.address())?;
    let stream = client.tcp_connect(topology.address())?;
    let (accepted, peer) = listener.accept()?;
    let of_server = End::new(server, accepted, peer, cause, 1)?;
    let of_client = End::new(client, stream, topology.address(), cause, 0)?;
    let asking = thread::spawn(move || of_client.turns(End::send, End::receive));
    let answering = thread::spawn(move || of_server.turns(End::receive, End::send));
    for end in [asking, answering] {
        end.join().map_err(|_| anyhow!("an end died"))??;
    }
    Ok(())
}

impl End {
    fn new(
        host: &Host,
        stream: TcpStream,
        peer: SocketAddr,
        cause: Cause,
        processor: usize,
    ) -> Result<Self> {
        stream.set_nodelay(cause != Cause::Nagle)?;
        // Datagrams to the other end find a socket, so no ICMP error answers them.
        let datagrams = host.udp_bind(stream.local_addr()?)?;
        Ok(Self {
            stream,
            datagrams,
            peer,
            cause,
            processor: processor.min(thread::available_parallelism()?.get() - 1),
        })
    }

    fn turns(
        mut self,
        first: fn(&mut Self) -> Result<()>,
        second: fn(&mut Self) -> Result<()>,
    ) -> Result<()> {
        // Other work of this machine is none of the causes; the hog comes before it nevertheless.
        run_first_on(self.processor).context("cannot choose a processor")?;
        for _ in 0..REQUESTS {
            first(&mut self)?;
            second(&mut self)?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let message = [b'?'; BYTES];
        match self.cause {
            Cause::Queue => {
                self.datagrams.send_to(&message, self.peer)?;
            }
            Cause::Processor => {
                // The hog ends by itself, before the answer to this message has come.
                Hog::start(1 - self.processor, BUSY)?;
            }
            Cause::Nagle => {
                self.stream.write_all(&message[..BYTES / 2])?;
                return Ok(self.stream.write_all(&message[BYTES / 2..])?);
            }
            Cause::Network | Cause::Reader => {}
        }
        Ok(self.stream.write_all(&message)?)
    }

    fn receive(&mut self) -> Result<()> {
        if self.cause == Cause::Reader {
            self.stream.peek(&mut [0])?;
            thread::sleep(BUSY);
        }
        Ok(self.stream.read_exact(&mut [0; BYTES])?)
    }
}
