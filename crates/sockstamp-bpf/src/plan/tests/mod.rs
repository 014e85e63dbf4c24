//! Each rule, tested by removing one fact.

mod entry;
mod host_path;
mod obstacles;
mod parts;
mod reads;
mod sends;
mod udp;

use super::*;

fn plan_of(facts: &Facts) -> Plan {
    Plan::outlook(facts, &Request::default())
}

fn required(facts: &Facts) -> Result<Plan, Obstacle> {
    Plan::new(facts, &Request::default())
}

fn without(take: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = Facts::complete();
    take(&mut facts);
    facts
}

fn without_tracepoint(tracepoint: Tracepoint) -> Plan {
    plan_of(&without(|facts| {
        facts.tracepoints.insert(tracepoint, Some(false));
    }))
}

#[test]
fn a_complete_host_measures_every_stage_that_there_is() {
    let plan = required(&Facts::complete()).unwrap();
    assert!(
        plan.tx == Some(Stamps::Callbacks)
            && plan.rx == Some(Reads::Tracepoints)
            && plan.segments
            && plan.sched
    );
    assert_eq!(plan.entry, Some(Entry::Tracepoint));
    assert!(plan.retransmits && plan.close);
    let absent: Vec<_> = plan.absent().map(|(stage, _)| stage.name()).collect();
    assert_eq!(absent, ["tx.nic", "rx.nic"]);
}

#[test]
fn other_namespaces_need_sys_admin() {
    let with = |held| {
        without(|facts| {
            facts.capabilities.insert(Capability::SysAdmin, Some(held));
        })
    };
    assert!(plan_of(&with(true)).namespaces);
    assert!(!plan_of(&with(false)).namespaces);
}

#[test]
fn an_older_kernel_is_measured_by_its_functions() {
    let plan = required(&Facts::complete().of_an_older_kernel()).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
    assert_eq!(plan.rx, Some(Reads::Functions));
}

#[test]
fn counts_beside_the_stages_have_a_tracepoint_each() {
    let plan = without_tracepoint(Tracepoint::TcpRetransmitSkb);
    assert!(!plan.retransmits && plan.tx.is_some() && plan.close);
    let plan = without_tracepoint(Tracepoint::InetSockSetState);
    assert!(!plan.close && plan.tx.is_some() && plan.retransmits);
}

#[test]
fn a_request_for_older_hooks_sees_an_older_kernel() {
    let request = Request {
        hooks: Hooks::Older,
        ..Request::default()
    };
    let complete = Facts::complete();
    assert_eq!(
        Plan::new(&complete, &request),
        required(&complete.clone().of_an_older_kernel())
    );
    let without_fentry = complete.with_functions_traced(false);
    assert!(matches!(
        Plan::new(&without_fentry, &request),
        Err(Obstacle::NothingToMeasure { .. })
    ));
}

#[test]
fn every_method_reads_as_the_documentation_has_it() {
    let methods = |facts: &Facts| {
        let plan = plan_of(facts);
        let of_stages: Vec<_> = plan
            .methods()
            .map(|(_, method)| method.to_string())
            .collect();
        (of_stages, plan.udp.unwrap().to_string())
    };
    let (stages, udp) = methods(&Facts::complete());
    assert_eq!(
        stages,
        [
            "tp tcp_sendmsg_locked → sockops TSTAMP_SENDMSG",
            "sockops TSTAMP_SENDMSG → TSTAMP_SCHED",
            "sockops TSTAMP_SCHED → TSTAMP_SND_SW",
            "absent: no NIC clock",
            "sockops TSTAMP_SND_SW → TSTAMP_ACK",
            "absent: no NIC clock",
            "RX software stamp → tp sk_data_ready",
            "RX software stamps at tp tcp_probe",
            "tp sk_data_ready → task sched_info",
            "tp sk_data_ready → tp sock_recv_length",
            "tp sock_recv_length → the next send",
            "the last send → tp sk_data_ready",
            "tp sock_recv_length → tp sk_data_ready",
            "the last send → tp sk_data_ready",
            "tp sk_data_ready → tp sk_data_ready",
            "sockops TCP_CONNECT → ACTIVE_ESTABLISHED",
            "sockops PASSIVE_ESTABLISHED → cgroup getpeername",
        ]
    );
    assert_eq!(
        udp,
        "tp net_dev_queue, net_dev_start_xmit; cgroup_skb ingress → tp sock_recv_length"
    );
    let (stages, udp) = methods(&Facts::complete().of_an_older_kernel());
    assert_eq!(
        stages,
        [
            "fentry tcp_sendmsg_locked → fentry __tcp_push_pending_frames",
            "fentry __tcp_push_pending_frames → tp net_dev_queue",
            "tp net_dev_queue → tp net_dev_start_xmit",
            "absent: no NIC clock",
            "tp net_dev_start_xmit → tp tcp_probe",
            "absent: no NIC clock",
            "RX software stamp → fentry sock_def_readable",
            "RX software stamps at tp tcp_probe",
            "fentry sock_def_readable → task sched_info",
            "fentry sock_def_readable → fexit tcp_recvmsg",
            "fexit tcp_recvmsg → the next send",
            "the last send → fentry sock_def_readable",
            "fexit tcp_recvmsg → fentry sock_def_readable",
            "the last send → fentry sock_def_readable",
            "fentry sock_def_readable → fentry sock_def_readable",
            "sockops TCP_CONNECT → ACTIVE_ESTABLISHED",
            "sockops PASSIVE_ESTABLISHED → cgroup getpeername",
        ]
    );
    assert_eq!(
        udp,
        "fentry udp_sendmsg, tp net_dev_queue, net_dev_start_xmit; \
         fentry __udp_enqueue_schedule_skb → skb_consume_udp"
    );
}
