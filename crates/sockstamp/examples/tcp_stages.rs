//! Print where the time of TCP sends went: packet scheduler, driver, acknowledged.
//!
//!     cargo run -p sockstamp --example tcp_stages

use std::io::{IoSlice, Read};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sockstamp::clock::{Nanos, Realtime, Timestamp};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{Coverage, Matcher, MessageOptions, Options, Origin, TxKind, send};

struct Message {
    number: usize,
    called: Timestamp<Realtime>,
}

fn main() -> std::io::Result<()> {
    let stream = connect_to_a_reader()?;
    let options = Options::new()
        .tx_sched()
        .tx_software()
        .tx_ack()
        .id()
        .only_stamps();
    options.apply(&stream)?;

    // No byte was sent before, so ids begin at the next one.
    let kinds = [TxKind::Sched, TxKind::Snd, TxKind::Ack];
    let mut matcher = Matcher::stream(64, &kinds, Origin::Unacknowledged { outstanding: 0 });
    let mut queue = ErrorQueue::new();
    for number in 0..5 {
        let called = now();
        let bytes = send(
            &stream,
            &[IoSlice::new(&[0; 10_000])],
            None,
            MessageOptions::new(),
        )?;
        matcher.sent(bytes, Message { number, called });
    }
    while matcher.unfinished().next().is_some() {
        queue.drain(&stream, |report| {
            let Report::Stamp { stamp, .. } = report else {
                return;
            };
            matcher.stamp(&stamp, |matched| {
                let (message, time) = (matched.message, matched.time.software());
                let after = time.map(|time| (time - message.called).to_string());
                let by = match matched.coverage {
                    Coverage::Exact => "",
                    Coverage::Merged => " (by a later send's stamp)",
                };
                println!(
                    "message {} {:<5} {:>8}{by}",
                    message.number,
                    format!("{:?}", matched.kind),
                    after.unwrap_or_default()
                );
            });
        })?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn connect_to_a_reader() -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (mut reader, _) = listener.accept()?;
    thread::spawn(move || while reader.read(&mut [0; 65_536]).is_ok_and(|read| read > 0) {});
    Ok(stream)
}

fn now() -> Timestamp<Realtime> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_nanos(Nanos::from(since).as_nanos())
}
