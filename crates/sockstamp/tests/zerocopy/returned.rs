//! Test completions that come back with send calls, on kernels that have them.

use sockstamp::error_queue::ErrorQueue;
use sockstamp::zerocopy::{CompletionsBy, How, ZeroCopySender, copies_back};

use crate::common::{LOOPBACKS, PATIENCE, always, send, skip, udp_pair};

const SENDS: u64 = 500;

#[test]
fn sends_return_the_completions_of_earlier_ones() {
    if !copies_back().unwrap() {
        skip(
            "sends_return_the_completions_of_earlier_ones",
            "this kernel does not return completions by a send",
        );
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
                sender.drain(&mut queue, |other| panic!("{other:?}")).unwrap();
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
