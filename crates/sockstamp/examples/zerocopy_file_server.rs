//! Serves one file by HTTP, without copying it into the kernel.
//!
//!     cargo run --release -p sockstamp --example zerocopy_file_server -- FILE [ADDRESS:PORT]
//!
//! Eight buffers go round for each connection: one is filled while the others are in flight, and is
//! filled again when the kernel is done with it.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sockstamp::error_queue::ErrorQueue;
use sockstamp::zerocopy::{Counters, Options, Sent, ZeroCopySender};

const BUFFERS: usize = 8;
const BUFFER: usize = 256 * 1024;

/// Limit the wait for a peer's acknowledgement.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let address = arguments.next().unwrap_or("127.0.0.1:0".into());
    let listener = TcpListener::bind(address)?;
    println!("http://{}/", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept()?;
        let path = path.clone();
        thread::spawn(move || match serve(&stream, Path::new(&path)) {
            Ok(counters) => println!("{peer}: {counters:?}"),
            Err(error) => println!("{peer}: {error}"),
        });
    }
}

/// Answer one request; return what the sender counted.
pub fn serve(stream: &TcpStream, path: &Path) -> Result<Counters, Box<dyn Error>> {
    read_request(stream)?;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();

    // Stop asking where the kernel copies anyway, as it does for a peer on this host.
    let options = Options::default().stop_when_copied(NonZeroU32::new(8).ok_or("not zero")?);
    let mut sender = ZeroCopySender::new(stream, options)?;
    let mut queue = ErrorQueue::new();
    let mut free = vec![vec![0; BUFFER]; BUFFERS];

    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let mut next = head.into_bytes();
    while !next.is_empty() {
        match sender.send(next)? {
            Sent::Copied(buffer) => free.push(buffer),
            Sent::InFlight => {}
            Sent::Partly { .. } => return Err("a socket that blocks takes all".into()),
        }
        let mut buffer = match free.pop() {
            Some(buffer) => buffer,
            None => {
                let returned = sender.wait_returned(&mut queue, PATIENCE, |_| {})?;
                returned.ok_or("the peer does not read")?.buffer
            }
        };
        buffer.resize(BUFFER, 0);
        let read = file.read(&mut buffer)?;
        buffer.truncate(read);
        next = buffer;
    }
    // Wait, because a buffer that is dropped in flight is leaked.
    if !sender.wait_idle(&mut queue, PATIENCE, |_| {})? {
        return Err("the peer does not read to the end".into());
    }
    Ok(sender.counters())
}

/// Read up to the empty line after the request's headers. Every request gets the same file.
fn read_request(stream: &TcpStream) -> Result<(), Box<dyn Error>> {
    let mut lines = BufReader::new(stream).lines();
    while !lines.next().ok_or("no request")??.is_empty() {}
    Ok(())
}
