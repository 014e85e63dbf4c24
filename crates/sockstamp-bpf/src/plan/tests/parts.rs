//! Parts of stages.

use sockstamp_model::part::Part;

use super::{plan_of, without, without_tracepoint};
use crate::plan::*;

/// Return the parts that a plan does not distinguish, each with its reason.
fn missing(plan: &Plan) -> Vec<(Part, Reason)> {
    let parts = plan.parts();
    parts
        .filter_map(|(part, reason)| Some((part, reason?)))
        .collect()
}

#[test]
fn a_complete_host_distinguishes_every_part() {
    assert_eq!(missing(&plan_of(&Facts::complete())), []);
}

#[test]
fn quotas_need_the_schedulers_sum_of_their_waits() {
    for unseen in [Some(false), None] {
        let plan = plan_of(&without(|facts| facts.quota_clock = unseen));
        let parts = [
            Part::WakeupThrottled,
            Part::AppThrottled,
            Part::ServiceThrottled,
        ];
        assert_eq!(
            missing(&plan),
            parts.map(|part| (part, Reason::Needs(Release(6, 6))))
        );
    }
}

#[test]
fn the_work_of_a_reader_needs_the_schedulers_clock() {
    type Take = fn(&mut Facts);
    let takes: [(Take, Reason); 4] = [
        (
            |facts| facts.casts = Some(false),
            Reason::Needs(Release(6, 2)),
        ),
        (
            |facts| facts.perf_events = Some(false),
            Reason::NeedsPerfEvents,
        ),
        (
            |facts| facts.sched_clock_stable = Some(false),
            Reason::UnstableClock,
        ),
        (
            |facts| facts.kernel_symbols = Some(false),
            Reason::NeedsSyslog,
        ),
    ];
    for (take, reason) in takes {
        let found = missing(&plan_of(&without(take)));
        for part in [
            Part::Running,
            Part::Runnable,
            Part::Blocked,
            Part::ServiceRunning,
            Part::ServiceRunnable,
            Part::ServiceBlocked,
        ] {
            assert!(found.contains(&(part, reason)), "{found:?}");
        }
    }
}

#[test]
fn causes_of_waiting_need_segments() {
    let plan = without_tracepoint(Tracepoint::TcpProbe);
    let reason = Reason::NeedsTracepoint(Tracepoint::TcpProbe);
    let found = missing(&plan);
    assert!(found.contains(&(Part::Cwnd, reason)) && found.contains(&(Part::DelayedAck, reason)));
    let request = Request {
        causes: false,
        ..Request::default()
    };
    let found = missing(&Plan::outlook(&Facts::complete(), &request));
    assert!(
        found.contains(&(Part::Nagle, Reason::SwitchedOff)),
        "{found:?}"
    );
}

#[test]
fn waits_for_a_link_address_need_both_ends() {
    for tracepoint in [Tracepoint::NeighEventSendDone, Tracepoint::NeighUpdate] {
        let plan = without_tracepoint(tracepoint);
        let reason = Reason::NeedsTracepoint(tracepoint);
        assert!(!plan.neighbours);
        assert_eq!(
            missing(&plan),
            [Part::Neighbour, Part::HandshakeNeighbour].map(|part| (part, reason))
        );
    }
}

#[test]
fn a_callback_at_the_entry_sees_no_wait_for_the_send_buffer() {
    let of = |entry| {
        let request = Request {
            entry,
            ..Request::default()
        };
        missing(&Plan::outlook(&Facts::complete(), &request))
    };
    assert_eq!(of(EntryHook::Tracepoint), []);
    assert_eq!(
        of(EntryHook::Callback),
        [(Part::Sndbuf, Reason::UnseenByEntry)]
    );
}

#[test]
fn an_absent_stage_has_no_parts() {
    let request = Request {
        sched: false,
        ..Request::default()
    };
    let plan = Plan::outlook(&Facts::complete(), &request);
    assert!(
        plan.parts()
            .all(|(part, _)| part.stage() != Stage::RxWakeup)
    );
}
