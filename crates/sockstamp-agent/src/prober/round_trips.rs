//! The round trips of one peer, and the method that finds them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use sockstamp_metrics::catalogue::{CONTAINER_LATENCY, PROBE_TIME, PROBES};
use sockstamp_metrics::{Exposition, Labels, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupHistogram;
use sockstamp_ping::Outcome;

/// Probes without an answer after which a method is given up, if it never had one.
const TRIAL: u32 = 3;

/// A way to find the round trip to a peer, in the order in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Method {
    /// An echo request.
    Icmp,
    /// A SYN to the port that the container uses.
    Tcp,
    /// No probe: the smallest round trip of the container's own connections.
    Flow,
}

impl Method {
    pub(super) const ALL: [Self; 3] = [Self::Icmp, Self::Tcp, Self::Flow];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Tcp => "tcp",
            Self::Flow => "flow",
        }
    }
}

/// Counts of a method's probes, by outcome.
#[derive(Debug, Default)]
struct Counts {
    answered: u64,
    lost: u64,
    refused: u64,
    not_sent: u64,
    times: Arc<GroupHistogram>,
}

/// All that probes of a peer have shown.
#[derive(Debug)]
pub(super) struct RoundTrips {
    method: Method,
    /// Probes that the method may still leave without an answer; `None` once it had one.
    trial: Option<u32>,
    last: Option<Nanos>,
    counts: BTreeMap<Method, Counts>,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            method: Method::Icmp,
            trial: Some(TRIAL),
            last: None,
            counts: BTreeMap::new(),
        }
    }
}

impl RoundTrips {
    pub(super) const fn method(&self) -> Method {
        self.method
    }

    /// Use another method from now on.
    pub(super) fn begin(&mut self, method: Method) {
        self.method = method;
        self.trial = Some(TRIAL);
        self.last = None;
    }

    /// Set the smallest round trip of the container's own connections.
    pub(super) fn of_flows(&mut self, min_rtt: Option<Nanos>) {
        if self.method == Method::Flow {
            self.last = min_rtt;
        }
    }

    /// Count the outcome of a probe. Return true if the method must be given up: a peer that never
    /// answered may answer another method, while one that did is lost.
    pub(super) fn count(&mut self, outcome: &Outcome) -> bool {
        let rtt = match outcome {
            Outcome::Abandoned => return false,
            Outcome::Answered(answer) => Some(answer.times.rtt),
            Outcome::Lost | Outcome::Refused(_) | Outcome::NotSent(_) => None,
        };
        self.last = rtt;
        match (&mut self.trial, rtt) {
            (Some(left), None) => {
                *left -= 1;
                return *left == 0;
            }
            (trial, Some(_)) => *trial = None,
            (None, None) => {}
        }
        let counts = self.counts.entry(self.method).or_default();
        let count = match outcome {
            Outcome::Answered(_) | Outcome::Abandoned => &mut counts.answered,
            Outcome::Lost => &mut counts.lost,
            Outcome::Refused(_) => &mut counts.refused,
            Outcome::NotSent(_) => &mut counts.not_sent,
        };
        *count += 1;
        if let Some(rtt) = rtt {
            Arc::make_mut(&mut counts.times).record(rtt, 1);
        }
        false
    }

    /// Add the series to an exposition.
    pub(super) fn expose(&self, container: &str, address: IpAddr, exposition: &mut Exposition) {
        let labels = |more: &[(&'static str, &str)]| -> Labels {
            let peer = [
                ("container_id", container.to_owned()),
                ("destination_ip", address.to_string()),
            ];
            let more = more.iter().map(|&(name, value)| (name, value.to_owned()));
            let all = peer.into_iter().chain(more);
            all.map(|(name, value)| (name.into(), value)).collect()
        };
        if let Some(last) = self.last {
            let seconds = std::time::Duration::from(last).as_secs_f64();
            exposition.add(&CONTAINER_LATENCY, labels(&[]), Value::Real(seconds));
        }
        for (method, counts) in &self.counts {
            let method = ("method", method.name());
            exposition.add_histogram(&PROBE_TIME, labels(&[method]), Arc::clone(&counts.times));
            for (result, count) in [
                ("answered", counts.answered),
                ("lost", counts.lost),
                ("refused", counts.refused),
                ("not_sent", counts.not_sent),
            ] {
                let labels = labels(&[method, ("result", result)]);
                exposition.add(&PROBES, labels, Value::Count(count));
            }
        }
    }
}
