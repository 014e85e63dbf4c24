//! Show one group's flows and their last messages, from records made while it is on the screen.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use sockstamp_model::Flow;
use sockstamp_model::flow::canonical;
use sockstamp_model::group::{GroupDirection, GroupKey, GroupSummary};
use sockstamp_model::message::Message;
use sockstamp_model::part::PartSummary;
use sockstamp_model::stage::Direction;

use super::table::{Key, Row};

/// More flows than anybody reads; each holds its last messages.
const FLOWS: usize = 500;
/// Screens of them.
const MESSAGES: usize = 100;

/// A message with a number of its own, by which the cursor finds it again.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) message: Message,
}

#[derive(Debug, Default)]
struct FlowLog {
    /// Counts of the current interval.
    counted: GroupSummary,
    /// The row of the last interval.
    row: Option<Row>,
    /// The newest first.
    messages: VecDeque<Numbered>,
}

/// The flows of a group.
#[derive(Debug)]
pub(super) struct Drill {
    key: GroupKey,
    name: String,
    flows: HashMap<Flow, FlowLog>,
    numbers: u64,
    left_out: u64,
}

impl Drill {
    pub(super) fn new(key: GroupKey, name: String) -> Self {
        Self {
            key,
            name,
            flows: HashMap::new(),
            numbers: 0,
            left_out: 0,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Return the number of messages of flows without room.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// A message of this group; those of others are left out.
    pub(super) fn add(&mut self, group: &GroupKey, message: Message) {
        if *group != self.key {
            return;
        }
        if self.flows.len() >= FLOWS && !self.flows.contains_key(&message.flow) {
            self.left_out += 1;
            return;
        }
        let log = self.flows.entry(message.flow).or_default();
        let half = match message.direction {
            Direction::Tx => &mut log.counted.tx,
            Direction::Rx => &mut log.counted.rx,
        };
        count(half, &message);
        log.messages.truncate(MESSAGES - 1);
        let number = self.numbers;
        log.messages.push_front(Numbered { number, message });
        self.numbers += 1;
    }

    /// The interval is over. Flows that were silent in it give way where room is short.
    pub(super) fn turn(&mut self, time: Duration) {
        let full = self.flows.len() >= FLOWS;
        self.flows
            .retain(|_, log| !full || log.counted.messages() > 0);
        for (&flow, log) in &mut self.flows {
            let counted = std::mem::take(&mut log.counted);
            log.row = Some(Row::new(Key::Flow(flow), name(&flow), &counted, time));
        }
    }

    /// Discard the counts of this interval, because it is not complete.
    pub(super) fn restart(&mut self) {
        for log in self.flows.values_mut() {
            log.counted = GroupSummary::default();
        }
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        self.flows
            .values()
            .filter_map(|log| log.row.clone())
            .collect()
    }

    /// Return the last messages of a flow, the newest first.
    pub(super) fn messages(&self, flow: &Flow) -> impl Iterator<Item = &Numbered> {
        self.flows
            .get(flow)
            .into_iter()
            .flat_map(|log| &log.messages)
    }
}

fn count(half: &mut GroupDirection, message: &Message) {
    let weight = u64::from(message.weight);
    if message.is_connection() {
        if message.verdict.is_valid() {
            count_stages(half, message, weight);
        }
        return;
    }
    half.messages += weight;
    half.measured += 1;
    half.bytes += message.bytes * weight;
    half.retransmits += u64::from(message.retransmits) * weight;
    if !message.verdict.is_valid() {
        half.refused += 1;
        return;
    }
    count_stages(half, message, weight);
    for (part, duration) in message.parts.iter() {
        if let Some(duration) = *duration {
            half.parts[part]
                .get_or_insert_default()
                .merge(&PartSummary {
                    count: weight,
                    sum_ns: u128::from(duration.0) * u128::from(weight),
                    max_ns: Some(duration),
                });
        }
    }
    if message.direction == Direction::Tx {
        half.sent.record(message.time(), weight);
    }
    half.total.record(message.total(), weight);
}

fn count_stages(half: &mut GroupDirection, message: &Message, weight: u64) {
    for (stage, &duration) in message.stages.present() {
        half.stages[stage]
            .get_or_insert_default()
            .record(duration, weight);
    }
}

/// Short; the far end last, where it stays when the name is cut.
fn name(flow: &Flow) -> String {
    format!(":{} > {}", flow.local.port(), canonical(flow.remote))
}

#[cfg(test)]
mod tests {
    use sockstamp_model::Verdict;

    use super::*;
    use crate::sample;

    const SECOND: Duration = Duration::from_secs(1);

    fn redis() -> Drill {
        Drill::new(sample::redis(), "redis-server 6379".to_owned())
    }

    #[test]
    fn flows_are_those_of_the_group() {
        let mut drill = redis();
        for message in sample::messages() {
            drill.add(&sample::redis(), message);
        }
        drill.add(&sample::key("redis-server", 6380), sample::message(1));
        drill.add(&GroupKey::default(), sample::message(1));
        drill.turn(SECOND);
        let rows = drill.rows();
        assert_eq!(rows.len(), 2);
        let messages: u64 = rows
            .iter()
            .map(|row| row.tx.messages + row.rx.messages)
            .sum();
        assert_eq!(messages, sample::messages().len() as u64);
    }

    #[test]
    fn weights_count_and_refused_ones_have_no_time() {
        let mut drill = redis();
        let mut message = sample::message(1);
        message.weight = 8;
        drill.add(&sample::redis(), message.clone());
        message.verdict = Verdict::Hol;
        drill.add(&sample::redis(), message);
        drill.turn(SECOND);
        let row = drill.rows().remove(0);
        let half = row.half(sample::message(1).direction);
        assert_eq!((half.messages, half.refused), (16, 1));
        let total = sample::message(1).total();
        assert_eq!(half.total.sum_ns, 8 * u128::from(total.0));
    }

    #[test]
    fn the_last_messages_stay() {
        let mut drill = redis();
        for _ in 0..MESSAGES + 5 {
            drill.add(&sample::redis(), sample::message(1));
        }
        let numbers: Vec<_> = drill
            .messages(&sample::message(1).flow)
            .map(|entry| entry.number)
            .collect();
        assert_eq!((numbers.len(), numbers[0], numbers[99]), (MESSAGES, 104, 5));
    }

    #[test]
    fn flows_without_room_are_counted_until_silent_ones_are_dropped() {
        let mut drill = redis();
        let of = |port: u16| {
            let mut message = sample::message(1);
            message.flow.remote.set_port(port);
            message
        };
        for port in 1..=502 {
            drill.add(&sample::redis(), of(port));
        }
        assert_eq!(drill.left_out(), 2);
        drill.turn(SECOND);
        drill.add(&sample::redis(), of(7));
        drill.turn(SECOND);
        assert_eq!(drill.rows().len(), 1);
        drill.add(&sample::redis(), of(501));
        assert_eq!(drill.left_out(), 2);
    }
}
