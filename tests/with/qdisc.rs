//! Set up queueing disciplines, for several of these tests.

use std::fs;

use crate::skip;
use testbed::{Error, Host};

/// A packet scheduler in front of a host's interface while this lives.
pub struct Qdisc<'a> {
    host: &'a Host,
    device: &'a str,
}

impl Qdisc<'_> {
    /// `words` are those of tc(8). Where the kernel does not know this packet scheduler, `test` is
    /// skipped.
    pub fn new<'a>(test: &str, host: &'a Host, device: &'a str, words: &str) -> Option<Qdisc<'a>> {
        let root = ["qdisc", "add", "dev", device, "root"];
        let words = root.into_iter().chain(words.split_whitespace());
        match host.run("tc", &words.collect::<Vec<_>>()) {
            Ok(_) => Some(Qdisc { host, device }),
            Err(Error::Command { stderr, .. }) if stderr.contains("kind is unknown") => {
                skip(test, stderr.trim());
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Change its parameters.
    pub fn change(&self, words: &str) {
        let root = ["qdisc", "change", "dev", self.device, "root"];
        let words = root.into_iter().chain(words.split_whitespace());
        self.host.run("tc", &words.collect::<Vec<_>>()).unwrap();
    }
}

impl Drop for Qdisc<'_> {
    fn drop(&mut self) {
        let words = ["qdisc", "delete", "dev", self.device, "root"];
        self.host.run("tc", &words).unwrap();
    }
}

/// A counter of a host, as nstat(8) calls it. In the files each line of values follows one of
/// names, both with the same word in front: `snmp_seq_show()`, `netstat_seq_show()`,
/// net/ipv4/proc.c.
pub fn kernel_counter(host: &Host, counter: &str) -> u64 {
    let files = ["snmp", "netstat"].map(|file| format!("/proc/thread-self/net/{file}"));
    let text = host.enter(|| files.map(|file| fs::read_to_string(file).unwrap()).concat());
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let value = lines.chunks_exact(2).find_map(|pair| {
        // `Tcp: RetransSegs` is TcpRetransSegs there, `TcpExt: TCPOFOQueue` TcpExtTCPOFOQueue.
        let name = counter.strip_prefix(pair[0][0].trim_end_matches(':'))?;
        let place = pair[0].iter().position(|column| *column == name)?;
        Some(pair[1][place])
    });
    value
        .unwrap_or_else(|| panic!("no counter {counter}"))
        .parse()
        .unwrap()
}
