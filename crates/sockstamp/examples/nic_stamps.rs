//! Print how long datagrams took from the driver to the wire, by the stamps of a NIC, with the
//! bound of the comparison of its clock. Root.
//!
//!     cargo run -p sockstamp --example nic_stamps -- eth0 192.0.2.1:7 [COUNT]

use std::error::Error;
use std::io::IoSlice;
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sockstamp::clock::{Phc, Realtime, Timestamp};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::interface::{self, HardwareStampingGuard, TxStamping};
use sockstamp::phc::{Converted, PhcClock, PhcTrack, Pushed};
use sockstamp::timestamping::{MessageOptions, Options, send};

/// Time for both stamps of a datagram.
const PATIENCE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(name), Some(server)) = (words.next(), words.next()) else {
        return Err("which interface, and which address?".into());
    };
    let count: u32 = words.next().map_or(Ok(10), |word| word.parse())?;
    let index = interface::capabilities(&name)?.phc_index;
    let clock = PhcClock::open(index.ok_or("this interface has no clock")?)?;
    let wanted = interface::HardwareStamping {
        tx: TxStamping::ON,
        ..interface::hardware_stamping(&name)?
    };
    let guard = HardwareStampingGuard::set(&name, wanted)?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(server)?;
    Options::new()
        .tx_software()
        .tx_hardware()
        .both()
        .only_stamps()
        .apply(&socket)?;
    let mut track = PhcTrack::new();
    for _ in 0..count {
        stamped(&socket, &clock, &mut track)?;
    }
    println!("restored: {}", guard.restore()?);
    Ok(())
}

/// Send one datagram between two readings of the clock.
fn stamped(
    socket: &UdpSocket,
    clock: &PhcClock,
    track: &mut PhcTrack,
) -> Result<(), Box<dyn Error>> {
    let _ = track.push(clock.read()?);
    send(
        socket,
        &[IoSlice::new(b"ping")],
        None,
        MessageOptions::new(),
    )?;
    let sent = stamps(socket)?;
    if track.push(clock.read()?) == Pushed::Stepped {
        println!("a clock was stepped");
    }
    let (Some(software), Some(hardware)) = (sent.software, sent.hardware) else {
        println!("the NIC did not stamp it");
        return Ok(());
    };
    match track.convert(hardware) {
        Converted::Known(time) => println!(
            "{} from the driver to the wire, ± {}",
            time.realtime - software,
            time.bound
        ),
        other => println!("{other:?}"),
    }
    Ok(())
}

/// The stamps of a datagram, by two clocks.
#[derive(Default)]
struct Sent {
    software: Option<Timestamp<Realtime>>,
    hardware: Option<Timestamp<Phc>>,
}

/// Wait for both stamps.
fn stamps(socket: &UdpSocket) -> Result<Sent, Box<dyn Error>> {
    let Sent {
        mut software,
        mut hardware,
    } = Sent::default();
    let mut queue = ErrorQueue::new();
    let sent = Instant::now();
    while sent.elapsed() < PATIENCE && (software.is_none() || hardware.is_none()) {
        queue.drain(socket, |report| {
            if let Report::Stamp { stamp, .. } = report {
                software = software.or(stamp.time.software());
                hardware = hardware.or(stamp.time.hardware());
            }
        })?;
        sleep(Duration::from_millis(1));
    }
    Ok(Sent { software, hardware })
}
