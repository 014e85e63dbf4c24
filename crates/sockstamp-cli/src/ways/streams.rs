//! The messages of TCP, by their bytes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use sockstamp_model::message::Message;
use sockstamp_model::packet::{MessageName, Way};

use super::side::{MESSAGES, Side, name, side};

#[derive(Debug)]
struct Range {
    begin: u64,
    name: MessageName,
}

/// Messages by the position after their last byte: a sequence number with the wraps before it.
#[derive(Debug, Default)]
struct Stream {
    last: Option<u64>,
    ranges: BTreeMap<u64, Range>,
}

impl Stream {
    /// Return the position nearest to the last one that has this sequence number.
    fn position(&self, sequence: u32) -> u64 {
        // Far from zero, so a message may begin before it.
        let last = self.last.unwrap_or(1 << 40);
        #[expect(clippy::cast_possible_truncation, reason = "the low half")]
        let ahead = sequence.wrapping_sub(last as u32).cast_signed();
        last.saturating_add_signed(i64::from(ahead))
    }
}

/// The messages of all connections, of each direction.
#[derive(Debug, Default)]
pub(super) struct Streams {
    sides: HashMap<Side, Stream>,
    /// The oldest first.
    order: VecDeque<(Side, u64)>,
}

impl Streams {
    pub(super) fn message(&mut self, message: &Message) {
        if message.bytes == 0 {
            return;
        }
        let side = side(&message.flow, message.direction);
        let stream = self.sides.entry(side).or_default();
        let end = stream.position(message.seq_end);
        let range = Range {
            begin: end.saturating_sub(message.bytes),
            name: name(message, Some(message.seq_end)),
        };
        stream.last = Some(end);
        stream.ranges.insert(end, range);
        self.order.push_back((side, end));
        if self.order.len() > MESSAGES {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((side, end)) = self.order.pop_front() else {
            return;
        };
        if let Some(stream) = self.sides.get_mut(&side) {
            stream.ranges.remove(&end);
            if stream.ranges.is_empty() {
                self.sides.remove(&side);
            }
        }
    }

    /// Find the message that has the packet's last byte.
    pub(super) fn message_of(&self, way: &Way) -> Option<MessageName> {
        let packet = &way.packet;
        let headers = packet.headers().filter(|headers| headers.payload > 0)?;
        let stream = self.sides.get(&side(&packet.flow, packet.direction))?;
        let last = stream.position(headers.segment?.seq.wrapping_add(headers.payload - 1));
        let (_, range) = stream.ranges.range(last + 1..).next()?;
        (range.begin <= last).then_some(range.name)
    }
}
