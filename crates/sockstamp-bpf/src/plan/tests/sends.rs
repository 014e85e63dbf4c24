//! The source of TCP's stamps of sends.

use super::{plan_of, required, without};
use crate::plan::rules::{lacks, lacks_function};
use crate::plan::*;

/// A host whose kernel has no BPF timestamping, and lacks something else.
fn before_6_15(take: impl FnOnce(&mut Facts)) -> Facts {
    without(|facts| {
        facts.socket_bit = Some(false);
        facts.tx_timestamping = Some(false);
        take(facts);
    })
}

#[test]
fn without_the_bit_on_the_socket_stamps_are_taken_from_packets() {
    let plan = required(&without(|facts| facts.socket_bit = Some(false))).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
    assert_eq!(plan.entry, Some(Entry::Function));
    assert!(plan.waits && plan.half_closed && plan.retransmits);
    assert_eq!(plan.rx, Some(Reads::Tracepoints));
    assert!(plan.traces_functions() && !plan.uses_bit());
}

#[test]
fn stamps_are_taken_from_packets_with_all_their_hooks_or_not_at_all() {
    for tracepoint in [
        Tracepoint::NetDevQueue,
        Tracepoint::NetDevStartXmit,
        Tracepoint::TcpProbe,
    ] {
        let facts = before_6_15(|facts| {
            facts.tracepoints.insert(tracepoint, Some(false));
        });
        let plan = required(&facts).unwrap();
        assert!(plan.tx.is_none() && plan.entry.is_none() && plan.rx.is_some());
        assert_eq!(
            plan.stages[Stage::TxNetwork],
            Method::Absent(lacks(&facts, tracepoint).unwrap())
        );
    }
    for function in [Function::TcpSendmsgLocked, Function::TcpPushPendingFrames] {
        let facts = before_6_15(|facts| {
            facts.functions.insert(function, Some(false));
        });
        let plan = required(&facts).unwrap();
        assert!(plan.tx.is_none() && plan.rx.is_some());
        assert_eq!(
            plan.stages[Stage::TxQueue],
            Method::Absent(lacks_function(&facts, function).unwrap())
        );
    }
}

#[test]
fn stamps_from_packets_leave_unneeded_hooks_out() {
    let without_function = |function| {
        plan_of(&before_6_15(|facts| {
            facts.functions.insert(function, Some(false));
        }))
    };
    let plan = without_function(Function::SkStreamWaitMemory);
    assert!(plan.tx.is_some() && !plan.waits && plan.half_closed);
    let plan = without_function(Function::DoTcpSendpages);
    assert!(plan.tx.is_some() && plan.waits && !plan.pages);
    let plan = without_function(Function::TcpRcvStateProcess);
    assert!(plan.tx.is_some() && plan.waits && !plan.half_closed);
}

#[test]
fn only_reads_are_measured_if_functions_cannot_be_traced() {
    let facts = before_6_15(|_| ()).with_functions_traced(false);
    let plan = required(&facts).unwrap();
    assert!(plan.tx.is_none() && plan.rx == Some(Reads::Tracepoints));
    assert!(!plan.traces_functions());
    assert_eq!(
        plan.stages[Stage::TxNetwork],
        Method::Absent(Reason::NeedsOrFentry(Release(6, 15)))
    );
}

/// A NIC with one place for stamps would miss those that PTP needs.
#[test]
fn no_packet_is_asked_for_stamps_if_a_nic_stamps_sends() {
    let ptp = without(|facts| {
        facts.stamping_nics.insert("eth0".into());
    });
    let plan = required(&ptp).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Unasked));
    assert!(plan.uses_bit() && plan.looks_at_packets());
    assert!(
        !plan.waits && !plan.half_closed,
        "no function of TCP is traced"
    );
    assert_eq!(plan.entry, Some(Entry::Tracepoint));
    let methods = [
        (
            Stage::TxCopy,
            "tp tcp_sendmsg_locked → sockops TSTAMP_SENDMSG",
        ),
        (Stage::TxQueue, "sockops TSTAMP_SENDMSG → tp net_dev_queue"),
        (Stage::TxQdisc, "tp net_dev_queue → tp net_dev_start_xmit"),
        (Stage::TxNetwork, "tp net_dev_start_xmit → tp tcp_probe"),
    ];
    for (stage, method) in methods {
        assert_eq!(plan.stages[stage].to_string(), method, "{stage}");
    }
    let blind = Facts {
        refused: [Tracepoint::NetDevQueue].into(),
        ..ptp.clone()
    };
    assert_eq!(plan_of(&blind).tx, None);
    // Without BPF timestamping no NIC was asked before.
    assert_eq!(plan_of(&ptp.of_an_older_kernel()).tx, Some(Stamps::Packets));
}

#[test]
fn without_the_kfunc_stamps_are_taken_from_packets() {
    let plan = required(&without(|facts| facts.tx_timestamping = Some(false))).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
}

#[test]
fn a_nic_that_stamps_is_not_called_missing() {
    let plan = plan_of(&without(|facts| facts.nic_clock = Some(true)));
    assert_eq!(
        plan.stages[Stage::TxNic],
        Method::Absent(Reason::UnusedNicClock)
    );
}

#[test]
fn nics_that_stamp_are_asked_on_request() {
    let ptp = without(|facts| {
        facts.stamping_nics.insert("eth0".into());
        facts.nic_clock = Some(true);
    });
    let asked = Request {
        nic_stamps: true,
        ..Request::default()
    };
    let method =
        |facts: &Facts, request: &Request| Plan::outlook(facts, request).stages[Stage::TxNic];
    assert_eq!(
        method(&ptp, &asked).to_string(),
        "tp net_dev_start_xmit → NIC stamp"
    );
    let unused = Method::Absent(Reason::UnusedNicClock);
    assert_eq!(method(&ptp, &Request::default()), unused);
    let none = Method::Absent(Reason::NoNicClock);
    assert_eq!(method(&without(|_| ()), &asked), none);
}

#[test]
fn reads_are_followed_to_nics_that_stamp_all_packets() {
    let stamping = without(|facts| {
        facts.receiving_nics.insert("eth0".into());
        facts.nic_clock = Some(true);
    });
    let wanted = Request {
        nic_reads: true,
        ..Request::default()
    };
    let plan = Plan::outlook(&stamping, &wanted);
    assert!(plan.follows_nics());
    let method = plan.stages[Stage::RxNic].to_string();
    assert_eq!(method, "NIC stamp → RX software stamp");
    let ptp_alone = without(|facts| {
        facts.stamping_nics.insert("eth0".into());
        facts.nic_clock = Some(true);
    });
    for (facts, request) in [(&stamping, Request::default()), (&ptp_alone, wanted)] {
        let plan = Plan::outlook(facts, &request);
        assert_eq!(
            plan.stages[Stage::RxNic],
            Method::Absent(Reason::UnusedNicClock)
        );
        assert!(!plan.follows_nics());
    }
}
