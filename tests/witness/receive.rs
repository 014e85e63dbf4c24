//! Reads of TCP: each valid one against the wire and the reader's clock.

use std::time::Duration;

use testbed::{Family, LinkConfig};
use with::FAMILIES;
use with::streams::{Reader, Stream, Writer, compare};

const MS: Duration = Duration::from_millis(1);

/// Small sends, each of which arrives by itself.
const DRIP: Writer = Writer {
    bytes: 100,
    burst: 1,
    bursts: 2000,
    pause: MS,
};

const BULK: Writer = Writer {
    bytes: 16 << 10,
    burst: 400,
    bursts: 1,
    pause: Duration::ZERO,
};

const BURSTS: Writer = Writer {
    bytes: 200,
    burst: 30,
    bursts: 20,
    pause: Duration::from_millis(20),
};

/// A reader of this many bytes that waits for data.
fn waiting(bytes: usize) -> Reader {
    Reader {
        bytes,
        ..Reader::default()
    }
}

fn sleeping(bytes: usize, sleep: Duration) -> Reader {
    Reader {
        sleep: Some(sleep),
        ..waiting(bytes)
    }
}

/// One stream per family.
fn both(writer: Writer, reader: Reader) -> impl Iterator<Item = Stream> {
    FAMILIES.into_iter().map(move |family| Stream {
        family,
        writer,
        reader,
    })
}

fn link() -> LinkConfig {
    LinkConfig::default().delay(5 * MS)
}

/// A link on which packets are lost one by one.
fn lossy(loss: f64) -> LinkConfig {
    link()
        .loss(loss)
        .offload(false)
        .rate_bits_per_second(200_000_000)
}

#[test]
fn small_messages_are_timed_when_their_reader_sleeps_for_a_hundred_milliseconds_to_ten_seconds() {
    let sleeps = [10, 100, 1000, 10_000].map(Duration::from_millis);
    let streams: Vec<_> = sleeps
        .into_iter()
        .flat_map(|sleep| [100, 250, 16 << 10].map(|bytes| sleeping(bytes, sleep)))
        .map(|reader| Stream {
            family: Family::V4,
            writer: DRIP,
            reader,
        })
        .collect();
    compare(link(), &streams);
}

#[test]
fn bulk_that_piles_up_in_large_buffers_is_timed() {
    let large = |reader| Reader {
        buffer: Some(6 << 20),
        ..reader
    };
    let streams: Vec<_> = [
        waiting(64 << 10),
        large(waiting(64 << 10)),
        sleeping(4096, 30 * MS),
        large(sleeping(16 << 10, 100 * MS)),
        large(sleeping(1 << 20, 300 * MS)),
    ]
    .into_iter()
    .flat_map(|reader| both(BULK, reader))
    .collect();
    compare(link(), &streams);
}

#[test]
fn reads_that_wait_for_all_their_bytes_are_timed() {
    let all = |bytes| Reader {
        wait_all: true,
        ..waiting(bytes)
    };
    let streams: Vec<_> = both(DRIP, all(1000))
        .chain(both(BURSTS, all(3000)))
        .chain(both(BULK, all(300_000)))
        .collect();
    compare(link(), &streams);
}

#[test]
fn bursts_of_small_messages_are_timed() {
    let streams: Vec<_> = both(BURSTS, waiting(200))
        .chain(both(BURSTS, waiting(16 << 10)))
        .chain(both(BURSTS, sleeping(200, 7 * MS)))
        .collect();
    compare(link(), &streams);
}

#[test]
fn reads_from_a_tiny_window_are_timed() {
    let tiny = |reader| Reader {
        buffer: Some(4096),
        ..reader
    };
    let writer = Writer { burst: 20, ..BULK };
    let streams: Vec<_> = both(writer, tiny(waiting(1000)))
        .chain(both(writer, tiny(sleeping(700, 10 * MS))))
        .collect();
    compare(link(), &streams);
}

/// Without and with GRO at the receiver.
fn over(config: LinkConfig) {
    let streams: Vec<_> = both(BULK, waiting(64 << 10))
        .chain(both(BULK, sleeping(16 << 10, 20 * MS)))
        .chain(both(BURSTS, waiting(200)))
        .chain(both(DRIP, sleeping(100, 50 * MS)))
        .collect();
    compare(config, &streams);
}

#[test]
fn reads_are_timed_where_packets_are_lost() {
    over(lossy(0.01));
}

#[test]
fn reads_are_timed_where_large_packets_are_lost() {
    over(link().loss(0.02).rate_bits_per_second(200_000_000));
}

#[test]
fn reads_are_timed_where_packets_are_reordered_and_doubled() {
    over(
        lossy(0.002)
            .reorder(0.02)
            .reorder_hold(3 * MS)
            .duplicate(0.02),
    );
}

#[test]
fn reads_of_a_half_closed_connection_are_timed_where_packets_are_lost() {
    let half_closed = |reader| Reader {
        half_closed: true,
        ..reader
    };
    let streams: Vec<_> = both(BULK, half_closed(waiting(64 << 10)))
        .chain(both(BURSTS, half_closed(waiting(200))))
        .chain(both(DRIP, half_closed(sleeping(100, 50 * MS))))
        .collect();
    compare(lossy(0.005), &streams);
}

#[test]
fn reads_of_eight_threads_are_timed() {
    let streams: Vec<_> = (0..4)
        .flat_map(|thread| both(BURSTS, waiting(150 + 50 * thread)))
        .collect();
    compare(lossy(0.005), &streams);
}
