//! Keep questions over Unix sockets: records of those that have ended, and looks at connections.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_char;
use std::mem;

use rustc_hash::FxHashMap;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, NetnsInode, SocketCookie};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{End, Kind, UnixAttempts, UnixWait, Waits};

use crate::abi::raw::{unix_ends, unix_flow, unix_wait};

/// Waits that are kept until somebody takes them.
const HELD: usize = 10_000;

/// Programs and services that are counted, at most.
const COUNTED: usize = 4096;

/// Counts by the name of the program that asks, and its service.
type Counts = BTreeMap<(Name, Name), UnixAttempts>;

/// Questions that have ended, and connections at the last look.
#[derive(Debug, Default)]
pub(super) struct Seen {
    held: Vec<UnixWait>,
    /// As many of them were shown already.
    shown: usize,
    /// Sockets that were open when measuring began.
    older: BTreeSet<u64>,
    /// Counts of connections that are closed.
    closed: Counts,
    /// All counts, as far as they were taken.
    taken: Counts,
    /// Connections of this look, and of the one before, by cookie.
    now: FxHashMap<u64, Looked>,
    before: FxHashMap<u64, Looked>,
    untold: u64,
    lost: u64,
}

/// A connection at a look.
#[derive(Debug)]
struct Looked {
    flow: unix_flow,
    at: u64,
}

impl Looked {
    /// Return true if a question is open that is known to be one.
    fn is_asked(&self) -> bool {
        // Bytes that came just when it was asked may be its answer.
        self.flow.course.since != 0
            && self.flow.course.doubted == 0
            && self.flow.course.heard < self.flow.course.since
    }

    fn wait(&self, end: End) -> UnixWait {
        let lasted = Nanos(self.at.saturating_sub(self.flow.course.since));
        wait(
            &self.flow.ends,
            self.flow.course.since,
            lasted,
            end,
            self.flow.course.bytes,
        )
    }
}

impl Seen {
    /// Return true if a question was open at the last look.
    pub(super) fn has_open(&self) -> bool {
        self.before.values().any(Looked::is_asked)
    }

    /// Take a question that has ended.
    pub(super) fn ended(&mut self, record: &unix_wait) {
        let end = usize::try_from(record.end).ok();
        let Some(&end) = end.and_then(|end| End::ALL.get(end)) else {
            return;
        };
        let mut ended = wait(
            &record.ends,
            record.since,
            Nanos(record.lasted),
            end,
            record.bytes,
        );
        if record.server != 0 {
            ended.server = Some((record.server, text(&record.server_comm)));
        }
        self.hold(ended);
    }

    /// Set the sockets that ask, and were open when measuring began.
    pub(super) fn begin(&mut self, older: BTreeSet<u64>) {
        self.older = older;
    }

    fn hold(&mut self, mut wait: UnixWait) {
        wait.is_new = !self.older.contains(&wait.inode);
        match self.held.len() < HELD {
            true => self.held.push(wait),
            false => self.lost += 1,
        }
    }

    /// Take a look at a connection. Where its socket is gone, its program has given the open
    /// question up, some time after the look that saw it open last.
    pub(super) fn flow(&mut self, flow: unix_flow, is_there: bool, at: u64) {
        let looked = Looked { flow, at };
        if is_there {
            self.now.insert(looked.flow.ends.cookie, looked);
            return;
        }
        let before = self.before.remove(&looked.flow.ends.cookie);
        let same = before.filter(|before| {
            before.flow.course.since == looked.flow.course.since
                && before.flow.course.watched != 0
                && looked.is_asked()
        });
        let failed = u64::from(same.is_some());
        if let Some(before) = same {
            self.hold(before.wait(End::GivenUp));
        }
        self.close(&looked.flow, failed);
    }

    fn close(&mut self, flow: &unix_flow, failed: u64) {
        match attempts(&mut self.closed, &flow.ends) {
            Some(sum) => add(sum, flow, failed),
            None => self.untold += flow.course.answered + flow.course.failed + failed,
        }
    }

    /// Close what was open at the last look.
    pub(super) fn forget_open(&mut self) {
        for looked in mem::take(&mut self.before).into_values() {
            self.close(&looked.flow, 0);
        }
    }

    /// A look is over.
    pub(super) fn looked(&mut self) {
        self.before = mem::take(&mut self.now);
    }

    /// Add connections and waits that found no room in the kernel.
    pub(super) fn without_room(&mut self, untold: u64, lost: u64) {
        self.untold += untold;
        self.lost += lost;
    }

    /// Return those held that were not shown.
    pub(super) fn new_ones(&mut self) -> &[UnixWait] {
        let shown = mem::replace(&mut self.shown, self.held.len());
        self.held.get(shown..).unwrap_or_default()
    }

    /// Take those held.
    pub(super) fn take_ended(&mut self) -> Vec<UnixWait> {
        self.shown = 0;
        mem::take(&mut self.held)
    }

    /// Return the sockets of connections that were open at the last look.
    pub(super) fn followed(&self) -> impl Iterator<Item = SocketCookie> {
        self.before.keys().copied().map(SocketCookie)
    }

    /// Add what has ended, and what is open for so long and waited for.
    pub(super) fn add_to(&mut self, waits: &mut Waits, slow: Nanos) {
        waits.unix.append(&mut self.take_ended());
        let mut all = self.closed.clone();
        for looked in self.before.values() {
            // A connection without room is counted when it is closed.
            if let Some(sum) = attempts(&mut all, &looked.flow.ends) {
                add(sum, &looked.flow, 0);
            }
            let mut wait = looked.wait(End::Open);
            wait.is_new = !self.older.contains(&wait.inode);
            if looked.is_asked() && looked.flow.course.watched != 0 && wait.lasted >= slow {
                waits.unix.push(wait);
            }
        }
        let new = all.iter().map(|(key, sum)| since(sum, self.taken.get(key)));
        waits
            .unix_attempts
            .extend(new.filter(|attempts| attempts.count > 0));
        self.taken = all;
        // As all counts of what is missing: since the start.
        waits.lost += self.lost;
        waits.untold += self.untold;
    }
}

fn attempts<'a>(all: &'a mut Counts, ends: &unix_ends) -> Option<&'a mut UnixAttempts> {
    let (comm, service) = (text(&ends.comm), path(&ends.path, ends.path_bytes));
    let key = (comm.clone(), service.clone());
    if all.len() >= COUNTED && !all.contains_key(&key) {
        return None;
    }
    let new = || UnixAttempts {
        service,
        comm,
        count: 0,
        failed: 0,
        sum_ns: 0,
    };
    Some(all.entry(key).or_insert_with(new))
}

/// Return what is new of a count.
fn since(sum: &UnixAttempts, before: Option<&UnixAttempts>) -> UnixAttempts {
    let before = before.map_or((0, 0, 0), |one| (one.count, one.failed, one.sum_ns));
    UnixAttempts {
        count: sum.count.saturating_sub(before.0),
        failed: sum.failed.saturating_sub(before.1),
        sum_ns: sum.sum_ns.saturating_sub(before.2),
        ..sum.clone()
    }
}

fn add(sum: &mut UnixAttempts, flow: &unix_flow, failed: u64) {
    let failed = failed + flow.course.failed;
    sum.count += flow.course.answered + failed;
    sum.failed += failed;
    sum.sum_ns += u128::from(flow.course.sum_ns);
}

fn wait(ends: &unix_ends, since: u64, lasted: Nanos, end: End, bytes: u64) -> UnixWait {
    UnixWait {
        kind: Kind::Answer,
        service: path(&ends.path, ends.path_bytes),
        server: (ends.listener != 0).then(|| (ends.listener, Name::default())),
        netns: NetnsInode(ends.netns),
        cookie: SocketCookie(ends.cookie),
        inode: ends.inode,
        cgroup: CgroupId(ends.cgroup),
        pid: ends.pid,
        comm: text(&ends.comm),
        is_new: false,
        since: Timestamp::from_nanos(since),
        lasted,
        inside: lasted,
        end,
        bytes,
    }
}

pub(crate) fn text(name: &[c_char]) -> Name {
    let bytes: Vec<_> = name.iter().map(|byte| byte.cast_unsigned()).collect();
    let end = bytes.iter().position(|byte| *byte == 0);
    Name::from(&bytes[..end.unwrap_or(bytes.len())])
}

/// Return a path without the zero that ends it; that of an abstract name begins it.
pub(crate) fn path(path: &[c_char], bytes: u32) -> Name {
    let bytes = usize::try_from(bytes).unwrap_or(0).min(path.len());
    let name: Vec<_> = path[..bytes]
        .iter()
        .map(|byte| byte.cast_unsigned())
        .collect();
    match name.split_first() {
        Some((0, name)) => Name::from(&[b"@", name].concat()[..]),
        _ => Name::from(name.split(|byte| *byte == 0).next().unwrap_or_default()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Return a wait of some program.
    pub(in crate::unix) fn waited() -> UnixWait {
        wait(&asked(1, MS).ends, MS, Nanos(30 * MS), End::Open, 1)
    }

    fn asked(cookie: u64, since: u64) -> unix_flow {
        let mut flow = unix_flow::default();
        (flow.ends.cookie, flow.ends.inode, flow.course.since) = (cookie, cookie, since);
        flow.course.watched = 1;
        let path = b"/run/db\0";
        flow.ends.path_bytes = 8;
        for (to, from) in flow.ends.path.iter_mut().zip(path) {
            *to = from.cast_signed();
        }
        flow
    }

    fn look(seen: &mut Seen, flow: unix_flow, is_there: bool, at: u64) {
        seen.flow(flow, is_there, at);
        seen.looked();
    }

    fn taken(seen: &mut Seen) -> Waits {
        let mut waits = Waits::default();
        seen.add_to(&mut waits, Nanos(10 * MS));
        waits
    }

    #[test]
    fn a_question_is_given_up_after_the_last_look_that_saw_it() {
        let mut seen = Seen::default();
        look(&mut seen, asked(1, MS), true, 301 * MS);
        assert!(seen.has_open());
        let open = taken(&mut seen);
        assert_eq!(
            (open.unix[0].end, open.unix[0].lasted),
            (End::Open, Nanos(300 * MS))
        );
        assert_eq!(open.unix[0].service, Name::from("/run/db"));
        look(&mut seen, asked(1, MS), false, 401 * MS);
        let waits = taken(&mut seen);
        assert_eq!(
            (waits.unix[0].end, waits.unix[0].lasted),
            (End::GivenUp, Nanos(300 * MS))
        );
        let all = &waits.unix_attempts[0];
        assert_eq!((all.count, all.failed), (1, 1));
        assert!(taken(&mut seen).unix_attempts.is_empty());
    }

    #[test]
    fn nobody_waits_for_what_is_doubted_or_not_watched() {
        let mut seen = Seen::default();
        let mut doubted = asked(1, MS);
        doubted.course.doubted = 1;
        let mut not_watched = asked(2, MS);
        not_watched.course.watched = 0;
        seen.flow(doubted, true, 900 * MS);
        seen.flow(not_watched, true, 900 * MS);
        seen.looked();
        assert!(taken(&mut seen).unix.is_empty());
    }

    #[test]
    fn what_found_no_room_is_counted() {
        let mut seen = Seen::default();
        seen.without_room(3, 4);
        let waits = taken(&mut seen);
        assert_eq!((waits.untold, waits.lost), (3, 4));
        // Counts go on from the start.
        assert_eq!(taken(&mut seen).lost, 4);
    }

    #[test]
    fn programs_without_room_are_counted_when_they_close() {
        let mut seen = Seen::default();
        for of in 0..=COUNTED as u64 {
            let mut flow = asked(of, 0);
            flow.course.answered = 2;
            for (to, from) in flow.ends.comm.iter_mut().zip(format!("{of}").bytes()) {
                *to = from.cast_signed();
            }
            seen.flow(flow, false, MS);
        }
        let waits = taken(&mut seen);
        assert_eq!((waits.unix_attempts.len(), waits.untold), (COUNTED, 2));
    }

    #[test]
    fn an_abstract_name_begins_with_a_sign() {
        let mut ends = asked(1, 0);
        ends.ends.path[0] = 0;
        assert_eq!(
            path(&ends.ends.path, ends.ends.path_bytes).to_string(),
            "@run/db\\x00"
        );
    }
}
