//! Write batches of rows into a file.
//!
//! After each row group comes a note that describes it, so that the file is readable up to its last
//! row group whenever the writer is killed; the footer of Parquet comes at the end. Other readers
//! look only for that: [`recover`] writes it after the last note. (The cumulative footers of the
//! file format's chapter "Error Recovery" grow with the square of the number of row groups.)
//!
//! [`recover`]: crate::recover

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::Flock;
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::encode;
use crate::error::Error;
use crate::footer::{self, GROUPS};
use crate::lock::lock;
use crate::place::{Place, shared};
use crate::rows::{RowGroup, Rows};
use crate::schema::{self, Kind};

/// A file of rows of one kind, while it is written.
#[derive(Debug)]
pub struct FileWriter<T> {
    path: PathBuf,
    file: File,
    /// None if the file was there before, and empty.
    created: Option<Place>,
    /// None once writing has failed.
    parquet: Option<SerializedFileWriter<File>>,
    /// The rest of the file once writing has failed.
    cut: Option<Cut>,
    facts: Vec<KeyValue>,
    /// Rows and row groups that can be read back.
    rows: u64,
    groups: usize,
    /// The end of the last note or footer.
    readable: u64,
    /// The length that a footer has at most.
    footer: u64,
    /// True if the file ends with a footer that has all facts.
    is_whole: bool,
    /// Dropped last: all is written then.
    _lock: Option<Flock<File>>,
    rows_are: PhantomData<T>,
}

/// The contents that a footer describes.
#[derive(Debug)]
struct Contents {
    /// Without facts.
    like: FileMetaData,
    groups: Vec<RowGroupMetaData>,
}

/// A file after a write that failed.
#[derive(Debug)]
struct Cut {
    contents: Contents,
    /// The end of the last note.
    end: u64,
    /// The last footer that was written there.
    footer: Vec<u8>,
}

impl<T: Rows> FileWriter<T> {
    /// Create a file that is not there yet, or is empty, for its owner alone: it names programs and
    /// addresses. `facts` are kept in its metadata.
    ///
    /// # Errors
    ///
    /// If the file exists, is a link, is empty but not this user's alone, cannot be created, or if
    /// another process writes it. Nothing is left of a new file then.
    pub fn create(path: &Path, facts: &[(&str, String)]) -> Result<Self, Error> {
        let place = Place::open(path).map_err(Error::system("create", path))?;
        let (file, created) = place.create().map_err(Error::system("create", path))?;
        let lock = lock(&file, path)?;
        let metadata = file.metadata().map_err(Error::system("create", path))?;
        if metadata.is_file() && metadata.len() > 0 {
            return Err(Error::Exists {
                path: path.to_owned(),
            });
        }
        if let Some(reason) = shared(&metadata).filter(|_| metadata.is_file() && !created) {
            return Err(Error::Shared {
                path: path.to_owned(),
                reason,
            });
        }
        Self::begin(path, (file, created.then_some(place)), lock, facts)
    }

    /// Write the first footer to an empty file.
    fn begin(
        path: &Path,
        (file, created): (File, Option<Place>),
        lock: Option<Flock<File>>,
        facts: &[(&str, String)],
    ) -> Result<Self, Error> {
        let shared = file.try_clone().map_err(Error::system("create", path))?;
        let encoder = |error: ParquetError| refused(path, error);
        let schema = schema::parquet(T::columns()).map_err(encoder)?;
        let parquet = SerializedFileWriter::new(shared, schema, Arc::new(properties::<T>()))
            .map_err(encoder)?;
        let (key, version) = T::VERSION;
        let mut writer = Self {
            path: path.to_owned(),
            file,
            created,
            parquet: Some(parquet),
            cut: None,
            facts: vec![KeyValue::new(key.to_owned(), version.to_string())],
            rows: 0,
            groups: 0,
            readable: 0,
            footer: 0,
            is_whole: false,
            _lock: lock,
            rows_are: PhantomData,
        };
        for (key, value) in facts {
            writer.add_fact(key, value.clone());
        }
        // Even without rows it is a recording.
        match writer.describe_all() {
            Ok(()) => {
                writer.footer = writer.readable;
                Ok(writer)
            }
            Err(error) => {
                // Readers would refuse a file without a footer. The first error is reported.
                let _ = writer.discard();
                Err(error)
            }
        }
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

    /// The length that the file has at most if it is finished now.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self.is_whole {
            true => self.readable,
            false => self.readable + self.footer,
        }
    }

    /// Keep another fact in the metadata; it is in the file once that is finished, even if writing
    /// rows has failed before.
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

    /// Append a batch if the finished file has at most `most` bytes then. Otherwise return false:
    /// the file remains as it was, and accepts no more.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write).
    pub fn write_within(&mut self, batch: &T, most: u64) -> Result<bool, Error> {
        let before = (self.rows, self.groups, self.readable, self.is_whole);
        self.write(batch)?;
        if self.length() <= most {
            return Ok(true);
        }
        (self.rows, self.groups, self.readable, self.is_whole) = before;
        self.cut();
        Ok(false)
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

    /// Remove the file, or empty one that was there before.
    ///
    /// # Errors
    ///
    /// If that is refused.
    pub fn discard(mut self) -> Result<(), Error> {
        // Its buffer is written when it is dropped.
        drop(self.parquet.take());
        self.is_whole = true;
        let is_file = self.file.metadata().is_ok_and(|file| file.is_file());
        match (&self.created, is_file) {
            (Some(place), _) => place.remove().map_err(Error::system("remove", &self.path)),
            (None, true) => (self.file.set_len(0)).map_err(Error::system("empty", &self.path)),
            (None, false) => Ok(()),
        }
    }

    fn append(&mut self, batch: &T) -> Result<(), Error> {
        let path = &self.path;
        let Some(parquet) = &mut self.parquet else {
            return Err(Error::Cut { path: path.clone() });
        };
        let encoder = |error: ParquetError| refused(path, error);
        let mut group = RowGroup::begin(parquet).map_err(encoder)?;
        batch.write(&mut group).map_err(encoder)?;
        group.close().map_err(encoder)?;
        let Some(group) = parquet.flushed_row_groups().last() else {
            return Ok(());
        };
        let group = footer::slim(group).map_err(encoder)?;
        // The facts are in the footer before it.
        let like = footer::like(parquet.properties(), parquet.schema_descr());
        let note = footer::note(&like, group, self.readable).map_err(encoder)?;
        self.readable = end_with(parquet, &note).map_err(Error::system("write", path))?;
        self.is_whole = false;
        self.groups += 1;
        self.rows += batch.len() as u64;
        // A note describes its row group, and the columns as well.
        self.footer += note.len() as u64;
        Ok(())
    }
}

/// Write a note or a footer; return its end.
fn end_with(parquet: &mut SerializedFileWriter<File>, bytes: &[u8]) -> io::Result<u64> {
    parquet.write_all(bytes)?;
    parquet.flush()?;
    Ok(parquet.bytes_written() as u64)
}

impl<T> FileWriter<T> {
    /// Write a footer, unless the file ends with one.
    fn describe_all(&mut self) -> Result<(), Error> {
        if self.is_whole {
            return Ok(());
        }
        let contents = match &self.parquet {
            Some(parquet) => self.contents(parquet)?,
            None => {
                self.describe_cut();
                return Ok(());
            }
        };
        let footer = self.footer(&contents)?;
        if let Some(parquet) = &mut self.parquet {
            let end = end_with(parquet, &footer);
            self.readable = end.map_err(Error::system("write", &self.path))?;
            self.is_whole = true;
        }
        Ok(())
    }

    fn contents(&self, parquet: &SerializedFileWriter<File>) -> Result<Contents, Error> {
        let groups = parquet.flushed_row_groups().iter().take(self.groups);
        let groups: Result<_, _> = groups.map(footer::slim).collect();
        Ok(Contents {
            like: footer::like(parquet.properties(), parquet.schema_descr()),
            groups: groups.map_err(|error| refused(&self.path, error))?,
        })
    }

    fn footer(&self, contents: &Contents) -> Result<Vec<u8>, Error> {
        let like = footer::with_facts(&contents.like, self.facts.clone());
        footer::footer(&like, contents.groups.clone()).map_err(|error| refused(&self.path, error))
    }

    fn cut_if_failed(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        // Report the first error, and none of those that follow.
        if result.is_err() {
            self.cut();
        }
        result
    }

    /// Cut the file after what can be read.
    fn cut(&mut self) {
        let Some(parquet) = self.parquet.take() else {
            return;
        };
        let contents = self.contents(&parquet);
        // Its buffer is written when it is dropped, as far as there is room.
        drop(parquet);
        let _ = self.file.set_len(self.readable);
        self.cut = contents.ok().map(|contents| Cut {
            contents,
            end: self.readable,
            footer: Vec::new(),
        });
        if !self.is_whole {
            self.describe_cut();
        }
    }

    /// Write a footer where the row group was that could not be written. It is for other readers:
    /// ours read the notes.
    fn describe_cut(&mut self) {
        let Some(mut cut) = self.cut.take() else {
            return;
        };
        if let Ok(footer) = self.footer(&cut.contents) {
            if self.put(&footer, cut.end) {
                (self.is_whole, cut.footer) = (true, footer);
            } else if !self.put(&cut.footer, cut.end) {
                // Without the one that lacks the last facts, too.
                let _ = self.file.set_len(cut.end);
                self.readable = cut.end;
            }
        }
        self.cut = Some(cut);
    }

    /// End the file with these bytes; return false if that failed.
    fn put(&mut self, footer: &[u8], begin: u64) -> bool {
        let end = begin + footer.len() as u64;
        let written = self.file.write_all_at(footer, begin);
        let written = written.and_then(|()| self.file.set_len(end)).is_ok();
        if written {
            self.readable = end;
        }
        written
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
        ParquetError::External(source) => match source.downcast::<io::Error>() {
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
        .set_compression(encode::compression())
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
    use crate::table::Table;
    use crate::words::Words;

    #[test]
    fn a_file_with_all_row_groups_that_it_may_have_stays_as_it_is() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = FileWriter::<Words>::create(&path, &[]).unwrap();
        for _ in 0..GROUPS {
            writer.write(&Words(vec!["one".into()])).unwrap();
        }
        let full = writer.bytes();
        let error = writer.write(&Words(vec!["one".into()])).unwrap_err();
        assert!(matches!(error, Error::TooLong { .. }), "{error}");
        let told = error.to_string();
        assert!(
            told.ends_with("as a file can have: record into a directory"),
            "{told}"
        );
        assert_eq!(writer.bytes(), full);
        let (rows, _) = writer.finish().unwrap();
        let table = Table::open::<Words>(&path).unwrap();
        assert_eq!(
            (rows, table.rows(), table.unread()),
            (GROUPS as u64, GROUPS as u64, 0)
        );
    }
}
