//! A question over a Unix socket.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sockstamp_model::flow::{Flow, Protocol};
use sockstamp_model::name::Name;
use sockstamp_model::wait::UnixWait;

use crate::diagnosis::slow::{Key, Parts, Role, Seen, Slow};
use crate::diagnosis::tree::Node;

/// Services that have a stand-in, at most.
const MOST: u32 = 1 << 14;

/// Services behind Unix sockets, each with an address that stands for it. Port 0 is nobody's: it
/// meets no other.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Services {
    stand_ins: BTreeMap<Name, SocketAddr>,
    /// Waits there that are for no answer.
    left_out: usize,
}

impl Services {
    /// Return the address that stands for a service; `None` if there are too many.
    pub(in crate::diagnosis) fn stand_in(&mut self, path: &Name) -> Option<SocketAddr> {
        if let Some(known) = self.stand_ins.get(path) {
            return Some(*known);
        }
        let count = u32::try_from(self.stand_ins.len()).ok()?;
        let first = Ipv4Addr::new(127, 128, 0, 0).to_bits();
        let address = Ipv4Addr::from_bits(first + count);
        let service = SocketAddr::new(IpAddr::V4(address), 0);
        (count < MOST).then(|| *self.stand_ins.entry(path.clone()).or_insert(service))
    }

    /// Take notice of waits that are for no answer.
    pub(in crate::diagnosis) fn leave_out(&mut self, count: usize) {
        self.left_out = self.left_out.saturating_add(count);
    }

    /// Return the note on them: nothing shows their beginnings, nor what they are held up by.
    pub(in crate::diagnosis) fn notes(&self) -> Option<String> {
        let waits = match self.left_out {
            0 => return None,
            1 => "1 wait at a Unix socket is".to_owned(),
            count => format!("{count} waits at Unix sockets are"),
        };
        Some(format!(
            "{waits} for room, a connect, or a connection that is not accepted, and in no finding: \
             sockstamp stuck lists what waits there"
        ))
    }
}

/// Return true for an address that stands for a service behind a Unix socket.
pub(in crate::diagnosis) const fn is_stand_in(service: &SocketAddr) -> bool {
    service.port() == 0
}

/// Return the wait, with an address in the place of its service.
pub(in crate::diagnosis) fn of_unix(wait: &UnixWait, service: SocketAddr) -> Slow {
    let flow = Flow {
        netns: wait.netns,
        protocol: Protocol::Tcp,
        // Each connection has its own.
        local: SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(wait.cookie.0.into())), 0),
        remote: service,
        cookie: wait.cookie,
    };
    let end = wait.since.as_nanos().saturating_add(wait.lasted.0);
    Slow {
        key: Key::of_service(Node::Answer, wait.comm.clone(), Role::Asks, service),
        flow,
        pid: wait.pid,
        is_new: wait.is_new,
        begin: end.saturating_sub(wait.inside.0),
        end,
        weight: 1,
        parts: Parts::divide(wait.inside.0, [], Node::AnswerUnix),
        how: wait.end,
        seen: Seen {
            heard: true,
            bytes: wait.bytes,
            age: wait.lasted.0,
            members: 1,
            path: Some(wait.service.clone()),
            ..Seen::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::{Nanos, Timestamp};
    use sockstamp_model::flow::{CgroupId, NetnsInode, SocketCookie};
    use sockstamp_model::wait::{End, Kind, UnixAttempts, Waits};

    use super::*;
    use crate::diagnosis::tests::summary;
    use crate::diagnosis::{Case, Finding, Scope};

    fn wait(service: &str, at: u64, lasted: u64, end: End) -> UnixWait {
        UnixWait {
            kind: Kind::Answer,
            service: service.into(),
            server: Some((70, "postgres".into())),
            netns: NetnsInode(1),
            cookie: SocketCookie(9),
            inode: 9,
            cgroup: CgroupId(0),
            pid: 7,
            comm: "app".into(),
            is_new: true,
            since: Timestamp::from_nanos(at * 1_000_000),
            lasted: Nanos::from_millis(lasted),
            inside: Nanos::from_millis(lasted),
            end,
            bytes: 8,
        }
    }

    fn told(list: Vec<UnixWait>, count: u64) -> Vec<Finding> {
        let failed = list.iter().filter(|wait| wait.end.is_failure()).count() as u64;
        let attempts = UnixAttempts {
            service: list[0].service.clone(),
            comm: "app".into(),
            count,
            failed,
            sum_ns: 1,
        };
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            unix: list,
            unix_attempts: vec![attempts],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings
    }

    #[test]
    fn a_slow_service_is_named_by_its_path_and_its_process() {
        let at = [200, 900, 1_600, 2_400];
        let slow = at.map(|at| wait("/run/db.sock", at, 120, End::Data));
        let findings = told(slow.to_vec(), 4);
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(finding.node, Node::AnswerUnix);
        assert!(finding.services.is_empty() && finding.peers.is_empty());
        assert_eq!(
            finding.sentence,
            "/run/db.sock takes 120 ms to answer app (4 of 4, at most 120 ms): the work of \
             postgres (PID 70), on this host"
        );
        assert_eq!(finding.next, "stat -p 70");
    }

    #[test]
    fn few_slow_answers_of_many_are_not_worth_a_word() {
        let slow = [200, 900].map(|at| wait("/run/db.sock", at, 120, End::Data));
        assert!(told(slow.to_vec(), 1_000).is_empty());
    }

    #[test]
    fn questions_that_a_service_closes_are_failures() {
        let at = [200, 900, 1_600];
        let closed = at.map(|at| wait("@db", at, 120, End::ClosedByPeer));
        let findings = told(closed.to_vec(), 3);
        let sentence = &findings[0].sentence;
        assert!(
            sentence.starts_with("3 of 3 requests of app to @db"),
            "{sentence}"
        );
        assert!(sentence.contains("postgres (PID 70)"), "{sentence}");
    }

    #[test]
    fn a_wait_for_something_else_than_an_answer_is_noted() {
        let mut room = wait("/run/db.sock", 200, 12_000, End::Open);
        room.kind = Kind::Room;
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            unix: vec![room],
            ..Waits::default()
        });
        let diagnosis = case.diagnose(&summary());
        assert!(diagnosis.findings.is_empty());
        let note = diagnosis.notes.iter().find(|note| note.contains("Unix"));
        let note = note.unwrap();
        assert!(note.starts_with("1 wait at a Unix socket is"), "{note}");
    }

    #[test]
    fn a_question_from_before_the_measurement_counts_its_part_inside() {
        let mut old = wait("/run/db.sock", 200, 12_000, End::Open);
        old.inside = Nanos::from_millis(2_000);
        let slow = of_unix(&old, "127.128.0.0:0".parse().unwrap());
        assert_eq!((slow.begin, slow.end), (10_200_000_000, 12_200_000_000));
        assert_eq!(slow.seen.age, 12_000_000_000);
    }

    #[test]
    fn there_are_stand_ins_for_so_many_services() {
        let mut services = Services::default();
        let first = services.stand_in(&"/a".into());
        assert!(first.is_some_and(|first| is_stand_in(&first)));
        assert_eq!(services.stand_in(&"/a".into()), first);
        for of in 1..MOST {
            assert_ne!(services.stand_in(&of.to_string().as_str().into()), first);
        }
        assert_eq!(services.stand_in(&"/b".into()), None);
    }
}
