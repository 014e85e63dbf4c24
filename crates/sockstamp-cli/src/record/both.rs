//! Record messages, and also packets.

use anyhow::Result;
use sockstamp_bpf::packets::Lost;
use sockstamp_model::message::Message;
use sockstamp_model::packet::{Packet, Way};
use sockstamp_record::{Batch, Packets};

use super::recorder::{Recorded, Recorder};
use crate::measure::Observer;
use crate::pcap;
use crate::ways::Ways;

/// The recorders of a measurement.
pub(super) struct Both {
    messages: Recorder<Batch>,
    packets: Option<OfPackets>,
}

struct OfPackets {
    ways: Ways,
    recorder: Recorder<Packets>,
}

impl Both {
    pub(super) fn new(messages: Recorder<Batch>, packets: Option<Recorder<Packets>>) -> Self {
        let packets = packets.map(|recorder| OfPackets {
            ways: Ways::default(),
            recorder,
        });
        Self { messages, packets }
    }

    /// Wait until all is written.
    pub(super) fn finish(self) -> Result<Vec<Recorded>> {
        let messages = self.messages.finish();
        let packets = self.packets.map(|mut packets| {
            let rest = packets.ways.rest();
            packets.push(rest);
            packets.recorder.finish()
        });
        // Both are finished, whichever fails.
        Ok([messages?].into_iter().chain(packets.transpose()?).collect())
    }
}

impl OfPackets {
    fn push(&mut self, ways: Vec<Way>) {
        for way in ways {
            self.recorder.push(|batch| batch.push(way));
        }
    }
}

impl Observer for Both {
    fn message(&mut self, message: &Message) {
        self.messages.push(|batch| batch.push(message));
        if let Some(packets) = &mut self.packets {
            packets.ways.message(message);
        }
    }

    fn round_is_over(&mut self) -> bool {
        let mut goes_on = self.messages.round_is_over();
        if let Some(packets) = &mut self.packets {
            let ready = packets.ways.ready();
            packets.push(ready);
            goes_on &= packets.recorder.round_is_over();
        }
        goes_on
    }

    fn wants_packets(&self) -> bool {
        self.packets.is_some()
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        if let Some(packets) = &mut self.packets {
            packets.ways.packet(packet);
        }
    }

    fn lost_packets(&mut self, lost: Lost) {
        pcap::tell_lost(lost);
    }
}
