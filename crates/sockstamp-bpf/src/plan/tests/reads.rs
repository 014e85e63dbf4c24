//! Reads and wake-ups.

use super::{plan_of, required, without, without_tracepoint};
use crate::facts::Hook;
use crate::plan::*;
use crate::programs;

#[test]
fn reads_need_their_functions_where_there_are_no_tracepoints() {
    for function in [Function::SockDefReadable, Function::TcpRecvmsg] {
        let plan = plan_of(&without(|facts| {
            facts
                .tracepoints
                .insert(Tracepoint::SkDataReady, Some(false));
            facts.functions.insert(function, Some(false));
        }));
        assert!(plan.tx.is_some() && plan.rx.is_none());
        assert_eq!(
            plan.stages[Stage::RxStack],
            Method::Absent(Reason::NeedsOrFentry(Release(6, 12)))
        );
    }
}

#[test]
fn without_the_schedulers_clock_wake_ups_are_the_time_in_run_queues() {
    let takes: [fn(&mut Facts); 4] = [
        |facts| facts.casts = Some(false),
        |facts| facts.perf_events = Some(false),
        |facts| facts.sched_clock_stable = Some(false),
        |facts| facts.sched_clock_stable = None,
    ];
    for take in takes {
        let plan = plan_of(&without(take));
        assert!(plan.sched && !plan.run_clock);
        assert_eq!(
            plan.stages[Stage::RxWakeup].to_string(),
            "tp sk_data_ready → task run_delay"
        );
    }
    assert!(plan_of(&Facts::complete()).run_clock);
}

#[test]
fn without_the_clock_of_stamps_only_sends_are_measured() {
    let plan = required(&without(|facts| facts.stamp_clock = Some(false))).unwrap();
    assert!(plan.tx.is_some() && plan.entry.is_some() && plan.rx.is_none());
    assert_eq!(
        plan.stages[Stage::RxStack],
        Method::Absent(Reason::Needs(Release(5, 18)))
    );
}

#[test]
fn reads_need_both_their_tracepoints() {
    for tracepoint in [Tracepoint::SkDataReady, Tracepoint::SockRecvLength] {
        let plan = without_tracepoint(tracepoint);
        assert_eq!(plan.tx, Some(Stamps::Callbacks));
        assert_eq!(plan.rx, Some(Reads::Functions));
    }
}

#[test]
fn callbacks_of_receiving_come_before_hooks_that_all_sockets_pass() {
    let facts = Facts::complete().with_series();
    let plan = plan_of(&facts);
    let receiving = facts.receive_callbacks.unwrap();
    assert_eq!(plan.rx, Some(Reads::Callbacks(receiving)));
    let others = facts.datagram_callbacks.unwrap();
    assert_eq!(plan.udp, Ok(Datagrams::Callbacks { begin: 21, others }));
    assert!(plan.segments && plan.sched && !plan.has_windows());
    let methods = [
        (
            Stage::RxStack,
            "RX software stamp → sockops TSTAMP_DATA_READY",
        ),
        (Stage::RxHol, "RX software stamps at sockops TSTAMP_RCV"),
        (
            Stage::RxWakeup,
            "sockops TSTAMP_DATA_READY → task sched_info",
        ),
        (Stage::RxApp, "sockops TSTAMP_DATA_READY → TSTAMP_RECVMSG"),
        (Stage::AppService, "sockops TSTAMP_RECVMSG → the next send"),
    ];
    for (stage, method) in methods {
        assert_eq!(plan.stages[stage].to_string(), method);
    }
    assert_eq!(
        plan.udp.unwrap().to_string(),
        "sockops TSTAMP_SENDMSG_ENTRY, TSTAMP_SCHED, TSTAMP_SND_SW; \
         sockops TSTAMP_DATA_READY → TSTAMP_RECVMSG"
    );
    // Neither is selected without the bit on the socket.
    let plan = plan_of(&Facts {
        tx_timestamping: Some(false),
        ..facts.clone()
    });
    assert_eq!(plan.rx, Some(Reads::Tracepoints));
    assert_eq!(plan.udp, Ok(Datagrams::Tracepoints));
    let plan = plan_of(&facts.of_an_older_kernel());
    assert_eq!(plan.rx, Some(Reads::Functions));
}

#[test]
fn no_hook_of_all_sockets_shows_sends_or_reads_where_selected_ones_call_back() {
    /// The hooks that neither a send nor a read runs.
    const RARE: [Tracepoint; 5] = [
        Tracepoint::TcpRetransmitSkb,
        Tracepoint::NeighEventSendDone,
        Tracepoint::NeighUpdate,
        Tracepoint::InetSockSetState,
        Tracepoint::KfreeSkb,
    ];
    let plan = plan_of(&Facts::complete().with_series());
    let at_once = programs::needed(&plan).filter(|program| program.demands(&plan).is_empty());
    let of_all_sockets: Vec<_> = at_once
        .map(|program| program.hook)
        .filter(|hook| matches!(hook, Hook::Tracepoint(_) | Hook::Entry(_) | Hook::Return(_)))
        .filter(|&hook| !RARE.map(Hook::Tracepoint).contains(&hook))
        .collect();
    // A send that waits for room in its buffer.
    let waits = Function::SkStreamWaitMemory;
    assert_eq!(of_all_sockets, [Hook::Return(waits), Hook::Entry(waits)]);
}

#[test]
fn without_a_look_at_segments_reads_that_waited_are_refused() {
    let plan = without_tracepoint(Tracepoint::TcpProbe);
    assert!(!plan.segments && plan.tx.is_some() && plan.rx.is_some());
    assert_eq!(
        plan.stages[Stage::RxHol],
        Method::Absent(Reason::NeedsTracepoint(Tracepoint::TcpProbe))
    );
}

fn runs_for_each_segment(plan: &Plan) -> bool {
    programs::needed(plan).any(|program| program.hook == Hook::Tracepoint(Tracepoint::TcpProbe))
}

#[test]
fn without_causes_no_program_sees_each_segment_of_the_host() {
    let request = Request {
        causes: false,
        ..Request::default()
    };
    let plan = Plan::new(&Facts::complete(), &request).unwrap();
    assert!(!plan.segments && !plan.causes && !runs_for_each_segment(&plan));
    assert_eq!(
        plan.stages[Stage::RxHol],
        Method::Absent(Reason::SwitchedOff)
    );
    assert!(
        plan.stages[Stage::TxNetwork].is_measured() && plan.stages[Stage::RxStack].is_measured()
    );
    assert!(runs_for_each_segment(&plan_of(&Facts::complete())));
    let plan = Plan::new(&Facts::complete().with_series(), &request).unwrap();
    assert!(!plan.segments && plan.reads_call_back());
    // It shows the ACKs.
    let plan = Plan::new(&Facts::complete().of_an_older_kernel(), &request).unwrap();
    assert!(plan.segments && !plan.causes && runs_for_each_segment(&plan));
}

#[test]
fn wake_ups_need_the_schedulers_notes_and_the_names_of_functions() {
    let takes: [(fn(&mut Facts), _); 3] = [
        (
            |facts| facts.sched_info = Some(false),
            "in rx.app: needs CONFIG_SCHED_INFO",
        ),
        (
            |facts| facts.kernel_symbols = Some(false),
            "in rx.app: needs CAP_SYSLOG",
        ),
        (
            |facts| facts.kernel_symbols = None,
            "in rx.app: kernel symbols could not be seen",
        ),
    ];
    for (take, reason) in takes {
        let plan = plan_of(&without(take));
        assert!(plan.rx.is_some() && !plan.sched);
        let absent = plan.stages[Stage::RxWakeup].absent().unwrap();
        assert_eq!(absent.to_string(), reason);
        assert!(plan.stages[Stage::RxApp].is_measured());
    }
}

#[test]
fn without_reads_there_are_no_wake_ups() {
    let facts = without(|facts| {
        facts
            .tracepoints
            .insert(Tracepoint::SockRecvLength, Some(false));
    });
    let plan = plan_of(&facts.with_functions_traced(false));
    assert!(!plan.sched);
    assert!(!plan.stages[Stage::RxWakeup].is_measured());
}

#[test]
fn the_reason_of_an_excluded_stage_is_the_request() {
    let request = Request {
        sched: false,
        ..Request::default()
    };
    let plan = Plan::new(&Facts::complete(), &request).unwrap();
    assert!(plan.rx.is_some() && !plan.sched && !plan.run_clock);
    assert_eq!(
        plan.stages[Stage::RxWakeup],
        Method::Absent(Reason::InRxApp(&Reason::SwitchedOff))
    );
}

#[test]
fn accepts_need_their_hooks_and_the_registers_of_a_call() {
    let accept =
        |take: &dyn Fn(&mut Facts)| plan_of(&without(take)).stages[Stage::ConnAccept].absent();
    assert_eq!(accept(&|_| {}), None);
    assert_eq!(
        accept(&|facts| facts.call_registers = Some(false)),
        Some(Reason::NeedsHelper("bpf_task_pt_regs"))
    );
    assert_eq!(
        accept(&|facts| facts.call_registers = None),
        Some(Reason::UnseenHelper("bpf_task_pt_regs"))
    );
    assert_eq!(
        accept(&|facts| facts.find_taken(Hook::Cgroup("cgroup/getpeername6"))),
        Some(Reason::NoFurtherProgram)
    );
    assert_eq!(
        accept(&|facts| facts.refuse(Hook::Cgroup("cgroup/getpeername4"))),
        Some(Reason::CgroupRefused)
    );
}

#[test]
fn reads_need_to_see_sockets_end() {
    let plan = plan_of(&without(|facts| {
        facts.refuse(Hook::Cgroup("cgroup/sock_release"))
    }));
    assert!(plan.rx.is_none() && plan.tx.is_some());
    assert_eq!(
        plan.stages[Stage::RxApp].absent(),
        Some(Reason::CgroupRefused)
    );
}
