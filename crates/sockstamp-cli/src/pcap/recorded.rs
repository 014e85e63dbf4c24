//! Packets out of recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::iter::Peekable;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use sockstamp_bpf::packets::Lost;
use sockstamp_model::packet::{MessageName, Packet, PacketStage, Way};
use sockstamp_print::output::Unfinished;
use sockstamp_print::progress::Progress;
use sockstamp_record::PacketReader;
use sockstamp_run::escape::complain;

use super::capture::Capture;
use super::destination::{create, tell, tell_unwritten};
use crate::options::choice::Choice;
use crate::options::source::Source;
use crate::recordings::{RECORDING, UNWRITTEN, all_files, lost_packets, packets_beside};

/// Write the packets beside these recordings.
pub(super) fn run(
    source: &Source,
    output: &Path,
    all_stages: bool,
    count: Option<u64>,
) -> Result<ExitCode> {
    let messages = all_files(&source.files)?;
    let files: Result<Vec<_>> = messages.iter().map(|file| open(file)).collect();
    let files = files?;
    of_one_host(&files)?;
    let read: Vec<_> = (messages.iter().cloned())
        .chain(files.iter().map(|file| file.path().to_owned()))
        .collect();
    let (unfinished, output): (_, Box<dyn Write>) = match output == Path::new("-") {
        true => (None, create(output)?),
        false => {
            let file = Unfinished::new(output, &read)?;
            let output = file.destination()?;
            (Some(file), output)
        }
    };
    let mut capture = Capture::start(output, None, all_stages, count)?;
    pass_on(&files, &source.choice(), all_stages, &mut capture)?;
    let lost = files.iter().map(lost_packets).fold(Lost::default(), sum);
    let unwritten = files.iter().map(unwritten).fold(0, u64::saturating_add);
    let written = capture.finish(lost, unwritten)?;
    unfinished.map_or(Ok(()), Unfinished::finish)?;
    tell(written, lost, all_stages);
    tell_unwritten(unwritten);
    Ok(ExitCode::SUCCESS)
}

/// Open the packets of a recording, and report those that its writer had no time to finish.
fn open(messages: &Path) -> Result<PacketReader> {
    let path = packets_beside(messages);
    if !path.exists() && messages.exists() {
        bail!(
            "{} has no packets beside it: `record --packets` writes them",
            messages.display()
        );
    }
    let packets = PacketReader::open(&path)?;
    if packets.unread() > 0 {
        complain(format_args!(
            "{}: its last {} bytes belong to no whole packets: the recording was killed, \
             or the file was cut short",
            path.display(),
            packets.unread()
        ));
    }
    Ok(packets)
}

/// Interfaces of several hosts have the same numbers.
fn of_one_host(files: &[PacketReader]) -> Result<()> {
    let hosts: BTreeSet<_> = files.iter().filter_map(|file| file.fact("host")).collect();
    if hosts.len() > 1 {
        let hosts: Vec<_> = hosts.into_iter().collect();
        bail!(
            "these are recordings of several hosts ({}): write a file for each, and join them with mergecap(1)",
            hosts.join(", ")
        );
    }
    Ok(())
}

/// Pass the packets of all recordings on that are chosen, in the order of their times.
fn pass_on(
    files: &[PacketReader],
    choice: &Choice,
    all_stages: bool,
    capture: &mut Capture,
) -> Result<()> {
    let mut progress = Progress::new(files.iter().map(PacketReader::rows).sum())?;
    let mut events = Events::new(all_stages);
    let mut recordings = recordings(files);
    loop {
        let times = recordings.iter_mut().map(Recording::next_time);
        let next = times.enumerate().filter_map(|(at, time)| Some((time?, at)));
        let Some((_, at)) = next.min() else {
            break;
        };
        if let Some(way) = recordings[at].next() {
            let (way, is_new) = way?;
            events.before(Some(&way), capture);
            if choice.has_packet(&way.packet) {
                events.add(way, is_new);
            }
            progress.step()?;
        }
    }
    events.before(None, capture);
    Ok(())
}

/// The packets of a recording, which may have several files, in the order in which they were seen
/// first.
struct Recording<'files> {
    ways: Peekable<Box<dyn Iterator<Item = Result<Way, sockstamp_record::Error>> + 'files>>,
    /// What its ids are above those that it has: other recordings have the same.
    base: u64,
    /// The largest id so far: a packet that is received with one that was sent here is the same.
    last: u64,
}

impl<'files> Recording<'files> {
    /// Ids of a recording.
    const IDS: u64 = 1 << 40;

    fn new(number: u64, files: Vec<&'files PacketReader>) -> Self {
        let ways = files.into_iter().flat_map(PacketReader::ways);
        let ways: Box<dyn Iterator<Item = _>> = Box::new(ways);
        Self {
            ways: ways.peekable(),
            base: number * Self::IDS,
            last: 0,
        }
    }

    /// Return the time of the next packet. An error comes at once.
    fn next_time(&mut self) -> Option<u64> {
        let way = self.ways.peek()?.as_ref();
        Some(way.map_or(0, |way| way.packet.time.as_nanos()))
    }

    /// Return the next packet, and if it was not seen before.
    fn next(&mut self) -> Option<Result<(Way, bool), sockstamp_record::Error>> {
        let way = self.ways.next()?;
        Some(way.map(|mut way| {
            let is_new = way.id > self.last;
            self.last = self.last.max(way.id);
            way.id += self.base;
            (way, is_new)
        }))
    }
}

/// Put the files of each recording together. Those without its name are of older programs.
fn recordings(files: &[PacketReader]) -> Vec<Recording<'_>> {
    let mut all: Vec<(Option<&str>, Vec<&PacketReader>)> = Vec::new();
    for file in files {
        let name = file.fact(RECORDING);
        let known = all.iter_mut().find(|(of, _)| name.is_some() && *of == name);
        match known {
            Some((_, files)) => files.push(file),
            None => all.push((name, vec![file])),
        }
    }
    let all = all.into_iter().map(|(_, files)| files);
    (0..)
        .zip(all)
        .map(|(number, files)| Recording::new(number, files))
        .collect()
}

/// Return the packets that a recording could not take; 0 in files of older programs, which have
/// them in `lost_ring`.
fn unwritten(file: &PacketReader) -> u64 {
    let count = file.fact(UNWRITTEN).and_then(|count| count.parse().ok());
    count.unwrap_or(0)
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

/// Puts packets at their stages into the order of their times. They come in the order in which they
/// were seen first.
struct Events {
    all_stages: bool,
    count: u64,
    waiting: BTreeMap<(u64, u64), (Packet<'static>, u64, Option<MessageName>)>,
}

impl Events {
    fn new(all_stages: bool) -> Self {
        Self {
            all_stages,
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

    fn add(&mut self, way: Way, is_new: bool) {
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::fixture;
    use sockstamp_model::interface::Interface;
    use sockstamp_model::stage::Direction;
    use sockstamp_record::{FileWriter, Packets};

    use super::*;

    fn packet(time: u64, direction: Direction, stage: PacketStage) -> Packet<'static> {
        Packet {
            stage,
            direction,
            time: Timestamp::from_nanos(time),
            stamp: Timestamp::from_nanos(time),
            address: 0,
            flow: fixture::message(direction).flow,
            cgroup: None,
            cgroup_path: None,
            pid: None,
            comm: "nginx".into(),
            interface: Interface {
                netns: fixture::message(direction).flow.netns,
                index: 1,
                name: "lo".into(),
            },
            length: 40,
            segments: None,
            bytes: Cow::Owned(vec![0x45; 40]),
        }
    }

    fn write(path: &Path, facts: &[(&'static str, String)], ways: Vec<Way>) -> PacketReader {
        let mut writer = FileWriter::<Packets>::create(path, facts).unwrap();
        let mut batch = Packets::default();
        ways.into_iter().for_each(|way| batch.push(way));
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        PacketReader::open(path).unwrap()
    }

    fn sent(id: u64, time: u64) -> Way {
        Way::new(id, packet(time, Direction::Tx, PacketStage::Driver))
    }

    fn received(id: u64, time: u64) -> Way {
        Way::new(id, packet(time, Direction::Rx, PacketStage::Softirq))
    }

    /// Return the ids that are written, in order.
    fn written(files: &[PacketReader]) -> Vec<u64> {
        let mut ids = Vec::new();
        let mut recordings = recordings(files);
        while let Some((_, at)) = (recordings.iter_mut().map(Recording::next_time).enumerate())
            .filter_map(|(at, time)| Some((time?, at)))
            .min()
        {
            let (way, is_new) = recordings[at].next().unwrap().unwrap();
            ids.extend(is_new.then_some(way.id));
        }
        ids
    }

    #[test]
    fn a_packet_with_an_end_on_each_side_of_a_rotation_is_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let of = |name: &str| vec![(RECORDING, name.to_owned())];
        let files = [
            write(&path("1"), &of("a"), vec![sent(1, 10), sent(2, 30)]),
            write(&path("2"), &of("a"), vec![received(2, 31), sent(3, 50)]),
        ];
        assert_eq!(written(&files), [1, 2, 3]);
    }

    #[test]
    fn recordings_at_the_same_time_are_in_order_and_share_no_id() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let of = |name: &str| vec![(RECORDING, name.to_owned())];
        let other = Recording::IDS;
        for facts in [[of("a"), of("b")], [vec![], vec![]]] {
            let files = [
                write(&path("1"), &facts[0], vec![sent(1, 10), sent(2, 30)]),
                write(&path("2"), &facts[1], vec![sent(1, 20), sent(2, 40)]),
            ];
            assert_eq!(written(&files), [1, other + 1, 2, other + 2]);
            directory.path().read_dir().unwrap().for_each(|file| {
                std::fs::remove_file(file.unwrap().path()).unwrap();
            });
        }
    }

    #[test]
    fn packets_that_a_full_disk_cost_are_no_fault_of_the_buffer() {
        let directory = tempfile::tempdir().unwrap();
        let facts = [("lost_ring", "2".to_owned()), (UNWRITTEN, "5".to_owned())];
        let file = write(&directory.path().join("file"), &facts, vec![sent(1, 10)]);
        assert_eq!((lost_packets(&file).ring, unwritten(&file)), (2, 5));
        let older = write(&directory.path().join("older"), &[], vec![sent(1, 10)]);
        assert_eq!(unwritten(&older), 0);
    }

    #[test]
    fn recordings_of_several_hosts_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = |host: &str| {
            let facts = [("host", host.to_owned())];
            write(&directory.path().join(host), &facts, vec![sent(1, 10)])
        };
        assert!(of_one_host(&[file("a")]).is_ok());
        let refusal = of_one_host(&[file("b"), file("c")]).unwrap_err();
        assert!(refusal.to_string().contains("(b, c)"), "{refusal}");
    }
}
