//! The rows of recordings that are read.

use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_model::filter::Filter;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::packet::Packet;
use sockstamp_model::stage::Direction;
use sockstamp_model::wait::{Attempts, UnixAttempts};
use sockstamp_record::Waited;

/// Conditions, which must all hold. The default is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) filter: Option<Filter>,
    pub(crate) pids: Vec<u32>,
    pub(crate) comms: Vec<String>,
    pub(crate) from: Option<Timestamp<Realtime>>,
    pub(crate) to: Option<Timestamp<Realtime>>,
}

impl Choice {
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Return true if a message is of a flow and a time that are chosen, whatever its process.
    pub(crate) fn has_flow(&self, message: &Message) -> bool {
        let selects = |filter: &Filter| filter.selects(&message.flow, message.direction);
        self.has_time(message.time) && self.filter.as_ref().is_none_or(selects)
    }

    /// Return true if one of these processes is chosen.
    pub(crate) fn has_either(&self, ends: [(u32, &Name); 2]) -> bool {
        ends.into_iter()
            .any(|(pid, name)| self.has_owner(pid, [Some(name), None]))
    }

    /// Return true if the message is read. `process`: the name of its process, if that is known.
    pub(crate) fn has(&self, message: &Message, process: Option<&Name>) -> bool {
        self.has_owner(message.pid, [Some(&message.comm), process]) && self.has_flow(message)
    }

    /// A packet whose process is unknown is of none that is named.
    pub(crate) fn has_packet(&self, packet: &Packet<'_>) -> bool {
        let selects = |filter: &Filter| filter.selects(&packet.flow, packet.direction);
        self.has_time(packet.time)
            && self.has_owner(packet.pid.unwrap_or_default(), [Some(&packet.comm), None])
            && self.filter.as_ref().is_none_or(selects)
    }

    /// A wait has no direction of its own: one of either is enough. A filter asks for nothing that
    /// a Unix socket has.
    pub(crate) fn has_wait(&self, row: &Waited, process: Option<&Name>) -> bool {
        let wait = &row.wait;
        let selects = |filter: &Filter| {
            [Direction::Tx, Direction::Rx]
                .iter()
                .any(|direction| filter.selects(&wait.flow, *direction))
        };
        self.has_time(row.time)
            && self.has_owner(wait.pid, [Some(&wait.comm), process])
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| row.unix.is_none() && selects(filter))
    }

    /// Attempts at Unix sockets have the name of their process, and not its number.
    pub(crate) fn has_unix_attempts(&self, attempts: &UnixAttempts) -> bool {
        self.filter.is_none()
            && self.from.or(self.to).is_none()
            && self.pids.is_empty()
            && self.has_owner(0, [Some(&attempts.comm), None])
    }

    /// Attempts are sums of a whole recording, which no time nor filter divides.
    pub(crate) fn has_attempts(&self, attempts: &Attempts, process: Option<&Name>) -> bool {
        self.filter.is_none()
            && self.from.or(self.to).is_none()
            && self.has_owner(attempts.key.pid, [Some(&attempts.comm), process])
    }

    fn has_time(&self, time: Timestamp<Realtime>) -> bool {
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to)
    }

    fn has_owner(&self, pid: u32, names: [Option<&Name>; 2]) -> bool {
        let named = |name: &Name| {
            let same = |comm: &String| comm.as_bytes() == name.as_bytes();
            self.comms.iter().any(same)
        };
        let by_name = self.comms.is_empty() || names.into_iter().flatten().any(named);
        by_name && (self.pids.is_empty() || self.pids.contains(&pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_begin_and_not_its_end() {
        let [from, to] = [10, 20].map(|time| Some(Timestamp::from_nanos(time)));
        let choice = Choice {
            from,
            to,
            ..Choice::default()
        };
        let has = |time| choice.has_time(Timestamp::from_nanos(time));
        assert_eq!([9, 10, 19, 20].map(has), [false, true, true, false]);
    }

    #[test]
    fn an_owner_is_chosen_by_number_and_by_either_of_its_names() {
        let choice = Choice {
            pids: vec![7, 8],
            comms: vec!["nginx".to_owned()],
            ..Choice::default()
        };
        let [thread, process] = ["worker-3", "nginx"].map(Name::from);
        assert!(choice.has_owner(7, [Some(&thread), Some(&process)]));
        assert!(choice.has_owner(8, [Some(&process), None]));
        assert!(!choice.has_owner(7, [Some(&thread), None]));
        assert!(!choice.has_owner(9, [Some(&process), None]));
        assert!(Choice::default().has_owner(0, [None, None]));
        assert!(choice.has_either([(1, &thread), (7, &process)]));
        assert!(!choice.has_either([(7, &thread), (1, &process)]));
    }
}
