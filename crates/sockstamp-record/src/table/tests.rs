//! Files that claim more than they have, and long row groups.

use parquet::data_type::ByteArray;
use parquet::file::metadata::ParquetMetaData;
use tempfile::tempdir;

use super::*;
use crate::footer;
use crate::words::Words;
use crate::writer::FileWriter;

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
