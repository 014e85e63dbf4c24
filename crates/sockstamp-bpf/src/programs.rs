//! Which programs a plan needs.

use crate::plan::{Datagrams, Entry, Plan, Reads, Stamps};

/// Those on tracepoints and functions, in the order in which they are attached.
pub(crate) fn traced(plan: &Plan) -> Vec<&'static str> {
    let udp = plan.measures_udp();
    let udp_called = plan.datagrams == Some(Datagrams::Tracepoints);
    let udp_functions = udp && !udp_called;
    let drops_unnamed = plan.datagrams
        == Some(Datagrams::Functions {
            drops_tell_receiver: false,
        });
    let packets = plan.tx == Some(Stamps::Packets);
    let by_tracepoints = plan.rx == Some(Reads::Tracepoints);
    let by_functions = plan.rx == Some(Reads::Functions);
    let entry = plan.entry == Some(Entry::Tracepoint);
    wanted([
        ("on_tcp_sendmsg_locked", entry),
        ("on_sock_send_length", entry || udp_called),
        ("on_tcp_retransmit_skb", plan.retransmits),
        ("on_tcp_probe", plan.segments),
        ("on_rcv_state_process", plan.half_closed),
        ("on_sk_data_ready", by_tracepoints),
        ("on_sock_def_readable", by_functions),
        ("on_sock_recv_length", by_tracepoints || udp_called),
        ("on_recvmsg_ended", by_functions),
        ("on_inet_sock_set_state", plan.close),
        ("on_host_xmit", plan.host_path),
        ("on_net_dev_queue", packets || udp),
        ("on_net_dev_start_xmit", packets || udp),
        ("on_kfree_skb", udp && !drops_unnamed),
        ("on_packet_dropped", drops_unnamed),
        ("on_datagram", udp_functions),
        ("on_datagram_queued", drops_unnamed),
        ("on_datagram_read", udp_functions),
        // The end of a send before its beginning: what is under way now is nobody's.
        ("on_sendmsg_ended", packets),
        ("on_sendpages_ended", plan.pages),
        ("on_udp_send_ended", udp_functions),
        ("on_udpv6_send_ended", udp_functions),
        ("on_wait_ended", plan.waits),
        ("on_wait_begun", plan.waits),
        ("on_push", packets),
        ("on_sendpages_begun", plan.pages),
        ("on_sendmsg_begun", packets),
        ("on_udp_send_begun", udp_functions),
        ("on_udpv6_send_begun", udp_functions),
    ])
}

/// Those in the target's cgroup that are about UDP, in the order in which they are attached.
pub(crate) fn of_udp(plan: &Plan) -> Vec<&'static str> {
    let called = plan.datagrams == Some(Datagrams::Tracepoints);
    wanted([
        ("on_cgroup_ingress", called),
        ("on_sendmsg4", called),
        ("on_sendmsg6", called),
        ("on_sock_create", plan.measures_udp()),
    ])
}

/// The one in the target's cgroup that selects connections.
pub(crate) fn selecting(plan: &Plan) -> &'static str {
    match plan.tx {
        Some(Stamps::Callbacks) => "on_sockops",
        _ => "on_connections",
    }
}

/// Those that run once over what exists, at the start or at the end; `by_process`: only messages of some
/// processes are meant.
pub(crate) fn walking(plan: &Plan, by_process: bool, new_only: bool) -> Vec<&'static str> {
    wanted([
        ("mark_sockets", by_process),
        ("mark_listening_subflows", by_process),
        ("adopt_flows", !new_only),
        ("mark_datagram_sockets", plan.measures_udp()),
        ("deselect_flows", plan.uses_bit()),
    ])
}

/// Every program that some request may use under this plan.
pub(crate) fn all(plan: &Plan) -> Vec<&'static str> {
    let others = wanted([
        ("on_run_clock", plan.run_clock),
        ("on_host_xmit", plan.tx.is_some()),
        (selecting(plan), true),
    ]);
    [traced(plan), of_udp(plan), walking(plan, true, false), others].concat()
}

fn wanted<const N: usize>(programs: [(&'static str, bool); N]) -> Vec<&'static str> {
    let wanted = programs.into_iter().filter(|(_, wanted)| *wanted);
    wanted.map(|(name, _)| name).collect()
}
