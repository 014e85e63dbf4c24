//! Write batches of rows into a file.
//!
//! After each row group comes a note that describes it, so that the file is readable up to its last
//! row group whenever the writer is killed; the footer of Parquet comes at the end. Other readers
//! look only for that: [`recover`] writes it after the last note. (The cumulative footers of the
//! file format's chapter "Error Recovery" grow with the square of the number of row groups.)
//!
//! [`recover`]: crate::recover

use std::fs::{File, OpenOptions};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::error::Error;
use crate::footer::{self, GROUPS};
use crate::rows::{RowGroup, Rows};
use crate::schema::{self, Kind};

/// A file of rows of one kind, while it is written.
#[derive(Debug)]
pub struct FileWriter<T> {
    path: PathBuf,
    file: File,
    /// None once writing has failed.
    parquet: Option<SerializedFileWriter<File>>,
    facts: Vec<KeyValue>,
    /// Rows and row groups that can be read back.
    rows: u64,
    groups: usize,
    /// The end of the last note or footer.
    readable: u64,
    /// True if that is a footer, and has all facts.
    is_whole: bool,
    rows_are: PhantomData<T>,
}

impl<T: Rows> FileWriter<T> {
    /// Create a file, or empty an existing one. `facts` are kept in its metadata.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn create(path: &Path, facts: &[(&str, String)]) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(Error::system("create", path))?;
        let shared = file.try_clone().map_err(Error::system("create", path))?;
        let encoder = |error: ParquetError| refused(path, error);
        let schema = schema::parquet(T::columns()).map_err(encoder)?;
        let parquet = SerializedFileWriter::new(shared, schema, Arc::new(properties::<T>()))
            .map_err(encoder)?;
        let (key, version) = T::VERSION;
        let mut writer = Self {
            path: path.to_owned(),
            file,
            parquet: Some(parquet),
            facts: vec![KeyValue::new(key.to_owned(), version.to_string())],
            rows: 0,
            groups: 0,
            readable: 0,
            is_whole: false,
            rows_are: PhantomData,
        };
        for (key, value) in facts {
            writer.add_fact(key, value.clone());
        }
        // Even without rows it is a recording.
        let described = writer.describe_all();
        writer.cut_if_failed(described)?;
        Ok(writer)
    }

    /// The path that it was created with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of rows that can be read back by now.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of row groups that can be read back by now.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The length of the file up to its last note or footer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.readable
    }

    /// Keep another fact in the metadata; it is in the file once that is finished.
    pub fn add_fact(&mut self, key: &str, value: String) {
        self.facts
            .push(KeyValue::new(format!("sockstamp.{key}"), value));
        self.is_whole = false;
    }

    /// Append a batch as one row group.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, as on a full disk: it is then cut after its last row group,
    /// and accepts no more. If it has [`GROUPS`] row groups: it stays as it is.
    pub fn write(&mut self, batch: &T) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.groups >= GROUPS {
            return Err(Error::TooLong {
                path: self.path.clone(),
            });
        }
        let written = self.append(batch);
        self.cut_if_failed(written)
    }

    /// Write the footer; return the rows and the bytes of the file.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write).
    pub fn finish(mut self) -> Result<(u64, u64), Error> {
        let described = self.describe_all();
        self.cut_if_failed(described)?;
        Ok((self.rows, self.readable))
    }

    fn append(&mut self, batch: &T) -> Result<(), Error> {
        let path = &self.path;
        let Some(parquet) = &mut self.parquet else {
            return Ok(());
        };
        let encoder = |error: ParquetError| refused(path, error);
        let mut group = RowGroup::new(parquet.next_row_group().map_err(encoder)?);
        batch.write(&mut group).map_err(encoder)?;
        group.close().map_err(encoder)?;
        let Some(group) = parquet.flushed_row_groups().last() else {
            return Ok(());
        };
        let group = footer::slim(group).map_err(encoder)?;
        // The facts are in the footer before it.
        let like = footer::like(parquet.properties(), parquet.schema_descr(), None);
        let note = footer::note(&like, group, self.readable).map_err(encoder)?;
        self.end_with(&note)?;
        self.is_whole = false;
        self.groups += 1;
        self.rows += batch.len() as u64;
        Ok(())
    }
}

impl<T> FileWriter<T> {
    /// Write a footer, unless the file ends with one.
    fn describe_all(&mut self) -> Result<(), Error> {
        let footer = match &self.parquet {
            Some(parquet) if !self.is_whole => self.footer(parquet)?,
            _ => return Ok(()),
        };
        self.end_with(&footer)?;
        self.is_whole = true;
        Ok(())
    }

    fn footer(&self, parquet: &SerializedFileWriter<File>) -> Result<Vec<u8>, Error> {
        let facts = Some(self.facts.clone());
        let like = footer::like(parquet.properties(), parquet.schema_descr(), facts);
        let groups = parquet.flushed_row_groups().iter().take(self.groups);
        let groups: Result<_, _> = groups.map(footer::slim).collect();
        groups
            .and_then(|groups| footer::footer(&like, groups))
            .map_err(|error| refused(&self.path, error))
    }

    /// Write a note or a footer: the file can be read up to it.
    fn end_with(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(parquet) = &mut self.parquet else {
            return Ok(());
        };
        let written = parquet.write_all(bytes).and_then(|()| parquet.flush());
        written.map_err(Error::system("write", &self.path))?;
        self.readable = parquet.bytes_written() as u64;
        Ok(())
    }

    fn cut_if_failed(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if result.is_err() {
            // Report the first error, and none of those that follow.
            let parquet = self.parquet.take();
            let footer = parquet.as_ref().map(|parquet| self.footer(parquet));
            // Its buffer is written when it is dropped, as far as there is room.
            drop(parquet);
            let _ = self.file.set_len(self.readable);
            if let (false, Some(Ok(footer))) = (self.is_whole, footer) {
                self.append_if_possible(&footer);
            }
        }
        result
    }

    /// Write a footer where the row group was that could not be written. It is for other readers:
    /// ours read the notes.
    fn append_if_possible(&mut self, footer: &[u8]) {
        match self.file.write_all_at(footer, self.readable) {
            Ok(()) => self.readable += footer.len() as u64,
            Err(_) => drop(self.file.set_len(self.readable)),
        }
    }
}

impl<T> Drop for FileWriter<T> {
    /// Leave a file that can be read to its end, if `finish` was not called.
    fn drop(&mut self) {
        let described = self.describe_all();
        // There is no caller left to report it to.
        let _ = self.cut_if_failed(described);
    }
}

fn refused(path: &Path, error: ParquetError) -> Error {
    let path = path.to_owned();
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => Error::System {
                doing: "write",
                path,
                source: *source,
            },
            Err(other) => Error::Encoder {
                path,
                reason: other.to_string(),
            },
        },
        other => Error::Encoder {
            path,
            reason: other.to_string(),
        },
    }
}

fn properties<T: Rows>() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("sockstamp {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        // Their offsets would have to be in the notes.
        .set_offset_index_disabled(true)
        .set_encoding(Encoding::PLAIN);
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    for column in T::columns() {
        let path = path(&column.name);
        let name = column.name.as_str();
        if column.kind == Kind::Text || T::FEW.contains(&name) {
            properties = properties.set_column_dictionary_enabled(path, true);
        } else if T::GROWING.contains(&name) {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties
        .set_column_statistics_enabled(path("time_ns"), EnabledStatistics::Chunk)
        .build()
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::schema::Column;
    use crate::table::Table;

    /// A row of one number, which is written faster than a message.
    #[derive(Default)]
    struct One(Vec<i64>);

    impl Rows for One {
        const VERSION: (&'static str, u32) = ("sockstamp.one", 1);
        const GROWING: &'static [&'static str] = &[];
        const FEW: &'static [&'static str] = &[];

        fn columns() -> Vec<Column> {
            vec![Column {
                name: "one".to_owned(),
                kind: Kind::Integer,
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
            group.integers(&self.0, None)
        }
    }

    #[test]
    fn a_file_with_all_row_groups_that_it_may_have_stays_as_it_is() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = FileWriter::<One>::create(&path, &[]).unwrap();
        for _ in 0..GROUPS {
            writer.write(&One(vec![1])).unwrap();
        }
        let full = writer.bytes();
        let error = writer.write(&One(vec![1])).unwrap_err();
        assert!(matches!(error, Error::TooLong { .. }), "{error}");
        let told = error.to_string();
        assert!(
            told.ends_with("as a file can have: record into a directory"),
            "{told}"
        );
        assert_eq!(writer.bytes(), full);
        let (rows, _) = writer.finish().unwrap();
        let table = Table::open::<One>(&path).unwrap();
        assert_eq!(
            (rows, table.rows(), table.unread()),
            (GROUPS as u64, GROUPS as u64, 0)
        );
    }
}
