//! Error queues in a runtime of tokio.

use std::time::Duration;

use sockstamp::error_queue::{AsyncErrorQueue, Report};
use sockstamp::timestamping::{Options, TxKind};
use testbed::{Family, PATIENCE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::common::{FAMILIES, SND, loopback, send_to};

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
