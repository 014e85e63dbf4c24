//! The examples, as programs are written by them.

#[path = "../../examples/time_client.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod time_client;

use sockstamp::clock::Nanos;

use crate::common::now;

/// One clock is not ahead of itself: what the exchange tells beyond that is its error.
#[test]
fn a_time_client_is_wrong_by_half_of_the_delay_at_most() {
    let server = time_client::own_server().unwrap();
    let before = now();
    let answer = time_client::ask(server).unwrap();
    let elapsed = Nanos(now() - before);
    // Each of the server's times may lose a nanosecond in its packet.
    let bound = Nanos(answer.delay.0 / 2 + 2);
    assert!(answer.offset.abs() <= bound, "{answer:?}");
    assert!(answer.delay <= elapsed, "{answer:?} in {elapsed}");
    for own in [answer.sending, answer.reading] {
        let own = own.to_nanos().expect("stamps lie within the exchange");
        assert!(own <= elapsed, "{answer:?} in {elapsed}");
    }
}
