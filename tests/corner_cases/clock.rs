//! Step CLOCK_REALTIME. The machine's clock belongs to other programs too, so here the programs get
//! a wrong offset instead; only guests of the lab really step their clock.

use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use tempfile::NamedTempFile;
use testbed::{Host, Process, within_attempts};
use with::bpf_objects::bpf_objects;
use with::traced_hosts::{Connection, Loopback, Messages, outline, trace_into};
use with::{end, messages, skip};

const STEP_NS: i64 = 5_000_000_000;

/// Largest difference of two measurements of the offset.
const JITTER_NS: u64 = 10_000_000;

/// Add `by` to `realtime_minus_monotonic` (`struct clock_offsets`, abi.h), which is wrong by `off`
/// now: the state between a step and its notice. It is the one word of that value. The offset to
/// TAI stays, since TAI is stepped too.
fn move_offset(trace: &Process, off: i64, by: i64) {
    move_offsets(trace, off, [by, 0]);
}

/// Do the same, and add the second to `tai_minus_realtime`, which follows.
fn move_offsets(trace: &Process, off: i64, by: [i64; 2]) {
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
    let is_offset = |word: &[u8; 8]| i64::from_ne_bytes(*word).abs_diff(now + off) < JITTER_NS;
    let places: Vec<usize> = (0..words.len())
        .filter(|place| is_offset(&words[*place]))
        .collect();
    let [place] = places[..] else {
        panic!("{places:?}");
    };
    for (word, by) in words[place..].iter_mut().zip(by) {
        *word = (i64::from_ne_bytes(*word) + by).to_ne_bytes();
    }
    variables.update(&key, &value, MapFlags::ANY).unwrap();
}

/// Send a message, and read it.
fn talk(connection: &mut Connection, bytes: usize) {
    connection.client.write_all(&vec![0; bytes]).unwrap();
    connection.server.read_exact(&mut vec![0; bytes]).unwrap();
}

#[test]
fn a_stamp_from_the_other_side_of_a_step_is_refused() {
    let host = Host::new("corner").unwrap();
    let output = NamedTempFile::new().unwrap();
    let trace = trace_into(output.path(), &host);
    let mut connection = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    let mut talk = |bytes| talk(&mut connection, bytes);
    talk(100);
    move_offset(&trace, 0, -STEP_NS);
    talk(200);
    move_offset(&trace, -STEP_NS, STEP_NS);
    talk(300);
    end(trace);

    let messages = Messages::new(messages(output.path()));
    let read = messages.read_at(connection.server_address);
    assert_eq!(
        outline(&read),
        [(100, "valid"), (200, "clock-step"), (300, "valid")]
    );
}

/// A daemon sets the offset of CLOCK_TAI: no clock is stepped, and datagrams and segments that are
/// slow in the receive path are refused for two seconds at most. Here they look slow, by the first
/// offset.
#[test]
fn a_new_offset_of_tai_is_followed() {
    within_attempts(new_offset_of_tai);
}

fn new_offset_of_tai() -> Result<(), String> {
    let host = Host::new("corner").unwrap();
    let output = NamedTempFile::new().unwrap();
    let trace = trace_into(output.path(), &host);
    let mut connection = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    let mut talk = |bytes| talk(&mut connection, bytes);
    talk(100);
    move_offsets(&trace, 0, [1_000_000, -37_000_000_000]);
    talk(200);
    thread::sleep(Duration::from_millis(2100));
    talk(300);
    end(trace);
    let messages = Messages::new(messages(output.path()));
    let read = messages.read_at(connection.server_address);
    match outline(&read)[..] {
        [(100, "valid"), (200, "clock-step"), (300, "valid")] => Ok(()),
        // When the offset is looked at is a matter of time.
        [
            (100, "valid"),
            (200, "valid" | "clock-step"),
            (300, "valid" | "clock-step"),
        ] => Err(format!("followed too early or too late: {read:?}")),
        _ => panic!("{read:?}"),
    }
}

fn step_clock(seconds: i64) {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    let then = TimeSpec::new(now.tv_sec() + seconds, now.tv_nsec());
    clock_settime(ClockId::CLOCK_REALTIME, then).unwrap();
}

#[test]
fn a_clock_that_is_stepped_is_followed() {
    if !fs::read_to_string("/proc/cmdline")
        .unwrap()
        .contains("sockstamp.lab")
    {
        let name = "clock::a_clock_that_is_stepped_is_followed";
        return skip(name, "the clock of this host is others', too");
    }
    let loopback = Loopback::new();
    let mut connection = loopback.connect();
    for (bytes, step) in [(100, 3_600), (200, -7_200), (300, 3_600)] {
        talk(&mut connection, bytes);
        step_clock(step);
        // Longer than it takes user space to be woken, under emulation.
        thread::sleep(Duration::from_millis(500));
    }
    let server = connection.server_address;
    let messages = loopback.finish();
    let read = messages.read_at(server);
    assert_eq!(
        outline(&read),
        [(100, "valid"), (200, "valid"), (300, "valid")]
    );
}
