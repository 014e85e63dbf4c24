//! Packets between the messages of `trace`.

use serde_json::{Map, Value, json};
use sockstamp_model::flow::canonical;
use sockstamp_model::packet::Way;

use crate::print::line::{self, Line};

/// Write it as a line of text, without its end.
pub(super) fn text(text: &mut Line, way: &Way) {
    let packet = &way.packet;
    let time = line::time_of_day(packet.time.as_nanos());
    let (pid, direction) = (packet.pid.unwrap_or(0), packet.direction.name());
    text.show(&format_args!(
        "{time} {direction} packet {} {pid}/{} ",
        way.id, packet.comm
    ));
    text.address(packet.flow.local);
    text.text(" → ");
    text.address(packet.flow.remote);
    let headers = packet.headers();
    let payload = headers.map_or(packet.length, |headers| headers.payload);
    text.show(&format_args!(" {payload} B"));
    let mut before = None;
    for (stage, since) in way.seen() {
        text.show(&format_args!("  {stage}"));
        if let Some(wait) = before.and_then(|before| since.checked_sub(before)) {
            text.show(&format_args!(" +{}", wait.text()));
        }
        before = Some(since);
    }
    if let Some(segment) = headers.and_then(|headers| headers.segment) {
        text.show(&format_args!("  seq {}", segment.seq));
    }
    if let Some(offset) = headers.and_then(|headers| headers.fragment) {
        text.show(&format_args!("  fragment at {offset}"));
    }
    if let Some(segments) = packet.segments {
        text.show(&format_args!("  gso {}x{}", segments.count, segments.size));
    }
    match way.message.map(|message| (message.seq_end, message.time)) {
        Some((Some(end), _)) => text.show(&format_args!("  message to {end}")),
        Some((None, time)) => {
            let time = line::time_of_day(time.as_nanos());
            text.show(&format_args!("  message of {time}"));
        }
        None => {}
    }
}

/// Return the object of JSON.
pub(super) fn json(way: &Way) -> Value {
    let packet = &way.packet;
    let headers = packet.headers();
    let segment = headers.and_then(|headers| headers.segment);
    let stamps: Map<String, Value> = way
        .seen()
        .map(|(stage, since)| {
            (
                stage.name().to_owned(),
                (packet.time + since).as_nanos().into(),
            )
        })
        .collect();
    json!({
        "packet": way.id,
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
        "seq_end": way.message.and_then(|message| message.seq_end),
        "message_time_ns": way.message.map(|message| message.time),
        "message_cookie": way.message.map(|message| message.cookie),
    })
}
