//! Waits, in a file next to that of the messages: one row each.
//!
//! A message exists once its data has come: what no data ended has a row here alone.

use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Evidence, UnixWait, Wait};

use crate::error::Error;
use crate::fields::Value::{Integer, Text};
use crate::fields::{Field, OF_FLOW, OfFlow, column, flow_of, integers, of_flow, write};
use crate::rows::{RowGroup, Rows};
use crate::schema::{Column, Kind};
use crate::table::{Decoded, Table};
use crate::unix_waits::{self, OfUnix, STAND_IN, UNIX};

/// Rows of a row group at most; they take some ten megabytes in memory.
const ROWS: usize = 1 << 14;

/// A wait of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// When it ended, or was looked at last.
    pub time: Timestamp<Realtime>,
    /// The wait. One at a Unix socket has no addresses.
    pub wait: Wait,
    /// The service of one at a Unix socket.
    pub unix: Option<OfUnix>,
}

impl Waited {
    /// Return the row of a wait at a Unix socket.
    #[must_use]
    pub fn of_unix(time: Timestamp<Realtime>, wait: UnixWait) -> Self {
        let (wait, unix) = unix_waits::apart(wait);
        let unix = Some(unix);
        Self { time, wait, unix }
    }

    /// Return the wait at a Unix socket, if it is one.
    #[must_use]
    pub fn unix(&self) -> Option<UnixWait> {
        let unix = self.unix.as_ref()?;
        Some(unix_waits::together(&self.wait, unix))
    }
}

/// The columns of when a wait was, for what, and how it ended.
const BEFORE: [Field<Waited>; FLOW] = [
    ("time_ns", false, Integer(|row| stamp(row.time.as_nanos()))),
    (
        "since_ns",
        false,
        Integer(|row| stamp(row.wait.since.as_nanos())),
    ),
    ("lasted_ns", false, Integer(|row| stamp(row.wait.lasted.0))),
    ("inside_ns", false, Integer(|row| stamp(row.wait.inside.0))),
    (
        "kind",
        false,
        Text(|row| Some(row.wait.kind.name().to_owned())),
    ),
    (
        "ended",
        false,
        Text(|row| Some(row.wait.end.name().to_owned())),
    ),
];

/// The columns of whose wait it is, after those of the flow.
const AFTER: [Field<Waited>; 7] = [
    (
        "opened",
        true,
        Text(|row| Some(row.wait.opened?.name().to_owned())),
    ),
    ("cgroup", false, Integer(|row| stamp(row.wait.cgroup.0))),
    ("pid", false, Integer(|row| Some(row.wait.pid.into()))),
    (
        "comm",
        false,
        Text(|row| Some(row.wait.comm.exact().into_owned())),
    ),
    (
        "members",
        false,
        Integer(|row| Some(row.wait.members.into())),
    ),
    ("bytes", false, Integer(|row| stamp(row.wait.bytes))),
    (
        "asked_of",
        true,
        Text(|row| Some(row.wait.evidence.tasks.as_ref()?.asked?.to_string())),
    ),
];

/// The columns of a wait at a Unix socket, after all others.
const OF_UNIX: [Field<Waited>; 5] = [
    (
        "service",
        true,
        Text(|row| Some(row.unix.as_ref()?.service.exact().into_owned())),
    ),
    (
        "server_pid",
        true,
        Integer(|row| Some(row.unix.as_ref()?.server.as_ref()?.0.into())),
    ),
    (
        "server_comm",
        true,
        Text(|row| {
            let (_, comm) = row.unix.as_ref()?.server.as_ref()?;
            Some(comm.exact().into_owned())
        }),
    ),
    (
        "inode",
        true,
        Integer(|row| stamp(row.unix.as_ref()?.inode)),
    ),
    (
        "is_new",
        true,
        Integer(|row| Some(row.unix.as_ref()?.is_new.into())),
    ),
];

fn fields() -> impl Iterator<Item = Field<Waited>> {
    BEFORE.into_iter().chain(of_flow()).chain(AFTER)
}

impl OfFlow for Waited {
    fn flow(&self) -> &Flow {
        &self.wait.flow
    }

    fn protocol(&self) -> &'static str {
        match self.unix {
            Some(_) => UNIX,
            None => self.wait.flow.protocol.name(),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "columns may lack a value")]
const fn stamp(nanos: u64) -> Option<i64> {
    Some(nanos.cast_signed())
}

/// A figure of the evidence, as a column has it.
trait Figure {
    fn get(&self) -> Option<i64>;

    /// Return `None` for an impossible value.
    fn set(&mut self, value: i64) -> Option<()>;
}

impl Figure for u64 {
    fn get(&self) -> Option<i64> {
        Some(self.cast_signed())
    }

    fn set(&mut self, value: i64) -> Option<()> {
        *self = value.cast_unsigned();
        Some(())
    }
}

impl Figure for Nanos {
    fn get(&self) -> Option<i64> {
        self.0.get()
    }

    fn set(&mut self, value: i64) -> Option<()> {
        self.0.set(value)
    }
}

impl Figure for u32 {
    fn get(&self) -> Option<i64> {
        Some((*self).into())
    }

    fn set(&mut self, value: i64) -> Option<()> {
        *self = value.try_into().ok()?;
        Some(())
    }
}

impl Figure for u8 {
    fn get(&self) -> Option<i64> {
        Some((*self).into())
    }

    fn set(&mut self, value: i64) -> Option<()> {
        *self = value.try_into().ok()?;
        Some(())
    }
}

impl Figure for bool {
    fn get(&self) -> Option<i64> {
        Some((*self).into())
    }

    fn set(&mut self, value: i64) -> Option<()> {
        *self = match value {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(())
    }
}

impl<T: Figure + Default> Figure for Option<T> {
    fn get(&self) -> Option<i64> {
        self.as_ref()?.get()
    }

    fn set(&mut self, value: i64) -> Option<()> {
        self.get_or_insert_default().set(value)
    }
}

/// Read a figure, and write it.
type Access = (
    fn(&Evidence) -> Option<i64>,
    fn(&mut Evidence, i64) -> Option<()>,
);

/// List the figures of the evidence, and of what it has of tasks and of the connection.
macro_rules! figures {
    (
        $($name:literal = $field:ident,)*
        $($group:ident { $($of_group:literal = $inner:ident,)* })*
    ) => {
        [
            $((
                $name,
                (
                    |evidence: &Evidence| evidence.$field.get(),
                    |evidence: &mut Evidence, value| evidence.$field.set(value),
                ),
            ),)*
            $($((
                $of_group,
                (
                    |evidence: &Evidence| evidence.$group.as_ref()?.$inner.get(),
                    |evidence: &mut Evidence, value| {
                        evidence.$group.get_or_insert_default().$inner.set(value)
                    },
                ),
            ),)*)*
        ]
    };
}

/// The columns of what was seen of it; a row lacks what is not known.
const FIGURES: [(&str, Access); 41] = figures! {
    "asked_ns" = asked,
    "left_ns" = left,
    "acknowledged_ns" = acknowledged,
    "arrived_ns" = arrived,
    "resent" = resent,
    "resent_in_vain" = resent_in_vain,
    "syns" = syns,
    "out_of_order_ns" = out_of_order,
    "window_closed_ns" = window_closed,
    "buffer_full_ns" = buffer_full,
    tasks {
        "running_ns" = running,
        "runnable_ns" = runnable,
        "throttled_ns" = throttled,
        "asks_ns" = asks,
        "questions" = questions,
        "beside" = beside,
    }
    connection {
        "min_rtt_ns" = min_rtt,
        "srtt_ns" = srtt,
        "unacknowledged" = unacknowledged,
        "unsent" = unsent,
        "unread" = unread,
        "peer_window" = peer_window,
        "own_window" = own_window,
        "backoff" = backoff,
        "probes" = probes,
        "life_resent" = resent,
        "life_dsacks" = dsacks,
        "life_reordered" = reordered,
        "congestion_window" = congestion_window,
        "threshold" = threshold,
        "segment" = segment,
        "life_sends" = sends,
        "life_receives" = receives,
        "sent_ago_ns" = sent_ago,
        "received_ago_ns" = received_ago,
        "heard_ago_ns" = heard_ago,
        "buffer_set" = buffer_set,
        "unscaled" = unscaled,
        "paced" = paced,
        "life_window_limited_ns" = window_limited,
        "life_buffer_limited_ns" = buffer_limited,
    }
};

/// Waits that will be one row group.
#[derive(Debug, Default)]
pub struct WaitRows {
    rows: Vec<Waited>,
}

impl WaitRows {
    /// Add a wait.
    pub fn push(&mut self, row: Waited) {
        self.rows.push(row);
    }
}

impl Rows for WaitRows {
    const VERSION: (&'static str, u32) = ("sockstamp.waits", 1);
    const GROWING: &'static [&'static str] = &["time_ns", "since_ns"];
    const FEW: &'static [&'static str] = &["members"];

    fn columns() -> Vec<Column> {
        let figure = |(name, _): (&str, Access)| Column {
            name: name.to_owned(),
            kind: Kind::Integer,
            optional: true,
        };
        fields()
            .map(column)
            .chain(FIGURES.into_iter().map(figure))
            .chain(OF_UNIX.into_iter().map(column))
            .collect()
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= ROWS
    }

    fn clear(&mut self) {
        self.rows.clear();
    }

    fn write(&self, group: &mut RowGroup<'_>) -> Result<(), ParquetError> {
        fields().try_for_each(|field| write(group, &self.rows, field))?;
        for (_, (get, _)) in FIGURES {
            integers(
                group,
                true,
                self.rows.iter().map(|row| get(&row.wait.evidence)),
            )?;
        }
        let mut of_unix = OF_UNIX.into_iter();
        of_unix.try_for_each(|field| write(group, &self.rows, field))
    }
}

/// A file of waits that is read.
#[derive(Debug)]
pub struct WaitReader(Arc<Table>);

impl WaitReader {
    /// Open a file. One that was cut off is read up to its last note.
    ///
    /// # Errors
    ///
    /// If it cannot be read, has no footer, or has no waits of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Table::open::<WaitRows>(path).map(|table| Self(Arc::new(table)))
    }

    /// The number of waits.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows()
    }

    /// Return the first and the last time of waits; `None` if their writer noted none.
    #[must_use]
    pub fn span(&self) -> Option<[Timestamp<Realtime>; 2]> {
        self.0.span()
    }

    /// The bytes after the last note or footer: rows that the writer had no time to finish.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.0.unread()
    }

    /// Return what the writer noted about itself, such as its host.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.0.fact(key)
    }

    /// Pass the waits, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn each(&self, mut take: impl FnMut(Waited)) -> Result<(), Error> {
        for (group, decoded) in self.0.groups(|_| true, 1) {
            let rows = decoded?;
            for row in 0..rows.count {
                let waited = waited(&rows, row);
                take(waited.map_err(|reason| self.0.damaged(group, reason))?);
            }
        }
        Ok(())
    }
}

/// The places of columns, as in [`fields()`].
const FLOW: usize = 6;
const OWNER: usize = FLOW + OF_FLOW;
const ASKED_OF: usize = OWNER + AFTER.len() - 1;
const SERVICE: usize = ASKED_OF + 1 + FIGURES.len();

fn waited(rows: &Decoded, row: usize) -> Result<Waited, String> {
    let unsigned = |column: usize| rows.number::<i64>(column, row).map(i64::cast_unsigned);
    let unix = match rows.text(FLOW, row) {
        Some(name) if name == UNIX.as_bytes() => Some(unix_waits::read(rows, SERVICE, row)?),
        _ => None,
    };
    let protocol = match unix {
        Some(_) => STAND_IN,
        None => rows.word(FLOW, row)?,
    };
    let wait = Wait {
        since: Timestamp::from_nanos(unsigned(1)?),
        lasted: Nanos(unsigned(2)?),
        inside: Nanos(unsigned(3)?),
        kind: rows.word(4, row)?,
        end: rows.word(5, row)?,
        flow: flow_of(rows, FLOW, row, protocol)?,
        opened: rows.word_if_there(OWNER, row)?,
        cgroup: CgroupId(unsigned(OWNER + 1)?),
        pid: rows.number(OWNER + 2, row)?,
        comm: Name::from(
            rows.text(OWNER + 3, row)
                .ok_or_else(|| rows.wrong(OWNER + 3))?,
        ),
        members: rows.number(OWNER + 4, row)?,
        bytes: unsigned(OWNER + 5)?,
        evidence: evidence(rows, row)?,
    };
    Ok(Waited {
        time: Timestamp::from_nanos(unsigned(0)?),
        wait,
        unix,
    })
}

fn evidence(rows: &Decoded, row: usize) -> Result<Evidence, String> {
    let mut evidence = Evidence::default();
    for (place, (_, (_, set))) in (ASKED_OF + 1..).zip(FIGURES) {
        if let Some(value) = rows.integer(place, row) {
            set(&mut evidence, value).ok_or_else(|| rows.wrong(place))?;
        }
    }
    let asked = rows.word_if_there(ASKED_OF, row)?;
    match &mut evidence.tasks {
        Some(tasks) => tasks.asked = asked,
        None if asked.is_some() => return Err(rows.wrong(ASKED_OF)),
        None => {}
    }
    Ok(evidence)
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::{NetnsInode, Opened, Protocol, SocketCookie};
    use sockstamp_model::wait::{Connection, End, Kind as Thing, Tasks};
    use tempfile::tempdir;

    use super::*;
    use crate::writer::FileWriter;

    fn wait(kind: Thing, end: End) -> Waited {
        let wait = Wait {
            kind,
            flow: Flow {
                netns: NetnsInode(7),
                protocol: Protocol::Tcp,
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: "[2001:db8::1]:5432".parse().unwrap(),
                cookie: SocketCookie(u64::MAX),
            },
            opened: None,
            cgroup: CgroupId(u64::MAX - 1),
            pid: 9,
            comm: Name::from("a b"),
            since: Timestamp::from_nanos(1000),
            lasted: Nanos(500),
            inside: Nanos(400),
            end,
            members: 3,
            bytes: 12,
            evidence: Evidence::default(),
        };
        Waited {
            time: Timestamp::from_nanos(1_700_000_000_000_000_000),
            wait,
            unix: None,
        }
    }

    /// Each figure has a value of its own.
    fn with_all_evidence(mut row: Waited) -> Waited {
        for (number, (name, (_, set))) in (0..).zip(FIGURES) {
            let is_flag = ["buffer_set", "unscaled"].contains(&name);
            let value = if is_flag { 1 } else { number };
            set(&mut row.wait.evidence, value).unwrap();
        }
        let tasks = row.wait.evidence.tasks.as_mut().unwrap();
        tasks.asked = Some("10.0.0.9:80".parse().unwrap());
        row.wait.opened = Some(Opened::Accepted);
        row
    }

    fn through_a_file(rows: &[Waited]) -> Vec<Waited> {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = FileWriter::<WaitRows>::create(&path, &[]).unwrap();
        let mut batch = WaitRows::default();
        rows.iter().cloned().for_each(|row| batch.push(row));
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let reader = WaitReader::open(&path).unwrap();
        assert_eq!(reader.rows(), rows.len() as u64);
        let mut read = Vec::new();
        reader.each(|row| read.push(row)).unwrap();
        read
    }

    #[test]
    fn waits_are_read_back_as_they_were() {
        let mut rows = Vec::new();
        for kind in Thing::ALL {
            for end in End::ALL {
                rows.push(wait(kind, end));
                rows.push(with_all_evidence(wait(kind, end)));
            }
        }
        assert_eq!(through_a_file(&rows), rows);
    }

    #[test]
    fn waits_at_unix_sockets_are_read_back_as_they_were() {
        let of = |kind, server| UnixWait {
            kind,
            service: Name::from("@a\u{1}b"),
            server,
            netns: NetnsInode(7),
            cookie: SocketCookie(u64::MAX),
            inode: u64::MAX - 1,
            cgroup: CgroupId(5),
            pid: 9,
            comm: Name::from("php-fpm"),
            is_new: true,
            since: Timestamp::from_nanos(1000),
            lasted: Nanos(500),
            inside: Nanos(400),
            end: End::GivenUp,
            bytes: 12,
        };
        let server = Some((8, Name::from("")));
        let waits = [of(Thing::Answer, server), of(Thing::Accept, None)];
        let row = |wait| Waited::of_unix(Timestamp::from_nanos(3), wait);
        let mut rows: Vec<_> = waits.clone().map(row).into();
        rows.push(wait(Thing::Answer, End::Open));
        let read = through_a_file(&rows);
        assert_eq!(read, rows);
        let read: Vec<_> = read.iter().map(Waited::unix).collect();
        let [first, second] = waits.map(Some);
        assert_eq!(read, [first, second, None]);
    }

    #[test]
    fn what_is_known_and_zero_is_not_unknown() {
        let mut known = wait(Thing::Answer, End::Open);
        known.wait.evidence = Evidence {
            resent: Some(0),
            tasks: Some(Tasks::default()),
            connection: Some(Connection::default()),
            ..Evidence::default()
        };
        let unknown = wait(Thing::Answer, End::Open);
        let rows = [known, unknown];
        assert_eq!(through_a_file(&rows), rows);
    }

    #[test]
    fn impossible_figures_are_refused() {
        let mut evidence = Evidence::default();
        let refused = FIGURES
            .into_iter()
            .filter(|(_, (_, set))| set(&mut evidence, -1).is_none());
        // Times and rates may have any 64 bits.
        assert!(refused.count() >= 20);
    }

    #[test]
    fn columns_have_names_of_their_own() {
        let mut names: Vec<_> = WaitRows::columns()
            .into_iter()
            .map(|one| one.name)
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
