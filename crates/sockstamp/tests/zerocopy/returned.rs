//! Test completions that come back with send calls, on kernels that have them.

use std::io::Read;

use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping;
use sockstamp::zerocopy::{CompletionsBy, How, ZeroCopySender, copies_back};
use testbed::PATIENCE;

use crate::common::{LOOPBACKS, always, send, skip, tcp_pair, udp_pair};

const SENDS: u64 = 500;

fn lacking(test: &str) -> bool {
    let lacking = !copies_back().unwrap();
    if lacking {
        skip(test, "this kernel does not return completions by a send");
    }
    lacking
}

#[test]
fn sends_return_the_completions_of_earlier_ones() {
    if lacking("sends_return_the_completions_of_earlier_ones") {
        return;
    }
    for address in LOOPBACKS {
        let (socket, _receiver) = udp_pair(address);
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        assert!(sender.use_sends().unwrap());
        assert_eq!(sender.completions_by(), CompletionsBy::Sends);
        let mut queue = ErrorQueue::new();
        for _ in 0..SENDS {
            // One send in two has a control message of its own.
            for how in [How::default(), How::default().segments(60)] {
                assert_eq!(send(&mut sender, vec![0; 100], how), None);
                sender
                    .drain(&mut queue, |other| panic!("{other:?}"))
                    .unwrap();
            }
        }
        assert!(
            sender
                .wait_idle(&mut queue, PATIENCE, |other| panic!("{other:?}"))
                .unwrap()
        );
        let returned = std::iter::from_fn(|| sender.next_returned()).count();
        assert_eq!(returned as u64, 2 * SENDS);
        let (by, counters) = (sender.completion_counters(), sender.counters());
        assert_eq!(by.by_sends + by.by_queue, 2 * SENDS, "{by:?}");
        assert!(by.by_sends > SENDS, "{by:?}");
        assert!(by.queue_reads < SENDS, "{by:?}");
        assert_eq!((counters.repeated, counters.foreign), (0, 0));
    }
}

/// Sends that are copied bring stamps, too, and so do those that return nothing, because the ranges
/// of an earlier one have not been taken.
#[test]
fn stamps_of_all_sends_between_reads_find_room() {
    const BYTES: usize = 100;
    const BETWEEN: u64 = 24;
    if lacking("stamps_of_all_sends_between_reads_find_room") {
        return;
    }
    let (socket, mut receiver) = tcp_pair(LOOPBACKS[0]);
    socket.set_nodelay(true).unwrap();
    let stamps = timestamping::Options::new().tx_software().id();
    stamps.only_stamps().apply(&socket).unwrap();
    let from_100 = always().threshold(BYTES);
    let mut sender = ZeroCopySender::new(socket, from_100).unwrap();
    assert!(sender.use_sends().unwrap());
    let (mut queue, mut stamps) = (ErrorQueue::new(), 0);
    let mut take = |report: Report<'_>| match report {
        Report::Stamp { .. } => stamps += 1,
        other => panic!("{other:?}"),
    };
    for number in 0..SENDS {
        let copied = number % 2;
        let bytes = BYTES - usize::try_from(copied).unwrap();
        send(&mut sender, vec![0; bytes], How::default());
        receiver.read_exact(&mut vec![0; bytes]).unwrap();
        if number % BETWEEN == 0 {
            sender.drain(&mut queue, &mut take).unwrap();
        }
    }
    assert!(sender.wait_idle(&mut queue, PATIENCE, &mut take).unwrap());
    sender.drain_queue(&mut queue, &mut take).unwrap();
    assert_eq!(stamps, SENDS);
}

/// Stamps share the error queue with completions. Sends take these and leave those, which come by
/// the rare reads of the queue: each once, since a message of TCP is read before the next is sent.
#[test]
fn sends_of_tcp_return_completions_and_leave_its_stamps() {
    const BYTES: usize = 100;
    if lacking("sends_of_tcp_return_completions_and_leave_its_stamps") {
        return;
    }
    for address in LOOPBACKS {
        let (socket, mut receiver) = tcp_pair(address);
        socket.set_nodelay(true).unwrap();
        let stamps = timestamping::Options::new().tx_software().id();
        stamps.only_stamps().apply(&socket).unwrap();
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        assert!(sender.use_sends().unwrap());
        let (mut queue, mut ids) = (ErrorQueue::new(), Vec::new());
        let mut take = |report: Report<'_>| match report {
            Report::Stamp { stamp, .. } => ids.push(stamp.id),
            other => panic!("{other:?}"),
        };
        for _ in 0..SENDS {
            assert_eq!(send(&mut sender, vec![0; BYTES], How::default()), None);
            receiver.read_exact(&mut [0; BYTES]).unwrap();
            sender.drain(&mut queue, &mut take).unwrap();
        }
        assert!(sender.wait_idle(&mut queue, PATIENCE, &mut take).unwrap());
        sender.drain_queue(&mut queue, &mut take).unwrap();
        let last_bytes: Vec<u32> = (1..=SENDS)
            .map(|send| u32::try_from(send).unwrap() * u32::try_from(BYTES).unwrap() - 1)
            .collect();
        assert_eq!(ids, last_bytes, "{address}");
        assert_eq!(
            std::iter::from_fn(|| sender.next_returned()).count() as u64,
            SENDS
        );
        let by = sender.completion_counters();
        assert_eq!(by.by_sends + by.by_queue, SENDS, "{by:?}");
        assert!(by.by_sends > SENDS / 2, "{by:?}");
        assert!(by.queue_reads < SENDS / 2, "{by:?}");
    }
}

#[test]
fn a_kernel_that_does_not_return_completions_is_not_asked() {
    let (socket, _receiver) = udp_pair(LOOPBACKS[0]);
    let mut sender = ZeroCopySender::new(socket, always()).unwrap();
    let has = copies_back().unwrap();
    assert_eq!(sender.use_sends().unwrap(), has);
    let by = if has {
        CompletionsBy::Sends
    } else {
        CompletionsBy::ErrorQueue
    };
    assert_eq!(sender.completions_by(), by);
    assert_eq!(send(&mut sender, vec![0; 100], How::default()), None);
    let mut queue = ErrorQueue::new();
    assert!(sender.wait_idle(&mut queue, PATIENCE, |_| {}).unwrap());
}
