//! The waits of a recording: the file beside that of the messages, and what its facts tell.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{NetnsInode, SocketCookie};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Attempts, Key, UnixAttempts, Waits};
use sockstamp_record::{Reader, WaitReader, Waited};
use sockstamp_run::escape;

use super::Recordings;
use super::beside::waits_beside;

/// The fact that has the attempts of a recording.
pub(crate) const ATTEMPTS: &str = "attempts";
/// The fact that has those at services behind Unix sockets.
pub(crate) const UNIX_ATTEMPTS: &str = "unix_attempts";
/// The fact that has the sockets of its waits whose answers were owed.
pub(crate) const OWED: &str = "owed";
/// The fact that has the sockets of connections that are older than it.
pub(crate) const OLDER: &str = "older";
/// The fact that says how many waits it lacks, because they came too fast.
pub(crate) const LOST_WAITS: &str = "lost_waits";
/// The fact that has the names of its processes; a message has that of the thread that called.
pub(crate) const PROCESSES: &str = "processes";

/// Return attempts as a fact.
pub(crate) fn of_attempts(attempts: &[Attempts]) -> Result<String> {
    Ok(serde_json::to_string(attempts)?)
}

/// Return those at services behind Unix sockets as a fact.
pub(crate) fn of_unix_attempts(attempts: &[UnixAttempts]) -> Result<String> {
    Ok(serde_json::to_string(attempts)?)
}

/// Return sockets as a fact.
pub(crate) fn of_sockets(sockets: &[SocketCookie]) -> String {
    let sockets = sockets.iter().map(|cookie| Value::from(cookie.0));
    Value::Array(sockets.collect()).to_string()
}

/// Read them; what is no number is left out.
fn sockets(fact: &str) -> impl Iterator<Item = SocketCookie> {
    let sockets: Vec<Value> = serde_json::from_str(fact).unwrap_or_default();
    let number = |cookie: Value| cookie.as_u64().map(SocketCookie);
    sockets.into_iter().filter_map(number)
}

/// Return names of processes as a fact.
pub(crate) fn of_processes<'a>(names: impl Iterator<Item = (u32, &'a Name)>) -> String {
    let names = names.map(|(pid, name)| (pid.to_string(), name.exact().into_owned().into()));
    Value::Object(names.collect()).to_string()
}

/// Read attempts; those that are not whole are left out.
fn attempts(fact: &str) -> Vec<Attempts> {
    let all: Vec<Value> = serde_json::from_str(fact).unwrap_or_default();
    all.iter().filter_map(one).collect()
}

fn one(value: &Value) -> Option<Attempts> {
    let number = |key: &str| value.get(key)?.as_u64();
    let small = |key: &str| u32::try_from(number(key)?).ok();
    let text = |key: &str| value.get(key)?.as_str();
    Some(Attempts {
        key: Key {
            kind: text("kind")?.parse().ok()?,
            netns: NetnsInode(small("netns")?),
            protocol: text("protocol")?.parse().ok()?,
            service: text("service")?.parse().ok()?,
            pid: small("pid")?,
        },
        comm: Name::from(text("comm")?),
        count: number("count")?,
        failed: number("failed")?,
        // A sum of 584 years fits into 64 bits.
        sum_ns: number("sum_ns")?.into(),
        min_ns: Nanos(number("min_ns")?),
        // Recordings of earlier programs lack it.
        prompted: number("prompted").unwrap_or(0),
    })
}

/// Read those at services behind Unix sockets; those that are not whole are left out.
fn unix_attempts(fact: &str) -> Vec<UnixAttempts> {
    let one = |value: &Value| {
        let number = |key: &str| value.get(key)?.as_u64();
        let name = |key: &str| value.get(key)?.as_str().map(Name::from);
        Some(UnixAttempts {
            service: name("service")?,
            comm: name("comm")?,
            count: number("count")?,
            failed: number("failed")?,
            sum_ns: number("sum_ns")?.into(),
        })
    };
    let all: Vec<Value> = serde_json::from_str(fact).unwrap_or_default();
    all.iter().filter_map(one).collect()
}

fn processes(fact: &str) -> impl Iterator<Item = (u32, Name)> {
    let names: BTreeMap<String, String> = serde_json::from_str(fact).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|(pid, name)| Some((pid.parse().ok()?, Name::from(name))))
}

impl Recordings {
    /// Return the waits of the recordings, under the names of their processes; pass each row.
    pub(crate) fn waits(&self, mut see: impl FnMut(&Waited)) -> Result<Waits> {
        let names = self.processes();
        let mut waits = Waits::default();
        for recording in &self.readers {
            let counted = recording.fact(ATTEMPTS).map(attempts);
            let chosen = |one: &Attempts| self.choice.has_attempts(one, names.of(one.key.pid));
            let counted = counted.into_iter().flatten();
            waits.attempts.extend(counted.filter(chosen));
            let counted = recording.fact(UNIX_ATTEMPTS).map(unix_attempts);
            let chosen = |one: &UnixAttempts| self.choice.has_unix_attempts(one);
            let counted = counted.into_iter().flatten();
            waits.unix_attempts.extend(counted.filter(chosen));
            let of_fact = |name| recording.fact(name).into_iter().flat_map(sockets);
            waits.owed.extend(of_fact(OWED));
            // Each host counts its sockets from one: those of another may be new.
            if self.readers.len() == 1 || self.are_of_one_host() {
                waits.older.extend(of_fact(OLDER));
            }
            let lost = recording.fact(LOST_WAITS);
            let lost = lost.and_then(|lost| lost.parse().ok()).unwrap_or(0);
            waits.lost = waits.lost.saturating_add(lost);
            if let Some(file) = file_beside(recording)? {
                file.each(|row| {
                    if self.choice.has_wait(&row, names.of(row.wait.pid)) {
                        see(&row);
                        match row.unix() {
                            Some(wait) => waits.unix.push(wait),
                            None => waits.list.push(row.wait),
                        }
                    }
                })?;
            }
        }
        for wait in &mut waits.list {
            names.rename(wait.pid, &mut wait.comm);
        }
        for attempts in &mut waits.attempts {
            names.rename(attempts.key.pid, &mut attempts.comm);
        }
        Ok(waits)
    }

    /// Return the names of processes.
    pub(crate) fn processes(&self) -> Processes {
        let facts = self.readers.iter().filter_map(|one| one.fact(PROCESSES));
        Processes(facts.flat_map(processes).collect())
    }
}

/// The names of processes, where a recording has them.
#[derive(Debug, Default)]
pub(crate) struct Processes(BTreeMap<u32, Name>);

impl Processes {
    /// Return the name of this process, if it is known.
    pub(crate) fn of(&self, pid: u32) -> Option<&Name> {
        self.0.get(&pid)
    }

    fn rename(&self, pid: u32, comm: &mut Name) {
        if let Some(name) = self.0.get(&pid) {
            comm.clone_from(name);
        }
    }

    /// Return the message under the name of its process, if it has that of a thread.
    pub(crate) fn renamed(&self, message: &Message) -> Option<Message> {
        let name = self.0.get(&message.pid)?;
        (*name != message.comm).then(|| Message {
            comm: name.clone(),
            ..message.clone()
        })
    }
}

/// Open the waits of a file of messages; a recording without any has no file of them.
fn file_beside(messages: &Reader) -> Result<Option<WaitReader>> {
    let path = waits_beside(messages.path());
    if !path.exists() {
        return Ok(None);
    }
    let file = WaitReader::open(&path)?;
    if file.unread() > 0 {
        escape::complain(format_args!(
            "{}: its last {} bytes belong to no whole waits: the recording was killed, or \
             the file was cut short",
            path.display(),
            file.unread()
        ));
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::Protocol;
    use sockstamp_model::wait::Kind;
    use sockstamp_record::Writer;
    use tempfile::tempdir;

    use super::super::HOST;
    use super::*;

    fn counted(pid: u32) -> Attempts {
        Attempts {
            key: Key {
                kind: Kind::Connect,
                netns: NetnsInode(4_026_531_840),
                protocol: Protocol::Tcp,
                service: "[2001:db8::1]:80".parse().unwrap(),
                pid,
            },
            comm: Name::from("a\"b"),
            count: u64::MAX,
            failed: 3,
            sum_ns: 7,
            min_ns: Nanos(2),
            prompted: 5,
        }
    }

    #[test]
    fn attempts_are_read_back_as_they_were() {
        let written = vec![counted(7), counted(8)];
        assert_eq!(attempts(&of_attempts(&written).unwrap()), written);
        assert_eq!(attempts("[{\"kind\": 3}, 4]"), []);
        assert_eq!(attempts("no"), []);
    }

    #[test]
    fn attempts_at_unix_sockets_are_read_back_as_they_were() {
        let written = vec![UnixAttempts {
            service: Name::from("@a\"b"),
            comm: Name::from("php-fpm"),
            count: u64::MAX,
            failed: 3,
            sum_ns: 7,
        }];
        assert_eq!(unix_attempts(&of_unix_attempts(&written).unwrap()), written);
        assert_eq!(unix_attempts("[{\"service\": \"a\"}, 4]"), []);
    }

    #[test]
    fn sockets_are_read_back_as_they_were() {
        let written = [SocketCookie(7), SocketCookie(u64::MAX)];
        assert!(sockets(&of_sockets(&written)).eq(written));
        assert_eq!(
            sockets("[\"a\", 3, -1]").collect::<Vec<_>>(),
            [SocketCookie(3)]
        );
        assert_eq!(sockets("no").count(), 0);
    }

    #[test]
    fn sockets_of_one_host_are_no_older_ones_of_another() {
        let older = |hosts: &[&str]| {
            let directory = tempdir().unwrap();
            let file = |(number, host): (usize, &&str)| {
                let path = directory.path().join(format!("{number}.parquet"));
                let sockets = of_sockets(&[SocketCookie(number as u64)]);
                let facts = [(OLDER, sockets), (HOST, (*host).to_owned())];
                Writer::create(&path, &facts).unwrap().finish().unwrap();
                path
            };
            let files: Vec<_> = hosts.iter().enumerate().map(file).collect();
            let waits = Recordings::open(&files).unwrap().waits(|_| {}).unwrap();
            waits.older.len()
        };
        assert_eq!(older(&["a"]), 1);
        assert_eq!(older(&["a", "a"]), 2);
        assert_eq!(older(&["a", "b"]), 0);
    }

    #[test]
    fn processes_are_read_back_as_they_were() {
        let names = [(7, Name::from("java")), (u32::MAX, Name::from("a\"b"))];
        let fact = of_processes(names.iter().map(|(pid, name)| (*pid, name)));
        let read: BTreeMap<_, _> = processes(&fact).collect();
        assert_eq!(read, BTreeMap::from(names));
    }
}
