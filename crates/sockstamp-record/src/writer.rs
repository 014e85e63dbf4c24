//! Write batches of rows into a file.
//!
//! Each footer of the file describes all row groups before it, so that the file is readable up to
//! its last footer whenever the writer is killed (parquet.apache.org, file format, "Error
//! Recovery"). Other readers look only at the end of a file: [`recover`] cuts it after the last
//! footer.
//!
//! [`recover`]: crate::recover

use std::fs::{File, OpenOptions};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::error::Error;
use crate::rows::{RowGroup, Rows};
use crate::schema::{self, Kind};

/// Row groups up to which each has its footer. Beyond, footers become rarer in proportion: each
/// describes all row groups, and together they would outgrow the rows.
const EACH: usize = 32;

/// A file of rows of one kind, while it is written.
#[derive(Debug)]
pub struct FileWriter<T> {
    path: PathBuf,
    file: File,
    /// None once writing has failed.
    parquet: Option<SerializedFileWriter<File>>,
    rows: u64,
    /// Row groups that the last footer describes.
    described: usize,
    /// The end of the last footer.
    readable: u64,
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
        let properties = Arc::new(properties::<T>(facts));
        let schema = schema::parquet(T::columns()).map_err(encoder)?;
        let parquet = SerializedFileWriter::new(shared, schema, properties).map_err(encoder)?;
        let mut writer = Self {
            path: path.to_owned(),
            file,
            parquet: Some(parquet),
            rows: 0,
            described: 0,
            readable: 0,
            rows_are: PhantomData,
        };
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

    /// The length of the file up to its last footer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.readable
    }

    /// Append a batch as one row group.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, as on a full disk. It is then cut after its last footer, and
    /// accepts no more.
    pub fn write(&mut self, batch: &T) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let written = self.append(batch);
        self.cut_if_failed(written)
    }

    /// Write the last footer; return the rows and the bytes of the file.
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
        let groups = parquet.flushed_row_groups().len();
        if groups - self.described > groups / EACH {
            self.describe_all()?;
        }
        Ok(())
    }
}

impl<T> FileWriter<T> {
    /// Write a footer, unless the last one describes all.
    fn describe_all(&mut self) -> Result<(), Error> {
        let path = &self.path;
        let Some(parquet) = &mut self.parquet else {
            return Ok(());
        };
        let groups = parquet.flushed_row_groups().to_vec();
        if groups.len() == self.described && self.readable > 0 {
            return Ok(());
        }
        let described = groups.len();
        let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
        let properties = Arc::clone(parquet.properties());
        let metadata = FileMetaData::new(
            properties.writer_version().as_num(),
            rows,
            Some(properties.created_by().to_owned()),
            properties.key_value_metadata().cloned(),
            Arc::new(parquet.schema_descr().clone()),
            None,
        );
        let mut footer = Vec::new();
        ParquetMetaDataWriter::new(&mut footer, &ParquetMetaData::new(metadata, groups))
            .finish()
            .map_err(|error| refused(path, error))?;
        parquet.write_all(&footer).map_err(Error::system("write", path))?;
        parquet.flush().map_err(Error::system("write", path))?;
        self.described = described;
        self.rows = rows.cast_unsigned();
        self.readable = parquet.bytes_written() as u64;
        Ok(())
    }

    fn cut_if_failed(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if result.is_err() {
            // Its buffer is written when it is dropped, as far as there is room.
            drop(self.parquet.take());
            // Report the first error.
            let _ = self.file.set_len(self.readable);
        }
        result
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

fn properties<T: Rows>(facts: &[(&str, String)]) -> WriterProperties {
    let (key, version) = T::VERSION;
    let mut metadata = vec![KeyValue::new(key.to_owned(), version.to_string())];
    metadata.extend(
        facts
            .iter()
            .map(|(key, value)| KeyValue::new(format!("sockstamp.{key}"), value.clone())),
    );
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("sockstamp {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        // Their offsets would be wrong in all footers but the last.
        .set_offset_index_disabled(true)
        .set_encoding(Encoding::PLAIN);
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    for column in T::columns() {
        let path = path(&column.name);
        if column.kind == Kind::Text {
            properties = properties.set_column_dictionary_enabled(path, true);
        } else if T::GROWING.contains(&column.name.as_str()) {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties
        .set_column_statistics_enabled(path("time_ns"), EnabledStatistics::Chunk)
        .build()
}
