//! Packets between the messages of `trace`, each with the message whose bytes it carries.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::flow::{Flow, NetnsInode, Protocol, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::packet::{Ids, Packet, PacketStage};
use sockstamp_model::stage::Direction;

use crate::line;

/// Packets wait so long for the message that they belong to, which ends with its acknowledgement or
/// its read.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Packets that wait at most: some tens of megabytes.
const WAITING: usize = 65_536;
/// Messages that are remembered of a flow and direction, and flows.
const MESSAGES: usize = 256;
const FLOWS: usize = 4_096;

type Side = (NetnsInode, SocketAddr, SocketAddr, Direction);

fn side(flow: &Flow, direction: Direction) -> Side {
    (
        flow.netns,
        canonical(flow.local),
        canonical(flow.remote),
        direction,
    )
}

/// The bytes of a message, as sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    end: u32,
}

/// A packet, and when it was at each stage: of its segments, and at further interfaces, the last.
#[derive(Debug)]
pub(super) struct Way {
    id: u64,
    packet: Packet,
    stamps: [Option<Timestamp<Realtime>>; PacketStage::ALL.len()],
    message: Option<Range>,
}

/// Packets that wait for their messages.
#[derive(Debug, Default)]
pub(super) struct Packets {
    ids: Ids,
    ways: BTreeMap<(u64, bool), Way>,
    messages: HashMap<Side, VecDeque<Range>>,
}

impl Packets {
    /// Take a packet at a stage; they come in the order of their times.
    pub(super) fn packet(&mut self, packet: &Packet) {
        let (id, _) = self.ids.id(packet);
        let new = || Way {
            id,
            packet: packet.clone(),
            stamps: Default::default(),
            message: None,
        };
        let way = self.ways.entry((id, packet.direction == Direction::Rx));
        way.or_insert_with(new).stamps[packet.stage as usize] = Some(packet.time);
    }

    /// Take a message of TCP; datagrams have no sequence numbers to tell them by.
    pub(super) fn message(&mut self, message: &Message) {
        if message.flow.protocol != Protocol::Tcp || message.is_connection() {
            return;
        }
        let Ok(bytes) = u32::try_from(message.bytes) else {
            return;
        };
        let side = side(&message.flow, message.direction);
        if self.messages.len() >= FLOWS && !self.messages.contains_key(&side) {
            self.messages.clear();
        }
        let all = self.messages.entry(side).or_default();
        if all.len() == MESSAGES {
            all.pop_front();
        }
        all.push_back(Range {
            first: message.seq_end.wrapping_sub(bytes),
            end: message.seq_end,
        });
    }

    /// Return the packets that have waited long enough at this time.
    pub(super) fn ready(&mut self, now: Timestamp<Realtime>) -> Vec<Way> {
        let mut ready = Vec::new();
        while let Some(way) = self.ways.first_entry() {
            let waited = now.since(way.get().packet.time);
            if waited.is_none_or(|waited| waited < PATIENCE) && self.ways.len() <= WAITING {
                break;
            }
            ready.extend(self.take_first());
        }
        ready
    }

    /// Return all packets.
    pub(super) fn rest(&mut self) -> Vec<Way> {
        std::iter::from_fn(|| self.take_first()).collect()
    }

    fn take_first(&mut self) -> Option<Way> {
        let (_, mut way) = self.ways.pop_first()?;
        way.message = self.message_of(&way.packet);
        Some(way)
    }

    /// Find the message that has the packet's last byte.
    fn message_of(&self, packet: &Packet) -> Option<Range> {
        let headers = packet.headers().filter(|headers| headers.payload > 0)?;
        let last = headers.segment?.seq.wrapping_add(headers.payload - 1);
        let messages = self.messages.get(&side(&packet.flow, packet.direction))?;
        let has = |range: &&Range| last.wrapping_sub(range.first) < range.end.wrapping_sub(range.first);
        messages.iter().rev().find(has).copied()
    }
}

impl Way {
    fn present(&self) -> impl Iterator<Item = (PacketStage, Timestamp<Realtime>)> {
        let stamps = PacketStage::ALL.into_iter().zip(self.stamps);
        stamps.filter_map(|(stage, stamp)| Some((stage, stamp?)))
    }

    /// Write it as a line of text, without its end.
    pub(super) fn text(&self, text: &mut Vec<u8>) {
        let packet = &self.packet;
        text.extend_from_slice(line::time_of_day(packet.time.as_nanos()).as_bytes());
        let (pid, direction) = (packet.pid.unwrap_or(0), packet.direction.name());
        line::show(
            text,
            &format_args!(" {direction} packet {} {pid}/{} ", self.id, packet.comm),
        );
        line::address(text, packet.flow.local);
        line::text(text, " → ");
        line::address(text, packet.flow.remote);
        let headers = packet.headers();
        let payload = headers.map_or(packet.length, |headers| headers.payload);
        line::show(text, &format_args!(" {payload} B"));
        let mut before = None;
        for (stage, stamp) in self.present() {
            line::show(text, &format_args!("  {stage}"));
            if let Some(wait) = before.and_then(|before| stamp.since(before)) {
                line::show(text, &format_args!(" +{}", wait.text()));
            }
            before = Some(stamp);
        }
        if let Some(segment) = headers.and_then(|headers| headers.segment) {
            line::show(text, &format_args!("  seq {}", segment.seq));
        }
        if let Some(offset) = headers.and_then(|headers| headers.fragment) {
            line::show(text, &format_args!("  fragment at {offset}"));
        }
        if let Some(segments) = packet.segments {
            line::show(text, &format_args!("  gso {}x{}", segments.count, segments.size));
        }
        if let Some(message) = self.message {
            line::show(text, &format_args!("  message to {}", message.end));
        }
    }

    /// Return the object of JSON.
    pub(super) fn json(&self) -> Value {
        let packet = &self.packet;
        let headers = packet.headers();
        let segment = headers.and_then(|headers| headers.segment);
        let stamps: Map<String, Value> = self
            .present()
            .map(|(stage, stamp)| (stage.name().to_owned(), stamp.as_nanos().into()))
            .collect();
        json!({
            "packet": self.id,
            "time_ns": packet.time,
            "direction": packet.direction.name(),
            "pid": packet.pid,
            "comm": packet.comm,
            "protocol": packet.flow.protocol,
            "local": canonical(packet.flow.local),
            "remote": canonical(packet.flow.remote),
            "netns": packet.flow.netns,
            "cookie": packet.flow.cookie,
            "interface": packet.interface.name,
            "length": packet.length,
            "payload": headers.map(|headers| headers.payload),
            "seq": segment.map(|segment| segment.seq),
            "flags": segment.map(|segment| segment.flags),
            "ip_id": headers.and_then(|headers| headers.id),
            "fragment": headers.and_then(|headers| headers.fragment),
            "segment_size": packet.segments.map(|segments| segments.size),
            "segments": packet.segments.map(|segments| segments.count),
            "stamps": stamps,
            "seq_end": self.message.map(|message| message.end),
        })
    }
}
