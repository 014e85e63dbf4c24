//! The waits of close() for an acknowledgement (`SO_LINGER`).
//!
//! Two records tell of one: when it begins, with the time at which the kernel gives it up, and when
//! the socket's state shows that it is over. Nobody sees that the kernel gives one up. Data that is
//! never acknowledged is one record, which has a length; after a close() that does not wait, one
//! that is open comes before it.

use std::collections::HashMap;

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::Flow;
use sockstamp_model::wait::{End, Kind, Wait};

/// Sockets whose close() waits.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Each lasts until the kernel gives it up.
    waits: HashMap<Flow, Wait>,
}

impl Closing {
    /// Return the wait, unless it is the beginning of one.
    pub(super) fn meet(&mut self, wait: Wait) -> Option<Wait> {
        match (wait.kind, wait.end) {
            (Kind::Acknowledgement, End::Open) => {
                self.waits.insert(wait.flow, wait);
                None
            }
            (Kind::Acknowledgement, end) if wait.lasted == Nanos::ZERO => {
                let begun = self.waits.remove(&wait.flow)?;
                Some(until(wait.since, end, begun))
            }
            (Kind::Acknowledgement, _) => {
                self.waits.remove(&wait.flow);
                Some(wait)
            }
            _ => Some(wait),
        }
    }

    /// Return those that are open now, or were given up, in a measurement that began then.
    pub(super) fn take(
        &mut self,
        now: Timestamp<Monotonic>,
        began: Timestamp<Monotonic>,
    ) -> Vec<Wait> {
        let looked = self.waits.values().cloned().map(|begun| {
            let given_up = begun.since.as_nanos().saturating_add(begun.lasted.0);
            let end = match given_up <= now.as_nanos() {
                true => End::GivenUp,
                false => End::Open,
            };
            let wait = until(now, end, begun);
            let outside = began.as_nanos().saturating_sub(wait.since.as_nanos());
            Wait {
                inside: Nanos(wait.lasted.0.saturating_sub(outside)),
                ..wait
            }
        });
        let looked: Vec<_> = looked.collect();
        for wait in looked.iter().filter(|wait| !wait.is_open()) {
            self.waits.remove(&wait.flow);
        }
        looked
    }
}

/// Return the wait as it ended at some time, or when it was given up.
fn until(time: Timestamp<Monotonic>, end: End, begun: Wait) -> Wait {
    let lasted = time.as_nanos().saturating_sub(begun.since.as_nanos());
    let (lasted, end) = match lasted < begun.lasted.0 {
        true => (lasted, end),
        false => (begun.lasted.0, End::GivenUp),
    };
    Wait {
        lasted: Nanos(lasted),
        inside: Nanos(lasted),
        end,
        ..begun
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::{CgroupId, NetnsInode, Protocol, SocketCookie};
    use sockstamp_model::name::Name;
    use sockstamp_model::wait::Evidence;

    use super::*;

    fn wait(since: u64, lasted: u64, end: End) -> Wait {
        Wait {
            kind: Kind::Acknowledgement,
            flow: Flow {
                netns: NetnsInode(1),
                protocol: Protocol::Tcp,
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: "10.0.0.2:80".parse().unwrap(),
                cookie: SocketCookie(7),
            },
            opened: None,
            cgroup: CgroupId(0),
            pid: 7,
            comm: Name::from("curl"),
            since: Timestamp::from_nanos(since),
            lasted: Nanos(lasted),
            inside: Nanos(lasted),
            end,
            members: 1,
            bytes: 9,
            evidence: Evidence::default(),
        }
    }

    fn at(nanos: u64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn two_records_are_one_wait() {
        let mut closing = Closing::default();
        assert_eq!(closing.meet(wait(100, 3000, End::Open)), None);
        let ended = closing.meet(wait(150, 0, End::Data)).unwrap();
        assert_eq!((ended.lasted, ended.end), (Nanos(50), End::Data));
        assert_eq!(ended.bytes, 9);
        assert_eq!(closing.take(at(9000), at(0)), []);
    }

    #[test]
    fn what_was_never_acknowledged_is_one_record() {
        let mut closing = Closing::default();
        let undelivered = wait(100, 3000, End::GivenUp);
        assert_eq!(closing.meet(undelivered.clone()), Some(undelivered.clone()));
        assert_eq!(closing.take(at(9000), at(0)), []);
        // The same wait was open before.
        assert_eq!(closing.meet(wait(100, 9000, End::Open)), None);
        assert_eq!(closing.meet(undelivered.clone()), Some(undelivered));
        assert_eq!(closing.take(at(9000), at(0)), []);
    }

    #[test]
    fn the_kernel_gives_up_in_silence() {
        let mut closing = Closing::default();
        closing.meet(wait(100, 3000, End::Open));
        let open = closing.take(at(1100), at(600));
        assert_eq!((open[0].lasted, open[0].inside), (Nanos(1000), Nanos(500)));
        assert!(open[0].is_open());
        let over = closing.take(at(5000), at(0));
        assert_eq!((over[0].lasted, over[0].end), (Nanos(3000), End::GivenUp));
        assert_eq!(closing.take(at(5000), at(0)), []);
        assert_eq!(closing.meet(wait(6000, 0, End::Reset)), None);
    }
}
