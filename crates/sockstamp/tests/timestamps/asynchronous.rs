//! Error queues in a runtime of tokio.

use std::io::Read;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sockstamp::error_queue::{AsyncErrorQueue, Report};
use sockstamp::stamped::AsyncStampedSocket;
use sockstamp::timestamping::{Options, TxKind};
use sockstamp::zerocopy::{self, AsyncZeroCopySender};
use testbed::{Family, PATIENCE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::common::{FAMILIES, SND, loopback, now, send_to, software, tcp_pair};
use crate::stamped::connected;

/// Wait until `count` stamps have come, and return their ids and kinds.
async fn drained(queue: &mut AsyncErrorQueue, count: usize) -> Vec<(u32, TxKind)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let report = |report: Report<'_>| match report {
            Report::Stamp { stamp, .. } => seen.push((stamp.id, stamp.kind)),
            other => panic!("{other:?}"),
        };
        let taken = timeout(PATIENCE, queue.drain(report))
            .await
            .unwrap()
            .unwrap();
        assert!(taken > 0);
    }
    seen
}

#[tokio::test]
async fn each_datagram_wakes_the_task() {
    for family in FAMILIES {
        let socket = UdpSocket::bind(loopback(family, 0)).await.unwrap();
        let to = socket.local_addr().unwrap();
        SND.apply(&socket).unwrap();
        let mut queue = AsyncErrorQueue::new(&socket).unwrap();
        for id in 0..50 {
            send_to(&socket, to);
            assert_eq!(drained(&mut queue, 1).await, [(id, TxKind::Snd)]);
        }
        assert_eq!(queue.counters().entries, 50);
    }
}

/// Data that arrive and a task that reads them do not wake the one that waits for stamps, nor lose
/// it one.
#[tokio::test]
async fn an_empty_queue_waits_and_reading_goes_on() {
    let listener = TcpListener::bind(loopback(Family::V4, 0)).await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    Options::new()
        .tx_ack()
        .id()
        .only_stamps()
        .apply(&client)
        .unwrap();
    let mut queue = AsyncErrorQueue::new(&client).unwrap();

    server.write_all(b"hello").await.unwrap();
    let waited = timeout(
        Duration::from_millis(50),
        queue.drain(|report| panic!("{report:?}")),
    );
    assert!(waited.await.is_err());

    client.write_all(b"0123456789").await.unwrap();
    let mut bytes = [0; 10];
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(drained(&mut queue, 1).await, [(9, TxKind::Ack)]);
    client.read_exact(&mut bytes[..5]).await.unwrap();
    assert_eq!(&bytes[..5], b"hello");
}

/// The CPU time of this thread, which runs all tasks of a test.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

/// A writer waits for a peer that does not read, after stamps have come.
#[tokio::test]
async fn a_writer_without_room_sleeps() {
    const WAIT: Duration = Duration::from_millis(500);
    let (client, mut server) = tcp_pair(Family::V4);
    let options = Options::new().tx_sched().tx_software().tx_ack();
    let socket = AsyncStampedSocket::new(client, options).unwrap();
    let (payload, mut sent) = (vec![0; 100_000], 0);
    // Until there is no room.
    let full = async {
        loop {
            sent += socket.send(&payload).await.unwrap().bytes;
            socket.stamps().await.unwrap();
        }
    };
    assert!(timeout(WAIT, full).await.is_err());
    let (mut rest, before) = (0, cpu_time());
    let more = async {
        loop {
            rest += socket.send(&payload).await.unwrap().bytes;
        }
    };
    assert!(timeout(WAIT, more).await.is_err());
    let used = cpu_time() - before;
    assert!(used < WAIT / 10, "{used:?}");

    // The send goes on when there is room.
    let total = sent + rest;
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 20];
        let mut read = 0;
        while read <= total {
            read += server.read(&mut bytes).unwrap();
        }
    });
    let one = timeout(PATIENCE, socket.send(&[0; 1])).await;
    assert_eq!(one.unwrap().unwrap().bytes, 1);
    reader.join().unwrap();
}

/// Any of them may read the error queue for the others.
#[tokio::test]
async fn each_task_gets_the_stamp_that_it_waits_for() {
    let (socket, _peer) = connected("stamped-tasks");
    let options = Options::new().tx_sched().tx_software();
    let socket = AsyncStampedSocket::new(socket, options).unwrap();
    let task = async |kind| {
        for _ in 0..100 {
            let before = now();
            let sent = timeout(PATIENCE, socket.send_stamped(b"hello", kind)).await;
            let (_, stamp) = sent.unwrap().unwrap();
            assert_eq!(stamp.kind, kind);
            assert!((before..=now()).contains(&software(&stamp)));
        }
    };
    let others = async {
        let mut others = 0;
        while others < 300 {
            let stamps = timeout(PATIENCE, socket.stamps()).await.unwrap();
            others += stamps.unwrap().len();
        }
        others
    };
    let (snd, sched) = (TxKind::Snd, TxKind::Sched);
    let (.., others) = tokio::join!(task(snd), task(sched), task(snd), others);
    assert_eq!(others, 300);
}

#[tokio::test]
async fn buffers_come_back_to_a_task() {
    const SENDS: usize = 200;
    const LENGTH: usize = 50_000;
    let (client, mut server) = tcp_pair(Family::V4);
    let options = zerocopy::Options::default().threshold(1);
    let mut sender = AsyncZeroCopySender::new(client, options).unwrap();
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        let (mut bytes, mut read) = (vec![0; 1 << 20], 0);
        while read < SENDS * LENGTH {
            let length = server.read(&mut bytes).unwrap();
            assert!(bytes[..length].iter().all(|byte| *byte == 7));
            read += length;
        }
    });
    let work = async {
        let mut back = 0;
        for _ in 0..SENDS {
            if let zerocopy::Sent::Copied(_) = sender.send(vec![7; LENGTH]).await.unwrap() {
                back += 1;
            }
        }
        while let Some(returned) = sender.returned().await.unwrap() {
            assert_eq!(returned.buffer.len(), LENGTH);
            back += 1;
        }
        back
    };
    assert_eq!(timeout(PATIENCE, work).await.unwrap(), SENDS);
    assert_eq!(sender.get_mut().in_flight(), 0);
    reader.join().unwrap();
}
