//! Waits as metrics: those that go on, by service, and those that no data ended, by their ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sockstamp_metrics::catalogue::{ATTEMPTS, ENDED_WAITS, WAITING, WAITING_OLDEST};
use sockstamp_metrics::{Exposition, Labels, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupHistogram;
use sockstamp_model::wait::{End, Kind, UnixWait, Waits};

/// Younger waits are no series: most are over at the next reading.
const OLD: Nanos = Nanos(1_000_000_000);
/// Services with series of their own.
const SERVICES: usize = 100;
/// The label of those beyond.
const OTHER: &str = "other";
/// The kinds of waits that may be for an answer or for a push, at either end.
const OR_PUSH: &str = "answer-or-push";
const SERVICE_OR_PUSH: &str = "service-or-push";

/// Waits that go on for a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Open {
    count: u64,
    oldest: Nanos,
}

impl Open {
    fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.oldest = self.oldest.max(more.oldest);
    }
}

/// Waits that have ended.
#[derive(Debug, Clone, Copy, Default)]
struct Tried {
    came: u64,
    failed: u64,
}

/// The waits of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// As of the last reading, by kind and service.
    open: BTreeMap<(&'static str, String), Open>,
    ended: BTreeMap<(Kind, End), Arc<GroupHistogram>>,
    tried: BTreeMap<Kind, Tried>,
}

impl Waiting {
    /// Take what came since the last reading, and what is open now.
    pub(crate) fn read(&mut self, waits: &Waits) {
        self.open = bounded(open(waits));
        let list = waits.list.iter();
        let list = list.map(|wait| (wait.kind, wait.end, wait.lasted));
        let unix = waits.unix.iter();
        let unix = unix.map(|wait| (wait.kind, wait.end, wait.lasted));
        for (kind, end, lasted) in list.chain(unix) {
            if !matches!(end, End::Open | End::Data) {
                let times = self.ended.entry((kind, end)).or_default();
                Arc::make_mut(times).record(lasted, 1);
            }
        }
        for one in &waits.attempts {
            self.tried(one.key.kind, one.count, one.failed);
        }
        for one in &waits.unix_attempts {
            self.tried(Kind::Answer, one.count, one.failed);
        }
    }

    fn tried(&mut self, kind: Kind, count: u64, failed: u64) {
        let tried = self.tried.entry(kind).or_default();
        tried.failed = tried.failed.saturating_add(failed);
        let came = count.saturating_sub(failed);
        tried.came = tried.came.saturating_add(came);
    }

    /// Add the series to an exposition.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        for ((kind, peer), open) in &self.open {
            let labels = labels(("kind", kind), ("peer", peer));
            let oldest = Duration::from(open.oldest).as_secs_f64();
            exposition.add(&WAITING, labels.clone(), Value::Count(open.count));
            exposition.add(&WAITING_OLDEST, labels, Value::Real(oldest));
        }
        for ((kind, end), times) in &self.ended {
            let labels = labels(("kind", kind.name()), ("end", end.name()));
            exposition.add_histogram(&ENDED_WAITS, labels, Arc::clone(times));
        }
        for (kind, tried) in &self.tried {
            for (result, count) in [("came", tried.came), ("failed", tried.failed)] {
                let labels = labels(("kind", kind.name()), ("result", result));
                exposition.add(&ATTEMPTS, labels, Value::Count(count));
            }
        }
    }
}

fn labels(first: (&'static str, &str), second: (&'static str, &str)) -> Labels {
    let label = |(name, value): (&'static str, &str)| (name.into(), value.to_owned());
    vec![label(first), label(second)]
}

fn open(waits: &Waits) -> BTreeMap<(&'static str, String), Open> {
    let mut open = BTreeMap::<_, Open>::new();
    for wait in waits.open() {
        if wait.lasted < OLD {
            continue;
        }
        let is_push = waits.pushed.contains(&wait.flow.cookie);
        let kind = match wait.kind {
            Kind::Answer if is_push => OR_PUSH,
            Kind::Service if is_push => SERVICE_OR_PUSH,
            kind => kind.name(),
        };
        let key = (kind, wait.service().to_string());
        open.entry(key).or_default().add(&Open {
            count: wait.members.max(1).into(),
            oldest: wait.lasted,
        });
    }
    let old = |wait: &&UnixWait| wait.is_open() && wait.lasted >= OLD;
    for wait in waits.unix.iter().filter(old) {
        let key = (wait.kind.name(), wait.service.to_string());
        open.entry(key).or_default().add(&Open {
            count: 1,
            oldest: wait.lasted,
        });
    }
    open
}

/// Keep the services with the oldest waits, and sum the others by kind.
fn bounded(open: BTreeMap<(&'static str, String), Open>) -> BTreeMap<(&'static str, String), Open> {
    if open.len() <= SERVICES {
        return open;
    }
    let mut all: Vec<_> = open.into_iter().collect();
    all.sort_by_key(|(_, open)| std::cmp::Reverse(open.oldest));
    let others = all.split_off(SERVICES);
    let mut kept: BTreeMap<_, _> = all.into_iter().collect();
    for ((kind, _), open) in others {
        let other = kept.entry((kind, OTHER.to_owned())).or_default();
        other.add(&open);
    }
    kept
}

#[cfg(test)]
mod tests {
    use sockstamp_metrics::Format;
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
    use sockstamp_model::name::Name;
    use sockstamp_model::wait::{Attempts, Evidence, UnixAttempts, Wait};

    use super::*;

    fn wait(peer: u8, millis: u64, end: End) -> Wait {
        Wait {
            kind: Kind::Answer,
            flow: Flow {
                netns: NetnsInode(1),
                protocol: Protocol::Tcp,
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: ([10, 0, 1, peer], 5432).into(),
                cookie: SocketCookie(peer.into()),
            },
            opened: None,
            cgroup: CgroupId(0),
            pid: 7,
            comm: Name::from("psql"),
            since: Timestamp::from_nanos(0),
            lasted: Nanos::from_millis(millis),
            inside: Nanos::from_millis(millis),
            end,
            members: 1,
            bytes: 0,
            evidence: Evidence::default(),
        }
    }

    fn exposed(waiting: &Waiting) -> String {
        let mut exposition = Exposition::default();
        waiting.expose(&mut exposition);
        let pieces = Format::Plain.pieces(Arc::new(exposition));
        String::from_utf8(pieces.flatten().collect()).unwrap()
    }

    #[test]
    fn open_waits_are_counted_by_service_with_their_oldest() {
        let list = vec![
            wait(1, 2000, End::Open),
            wait(1, 5000, End::Open),
            wait(2, 999, End::Open),
            wait(3, 3000, End::Open),
        ];
        let mut waiting = Waiting::default();
        waiting.read(&Waits {
            list,
            pushed: vec![SocketCookie(3)],
            ..Waits::default()
        });
        let text = exposed(&waiting);
        for line in [
            "sockstamp_waiting{kind=\"answer\",peer=\"10.0.1.1:5432\"} 2\n",
            "sockstamp_waiting_oldest_seconds{kind=\"answer\",peer=\"10.0.1.1:5432\"} 5.0\n",
            "sockstamp_waiting{kind=\"answer-or-push\",peer=\"10.0.1.3:5432\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} {text}");
        }
        assert!(!text.contains("10.0.1.2"), "{text}");
        // At the next reading nothing waits.
        waiting.read(&Waits::default());
        assert!(!exposed(&waiting).contains("sockstamp_waiting"));
    }

    fn unix_wait(service: &str, millis: u64, end: End) -> UnixWait {
        UnixWait {
            kind: Kind::Answer,
            service: Name::from(service),
            server: None,
            netns: NetnsInode(1),
            cookie: SocketCookie(1),
            inode: 1,
            cgroup: CgroupId(0),
            pid: 7,
            comm: Name::from("psql"),
            is_new: true,
            since: Timestamp::from_nanos(0),
            lasted: Nanos::from_millis(millis),
            inside: Nanos::from_millis(millis),
            end,
            bytes: 0,
        }
    }

    /// A path is chosen by others.
    #[test]
    fn waits_at_unix_sockets_have_the_path_of_their_service() {
        let unix = vec![
            unix_wait("/run/db\n\"", 2000, End::Open),
            unix_wait("/run/db\n\"", 5000, End::Open),
            unix_wait("/run/other", 999, End::Open),
            unix_wait("/run/other", 20, End::Data),
            unix_wait("/run/other", 300, End::ClosedByPeer),
        ];
        let attempts = UnixAttempts {
            service: Name::from("/run/other"),
            comm: Name::from("psql"),
            count: 10,
            failed: 1,
            sum_ns: 1,
        };
        let mut waiting = Waiting::default();
        waiting.read(&Waits {
            unix,
            unix_attempts: vec![attempts],
            ..Waits::default()
        });
        let text = exposed(&waiting);
        for line in [
            "sockstamp_attempts_total{kind=\"answer\",result=\"came\"} 9\n",
            "sockstamp_attempts_total{kind=\"answer\",result=\"failed\"} 1\n",
            "sockstamp_ended_wait_seconds_count{kind=\"answer\",end=\"closed-by-peer\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} {text}");
        }
        let waits: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("sockstamp_waiting{"))
            .collect();
        let [line] = waits[..] else {
            panic!("{text}");
        };
        assert!(
            line.contains("peer=\"/run/db") && line.ends_with("} 2"),
            "{line}"
        );
        assert!(text.contains("sockstamp_waiting_oldest_seconds{kind=\"answer\",peer=\"/run/db"));
    }

    #[test]
    fn series_are_bounded_and_none_is_left_out() {
        let list = (0..=255).map(|peer| wait(peer, 1000 + u64::from(peer), End::Open));
        let waits = Waits {
            list: list.collect(),
            ..Waits::default()
        };
        let open = bounded(open(&waits));
        assert_eq!(open.len(), SERVICES + 1);
        let other = &open[&("answer", OTHER.to_owned())];
        assert_eq!((other.count, other.oldest), (156, Nanos::from_millis(1155)));
    }

    #[test]
    fn failures_are_held_against_attempts() {
        let given_up = wait(1, 300, End::GivenUp);
        let attempts = Attempts {
            key: given_up.key(),
            comm: Name::from("psql"),
            count: 10,
            failed: 3,
            sum_ns: 1,
            min_ns: Nanos(1),
            prompted: 0,
        };
        let mut waiting = Waiting::default();
        for _ in 0..2 {
            waiting.read(&Waits {
                list: vec![given_up.clone(), wait(1, 50, End::Data)],
                attempts: vec![attempts.clone()],
                ..Waits::default()
            });
        }
        let text = exposed(&waiting);
        for line in [
            "sockstamp_attempts_total{kind=\"answer\",result=\"came\"} 14\n",
            "sockstamp_attempts_total{kind=\"answer\",result=\"failed\"} 6\n",
            "sockstamp_ended_wait_seconds_count{kind=\"answer\",end=\"given-up\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} {text}");
        }
        assert!(!text.contains("end=\"data\""), "{text}");
    }
}
