//! The library's example, where the service runs and where it does not.

#[path = "../../crates/sockstamp/examples/completions_by_memory.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod completions_by_memory;

use testbed::Family;
use with::completions::{Fixture, Reader, Service};

const SENDS: u64 = 1000;

#[test]
fn the_example_uses_memory_if_the_service_runs_and_the_queue_otherwise() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let nowhere = service.path().with_extension("none");
    let [with, without] = [service.path(), nowhere].map(|path| {
        let (stream, receiver) = fixture.plain_tcp(Family::V4);
        let _reader = Reader::of_stream(receiver);
        completions_by_memory::send(&stream, path.to_str().unwrap()).unwrap()
    });
    assert_eq!(with.by_memory + with.by_queue, SENDS);
    assert!(with.by_memory > SENDS / 2, "{with:?}");
    assert_eq!((without.by_memory, without.by_queue), (0, SENDS));
}
