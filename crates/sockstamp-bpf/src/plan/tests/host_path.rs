//! The path through the host.

use super::{plan_of, without};
use crate::plan::*;

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
        (Stage::TxQdisc, "sockops TSTAMP_SCHED → tp net_dev_start_xmit"),
        (Stage::TxNetwork, "tp net_dev_start_xmit → sockops TSTAMP_ACK"),
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
