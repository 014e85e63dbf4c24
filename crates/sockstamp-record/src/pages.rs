//! Read the pages of a column of a row group by their place in a file, and no more bytes of them
//! than the column claims to have.
//!
//! The decoder allocates as many bytes as a page's header claims to decompress to, before it reads
//! any of them, and as many values as a dictionary's header claims. Texts keep their page.

use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::compact::{Compact, FALSE, I32, STRUCT, TRUE};

/// The longest header of a page: ours have about 50 bytes.
const HEADER: usize = 1024;
/// Structures within each other that are skipped: statistics lie in the header of a data page.
const DEPTH: u32 = 4;

/// A file that several threads read: reading moves no place that they share.
#[derive(Debug)]
pub(crate) struct Pages {
    file: Arc<File>,
    length: u64,
    /// The bytes that pages may decompress to.
    left: Mutex<Left>,
    /// Rows of the row group.
    rows: usize,
}

/// The bytes of a column that headers which were read have left.
#[derive(Debug)]
struct Left {
    bytes: u64,
    /// Headers before this were counted: the decoder reads some twice.
    counted: u64,
}

impl Left {
    /// Count the page at this place; return false if it is too long.
    fn take(&mut self, place: u64, claimed: u64) -> bool {
        if place < self.counted {
            return true;
        }
        let left = self.bytes.checked_sub(claimed);
        self.bytes = left.unwrap_or(self.bytes);
        self.counted = place.saturating_add(1);
        left.is_some()
    }
}

impl Pages {
    /// `most`: the bytes that all pages decompress to. `rows`: those of the row group.
    pub(crate) const fn new(file: Arc<File>, length: u64, most: u64, rows: usize) -> Self {
        Self {
            file,
            length,
            rows,
            left: Mutex::new(Left {
                bytes: most,
                counted: 0,
            }),
        }
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Pages {
    type T = Cursor<Vec<u8>>;

    /// The decoder calls it for the headers of pages alone.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let left = self.length.saturating_sub(start);
        let mut header = vec![0; usize::try_from(left).map_or(HEADER, |left| left.min(HEADER))];
        self.file.read_exact_at(&mut header, start)?;
        let claimed = Header::new(&header, self.rows).claimed();
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        match claimed {
            Some(claimed) if left.take(start, claimed) => Ok(Cursor::new(header)),
            Some(_) => Err(ParquetError::General(
                "its pages claim to be longer than the column".to_owned(),
            )),
            None => Err(ParquetError::General(
                "a page has no sound header".to_owned(),
            )),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// The rest of a page's header.
struct Header<'a> {
    rest: Compact<'a>,
    /// Values of a page at most.
    most: u64,
}

impl<'a> Header<'a> {
    const fn new(bytes: &'a [u8], most: usize) -> Self {
        Self {
            rest: Compact(bytes),
            most: most as u64,
        }
    }

    /// Return the largest `uncompressed_page_size` (field 2). The decoder does not check the types
    /// of fields that it knows: return `None` if one has a wrong type.
    fn claimed(mut self) -> Option<u64> {
        let mut claimed = None;
        let mut last = 0;
        while let Some((field, kind)) = self.rest.field(&mut last)? {
            match (field, kind) {
                (2, I32) => claimed = claimed.max(Some(self.rest.varint()?)),
                (1 | 3 | 4, I32) => {
                    self.rest.varint()?;
                }
                (5..=8, STRUCT) => self.page()?,
                _ => return None,
            }
        }
        // Zigzag: an even number is twice its value, an odd one is negative.
        claimed
            .filter(|claimed| claimed % 2 == 0)
            .map(|claimed| claimed / 2)
    }

    /// Skip the header of a kind of page: integers, except flags and statistics. The first is the
    /// number of values of any kind: no page has more than a row group has rows.
    fn page(&mut self) -> Option<()> {
        let mut last = 0;
        while let Some((field, kind)) = self.rest.field(&mut last)? {
            match (field, kind) {
                (3 | 7, TRUE | FALSE) => {}
                (5 | 8, STRUCT) => self.rest.skip(STRUCT, DEPTH)?,
                (1..=6, I32) => {
                    let value = self.rest.varint()?;
                    // Zigzag: negative values are odd.
                    let is_count = field == 1;
                    if is_count && (value % 2 == 1 || value / 2 > self.most) {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::ROWS;

    /// A data page of 7 rows: type 0, then both sizes.
    fn header(uncompressed: &[u8]) -> Vec<u8> {
        let before = [0x15, 0x00, 0x15];
        let after = [0x15, 0x08, 0x2c, 0x15, 0x0e, 0x15, 0x00, 0x00, 0x00];
        [&before, uncompressed, &after[..]].concat()
    }

    #[test]
    fn the_size_that_a_page_claims_is_read() {
        assert_eq!(Header::new(&header(&[0x10]), ROWS).claimed(), Some(8));
        let two_gigabytes = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(
            Header::new(&header(&two_gigabytes), ROWS).claimed(),
            Some(i32::MAX as u64)
        );
    }

    #[test]
    fn a_page_counts_once_and_all_together() {
        let mut left = Left {
            bytes: 100,
            counted: 0,
        };
        assert!(left.take(4, 60));
        assert!(left.take(4, 60), "it is read again");
        assert!(!left.take(50, 41));
        assert!(left.take(90, 40));
        assert!(!left.take(130, 1));
    }

    #[test]
    fn a_page_that_claims_more_values_than_rows_is_refused() {
        // A dictionary page: type 2, both sizes, then its header (field 7).
        let dictionary = |count: &[u8]| {
            let before = [0x15, 0x04, 0x15, 0x10, 0x15, 0x08, 0x4c, 0x15];
            [&before, count, &[0x15, 0x00, 0x00, 0x00]].concat()
        };
        assert_eq!(Header::new(&dictionary(&[0x0e]), ROWS).claimed(), Some(8));
        let rows = [0x80, 0x80, 0x10];
        assert_eq!(Header::new(&dictionary(&rows), ROWS).claimed(), Some(8));
        for count in [
            &[0x82, 0x80, 0x10][..],
            &[0xfe, 0xff, 0xff, 0xff, 0x0f],
            &[0x01],
        ] {
            assert_eq!(
                Header::new(&dictionary(count), ROWS).claimed(),
                None,
                "{count:x?}"
            );
        }
    }

    #[test]
    fn a_header_that_the_decoder_may_read_otherwise_is_refused() {
        let negative = header(&[0x0f]);
        let boolean = [0x15, 0x00, 0x11, 0x15, 0x08, 0x00];
        let back = [0x15, 0x00, 0x15, 0x02, 0x15, 0x08, 0x05, 0x04, 0x10, 0x00];
        let cut = [0x15, 0x00, 0x15, 0x02, 0x15, 0x08];
        for header in [&negative[..], &boolean, &back, &cut] {
            assert_eq!(Header::new(header, ROWS).claimed(), None, "{header:x?}");
        }
    }
}
