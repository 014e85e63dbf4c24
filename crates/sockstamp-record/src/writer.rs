//! Write batches of messages into a file.
//!
//! Each footer of the file describes all row groups before it, so that the file is readable up to
//! its last footer whenever the writer is killed (parquet.apache.org, file format, "Error
//! Recovery"). A reader that knows nothing of this looks at the end of a file only: [`recover`]
//! cuts a file there.
//!
//! [`recover`]: crate::recover

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;
use sockstamp_model::flow::canonical;
use sockstamp_model::interface::Interface;

use crate::batch::{Batch, Identity, Sparse};
use crate::error::Error;
use crate::schema::{self, Kind, OF_IDENTITY, VERSION, VERSION_KEY};

/// Row groups up to which each has its footer. Beyond, footers become rarer in proportion: each
/// describes all row groups, and together they would outgrow the rows.
const EACH: usize = 32;

/// The file of a recording, while it is written.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    /// None once writing has failed.
    parquet: Option<SerializedFileWriter<File>>,
    rows: u64,
    /// Row groups that the last footer describes.
    described: usize,
    /// The end of the last footer.
    readable: u64,
}

impl Writer {
    /// Create a file, or empty the one that is there. `facts` are kept in its metadata.
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
        let properties = Arc::new(properties(facts));
        let schema = schema::parquet().map_err(encoder)?;
        let parquet = SerializedFileWriter::new(shared, schema, properties).map_err(encoder)?;
        let mut writer = Self {
            path: path.to_owned(),
            file,
            parquet: Some(parquet),
            rows: 0,
            described: 0,
            readable: 0,
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

    /// The number of messages that can be read back by now.
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
    /// If the file cannot be written, as on a full disk. It is cut behind its last footer then,
    /// and takes no more.
    pub fn write(&mut self, batch: &Batch) -> Result<(), Error> {
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
    /// As those of [`write`](Self::write).
    pub fn finish(mut self) -> Result<(u64, u64), Error> {
        let described = self.describe_all();
        self.cut_if_failed(described)?;
        Ok((self.rows, self.readable))
    }

    fn append(&mut self, batch: &Batch) -> Result<(), Error> {
        let path = &self.path;
        let Some(parquet) = &mut self.parquet else {
            return Ok(());
        };
        let mut group = parquet.next_row_group().map_err(|error| refused(path, error))?;
        row_group(&mut group, batch).map_err(|error| refused(path, error))?;
        group.close().map_err(|error| refused(path, error))?;
        let groups = parquet.flushed_row_groups().len();
        if groups - self.described > groups / EACH {
            self.describe_all()?;
        }
        Ok(())
    }

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
            // The first error is the one to tell.
            let _ = self.file.set_len(self.readable);
        }
        result
    }
}

impl Drop for Writer {
    /// Leave a file that can be read to its end, if `finish` was not called.
    fn drop(&mut self) {
        let described = self.describe_all();
        // Nobody is left to be told.
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

fn properties(facts: &[(&str, String)]) -> WriterProperties {
    let mut metadata = vec![KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string())];
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
    let column = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    for (name, kind, _) in OF_IDENTITY {
        properties = properties.set_column_dictionary_enabled(column(name), kind == Kind::Text);
    }
    // These grow within a flow, and flows are runs.
    for name in ["time_ns", "seq_end"] {
        properties = properties.set_column_encoding(column(name), Encoding::DELTA_BINARY_PACKED);
    }
    properties
        .set_column_statistics_enabled(column("time_ns"), EnabledStatistics::Chunk)
        .build()
}

/// A value of an identity.
enum Value {
    Text(String),
    Integer(i64),
    Absent,
}

/// Return the values of [`OF_IDENTITY`].
fn values(identity: &Identity) -> [Value; OF_IDENTITY.len()] {
    let text = |text: &str| Value::Text(text.to_owned());
    let (local, remote) = (canonical(identity.flow.local), canonical(identity.flow.remote));
    let interface = |interface: &Option<Interface>| match interface {
        Some(interface) => [
            Value::Text(interface.name.exact().into_owned()),
            Value::Integer(interface.index.into()),
            Value::Integer(interface.netns.0.into()),
        ],
        None => [const { Value::Absent }; 3],
    };
    let [first, first_index, first_netns] = interface(&identity.interfaces.first);
    let [last, last_index, last_netns] = interface(&identity.interfaces.last);
    [
        text(identity.direction.name()),
        text(identity.flow.protocol.name()),
        Value::Integer(identity.flow.netns.0.into()),
        Value::Text(local.ip().to_string()),
        Value::Integer(local.port().into()),
        Value::Text(remote.ip().to_string()),
        Value::Integer(remote.port().into()),
        Value::Integer(identity.flow.cookie.0.cast_signed()),
        Value::Integer(identity.cgroup.0.cast_signed()),
        Value::Integer(identity.pid.into()),
        Value::Text(identity.comm.exact().into_owned()),
        text(identity.verdict.name()),
        first,
        first_index,
        first_netns,
        last,
        last_index,
        last_netns,
    ]
}

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn next<'a>(group: &'a mut Group<'_>) -> Result<SerializedColumnWriter<'a>, ParquetError> {
    group
        .next_column()?
        .ok_or_else(|| ParquetError::General("there are more values than columns".to_owned()))
}

fn row_group(group: &mut Group<'_>, batch: &Batch) -> Result<(), ParquetError> {
    let order = batch.order();
    identities(group, batch)?;
    for flags in &batch.flags {
        let values: Vec<bool> = order.iter().map(|&row| flags[row as usize]).collect();
        let mut column = next(group)?;
        column.typed::<BoolType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    for integers in &batch.always {
        let values: Vec<i64> = order.iter().map(|&row| integers[row as usize]).collect();
        integer_column(group, &values, None)?;
    }
    let nothing = vec![0; order.len()];
    for integers in &batch.sparse {
        match integers.values.is_empty() {
            true => integer_column(group, &[], Some(&nothing))?,
            false => {
                let (values, levels) = dense(integers, &order);
                integer_column(group, &values, Some(&levels))?;
            }
        }
    }
    Ok(())
}

fn integer_column(group: &mut Group<'_>, values: &[i64], levels: Option<&[i16]>) -> Result<(), ParquetError> {
    let mut column = next(group)?;
    column.typed::<Int64Type>().write_batch(values, levels, None)?;
    column.close()
}

/// Return the values that are there, and a level for each row.
fn dense(sparse: &Sparse, order: &[u32]) -> (Vec<i64>, Vec<i16>) {
    let mut values = Vec::with_capacity(sparse.values.len());
    let mut levels = Vec::with_capacity(order.len());
    for &row in order {
        let there = sparse.there.get(row as usize).is_some_and(|there| *there);
        levels.push(there.into());
        if there {
            values.push(sparse.values[row as usize]);
        }
    }
    (values, levels)
}

/// Write the columns of the identities: runs.
fn identities(group: &mut Group<'_>, batch: &Batch) -> Result<(), ParquetError> {
    let mut lengths = vec![0_usize; batch.identities.len()];
    for &identity in &batch.rows {
        lengths[identity as usize] += 1;
    }
    let all: Vec<_> = batch.identities.iter().map(values).collect();
    for (index, (_, kind, optional)) in OF_IDENTITY.into_iter().enumerate() {
        let runs = all.iter().map(|values| &values[index]).zip(&lengths);
        let mut levels = Vec::new();
        let mut texts = Vec::new();
        let mut integers = Vec::new();
        for (value, &length) in runs {
            let there = !matches!(value, Value::Absent);
            levels.resize(levels.len() + length, i16::from(there));
            match value {
                Value::Text(text) => texts.resize(texts.len() + length, ByteArray::from(text.as_str())),
                Value::Integer(integer) => integers.resize(integers.len() + length, *integer),
                Value::Absent => {}
            }
        }
        let levels = optional.then_some(levels.as_slice());
        if kind == Kind::Text {
            let mut column = next(group)?;
            column
                .typed::<ByteArrayType>()
                .write_batch(&texts, levels, None)?;
            column.close()?;
        } else {
            integer_column(group, &integers, levels)?;
        }
    }
    Ok(())
}
