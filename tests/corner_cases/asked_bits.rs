//! Some bits on a socket make the kernel call sockops programs. Any program may want them: a
//! measurement gives each back as it found it.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::thread;

use nix::sys::signal::Signal;
use sockstamp_bpf::plan::Stamps;
use sockstamp_bpf::probe;
use sockstamp_model::flow::NetnsInode;
use testbed::{Host, PATIENCE, Process};
use testbed_bpf::stranger::{Bits, Stranger};
use with::bpf_objects::{bpf_objects, wait_unloaded};
use with::traced_hosts::Connection;
use with::{plan, skip, start};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Port of connections for which another program requests the same callbacks.
const SHARED: u16 = 7001;
/// Port of connections that it ignores.
const OWN: u16 = 7002;

const SET: Bits = Bits {
    stamps: true,
    entry: true,
    states: true,
    segments: true,
};
const CLEAR: Bits = Bits {
    stamps: false,
    entry: false,
    states: false,
    segments: false,
};
/// While one measurement sees the entry of sends by its callback, or by the tracepoint.
const BY_CALLBACK: Bits = Bits {
    segments: false,
    ..SET
};
const BY_TRACEPOINT: Bits = Bits {
    entry: false,
    ..BY_CALLBACK
};

/// A host with connections of both kinds, and the other program.
struct SharedHost {
    host: Host,
    listeners: [TcpListener; 2],
    stranger: Stranger,
    connections: Vec<Connection>,
}

impl SharedHost {
    fn new() -> SharedHost {
        let host = Host::new("corner").unwrap();
        let root = probe::facts().cgroup2.unwrap();
        let netns = NetnsInode(host.netns_inode().try_into().unwrap());
        let stranger = Stranger::attach(&root, netns, SHARED).unwrap();
        let listeners =
            [SHARED, OWN].map(|port| host.tcp_listen(SocketAddr::new(LOCALHOST, port)).unwrap());
        let mut setup = SharedHost {
            host,
            listeners,
            stranger,
            connections: Vec::new(),
        };
        setup.connect();
        setup
    }

    /// One connection of each kind.
    fn connect(&mut self) {
        let new = self.listeners.each_ref();
        let new = new.map(|listener| Connection::to(&self.host, listener, LOCALHOST));
        self.connections.extend(new);
    }

    /// One end of each is half closed, and the other end knows it.
    fn half_close(&mut self) {
        for connection in &mut self.connections {
            connection.client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(connection.server.read(&mut [0; 1]).unwrap(), 0);
        }
    }

    fn measure(&self, entry: &str) -> Process {
        let entry = format!("--expert=entry={entry}");
        start(&["stat", "--netns", self.host.netns_name(), &entry])
    }

    /// Both ends of each connection have these bits, by its kind.
    fn assert_bits(&self, shared: Bits, own: Bits, when: &str) {
        let seen = self.host.enter(|| self.stranger.look().unwrap());
        assert_eq!(seen.len(), 2 * self.connections.len(), "{when}: {seen:?}");
        for ((local, remote), bits) in seen {
            let expected = match [local, remote].contains(&SHARED) {
                true => shared,
                false => own,
            };
            assert_eq!(bits, expected, "{when}: {local} to {remote}");
        }
    }
}

/// End a measurement; its marks are removed when this returns.
fn end(mut process: Process, signal: Signal) {
    let objects = bpf_objects(&process);
    process.signal(signal).unwrap();
    process.wait_status(PATIENCE).unwrap();
    wait_unloaded(&objects);
}

fn uses_no_bits(test: &str) -> bool {
    let none = plan().tx != Some(Stamps::Callbacks);
    if none {
        skip(test, "these hooks ask for no callbacks");
    }
    none
}

fn bits_of(entry: &str) -> Bits {
    match entry {
        "callback" => BY_CALLBACK,
        _ => BY_TRACEPOINT,
    }
}

#[test]
fn bits_that_another_program_has_set_are_left_to_it() {
    if uses_no_bits("bits_that_another_program_has_set_are_left_to_it") {
        return;
    }
    let mut setup = SharedHost::new();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        setup.assert_bits(SET, CLEAR, "before");
        let measurement = setup.measure("callback");
        setup.connect();
        setup.assert_bits(SET, BY_CALLBACK, "meanwhile");
        end(measurement, signal);
        // A killed measurement clears no bits, and no other measurement needs to be touched.
        let own = match signal {
            Signal::SIGKILL => BY_CALLBACK,
            _ => CLEAR,
        };
        setup.assert_bits(SET, own, "afterwards");
    }
}

/// Whichever starts and whichever ends first, however that ends, and whichever bits each of them
/// wants.
#[test]
fn the_last_of_two_measurements_clears_the_bits() {
    if uses_no_bits("the_last_of_two_measurements_clears_the_bits") {
        return;
    }
    for (entries, signal) in [
        (["callback", "callback"], Signal::SIGINT),
        (["callback", "tracepoint"], Signal::SIGINT),
        (["callback", "tracepoint"], Signal::SIGKILL),
        (["tracepoint", "callback"], Signal::SIGINT),
    ] {
        thread::scope(|scope| {
            for first_to_end in [0, 1] {
                scope.spawn(move || two_measurements(entries, first_to_end, signal));
            }
        });
    }
}

fn two_measurements(entries: [&str; 2], first_to_end: usize, signal: Signal) {
    let case = format!("{entries:?}, the first to end is {first_to_end}, by {signal}");
    println!("{case}");
    let mut setup = SharedHost::new();
    let mut measurements = Vec::from(entries.map(|entry| {
        let measurement = setup.measure(entry);
        setup.connect();
        measurement
    }));
    setup.assert_bits(SET, bits_of("callback"), &format!("{case}: with both"));
    end(measurements.remove(first_to_end), signal);
    let left = entries[1 - first_to_end];
    // Bits that only the killed one wanted stay.
    let remains = match signal {
        Signal::SIGKILL => bits_of("callback"),
        _ => bits_of(left),
    };
    setup.assert_bits(SET, remains, &format!("{case}: with one"));
    end(measurements.remove(0), Signal::SIGINT);
    let remains = match (signal, left) {
        (Signal::SIGKILL, "tracepoint") => Bits {
            entry: true,
            ..CLEAR
        },
        _ => CLEAR,
    };
    setup.assert_bits(SET, remains, &format!("{case}: afterwards"));
}

/// Before the measurement began, or since.
#[test]
fn half_closed_connections_call_back_for_their_segments_until_a_measurement_ends() {
    if uses_no_bits("half_closed_connections_call_back_for_their_segments_until_a_measurement_ends")
    {
        return;
    }
    for half_closed_before in [true, false] {
        let case = format!("half closed before: {half_closed_before}");
        let mut setup = SharedHost::new();
        if half_closed_before {
            setup.half_close();
        }
        let measurement = setup.measure("tracepoint");
        setup.half_close();
        let half_closed = Bits {
            segments: true,
            ..BY_TRACEPOINT
        };
        setup.assert_bits(SET, half_closed, &format!("{case}: meanwhile"));
        end(measurement, Signal::SIGINT);
        setup.assert_bits(SET, CLEAR, &format!("{case}: afterwards"));
    }
}
