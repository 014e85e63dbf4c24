//! Convert the types of `abi.h` for user space.

use std::ffi::c_char;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sockstamp_model::clock::{Clock, ClockOffset, Monotonic, Nanos, Realtime, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Opened, Protocol, SocketCookie};
use sockstamp_model::interface::Interface;
use sockstamp_model::message::{Interfaces, Message, Stamps};
use sockstamp_model::name::Name;
use sockstamp_model::part::{Part, PartMap, PartSummary};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::unpaired::Unpaired;
use sockstamp_model::verdict::Verdict;

pub(crate) use raw::{bank as Bank, message_record as Record};

#[expect(
    non_camel_case_types,
    unreachable_pub,
    dead_code,
    reason = "generated from C, with C's names"
)]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    unsafe_code,
    unused_qualifications,
    reason = "generated from C"
)]
pub(crate) mod raw {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// `STAGE_ABSENT` of abi.h; bindgen does not evaluate its `~`.
const STAGE_ABSENT: u64 = u64::MAX;

/// The bytes of a field of a map's key or value, as C has laid it out.
pub(crate) fn field<const LENGTH: usize>(element: &[u8], offset: usize) -> Option<[u8; LENGTH]> {
    element.get(offset..)?.first_chunk().copied()
}

/// `DISTRIBUTION_TOTAL` of abi.h; bindgen does not evaluate macros with arguments.
pub(crate) const fn total(direction: Direction) -> usize {
    Stage::OF_ONE_HOST + direction as usize
}

/// `DISTRIBUTION_SENT` of abi.h; bindgen does not evaluate its sum.
pub(crate) const SENT: usize = Stage::OF_ONE_HOST + Direction::ALL.len();

/// `RTT_UNKNOWN` of abi.h.
const RTT_UNKNOWN: u32 = u32::MAX;

const AF_INET6: u16 = 10;

/// The model's view of a record. `None` if a field has a value that no version of ours writes.
pub(crate) fn message(
    record: &Record,
    to_realtime: ClockOffset<Monotonic, Realtime>,
) -> Option<Message> {
    let direction = match u32::from(record.direction) {
        raw::direction::DIRECTION_TX => Direction::Tx,
        raw::direction::DIRECTION_RX => Direction::Rx,
        _ => return None,
    };
    let stamps = stamps(record, direction);
    Some(Message {
        direction,
        flow: flow(&record.flow),
        cgroup: CgroupId(record.flow.cgroup),
        container: None,
        opened: opened(&record.flow),
        group: Some(record.group),
        pid: record.flow.pid,
        comm: comm(&record.flow),
        cpu: record.cpu.checked_sub(1),
        bytes: u64::from(record.bytes),
        weight: record.weight,
        retransmits: record.retransmits,
        repeats: record.repeats.into(),
        coalesced: flag(record, raw::message_flags::MESSAGE_COALESCED),
        ack_with_data: flag(record, raw::message_flags::MESSAGE_ACK_WITH_DATA),
        unpaired: unpaired(record.unpaired)?,
        clock_error: None,
        nic_bound: None,
        min_rtt: (record.min_rtt_us != RTT_UNKNOWN)
            .then(|| Nanos(u64::from(record.min_rtt_us) * 1000)),
        seq_end: record.seq_end,
        parts: parts(record),
        stages: stages(record),
        oldest_age: oldest_age(record, direction),
        stamps,
        time: to_realtime.convert(Timestamp::from_nanos(record.time)),
        interfaces: Interfaces {
            first: interface(&record.interface_first),
            last: interface(&record.interface_last),
        },
        verdict: *Verdict::ALL.get(usize::from(record.verdict))?,
    })
}

/// `NO_PAIR()` of abi.h, reversed. `None` where no version of ours writes it.
fn unpaired(raw: u8) -> Option<Option<Unpaired>> {
    let Some(index) = raw.checked_sub(1) else {
        return Some(None);
    };
    Unpaired::ALL.get(usize::from(index)).copied().map(Some)
}

pub(crate) fn part_summary(raw: &raw::part_sum) -> PartSummary {
    PartSummary {
        count: raw.count,
        sum_ns: u128::from(raw.sum_ns),
        max_ns: Some(Nanos(raw.max_ns)),
    }
}

fn stamp<C: Clock>(nanos: u64) -> Option<Timestamp<C>> {
    (nanos != 0).then(|| Timestamp::from_nanos(nanos))
}

fn stamps(record: &Record, direction: Direction) -> Stamps {
    match direction {
        Direction::Tx => {
            let tx = record.tx_stamps();
            Stamps {
                entry: stamp(tx.entry),
                queued: stamp(tx.queued),
                sched: stamp(tx.sched),
                sched_last: stamp(tx.sched_last),
                snd: stamp(tx.snd),
                snd_last: stamp(tx.snd_last),
                snd_hw: stamp(tx.snd_hw),
                ack: stamp(tx.ack),
                ..Stamps::default()
            }
        }
        Direction::Rx => {
            let rx = record.rx_stamps();
            Stamps {
                rx_software: stamp(rx.software),
                filled: stamp(rx.filled),
                ready: stamp(rx.ready),
                read: stamp(rx.read),
                ..Stamps::default()
            }
        }
    }
}

fn stages(record: &Record) -> StageMap<Option<Nanos>> {
    StageMap::from_fn(|stage| {
        let nanos = *record.stages.get(stage as usize)?;
        (nanos != STAGE_ABSENT).then_some(Nanos(nanos))
    })
}

fn flag(record: &Record, flag: raw::message_flags::Type) -> bool {
    u32::from(record.flags) & flag != 0
}

/// The parts by their places in the kernel's arrays.
static PARTS: [Part; Part::COUNTED] = {
    let mut parts = [Part::Copy; Part::COUNTED];
    let mut at = 0;
    while at < Part::COUNT {
        if let Some(index) = Part::ALL[at].counted_index() {
            parts[index] = Part::ALL[at];
        }
        at += 1;
    }
    parts
};

/// The rest of each stage that has parts.
static RESTS: [Option<Part>; Stage::OF_ONE_HOST] = {
    let mut rests = [None; Stage::OF_ONE_HOST];
    let mut at = 0;
    while at < Part::COUNT {
        if Part::ALL[at].is_rest() {
            rests[Part::ALL[at].stage() as usize] = Some(Part::ALL[at]);
        }
        at += 1;
    }
    rests
};

/// Parts that took no time are left out, but for the rest of their stage, so that they add up to
/// it.
fn parts(record: &Record) -> PartMap<Option<Nanos>> {
    let mut parts = PartMap::default();
    if u32::from(record.verdict) != raw::verdict::VERDICT_VALID {
        return parts;
    }
    let mut left = record.stages;
    let counted = PARTS.iter().zip(&record.parts);
    for (part, duration) in counted.filter(|(_, duration)| **duration > 0) {
        parts[*part] = Some(Nanos(*duration));
        let stage = &mut left[part.stage() as usize];
        *stage = stage.saturating_sub(*duration);
    }
    for (rest, (stage, left)) in RESTS.iter().zip(record.stages.iter().zip(left)) {
        if let (Some(rest), true) = (*rest, *stage != STAGE_ABSENT) {
            parts[rest] = Some(Nanos(left));
        }
    }
    parts
}

fn oldest_age(record: &Record, direction: Direction) -> Option<Nanos> {
    let rx = (direction == Direction::Rx).then(|| record.rx_stamps())?;
    Nanos(rx.read).checked_sub(Nanos(stamp::<Monotonic>(rx.oldest)?.as_nanos()))
}

/// A key of groups that leaves the protocol out has that of TCP.
pub(crate) fn flow(identity: &raw::flow_identity) -> Flow {
    let address = |bytes: [u8; 16]| -> IpAddr {
        if identity.family == AF_INET6 {
            Ipv6Addr::from(bytes).into()
        } else {
            Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
        }
    };
    Flow {
        netns: NetnsInode(identity.netns),
        protocol: Protocol::from_number(identity.protocol).unwrap_or(Protocol::Tcp),
        local: SocketAddr::new(address(identity.local_address), identity.local_port),
        remote: SocketAddr::new(address(identity.remote_address), identity.remote_port),
        cookie: SocketCookie(identity.cookie),
    }
}

pub(crate) fn opened(identity: &raw::flow_identity) -> Option<Opened> {
    match u32::from(identity.opened_by) & !raw::opened_by::OPENED_EARLIER {
        raw::opened_by::OPENED_BY_US => Some(Opened::Connected),
        raw::opened_by::OPENED_BY_PEER => Some(Opened::Accepted),
        _ => None,
    }
}

/// Return true for a connection that was adopted: it is older than the measurement.
pub(crate) fn is_adopted(identity: &raw::flow_identity) -> bool {
    u32::from(identity.opened_by) & raw::opened_by::OPENED_EARLIER != 0
}

pub(crate) fn comm(identity: &raw::flow_identity) -> Name {
    Name::from_c(&letters(identity.comm))
}

/// Return C's `char`, which has a sign on x86-64 and none on arm64, as bytes.
fn letters<const N: usize>(text: [c_char; N]) -> [u8; N] {
    text.map(|letter| u8::from_ne_bytes(letter.to_ne_bytes()))
}

fn interface(name: &raw::interface_name) -> Option<Interface> {
    (name.index != 0).then(|| Interface {
        name: Name::from_c(&letters(name.name)),
        index: name.index,
        netns: NetnsInode(name.netns),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Draw a duration, of which many are none.
    fn durations(none: u64) -> impl Strategy<Value = u64> {
        prop_oneof![Just(none), 0..10_u64, any::<u64>()]
    }

    fn array<const N: usize>(each: impl Strategy<Value = u64>) -> impl Strategy<Value = [u64; N]> {
        prop::collection::vec(each, N).prop_map(|drawn| drawn.try_into().expect("N were drawn"))
    }

    proptest! {
        #[test]
        fn each_part_has_its_place_and_the_rest_what_is_left(
            stages in array(durations(STAGE_ABSENT)),
            counted in array(durations(0)),
        ) {
            let record = Record { stages, parts: counted, ..Record::default() };
            let parts = parts(&record);
            for part in Part::ALL.into_iter().filter(|part| !part.is_rest()) {
                let duration = part.counted_index().map(|index| Nanos(counted[index]));
                prop_assert_eq!(parts[part], duration.filter(|duration| *duration > Nanos::ZERO));
            }
            for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
                let others = parts.of(rest.stage()).filter(|(part, _)| *part != rest);
                let others: Nanos = others.map(|(_, duration)| *duration).sum();
                let stage = stages[rest.stage() as usize];
                let left = (stage != STAGE_ABSENT).then(|| Nanos(stage).saturating_sub(others));
                prop_assert_eq!(parts[rest], left);
            }
        }
    }

    #[test]
    fn a_refused_message_has_no_parts() {
        let record = Record {
            verdict: u8::try_from(raw::verdict::VERDICT_RESET).unwrap(),
            parts: [7; Part::COUNTED],
            ..Record::default()
        };
        assert_eq!(parts(&record), PartMap::default());
    }
}
