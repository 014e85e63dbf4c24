//! Print where the time of requests over TCP goes, from the call that sends to the read of the
//! answer.
//!
//!     cargo run -p sockstamp --example request_latency -- 192.0.2.1:7
//!
//! Without an address it asks a server of its own, on this host, which answers with as many bytes.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime};

use sockstamp::clock::{Delta, Realtime, Timestamp};
use sockstamp::stamped::StampedSocket;
use sockstamp::timestamping::{Options, TxKind};

/// The parts of a request's time, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// From the call to the driver.
    pub sending: Delta,
    /// From the driver to the kernel's receipt of the answer: network and server.
    pub away: Delta,
    /// From there to the end of the read.
    pub reading: Delta,
    /// All of it, by the program's clock.
    pub total: Delta,
}

type Part = fn(&Request) -> Delta;

const BYTES: usize = 100;
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let server = match std::env::args().nth(1) {
        Some(address) => address.parse()?,
        None => own_server()?,
    };
    let requests = ask(server, 200)?;
    let parts: [(&str, Part); 4] = [
        ("sending", |request| request.sending),
        ("away", |request| request.away),
        ("reading", |request| request.reading),
        ("total", |request| request.total),
    ];
    println!("{:8} {:>9} {:>9} {:>9}", "", "p50", "p99", "max");
    for (name, part) in parts {
        let mut times: Vec<_> = requests.iter().map(part).collect();
        times.sort_unstable();
        let [p50, p99, max] = [50, 99, 100].map(|percent| {
            let rank = (times.len() * percent).div_ceil(100);
            times[rank - 1].to_string()
        });
        println!("{name:8} {p50:>9} {p99:>9} {max:>9}");
    }
    Ok(())
}

/// Ask this often, one request after the other.
pub fn ask(server: SocketAddr, requests: usize) -> Result<Vec<Request>, Box<dyn Error>> {
    let stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let socket = StampedSocket::new(stream, Options::new().tx_software().rx_software())?;
    // The kernel begins to stamp received packets some milliseconds later.
    thread::sleep(Duration::from_millis(50));
    (0..requests).map(|_| ask_once(&socket)).collect()
}

fn ask_once(socket: &StampedSocket<TcpStream>) -> Result<Request, Box<dyn Error>> {
    let called = now()?;
    let (sent, left) = socket.send_stamped(&[7; BYTES], TxKind::Snd, PATIENCE)?;
    if sent.bytes < BYTES {
        return Err("a socket that blocks takes all".into());
    }
    let (mut answer, mut received, mut came) = ([0; BYTES], 0, None);
    while received < BYTES {
        // The stamp is that of the packet with the last byte.
        let some = socket.receive(&mut answer[received..])?;
        if some.length == 0 {
            return Err("the server has closed".into());
        }
        (received, came) = (received + some.length, some.stamp.software);
    }
    let read = now()?;
    let left = left.and_then(|stamp| stamp.time.software());
    let left = left.ok_or("the stamp of the request is missing")?;
    let came = came.ok_or("the stamp of the answer is missing")?;
    Ok(Request {
        sending: left - called,
        away: came - left,
        reading: read - came,
        total: read - called,
    })
}

/// Answer each connection with its own bytes, until the program ends.
pub fn own_server() -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || echo(stream));
        }
    });
    Ok(address)
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = [0; 4096];
    loop {
        let read = stream.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&bytes[..read])?;
    }
}

fn now() -> Result<Timestamp<Realtime>, Box<dyn Error>> {
    Timestamp::try_from(SystemTime::now()).map_err(|_| "the clock is not set".into())
}
