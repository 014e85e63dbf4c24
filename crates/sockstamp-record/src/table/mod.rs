//! Read row groups out of a file of unknown origin.
//!
//! The metadata is checked before any row is decoded, so that a file cannot ask for more memory
//! than a row group of ours does, nor may a page claim it.

mod decoded;
mod metadata;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use sockstamp_model::clock::{Realtime, Timestamp};

use crate::batch::ROWS;
use crate::error::Error;
use crate::opening;
use crate::pages::Pages;
use crate::quiet;
use crate::recover::{Footer, last_footer};
use crate::rows::Rows;
use crate::schema::Column;

pub(crate) use self::decoded::Decoded;
use self::decoded::{Integers, Texts, Values};
pub(crate) use self::metadata::has_values;
use self::metadata::{begin_of, offset_of, places, refuse_codecs, refuse_long_groups, sound};

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
