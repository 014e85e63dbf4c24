//! The metadata of a file of unknown origin: where our columns are, and whether any of its row
//! groups would cost more than one of ours.

use parquet::basic::{Compression, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use crate::batch::ROWS;
use crate::footer::GROUPS;
use crate::recover::Footer;
use crate::rows::Rows;
use crate::schema::Column;

/// Bytes of a column of one row group, decoded: 8 for an integer, and room for texts.
const COLUMN_BYTES: i64 = 64 << 20;
/// Bytes of all columns of one row group, decoded: about half of them are integers at most.
const GROUP_BYTES: i64 = 256 << 20;
/// Rows of a row group, of which [`ROWS`] are decoded at a time.
const LONGEST_GROUP: usize = 16 * ROWS;

/// Find our columns, or report why the file is not ours.
pub(super) fn places<T: Rows>(footer: &Footer) -> Result<Vec<Option<usize>>, String> {
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
pub(super) fn refuse_long_groups(footer: &Footer) -> Result<(), String> {
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
pub(super) fn refuse_codecs(footer: &Footer) -> Result<(), String> {
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
pub(super) fn sound(footer: &Footer) -> Result<(), (u64, &'static str)> {
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
            sound_column(chunk, group, footer, &mut free).map_err(here)?;
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

/// Check one column of a row group, which begins after `free`, where those before it end.
fn sound_column(
    chunk: &ColumnChunkMetaData,
    group: &RowGroupMetaData,
    footer: &Footer,
    free: &mut i64,
) -> Result<(), &'static str> {
    let data = chunk.data_page_offset();
    let begin = chunk
        .dictionary_page_offset()
        .map_or(data, |offset| offset.min(data));
    let end = begin.checked_add(chunk.compressed_size());
    if begin >= 4 && begin < *free {
        return Err("a column begins within the one before it");
    }
    *free = end.unwrap_or(*free);
    let inside = begin >= 4
        && data >= 4
        && chunk.compressed_size() >= 0
        && end.is_some_and(|end| end.cast_unsigned() <= footer.begin);
    if !inside {
        return Err("a column lies outside of the file");
    }
    if !(0..=COLUMN_BYTES).contains(&chunk.uncompressed_size()) {
        return Err("a column is longer than any of a recording");
    }
    if chunk.num_values() != group.num_rows() {
        return Err("a column has another number of rows than its row group");
    }
    Ok(())
}

fn is_text(chunk: &ColumnChunkMetaData) -> bool {
    chunk.column_type() == Physical::BYTE_ARRAY
}

/// Return false if the writer has noted that no row has a value.
pub(crate) fn has_values(chunk: &ColumnChunkMetaData) -> bool {
    let absent = chunk.statistics().and_then(Statistics::null_count_opt);
    absent.is_none_or(|absent| absent < chunk.num_values().unsigned_abs())
}

pub(super) fn begin_of(chunk: &ColumnChunkMetaData) -> u64 {
    let data = chunk.data_page_offset();
    let begin = chunk
        .dictionary_page_offset()
        .map_or(data, |offset| offset.min(data));
    begin.max(0).cast_unsigned()
}

pub(super) fn offset_of(group: &RowGroupMetaData) -> u64 {
    group.columns().first().map_or(0, begin_of)
}
