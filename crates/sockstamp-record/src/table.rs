//! Read row groups out of a file of unknown origin.
//!
//! The metadata is checked before any row is decoded, so that a file cannot ask for more memory
//! than a row group of ours does, nor may a page claim it.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use parquet::basic::{Compression, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::interface::Interface;
use sockstamp_model::name::Name;

use crate::batch::ROWS;
use crate::error::Error;
use crate::footer::GROUPS;
use crate::opening;
use crate::pages::Pages;
use crate::quiet;
use crate::recover::{Footer, last_footer};
use crate::rows::Rows;
use crate::schema::Column;

/// Bytes of a column of one row group, decoded: 8 for an integer, and room for texts.
const COLUMN_BYTES: i64 = 64 << 20;
/// Bytes of all columns of one row group, decoded: about half of them are integers at most.
const GROUP_BYTES: i64 = 256 << 20;
/// Rows of a row group, of which [`ROWS`] are decoded at a time.
const LONGEST_GROUP: usize = 16 * ROWS;
/// Bytes of a text: the longest is a cgroup's path (PATH_MAX), if all of it is written as `\xNN`.
const TEXT_BYTES: usize = 16 << 10;
/// Threads that decode: each may hold a row group.
const DECODERS: usize = 3;

const UNREADABLE: &str = "it cannot be decoded";

/// A file that is read.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) path: PathBuf,
    file: Arc<File>,
    length: u64,
    footer: Footer,
    columns: Arc<[Column]>,
    /// The place of each of our columns in the file; `None` for an optional one that it lacks.
    places: Vec<Option<usize>>,
    parts: Vec<Part>,
}

/// The rows that are decoded at once: a row group of ours. Other programs write longer ones, of
/// which this is a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    group: usize,
    /// Rows of the group before these.
    before: usize,
    rows: usize,
}

impl Part {
    /// Divide row groups, whose lengths are checked.
    fn all(groups: &[RowGroupMetaData]) -> Vec<Self> {
        let lengths = groups.iter().map(|group| usize::try_from(group.num_rows()));
        let parts = lengths.enumerate().flat_map(|(group, rows)| {
            let rows = rows.unwrap_or(0);
            // A group without rows is a part, too.
            (0..rows.max(1)).step_by(ROWS).map(move |before| Self {
                group,
                before,
                rows: (rows - before).min(ROWS),
            })
        });
        parts.collect()
    }
}

impl Table {
    /// Open a file of such rows. One that was cut off is read up to its last note.
    pub(crate) fn open<T: Rows>(path: &Path) -> Result<Self, Error> {
        let (file, length) = opening::to_read(path)?;
        let foreign = |reason| Error::Foreign {
            path: path.to_owned(),
            reason,
        };
        let footer = last_footer(&file, length, path)?;
        let places = places::<T>(&footer).map_err(foreign)?;
        let damaged = |(offset, reason): (u64, &str)| Error::Damaged {
            path: path.to_owned(),
            offset,
            reason: reason.to_owned(),
        };
        refuse_long_groups(&footer).map_err(foreign)?;
        refuse_codecs(&footer).map_err(foreign)?;
        sound(&footer).map_err(damaged)?;
        Ok(Self {
            parts: Part::all(footer.metadata.row_groups()),
            path: path.to_owned(),
            file: Arc::new(file),
            length,
            footer,
            columns: T::columns().into(),
            places,
        })
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows_of_groups().sum()
    }

    /// Iterate over the rows of what [`groups`](Self::groups) passes.
    pub(crate) fn rows_of_groups(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().map(|part| part.rows as u64)
    }

    /// Return the first and the last time of rows, where each row group notes its own.
    pub(crate) fn span(&self) -> Option<[Timestamp<Realtime>; 2]> {
        let times = self
            .columns
            .iter()
            .position(|column| column.name == "time_ns")?;
        let place = *self.places.get(times)?.as_ref()?;
        let groups = self.footer.metadata.row_groups().iter();
        let noted = groups.filter(|group| group.num_rows() > 0).map(|group| {
            let Some(Statistics::Int64(times)) = group.column(place).statistics() else {
                return None;
            };
            Some((*times.min_opt()?, *times.max_opt()?))
        });
        let noted: Option<Vec<_>> = noted.collect();
        let noted = noted?;
        let first = noted.iter().map(|(first, _)| *first).min()?;
        let last = noted.iter().map(|(_, last)| *last).max()?;
        let moment = |time: i64| Some(Timestamp::from_nanos(u64::try_from(time).ok()?));
        Some([moment(first)?, moment(last)?])
    }

    pub(crate) fn unread(&self) -> u64 {
        self.length - self.footer.end
    }

    pub(crate) fn fact(&self, key: &str) -> Option<&str> {
        let key = format!("sockstamp.{key}");
        let facts = self.footer.metadata.file_metadata().key_value_metadata()?;
        // A later one is nearer to the end of what it is about.
        let fact = facts.iter().rfind(|fact| fact.key == key)?;
        fact.value.as_deref()
    }

    /// Iterate over the row groups, long ones in parts, with their numbers. Threads decode the next
    /// ones while one is used, fewer where other `readers` do the same. Columns that `wanted` is
    /// false for are absent.
    pub(crate) fn groups(
        self: &Arc<Self>,
        wanted: fn(&Column) -> bool,
        readers: usize,
    ) -> impl Iterator<Item = (usize, Result<Decoded, Error>)> {
        let wanted: Arc<[bool]> = self.columns.iter().map(wanted).collect();
        let count = self.parts.len();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads = (threads.min(DECODERS) / readers.max(1)).max(1).min(count);
        let decoders: Result<Vec<_>, Error> = (0..threads)
            .map(|first| self.decoder((first..count).step_by(threads), Arc::clone(&wanted)))
            .collect();
        let (decoders, failed) = match decoders {
            Ok(decoders) => (decoders, None),
            Err(error) => (Vec::new(), Some((0, Err(error)))),
        };
        let table = Arc::clone(self);
        let numbers = 0..if failed.is_some() { 0 } else { count };
        let groups = numbers.map(move |number| {
            let received = decoders[number % threads].recv();
            let decoded =
                received.unwrap_or_else(|_| Err(table.damaged(number, UNREADABLE.to_owned())));
            (number, decoded)
        });
        failed.into_iter().chain(groups)
    }

    /// Start a thread that decodes these row groups, each once the one before is taken.
    fn decoder(
        self: &Arc<Self>,
        mut numbers: impl Iterator<Item = usize> + Send + 'static,
        wanted: Arc<[bool]>,
    ) -> Result<Receiver<Result<Decoded, Error>>, Error> {
        let (decoded, groups) = sync_channel(0);
        let table = Arc::clone(self);
        let decode = move || {
            // Its user may have seen enough.
            let _ = numbers.find(|number| decoded.send(table.group(*number, &wanted)).is_err());
        };
        let started = thread::Builder::new()
            .name("decoder".to_owned())
            .spawn(decode);
        started.map_err(Error::system("start a thread to read", &self.path))?;
        Ok(groups)
    }

    /// Report that a row group has impossible rows.
    pub(crate) fn damaged(&self, group: usize, reason: String) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            offset: offset_of(self.footer.metadata.row_group(self.parts[group].group)),
            reason,
        }
    }

    fn group(&self, index: usize, wanted: &[bool]) -> Result<Decoded, Error> {
        let part = self.parts[index];
        let group = self.footer.metadata.row_group(part.group);
        let mut rows = Decoded {
            count: part.rows,
            names: Arc::clone(&self.columns),
            columns: Vec::new(),
        };
        for ((column, place), wanted) in self.columns.iter().zip(&self.places).zip(wanted) {
            let has_values = |place: &usize| has_values(group.column(*place));
            let values = match place.filter(|_| *wanted).filter(has_values) {
                None => Values::Absent,
                Some(place) => {
                    let chunk = group.column(place);
                    let decoded = quiet::attempt(|| self.decode(column, group, place, part));
                    let damaged = |reason| Error::Damaged {
                        path: self.path.clone(),
                        offset: begin_of(chunk),
                        reason: format!("column {}: {reason}", column.name),
                    };
                    decoded
                        .ok_or_else(|| UNREADABLE.to_owned())
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
        part: Part,
    ) -> Result<Values, ParquetError> {
        let chunk = group.column(place);
        let descriptor = group.schema_descr().column(place);
        let nullable = descriptor.max_def_level() > 0;
        // Both are checked when the file is opened.
        let most = chunk.uncompressed_size().unsigned_abs();
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = Pages::new(Arc::clone(&self.file), self.length, most, rows);
        let pages = SerializedPageReader::new(Arc::new(pages), chunk, rows, None)?;
        let values = match get_column_reader(descriptor, Box::new(pages)) {
            ColumnReader::Int64ColumnReader(reader) => {
                let (values, levels) = read(reader, part, nullable)?;
                refuse_nothing(column, part, values.len())?;
                Values::Integers(Integers::new(values, levels, nullable))
            }
            ColumnReader::BoolColumnReader(reader) => {
                let (values, _) = read(reader, part, nullable)?;
                refuse_nothing(column, part, values.len())?;
                Values::Flags(values)
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                let (values, levels) = read(reader, part, nullable)?;
                refuse_nothing(column, part, values.len())?;
                let texts = Texts::new(values, &levels, nullable);
                if texts.texts.iter().any(|text| text.len() > TEXT_BYTES) {
                    return Err(general("it has a longer text than any recording"));
                }
                Values::Texts(texts)
            }
            _ => return Err(general("it has another type")),
        };
        Ok(values)
    }
}

/// Read a part of a column: its values, and of each row if it has one.
fn read<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    part: Part,
    nullable: bool,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let mut values = Vec::with_capacity(part.rows);
    let mut levels = Vec::new();
    // Rows before it are decoded, too: to skip pages, the decoder reads from their middle, where
    // `Pages` finds no header.
    let mut left = part.before + part.rows;
    while left > 0 {
        values.clear();
        levels.clear();
        let rows = if left > part.rows { ROWS } else { left };
        let wanted = nullable.then_some(&mut levels);
        let (count, ..) = reader.read_records(rows, wanted, None, &mut values)?;
        (count == rows)
            .then_some(())
            .ok_or_else(|| general("it has too few rows"))?;
        left -= rows;
    }
    Ok((values, levels))
}

/// Other programs write every column as one that rows may lack.
fn refuse_nothing(column: &Column, part: Part, values: usize) -> Result<(), ParquetError> {
    match column.optional || values == part.rows {
        true => Ok(()),
        false => Err(general(
            "it is NULL in some row, and has a value in each message",
        )),
    }
}

fn general(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}

/// Return false if the writer has noted that no row has a value.
pub(crate) fn has_values(chunk: &ColumnChunkMetaData) -> bool {
    let absent = chunk.statistics().and_then(Statistics::null_count_opt);
    absent.is_none_or(|absent| absent < chunk.num_values().unsigned_abs())
}

/// A column alone is compared fast.
fn mark_turns<T: PartialEq>(turns: &mut [bool], rows: &[T]) {
    for (turn, pair) in turns.iter_mut().skip(1).zip(rows.windows(2)) {
        *turn |= pair[0] != pair[1];
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

/// Find our columns, or report why the file is not ours.
fn places<T: Rows>(footer: &Footer) -> Result<Vec<Option<usize>>, String> {
    let (key, expected) = T::VERSION;
    let metadata = footer.metadata.file_metadata();
    let facts = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
    let version = facts
        .iter()
        .find(|fact| fact.key == key)
        .and_then(|fact| fact.value.as_deref());
    if let Some(version) = version
        && version.parse() != Ok(expected)
    {
        let version: String = version.chars().take(20).collect();
        return Err(format!(
            "its columns have version {version:?}; this sockstamp reads version {expected}"
        ));
    }
    let schema = metadata.schema_descr();
    // Other programs leave the facts out when they write the rows anew.
    let is_copy = version.is_none();
    let place = |column: Column| {
        let found = schema
            .columns()
            .iter()
            .position(|found| found.path().parts() == [column.name.as_str()]);
        let Some(place) = found else {
            return match column.optional {
                true => Ok(None),
                false if is_copy => Err(format!(
                    "it is a Parquet file, but no recording of sockstamp: it has no column {}",
                    column.name
                )),
                false => Err(format!("it has no column {}", column.name)),
            };
        };
        let found = schema.column(place);
        let (wanted, kind) = (column.kind.physical(), found.physical_type());
        if kind != wanted {
            return Err(format!(
                "its column {} has another type: {kind}, and not {wanted}",
                column.name
            ));
        }
        if found.max_def_level() > 1 || found.max_rep_level() > 0 {
            return Err(format!(
                "its column {} has several values in a row",
                column.name
            ));
        }
        Ok(Some(place))
    };
    T::columns().into_iter().map(place).collect()
}

/// Refuse row groups of which each part would cost too much: all before it is read again.
fn refuse_long_groups(footer: &Footer) -> Result<(), String> {
    let lengths = footer.metadata.row_groups().iter();
    let mut lengths = lengths.map(|group| usize::try_from(group.num_rows()));
    match lengths.all(|rows| !rows.is_ok_and(|rows| rows > LONGEST_GROUP)) {
        true => Ok(()),
        false => Err(format!(
            "it has a row group of more than {LONGEST_GROUP} rows: write it anew in smaller ones"
        )),
    }
}

/// Refuse codecs that nobody writes unless asked to.
fn refuse_codecs(footer: &Footer) -> Result<(), String> {
    let groups = footer.metadata.row_groups().iter();
    let mut chunks = groups.flat_map(RowGroupMetaData::columns);
    let other = chunks.find_map(|chunk| match chunk.compression() {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::LZ4
        | Compression::LZ4_RAW
        | Compression::ZSTD(_) => None,
        Compression::GZIP(_) => Some("GZIP"),
        Compression::BROTLI(_) => Some("Brotli"),
        Compression::LZO => Some("LZO"),
    });
    match other {
        None => Ok(()),
        Some(codec) => Err(format!(
            "it is compressed by {codec}: write it anew with Snappy, LZ4 or Zstandard"
        )),
    }
}

/// Check that row groups are before the footer, one after the other, and no larger than ours, row
/// by row.
fn sound(footer: &Footer) -> Result<(), (u64, &'static str)> {
    let here = |reason| (footer.begin, reason);
    let metadata = &footer.metadata;
    let columns = metadata.file_metadata().schema_descr().num_columns();
    if metadata.num_row_groups() > GROUPS {
        return Err(here("it has more row groups than any recording"));
    }
    let mut rows = 0_i64;
    // Bytes that were read several times would make a small file as large as many.
    let mut free = 4_i64;
    for group in metadata.row_groups() {
        let length = usize::try_from(group.num_rows()).ok();
        let Some(length) = length.filter(|length| *length <= LONGEST_GROUP) else {
            return Err(here("a row group has an impossible number of rows"));
        };
        rows += group.num_rows();
        let parts = i64::try_from(length.div_ceil(ROWS).max(1)).unwrap_or(i64::MAX);
        if group.num_columns() != columns {
            return Err(here("a row group lacks columns"));
        }
        let bytes = group
            .columns()
            .iter()
            .map(ColumnChunkMetaData::uncompressed_size);
        if bytes.fold(0, i64::saturating_add) > GROUP_BYTES.saturating_mul(parts) {
            return Err(here("a row group is longer than any of a recording"));
        }
        // Texts keep their pages in memory.
        let texts = group.columns().iter().filter(|chunk| is_text(chunk));
        let texts = texts.map(ColumnChunkMetaData::uncompressed_size);
        if texts.fold(0, i64::saturating_add) > GROUP_BYTES {
            return Err(here(
                "the texts of a row group are longer than any of a recording",
            ));
        }
        for chunk in group.columns() {
            let data = chunk.data_page_offset();
            let begin = chunk
                .dictionary_page_offset()
                .map_or(data, |offset| offset.min(data));
            let end = begin.checked_add(chunk.compressed_size());
            if begin >= 4 && begin < free {
                return Err(here("a column begins within the one before it"));
            }
            free = end.unwrap_or(free);
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
                return Err(here(
                    "a column has another number of rows than its row group",
                ));
            }
        }
    }
    // A row of traffic takes 16 to 24 bytes. Fewer than one would make a small file last for ever.
    if rows.cast_unsigned() > footer.begin.saturating_add(ROWS as u64) {
        return Err(here("it has more rows than a recording of its length"));
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(here("it has another number of rows than its row groups"));
    }
    Ok(())
}

fn is_text(chunk: &ColumnChunkMetaData) -> bool {
    chunk.column_type() == Physical::BYTE_ARRAY
}

/// Integers of a column, with a place for each row once there is a value.
#[derive(Debug, Default)]
struct Integers {
    values: Vec<i64>,
    /// Empty if all values are present, or none is.
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
            if !texts.last().is_some_and(|last| is_same(last, &value)) {
                texts.push(value);
            }
            u32::try_from(texts.len() - 1).ok()
        };
        let mut values = values.into_iter();
        let rows = match optional {
            false => values.map(&mut place).collect(),
            true => levels
                .iter()
                .map(|&level| {
                    (level > 0)
                        .then(|| values.next())
                        .flatten()
                        .and_then(&mut place)
                })
                .collect(),
        };
        Self { texts, rows }
    }
}

/// Texts of one place in a dictionary lie at one address.
fn is_same(a: &ByteArray, b: &ByteArray) -> bool {
    std::ptr::eq(a.data(), b.data()) || a == b
}

#[derive(Debug)]
enum Values {
    Absent,
    Integers(Integers),
    Flags(Vec<bool>),
    Texts(Texts),
}

/// A row group, decoded.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) count: usize,
    names: Arc<[Column]>,
    columns: Vec<Values>,
}

impl Decoded {
    pub(crate) fn integer(&self, column: usize, row: usize) -> Option<i64> {
        match &self.columns[column] {
            Values::Integers(integers) => integers.get(row),
            _ => None,
        }
    }

    /// Return true if some row may have a value.
    pub(crate) fn has(&self, column: usize) -> bool {
        match &self.columns[column] {
            Values::Absent => false,
            Values::Integers(integers) => !integers.values.is_empty(),
            Values::Flags(_) | Values::Texts(_) => true,
        }
    }

    /// Return for each row whether it may differ from the one before it in these columns.
    pub(crate) fn turns(&self, columns: Range<usize>) -> Vec<bool> {
        let mut turns = vec![false; self.count];
        for values in &self.columns[columns] {
            match values {
                Values::Absent => {}
                Values::Integers(integers) => {
                    mark_turns(&mut turns, &integers.values);
                    mark_turns(&mut turns, &integers.there);
                }
                Values::Flags(flags) => mark_turns(&mut turns, flags),
                Values::Texts(texts) => mark_turns(&mut turns, &texts.rows),
            }
        }
        turns
    }

    pub(crate) fn flag(&self, column: usize, row: usize) -> Option<bool> {
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

    pub(crate) fn text(&self, column: usize, row: usize) -> Option<&[u8]> {
        let place = self.place(column, row)?;
        match &self.columns[column] {
            Values::Texts(texts) => Some(texts.texts.get(place as usize)?.data()),
            _ => None,
        }
    }

    pub(crate) fn word<T: FromStr>(&self, column: usize, row: usize) -> Result<T, String> {
        self.text(column, row)
            .and_then(|text| str::from_utf8(text).ok()?.parse().ok())
            .ok_or_else(|| self.wrong(column))
    }

    /// Return a word of an optional column.
    pub(crate) fn word_if_there<T: FromStr>(
        &self,
        column: usize,
        row: usize,
    ) -> Result<Option<T>, String> {
        match self.text(column, row) {
            Some(_) => self.word(column, row).map(Some),
            None => Ok(None),
        }
    }

    /// Return a number of an optional column.
    pub(crate) fn number_if_there<T: TryFrom<i64>>(
        &self,
        column: usize,
        row: usize,
    ) -> Result<Option<T>, String> {
        match self.integer(column, row) {
            Some(_) => self.number(column, row).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn number<T: TryFrom<i64>>(&self, column: usize, row: usize) -> Result<T, String> {
        self.integer(column, row)
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.wrong(column))
    }

    /// Return the interface whose name, index and namespace begin at this column.
    pub(crate) fn interface(&self, column: usize, row: usize) -> Result<Option<Interface>, String> {
        let Some(name) = self.text(column, row) else {
            return Ok(None);
        };
        Ok(Some(Interface {
            name: Name::from(name),
            index: self.number(column + 1, row)?,
            netns: NetnsInode(self.number(column + 2, row)?),
        }))
    }

    /// Report that a column has an impossible value.
    pub(crate) fn wrong(&self, column: usize) -> String {
        let name = self
            .names
            .get(column)
            .map_or("", |column| column.name.as_str());
        format!("column {name}: it has an impossible value")
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::ParquetMetaData;
    use tempfile::tempdir;

    use super::*;
    use crate::footer;
    use crate::rows::RowGroup;
    use crate::schema::Kind;
    use crate::writer::FileWriter;

    /// Rows of one text, which are written faster than messages.
    #[derive(Default)]
    struct Words(Vec<ByteArray>);

    impl Rows for Words {
        const VERSION: (&'static str, u32) = ("sockstamp.words", 1);
        const GROWING: &'static [&'static str] = &[];
        const FEW: &'static [&'static str] = &[];

        fn columns() -> Vec<Column> {
            vec![Column {
                name: "word".to_owned(),
                kind: Kind::Text,
                optional: false,
            }]
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn is_full(&self) -> bool {
            false
        }

        fn clear(&mut self) {
            self.0.clear();
        }

        fn write(&self, group: &mut RowGroup<'_>) -> Result<(), ParquetError> {
            group.texts(&self.0, None)
        }
    }

    /// Write words of these lengths, a row group each; return what was opened.
    fn table(lengths: &[&[usize]]) -> Result<Table, Error> {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = FileWriter::<Words>::create(&path, &[]).unwrap();
        for lengths in lengths {
            let words = (1..).zip(*lengths);
            let words = words.map(|(letter, length)| ByteArray::from(vec![letter; *length]));
            writer.write(&Words(words.collect())).unwrap();
        }
        writer.finish().unwrap();
        Table::open::<Words>(&path)
    }

    fn changed(
        footer: &Footer,
        change: impl Fn(&[RowGroupMetaData]) -> Vec<RowGroupMetaData>,
    ) -> ParquetMetaData {
        let metadata = &footer.metadata;
        footer::describe(metadata.file_metadata(), change(metadata.row_groups()))
    }

    #[test]
    fn a_text_that_is_longer_than_any_of_ours_is_refused_with_its_place() {
        let longest = table(&[&[TEXT_BYTES]]).unwrap().group(0, &[true]);
        assert_eq!(
            longest.unwrap().text(0, 0).map(<[u8]>::len),
            Some(TEXT_BYTES)
        );
        let table = table(&[&[10], &[10, TEXT_BYTES + 1]]).unwrap();
        assert_eq!(table.group(0, &[true]).unwrap().count, 1);
        let begin = begin_of(table.footer.metadata.row_group(1).column(0));
        let told = table.group(1, &[true]).unwrap_err().to_string();
        let expected =
            format!("file: damaged at byte {begin}: column word: Parquet error: it has a longer");
        assert!(told.contains(&expected), "{told}");
    }

    #[test]
    fn pages_have_no_more_bytes_together_than_their_column_claims() {
        // Beyond the size of a page, so there are several.
        let lengths = [TEXT_BYTES; 200];
        let mut table = table(&[&lengths]).unwrap();
        assert_eq!(table.group(0, &[true]).unwrap().count, lengths.len());
        let chunk = table.footer.metadata.row_group(0).column(0);
        let honest = chunk.uncompressed_size();
        assert!(honest > 3_000_000, "{honest}");
        table.footer.metadata = changed(&table.footer, |groups| {
            let chunk = groups[0].column(0).clone().into_builder();
            let chunk = chunk.set_total_uncompressed_size(honest * 9 / 10);
            let group = groups[0].clone().into_builder();
            let group = group.set_column_metadata(vec![chunk.build().unwrap()]);
            vec![group.build().unwrap()]
        });
        assert!(sound(&table.footer).is_ok());
        let told = table.group(0, &[true]).unwrap_err().to_string();
        assert!(told.contains("its pages claim to be longer"), "{told}");
    }

    #[test]
    fn a_long_row_group_is_read_in_parts() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = FileWriter::<Words>::create(&path, &[]).unwrap();
        let rows = 2 * ROWS + 3;
        let words = (0..rows).map(|row| ByteArray::from(format!("{row}").into_bytes()));
        writer.write(&Words(words.collect())).unwrap();
        writer.finish().unwrap();
        let table = Arc::new(Table::open::<Words>(&path).unwrap());
        assert_eq!(table.rows(), rows as u64);
        let mut row = 0;
        for (_, decoded) in table.groups(|_| true, 1) {
            let decoded = decoded.unwrap();
            for word in 0..decoded.count {
                let expected = format!("{row}").into_bytes();
                assert_eq!(decoded.text(0, word), Some(&expected[..]));
                row += 1;
            }
        }
        assert_eq!(row, rows);
        let parts: Vec<u64> = table.rows_of_groups().collect();
        assert_eq!(parts, [ROWS as u64, ROWS as u64, 3]);
    }

    #[test]
    fn row_groups_that_share_bytes_are_refused() {
        let mut table = table(&[&[10], &[20]]).unwrap();
        assert!(sound(&table.footer).is_ok());
        table.footer.metadata = changed(&table.footer, |groups| {
            vec![groups[0].clone(), groups[0].clone()]
        });
        let (_, told) = sound(&table.footer).unwrap_err();
        assert_eq!(told, "a column begins within the one before it");
    }
}
