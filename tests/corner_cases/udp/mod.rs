//! Datagrams that are not sent or read in the ordinary way.

mod calls;
mod reads;
mod scheduler;

use serde_json::Value;
use sockstamp_bpf::plan::Stamps;
use testbed::{Host, PATIENCE};
use with::{Trace, number, of_direction, plan};

/// The beginning of all programs: a receiver, and a sender that is connected to it.
const PRELUDE: &str = r"
import socket, sys, threading, time
UDP, CORK, SEGMENT, GRO = 17, 1, 103, 104  # include/uapi/linux/udp.h

def bound(address='127.0.0.1'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, 0))
    return s

def pair():
    receiver, sender = bound(), bound()
    sender.connect(receiver.getsockname())
    return receiver, sender

receiver, sender = pair()
";

fn run(host: &Host, program: &str) -> String {
    let process = host
        .spawn("python3", &["-c", &format!("{PRELUDE}{program}")])
        .unwrap();
    process.wait(PATIENCE).unwrap()
}

/// Run a program in a host of its own under `trace`.
fn trace(program: &str) -> Vec<Value> {
    let host = Host::new("udp").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name(), "udp"]);
    run(&host, program);
    trace.finish()
}

/// Bytes and verdicts of a direction.
fn outline<'a>(messages: &'a [Value], direction: &str) -> Vec<(u64, &'a str)> {
    let messages = of_direction(messages, direction).into_iter();
    messages
        .map(|message| {
            (
                number(&message["bytes"]),
                message["verdict"].as_str().unwrap(),
            )
        })
        .collect()
}

fn valid<const N: usize>(bytes: [u64; N]) -> Vec<(u64, &'static str)> {
    bytes.map(|bytes| (bytes, "valid")).into()
}

/// Return true if the kernel's reasons of drops are counted. Callbacks are younger (Linux 6.15)
/// than the receiver beside them (6.11).
fn tells_reasons() -> bool {
    plan().tx == Some(Stamps::Callbacks)
}
