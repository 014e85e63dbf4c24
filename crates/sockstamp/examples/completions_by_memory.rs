//! Send a stream whose buffers come back by memory if `sockstamp notifications` runs, and by the
//! error queue otherwise.
//!
//!     cargo run --release -p sockstamp --example completions_by_memory -- 192.0.2.1:9 [SOCKET OF THE SERVICE]
//!
//! The kernel copies for a peer on this host, and reports it in the counters.

use std::env;
use std::error::Error;
use std::net::TcpStream;
use std::time::Duration;

use sockstamp::completions::{Completions, DEFAULT_PATH};
use sockstamp::error_queue::ErrorQueue;
use sockstamp::zerocopy::{CompletionCounters, Options, Sent, ZeroCopySender};

const BUFFERS: usize = 8;
const BUFFER: usize = 256 * 1024;
const SENDS: usize = 1000;

/// Limit the wait for a peer's acknowledgement.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let peer = arguments.next().ok_or("to whom?")?;
    let service = arguments.next().unwrap_or(DEFAULT_PATH.into());
    println!("{:?}", send(&TcpStream::connect(peer)?, &service)?);
    Ok(())
}

/// Return the source of the completions.
pub fn send(stream: &TcpStream, service: &str) -> Result<CompletionCounters, Box<dyn Error>> {
    let mut sender = ZeroCopySender::new(stream, Options::default())?;
    // Connect once: one connection to the service serves all sockets of a program.
    let shared = Completions::connect(service)
        .and_then(|application| sender.use_memory(&application, false));
    if let Err(error) = shared {
        println!("by the error queue: {error}");
    }

    let mut queue = ErrorQueue::new();
    let mut free = vec![vec![7; BUFFER]; BUFFERS];
    for _ in 0..SENDS {
        let buffer = match free.pop() {
            Some(buffer) => buffer,
            None => {
                let returned = sender.wait_returned(&mut queue, PATIENCE, |_| {})?;
                returned.ok_or("the peer does not read")?.buffer
            }
        };
        match sender.send(buffer)? {
            Sent::Copied(buffer) => free.push(buffer),
            Sent::InFlight => {}
            Sent::Partly { .. } => return Err("a socket that blocks takes all".into()),
        }
    }
    if !sender.wait_idle(&mut queue, PATIENCE, |_| {})? {
        return Err("the peer does not read to the end".into());
    }
    Ok(sender.completion_counters())
}
