//! Datagrams that lack a fragment, and wait for it in a network namespace: for 30 s at most
//! (net.ipv4.ipfrag_time).

use std::fs;
use std::path::{Path, PathBuf};

use sockstamp_model::flow::NetnsInode;

use crate::netns;

/// Return the network namespace of a process, and the datagrams there that lack a fragment.
#[must_use]
pub fn missing(pid: u32) -> Option<(NetnsInode, u64)> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let netns = netns::of_process(&process)?;
    let read = |file: &str| fs::read_to_string(process.join("net").join(Path::new(file)));
    let of = |file: &str| read(file).ok().and_then(|text| parse(&text)).unwrap_or(0);
    Some((netns, of("sockstat") + of("sockstat6")))
}

/// Return the queues of fragments (`sockstat_seq_show()`, net/ipv4/proc.c, v6.18).
fn parse(text: &str) -> Option<u64> {
    let lines = text.lines();
    let mut fragments = lines.filter_map(|line| {
        line.strip_prefix("FRAG: inuse ")
            .or_else(|| line.strip_prefix("FRAG6: inuse "))
    });
    let count = fragments.next()?.split_ascii_whitespace().next()?;
    count.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_fragments_are_read() {
        let text = "sockets: used 118\nUDP: inuse 4 mem 1\nFRAG: inuse 7 memory 5376\n";
        assert_eq!(parse(text), Some(7));
        assert_eq!(parse("UDP6: inuse 0\nFRAG6: inuse 2 memory 1\n"), Some(2));
        assert_eq!(parse("UDP: inuse 4 mem 1\n"), None);
        assert!(missing(std::process::id()).is_some());
        assert_eq!(missing(0), None);
    }
}
