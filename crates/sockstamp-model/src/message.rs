//! The timeline of one message.

use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::clock::{Monotonic, Nanos, Phc, Realtime, Timestamp};
use crate::container::Container;
use crate::flow::{CgroupId, Flow, Opened, Protocol, canonical};
use crate::interface::Interface;
use crate::name::Name;
use crate::part::{PartMap, PartSummary};
use crate::stage::{Direction, Stage, StageMap};
use crate::unpaired::Unpaired;
use crate::verdict::Verdict;

/// The version of the JSON of [`Message`]; raised when a key changes its meaning or is removed.
pub const JSON_VERSION: u32 = 1;

/// The moments of a message's path that its stages are the differences of; `None` where a stamp did
/// not come.
///
/// All are CLOCK_MONOTONIC; stamps of another clock were converted before, except `snd_hw`: only
/// [`Message::nic_bound`] tells how well the distance of the NIC's clock from ours is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamps {
    /// TX: the send call entered TCP or UDP.
    pub entry: Option<Timestamp<Monotonic>>,
    /// TX: the last byte was queued.
    pub queued: Option<Timestamp<Monotonic>>,
    /// TX: the packet entered a packet scheduler, the first time.
    pub sched: Option<Timestamp<Monotonic>>,
    /// TX: as `sched`, the last time; retransmissions and further devices stamp again.
    pub sched_last: Option<Timestamp<Monotonic>>,
    /// TX: the packet was handed to a driver: of the last device on its way, where it crosses
    /// several, but not of a retransmission.
    pub snd: Option<Timestamp<Monotonic>>,
    /// TX: as `snd`, the last time, retransmissions included.
    pub snd_last: Option<Timestamp<Monotonic>>,
    /// TX: the NIC sent the packet, by the NIC's clock.
    pub snd_hw: Option<Timestamp<Phc>>,
    /// TX: the last byte was acknowledged.
    pub ack: Option<Timestamp<Monotonic>>,
    /// RX: the kernel stamped the packet when the driver delivered it.
    pub rx_software: Option<Timestamp<Monotonic>>,
    /// RX: as `rx_software`, of the segment that was missing before it.
    pub filled: Option<Timestamp<Monotonic>>,
    /// RX: the socket could be read.
    pub ready: Option<Timestamp<Monotonic>>,
    /// RX: the read call took the last byte.
    pub read: Option<Timestamp<Monotonic>>,
}

impl Stamps {
    /// The names of all stamps of CLOCK_MONOTONIC, in the order of a message's path.
    pub const NAMES: [&str; 11] = [
        "entry",
        "queued",
        "sched",
        "sched_last",
        "snd",
        "snd_last",
        "ack",
        "rx_software",
        "filled",
        "ready",
        "read",
    ];

    /// The stamps, in the order of [`NAMES`](Self::NAMES).
    #[must_use]
    pub fn times(&self) -> [Option<Timestamp<Monotonic>>; Self::NAMES.len()] {
        [
            self.entry,
            self.queued,
            self.sched,
            self.sched_last,
            self.snd,
            self.snd_last,
            self.ack,
            self.rx_software,
            self.filled,
            self.ready,
            self.read,
        ]
    }
}

/// A JSON object of the stamps that came.
impl Serialize for Stamps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, stamp) in Self::NAMES.into_iter().zip(self.times()) {
            if let Some(stamp) = stamp {
                map.serialize_entry(name, &stamp)?;
            }
        }
        if let Some(stamp) = self.snd_hw {
            map.serialize_entry("snd_hw", &stamp)?;
        }
        map.end()
    }
}

/// The interfaces that stamped a message; `None` if none did, or if it is ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Interfaces {
    /// The first to stamp it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Interface>,
    /// The last to stamp it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Interface>,
}

/// The timeline of one message: the bytes of one send call (TX) or of one read call (RX).
///
/// Its JSON is one object, in nanoseconds throughout; stages and stamps that are absent are left
/// out:
///
/// | key | value |
/// |---|---|
/// | `version` | [`JSON_VERSION`] |
/// | `time_ns` | [`time`](Self::time), since 1970 |
/// | `direction` | [`label`](Self::label) |
/// | `protocol` | `"tcp"` or `"udp"` |
/// | `pid`, `comm`, `bytes`, `retransmits`, `cookie`, `seq_end`, `weight`, `repeats`, `coalesced`, `netns`, `cgroup` | as here |
/// | `pipelined` | it is [unpaired](Self::unpaired) as `"pipelined"` |
/// | `unpaired` | the reason, where there is one |
/// | `parts` | object of stage name → object of part name → duration |
/// | `ack_with_data` | TX: as here |
/// | `min_rtt_ns` | [`min_rtt`](Self::min_rtt), where known |
/// | `clock_error_ns` | [`clock_error`](Self::clock_error), of a whole life |
/// | `nic_bound_ns` | [`nic_bound`](Self::nic_bound), where it has `tx.nic` or `rx.nic` |
/// | `local`, `remote` | `"ip:port"`, v4-mapped addresses as IPv4 |
/// | `stages` | object of stage name → duration |
/// | `total_ns` | [`total`](Self::total) |
/// | `sent_ns` | TX: [`time`](Self::time) |
/// | `stamps` | object of stamp name → CLOCK_MONOTONIC; `snd_hw` by the NIC's clock |
/// | `interfaces` | `{"first":…,"last":…}`, each as an [`Interface`]; TX, where one stamped |
/// | `verdict` | name of the verdict |
/// | `oldest_age_ns` | [`oldest_age`](Self::oldest_age), where known |
/// | `opened` | `"connected"` or `"accepted"`, where known |
/// | `cpu` | as here, where known |
/// | `container` | its [`full_name`](Container::full_name), where it was looked up |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Sent or received.
    pub direction: Direction,
    /// The socket.
    pub flow: Flow,
    /// The cgroup of the socket.
    pub cgroup: CgroupId,
    /// The container of that cgroup: `None` without one, and where it was not looked up.
    pub container: Option<Arc<Container>>,
    /// The end that opened the connection: `None` of UDP, and where an older one does not tell.
    pub opened: Option<Opened>,
    /// The slot of its group, where messages are grouped. Not in JSON: it has a meaning to the
    /// session alone.
    pub group: Option<u32>,
    /// The process that made the call.
    pub pid: u32,
    /// The name of the thread that made the call, at most 15 bytes of it.
    pub comm: Name,
    /// The CPU on which that thread was at the end of the call.
    pub cpu: Option<u16>,
    /// Bytes sent or read.
    pub bytes: u64,
    /// The number of messages that this one stands for; 1 unless sampled.
    pub weight: u32,
    /// TX: retransmissions of the message's last byte.
    pub retransmits: u32,
    /// TX: scheduler and driver stamps beyond the first, from retransmissions and further devices.
    pub repeats: u32,
    /// TX: the kernel put the message into one packet with a later one, whose stamps it shares:
    /// bytes of it that were sent before, if any, left earlier.
    pub coalesced: bool,
    /// TX: the acknowledgement came with data, so that it may have waited for the peer's answer.
    pub ack_with_data: bool,
    /// Why it has no `app.service` (TX) or `peer.answer` (RX), although it may be an answer.
    pub unpaired: Option<Unpaired>,
    /// TX: the smallest round-trip time of the connection when the message was acknowledged.
    pub min_rtt: Option<Nanos>,
    /// The sequence number after the last byte (TCP).
    pub seq_end: u32,
    /// The duration of every stage; `None` where it is absent.
    pub stages: StageMap<Option<Nanos>>,
    /// The parts of its stages.
    pub parts: PartMap<Option<Nanos>>,
    /// The moments that the stages are the differences of.
    pub stamps: Stamps,
    /// RX: how long before the read the kernel stamped the first byte of it, or it could be read
    /// where it had no stamp. The stages are those of the last byte, so that their total without
    /// `rx.nic` is at most this.
    pub oldest_age: Option<Nanos>,
    /// The time of completion: acknowledged or read.
    pub time: Timestamp<Realtime>,
    /// The interfaces that stamped the message.
    pub interfaces: Interfaces,
    /// The largest possible error of `net.forward` and `net.back` of a whole life. `None` for
    /// messages measured by one host.
    pub clock_error: Option<Nanos>,
    /// The true `tx.nic` or `rx.nic` is within plus or minus this: the error of the comparison of
    /// the NIC's clock with ours. `None` for messages without such a stage.
    pub nic_bound: Option<Nanos>,
    /// Valid, or the reason why the timeline may not be used.
    pub verdict: Verdict,
}

impl Message {
    /// Return true if several questions were in flight: it is unknown which one it answers.
    #[must_use]
    pub fn is_pipelined(&self) -> bool {
        self.unpaired == Some(Unpaired::Pipelined)
    }

    /// Add the parts that took time, by this weight.
    pub(crate) fn record_parts(&self, parts: &mut PartMap<Option<PartSummary>>, weight: u64) {
        for (part, &duration) in self.parts.iter() {
            let Some(duration) = duration.filter(|duration| *duration > Nanos::ZERO) else {
                continue;
            };
            parts[part].get_or_insert_default().merge(&PartSummary {
                count: weight,
                sum_ns: u128::from(duration.0) * u128::from(weight),
                max_ns: Some(duration),
            });
        }
    }

    /// The sum of the present stages, except those between messages, and except `net.back`, which
    /// overlaps with others; saturates.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.stages
            .present()
            .filter(|(stage, _)| !stage.is_between_messages() && *stage != Stage::NetBack)
            .map(|(_, duration)| *duration)
            .sum()
    }

    /// Return the time that slow messages are chosen by, which somebody waited for: until it was
    /// sent or read, until its question was answered, or until its connection was opened; the
    /// longest of those that it has. The program that answers waits for nobody, but its service,
    /// and the way of the request to it, are the client's wait; the client's pause is nobody's. No
    /// acknowledgement counts: where a task waited for one, the wait is in `tx.queue` or `tx.copy`.
    #[must_use]
    pub fn slow_time(&self) -> Nanos {
        let is_waited_for = |stage: Stage| match stage {
            Stage::AppService | Stage::ClientRequest => self.serves(),
            Stage::ClientPause => false,
            stage => stage.is_between_messages(),
        };
        let beside = self.stages.present();
        let beside = beside.filter(|(stage, _)| is_waited_for(*stage));
        let beside = beside.map(|(_, duration)| *duration);
        beside.fold(self.time(), Nanos::max)
    }

    /// Return true if somebody waited longer than this for it. The time of a refused message is
    /// unknown.
    #[must_use]
    pub fn is_slow(&self, limit: Nanos) -> bool {
        self.verdict.is_valid() && self.slow_time() > limit
    }
}

impl Message {
    /// Return true if this is no message but the opening of a connection: its only stage is
    /// `conn.handshake` or `conn.accept`.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        let stages = [Stage::ConnHandshake, Stage::ConnAccept];
        stages.into_iter().any(|stage| self.stages[stage].is_some())
    }

    /// Return true for a valid send of UDP whose begin no hook has shown: one of a connected
    /// socket, where functions are not traced. Its times begin when its packets were queued.
    #[must_use]
    pub fn is_begin_unseen(&self) -> bool {
        self.direction == Direction::Tx
            && self.flow.protocol == Protocol::Udp
            && self.verdict.is_valid()
            && !self.is_connection()
            && self.stages[Stage::TxCopy].is_none()
    }

    /// Return true if the service is at this end: of accepted connections, and where it is unknown
    /// which end opened it, if our port is the lower one.
    #[must_use]
    pub fn serves(&self) -> bool {
        match self.opened {
            Some(opened) => opened == Opened::Accepted,
            None => self.flow.local.port() <= self.flow.remote.port(),
        }
    }

    /// Return the port of the service.
    #[must_use]
    pub fn service_port(&self) -> u16 {
        match self.serves() {
            true => self.flow.local.port(),
            false => self.flow.remote.port(),
        }
    }

    /// Return true if any of it was sent again. Of a connection the part `syn-again` shows that.
    #[must_use]
    pub fn was_sent_again(&self) -> bool {
        self.direction == Direction::Tx && self.retransmits > 0 && !self.is_connection()
    }

    /// Return true if this is a whole life: a message with the stages of both hosts.
    #[must_use]
    pub const fn is_life(&self) -> bool {
        self.clock_error.is_some()
    }

    /// Return `"tx"`, `"rx"`, `"conn"` for a connection, or `"life"`.
    #[must_use]
    pub fn label(&self) -> &'static str {
        if self.is_connection() {
            "conn"
        } else if self.is_life() {
            "life"
        } else {
            self.direction.name()
        }
    }

    /// Return the time until the message left the host, or was read: the sum of the stages that
    /// have a share. Saturates.
    #[must_use]
    pub fn time(&self) -> Nanos {
        let stages = self.stages.present().filter(|(stage, _)| stage.has_share());
        stages.map(|(_, duration)| *duration).sum()
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stamped = self.interfaces != Interfaces::default();
        let sent = self.direction == Direction::Tx && !self.is_connection();
        let optional = [
            stamped,
            self.oldest_age.is_some(),
            self.min_rtt.is_some(),
            self.is_life(),
            self.opened.is_some(),
            self.cpu.is_some(),
            self.container.is_some(),
            self.unpaired.is_some(),
            self.nic_bound.is_some(),
        ];
        let fields = 23 + 2 * usize::from(sent) + optional.iter().filter(|&&there| there).count();
        let mut object = serializer.serialize_struct("Message", fields)?;
        object.serialize_field("version", &JSON_VERSION)?;
        object.serialize_field("time_ns", &self.time)?;
        object.serialize_field("direction", self.label())?;
        object.serialize_field("pid", &self.pid)?;
        object.serialize_field("comm", &self.comm)?;
        object.serialize_field("protocol", &self.flow.protocol)?;
        object.serialize_field("local", &canonical(self.flow.local))?;
        object.serialize_field("remote", &canonical(self.flow.remote))?;
        object.serialize_field("bytes", &self.bytes)?;
        object.serialize_field("stages", &self.stages)?;
        object.serialize_field("parts", &self.parts)?;
        object.serialize_field("total_ns", &self.total())?;
        if sent {
            object.serialize_field("sent_ns", &self.time())?;
        }
        object.serialize_field("retransmits", &self.retransmits)?;
        object.serialize_field("cookie", &self.flow.cookie)?;
        object.serialize_field("seq_end", &self.seq_end)?;
        object.serialize_field("stamps", &self.stamps)?;
        object.serialize_field("verdict", &self.verdict)?;
        object.serialize_field("weight", &self.weight)?;
        object.serialize_field("repeats", &self.repeats)?;
        object.serialize_field("coalesced", &self.coalesced)?;
        if stamped {
            object.serialize_field("interfaces", &self.interfaces)?;
        }
        if sent {
            object.serialize_field("ack_with_data", &self.ack_with_data)?;
        }
        object.serialize_field("pipelined", &self.is_pipelined())?;
        if let Some(reason) = self.unpaired {
            object.serialize_field("unpaired", &reason)?;
        }
        if let Some(rtt) = self.min_rtt {
            object.serialize_field("min_rtt_ns", &rtt)?;
        }
        if let Some(age) = self.oldest_age {
            object.serialize_field("oldest_age_ns", &age)?;
        }
        if let Some(error) = self.clock_error {
            object.serialize_field("clock_error_ns", &error)?;
        }
        if let Some(bound) = self.nic_bound {
            object.serialize_field("nic_bound_ns", &bound)?;
        }
        object.serialize_field("netns", &self.flow.netns)?;
        object.serialize_field("cgroup", &self.cgroup)?;
        if let Some(opened) = self.opened {
            object.serialize_field("opened", &opened)?;
        }
        if let Some(cpu) = self.cpu {
            object.serialize_field("cpu", &cpu)?;
        }
        if let Some(container) = &self.container {
            object.serialize_field("container", &container.full_name())?;
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::NetnsInode;
    use crate::part::Part;
    use crate::stage::Stage;

    fn message(direction: Direction) -> Message {
        let mut message = crate::fixture::message(direction);
        message.flow.local = "[::ffff:10.0.0.1]:443".parse().unwrap();
        message.flow.remote = "[2001:db8::1]:50000".parse().unwrap();
        message
    }

    #[test]
    fn json_of_a_sent_message_is_as_documented() {
        let mut sent = message(Direction::Tx);
        sent.retransmits = 1;
        sent.repeats = 2;
        sent.coalesced = true;
        sent.interfaces.last = Some(Interface {
            name: "eth0".into(),
            index: 2,
            netns: NetnsInode(4_026_531_840),
        });
        sent.stages[Stage::TxCopy] = Some(Nanos(1_200));
        sent.stages[Stage::TxQueue] = Some(Nanos(0));
        sent.stages[Stage::TxNetwork] = Some(Nanos(20_100_000));
        sent.stages[Stage::AppService] = Some(Nanos(7));
        sent.parts[Part::Nagle] = Some(Nanos(0));
        sent.ack_with_data = true;
        sent.min_rtt = Some(Nanos(20_000_000));
        sent.stamps.entry = Some(Timestamp::from_nanos(1_000));
        sent.stamps.snd_last = Some(Timestamp::from_nanos(2_200));
        sent.opened = Some(Opened::Accepted);
        sent.cpu = Some(3);
        sent.container = "nginx.service".parse().ok().map(Arc::new);
        assert_eq!(sent.total(), Nanos(20_101_200));
        assert_eq!(
            serde_json::to_string(&sent).unwrap(),
            concat!(
                r#"{"version":1,"time_ns":1790000000000000001,"direction":"tx","pid":4242,"comm":"nginx","protocol":"tcp","#,
                r#""local":"10.0.0.1:443","remote":"[2001:db8::1]:50000","bytes":1448,"#,
                r#""stages":{"tx.copy":1200,"tx.queue":0,"tx.network":20100000,"app.service":7},"#,
                r#""parts":{"tx.queue":{"nagle":0}},"total_ns":20101200,"sent_ns":1200,"#,
                r#""retransmits":1,"cookie":77,"seq_end":4294967295,"stamps":{"entry":1000,"snd_last":2200},"#,
                r#""verdict":"valid","weight":1,"repeats":2,"coalesced":true,"#,
                r#""interfaces":{"last":{"name":"eth0","index":2,"netns":4026531840}},"ack_with_data":true,"#,
                r#""pipelined":false,"min_rtt_ns":20000000,"netns":4026531840,"cgroup":4711,"#,
                r#""opened":"accepted","cpu":3,"container":"nginx.service"}"#,
            )
        );
    }

    #[test]
    fn the_port_of_the_service_is_at_the_end_that_was_connected_to() {
        let mut message = message(Direction::Tx);
        (message.flow.local, message.flow.remote) = (
            "10.0.0.1:8080".parse().unwrap(),
            "10.0.0.2:2000".parse().unwrap(),
        );
        for (opened, expected) in [
            (Some(Opened::Accepted), 8080),
            (Some(Opened::Connected), 2000),
            (None, 2000),
        ] {
            message.opened = opened;
            assert_eq!(message.service_port(), expected);
        }
        message.flow.local.set_port(53);
        assert_eq!(message.service_port(), 53);
    }

    #[test]
    fn slow_is_what_somebody_waited_for() {
        let slow_time = |direction, opened, stages: &[(Stage, u64)]| {
            let mut message = message(direction);
            message.opened = Some(opened);
            for &(stage, millis) in stages {
                message.stages[stage] = Some(Nanos(millis * 1_000_000));
            }
            message.slow_time().0 / 1_000_000
        };
        let sent = [
            (Stage::TxCopy, 1),
            (Stage::TxQueue, 2),
            (Stage::TxQdisc, 4),
            (Stage::TxNetwork, 40),
            (Stage::AppService, 60),
        ];
        // The client's own pause before it asks is nobody's wait.
        assert_eq!(slow_time(Direction::Tx, Opened::Connected, &sent), 7);
        assert_eq!(slow_time(Direction::Tx, Opened::Accepted, &sent), 60);
        let read = [(Stage::RxHol, 3), (Stage::RxApp, 5)];
        assert_eq!(slow_time(Direction::Rx, Opened::Connected, &read), 8);
        let answer = [(Stage::RxApp, 5), (Stage::PeerAnswer, 30)];
        assert_eq!(slow_time(Direction::Rx, Opened::Connected, &answer), 30);
        for stage in [Stage::ConnHandshake, Stage::ConnAccept] {
            let opening = [(stage, 11)];
            assert_eq!(slow_time(stage.direction(), Opened::Accepted, &opening), 11);
        }
    }

    #[test]
    fn a_message_is_slow_above_the_limit_if_its_time_is_known() {
        let mut message = message(Direction::Rx);
        message.stages[Stage::RxApp] = Some(Nanos(100));
        assert!(message.is_slow(Nanos(99)) && !message.is_slow(Nanos(100)));
        message.verdict = Verdict::ClockStep;
        assert!(!message.is_slow(Nanos(99)));
    }

    #[test]
    fn json_of_a_received_message_is_as_documented() {
        let mut received = message(Direction::Rx);
        received.weight = 8;
        received.verdict = Verdict::ClockStep;
        received.unpaired = Some(Unpaired::Stream);
        received.oldest_age = Some(Nanos(5_000));
        received.stages[Stage::RxStack] = Some(Nanos(900));
        received.stages[Stage::PeerAnswer] = Some(Nanos(50_000));
        received.parts[Part::Peer] = Some(Nanos(50_000));
        received.stamps.read = Some(Timestamp::from_nanos(9_000));
        assert_eq!(
            serde_json::to_string(&received).unwrap(),
            concat!(
                r#"{"version":1,"time_ns":1790000000000000001,"direction":"rx","pid":4242,"comm":"nginx","protocol":"tcp","#,
                r#""local":"10.0.0.1:443","remote":"[2001:db8::1]:50000","bytes":1448,"#,
                r#""stages":{"rx.stack":900,"peer.answer":50000},"parts":{"peer.answer":{"peer":50000}},"total_ns":900,"#,
                r#""retransmits":0,"cookie":77,"seq_end":4294967295,"stamps":{"read":9000},"#,
                r#""verdict":"clock-step","weight":8,"repeats":0,"coalesced":false,"pipelined":false,"unpaired":"stream","oldest_age_ns":5000,"#,
                r#""netns":4026531840,"cgroup":4711}"#,
            )
        );
    }

    #[test]
    fn stamps_are_all_named() {
        let stamp = Some(Timestamp::from_nanos(1));
        let all = Stamps {
            entry: stamp,
            queued: stamp,
            sched: stamp,
            sched_last: stamp,
            snd: stamp,
            snd_last: stamp,
            snd_hw: None,
            ack: stamp,
            rx_software: stamp,
            filled: stamp,
            ready: stamp,
            read: stamp,
        };
        assert!(all.times().iter().all(Option::is_some));
    }
}
