//! Read messages out of a file that anybody may have written.
//!
//! The metadata is checked before any row is decoded, so that a file cannot ask for more memory
//! than a row group of ours does, but for one page: the decoder believes the page's own header.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::interface::Interface;
use sockstamp_model::message::{Interfaces, Message};
use sockstamp_model::name::Name;
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::verdict::Verdict;

use crate::batch::ROWS;
use crate::error::Error;
use crate::quiet;
use crate::recover::{Footer, last_footer};
use crate::schema::{self, Column, STAMPS, VERSION, VERSION_KEY, parts};
use crate::stamps::{self, Stored};

/// Bytes of a column of one row group, decoded: 8 for an integer, and room for texts.
const COLUMN_BYTES: i64 = 64 << 20;
/// Row groups of a file.
const GROUPS: usize = 100_000;

/// A recording that is read.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    footer: Footer,
    /// The place of each of our columns in the file; `None` for an optional one that it lacks.
    places: Vec<Option<usize>>,
}

impl Reader {
    /// Open a file. One that was cut off is read up to its last footer.
    ///
    /// # Errors
    ///
    /// If it cannot be read, has no footer, or is no recording of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::system("open", path))?;
        let metadata = file.metadata().map_err(Error::system("open", path))?;
        if !metadata.is_file() {
            return Err(Error::Foreign {
                path: path.to_owned(),
                reason: "it is no regular file".to_owned(),
            });
        }
        let length = metadata.len();
        let footer = last_footer(&file, length, path)?;
        let foreign = |reason| Error::Foreign {
            path: path.to_owned(),
            reason,
        };
        let places = places(&footer).map_err(foreign)?;
        let damaged = |(offset, reason): (u64, &str)| Error::Damaged {
            path: path.to_owned(),
            offset,
            reason: reason.to_owned(),
        };
        sound(&footer).map_err(damaged)?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            length,
            footer,
            places,
        })
    }

    /// The path that it was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of messages.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let groups = self.footer.metadata.row_groups().iter();
        groups.map(|group| group.num_rows().cast_unsigned()).sum()
    }

    /// The bytes behind the last footer: rows that the writer had no time to finish.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.length - self.footer.end
    }

    /// Return what the writer noted about itself, such as its host.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        let key = format!("sockstamp.{key}");
        let facts = self.footer.metadata.file_metadata().key_value_metadata()?;
        let fact = facts.iter().find(|fact| fact.key == key)?;
        fact.value.as_deref()
    }

    /// Iterate over the messages, row group by row group. Their group is `None`, and v4-mapped
    /// addresses are IPv4.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message, Error>> {
        let groups = 0..self.footer.metadata.num_row_groups();
        groups.flat_map(move |group| {
            let (messages, failed) = match self.group(group) {
                Ok(rows) => (Some(rows), None),
                Err(error) => (None, Some(Err(error))),
            };
            let rows = messages.into_iter().flat_map(move |mut rows| {
                (0..rows.count).map(move |row| {
                    rows.message(row).map_err(|reason| Error::Damaged {
                        path: self.path.clone(),
                        offset: offset_of(self.footer.metadata.row_group(group)),
                        reason,
                    })
                })
            });
            rows.chain(failed)
        })
    }

    fn group(&self, index: usize) -> Result<Rows, Error> {
        let group = self.footer.metadata.row_group(index);
        let mut rows = Rows {
            // It is checked when the file is opened.
            count: usize::try_from(group.num_rows()).unwrap_or(0),
            ..Rows::default()
        };
        for (column, place) in schema::columns().iter().zip(&self.places) {
            let values = match place {
                None => Values::Absent,
                Some(place) => {
                    let chunk = group.column(*place);
                    let decoded = quiet::attempt(|| self.decode(column, group, *place, rows.count));
                    let damaged = |reason| Error::Damaged {
                        path: self.path.clone(),
                        offset: begin_of(chunk),
                        reason: format!("column {}: {reason}", column.name),
                    };
                    decoded
                        .ok_or_else(|| "it cannot be decoded".to_owned())
                        .and_then(|decoded| decoded.map_err(|error| error.to_string()))
                        .map_err(damaged)?
                }
            };
            rows.columns.push(values);
        }
        Ok(rows)
    }

    fn decode(
        &self,
        column: &Column,
        group: &RowGroupMetaData,
        place: usize,
        rows: usize,
    ) -> Result<Values, ParquetError> {
        let chunk = group.column(place);
        let descriptor = group.schema_descr().column(place);
        let pages = SerializedPageReader::new(Arc::clone(&self.file), chunk, rows, None)?;
        let mut levels = Vec::new();
        let wanted = column.optional.then_some(&mut levels);
        let short = || ParquetError::General("it has too few rows".to_owned());
        let values = match get_column_reader(descriptor, Box::new(pages)) {
            ColumnReader::Int64ColumnReader(mut reader) => {
                let mut values = Vec::with_capacity(rows);
                let (count, ..) = reader.read_records(rows, wanted, None, &mut values)?;
                (count == rows).then_some(()).ok_or_else(short)?;
                Values::Integers(Integers::new(values, levels, column.optional))
            }
            ColumnReader::BoolColumnReader(mut reader) => {
                let mut values = Vec::with_capacity(rows);
                let (count, ..) = reader.read_records(rows, wanted, None, &mut values)?;
                (count == rows).then_some(()).ok_or_else(short)?;
                Values::Flags(values)
            }
            ColumnReader::ByteArrayColumnReader(mut reader) => {
                let mut values = Vec::with_capacity(rows);
                let (count, ..) = reader.read_records(rows, wanted, None, &mut values)?;
                (count == rows).then_some(()).ok_or_else(short)?;
                Values::Texts(Texts::new(values, &levels, column.optional))
            }
            _ => return Err(ParquetError::General("it has another type".to_owned())),
        };
        Ok(values)
    }
}

fn begin_of(chunk: &ColumnChunkMetaData) -> u64 {
    let data = chunk.data_page_offset();
    let begin = chunk
        .dictionary_page_offset()
        .map_or(data, |offset| offset.min(data));
    begin.max(0).cast_unsigned()
}

fn offset_of(group: &RowGroupMetaData) -> u64 {
    group.columns().first().map_or(0, begin_of)
}

/// Find our columns, or say why the file is another's.
fn places(footer: &Footer) -> Result<Vec<Option<usize>>, String> {
    let metadata = footer.metadata.file_metadata();
    let facts = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
    let version = facts
        .iter()
        .find(|fact| fact.key == VERSION_KEY)
        .and_then(|fact| fact.value.as_deref())
        .ok_or("it is a Parquet file, but no recording of sockstamp")?;
    if version.parse() != Ok(VERSION) {
        let version: String = version.chars().take(20).collect();
        return Err(format!(
            "its columns have version {version:?}; this sockstamp reads version {VERSION}"
        ));
    }
    let schema = metadata.schema_descr();
    let place = |column: Column| {
        let found = schema
            .columns()
            .iter()
            .position(|found| found.path().parts() == [column.name.as_str()]);
        let Some(place) = found else {
            return match column.optional {
                true => Ok(None),
                false => Err(format!("it has no column {}", column.name)),
            };
        };
        let found = schema.column(place);
        let levels = (found.max_def_level(), found.max_rep_level());
        if found.physical_type() != column.kind.physical() || levels != (i16::from(column.optional), 0) {
            return Err(format!("its column {} has another type", column.name));
        }
        Ok(Some(place))
    };
    schema::columns().into_iter().map(place).collect()
}

/// Check that row groups lie before the footer and are no larger than ours.
fn sound(footer: &Footer) -> Result<(), (u64, &'static str)> {
    let here = |reason| (footer.begin, reason);
    let metadata = &footer.metadata;
    let columns = metadata.file_metadata().schema_descr().num_columns();
    if metadata.num_row_groups() > GROUPS {
        return Err(here("it has more row groups than any recording"));
    }
    let mut rows = 0_i64;
    for group in metadata.row_groups() {
        if usize::try_from(group.num_rows()).is_ok_and(|rows| rows <= ROWS) {
            rows += group.num_rows();
        } else {
            return Err(here("a row group has more rows than any of a recording"));
        }
        if group.num_columns() != columns {
            return Err(here("a row group lacks columns"));
        }
        for chunk in group.columns() {
            let data = chunk.data_page_offset();
            let begin = chunk
                .dictionary_page_offset()
                .map_or(data, |offset| offset.min(data));
            let end = begin.checked_add(chunk.compressed_size());
            let inside = begin >= 4
                && data >= 4
                && chunk.compressed_size() >= 0
                && end.is_some_and(|end| end.cast_unsigned() <= footer.begin);
            if !inside {
                return Err(here("a column lies outside of the file"));
            }
            if !(0..=COLUMN_BYTES).contains(&chunk.uncompressed_size()) {
                return Err(here("a column is longer than any of a recording"));
            }
            if chunk.num_values() != group.num_rows() {
                return Err(here("a column has another number of rows than its row group"));
            }
        }
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(here("it has another number of rows than its row groups"));
    }
    Ok(())
}

/// Integers of a column, with a place for each row once one of them is there.
#[derive(Debug, Default)]
struct Integers {
    values: Vec<i64>,
    /// Empty if all are there, or none is.
    there: Vec<bool>,
}

impl Integers {
    fn new(mut dense: Vec<i64>, levels: Vec<i16>, optional: bool) -> Self {
        if !optional || dense.is_empty() || dense.len() == levels.len() {
            return Self {
                values: dense,
                there: Vec::new(),
            };
        }
        // Spread from the end, in place.
        let mut next = dense.len();
        dense.resize(levels.len(), 0);
        for row in (0..levels.len()).rev() {
            if levels[row] > 0 && next > 0 {
                next -= 1;
                dense[row] = dense[next];
            }
        }
        Self {
            values: dense,
            there: levels.into_iter().map(|level| level > 0).collect(),
        }
    }

    fn get(&self, row: usize) -> Option<i64> {
        match self.there.get(row) {
            Some(false) => None,
            _ => self.values.get(row).copied(),
        }
    }
}

/// Texts of a column: runs of equal ones are one.
#[derive(Debug, Default)]
struct Texts {
    texts: Vec<ByteArray>,
    /// For each row the place of its text.
    rows: Vec<Option<u32>>,
}

impl Texts {
    fn new(values: Vec<ByteArray>, levels: &[i16], optional: bool) -> Self {
        let mut texts: Vec<ByteArray> = Vec::new();
        let mut place = |value: ByteArray| {
            if texts.last() != Some(&value) {
                texts.push(value);
            }
            u32::try_from(texts.len() - 1).ok()
        };
        let mut values = values.into_iter();
        let rows = match optional {
            false => values.map(&mut place).collect(),
            true => levels
                .iter()
                .map(|&level| (level > 0).then(|| values.next()).flatten().and_then(&mut place))
                .collect(),
        };
        Self { texts, rows }
    }
}

#[derive(Debug)]
enum Values {
    Absent,
    Integers(Integers),
    Flags(Vec<bool>),
    Texts(Texts),
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

/// A row group, decoded.
#[derive(Debug, Default)]
struct Rows {
    count: usize,
    columns: Vec<Values>,
    parsed: Parsed,
}

impl Rows {
    fn integer(&self, column: usize, row: usize) -> Option<i64> {
        match &self.columns[column] {
            Values::Integers(integers) => integers.get(row),
            _ => None,
        }
    }

    fn flag(&self, column: usize, row: usize) -> Option<bool> {
        match &self.columns[column] {
            Values::Flags(flags) => flags.get(row).copied(),
            _ => None,
        }
    }

    fn place(&self, column: usize, row: usize) -> Option<u32> {
        match &self.columns[column] {
            Values::Texts(texts) => texts.rows.get(row).copied().flatten(),
            _ => None,
        }
    }

    fn text(&self, column: usize, row: usize) -> Option<&[u8]> {
        let place = self.place(column, row)?;
        match &self.columns[column] {
            Values::Texts(texts) => Some(texts.texts.get(place as usize)?.data()),
            _ => None,
        }
    }

    fn word<T: FromStr>(&self, column: usize, row: usize) -> Result<T, String> {
        self.text(column, row)
            .and_then(|text| str::from_utf8(text).ok()?.parse().ok())
            .ok_or_else(|| wrong(column))
    }

    fn number<T: TryFrom<i64>>(&self, column: usize, row: usize) -> Result<T, String> {
        self.integer(column, row)
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| wrong(column))
    }

    /// Parse the words of a row, unless they are those of the last one.
    fn parse(&mut self, row: usize) -> Result<(), String> {
        let words = [0, 1, 3, 5, 11];
        let texts: Vec<_> = words.iter().map(|&column| self.place(column, row)).collect();
        if self.parsed.texts != texts {
            self.parsed = Parsed {
                texts,
                direction: Some(self.word(0, row)?),
                protocol: Some(self.word(1, row)?),
                local: Some(self.word(3, row)?),
                remote: Some(self.word(5, row)?),
                verdict: Some(self.word(11, row)?),
            };
        }
        Ok(())
    }

    fn interface(&self, column: usize, row: usize) -> Result<Option<Interface>, String> {
        let Some(name) = self.text(column, row) else {
            return Ok(None);
        };
        Ok(Some(Interface {
            name: Name::from(name),
            index: self.number(column + 1, row)?,
            netns: NetnsInode(self.number(column + 2, row)?),
        }))
    }

    fn message(&mut self, row: usize) -> Result<Message, String> {
        self.parse(row)?;
        let parsed = &self.parsed;
        let missing = || wrong(0);
        let flags = schema::OF_IDENTITY.len();
        let always = flags + schema::FLAGS.len();
        let sometimes = always + schema::ALWAYS.len();
        let first_stage = sometimes + schema::SOMETIMES.len();
        let first_part = first_stage + Stage::COUNT;
        let first_stamp = first_part + parts().count();

        let flag = |index: usize| self.flag(flags + index, row).ok_or_else(|| wrong(flags + index));
        let duration = |column: usize| {
            self.integer(column, row)
                .map(|nanos| Nanos(nanos.cast_unsigned()))
        };
        let time: i64 = self.number(always, row)?;
        let stages = StageMap::from_fn(|stage| duration(first_stage + stage as usize));
        let verdict = parsed.verdict.ok_or_else(missing)?;
        let mut counted = PartMap::default();
        for (column, part) in (first_part..).zip(parts()) {
            counted[part] = duration(column);
        }
        let stored = Stored {
            came: self.number(always + 6, row)?,
            clock_offset: self.integer(sometimes + 2, row),
            moved: std::array::from_fn::<_, STAMPS, _>(|index| {
                self.integer(first_stamp + index, row).unwrap_or(0)
            }),
        };
        let mut stamps = stamps::load(&stored, time, &stages);
        stamps.snd_hw = duration(sometimes + 3).map(|nanos| Timestamp::from_nanos(nanos.0));
        let mut message = Message {
            direction: parsed.direction.ok_or_else(missing)?,
            flow: Flow {
                netns: NetnsInode(self.number(2, row)?),
                protocol: parsed.protocol.ok_or_else(missing)?,
                local: SocketAddr::new(parsed.local.ok_or_else(missing)?, self.number(4, row)?),
                remote: SocketAddr::new(parsed.remote.ok_or_else(missing)?, self.number(6, row)?),
                cookie: SocketCookie(self.number::<i64>(7, row)?.cast_unsigned()),
            },
            cgroup: CgroupId(self.number::<i64>(8, row)?.cast_unsigned()),
            group: None,
            pid: self.number(9, row)?,
            comm: Name::from(self.text(10, row).ok_or_else(|| wrong(10))?),
            bytes: self.number::<i64>(always + 1, row)?.cast_unsigned(),
            weight: self.number(always + 2, row)?,
            retransmits: self.number(always + 3, row)?,
            repeats: self.number(always + 4, row)?,
            coalesced: flag(0)?,
            ack_with_data: flag(1)?,
            pipelined: flag(2)?,
            min_rtt: duration(sometimes),
            clock_error: duration(sometimes + 4),
            seq_end: self.number(always + 5, row)?,
            stages,
            parts: completed(counted, &stages, verdict),
            stamps,
            oldest_age: None,
            time: Timestamp::from_nanos(time.cast_unsigned()),
            interfaces: Interfaces {
                first: self.interface(12, row)?,
                last: self.interface(15, row)?,
            },
            verdict,
        };
        message.oldest_age =
            duration(sometimes + 1).map(|older| Nanos(older.0.wrapping_add(message.total().0)));
        Ok(message)
    }
}

fn wrong(column: usize) -> String {
    let name = schema::columns().into_iter().nth(column);
    let name = name.map_or_else(String::new, |column| column.name);
    format!("column {name}: it has a value that no message has")
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
