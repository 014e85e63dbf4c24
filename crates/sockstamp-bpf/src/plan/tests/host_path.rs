//! The path through the host.

use super::{plan_of, without};
use crate::plan::*;
use crate::programs;

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
    for (stage, method) in [
        (
            Stage::TxQdisc,
            "sockops TSTAMP_SCHED → tp net_dev_start_xmit",
        ),
        (
            Stage::TxNetwork,
            "tp net_dev_start_xmit → sockops TSTAMP_ACK",
        ),
    ] {
        assert_eq!(plan.stages[stage].to_string(), method);
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

/// The programs that only following datagrams needs.
fn of_datagrams(plan: &Plan) -> Vec<&'static str> {
    let names = programs::needed(plan).map(|program| program.name);
    names
        .filter(|name| ["on_host_queue", "on_consume_skb", "on_host_ingress"].contains(name))
        .collect()
}

#[test]
fn datagrams_are_followed_when_the_way_through_the_host_is_asked_for() {
    let usual = plan_of(&Facts::complete());
    assert!(!usual.follows_datagrams);
    assert!(of_datagrams(&usual).is_empty());
    let plan = Plan::new(&Facts::complete(), &through_the_host()).unwrap();
    assert!(plan.follows_datagrams);
    assert_eq!(
        of_datagrams(&plan),
        ["on_host_queue", "on_consume_skb", "on_host_ingress"]
    );
    let older = Facts::complete().of_an_older_kernel();
    let plan = Plan::new(&older, &through_the_host()).unwrap();
    // A function of UDP shows arrivals.
    assert_eq!(of_datagrams(&plan), ["on_host_queue", "on_consume_skb"]);
}

#[test]
fn datagrams_are_not_followed_where_their_end_is_not_seen_or_they_are_not_measured() {
    let unseen = without(|facts| {
        facts
            .tracepoints
            .insert(Tracepoint::ConsumeSkb, Some(false));
    });
    let request = Request {
        udp: false,
        ..through_the_host()
    };
    for plan in [
        Plan::new(&unseen, &through_the_host()).unwrap(),
        Plan::new(&Facts::complete(), &request).unwrap(),
    ] {
        assert!(plan.host_path && !plan.follows_datagrams);
        assert!(of_datagrams(&plan).is_empty());
    }
}
