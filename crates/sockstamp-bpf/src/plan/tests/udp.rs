//! Datagrams.

use super::{plan_of, without, without_tracepoint};
use crate::facts::Hook;
use crate::plan::*;

#[test]
fn udp_calls_back_where_its_packets_do_as_well() {
    let takes: [fn(&mut Facts); 3] = [
        |facts| facts.datagram_callbacks = None,
        |facts| facts.begin_callback = None,
        |facts| facts.receive_callbacks = None,
    ];
    for take in takes {
        let mut facts = Facts::complete().with_series();
        take(&mut facts);
        assert_eq!(plan_of(&facts).udp, Ok(Datagrams::Tracepoints));
    }
}

#[test]
fn udp_needs_the_tracepoints_of_packets_and_the_clock_of_their_stamps() {
    assert_eq!(plan_of(&Facts::complete()).udp, Ok(Datagrams::Tracepoints));
    for tracepoint in [
        Tracepoint::NetDevQueue,
        Tracepoint::NetDevStartXmit,
        Tracepoint::KfreeSkb,
    ] {
        let plan = without_tracepoint(tracepoint);
        assert_eq!(plan.udp, Err(Reason::NeedsTracepoint(tracepoint)));
        assert!(!plan.measures_udp());
    }
    let plan = plan_of(&without(|facts| facts.stamp_clock = Some(false)));
    assert_eq!(plan.udp, Err(Reason::Needs(Release(5, 18))));
}

#[test]
fn the_functions_that_send_show_the_beginning_of_each_send_where_they_are_traced() {
    let plan = plan_of(&Facts::complete());
    assert!(plan.udp_entries && plan.traces_functions());
    for function in [Function::UdpSendmsg, Function::Udpv6Sendmsg] {
        let plan = plan_of(&without(|facts| {
            facts.functions.insert(function, Some(false));
        }));
        assert_eq!(
            (plan.udp, plan.udp_entries),
            (Ok(Datagrams::Tracepoints), false)
        );
    }
    let plan = plan_of(&Facts::complete().with_series());
    assert!(plan.datagrams_call_back() && !plan.udp_entries);
}

#[test]
fn functions_of_udp_replace_tracepoints_missing_in_an_older_kernel() {
    let functions = |drops_tell_receiver| {
        Ok(Datagrams::Functions {
            drops_tell_receiver,
        })
    };
    for tracepoint in [Tracepoint::SockSendLength, Tracepoint::SockRecvLength] {
        assert_eq!(without_tracepoint(tracepoint).udp, functions(true));
    }
    let plan = plan_of(&without(|facts| facts.casts = Some(false)));
    assert_eq!(plan.udp, functions(true));
    let plan = plan_of(&without(|facts| facts.drops_tell_receiver = Some(false)));
    assert_eq!(plan.udp, functions(false));
    assert!(plan.traces_functions() && plan.measures_udp());
}

#[test]
fn without_one_of_its_functions_udp_is_not_measured_on_an_older_kernel() {
    for function in [
        Function::UdpSendmsg,
        Function::Udpv6Sendmsg,
        Function::UdpEnqueueScheduleSkb,
        Function::SkbConsumeUdp,
    ] {
        let plan = plan_of(&without(|facts| {
            facts.drops_tell_receiver = Some(false);
            facts.functions.insert(function, Some(false));
        }));
        assert_eq!(plan.udp, Err(Reason::NeedsOrFentry(Release(6, 11))));
        assert!(!plan.measures_udp());
    }
    let facts = Facts::complete()
        .of_an_older_kernel()
        .with_functions_traced(false);
    assert_eq!(
        plan_of(&facts).udp,
        Err(Reason::NeedsOrFentry(Release(6, 11)))
    );
}

#[test]
fn udp_is_not_measured_where_the_cgroup_takes_no_further_program() {
    let plan = plan_of(&without(|facts| {
        facts.find_taken(Hook::Cgroup("cgroup_skb/ingress"));
    }));
    assert_eq!(plan.udp, Err(Reason::NoFurtherProgram));
    assert!(plan.tx.is_some() && plan.rx.is_some());
    assert!(plan.stages[Stage::ConnAccept].is_measured());
}

#[test]
fn udp_is_not_measured_where_the_kernel_refuses_a_program_of_cgroups() {
    let plan = plan_of(&without(|facts| {
        facts.refuse(Hook::Cgroup("cgroup/sendmsg6"));
    }));
    assert_eq!(plan.udp, Err(Reason::CgroupRefused));
    assert!(plan.tx.is_some() && plan.rx.is_some());
}

#[test]
fn udp_can_be_left_out() {
    let request = Request {
        udp: false,
        ..Request::default()
    };
    let plan = Plan::new(&Facts::complete(), &request).unwrap();
    assert_eq!(plan.udp, Err(Reason::SwitchedOff));
    assert!(!plan.measures_udp());
    assert!(plan.tx.is_some() && plan.rx.is_some());
}
