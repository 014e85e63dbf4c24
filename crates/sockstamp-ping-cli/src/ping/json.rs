//! Print the same as JSON: one object per line.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::name::Name;
use sockstamp_model::summary::StageSummary;
use sockstamp_ping::{
    Answer, AnswerKind, End, Fallback, Outcome, Refusal, RefusalKind, RxKind, Stray, Times, TxKind,
};
use sockstamp_run::wording::in_words;

use super::hosts::Host;
use super::statistics::{Counts, OfTarget};
use super::summary::Summary;

/// The version of these objects; raised when a key changes its meaning or is removed.
const VERSION: u32 = 1;

/// A probe and its result. Absent values have no key, except the first seven, or `error` instead of
/// five of them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Line<'a> {
    target: Option<&'a Name>,
    seq: u64,
    #[serde(flatten)]
    times: Option<RoundTrip>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The kind of an event that is no answer to an open probe: `late`, `duplicate`,
    /// `late-refusal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<&'a Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reordered: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'static str>,
    #[serde(flatten)]
    refusal: Option<Refused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    /// The hop limit, with `--path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    hop: Option<u8>,
}

#[derive(Debug, Serialize)]
struct RoundTrip {
    rtt_ns: Nanos,
    user_rtt_ns: Nanos,
    prober_delay_ns: Nanos,
    stamps: &'static str,
    ttl: Option<u8>,
}

#[derive(Debug, Serialize)]
struct Refused {
    icmp_type: u8,
    icmp_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    after_ns: Nanos,
}

impl<'a> Line<'a> {
    fn new(host: &'a Host, seq: u64) -> Self {
        Self {
            target: Some(&host.name),
            seq,
            address: Some(host.address),
            netns: host.netns.as_ref(),
            ..Self::default()
        }
    }

    /// Return the object of a probe's result.
    pub(super) fn outcome(host: &'a Host, seq: u64, outcome: &Outcome) -> Self {
        let line = Self::new(host, seq);
        match outcome {
            Outcome::Answered(answer) => line.with_answer(answer),
            Outcome::Refused(refusal) => line.with_refusal(refusal),
            Outcome::Lost => line.failed("lost".to_owned()),
            Outcome::Abandoned => line.failed("abandoned".to_owned()),
            Outcome::NotSent(error) => line.failed(in_words(&format!("not sent: {error}"))),
        }
    }

    /// An answer that changes the outcome of no probe.
    pub(super) fn event(host: &'a Host, seq: u64, answer: &Answer, event: &'static str) -> Self {
        Self {
            event: Some(event),
            ..Self::new(host, seq).with_answer(answer)
        }
    }

    /// A refusal of a probe that was reported lost.
    pub(super) fn late_refusal(host: &'a Host, seq: u64, refusal: &Refusal) -> Self {
        Self {
            event: Some("late-refusal"),
            ..Self::new(host, seq).with_refusal(refusal)
        }
    }

    /// Add the time of printing, in CLOCK_REALTIME.
    pub(super) fn at(self, time: Option<Nanos>) -> Self {
        Self {
            time_ns: time.map(Nanos::as_nanos),
            ..self
        }
    }

    /// Add the hop that it was to reach.
    pub(super) fn at_hop(self, hop: u8) -> Self {
        Self {
            hop: Some(hop),
            ..self
        }
    }

    fn failed(self, error: String) -> Self {
        Self {
            error: Some(error),
            ..self
        }
    }

    fn with_answer(self, answer: &Answer) -> Self {
        let times = &answer.times;
        Self {
            times: Some(RoundTrip {
                rtt_ns: times.rtt,
                user_rtt_ns: times.user_rtt,
                prober_delay_ns: times.prober_delay(),
                stamps: times.stamps(),
                ttl: answer.hop_limit,
            }),
            from: Some(answer.from),
            kind: Some(kind(answer.kind)),
            bytes: matches!(answer.kind, AnswerKind::EchoReply | AnswerKind::UdpReply)
                .then_some(answer.bytes),
            missing: Some(answer.missing).filter(|missing| *missing > 0),
            reordered: Some(answer.reordered).filter(|reordered| *reordered),
            fallback: times.fallback.map(Fallback::name),
            stages: Some(stages(times)),
            ..self
        }
    }

    fn with_refusal(self, refusal: &Refusal) -> Self {
        let error = match refusal.kind {
            RefusalKind::Unreachable => "unreachable",
            RefusalKind::HopLimit => "ttl-exceeded",
            RefusalKind::TooBig { .. } => "too-big",
            RefusalKind::Other => "refused",
        };
        Self {
            from: refusal.from,
            refusal: Some(Refused {
                icmp_type: refusal.icmp_type,
                icmp_code: refusal.icmp_code,
                mtu: match refusal.kind {
                    RefusalKind::TooBig { mtu } => Some(mtu),
                    _ => None,
                },
                after_ns: refusal.times.rtt,
            }),
            fallback: refusal.times.fallback.map(Fallback::name),
            ..self.failed(error.to_owned())
        }
    }
}

fn kind(kind: AnswerKind) -> &'static str {
    match kind {
        AnswerKind::EchoReply => "echo-reply",
        AnswerKind::UdpReply => "udp-reply",
        AnswerKind::PortUnreachable => "port-unreachable",
        AnswerKind::SynAck => "syn-ack",
        AnswerKind::Reset => "rst",
    }
}

/// Return the stages of the prober's and the network's time.
fn stages(times: &Times) -> Map<String, Value> {
    let waits = &times.waits;
    [
        ("tx.copy", waits.send),
        ("tx.neighbour", waits.neighbour),
        ("tx.qdisc", waits.qdisc),
        ("network", Some(times.rtt)),
        ("rx.stack+wakeup", waits.wakeup),
        ("rx.app", waits.read),
    ]
    .into_iter()
    .filter_map(|(name, time)| Some((name.to_owned(), json!(time?))))
    .collect()
}

/// Something that answers no probe.
pub(super) fn stray(host: Option<&Host>, from: IpAddr, why: Stray) -> Value {
    json!({"event": "stray", "target": host.map(|host| &host.name), "from": from, "why": why.name()})
}

/// A target that ended before its time.
pub(super) fn ended(host: &Host, end: &End) -> Option<Value> {
    let why = failure(end)?;
    Some(json!({"event": "ended", "target": host.name, "netns": host.netns, "error": why}))
}

/// Why a target ended, unless it was to end.
pub(super) fn failure(end: &End) -> Option<String> {
    match end {
        End::NamespaceGone => Some("namespace-gone".to_owned()),
        End::Failed(error) => Some(in_words(&error.to_string())),
        End::Count | End::Answered | End::Deadline | End::Removed => None,
    }
}

/// The last line.
pub(super) fn summary(summary: &Summary<'_>) -> Value {
    let statistics = summary.statistics;
    let all = &statistics.all;
    let distribution = |histogram: &Histogram| json!(StageSummary::from(histogram));
    let stages = all.stages().into_iter();
    let stages: Map<_, _> = stages
        .map(|(name, stage)| (name.to_owned(), distribution(stage)))
        .collect();
    let stamps = all.stamps.iter().map(|(stamps, count)| {
        json!({"probes": tx_kind(stamps.tx), "answers": rx_kind(stamps.rx), "count": count})
    });
    let stamps: Vec<_> = stamps.collect();
    let lost: Map<_, _> = summary
        .counters
        .iter()
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    let targets: Vec<_> = summary
        .hosts
        .iter()
        .zip(&statistics.targets)
        .map(of_target)
        .collect();
    let mut object = json!({
        "version": VERSION,
        "duration_ns": summary.duration,
        "counts": counts(&all.counts),
        "rtt": distribution(&all.rtt),
        "user_rtt": distribution(&all.user_rtt),
        "prober_delay": distribution(&all.prober_delay),
        "stages": stages,
        "stamps": stamps,
        "fallbacks": all.fallbacks,
        "lateness": distribution(summary.lateness),
        "counters": lost,
        "targets": targets,
    });
    if let Some(jitter) = statistics.jitter() {
        object["jitter_ns"] = json!(jitter);
    }
    json!({"summary": object})
}

fn of_target((host, target): (&Host, &OfTarget)) -> Value {
    let rtt = &target.rtt;
    json!({
        "target": host.name,
        "address": host.address,
        "netns": host.netns,
        "counts": counts(&target.counts),
        "p50_ns": rtt.quantile(0.5),
        "p90_ns": rtt.quantile(0.9),
        "p99_ns": rtt.quantile(0.99),
        "max_ns": rtt.max(),
        "jitter_ns": target.jitter.value(),
        "mean_ns": target.spread.mean(),
        "mdev_ns": target.spread.deviation(),
    })
}

fn counts(counts: &Counts) -> Value {
    json!({
        "sent": counts.sent,
        "answered": counts.answered,
        "lost": counts.lost,
        "refused": counts.refused,
        "not_sent": counts.not_sent,
        "abandoned": counts.abandoned,
        "duplicates": counts.duplicates,
        "reordered": counts.reordered,
        "late": counts.late,
        "truncated": counts.truncated,
        "strays": counts.strays,
        "late_refusals": counts.late_refusals,
    })
}

fn tx_kind(kind: TxKind) -> &'static str {
    match kind {
        TxKind::Hardware => "hardware",
        TxKind::Software => "software",
        TxKind::Sched => "sched",
        TxKind::User => "user",
    }
}

fn rx_kind(kind: RxKind) -> &'static str {
    match kind {
        RxKind::Hardware => "hardware",
        RxKind::Software => "software",
        RxKind::User => "user",
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{TARGET, answer, refusal};
    use super::*;

    fn host() -> Host {
        Host {
            name: "db".into(),
            address: TARGET,
            netns: None,
            counter: "icmp_seq",
        }
    }

    fn json(outcome: Outcome) -> String {
        serde_json::to_string(&Line::outcome(&host(), 7, &outcome)).unwrap()
    }

    #[test]
    fn an_answer_begins_with_seven_keys() {
        assert_eq!(
            json(Outcome::Answered(answer(10))),
            concat!(
                r#"{"target":"db","seq":7,"rtt_ns":10000000,"user_rtt_ns":10100000,"prober_delay_ns":99000,"#,
                r#""stamps":"software","ttl":64,"address":"10.0.0.2","from":"10.0.0.2","kind":"echo-reply","bytes":56,"#,
                r#""stages":{"network":10000000,"rx.app":9000,"rx.stack+wakeup":70000,"tx.copy":20000,"tx.qdisc":1000}}"#,
            )
        );
    }

    #[test]
    fn an_error_takes_the_place_of_times() {
        assert_eq!(
            json(Outcome::Lost),
            r#"{"target":"db","seq":7,"error":"lost","address":"10.0.0.2"}"#
        );
        assert_eq!(
            json(Outcome::Refused(refusal())),
            concat!(
                r#"{"target":"db","seq":7,"error":"ttl-exceeded","address":"10.0.0.2","from":"10.0.0.1","#,
                r#""icmp_type":11,"icmp_code":0,"after_ns":1000000}"#,
            )
        );
        let error = std::io::Error::from_raw_os_error(105);
        assert!(json(Outcome::NotSent(error)).contains(r#""error":"not sent: No buffer space"#));
    }

    #[test]
    fn events_other_than_results_have_a_key_event() {
        let late = serde_json::to_value(Line::event(&host(), 7, &answer(10), "late")).unwrap();
        assert_eq!(
            (&late["event"], &late["rtt_ns"]),
            (&json!("late"), &json!(10_000_000))
        );
        let stray = stray(None, TARGET, Stray::Cookie);
        assert_eq!(
            stray,
            json!({"event": "stray", "target": null, "from": "10.0.0.2", "why": "cookie"})
        );
    }

    #[test]
    fn the_time_of_a_line_is_requested() {
        let host = host();
        let line = Line::outcome(&host, 7, &Outcome::Lost).at(Some(Nanos(5)));
        assert_eq!(serde_json::to_value(line).unwrap()["time_ns"], 5);
    }
}
