//! Write waterfalls as a trace of Perfetto.
//!
//! The format is Perfetto's own (`protos/perfetto/trace/trace_packet.proto`, v50), not the JSON of
//! Chrome, which Perfetto reads too: JSON has microseconds as floating-point numbers, which
//! Perfetto truncates to nanoseconds (`json_utils.cc`, `CoerceToTs()`), and a stage that ends one
//! nanosecond after its message is dropped (`slice_drop_overlapping_complete_event`). It also has
//! no tracks but those of processes and threads. Only a few messages of the format are needed.

use std::collections::HashMap;
use std::io::{self, Write};

use sockstamp_explain::timeline::{Placed, Span, Timeline};
use sockstamp_metrics::wire::Fields;
use sockstamp_model::flow::{Flow, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::stage::{Direction, Stage};

use super::lanes::Lanes;

/// Numbers of fields, by the name of their message and field.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;
    pub(super) const PACKET_CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE: u32 = 10;
    pub(super) const PACKET_TRACK_EVENT: u32 = 11;
    pub(super) const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub(super) const PACKET_TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const SNAPSHOT_CLOCK: u32 = 1;
    pub(super) const CLOCK_ID: u32 = 1;
    pub(super) const CLOCK_TIMESTAMP: u32 = 2;
    pub(super) const TRACK_UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const TRACK_PARENT: u32 = 5;
    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_NAME: u32 = 23;
    pub(super) const ANNOTATION_NUMBER: u32 = 3;
    pub(super) const ANNOTATION_TEXT: u32 = 6;
    pub(super) const ANNOTATION_NAME: u32 = 10;
}

/// Tracks of a trace: a bound on the memory, far above what anybody can look at.
const TRACKS: usize = 1 << 19;

const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;
/// There is one writer, which remembers nothing between its packets.
const SEQUENCE: u64 = 1;
const INCREMENTAL_STATE_CLEARED: u64 = 1;

/// The type of an event.
#[derive(Debug, Clone, Copy)]
enum Type {
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// A row of tracks below a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    Sent,
    Read,
    Request,
    Service,
    Answer,
    Connection,
}

impl Row {
    const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sends",
            Self::Read => "reads",
            Self::Request => "requests",
            Self::Service => "service",
            Self::Answer => "answers",
            Self::Connection => "connection",
        }
    }

    const fn of(stage: Stage) -> Self {
        match stage {
            Stage::AppService => Self::Service,
            Stage::PeerAnswer | Stage::PeerRest => Self::Answer,
            Stage::ClientPause | Stage::ClientRequest => Self::Request,
            _ => Self::Connection,
        }
    }
}

/// A track that is in the trace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Track {
    Process(u32, Name),
    /// Below the process of this track.
    Flow(u64, Flow),
    /// A lane of a row, below the flow of this track.
    Lane(u64, Row, usize),
}

/// A trace that is written.
pub(super) struct Trace<W> {
    output: W,
    tracks: HashMap<Track, u64>,
    lanes: HashMap<(u64, Row), Lanes>,
    messages: u64,
}

impl<W: Write> Trace<W> {
    pub(super) fn new(output: W) -> Self {
        Self {
            output,
            tracks: HashMap::new(),
            lanes: HashMap::new(),
            messages: 0,
        }
    }

    /// Return the number of messages.
    pub(super) fn finish(self) -> (u64, W) {
        (self.messages, self.output)
    }

    pub(super) fn add(&mut self, message: &Message) -> io::Result<()> {
        if self.messages == 0 {
            self.clock(message.time.as_nanos())?;
        }
        self.messages += 1;
        let process = self.track(Track::Process(message.pid, message.comm.clone()))?;
        let flow = self.track(Track::Flow(process, message.flow))?;
        let timeline = Timeline::of(message);
        for placed in &timeline.between {
            let lane = self.lane(flow, Row::of(placed.stage), placed.span)?;
            self.placed(lane, placed)?;
        }
        let row = match message.direction {
            Direction::Tx => Row::Sent,
            Direction::Rx => Row::Read,
        };
        match timeline.span() {
            Some(span) => {
                let lane = self.lane(flow, row, span)?;
                self.slice(lane, span, &name(message), annotations(message), |trace| {
                    timeline
                        .way
                        .iter()
                        .try_for_each(|placed| trace.placed(lane, placed))
                })
            }
            None if message.is_connection() => Ok(()),
            None => {
                let at = message.time.as_nanos();
                let lane = self.lane(flow, row, Span { begin: at, end: at })?;
                let event = event(lane, Type::Instant).text(field::EVENT_NAME, &name(message));
                self.event(at, &annotated(event, annotations(message)))
            }
        }
    }

    fn placed(&mut self, track: u64, placed: &Placed) -> io::Result<()> {
        self.slice(
            track,
            placed.span,
            placed.stage.name(),
            Vec::new(),
            |trace| {
                for (part, span) in &placed.parts {
                    trace.slice(track, *span, part.name(), Vec::new(), |_| Ok(()))?;
                }
                Ok(())
            },
        )
    }

    fn slice(
        &mut self,
        track: u64,
        span: Span,
        name: &str,
        annotations: Vec<Fields>,
        inside: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let begin = event(track, Type::Begin).text(field::EVENT_NAME, name);
        self.event(span.begin, &annotated(begin, annotations))?;
        inside(self)?;
        self.event(span.end, &event(track, Type::End))
    }

    /// Return the track of a lane that is free for this time.
    fn lane(&mut self, flow: u64, row: Row, span: Span) -> io::Result<u64> {
        let lanes = self.lanes.entry((flow, row)).or_default();
        let lane = lanes.take(span.begin, span.end);
        self.track(Track::Lane(flow, row, lane))
    }

    fn track(&mut self, track: Track) -> io::Result<u64> {
        if let Some(&uuid) = self.tracks.get(&track) {
            return Ok(uuid);
        }
        if self.tracks.len() >= TRACKS {
            return Err(io::Error::other(format!(
                "it would have more than {TRACKS} processes, connections and lanes: choose slow messages \
                 by --slow, or fewer files"
            )));
        }
        // Zero is the track of a trace that none is named for.
        let uuid = self.tracks.len() as u64 + 1;
        let (name, parent) = match &track {
            Track::Process(pid, comm) => (format!("{comm}/{pid}"), None),
            Track::Flow(process, flow) => (name_of(flow), Some(*process)),
            // Perfetto shows tracks of one name and parent as one, with a line for each.
            Track::Lane(flow, row, _) => (row.name().to_owned(), Some(*flow)),
        };
        self.tracks.insert(track, uuid);
        let mut descriptor = Fields::new()
            .number(field::TRACK_UUID, uuid)
            .text(field::TRACK_NAME, &name);
        if let Some(parent) = parent {
            descriptor = descriptor.number(field::TRACK_PARENT, parent);
        }
        self.packet(Fields::new().message(field::PACKET_TRACK_DESCRIPTOR, &descriptor))?;
        Ok(uuid)
    }

    /// Say that times of the trace, which are CLOCK_BOOTTIME by default, are since 1970.
    fn clock(&mut self, time: u64) -> io::Result<()> {
        let snapshot = [BOOTTIME, REALTIME]
            .into_iter()
            .fold(Fields::new(), |snapshot, id| {
                let clock = Fields::new()
                    .number(field::CLOCK_ID, id)
                    .number(field::CLOCK_TIMESTAMP, time);
                snapshot.message(field::SNAPSHOT_CLOCK, &clock)
            });
        let packet = Fields::new()
            .message(field::PACKET_CLOCK_SNAPSHOT, &snapshot)
            .number(field::PACKET_SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        self.packet(packet)
    }

    fn event(&mut self, time: u64, event: &Fields) -> io::Result<()> {
        let packet = Fields::new()
            .number(field::PACKET_TIMESTAMP, time)
            .message(field::PACKET_TRACK_EVENT, event);
        self.packet(packet)
    }

    fn packet(&mut self, packet: Fields) -> io::Result<()> {
        let packet = packet.number(field::PACKET_SEQUENCE, SEQUENCE);
        let framed = Fields::new().message(field::TRACE_PACKET, &packet);
        self.output.write_all(framed.bytes())
    }
}

fn event(track: u64, kind: Type) -> Fields {
    Fields::new()
        .number(field::EVENT_TYPE, kind as u64)
        .number(field::EVENT_TRACK, track)
}

fn annotated(event: Fields, annotations: Vec<Fields>) -> Fields {
    annotations.iter().fold(event, |event, annotation| {
        event.message(field::EVENT_ANNOTATION, annotation)
    })
}

fn name(message: &Message) -> String {
    let verb = match message.direction {
        Direction::Tx => "send",
        Direction::Rx => "read",
    };
    match message.verdict.is_valid() {
        true => format!("{verb} {} B", message.bytes),
        false => format!("{verb} {} B: {}", message.bytes, message.verdict),
    }
}

fn name_of(flow: &Flow) -> String {
    let [local, remote] = [flow.local, flow.remote].map(canonical);
    format!("{} {local} → {remote}", flow.protocol)
}

fn annotations(message: &Message) -> Vec<Fields> {
    let number = |name: &str, value: u64| {
        Fields::new()
            .text(field::ANNOTATION_NAME, name)
            .number(field::ANNOTATION_NUMBER, value)
    };
    let text = |name: &str, value: &str| {
        Fields::new()
            .text(field::ANNOTATION_NAME, name)
            .text(field::ANNOTATION_TEXT, value)
    };
    let mut annotations = vec![
        number("bytes", message.bytes),
        number("weight", message.weight.into()),
        text("verdict", message.verdict.name()),
        number("cgroup", message.cgroup.0),
        number("cookie", message.flow.cookie.0),
    ];
    if message.retransmits > 0 {
        annotations.push(number("retransmits", message.retransmits.into()));
    }
    if let Some(interface) = &message.interfaces.last {
        annotations.push(text("interface", &interface.name.to_string()));
    }
    annotations
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;

    use super::*;

    #[test]
    fn tracks_have_a_limit() {
        let mut trace = Trace::new(io::sink());
        let mut message = fixture::message(Direction::Tx);
        let refused = (0..u32::MAX).find_map(|pid| {
            message.pid = pid;
            trace.add(&message).err()
        });
        let told = refused.unwrap().to_string();
        assert!(told.contains("more than 524288 processes"), "{told}");
        assert_eq!(trace.tracks.len(), TRACKS);
    }
}
