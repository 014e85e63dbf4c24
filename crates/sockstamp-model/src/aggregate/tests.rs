use proptest::prelude::*;

use super::*;
use crate::clock::Timestamp;
use crate::flow::{CgroupId, Flow, NetnsInode, SocketCookie};
use crate::histogram::{self, BUCKETS, Bucket, Histogram};
use crate::message::{Interfaces, Stamps};
use crate::name::Name;
use crate::part::{Part, PartMap, PartSummary};
use crate::stage::StageMap;
use crate::summary::DirectionSummary;
use crate::unpaired::{Unpaired, UnpairedCounts};
use crate::verdict::Verdict;

/// A distribution as the programs keep it: `histogram_add()` of histogram.bpf.h.
#[derive(Clone)]
struct Distribution([Bucket; BUCKETS]);

impl Default for Distribution {
    fn default() -> Self {
        Self([Bucket::default(); BUCKETS])
    }
}

impl Distribution {
    fn add(&mut self, duration: Nanos, weight: u64) {
        let slot = histogram::slot(duration.0);
        let bucket = &mut self.0[slot];
        // The programs keep no shortest duration of the zero bucket, where 0 may be one; a message
        // tells it.
        if bucket.count == 0 || duration.0 < bucket.min_ns {
            bucket.min_ns = duration.0;
        }
        bucket.count += weight;
        bucket.sum_ns += u128::from(duration.0) * u128::from(weight);
        bucket.max_ns = bucket.max_ns.max(duration.0);
    }

    fn histogram(&self) -> Histogram {
        Histogram::from_buckets(|slot| self.0[slot])
    }

    fn present(&self) -> Option<Histogram> {
        let histogram = self.histogram();
        (histogram.count() > 0).then_some(histogram)
    }
}

/// Counters of one direction, as in `struct bank` of abi.h, and reads by protocol.
#[derive(Clone, Default)]
struct Bank {
    messages: u64,
    bytes: u64,
    measured: u64,
    unpaired: UnpairedCounts,
    retransmits: u64,
    stages: StageMap<Distribution>,
    sent: Distribution,
    total: Distribution,
    parts: PartMap<PartSummary>,
    reads: [(Distribution, Distribution); 2],
}

impl Bank {
    fn count(&mut self, message: &Message) {
        let weight = u64::from(message.weight);
        self.messages += weight;
        self.bytes += message.bytes * weight;
        self.measured += 1;
        self.retransmits += u64::from(message.retransmits) * weight;
        if !message.verdict.is_valid() {
            return;
        }
        if let Some(reason) = message.unpaired {
            self.unpaired[reason] += weight;
        }
        let (mut total, mut sent) = (0, 0);
        for stage in Stage::ALL {
            let Some(duration) = message.stages[stage] else {
                continue;
            };
            self.stages[stage].add(duration, weight);
            if !stage.is_between_messages() {
                total += duration.0;
            }
            if message.direction == Direction::Tx && stage.has_share() {
                sent += duration.0;
            }
        }
        if message.direction == Direction::Tx {
            self.sent.add(Nanos(sent), weight);
        }
        self.total.add(Nanos(total), weight);
        if message.direction == Direction::Rx {
            let (enqueued, read) =
                &mut self.reads[usize::from(message.flow.protocol == Protocol::Udp)];
            enqueued.add(message.stages[Stage::RxStack].unwrap(), weight);
            read.add(Nanos(total), weight);
        }
        for part in Part::ALL.into_iter().filter(|part| !part.is_rest()) {
            // part_add() of histogram.bpf.h
            let Some(duration) = message.parts[part].filter(|duration| duration.0 > 0) else {
                continue;
            };
            let sum = &mut self.parts[part];
            sum.count += weight;
            sum.sum_ns += u128::from(duration.0) * u128::from(weight);
            sum.max_ns = sum.max_ns.max(Some(duration));
        }
    }

    fn agrees_with(&self, summary: &DirectionSummary) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.messages, summary.messages);
        prop_assert_eq!(self.bytes, summary.bytes);
        prop_assert_eq!(self.measured, summary.measured);
        prop_assert_eq!(self.unpaired, summary.unpaired);
        prop_assert_eq!(self.retransmits, summary.retransmits);
        prop_assert_eq!(self.sent.histogram(), summary.sent.clone());
        prop_assert_eq!(self.total.histogram(), summary.total.clone());
        for stage in Stage::ALL {
            prop_assert_eq!(
                self.stages[stage].present(),
                summary.stages[stage].clone(),
                "{}",
                stage
            );
        }
        for part in Part::ALL {
            let found = summary.parts[part];
            if part.is_rest() {
                let others: u128 = Part::of(part.stage())
                    .map(|other| self.parts[other].sum_ns)
                    .sum();
                let rest = self.stages[part.stage()]
                    .present()
                    .map(|stage| (stage.count(), stage.sum_ns() - others));
                prop_assert_eq!(
                    rest,
                    found.map(|rest| (rest.count, rest.sum_ns)),
                    "{}",
                    part
                );
            } else {
                let counted = Some(self.parts[part]).filter(|sum| sum.count > 0);
                prop_assert_eq!(counted, found, "{}", part);
            }
        }
        let cumulative = [&summary.cumulative.tcp, &summary.cumulative.udp];
        for ((enqueued, read), found) in self.reads.iter().zip(cumulative) {
            let found = found
                .as_ref()
                .map(|reads| (reads.enqueued.clone(), reads.read.clone()));
            prop_assert_eq!(enqueued.present().zip(read.present()), found);
        }
        Ok(())
    }
}

fn duration() -> impl Strategy<Value = Nanos> {
    // Generate values of all magnitudes, including the zero bucket and the overflow.
    (0..38_u32, any::<u64>()).prop_map(|(bits, value)| Nanos(value & ((1 << bits) - 1)))
}

fn interface() -> impl Strategy<Value = Option<Interface>> {
    let some = (0..3_u32).prop_map(|index| Interface {
        name: Name::from(format!("eth{index}")),
        index,
        netns: NetnsInode(7),
    });
    proptest::option::of(some)
}

prop_compose! {
    fn message()(
        sent in any::<bool>(),
        udp in any::<bool>(),
        refused in proptest::option::weighted(0.2, 1..Verdict::COUNT),
        weight in 1..1000_u32,
        bytes in 0..100_000_u64,
        retransmits in 0..3_u32,
        unpaired in proptest::option::of(0..Unpaired::COUNT),
        service in proptest::option::of(duration()),
        first in proptest::option::of(duration()),
        wakeup in proptest::option::of(duration()),
        durations in proptest::array::uniform3(duration()),
        shares in proptest::array::uniform4(0..10_u64),
        last in interface(),
    ) -> Message {
        let mut stages = StageMap::default();
        let mut parts = PartMap::default();
        let verdict = refused.map_or(Verdict::Valid, |index| Verdict::ALL[index]);
        let direction = if sent { Direction::Tx } else { Direction::Rx };
        if verdict.is_valid() && sent {
            stages[Stage::TxCopy] = first;
            stages[Stage::TxQueue] = Some(durations[0]);
            stages[Stage::TxQdisc] = Some(durations[1]);
            stages[Stage::TxNetwork] = Some(durations[2]);
            stages[Stage::AppService] = service;
            let named = [Part::Cwnd, Part::Pacing, Part::Excess, Part::DelayedAck];
            for (part, share) in named.into_iter().zip(shares) {
                parts[part] = stages[part.stage()].map(|stage| Nanos(stage.0 * share / 20));
            }
            for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
                let others: Nanos = Part::of(rest.stage()).filter_map(|part| parts[part]).sum();
                parts[rest] = stages[rest.stage()].map(|stage| Nanos(stage.0 - others.0));
            }
        } else if verdict.is_valid() {
            stages[Stage::RxStack] = Some(durations[0]);
            stages[Stage::RxHol] = first;
            stages[Stage::RxWakeup] = wakeup;
            stages[Stage::RxApp] = Some(durations[1]);
            stages[Stage::PeerAnswer] = service;
            parts[Part::Network] = service.map(|answer| Nanos(answer.0 * shares[0] / 20));
            parts[Part::Peer] = service
                .zip(parts[Part::Network])
                .map(|(answer, network)| Nanos(answer.0 - network.0));
        }
        Message {
            direction,
            flow: Flow {
                netns: NetnsInode(1),
                protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
                local: "10.0.0.1:1".parse().unwrap(),
                remote: "10.0.0.2:2".parse().unwrap(),
                cookie: SocketCookie(1),
            },
            cgroup: CgroupId(1),
            container: None,
            opened: None,
            group: None,
            pid: 1,
            comm: Name::from("a"),
            cpu: None,
            bytes,
            weight,
            retransmits: if sent { retransmits } else { 0 },
            repeats: 0,
            coalesced: false,
            ack_with_data: false,
            unpaired: unpaired.map(|reason| Unpaired::ALL[reason]),
            min_rtt: None,
            clock_error: None,
            nic_bound: None,
            seq_end: 0,
            stages,
            parts,
            stamps: Stamps::default(),
            oldest_age: None,
            time: Timestamp::from_nanos(1),
            interfaces: Interfaces { first: None, last },
            verdict,
        }
    }
}

proptest! {
    #[test]
    fn messages_are_summed_as_the_programs_sum_them(
        messages in proptest::collection::vec(message(), 0..60)
    ) {
        let mut banks = [Bank::default(), Bank::default()];
        let mut verdicts = BTreeMap::new();
        let mut interfaces = BTreeMap::new();
        let mut aggregate = Aggregate::new();
        for message in &messages {
            aggregate.record(message);
            banks[message.direction as usize].count(message);
            *verdicts.entry(message.verdict).or_insert(0) += u64::from(message.weight);
            if message.verdict.is_valid() && message.direction == Direction::Tx {
                let name = message.interfaces.last
                    .as_ref()
                    .map(|interface| interface.name.to_string());
                *interfaces.entry(name).or_insert(0) += u64::from(message.weight);
            }
        }
        let summary = aggregate.summary(Nanos(5));
        banks[0].agrees_with(&summary.tx)?;
        banks[1].agrees_with(&summary.rx)?;
        prop_assert_eq!(verdicts, summary.verdicts.clone());
        let found: BTreeMap<_, _> = summary
            .interfaces
            .iter()
            .map(|of| {
                let interface = of.interface.as_ref();
                (interface.map(|interface| interface.name.to_string()), of.messages)
            })
            .collect();
        prop_assert_eq!(interfaces, found);
        let interfaces = &summary.interfaces;
        let busiest_first = interfaces.is_sorted_by_key(|of| std::cmp::Reverse(of.messages));
        prop_assert!(busiest_first);
        prop_assert_eq!(summary.in_flight, 0);
    }
}
