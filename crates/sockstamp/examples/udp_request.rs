//! Print how long a UDP request took by the kernel's stamps: from the driver to the arrival of the
//! answer.
//!
//!     cargo run -p sockstamp --example udp_request -- 192.0.2.1:7
//!
//! Without an address it sends to an echo server of its own.

use std::error::Error;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use sockstamp::clock::Timestamp;
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{MessageOptions, Options, receive, send};

fn main() -> Result<(), Box<dyn Error>> {
    let server: SocketAddr = match std::env::args().nth(1) {
        Some(address) => address.parse()?,
        None => echo_server()?,
    };
    let any = if server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.connect(server)?;
    let options = Options::new()
        .tx_sched()
        .tx_software()
        .rx_software()
        .id()
        .only_stamps();
    options.apply(&socket)?;
    // The kernel begins to stamp received packets some milliseconds later.
    thread::sleep(Duration::from_millis(50));

    send(
        &socket,
        &[IoSlice::new(b"ping")],
        None,
        MessageOptions::new(),
    )?;
    let mut answer = [0; 1500];
    let received = receive(&socket, &mut answer)?;

    let mut sent = None;
    ErrorQueue::new().drain(&socket, |report| {
        if let Report::Stamp { stamp, .. } = report {
            let time = stamp.time.software();
            println!(
                "{:?} at {} ns",
                stamp.kind,
                time.map_or(0, Timestamp::as_nanos)
            );
            sent = sent.max(time);
        }
    })?;
    match (sent, received.stamp.software) {
        (Some(sent), Some(received)) => {
            println!(
                "Received at {} ns, {} after the driver had it",
                received.as_nanos(),
                received - sent
            );
        }
        _ => println!("a stamp is missing"),
    }
    Ok(())
}

fn echo_server() -> std::io::Result<SocketAddr> {
    let server = UdpSocket::bind("127.0.0.1:0")?;
    let address = server.local_addr()?;
    thread::spawn(move || {
        let mut bytes = [0; 1500];
        while let Ok((length, from)) = server.recv_from(&mut bytes) {
            if server.send_to(&bytes[..length], from).is_err() {
                break;
            }
        }
    });
    Ok(address)
}
