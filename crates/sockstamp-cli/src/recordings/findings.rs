//! Where the time of recordings was lost: the engine of `stat`, fed by rows.

use std::path::{Path, PathBuf};

use anyhow::Result;
use sockstamp_explain::diagnosis::{Case, Diagnosis, Scope};
use sockstamp_model::aggregate::Aggregate;
use sockstamp_model::clock::{Monotonic, Nanos, Realtime, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::Waits;
use sockstamp_record::Detail;

use super::served::Served;
use super::waits::Processes;
use super::{Recordings, next};

/// Collects what recordings show of slow waits. CPU times, and queues of the host's devices, are in
/// none.
#[derive(Debug)]
pub(crate) struct Findings {
    case: Case,
    processes: Processes,
    waits: Waits,
    /// The file, if there is one.
    only: Option<PathBuf>,
    /// The services of this host, where all recordings are of one.
    served: Option<Served>,
    /// The first moment and the last.
    span: Option<(Timestamp<Realtime>, Timestamp<Realtime>)>,
    /// When the recording ended, where that is known.
    ended: Option<Timestamp<Realtime>>,
    /// A moment by both clocks: the last end of a wait, or of a read.
    last: Option<(Timestamp<Monotonic>, Timestamp<Realtime>)>,
}

impl Findings {
    /// Begin with the waits of recordings; what takes longer than `slow` is looked into.
    pub(crate) fn new(recordings: &Recordings, slow: Nanos) -> Result<Self> {
        let scope = Scope {
            slow,
            ..Scope::default()
        };
        let mut findings = Self {
            case: Case::new(scope),
            processes: recordings.processes(),
            waits: Waits::default(),
            only: recordings.only().map(Path::to_owned),
            served: recordings
                .are_of_one_host()
                .then(|| Served::of(recordings.places())),
            span: None,
            ended: recordings.ended(),
            last: None,
        };
        let (mut span, mut last) = (None, None);
        findings.waits = recordings.waits(|row| {
            let begin = row.time.as_nanos().saturating_sub(row.wait.inside.0);
            let begin = Timestamp::from_nanos(begin);
            // Clip waits that began before the span that is read.
            extend(
                &mut span,
                recordings.from().map_or(begin, |from| begin.max(from)),
            );
            extend(&mut span, row.time);
            let end = row.wait.since.as_nanos().saturating_add(row.wait.lasted.0);
            last = last.max(Some((Timestamp::from_nanos(end), row.time)));
        })?;
        (findings.span, findings.last) = (span, last);
        Ok(findings)
    }

    pub(crate) fn message(&mut self, message: &Message) {
        extend(&mut self.span, message.time);
        self.last = self
            .last
            .max(message.stamps.read.map(|read| (read, message.time)));
        if let Some(served) = &mut self.served {
            served.add(message, self.processes.of(message.pid));
        }
        match self.processes.renamed(message) {
            Some(renamed) => self.case.message(&renamed),
            None => self.case.message(message),
        }
    }

    /// The time from the first row to the last.
    pub(crate) fn duration(&self) -> Nanos {
        let duration = self.span.and_then(|(first, last)| last.since(first));
        duration.unwrap_or(Nanos::ZERO)
    }

    /// Return when the recording ended by the clock of its stamps, where that is known.
    fn end(&self) -> Option<Timestamp<Monotonic>> {
        let (monotonic, realtime) = self.last?;
        let later = self.ended?.since(realtime)?;
        let end = monotonic.as_nanos().saturating_add(later.0);
        Some(Timestamp::from_nanos(end))
    }

    /// Find where time was lost, once all messages are in; return the waits, too.
    pub(crate) fn finish(mut self, summary: &Summary) -> (Diagnosis, Waits) {
        self.case.waits(&self.waits);
        if let Some(end) = self.end() {
            self.case.ends(end);
        }
        for asked in self.case.asked() {
            let there = self.served.as_ref().and_then(|served| served.at(asked));
            if let Some(there) = there {
                self.case.there(asked, there);
            }
        }
        let mut diagnosis = self.case.diagnose(summary);
        next::in_recordings(&mut diagnosis, self.only.as_deref());
        (diagnosis, self.waits)
    }
}

fn extend(span: &mut Option<(Timestamp<Realtime>, Timestamp<Realtime>)>, to: Timestamp<Realtime>) {
    let (first, last) = span.unwrap_or((to, to));
    *span = Some((first.min(to), last.max(to)));
}

impl Recordings {
    /// Find where time was lost.
    pub(crate) fn diagnose(&self, slow: Nanos) -> Result<Diagnosis> {
        let mut findings = Findings::new(self, slow)?;
        let mut aggregate = Aggregate::new();
        self.each(Detail::All, |message| {
            aggregate.record(message);
            findings.message(message);
            Ok(())
        })?;
        let summary = aggregate.summary(findings.duration());
        Ok(findings.finish(&summary).0)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Opened, Protocol, SocketCookie};
    use sockstamp_model::name::Name;
    use sockstamp_model::stage::Direction;
    use sockstamp_model::wait::{End, Evidence, Kind, Wait};
    use sockstamp_record::{FileWriter, WaitRows, Waited, Writer};
    use tempfile::tempdir;

    use super::super::ENDED;
    use super::super::beside::waits_beside;
    use super::super::waits::{PROCESSES, of_processes};
    use super::super::{HOST, RECORDING};
    use super::*;
    use crate::options::choice::Choice;

    const SECOND: u64 = 1_000_000_000;

    fn unanswered(number: u64) -> Waited {
        let since = number * 10 * SECOND;
        let wait = Wait {
            kind: Kind::Answer,
            flow: Flow {
                netns: NetnsInode(1),
                protocol: Protocol::Tcp,
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: "10.0.0.2:5432".parse().unwrap(),
                cookie: SocketCookie(number),
            },
            opened: Some(Opened::Connected),
            cgroup: CgroupId(0),
            pid: 7,
            comm: Name::from("worker-3"),
            since: Timestamp::from_nanos(since),
            lasted: Nanos(5 * SECOND),
            inside: Nanos(5 * SECOND),
            end: End::GivenUp,
            members: 1,
            bytes: 40,
            evidence: Evidence::default(),
        };
        Waited {
            time: Timestamp::from_nanos(1_700_000_000 * SECOND + since),
            wait,
            unix: None,
        }
    }

    fn recorded(path: PathBuf, rows: u64) -> Recordings {
        let ended = (1_700_000_000 + 40) * SECOND;
        let names = [(7, Name::from("postgres-app"))];
        let fact = of_processes(names.iter().map(|(pid, name)| (*pid, name)));
        let facts = [
            (PROCESSES, fact),
            (HOST, "here".into()),
            (RECORDING, "one".into()),
            (ENDED, ended.to_string()),
        ];
        let writer = Writer::create(&path, &facts).unwrap();
        writer.finish().unwrap();
        let mut file = FileWriter::<WaitRows>::create(&waits_beside(&path), &[]).unwrap();
        let mut batch = WaitRows::default();
        (0..rows).for_each(|number| batch.push(unanswered(number)));
        file.write(&batch).unwrap();
        file.finish().unwrap();
        Recordings::open(&[path]).unwrap()
    }

    #[test]
    fn a_recording_ends_when_it_has_noted_that_by_the_clock_of_its_stamps() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let slow = Nanos::from_millis(10);
        let mut findings = Findings::new(&recorded(path.clone(), 3), slow).unwrap();
        let at = |second: u64| Timestamp::from_nanos(second * SECOND);
        // The last wait has ended at 25 s, which was 20 s before the end.
        assert_eq!(findings.end(), Some(at(45)));
        let mut message = fixture::message(Direction::Rx);
        message.stamps.read = Some(at(31));
        message.time = Timestamp::from_nanos((1_700_000_000 + 25) * SECOND);
        findings.message(&message);
        assert_eq!(findings.end(), Some(at(46)));
        // Without any moment by both clocks, or with another recording, none is known.
        let mut nothing = findings;
        nothing.last = None;
        assert_eq!(nothing.end(), None);
        let other = dir.path().join("b.parquet");
        let facts = [(RECORDING, "another".to_owned())];
        Writer::create(&other, &facts).unwrap().finish().unwrap();
        let both = Recordings::open(&[path, other]).unwrap();
        assert_eq!(Findings::new(&both, slow).unwrap().end(), None);
    }

    #[test]
    fn what_is_read_of_a_recording_ends_where_it_is_cut() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        recorded(path.clone(), 3);
        let choice = Choice {
            to: Some(Timestamp::from_nanos((1_700_000_000 + 15) * SECOND)),
            ..Choice::default()
        };
        let recordings = Recordings::chosen(&[path], choice).unwrap();
        let findings = Findings::new(&recordings, Scope::default().slow).unwrap();
        // The wait that ended at 15 s is noted at 10 s of the other clock.
        assert_eq!(findings.end(), Some(Timestamp::from_nanos(20 * SECOND)));
    }

    #[test]
    fn waits_without_any_message_are_found_under_the_name_of_their_process() {
        let directory = tempdir().unwrap();
        let recordings = recorded(directory.path().join("a.parquet"), 4);
        let findings = Findings::new(&recordings, Scope::default().slow).unwrap();
        // From the first begin to the last end.
        assert_eq!(findings.duration(), Nanos(35 * SECOND));
        let diagnosis = recordings.diagnose(Scope::default().slow).unwrap();
        let sentence = &diagnosis.findings[0].sentence;
        assert!(sentence.contains("postgres-app"), "{sentence}");
        assert!(sentence.contains("10.0.0.2:5432"), "{sentence}");
        assert_eq!(diagnosis.findings[0].failure, Some(End::GivenUp));
        assert_eq!(diagnosis.findings[0].count, 4);
    }

    #[test]
    fn what_began_before_the_span_that_is_read_does_not_lengthen_it() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        recorded(path.clone(), 4);
        let after = |seconds: u64| {
            let choice = Choice {
                from: Some(Timestamp::from_nanos((1_700_000_000 + seconds) * SECOND)),
                ..Choice::default()
            };
            let recordings = Recordings::chosen(std::slice::from_ref(&path), choice).unwrap();
            let findings = Findings::new(&recordings, Scope::default().slow).unwrap();
            findings.duration()
        };
        // Waits of 5 s end at 10, 20 and 30 s.
        assert_eq!(after(8), Nanos(22 * SECOND));
        assert_eq!(after(1), Nanos(25 * SECOND));
    }

    #[test]
    fn a_choice_has_its_waits_alone() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        recorded(path.clone(), 4);
        let count = |choice| {
            let recordings = Recordings::chosen(std::slice::from_ref(&path), choice).unwrap();
            recordings.waits(|_| ()).unwrap().list.len()
        };
        let of_port = |port: u16| Choice {
            filter: format!("port {port}").parse().ok(),
            ..Choice::default()
        };
        assert_eq!([count(of_port(5432)), count(of_port(80))], [4, 0]);
        // Waits have the name of a thread; the recording knows that of its process.
        for (comm, expected) in [("postgres-app", 4), ("worker-3", 4), ("redis", 0)] {
            let comms = vec![comm.to_owned()];
            let choice = Choice {
                comms,
                ..Choice::default()
            };
            assert_eq!(count(choice), expected, "{comm}");
        }
        let from = Some(Timestamp::from_nanos((1_700_000_000 + 20) * SECOND));
        let choice = Choice {
            from,
            ..Choice::default()
        };
        assert_eq!(count(choice), 2);
    }

    #[test]
    fn a_recording_without_waits_has_no_file_of_them_and_no_finding() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        Writer::create(&path, &[]).unwrap().finish().unwrap();
        let recordings = Recordings::open(&[path]).unwrap();
        assert_eq!(recordings.waits(|_| ()).unwrap(), Waits::default());
        let diagnosis = recordings.diagnose(Scope::default().slow).unwrap();
        assert_eq!((diagnosis.findings, diagnosis.notes), (vec![], vec![]));
    }
}
