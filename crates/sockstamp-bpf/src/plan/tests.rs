use std::collections::BTreeMap;

use super::rules::{lacks, lacks_function};
use super::*;
use crate::facts::Hook;
use crate::programs;

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

fn only_obstacle(facts: &Facts) -> String {
    let obstacles = obstacles(facts, &Request::default());
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    let required = required(facts).unwrap_err();
    assert_eq!(required, obstacles[0]);
    required.to_string()
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
fn without_btf_nothing_is_planned() {
    let facts = without(|facts| facts.btf = Some(false));
    assert!(only_obstacle(&facts).contains("no BTF"));
    assert_eq!(plan_of(&facts).stages[Stage::TxQueue], Way::Absent(Reason::NoBtf));
}

#[test]
fn without_cgroup2_nothing_can_be_attached() {
    assert!(only_obstacle(&without(|facts| facts.cgroup2 = None)).contains("mount -t cgroup2"));
}

#[test]
fn every_missing_capability_is_named() {
    for capability in [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin] {
        let facts = without(|facts| {
            facts.capabilities.insert(capability, Some(false));
        });
        let obstacle = only_obstacle(&facts);
        assert!(
            obstacle.starts_with(&format!("missing {capability}:")),
            "{obstacle}"
        );
    }
}

#[test]
fn sys_admin_covers_bpf_and_perfmon_alone() {
    let capabilities = |net_admin| {
        without(|facts| {
            facts.capabilities = BTreeMap::from([
                (Capability::SysAdmin, Some(true)),
                (Capability::NetAdmin, Some(net_admin)),
                (Capability::Bpf, Some(false)),
                (Capability::Perfmon, Some(false)),
            ]);
        })
    };
    assert!(missing_capabilities(&capabilities(true)).is_empty());
    assert_eq!(missing_capabilities(&capabilities(false)), [Capability::NetAdmin]);
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
fn without_the_bit_on_the_socket_stamps_are_taken_from_packets() {
    let plan = required(&without(|facts| facts.socket_bit = Some(false))).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
    assert_eq!(plan.entry, Some(Entry::Function));
    assert!(plan.waits && plan.half_closed && plan.retransmits);
    assert_eq!(plan.rx, Some(Reads::Tracepoints));
    assert!(plan.traces_functions() && !plan.uses_bit());
}

/// A host whose kernel has no BPF timestamping, and lacks something else.
fn before_6_15(take: impl FnOnce(&mut Facts)) -> Facts {
    without(|facts| {
        facts.socket_bit = Some(false);
        facts.tx_timestamping = Some(false);
        take(facts);
    })
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
            Way::Absent(lacks(&facts, tracepoint).unwrap())
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
            Way::Absent(lacks_function(&facts, function).unwrap())
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
        Way::Absent(Reason::NeedsOrFentry(Release(6, 15)))
    );
}

#[test]
fn a_kernel_that_gives_nothing_is_an_obstacle() {
    let facts = Facts::complete()
        .of_an_older_kernel()
        .with_functions_traced(false);
    assert!(only_obstacle(&facts).contains("needs Linux 6.15 or fentry"));
}

#[test]
fn an_older_kernel_is_measured_by_its_functions() {
    let plan = required(&Facts::complete().of_an_older_kernel()).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
    assert_eq!(plan.rx, Some(Reads::Functions));
}

#[test]
fn reads_need_their_functions_where_there_are_no_tracepoints() {
    for function in [Function::SockDefReadable, Function::TcpRecvmsg] {
        let plan = plan_of(&without(|facts| {
            facts.tracepoints.insert(Tracepoint::SkDataReady, Some(false));
            facts.functions.insert(function, Some(false));
        }));
        assert!(plan.tx.is_some() && plan.rx.is_none());
        assert_eq!(
            plan.stages[Stage::RxStack],
            Way::Absent(Reason::NeedsOrFentry(Release(6, 12)))
        );
    }
}

/// A NIC with one place for stamps would miss those that PTP needs.
#[test]
fn no_packet_is_asked_for_stamps_if_a_nic_stamps_sends() {
    let ptp = without(|facts| {
        facts.stamping_nics.insert("eth0".into());
    });
    let plan = required(&ptp).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Unasked));
    assert!(plan.uses_bit() && plan.looks_at_packets() && !plan.traces_functions());
    assert_eq!(plan.entry, Some(Entry::Tracepoint));
    let ways = [
        (Stage::TxCopy, "tp tcp_sendmsg_locked → sockops TSTAMP_SENDMSG"),
        (Stage::TxQueue, "sockops TSTAMP_SENDMSG → tp net_dev_queue"),
        (Stage::TxQdisc, "tp net_dev_queue → tp net_dev_start_xmit"),
        (Stage::TxNetwork, "tp net_dev_start_xmit → tp tcp_probe"),
    ];
    for (stage, way) in ways {
        assert_eq!(plan.stages[stage].to_string(), way, "{stage}");
    }
    let blind = Facts {
        refused: [Tracepoint::NetDevQueue].into(),
        ..ptp.clone()
    };
    assert_eq!(plan_of(&blind).tx, None);
    // Without BPF timestamping none was asked before.
    assert_eq!(plan_of(&ptp.of_an_older_kernel()).tx, Some(Stamps::Packets));
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
fn without_the_kfunc_stamps_are_taken_from_packets() {
    let plan = required(&without(|facts| facts.tx_timestamping = Some(false))).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
}

#[test]
fn without_the_clock_of_stamps_only_sends_are_measured() {
    let plan = required(&without(|facts| facts.stamp_clock = Some(false))).unwrap();
    assert!(plan.tx.is_some() && plan.entry.is_some() && plan.rx.is_none());
    assert_eq!(
        plan.stages[Stage::RxStack],
        Way::Absent(Reason::Needs(Release(5, 18)))
    );
}

#[test]
fn without_both_its_tracepoints_the_entry_of_sends_is_seen_by_the_callback() {
    for (tracepoint, reason) in [
        (Tracepoint::TcpSendmsgLocked, Reason::Needs(Release(6, 16))),
        (
            Tracepoint::SignalDeliver,
            Reason::NeedsTracepoint(Tracepoint::SignalDeliver),
        ),
    ] {
        let facts = without(|facts| {
            facts.tracepoints.insert(tracepoint, Some(false));
        });
        let plan = plan_of(&facts);
        assert_eq!(plan.entry, Some(Entry::Callback));
        assert_eq!(
            plan.stages[Stage::TxCopy].to_string(),
            "sockops HDR_OPT_LEN → TSTAMP_SENDMSG"
        );
        let by_tracepoint = entered(EntryHook::By(Entry::Tracepoint));
        assert_eq!(Plan::new(&facts, &by_tracepoint), Err(Obstacle::NoEntry(reason)));
        let outlook = Plan::outlook(&facts, &by_tracepoint);
        assert_eq!(outlook.entry, None);
        assert_eq!(outlook.stages[Stage::TxCopy], Way::Absent(reason));
    }
}

#[test]
fn a_callback_at_the_begin_of_a_send_comes_before_the_tracepoint_where_waits_are_seen() {
    let facts = without(|facts| facts.begin_callback = Some(21));
    let plan = plan_of(&facts);
    assert_eq!(plan.entry, Some(Entry::Begin));
    assert!(plan.waits && plan.traces_functions());
    assert_eq!(
        plan.stages[Stage::TxCopy].to_string(),
        "sockops TSTAMP_SENDMSG_ENTRY → TSTAMP_SENDMSG"
    );
    let untraced = plan_of(&facts.clone().with_functions_traced(false));
    assert_eq!(untraced.entry, Some(Entry::Tracepoint));
    assert!(!untraced.waits);
    let asked = entered(EntryHook::By(Entry::Begin));
    let plan = Plan::new(&facts.clone().with_functions_traced(false), &asked).unwrap();
    assert_eq!(plan.entry, Some(Entry::Begin));
    assert!(!plan.waits);
    assert_eq!(
        Plan::new(&facts.of_an_older_kernel(), &asked),
        Err(Obstacle::NoEntry(Reason::Needs(Release(6, 15))))
    );
    let reason = Reason::NeedsCallback(Callback::TstampSendmsgEntry);
    let refused = Plan::new(&Facts::complete(), &asked);
    assert_eq!(refused, Err(Obstacle::NoEntry(reason)));
    assert_eq!(reason.to_string(), "needs callback TSTAMP_SENDMSG_ENTRY");
}

fn entered(entry: EntryHook) -> Request {
    Request {
        entry,
        ..Request::default()
    }
}

#[test]
fn the_hook_of_the_entry_can_be_chosen() {
    let facts = Facts::complete();
    let plan = Plan::new(&facts, &entered(EntryHook::By(Entry::Callback))).unwrap();
    assert_eq!(plan.entry, Some(Entry::Callback));
    let plan = Plan::new(&facts, &entered(EntryHook::Off)).unwrap();
    assert_eq!(plan.entry, None);
    assert_eq!(plan.stages[Stage::TxCopy], Way::Absent(Reason::SwitchedOff));
    assert_eq!(
        Plan::new(&facts, &entered(EntryHook::By(Entry::Function))),
        Err(Obstacle::NoEntry(Reason::Callbacks))
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
    assert_eq!(plan.rx, Some(Reads::Callbacks));
    assert_eq!(plan.udp, Ok(Datagrams::Callbacks));
    assert!(plan.segments && plan.sched && !plan.has_windows());
    let ways = [
        (Stage::RxStack, "RX software stamp → sockops TSTAMP_DATA_READY"),
        (Stage::RxHol, "RX software stamps at sockops TSTAMP_RCV"),
        (Stage::RxWakeup, "sockops TSTAMP_DATA_READY → task sched_info"),
        (Stage::RxApp, "sockops TSTAMP_DATA_READY → TSTAMP_RECVMSG"),
        (Stage::AppService, "sockops TSTAMP_RECVMSG → the next send"),
    ];
    for (stage, way) in ways {
        assert_eq!(plan.stages[stage].to_string(), way);
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
fn udp_calls_back_where_its_packets_do_as_well() {
    let takes: [fn(&mut Facts); 3] = [
        |facts| facts.packet_bit = None,
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
fn no_hook_of_all_sockets_shows_sends_or_reads_where_selected_ones_call_back() {
    /// Those that neither a send nor a read runs into.
    const RARE: [Tracepoint; 3] = [
        Tracepoint::TcpRetransmitSkb,
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
        Way::Absent(Reason::NeedsTracepoint(Tracepoint::TcpProbe))
    );
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
        facts.tracepoints.insert(Tracepoint::SockRecvLength, Some(false));
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
        Way::Absent(Reason::InRxApp(&Reason::SwitchedOff))
    );
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
fn functions_of_udp_replace_tracepoints_missing_in_an_older_kernel() {
    let functions = |drops_tell_receiver| Ok(Datagrams::Functions { drops_tell_receiver });
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
    assert_eq!(plan_of(&facts).udp, Err(Reason::NeedsOrFentry(Release(6, 11))));
}

#[test]
fn udp_is_not_measured_where_the_cgroup_takes_no_further_program() {
    let facts = Facts {
        datagrams_refused: true,
        ..Facts::complete()
    };
    let plan = plan_of(&facts);
    assert_eq!(plan.udp, Err(Reason::NoFurtherProgram));
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

#[test]
fn counts_beside_the_stages_have_a_tracepoint_each() {
    let plan = without_tracepoint(Tracepoint::TcpRetransmitSkb);
    assert!(!plan.retransmits && plan.tx.is_some() && plan.close);
    let plan = without_tracepoint(Tracepoint::InetSockSetState);
    assert!(!plan.close && plan.tx.is_some() && plan.retransmits);
}

fn through_the_host() -> Request {
    Request {
        host_path: true,
        ..Request::default()
    }
}

#[test]
fn the_way_through_the_host_is_followed_when_asked_for() {
    let usual = plan_of(&Facts::complete());
    assert!(!usual.host_path && usual.host_path_obstacle.is_none());
    let plan = Plan::new(&Facts::complete(), &through_the_host()).unwrap();
    assert!(plan.host_path);
    for (stage, way) in [
        (Stage::TxQdisc, "sockops TSTAMP_SCHED → tp net_dev_start_xmit"),
        (Stage::TxNetwork, "tp net_dev_start_xmit → sockops TSTAMP_ACK"),
    ] {
        assert_eq!(plan.stages[stage].to_string(), way);
        assert_ne!(plan.stages[stage], usual.stages[stage]);
    }
}

#[test]
fn the_way_through_the_host_needs_sends_and_its_tracepoint() {
    let refused = |take: &dyn Fn(&mut Facts)| {
        let facts = without(take);
        assert!(!Plan::outlook(&facts, &through_the_host()).host_path);
        Plan::new(&facts, &through_the_host()).unwrap_err()
    };
    let tracepoint = Tracepoint::NetDevStartXmit;
    let no_tracepoint = refused(&|facts| {
        facts.tracepoints.insert(tracepoint, Some(false));
    });
    assert_eq!(
        no_tracepoint,
        Obstacle::NoHostPath(Reason::NeedsTracepoint(tracepoint))
    );
    let no_sends = refused(&|facts| {
        facts.tx_timestamping = Some(false);
        facts.functions_refused.extend(Function::ALL);
    });
    let reason = Reason::NeedsOrFentry(Release(6, 15));
    assert_eq!(no_sends, Obstacle::NoHostPath(reason));
}

#[test]
fn an_unknown_feature_is_not_called_missing() {
    let facts = without(|facts| facts.btf = None);
    assert_eq!(required(&facts), Err(Obstacle::UnreadableBtf));
    let facts = without(|facts| facts.nic_clock = None);
    assert_eq!(
        plan_of(&facts).stages[Stage::TxNic],
        Way::Absent(Reason::UnseenNicClock)
    );
    let facts = without(|facts| facts.capabilities.values_mut().for_each(|held| *held = None));
    assert_eq!(missing_capabilities(&facts), []);
    assert!(required(&facts).is_ok_and(|plan| !plan.namespaces));
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
fn every_way_reads_as_the_documentation_has_it() {
    let ways = |facts: &Facts| {
        let plan = plan_of(facts);
        let of_stages: Vec<_> = plan.ways().map(|(_, way)| way.to_string()).collect();
        (of_stages, plan.udp.unwrap().to_string())
    };
    let (stages, udp) = ways(&Facts::complete());
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
            "sockops TCP_CONNECT → ACTIVE_ESTABLISHED",
            "sockops PASSIVE_ESTABLISHED → cgroup getpeername",
        ]
    );
    assert_eq!(
        udp,
        "tp net_dev_queue, net_dev_start_xmit; cgroup_skb ingress → tp sock_recv_length"
    );
    let (stages, udp) = ways(&Facts::complete().of_an_older_kernel());
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

#[test]
fn a_refused_program_is_no_matter_of_the_version() {
    let plan = plan_of(&without(|facts| {
        facts.refused.insert(Tracepoint::TcpProbe);
    }));
    assert_eq!(plan.stages[Stage::RxHol], Way::Absent(Reason::TracepointRefused));
    let facts = without(|facts| facts.sockops_refused = true);
    assert!(only_obstacle(&facts).contains("sockops program refused"));
}

#[test]
fn a_nic_that_stamps_is_not_called_missing() {
    let plan = plan_of(&without(|facts| facts.nic_clock = Some(true)));
    assert_eq!(plan.stages[Stage::TxNic], Way::Absent(Reason::UnusedNicClock));
}

/// A request that cannot be met is an obstacle, which doctor prints as well.
#[test]
fn windows_and_tags_are_obstacles_where_selected_sockets_do_not_call_back() {
    let older = Facts::complete().of_an_older_kernel();
    for (windows, tag, obstacle) in [
        (true, false, Obstacle::NoWindows),
        (false, true, Obstacle::NoTags),
    ] {
        let request = Request {
            windows,
            tag,
            ..Request::default()
        };
        assert_eq!(obstacles(&Facts::complete(), &request), []);
        assert_eq!(obstacles(&older, &request), std::slice::from_ref(&obstacle));
        assert_eq!(Plan::new(&older, &request), Err(obstacle));
    }
}
