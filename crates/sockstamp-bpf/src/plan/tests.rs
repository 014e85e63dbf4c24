use std::collections::BTreeMap;

use super::*;

fn without(take: impl FnOnce(&mut Support)) -> Support {
    let mut support = Support::complete();
    take(&mut support);
    support
}

fn without_tracepoint(tracepoint: Tracepoint) -> Plan {
    Plan::new(&without(|support| {
        support.tracepoints.insert(tracepoint, false);
    }))
}

fn only_obstacle(support: &Support) -> String {
    let obstacles = obstacles(support);
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    let required = Plan::require(support).unwrap_err().to_string();
    assert_eq!(required, obstacles[0].to_string());
    required
}

#[test]
fn a_complete_host_measures_every_stage_that_there_is() {
    let plan = Plan::require(&Support::complete()).unwrap();
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
    let support = without(|support| support.btf = false);
    assert!(only_obstacle(&support).contains("no BTF"));
    assert_eq!(
        Plan::new(&support).stages[Stage::TxQueue],
        Way::Absent("no kernel BTF")
    );
}

#[test]
fn without_cgroup2_nothing_can_be_attached() {
    assert!(only_obstacle(&without(|support| support.cgroup2 = None)).contains("mount -t cgroup2"));
}

#[test]
fn every_missing_capability_is_named() {
    for capability in [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin] {
        let support = without(|support| {
            support.capabilities.insert(capability, false);
        });
        let obstacle = only_obstacle(&support);
        assert!(
            obstacle.starts_with(&format!("missing {capability}:")),
            "{obstacle}"
        );
    }
}

#[test]
fn sys_admin_covers_bpf_and_perfmon_alone() {
    let capabilities = |net_admin| {
        without(|support| {
            support.capabilities =
                BTreeMap::from([(Capability::SysAdmin, true), (Capability::NetAdmin, net_admin)]);
        })
    };
    assert!(missing_capabilities(&capabilities(true)).is_empty());
    assert_eq!(missing_capabilities(&capabilities(false)), [Capability::NetAdmin]);
}

#[test]
fn other_namespaces_need_sys_admin() {
    let with = |held| {
        without(|support| {
            support.capabilities.insert(Capability::SysAdmin, held);
        })
    };
    assert!(Plan::new(&with(true)).namespaces);
    assert!(!Plan::new(&with(false)).namespaces);
}

#[test]
fn without_the_bit_on_the_socket_stamps_are_taken_from_packets() {
    let plan = Plan::require(&without(|support| support.socket_bit = false)).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
    assert_eq!(plan.entry, Some(Entry::Function));
    assert!(plan.waits && plan.half_closed && plan.retransmits);
    assert_eq!(plan.rx, Some(Reads::Tracepoints));
    assert!(plan.traces_functions() && !plan.uses_bit());
}

/// A host whose kernel has no BPF timestamping, and lacks something else.
fn before_6_15(take: impl FnOnce(&mut Support)) -> Support {
    without(|support| {
        support.socket_bit = false;
        support.tx_timestamping = false;
        take(support);
    })
}

#[test]
fn stamps_are_taken_from_packets_with_all_their_hooks_or_not_at_all() {
    for tracepoint in [
        Tracepoint::NetDevQueue,
        Tracepoint::NetDevStartXmit,
        Tracepoint::TcpProbe,
    ] {
        let support = before_6_15(|support| {
            support.tracepoints.insert(tracepoint, false);
        });
        let plan = Plan::require(&support).unwrap();
        assert!(plan.tx.is_none() && plan.entry.is_none() && plan.rx.is_some());
        assert_eq!(
            plan.stages[Stage::TxNetwork],
            Way::Absent(lacks(&support, tracepoint).unwrap())
        );
    }
    for function in [Function::TcpSendmsgLocked, Function::TcpPushPendingFrames] {
        let support = before_6_15(|support| {
            support.functions.insert(function, false);
        });
        let plan = Plan::require(&support).unwrap();
        assert!(plan.tx.is_none() && plan.rx.is_some());
        assert_eq!(
            plan.stages[Stage::TxQueue],
            Way::Absent(lacks_function(&support, function).unwrap())
        );
    }
}

#[test]
fn what_packets_do_without_is_left_out() {
    let without_function = |function| {
        Plan::new(&before_6_15(|support| {
            support.functions.insert(function, false);
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
fn where_functions_cannot_be_traced_reads_alone_are_measured() {
    let support = before_6_15(|_| ()).with_functions_traced(false);
    let plan = Plan::require(&support).unwrap();
    assert!(plan.tx.is_none() && plan.rx == Some(Reads::Tracepoints));
    assert!(!plan.traces_functions());
    assert_eq!(
        plan.stages[Stage::TxNetwork],
        Way::Absent("needs Linux 6.15 or fentry")
    );
}

#[test]
fn a_kernel_that_gives_nothing_is_an_obstacle() {
    let support = Support::complete()
        .of_an_older_kernel()
        .with_functions_traced(false);
    assert!(only_obstacle(&support).contains("needs Linux 6.15 or fentry"));
}

#[test]
fn an_older_kernel_is_measured_by_its_functions() {
    let plan = Plan::require(&Support::complete().of_an_older_kernel()).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
    assert_eq!(plan.rx, Some(Reads::Functions));
}

#[test]
fn reads_need_their_functions_where_there_are_no_tracepoints() {
    for function in [Function::SockDefReadable, Function::TcpRecvmsg] {
        let plan = Plan::new(&without(|support| {
            support.tracepoints.insert(Tracepoint::SkDataReady, false);
            support.functions.insert(function, false);
        }));
        assert!(plan.tx.is_some() && plan.rx.is_none());
        assert_eq!(
            plan.stages[Stage::RxStack],
            Way::Absent("needs Linux 6.12 or fentry")
        );
    }
}

#[test]
fn without_the_schedulers_clock_wake_ups_are_what_was_stood_in_run_queues() {
    let takes: [fn(&mut Support); 2] = [
        |support| support.casts = false,
        |support| {
            support.perf_events = false;
        },
    ];
    for take in takes {
        let plan = Plan::new(&without(take));
        assert!(plan.sched && !plan.run_clock);
        assert_eq!(
            plan.stages[Stage::RxWakeup],
            Way::Hooks("tp sk_data_ready → task run_delay")
        );
    }
    assert!(Plan::new(&Support::complete()).run_clock);
}

#[test]
fn without_the_kfunc_stamps_are_taken_from_packets() {
    let plan = Plan::require(&without(|support| support.tx_timestamping = false)).unwrap();
    assert_eq!(plan.tx, Some(Stamps::Packets));
}

#[test]
fn without_the_clock_of_stamps_sends_alone_are_measured() {
    let plan = Plan::require(&without(|support| support.stamp_clock = false)).unwrap();
    assert!(plan.tx.is_some() && plan.entry.is_some() && plan.rx.is_none());
    assert_eq!(plan.stages[Stage::RxStack], Way::Absent("needs Linux 5.18"));
}

#[test]
fn without_both_its_tracepoints_the_entry_of_sends_is_seen_by_the_callback() {
    for (tracepoint, reason) in [
        (Tracepoint::TcpSendmsgLocked, "needs Linux 6.16"),
        (Tracepoint::SockSendLength, "needs tracepoint sock_send_length"),
    ] {
        let support = without(|support| {
            support.tracepoints.insert(tracepoint, false);
        });
        let mut plan = Plan::new(&support);
        assert_eq!(plan.entry, Some(Entry::Callback));
        assert_eq!(
            plan.stages[Stage::TxCopy],
            Way::Hooks("sockops HDR_OPT_LEN → TSTAMP_SENDMSG")
        );
        let refused = plan.enter_by(Entry::Tracepoint, &support).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
        assert_eq!(plan.entry, Some(Entry::Callback));
    }
}

#[test]
fn the_hook_of_the_entry_can_be_chosen() {
    let mut plan = Plan::new(&Support::complete());
    plan.enter_by(Entry::Callback, &Support::complete()).unwrap();
    assert_eq!(plan.entry, Some(Entry::Callback));
    plan.leave_entry_out();
    assert_eq!(plan.entry, None);
    assert_eq!(plan.stages[Stage::TxCopy], Way::Absent("switched off"));
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
fn without_a_look_at_segments_reads_that_waited_are_refused() {
    let plan = without_tracepoint(Tracepoint::TcpProbe);
    assert!(!plan.segments && plan.tx.is_some() && plan.rx.is_some());
    assert_eq!(
        plan.stages[Stage::RxHol],
        Way::Absent("needs tracepoint tcp_probe")
    );
}

#[test]
fn wake_ups_need_what_the_scheduler_notes_and_the_names_of_functions() {
    let takes: [(fn(&mut Support), _); 2] = [
        (
            |support| support.sched_info = false,
            "in rx.app: needs CONFIG_SCHED_INFO",
        ),
        (
            |support| support.kernel_symbols = false,
            "in rx.app: needs CAP_SYSLOG",
        ),
    ];
    for (take, reason) in takes {
        let plan = Plan::new(&without(take));
        assert!(plan.rx.is_some() && !plan.sched);
        assert_eq!(plan.stages[Stage::RxWakeup], Way::Absent(reason));
        assert!(matches!(plan.stages[Stage::RxApp], Way::Hooks(_)));
    }
}

#[test]
fn without_reads_there_are_no_wake_ups() {
    let support = without(|support| {
        support.tracepoints.insert(Tracepoint::SockRecvLength, false);
    });
    let plan = Plan::new(&support.with_functions_traced(false));
    assert!(!plan.sched);
    assert!(matches!(plan.stages[Stage::RxWakeup], Way::Absent(_)));
}

#[test]
fn what_is_switched_off_is_said() {
    let mut plan = Plan::new(&Support::complete());
    plan.leave_sched_out();
    assert!(plan.rx.is_some() && !plan.sched && !plan.run_clock);
    assert_eq!(
        plan.stages[Stage::RxWakeup],
        Way::Absent("in rx.app: switched off")
    );
}

#[test]
fn udp_needs_the_tracepoints_of_packets_and_the_clock_of_their_stamps() {
    assert_eq!(
        Plan::new(&Support::complete()).datagrams,
        Some(Datagrams::Tracepoints)
    );
    for (tracepoint, reason) in [
        (Tracepoint::NetDevQueue, "needs tracepoint net_dev_queue"),
        (Tracepoint::NetDevStartXmit, "needs tracepoint net_dev_start_xmit"),
        (Tracepoint::KfreeSkb, "needs tracepoint kfree_skb"),
    ] {
        let plan = without_tracepoint(tracepoint);
        assert_eq!(plan.udp, Way::Absent(reason));
        assert!(!plan.measures_udp());
    }
    let plan = Plan::new(&without(|support| support.stamp_clock = false));
    assert_eq!(plan.udp, Way::Absent("needs Linux 5.18"));
}

#[test]
fn functions_of_udp_take_the_place_of_what_an_older_kernel_lacks() {
    let functions = |drops_tell_receiver| Some(Datagrams::Functions { drops_tell_receiver });
    for tracepoint in [Tracepoint::SockSendLength, Tracepoint::SockRecvLength] {
        assert_eq!(without_tracepoint(tracepoint).datagrams, functions(true));
    }
    let plan = Plan::new(&without(|support| support.casts = false));
    assert_eq!(plan.datagrams, functions(true));
    let plan = Plan::new(&without(|support| support.drops_tell_receiver = false));
    assert_eq!(plan.datagrams, functions(false));
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
        let plan = Plan::new(&without(|support| {
            support.drops_tell_receiver = false;
            support.functions.insert(function, false);
        }));
        assert_eq!(plan.udp, Way::Absent("needs Linux 6.11 or fentry"));
        assert!(!plan.measures_udp());
    }
    let support = Support::complete()
        .of_an_older_kernel()
        .with_functions_traced(false);
    assert_eq!(Plan::new(&support).udp, Way::Absent("needs Linux 6.11 or fentry"));
}

#[test]
fn udp_can_be_left_out() {
    let mut plan = Plan::new(&Support::complete());
    plan.leave_udp_out();
    assert_eq!(plan.udp, Way::Absent("switched off"));
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

#[test]
fn the_way_through_the_host_is_followed_when_asked_for() {
    let mut plan = Plan::new(&Support::complete());
    assert!(!plan.host_path);
    let usual = plan.stages[Stage::TxQdisc].clone();
    plan.follow_host_path(&Support::complete()).unwrap();
    assert!(plan.host_path);
    assert_ne!(plan.stages[Stage::TxQdisc], usual);
}

#[test]
fn the_way_through_the_host_needs_sends_and_its_tracepoint() {
    let refused = |take: &dyn Fn(&mut Support)| {
        let support = without(take);
        let mut plan = Plan::new(&support);
        let error = plan.follow_host_path(&support).unwrap_err().to_string();
        assert!(!plan.host_path, "{error}");
        error
    };
    let no_tracepoint = refused(&|support| {
        support.tracepoints.insert(Tracepoint::NetDevStartXmit, false);
    });
    assert!(
        no_tracepoint.contains("needs tracepoint net_dev_start_xmit"),
        "{no_tracepoint}"
    );
    let no_sends = refused(&|support| {
        support.tx_timestamping = false;
        support.functions_refused.extend(Function::ALL);
    });
    assert!(no_sends.contains("needs Linux 6.15 or fentry"), "{no_sends}");
}

#[test]
fn a_refused_program_is_no_matter_of_the_version() {
    let plan = Plan::new(&without(|support| {
        support.refused.insert(Tracepoint::TcpProbe);
    }));
    assert_eq!(
        plan.stages[Stage::RxHol],
        Way::Absent("tracepoint program refused")
    );
    let support = without(|support| support.sockops_refused = true);
    assert!(only_obstacle(&support).contains("sockops program refused"));
}

#[test]
fn a_nic_that_stamps_is_not_called_missing() {
    let plan = Plan::new(&without(|support| support.nic_clock = true));
    assert_eq!(plan.stages[Stage::TxNic], Way::Absent("NIC clock unused"));
}
