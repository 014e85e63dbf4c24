//! The library's example, where the service runs and where it does not.

#[path = "../../crates/sockstamp/examples/completions_by_memory.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod completions_by_memory;

use std::path::PathBuf;

use testbed::{Family, within_attempts};
use with::completions::{Fixture, Reader, Service};

const SENDS: u64 = 1000;

#[test]
fn the_example_uses_memory_if_the_service_runs_and_the_queue_otherwise() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let send = |path: PathBuf| {
        let (stream, receiver) = fixture.plain_tcp(Family::V4);
        let _reader = Reader::of_stream(receiver);
        completions_by_memory::send(&stream, path.to_str().unwrap()).unwrap()
    };
    let without = send(service.path().with_extension("none"));
    assert_eq!((without.by_memory, without.by_queue), (0, SENDS));
    // The number between a reading of memory and one of the queue depends on time.
    within_attempts(|| {
        let with = send(service.path());
        assert_eq!(with.by_memory + with.by_queue, SENDS);
        match with.by_memory > SENDS / 2 {
            true => Ok(()),
            false => Err(format!("{with:?}")),
        }
    });
}
