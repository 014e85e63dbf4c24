//! Footers, and the notes that stand for them while a file is written.
//!
//! A footer of Parquet describes all row groups of its file. One after each row group would keep
//! the file readable, but hundreds of them would be longer than the rows. A note is the footer of
//! the row group before it alone. After its metadata come the end of the note or footer before it
//! (8 bytes), the length of the metadata (4 bytes), and magic bytes. These are not Parquet's, so
//! that no other reader takes it for the footer of the whole file.

use std::sync::Arc;

use parquet::errors::Result;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};

/// The magic bytes at the end of a footer, and at the begin of a file.
pub(crate) const FOOTER: &[u8; 4] = b"PAR1";
/// The magic bytes at the end of a note.
pub(crate) const NOTE: &[u8; 4] = b"SKST";
/// The length and the magic bytes of a footer.
pub(crate) const TAIL: usize = 8;
/// Bytes of a note before these: the end of the note before it.
pub(crate) const BEFORE: usize = 8;

/// The largest number of row groups of a file: a bound on its footer, and on the memory of its
/// writer and its readers.
pub const GROUPS: usize = 4096;
/// The longest footer or note that is read: that of [`GROUPS`] takes less.
pub(crate) const LONGEST: u32 = 20 << 20;

/// Return the footer of these row groups, and of this description of their file.
pub(crate) fn footer(like: &FileMetaData, groups: Vec<RowGroupMetaData>) -> Result<Vec<u8>> {
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &describe(like, groups)).finish()?;
    Ok(footer)
}

/// Return the note of a row group; `before` is the end of the note or footer before it.
pub(crate) fn note(like: &FileMetaData, group: RowGroupMetaData, before: u64) -> Result<Vec<u8>> {
    let mut note = footer(like, vec![group])?;
    let length = note.len().saturating_sub(TAIL);
    let tail = note.split_off(length);
    note.extend(before.to_le_bytes());
    note.extend(&tail[..4]);
    note.extend(NOTE);
    Ok(note)
}

/// Put row groups in the place of those that a file's description counts.
pub(crate) fn describe(like: &FileMetaData, groups: Vec<RowGroupMetaData>) -> ParquetMetaData {
    // Of a hostile file, the sum may be any.
    let rows = groups.iter().map(RowGroupMetaData::num_rows);
    let metadata = FileMetaData::new(
        like.version(),
        rows.fold(0, i64::saturating_add),
        like.created_by().map(str::to_owned),
        like.key_value_metadata().cloned(),
        like.schema_descr_ptr(),
        like.column_orders().cloned(),
    );
    ParquetMetaData::new(metadata, groups)
}

/// Return the description of a file that our writer begins.
pub(crate) fn like(
    properties: &parquet::file::properties::WriterProperties,
    schema: &parquet::schema::types::SchemaDescriptor,
) -> FileMetaData {
    FileMetaData::new(
        properties.writer_version().as_num(),
        0,
        Some(properties.created_by().to_owned()),
        None,
        Arc::new(schema.clone()),
        None,
    )
}

/// Return the same description with facts.
pub(crate) fn with_facts(like: &FileMetaData, facts: Vec<KeyValue>) -> FileMetaData {
    FileMetaData::new(
        like.version(),
        like.num_rows(),
        like.created_by().map(str::to_owned),
        Some(facts),
        like.schema_descr_ptr(),
        like.column_orders().cloned(),
    )
}

/// Leave out the counts of pages by encoding: readers do without them, and they are a fifth of a
/// footer.
pub(crate) fn slim(group: &RowGroupMetaData) -> Result<RowGroupMetaData> {
    let columns = group.columns().iter().map(|column| {
        let column = column.clone().into_builder();
        column.clear_page_encoding_stats().build()
    });
    let columns = columns.collect::<Result<_>>()?;
    group
        .clone()
        .into_builder()
        .set_column_metadata(columns)
        .build()
}
