//! Define the kinds of rows of a file, and write their columns.

use std::fs::File;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::types::ColumnDescPtr;

use crate::encode::{self, Encoded, Levels, Run};
use crate::schema::Column;

/// Rows that will be one row group.
pub trait Rows: Default {
    /// The key and the version of the columns in a file's metadata.
    const VERSION: (&'static str, u32);
    /// Integers that mostly grow from row to row.
    const GROWING: &'static [&'static str];
    /// Integers of few different values.
    const FEW: &'static [&'static str];

    /// Return the columns, in their order in a file.
    fn columns() -> Vec<Column>;

    /// The number of rows.
    fn len(&self) -> usize;

    /// Return true if there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return true if it is as large as a row group may be.
    fn is_full(&self) -> bool;

    /// Remove all rows; keep the room.
    fn clear(&mut self);

    /// Write all columns.
    ///
    /// # Errors
    ///
    /// Those of the file.
    #[doc(hidden)]
    fn write(&self, group: &mut RowGroup<'_>) -> Result<(), ParquetError>;
}

/// A row group that is written, column by column.
pub struct RowGroup<'a> {
    group: SerializedRowGroupWriter<'a, File>,
    columns: std::vec::IntoIter<ColumnDescPtr>,
}

impl std::fmt::Debug for RowGroup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowGroup").finish_non_exhaustive()
    }
}

impl<'a> RowGroup<'a> {
    /// Begin the next row group of a file.
    pub(crate) fn begin(file: &'a mut SerializedFileWriter<File>) -> Result<Self, ParquetError> {
        let columns = file.schema_descr().columns().to_vec().into_iter();
        let group = file.next_row_group()?;
        Ok(Self { group, columns })
    }

    fn next(&mut self) -> Result<SerializedColumnWriter<'_>, ParquetError> {
        self.columns.next();
        self.group.next_column()?.ok_or_else(too_many)
    }

    /// Write a column by its runs.
    pub(crate) fn runs<'r>(
        &mut self,
        runs: impl IntoIterator<Item = Run<'r>>,
    ) -> Result<(), ParquetError> {
        let column = self.columns.next().ok_or_else(too_many)?;
        self.append(encode::dictionary(column, runs)?)
    }

    /// Write integers that rows may lack, not in a dictionary.
    pub(crate) fn plain(&mut self, values: &[i64], levels: &Levels) -> Result<(), ParquetError> {
        let column = self.columns.next().ok_or_else(too_many)?;
        self.append(encode::plain(column, values, levels)?)
    }

    fn append(&mut self, encoded: Encoded) -> Result<(), ParquetError> {
        self.group.append_column(&encoded.bytes, encoded.closed)
    }

    pub(crate) fn flags(&mut self, values: &[bool]) -> Result<(), ParquetError> {
        let mut column = self.next()?;
        column.typed::<BoolType>().write_batch(values, None, None)?;
        column.close()
    }

    /// `levels`: 1 for each row that has a value, 0 for others.
    pub(crate) fn integers(
        &mut self,
        values: &[i64],
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let mut column = self.next()?;
        column
            .typed::<Int64Type>()
            .write_batch(values, levels, None)?;
        column.close()
    }

    /// Texts or bytes.
    pub(crate) fn texts(
        &mut self,
        values: &[ByteArray],
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let mut column = self.next()?;
        column
            .typed::<ByteArrayType>()
            .write_batch(values, levels, None)?;
        column.close()
    }

    pub(crate) fn close(self) -> Result<(), ParquetError> {
        self.group.close().map(drop)
    }
}

fn too_many() -> ParquetError {
    ParquetError::General("there are more values than columns".to_owned())
}
