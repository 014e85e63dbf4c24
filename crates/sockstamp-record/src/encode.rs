//! Encode columns faster than the Parquet library, whose encoder takes a value and a level for each
//! row: by runs of rows that are alike, whose number is a small part of that of the rows.
//!
//! A column of runs of equal values is a page of its different values, and one of runs of their
//! places. A plain column is a page of runs of rows with a value and without one, and of the values
//! ("Plain", "Dictionary Encoding" and "Run Length Encoding / Bit-Packing Hybrid" in Parquet's
//! Encodings.md).

use std::collections::HashMap;
use std::iter;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// A value as its column has it in a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Value(Vec<u8>);

impl Value {
    pub(crate) fn integer(value: i64) -> Self {
        Self(value.to_le_bytes().into())
    }

    pub(crate) fn text(text: &str) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self([&length.to_le_bytes(), text.as_bytes()].concat())
    }
}

/// A run of rows with the same value, or without one.
pub(crate) type Run<'a> = (Option<&'a Value>, usize);

/// An encoded column.
pub(crate) struct Encoded {
    pub(crate) bytes: Bytes,
    pub(crate) closed: ColumnCloseResult,
}

/// Encode a column of runs of equal values.
pub(crate) fn dictionary<'a>(
    column: ColumnDescPtr,
    runs: impl IntoIterator<Item = Run<'a>>,
) -> Result<Encoded> {
    let mut content = Content::default();
    runs.into_iter().for_each(|run| content.push(run));
    content.close(column)
}

/// Encode integers that rows may lack.
pub(crate) fn plain(column: ColumnDescPtr, values: &[i64], levels: &Levels) -> Result<Encoded> {
    let mut data = Vec::with_capacity(8 * values.len() + 64);
    levels.encode(&column, &mut data)?;
    data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    close(column, None, (&data, Encoding::PLAIN), levels)
}

/// Runs of rows with a value, and of rows without one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels {
    runs: Vec<(u32, usize)>,
    rows: usize,
}

impl Levels {
    /// Add a run of rows.
    pub(crate) fn push(&mut self, has_value: bool, rows: usize) {
        append(&mut self.runs, has_value.into(), rows);
        self.rows += rows;
    }

    /// Return 1 for each row that has a value, and 0 for others.
    pub(crate) fn of_rows(&self) -> Vec<i16> {
        let runs = self.runs.iter();
        runs.flat_map(|&(level, rows)| iter::repeat_n(i16::from(level > 0), rows))
            .collect()
    }

    fn have_values(&self) -> bool {
        self.runs.iter().any(|(level, _)| *level > 0)
    }

    /// Append them, if rows of the column may lack a value.
    fn encode(&self, column: &ColumnDescPtr, data: &mut Vec<u8>) -> Result<()> {
        if column.max_def_level() > 0 {
            let levels = hybrid(&self.runs, 1);
            data.extend(number::<u32>(levels.len())?.to_le_bytes());
            data.extend(levels);
        }
        Ok(())
    }
}

/// The values and runs of a column.
#[derive(Default)]
struct Content<'a> {
    places: HashMap<&'a Value, u32>,
    /// The different values, in the order of their places.
    values: Vec<u8>,
    /// Runs of places, of rows with a value.
    runs: Vec<(u32, usize)>,
    levels: Levels,
}

impl<'a> Content<'a> {
    fn push(&mut self, (value, rows): Run<'a>) {
        self.levels.push(value.is_some(), rows);
        let Some(value) = value else {
            return;
        };
        // A row group has fewer rows than 2^32.
        let next = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let place = *self.places.entry(value).or_insert_with(|| {
            self.values.extend(&value.0);
            next
        });
        append(&mut self.runs, place, rows);
    }

    fn close(self, column: ColumnDescPtr) -> Result<Encoded> {
        let mut data = Vec::new();
        self.levels.encode(&column, &mut data)?;
        let count = self.places.len();
        let Some(last) = count.checked_sub(1) else {
            return close(column, None, (&data, Encoding::PLAIN), &self.levels);
        };
        let width = (usize::BITS - last.leading_zeros()).max(1);
        data.push(number(width as usize)?);
        data.extend(hybrid(&self.runs, width));
        let dictionary = Some((&self.values[..], count));
        let data = (&data[..], Encoding::RLE_DICTIONARY);
        close(column, dictionary, data, &self.levels)
    }
}

/// Make pages of a column's dictionary, with its number of values, and of its data.
fn close(
    column: ColumnDescPtr,
    dictionary: Option<(&[u8], usize)>,
    (data, encoding): (&[u8], Encoding),
    levels: &Levels,
) -> Result<Encoded> {
    let rows = levels.rows;
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut sink);
    let dictionary = dictionary.map(|(values, count)| {
        let num_values = number(count)?;
        let page = compressed(values, |buf| Page::DictionaryPage {
            buf,
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })?;
        pages.write_page(page)
    });
    let dictionary = dictionary.transpose()?;
    let num_values = number(rows)?;
    let data = pages.write_page(compressed(data, |buf| Page::DataPage {
        buf,
        num_values,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    })?)?;
    let written = [dictionary.as_ref(), Some(&data)];
    let sum = |size: fn(&PageWriteSpec) -> usize| {
        let sizes = written.iter().flatten().map(|page| size(page));
        number(sizes.sum())
    };
    let mut metadata = ColumnChunkMetaData::builder(column);
    if !levels.have_values() {
        // So that readers need not look for one.
        let absent = Some(rows as u64);
        metadata = metadata.set_statistics(Statistics::int64(None, None, None, absent, false));
    }
    let metadata = metadata
        .set_compression(compression())
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, encoding])
        .set_num_values(number(rows)?)
        .set_total_compressed_size(sum(|page| page.compressed_size)?)
        .set_total_uncompressed_size(sum(|page| page.uncompressed_size)?)
        .set_dictionary_page_offset(dictionary.as_ref().map(|_| 0))
        .set_data_page_offset(data.offset.cast_signed())
        .build()?;
    let bytes = Bytes::from(sink.into_inner()?);
    let closed = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok(Encoded { bytes, closed })
}

pub(crate) fn compression() -> Compression {
    Compression::ZSTD(ZstdLevel::default())
}

/// Return a number as pages and their metadata have it.
fn number<T: TryFrom<usize>>(number: usize) -> Result<T> {
    let too_large = |_| ParquetError::General(format!("a page cannot hold {number} of anything"));
    T::try_from(number).map_err(too_large)
}

/// Add a run, or lengthen the last.
fn append(runs: &mut Vec<(u32, usize)>, value: u32, rows: usize) {
    match runs.last_mut() {
        Some((last, length)) if *last == value => *length += rows,
        _ if rows > 0 => runs.push((value, rows)),
        _ => {}
    }
}

/// Encode runs of values of this many bits: each as twice its length, and its value.
fn hybrid(runs: &[(u32, usize)], width: u32) -> Vec<u8> {
    let mut encoded = Vec::new();
    for &(value, length) in runs {
        let mut header = length << 1;
        loop {
            let [low, ..] = header.to_le_bytes();
            header >>= 7;
            if header == 0 {
                encoded.push(low);
                break;
            }
            encoded.push(low | 0x80);
        }
        encoded.extend(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
    encoded
}

fn compressed(content: &[u8], page: impl FnOnce(Bytes) -> Page) -> Result<CompressedPage> {
    let level = ZstdLevel::default().compression_level();
    let bytes = zstd::bulk::compress(content, level)?;
    Ok(CompressedPage::new(page(bytes.into()), content.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::column::reader::get_typed_column_reader;
    use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::SchemaDescriptor;
    use proptest::prelude::*;
    use tempfile::tempfile;

    use super::*;
    use crate::rows::RowGroup;
    use crate::schema::{self, Column, Kind};
    use crate::table;

    fn column(kind: Kind, optional: bool) -> Column {
        Column {
            name: "column".to_owned(),
            kind,
            optional,
        }
    }

    /// Write the one column of a file; return the values and the levels that the library reads.
    fn through_a_file<T: DataType>(
        kind: Kind,
        optional: bool,
        write: impl FnOnce(&mut RowGroup<'_>) -> Result<()>,
    ) -> (Vec<T::T>, Vec<i16>) {
        let schema = schema::parquet(vec![column(kind, optional)]).unwrap();
        let file = tempfile().unwrap();
        let shared = file.try_clone().unwrap();
        let mut writer = SerializedFileWriter::new(shared, schema, Arc::default()).unwrap();
        let mut group = RowGroup::begin(&mut writer).unwrap();
        write(&mut group).unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let group = reader.get_row_group(0).unwrap();
        let rows = usize::try_from(group.metadata().num_rows()).unwrap();
        let mut column = get_typed_column_reader::<T>(group.get_column_reader(0).unwrap());
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let into = optional.then_some(&mut levels);
        let (records, ..) = column.read_records(rows, into, None, &mut values).unwrap();
        assert_eq!(records, rows);
        (values, levels)
    }

    fn write_runs(group: &mut RowGroup<'_>, runs: &[(Option<Value>, usize)]) -> Result<()> {
        group.runs(runs.iter().map(|(value, rows)| (value.as_ref(), *rows)))
    }

    /// Runs, with as many different values as need several widths of a place.
    fn runs<V: std::fmt::Debug + Clone>(
        value: impl Strategy<Value = V>,
    ) -> impl Strategy<Value = Vec<(Option<V>, usize)>> {
        let length = prop_oneof![Just(1), 1..9_usize, 60..70_usize, 8000..9000_usize];
        proptest::collection::vec((proptest::option::of(value), length), 1..600)
    }

    fn repeated<V: Clone>(runs: &[(Option<V>, usize)]) -> (Vec<V>, Vec<i16>) {
        let rows = runs
            .iter()
            .flat_map(|(value, rows)| iter::repeat_n(value, *rows));
        let levels = rows.clone().map(|value| value.is_some().into()).collect();
        (rows.flatten().cloned().collect(), levels)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn the_library_reads_the_integers_that_were_written(
            runs in prop_oneof![runs(any::<i64>()), runs(0..3_i64)],
        ) {
            let encoded = |(value, rows): &(Option<i64>, usize)| (value.map(Value::integer), *rows);
            let written: Vec<_> = runs.iter().map(encoded).collect();
            let expected = repeated(&runs);
            let write = |group: &mut RowGroup<'_>| write_runs(group, &written);
            prop_assert_eq!(&through_a_file::<Int64Type>(Kind::Integer, true, write), &expected);
            let mut levels = Levels::default();
            for (value, rows) in &runs {
                levels.push(value.is_some(), *rows);
            }
            prop_assert_eq!(&levels.of_rows(), &expected.1);
            let write = |group: &mut RowGroup<'_>| group.plain(&expected.0, &levels);
            prop_assert_eq!(&through_a_file::<Int64Type>(Kind::Integer, true, write), &expected);
        }

        #[test]
        fn the_library_reads_the_texts_that_were_written(
            runs in prop_oneof![runs(any::<String>()), runs("[ab]{0,2}".boxed())],
        ) {
            let there: Vec<_> = runs.into_iter().filter(|(text, _)| text.is_some()).collect();
            prop_assume!(!there.is_empty());
            let text = |text: &String| Value::text(text);
            let written = there.iter().map(|(value, rows)| (value.as_ref().map(text), *rows));
            let written: Vec<_> = written.collect();
            let write = |group: &mut RowGroup<'_>| write_runs(group, &written);
            let (read, _) = through_a_file::<ByteArrayType>(Kind::Text, false, write);
            let texts = repeated(&there).0.into_iter();
            let expected: Vec<_> = texts.map(|text| ByteArray::from(text.as_str())).collect();
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn a_column_without_any_value_has_no_dictionary() {
        let write = |group: &mut RowGroup<'_>| write_runs(group, &[(None, 1000)]);
        let read = through_a_file::<Int64Type>(Kind::Integer, true, write);
        assert_eq!(read, (Vec::new(), vec![0; 1000]));
        let schema = schema::parquet(vec![column(Kind::Integer, true)]).unwrap();
        let column = SchemaDescriptor::new(schema).column(0);
        let metadata = dictionary(column, [(None, 1000)]).unwrap().closed.metadata;
        assert_eq!(metadata.dictionary_page_offset(), None);
        let absent = metadata.statistics().and_then(Statistics::null_count_opt);
        assert_eq!(absent, Some(1000));
        assert!(!table::has_values(&metadata));
    }
}
