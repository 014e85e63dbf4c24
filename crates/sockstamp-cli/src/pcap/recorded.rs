//! Packets out of recordings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use sockstamp_bpf::packets::Lost;
use sockstamp_model::packet::{MessageName, Packet, PacketStage, Way};
use sockstamp_record::PacketReader;

use super::capture::Capture;
use super::destination::{create, tell};
use crate::escape::complain;
use crate::output::create_beside;
use crate::progress::Progress;
use crate::recordings::{PACKETS, all_files, lost_packets};

/// Write the packets beside these recordings.
pub(super) fn run(
    recordings: &[PathBuf],
    output: &Path,
    all_stages: bool,
    count: Option<u64>,
) -> Result<ExitCode> {
    let files: Vec<_> = all_files(recordings)?
        .iter()
        .map(|file| of_packets(file))
        .collect();
    if files.is_empty() {
        bail!("-o needs a recording to read: `record --packets` makes one");
    }
    let recordings: Result<Vec<_>, _> = files.iter().map(|file| PacketReader::open(file)).collect();
    let recordings = recordings?;
    for recording in recordings.iter().filter(|recording| recording.unread() > 0) {
        complain(format_args!(
            "{}: its last {} bytes belong to unfinished packets: the recording was killed",
            recording.path().display(),
            recording.unread()
        ));
    }
    let output = match output == Path::new("-") {
        true => create(output)?,
        false => create_beside(output, &files)?,
    };
    let mut capture = Capture::start(output, all_stages, count)?;
    let mut progress = Progress::new(recordings.iter().map(PacketReader::rows).sum())?;
    for recording in &recordings {
        let mut events = Events::new(all_stages);
        for way in recording.ways() {
            let way = way?;
            events.before(Some(&way), &mut capture);
            events.add(way);
            progress.step()?;
        }
        events.before(None, &mut capture);
    }
    drop(progress);
    let lost = recordings
        .iter()
        .map(lost_packets)
        .fold(Lost::default(), sum);
    let written = capture.finish(lost)?;
    tell(written, lost);
    Ok(ExitCode::SUCCESS)
}

fn sum(one: Lost, other: Lost) -> Lost {
    Lost {
        ring: one.ring.saturating_add(other.ring),
        headers: one.headers.saturating_add(other.headers),
        fragments: one.fragments.saturating_add(other.fragments),
        flows: one.flows.saturating_add(other.flows),
        forgotten: one.forgotten.saturating_add(other.forgotten),
    }
}

/// Return the file with the packets of a recording, which may be named itself.
fn of_packets(recording: &Path) -> PathBuf {
    recording.with_extension(PACKETS)
}

/// Puts packets at their stages into the order of their times. Those of a recording are in the
/// order in which they were seen first.
struct Events {
    all_stages: bool,
    /// The largest id so far: a packet that is received with one that was sent here is the same.
    last: u64,
    count: u64,
    waiting: BTreeMap<(u64, u64), (Packet<'static>, u64, Option<MessageName>)>,
}

impl Events {
    fn new(all_stages: bool) -> Self {
        Self {
            all_stages,
            last: 0,
            count: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Write all that was before a packet was seen, or all.
    fn before(&mut self, way: Option<&Way>, capture: &mut Capture) {
        let end = way.map_or(u64::MAX, |way| way.packet.time.as_nanos());
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > end {
                break;
            }
            let (packet, id, message) = first.remove();
            capture.take(&packet, id, message.as_ref());
        }
    }

    fn add(&mut self, way: Way) {
        let is_new = way.id > self.last;
        self.last = self.last.max(way.id);
        let places: Vec<_> = match self.all_stages {
            true => way.seen().collect(),
            false => way
                .seen()
                .filter(|(stage, _)| is_seen(*stage))
                .take(usize::from(is_new))
                .collect(),
        };
        for (stage, since) in places {
            let mut packet = way.packet.clone();
            (packet.stage, packet.time) = (stage, packet.time + since);
            self.count += 1;
            let key = (packet.time.as_nanos(), self.count);
            self.waiting.insert(key, (packet, way.id, way.message));
        }
    }
}

/// Return true if tcpdump sees packets there, too.
fn is_seen(stage: PacketStage) -> bool {
    matches!(stage, PacketStage::Driver | PacketStage::Softirq)
}
