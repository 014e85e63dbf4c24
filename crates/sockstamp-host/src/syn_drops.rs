//! SYNs that a network namespace drops although its accept queues, and those of half-open
//! handshakes, are not full. No drop of a packet shows them: the kernel consumes them.

use std::fs;

/// Counts of the kernel of a network namespace, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SynDrops {
    /// SYNs and ends of handshakes that were dropped for want of anything but room in a queue:
    /// `ListenDrops` of nstat(8), without `ListenOverflows` and `TCPReqQFullDrop`.
    pub roomy: u64,
    /// Packets of its own that it had no route for: `OutNoRoutes` of both versions of IP. The
    /// answers to SYNs are among them (`inet_csk_route_req()`, net/ipv4/inet_connection_sock.c,
    /// v6.18).
    pub unrouted: u64,
    /// Half-open handshakes of a listener at which SYNs of peers that are not known are dropped;
    /// `None` where SYN cookies answer them.
    pub reserve: Option<u32>,
}

impl SynDrops {
    /// Return those of the calling thread's network namespace; `netstat`: its counters. `None` if
    /// they cannot be read.
    pub(crate) fn here(netstat: &str) -> Option<Self> {
        let text = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        let setting = |name| {
            let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
            text.trim().parse().ok()
        };
        let snmp = text("snmp").ok()?;
        let cookies = setting("tcp_syncookies");
        let most = setting("tcp_max_syn_backlog").filter(|_| cookies == Some(0));
        Some(Self {
            roomy: roomy(netstat)?,
            // A kernel without IPv6 has no such file.
            unrouted: unrouted(&snmp, &text("snmp6").unwrap_or_default())?,
            reserve: most.map(reserve),
        })
    }

    /// Return what was counted since `before`: no less than nothing, while the kernel counts on
    /// between the counters of one look.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let counted = |now: u64, before| {
            now.wrapping_sub(before)
                .cast_signed()
                .max(0)
                .cast_unsigned()
        };
        Self {
            roomy: counted(self.roomy, before.roomy),
            unrouted: counted(self.unrouted, before.unrouted),
            reserve: self.reserve,
        }
    }
}

fn roomy(netstat: &str) -> Option<u64> {
    let counter = |name| counter(netstat, name);
    let full = counter("ListenOverflows")?.wrapping_add(counter("TCPReqQFullDrop")?);
    Some(counter("ListenDrops")?.wrapping_sub(full))
}

fn unrouted(snmp: &str, snmp6: &str) -> Option<u64> {
    let mut lines = snmp6.lines();
    let six = lines.find_map(|line| line.strip_prefix("Ip6OutNoRoutes")?.trim().parse().ok());
    Some(counter(snmp, "OutNoRoutes")?.wrapping_add(six.unwrap_or(0)))
}

/// The kernel keeps the last quarter for peers that it knows (`tcp_conn_request()`,
/// net/ipv4/tcp_input.c, v6.18). One handshake may have ended just now.
fn reserve(most: u32) -> u32 {
    most - most / 4
}

/// Find a counter in a line of values, which follows one of names: `netstat_seq_show()`,
/// net/ipv4/proc.c, v6.18.
pub(crate) fn counter(counters: &str, wanted: &str) -> Option<u64> {
    let mut lines = counters.lines();
    let place = lines.find_map(|names| names.split_whitespace().position(|name| name == wanted))?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_for_want_of_room_in_a_queue_are_taken_off() {
        let netstat = "TcpExt: ListenOverflows ListenDrops TCPReqQFullDrop\nTcpExt: 3 90 7\n\
                       IpExt: InNoRoutes\nIpExt: 4\n";
        assert_eq!(roomy(netstat), Some(80));
        assert_eq!(roomy("TcpExt: ListenDrops\nTcpExt: 90\n"), None);
    }

    #[test]
    fn answers_without_a_route_are_of_both_versions_of_ip() {
        let snmp = "Ip: Forwarding OutNoRoutes\nIp: 1 20\n";
        let snmp6 = "Ip6InNoRoutes \t 9\nIp6OutNoRoutes                  \t2\n";
        assert_eq!(unrouted(snmp, snmp6), Some(22));
        assert_eq!(unrouted(snmp, ""), Some(20));
        assert_eq!(unrouted("", snmp6), None);
    }

    /// As `tcp_conn_request()` has it: with 16, the fourteenth finds no room.
    #[test]
    fn a_quarter_of_the_half_open_handshakes_is_kept() {
        assert_eq!([16, 128, 3].map(reserve), [12, 96, 3]);
    }

    #[test]
    fn a_count_that_the_kernel_is_at_has_not_shrunk() {
        let of = |roomy| SynDrops {
            roomy,
            ..SynDrops::default()
        };
        assert_eq!(of(7).since(of(4)).roomy, 3);
        assert_eq!(of(3).since(of(4)).roomy, 0);
    }

    #[test]
    fn this_namespace_is_read() {
        let netstat = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
        let here = SynDrops::here(&netstat).unwrap();
        assert_eq!(here.since(here).roomy, 0);
    }
}
