//! The hook of the entry of sends.

use super::{plan_of, without};
use crate::plan::*;

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
        let by_tracepoint = entered(EntryHook::Tracepoint);
        assert_eq!(
            Plan::new(&facts, &by_tracepoint),
            Err(Obstacle::NoEntry(reason))
        );
        let outlook = Plan::outlook(&facts, &by_tracepoint);
        assert_eq!(outlook.entry, None);
        assert_eq!(outlook.stages[Stage::TxCopy], Method::Absent(reason));
    }
}

#[test]
fn a_callback_at_the_begin_of_a_send_comes_before_the_tracepoint_where_waits_are_seen() {
    let facts = without(|facts| facts.begin_callback = Some(21));
    let plan = plan_of(&facts);
    assert_eq!(plan.entry, Some(Entry::Begin(21)));
    assert!(plan.waits && plan.traces_functions());
    assert_eq!(
        plan.stages[Stage::TxCopy].to_string(),
        "sockops TSTAMP_SENDMSG_ENTRY → TSTAMP_SENDMSG"
    );
    let untraced = plan_of(&facts.clone().with_functions_traced(false));
    assert_eq!(untraced.entry, Some(Entry::Tracepoint));
    assert!(!untraced.waits);
    let asked = entered(EntryHook::Begin);
    let plan = Plan::new(&facts.clone().with_functions_traced(false), &asked).unwrap();
    assert_eq!(plan.entry, Some(Entry::Begin(21)));
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
    let plan = Plan::new(&facts, &entered(EntryHook::Callback)).unwrap();
    assert_eq!(plan.entry, Some(Entry::Callback));
    let plan = Plan::new(&facts, &entered(EntryHook::Off)).unwrap();
    assert_eq!(plan.entry, None);
    assert_eq!(
        plan.stages[Stage::TxCopy],
        Method::Absent(Reason::SwitchedOff)
    );
    assert_eq!(
        Plan::new(&facts, &entered(EntryHook::Function)),
        Err(Obstacle::NoEntry(Reason::Callbacks))
    );
}
