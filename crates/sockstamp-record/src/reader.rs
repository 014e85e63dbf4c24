//! Read messages out of a file that anybody may have written.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::message::{Interfaces, Message};
use sockstamp_model::name::Name;
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::verdict::Verdict;

use crate::batch::Batch;
use crate::error::Error;
use crate::schema::{self, STAMPS, parts};
use crate::stamps::{self, Stored};
use crate::table::{Decoded, Table};

/// A recording that is read.
#[derive(Debug)]
pub struct Reader(Arc<Table>);

impl Reader {
    /// Open a file. One that was cut off is read up to its last footer.
    ///
    /// # Errors
    ///
    /// If it cannot be read, has no footer, or is no recording of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Table::open::<Batch>(path).map(|table| Self(Arc::new(table)))
    }

    /// The path that it was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The number of messages.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows()
    }

    /// The bytes behind the last footer: rows that the writer had no time to finish.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.0.unread()
    }

    /// Return what the writer noted about itself, such as its host.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.0.fact(key)
    }

    /// Iterate over the messages, row group by row group. Their group is `None`, and v4-mapped
    /// addresses are IPv4.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message, Error>> {
        self.0.groups().flat_map(move |(group, decoded)| {
            let (rows, failed) = match decoded {
                Ok(decoded) => (Some(Rows::new(decoded)), None),
                Err(error) => (None, Some(Err(error))),
            };
            let messages = rows.into_iter().flat_map(move |mut rows| {
                (0..rows.decoded.count).map(move |row| {
                    let message = rows.message(row);
                    message.map_err(|reason| self.0.damaged(group, reason))
                })
            });
            messages.chain(failed)
        })
    }
}

/// The values that were parsed last, by the places of their texts: rows of one flow are neighbours.
#[derive(Debug, Default)]
struct Parsed {
    texts: Vec<Option<u32>>,
    direction: Option<Direction>,
    protocol: Option<Protocol>,
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    verdict: Option<Verdict>,
}

/// The messages of a row group.
#[derive(Debug)]
struct Rows {
    decoded: Decoded,
    parsed: Parsed,
}

impl Rows {
    fn new(decoded: Decoded) -> Self {
        Self {
            decoded,
            parsed: Parsed::default(),
        }
    }

    /// Parse the words of a row, unless they are those of the last one.
    fn parse(&mut self, row: usize) -> Result<(), String> {
        let words = [0, 1, 3, 5, 11];
        let texts: Vec<_> = words
            .iter()
            .map(|&column| self.decoded.place(column, row))
            .collect();
        if self.parsed.texts != texts {
            self.parsed = Parsed {
                texts,
                direction: Some(self.decoded.word(0, row)?),
                protocol: Some(self.decoded.word(1, row)?),
                local: Some(self.decoded.word(3, row)?),
                remote: Some(self.decoded.word(5, row)?),
                verdict: Some(self.decoded.word(11, row)?),
            };
        }
        Ok(())
    }

    fn message(&mut self, row: usize) -> Result<Message, String> {
        self.parse(row)?;
        let parsed = &self.parsed;
        let missing = || self.decoded.wrong(0);
        let flags = schema::OF_IDENTITY.len();
        let always = flags + schema::FLAGS.len();
        let sometimes = always + schema::ALWAYS.len();
        let first_stage = sometimes + schema::SOMETIMES.len();
        let first_part = first_stage + Stage::COUNT;
        let first_stamp = first_part + parts().count();

        let flag = |index: usize| {
            self.decoded
                .flag(flags + index, row)
                .ok_or_else(|| self.decoded.wrong(flags + index))
        };
        let duration = |column: usize| {
            self.decoded
                .integer(column, row)
                .map(|nanos| Nanos(nanos.cast_unsigned()))
        };
        let time: i64 = self.decoded.number(always, row)?;
        let stages = StageMap::from_fn(|stage| duration(first_stage + stage as usize));
        let verdict = parsed.verdict.ok_or_else(missing)?;
        let mut counted = PartMap::default();
        for (column, part) in (first_part..).zip(parts()) {
            counted[part] = duration(column);
        }
        let stored = Stored {
            came: self.decoded.number(always + 6, row)?,
            clock_offset: self.decoded.integer(sometimes + 2, row),
            moved: std::array::from_fn::<_, STAMPS, _>(|index| {
                self.decoded.integer(first_stamp + index, row).unwrap_or(0)
            }),
        };
        let mut stamps = stamps::load(&stored, time, &stages);
        stamps.snd_hw = duration(sometimes + 3).map(|nanos| Timestamp::from_nanos(nanos.0));
        let mut message = Message {
            direction: parsed.direction.ok_or_else(missing)?,
            flow: Flow {
                netns: NetnsInode(self.decoded.number(2, row)?),
                protocol: parsed.protocol.ok_or_else(missing)?,
                local: SocketAddr::new(parsed.local.ok_or_else(missing)?, self.decoded.number(4, row)?),
                remote: SocketAddr::new(parsed.remote.ok_or_else(missing)?, self.decoded.number(6, row)?),
                cookie: SocketCookie(self.decoded.number::<i64>(7, row)?.cast_unsigned()),
            },
            cgroup: CgroupId(self.decoded.number::<i64>(8, row)?.cast_unsigned()),
            group: None,
            pid: self.decoded.number(9, row)?,
            comm: Name::from(self.decoded.text(10, row).ok_or_else(|| self.decoded.wrong(10))?),
            bytes: self.decoded.number::<i64>(always + 1, row)?.cast_unsigned(),
            weight: self.decoded.number(always + 2, row)?,
            retransmits: self.decoded.number(always + 3, row)?,
            repeats: self.decoded.number(always + 4, row)?,
            coalesced: flag(0)?,
            ack_with_data: flag(1)?,
            pipelined: flag(2)?,
            min_rtt: duration(sometimes),
            clock_error: duration(sometimes + 4),
            seq_end: self.decoded.number(always + 5, row)?,
            stages,
            parts: completed(counted, &stages, verdict),
            stamps,
            oldest_age: None,
            time: Timestamp::from_nanos(time.cast_unsigned()),
            interfaces: Interfaces {
                first: self.decoded.interface(12, row)?,
                last: self.decoded.interface(15, row)?,
            },
            verdict,
        };
        message.oldest_age =
            duration(sometimes + 1).map(|older| Nanos(older.0.wrapping_add(message.total().0)));
        Ok(message)
    }
}

/// Add the parts that are the rest of their stage, as messages have them.
fn completed(
    mut parts: PartMap<Option<Nanos>>,
    stages: &StageMap<Option<Nanos>>,
    verdict: Verdict,
) -> PartMap<Option<Nanos>> {
    for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
        let others: Nanos = parts.of(rest.stage()).map(|(_, duration)| *duration).sum();
        let stage = stages[rest.stage()].filter(|_| verdict.is_valid());
        parts[rest] = stage.map(|stage| stage.saturating_sub(others));
    }
    parts
}
