//! Compare with the kernel's own counts for flows that have ended.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Host, PATIENCE, Process};

use crate::wait_until;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The flows of a host that end while this watches, by `ss -E`: the kernel reports each one's last
/// TCP_INFO.
pub struct EndedFlows<'a> {
    host: &'a Host,
    ss: Process,
}

impl EndedFlows<'_> {
    pub fn watch(host: &Host) -> EndedFlows<'_> {
        // Otherwise ss would keep what it prints until its end.
        let ss = host.spawn("stdbuf", &["-oL", "ss", "-Etin"]).unwrap();
        wait_until("ss listens", || listens(&ss));
        EndedFlows { host, ss }
    }

    /// Return each flow by its local address, as soon as none is left. (A flow in TIME-WAIT has
    /// ended: its socket no longer exists.)
    pub fn counts(self) -> Vec<(SocketAddr, KernelCounts)> {
        wait_closed(self.host);
        let start = Instant::now();
        loop {
            let text = self.ss.stdout();
            thread::sleep(POLL_INTERVAL);
            if text.contains("segs_out:") && text == self.ss.stdout() {
                return flows(&text);
            }
            assert!(start.elapsed() < PATIENCE, "no flow has ended: {text}");
        }
    }
}

/// Wait until no connection of a host has anything left to send, or to acknowledge.
pub fn wait_closed(host: &Host) {
    let open = ["-tnH", "state", "connected", "exclude", "time-wait"];
    wait_until("all connections have ended", || {
        host.run("ss", &open).unwrap().trim().is_empty()
    });
}

/// Return true if a process has joined the groups that report ended sockets: sock_diag(7), and
/// `netlink_native_seq_show()` of net/netlink/af_netlink.c for the table.
fn listens(process: &Process) -> bool {
    const NETLINK_SOCK_DIAG: &str = "4";
    let id = process.id();
    let table = fs::read_to_string(format!("/proc/{id}/net/netlink")).unwrap_or_default();
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(
            fields[..],
            [_, protocol, _, groups, ..] if protocol == NETLINK_SOCK_DIAG && groups != "00000000"
        )
    })
}

/// The flows in the output of ss: a line of addresses, and an indented one of counts. A listening
/// socket has no peer.
fn flows(text: &str) -> Vec<(SocketAddr, KernelCounts)> {
    let mut flows = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, local, remote, ..] = fields[..] else {
            continue;
        };
        let (Ok(local), Ok(_)) = (local.parse(), remote.parse::<SocketAddr>()) else {
            continue;
        };
        let counts = lines.next_if(|line| line.starts_with(char::is_whitespace));
        flows.push((local, KernelCounts::parse(counts.unwrap_or_default())));
    }
    flows
}

/// Counts of TCP_INFO: of a flow, or sums over flows.
#[derive(Clone, Debug)]
pub struct KernelCounts {
    pub flows: u64,
    /// Including retransmitted ones.
    pub bytes_sent: u64,
    pub bytes_resent: u64,
    /// Still in the send buffer.
    pub bytes_not_sent: u64,
    /// A SYN and a FIN count as one each.
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub data_segments_sent: u64,
    /// Segments, a SYN or a FIN among them.
    pub retransmits: u64,
}

impl KernelCounts {
    /// Return the sum over all flows.
    pub fn sum(flows: &[(SocketAddr, KernelCounts)]) -> KernelCounts {
        let sum = |of: fn(&KernelCounts) -> u64| flows.iter().map(|(_, counts)| of(counts)).sum();
        KernelCounts {
            flows: sum(|counts| counts.flows),
            bytes_sent: sum(|counts| counts.bytes_sent),
            bytes_resent: sum(|counts| counts.bytes_resent),
            bytes_not_sent: sum(|counts| counts.bytes_not_sent),
            bytes_acked: sum(|counts| counts.bytes_acked),
            bytes_received: sum(|counts| counts.bytes_received),
            data_segments_sent: sum(|counts| counts.data_segments_sent),
            retransmits: sum(|counts| counts.retransmits),
        }
    }

    /// Queued bytes, including those that are not sent yet and a FIN after them.
    pub fn bytes_queued(&self) -> u64 {
        self.bytes_sent - self.bytes_resent + self.bytes_not_sent
    }

    /// Names as in ss.c of iproute2, `tcp_stats_print()`; what is zero is not printed.
    fn parse(text: &str) -> KernelCounts {
        let sum = |label: &str| {
            let values = text
                .split_whitespace()
                .filter_map(|word| word.strip_prefix(label));
            values.map(|value| value.parse::<u64>().unwrap()).sum()
        };
        let resent = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("retrans:"));
        let in_all = resent.map(|pair| pair.split_once('/').unwrap().1);
        KernelCounts {
            flows: text
                .split_whitespace()
                .filter(|word| word.starts_with("segs_out:"))
                .count() as u64,
            bytes_sent: sum("bytes_sent:"),
            bytes_resent: sum("bytes_retrans:"),
            bytes_not_sent: sum("notsent:"),
            bytes_acked: sum("bytes_acked:"),
            bytes_received: sum("bytes_received:"),
            data_segments_sent: sum("data_segs_out:"),
            retransmits: in_all.map(|value| value.parse::<u64>().unwrap()).sum(),
        }
    }
}
