"""Read a trace by Perfetto's own schema, and print its slices as JSON, one object per line.

A trace that Perfetto would read in part ends the program: unknown fields, slices that do not nest,
slices without an end, tracks without a name.
"""

import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def refuse_unknown_fields(message):
    if len(UnknownFieldSet(message)) > 0:
        sys.exit(f"unknown fields in {message!r}")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                refuse_unknown_fields(inner)


def values(annotations):
    return {each.name: getattr(each, each.WhichOneof("value")) for each in annotations}


def main(path):
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    refuse_unknown_fields(trace)
    events = [packet for packet in trace.packet if packet.HasField("track_event")]
    described = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    tracks = {track.uuid: track for track in described}
    assert len(tracks) == len(described), "a track is described twice"
    assert len({packet.trusted_packet_sequence_id for packet in trace.packet}) == 1
    clocks = [packet.clock_snapshot.clocks for packet in trace.packet if packet.HasField("clock_snapshot")]
    assert [sorted(clock.clock_id for clock in snapshot) for snapshot in clocks] == [[1, 6]]

    def path_of(uuid):
        track = tracks[uuid]
        assert track.name, f"track {uuid} has no name"
        return (path_of(track.parent_uuid) if track.parent_uuid else []) + [track.name]

    stacks = {uuid: [] for uuid in tracks}
    # Perfetto orders events by time, and those of one time as the file does.
    for packet in sorted(events, key=lambda packet: packet.timestamp):
        event = packet.track_event
        stack = stacks[event.track_uuid]
        if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((packet.timestamp, event))
            continue
        if event.type == schema.TrackEvent.TYPE_SLICE_END:
            begin, opened = stack.pop()
        else:
            assert event.type == schema.TrackEvent.TYPE_INSTANT
            begin, opened = packet.timestamp, event
        slice_ = {
            "track": path_of(event.track_uuid),
            "lane": event.track_uuid,
            "name": opened.name,
            "inside": [outer.name for _, outer in stack],
            "begin": begin,
            "duration": packet.timestamp - begin,
            "instant": event.type == schema.TrackEvent.TYPE_INSTANT,
            "values": values(opened.debug_annotations),
        }
        print(json.dumps(slice_))
    assert not any(stacks.values()), "a slice does not end"


main(sys.argv[1])
