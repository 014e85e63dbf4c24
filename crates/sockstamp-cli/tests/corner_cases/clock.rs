//! Step CLOCK_REALTIME without touching the machine's clock: change the programs' view of its
//! offset instead, while nothing updates it.

use std::io::{Read, Write};
use std::net::Ipv4Addr;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::signal::Signal;
use tempfile::NamedTempFile;
use testbed::{Host, Process};

use crate::common::messages;
use crate::scene::{Connection, Messages, PATIENCE, bpf_objects, outline, pause, trace_into};

const STEP_NS: i64 = 5_000_000_000;

/// Largest difference of two measurements of the offset.
const JITTER_NS: u64 = 10_000_000;

/// Makes `realtime_minus_monotonic` (`struct clock_offsets`, abi.h) what it was before a step. It
/// is the one word of that value. The offset to TAI is that of before, too: TAI is stepped along.
fn step_clock(trace: &Process) {
    let [_, maps] = bpf_objects(trace);
    let variables = maps
        .into_iter()
        .map(|id| MapHandle::from_map_id(id).unwrap())
        .find(|map| map.name().to_string_lossy().ends_with(".bss"))
        .unwrap();
    let key = 0u32.to_ne_bytes();
    let mut value = variables.lookup(&key, MapFlags::ANY).unwrap().unwrap();
    let now = sockstamp::clock::measure().unwrap().offset.delta().0;
    let (words, _) = value.as_chunks_mut();
    let mut offsets = words
        .iter_mut()
        .filter(|word| i64::from_ne_bytes(**word).abs_diff(now) < JITTER_NS);
    let (offset, others) = (offsets.next().unwrap(), offsets.count());
    assert_eq!(others, 0);
    *offset = (i64::from_ne_bytes(*offset) - STEP_NS).to_ne_bytes();
    variables.update(&key, &value, MapFlags::ANY).unwrap();
}

#[test]
fn a_stamp_from_the_other_side_of_a_step_is_refused() {
    let host = Host::new("corner").unwrap();
    let output = NamedTempFile::new().unwrap();
    let mut trace = trace_into(output.path(), &host);
    let mut connection = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    let mut talk = |bytes| {
        connection.client.write_all(&vec![0; bytes]).unwrap();
        connection.server.read_exact(&mut vec![0; bytes]).unwrap();
    };
    talk(100);
    trace.signal(Signal::SIGSTOP).unwrap();
    // It may have been about to write what it had measured: only then is it stopped.
    pause();
    step_clock(&trace);
    talk(200);
    trace.signal(Signal::SIGCONT).unwrap();
    // More than a round, in which it measures the offset again.
    pause();
    pause();
    talk(300);
    trace.signal(Signal::SIGINT).unwrap();
    assert!(trace.wait_status(PATIENCE).unwrap().success());

    let messages = Messages::new(messages(output.path()));
    let read = messages.read_at(connection.server_address);
    assert_eq!(
        outline(&read),
        [(100, "valid"), (200, "clock-step"), (300, "valid")]
    );
}
