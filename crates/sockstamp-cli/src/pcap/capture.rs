//! Write packets, with their process and container, to interfaces by stage.

use std::io::{self, Write};

use anyhow::{Context, Result};
use nix::sys::utsname::uname;
use rustc_hash::FxHashMap;
use sockstamp_bpf::packets::Lost;
use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::packet::{Ids, MessageName, Packet, PacketStage};
use sockstamp_model::stage::Direction;
use sockstamp_print::interfaces::{Namespaces, own_namespace};
use sockstamp_record::pcapng::{self, Writer};

use super::comment::Comments;

/// An interface of the file.
type Place = (NetnsInode, u32, PacketStage);

/// Packets on their way into a file.
pub(super) struct Capture {
    writer: Writer<Box<dyn Write>>,
    all_stages: bool,
    count: Option<u64>,
    ids: Ids,
    places: FxHashMap<Place, u32>,
    /// The place of the last packet.
    place: Option<(Place, u32)>,
    /// `None` if the packets may be another host's, or of another time.
    namespaces: Option<Namespaces>,
    home: NetnsInode,
    comments: Comments,
    written: u64,
    last: Timestamp<Realtime>,
    failure: Option<io::Error>,
}

impl Capture {
    /// Begin a file. After `count` packets it is over.
    pub(super) fn start(
        output: Box<dyn Write>,
        namespaces: Option<Namespaces>,
        all_stages: bool,
        count: Option<u64>,
    ) -> Result<Self> {
        let application = concat!("sockstamp ", env!("CARGO_PKG_VERSION"));
        let mut writer = Writer::new(output, application, &system()).context("cannot write")?;
        // Readers of a pipe, such as Wireshark, wait for it.
        writer.flush().context("cannot write")?;
        Ok(Self {
            writer,
            all_stages,
            count,
            ids: Ids::default(),
            places: FxHashMap::default(),
            place: None,
            namespaces,
            home: own_namespace(),
            comments: Comments::default(),
            written: 0,
            last: Timestamp::from_nanos(0),
            failure: None,
        })
    }

    /// Take a packet at a stage; they come in the order of their times.
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        let Some((id, is_new)) = self.ids.id(packet) else {
            return;
        };
        if self.is_over() || !(is_new || self.all_stages) {
            return;
        }
        self.take(packet, id, None);
    }

    /// Take a packet whose number and message are known; they come in the order of their times.
    pub(super) fn take(&mut self, packet: &Packet<'_>, id: u64, message: Option<&MessageName>) {
        if self.is_over() {
            return;
        }
        if let Err(error) = self.write(packet, id, message) {
            self.failure.get_or_insert(error);
        }
    }

    pub(super) fn flush(&mut self) {
        if let Err(error) = self.writer.flush() {
            self.failure.get_or_insert(error);
        }
    }

    /// Return true if no more packets are wanted, or can be written.
    pub(super) fn is_over(&self) -> bool {
        self.failure.is_some() || self.count.is_some_and(|count| self.written >= count)
    }

    /// Return the number of packets that were written. `unwritten` are those that a recording
    /// could not take. A closed pipe is success: its reader has seen enough.
    pub(super) fn finish(mut self, lost: Lost, unwritten: u64) -> Result<u64> {
        let Lost {
            ring,
            headers,
            fragments,
            flows,
            forgotten,
        } = lost;
        let all = ring + headers + fragments + flows + unwritten;
        if all + forgotten > 0 && !self.places.is_empty() && self.failure.is_none() {
            let mut comment = format!(
                "missing at all interfaces: buffer full {ring}, headers apart {headers}, \
                 fragments without their first {fragments}, no room for flows {flows}; \
                 flows forgotten {forgotten}"
            );
            if unwritten > 0 {
                comment.push_str(&format!("; not written into the recording {unwritten}"));
            }
            let told = self.writer.lost(0, self.last.as_nanos(), all, &comment);
            self.failure = told.err();
        }
        self.flush();
        match self.failure {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write")
            }
            _ => Ok(self.written),
        }
    }

    fn write(
        &mut self,
        packet: &Packet<'_>,
        id: u64,
        message: Option<&MessageName>,
    ) -> io::Result<()> {
        let interface = self.interface(packet)?;
        self.writer.packet(&pcapng::Packet {
            interface,
            time: packet.time.as_nanos(),
            length: packet.length,
            bytes: &packet.bytes,
            id,
            sent: packet.direction == Direction::Tx,
            comment: self.comments.of(packet, message),
        })?;
        self.written += 1;
        self.last = packet.time;
        Ok(())
    }

    /// Return the number of the packet's interface in the file. Without stages, both directions of
    /// a device share one.
    fn interface(&mut self, packet: &Packet<'_>) -> io::Result<u32> {
        let stage = if self.all_stages {
            packet.stage
        } else {
            PacketStage::Driver
        };
        let device = &packet.interface;
        let (netns, index) = match (self.all_stages, stage) {
            (true, PacketStage::Socket | PacketStage::Tcp) => (device.netns, 0),
            _ => (device.netns, device.index),
        };
        let place = (netns, index, stage);
        let number = match self.place {
            Some((last, number)) if last == place => number,
            _ => match self.places.get(&place) {
                Some(number) => *number,
                None => self.add(packet, place)?,
            },
        };
        self.place = Some((place, number));
        Ok(number)
    }

    /// Begin an interface.
    fn add(&mut self, packet: &Packet<'_>, place: Place) -> io::Result<u32> {
        let (netns, _, stage) = place;
        let device = &packet.interface;
        let elsewhere = match netns == self.home {
            true => String::new(),
            false => match self.namespaces.as_mut().and_then(|names| names.name(netns)) {
                Some(name) => format!("@{name}"),
                None => format!("@{netns}"),
            },
        };
        let name = match (self.all_stages, stage) {
            (false, _) => format!("{}{elsewhere}", device.name),
            (true, PacketStage::Socket | PacketStage::Tcp) => format!("{stage}{elsewhere}"),
            (true, _) => format!("{}{elsewhere}/{stage}", device.name),
        };
        let description = match self.all_stages {
            true => describe(stage),
            false => "each packet where it is seen first",
        };
        let number = self.writer.interface(&name, description)?;
        self.places.insert(place, number);
        Ok(number)
    }
}

const fn describe(stage: PacketStage) -> &'static str {
    match stage {
        PacketStage::Sched => "entering the packet scheduler",
        PacketStage::Driver => "taken by the driver",
        PacketStage::Softirq => "received, after GRO",
        PacketStage::Socket => "about to be queued at its socket",
        PacketStage::Tcp => "taken by TCP",
    }
}

fn system() -> String {
    let text = |name: nix::sys::utsname::UtsName| {
        format!(
            "{} {}",
            name.sysname().to_string_lossy(),
            name.release().to_string_lossy()
        )
    };
    uname().map(text).unwrap_or_default()
}
