//! Read messages out of a file of unknown origin.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::message::{Interfaces, Message, Stamps};
use sockstamp_model::name::Name;
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::unpaired::Unpaired;
use sockstamp_model::verdict::Verdict;

use crate::batch::Batch;
use crate::error::Error;
use crate::schema::{self, Column, STAMPS, parts};
use crate::stamps::{self, Stored};
use crate::table::{Decoded, Table};

/// A recording that is read.
#[derive(Debug)]
pub struct Reader {
    table: Arc<Table>,
    /// Readers that decode at the same time.
    readers: usize,
}

impl Reader {
    /// Open a file. One that was cut off is read up to its last note.
    ///
    /// # Errors
    ///
    /// If it cannot be read, has no footer, or is no recording of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Table::open::<Batch>(path).map(|table| Self {
            table: Arc::new(table),
            readers: 1,
        })
    }

    /// Share processors, and the memory of decoded row groups, with other readers: this many decode
    /// at the same time.
    #[must_use]
    pub fn shared(self, readers: usize) -> Self {
        Self { readers, ..self }
    }

    /// The path that it was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.table.path
    }

    /// The number of messages.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Return the times of the first and of the last message; `None` if its writer noted none.
    #[must_use]
    pub fn span(&self) -> Option<[Timestamp<Realtime>; 2]> {
        self.table.span()
    }

    /// Iterate over the row groups: the number of messages in each.
    pub fn groups(&self) -> impl Iterator<Item = u64> {
        self.table.rows_of_groups().filter(|rows| *rows > 0)
    }

    /// The bytes after the last note or footer: rows that the writer had no time to finish.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.table.unread()
    }

    /// Return what the writer noted about itself, such as its host.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.table.fact(key)
    }

    /// Iterate over the messages, row group by row group. Their group is `None`, and v4-mapped
    /// addresses are IPv4.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message, Error>> {
        self.rows_of(Detail::All).flat_map(move |(group, rows)| {
            let (rows, failed) = match rows {
                Ok(rows) => (Some(rows), None),
                Err(error) => (None, Some(Err(error))),
            };
            let messages = rows.into_iter().flat_map(move |mut rows| {
                (0..rows.decoded.count).map(move |row| {
                    let message = rows.message(row).cloned();
                    message.map_err(|reason| self.table.damaged(group, reason))
                })
            });
            messages.chain(failed)
        })
    }

    /// Pass the messages in the same order, with these columns; `take` may end it. This copies
    /// none.
    ///
    /// # Errors
    ///
    /// If the file is damaged, and those of `take`.
    pub fn each<E: From<Error>>(
        &self,
        detail: Detail,
        mut take: impl FnMut(&Message) -> Result<(), E>,
    ) -> Result<(), E> {
        for (group, rows) in self.rows_of(detail) {
            let mut rows = rows?;
            for row in 0..rows.decoded.count {
                let message = rows.message(row);
                take(message.map_err(|reason| self.table.damaged(group, reason))?)?;
            }
        }
        Ok(())
    }

    fn rows_of(&self, detail: Detail) -> impl Iterator<Item = (usize, Result<Rows, Error>)> {
        let decoded = self.table.groups(detail.columns(), self.readers);
        decoded
            .map(move |(group, decoded)| (group, decoded.map(|decoded| Rows::new(decoded, detail))))
    }
}

/// The part of messages that is read: unused columns cost as much as others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The socket's cookie, the time, the weight, the verdict, stages and parts. All else is empty
    /// or zero.
    Durations,
    /// All but stamps, the age of the oldest byte, and what belongs to the connection.
    Dimensions,
    /// Everything.
    All,
}

impl Detail {
    const fn columns(self) -> fn(&Column) -> bool {
        match self {
            Self::Durations => schema::is_duration,
            Self::Dimensions => schema::is_dimension,
            Self::All => |_| true,
        }
    }
}

/// The places of columns.
const FLAGS: usize = schema::OF_IDENTITY.len();
const ALWAYS: usize = FLAGS + schema::FLAGS.len();
const SOMETIMES: usize = ALWAYS + schema::ALWAYS.len();
const STAGES: usize = SOMETIMES + schema::SOMETIMES.len();
const PARTS: usize = STAGES + Stage::COUNT;

/// The messages of a row group.
#[derive(Debug)]
struct Rows {
    decoded: Decoded,
    detail: Detail,
    /// Stages and parts that some rows have, with the places of their columns.
    stages: Vec<(usize, Stage)>,
    parts: Vec<(usize, Part)>,
    /// Parts that are the rest of these stages.
    rests: Vec<Part>,
    /// The last message: the next one differs little.
    message: Message,
    /// The row whose flow, process, interfaces and verdict it has.
    identified: Option<usize>,
    /// Rows that may differ in these from the row before.
    turns: Vec<bool>,
}

impl Rows {
    fn new(decoded: Decoded, detail: Detail) -> Self {
        let stages: Vec<_> = (STAGES..)
            .zip(Stage::ALL)
            .filter(|(column, _)| decoded.has(*column))
            .collect();
        let is_there = |part: &Part| stages.iter().any(|(_, stage)| *stage == part.stage());
        Self {
            parts: (PARTS..)
                .zip(parts())
                .filter(|(column, _)| decoded.has(*column))
                .collect(),
            rests: Part::ALL
                .into_iter()
                .filter(|part| part.is_rest() && is_there(part))
                .collect(),
            stages,
            turns: decoded.turns(0..FLAGS),
            decoded,
            detail,
            message: nothing(),
            identified: None,
        }
    }

    fn message(&mut self, row: usize) -> Result<&Message, String> {
        let before = self.identified.take();
        if before.is_none() || before != row.checked_sub(1) || self.turns[row] {
            self.identify(row)?;
        }
        self.identified = Some(row);
        self.durations(row)?;
        if self.detail >= Detail::Dimensions {
            self.dimensions(row)?;
        }
        if self.detail == Detail::All {
            self.rest(row)?;
        }
        Ok(&self.message)
    }

    fn identify(&mut self, row: usize) -> Result<(), String> {
        let decoded = &self.decoded;
        let message = &mut self.message;
        let id = |column| Ok::<_, String>(decoded.number::<i64>(column, row)?.cast_unsigned());
        message.flow.cookie = SocketCookie(id(7)?);
        message.verdict = decoded.word(11, row)?;
        if self.detail == Detail::Durations {
            return Ok(());
        }
        message.direction = decoded.word(0, row)?;
        message.flow = Flow {
            protocol: decoded.word(1, row)?,
            netns: NetnsInode(decoded.number(2, row)?),
            local: SocketAddr::new(decoded.word(3, row)?, decoded.number(4, row)?),
            remote: SocketAddr::new(decoded.word(5, row)?, decoded.number(6, row)?),
            cookie: message.flow.cookie,
        };
        message.cgroup = CgroupId(id(8)?);
        message.pid = decoded.number(9, row)?;
        message.comm = Name::from(decoded.text(10, row).ok_or_else(|| decoded.wrong(10))?);
        message.interfaces = Interfaces {
            first: decoded.interface(12, row)?,
            last: decoded.interface(15, row)?,
        };
        message.container = decoded.word_if_there(18, row)?.map(Arc::new);
        message.opened = decoded.word_if_there(19, row)?;
        message.unpaired = decoded.word_if_there(20, row)?;
        Ok(())
    }

    fn durations(&mut self, row: usize) -> Result<(), String> {
        let (decoded, message) = (&self.decoded, &mut self.message);
        let time: i64 = decoded.number(ALWAYS, row)?;
        let since_1970 = u64::try_from(time).map_err(|_| decoded.wrong(ALWAYS))?;
        message.time = Timestamp::from_nanos(since_1970);
        message.weight = decoded.number(ALWAYS + 2, row)?;
        if message.weight == 0 {
            return Err(decoded.wrong(ALWAYS + 2));
        }
        message.clock_error = duration(decoded, SOMETIMES + 4, row);
        for (column, stage) in &self.stages {
            message.stages[*stage] = duration(decoded, *column, row);
        }
        for (column, part) in &self.parts {
            message.parts[*part] = duration(decoded, *column, row);
        }
        let is_valid = message.verdict.is_valid();
        for rest in &self.rests {
            let parts = message.parts.of(rest.stage());
            let others = parts.filter(|(part, _)| !part.is_rest());
            let others: Nanos = others.map(|(_, duration)| *duration).sum();
            let stage = message.stages[rest.stage()].filter(|_| is_valid);
            message.parts[*rest] = stage.map(|stage| stage.saturating_sub(others));
        }
        Ok(())
    }

    fn dimensions(&mut self, row: usize) -> Result<(), String> {
        let (decoded, message) = (&self.decoded, &mut self.message);
        let flag = |index: usize| {
            let flag = decoded.flag(FLAGS + index, row);
            flag.ok_or_else(|| decoded.wrong(FLAGS + index))
        };
        message.coalesced = flag(0)?;
        message.ack_with_data = flag(1)?;
        // Recordings of earlier programs have no other reason.
        if flag(2)? {
            message.unpaired = Some(Unpaired::Pipelined);
        }
        message.cpu = decoded.number_if_there(SOMETIMES + 5, row)?;
        message.bytes = decoded.number::<i64>(ALWAYS + 1, row)?.cast_unsigned();
        message.retransmits = decoded.number(ALWAYS + 3, row)?;
        Ok(())
    }

    fn rest(&mut self, row: usize) -> Result<(), String> {
        let (decoded, message) = (&self.decoded, &mut self.message);
        let first_stamp = PARTS + parts().count();
        let stored = Stored {
            came: decoded.number(ALWAYS + 6, row)?,
            clock_offset: decoded.integer(SOMETIMES + 2, row),
            moved: std::array::from_fn::<_, STAMPS, _>(|index| {
                decoded.integer(first_stamp + index, row).unwrap_or(0)
            }),
        };
        let time = message.time.as_nanos().cast_signed();
        message.stamps = stamps::load(&stored, time, &message.stages);
        let snd_hw = duration(decoded, SOMETIMES + 3, row);
        message.stamps.snd_hw = snd_hw.map(|nanos| Timestamp::from_nanos(nanos.0));
        message.repeats = decoded.number(ALWAYS + 4, row)?;
        message.seq_end = decoded.number(ALWAYS + 5, row)?;
        message.min_rtt = duration(decoded, SOMETIMES, row);
        message.nic_bound = duration(decoded, SOMETIMES + 6, row);
        let older = duration(decoded, SOMETIMES + 1, row);
        message.oldest_age = older.map(|older| Nanos(older.0.wrapping_add(message.total().0)));
        Ok(())
    }
}

fn duration(decoded: &Decoded, column: usize, row: usize) -> Option<Nanos> {
    let nanos = decoded.integer(column, row)?;
    Some(Nanos(nanos.cast_unsigned()))
}

/// Return a message before anything of it is read.
fn nothing() -> Message {
    let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    Message {
        direction: Direction::Tx,
        flow: Flow {
            netns: NetnsInode(0),
            protocol: Protocol::Tcp,
            local: nowhere,
            remote: nowhere,
            cookie: SocketCookie(0),
        },
        cgroup: CgroupId(0),
        container: None,
        opened: None,
        group: None,
        pid: 0,
        comm: Name::default(),
        cpu: None,
        bytes: 0,
        weight: 0,
        retransmits: 0,
        repeats: 0,
        coalesced: false,
        ack_with_data: false,
        unpaired: None,
        min_rtt: None,
        seq_end: 0,
        stages: StageMap::default(),
        parts: PartMap::default(),
        stamps: Stamps::default(),
        oldest_age: None,
        time: Timestamp::from_nanos(0),
        interfaces: Interfaces::default(),
        clock_error: None,
        nic_bound: None,
        verdict: Verdict::Valid,
    }
}
