//! The examples, as programs are written by them.

#[path = "../../examples/time_client.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod time_client;

#[path = "../../examples/quic_like_echo.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod quic_like_echo;

#[path = "../../examples/request_latency.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod request_latency;

use sockstamp::clock::{Delta, Nanos};

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

#[test]
fn a_quic_like_echo_tells_the_path_from_its_delay() {
    const PACKETS: usize = 40;
    let trips = quic_like_echo::exchange(quic_like_echo::echo().unwrap(), PACKETS).unwrap();
    assert_eq!(trips.len(), PACKETS);
    for trip in trips {
        let on_path = trip
            .path
            .to_nanos()
            .expect("nothing comes before it is sent");
        assert!(on_path.0 + trip.delay.0 <= trip.seen.0, "{trip:?}");
    }
}

#[test]
fn parts_of_requests_are_all_of_their_time() {
    const REQUESTS: usize = 20;
    let server = request_latency::own_server().unwrap();
    let requests = request_latency::ask(server, REQUESTS).unwrap();
    assert_eq!(requests.len(), REQUESTS);
    for request in requests {
        let parts = [request.sending, request.away, request.reading];
        assert!(parts.iter().all(|part| *part >= Delta(0)), "{request:?}");
        assert_eq!(
            parts.iter().map(|part| part.0).sum::<i64>(),
            request.total.0
        );
    }
}
