//! Read pages by their place in a file, and none that claims to be larger than ours.
//!
//! The decoder allocates as many bytes as a page's header claims to decompress to, before it reads
//! any of them.

use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

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
    /// Bytes that a page may decompress to.
    most: u64,
}

impl Pages {
    pub(crate) const fn new(file: Arc<File>, length: u64, most: u64) -> Self {
        Self { file, length, most }
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
        let claimed = Header::new(&header).claimed();
        match claimed {
            Some(claimed) if claimed <= self.most => Ok(Cursor::new(header)),
            Some(_) => Err(ParquetError::General(
                "a page claims to be longer than any of a recording".to_owned(),
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
struct Header<'a>(Compact<'a>);

impl<'a> Header<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self(Compact(bytes))
    }

    /// Return the largest `uncompressed_page_size` (field 2). The decoder does not check the types
    /// of fields that it knows: return `None` if one has a wrong type.
    fn claimed(mut self) -> Option<u64> {
        let mut claimed = None;
        let mut last = 0;
        while let Some((field, kind)) = self.0.field(&mut last)? {
            match (field, kind) {
                (2, I32) => claimed = claimed.max(Some(self.0.varint()?)),
                (1 | 3 | 4, I32) => {
                    self.0.varint()?;
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

    /// Skip the header of a kind of page: integers, except flags and statistics.
    fn page(&mut self) -> Option<()> {
        let mut last = 0;
        while let Some((field, kind)) = self.0.field(&mut last)? {
            match (field, kind) {
                (3 | 7, TRUE | FALSE) => {}
                (5 | 8, STRUCT) => self.0.skip(STRUCT, DEPTH)?,
                (1..=6, I32) => {
                    self.0.varint()?;
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

    /// A data page of 7 rows: type 0, then both sizes.
    fn header(uncompressed: &[u8]) -> Vec<u8> {
        let before = [0x15, 0x00, 0x15];
        let after = [0x15, 0x08, 0x2c, 0x15, 0x0e, 0x15, 0x00, 0x00, 0x00];
        [&before, uncompressed, &after[..]].concat()
    }

    #[test]
    fn the_size_that_a_page_claims_is_read() {
        assert_eq!(Header::new(&header(&[0x10])).claimed(), Some(8));
        let two_gigabytes = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(
            Header::new(&header(&two_gigabytes)).claimed(),
            Some(i32::MAX as u64)
        );
    }

    #[test]
    fn a_header_that_the_decoder_may_read_otherwise_is_refused() {
        let negative = header(&[0x0f]);
        let boolean = [0x15, 0x00, 0x11, 0x15, 0x08, 0x00];
        let back = [0x15, 0x00, 0x15, 0x02, 0x15, 0x08, 0x05, 0x04, 0x10, 0x00];
        let cut = [0x15, 0x00, 0x15, 0x02, 0x15, 0x08];
        for header in [&negative[..], &boolean, &back, &cut] {
            assert_eq!(Header::new(header).claimed(), None, "{header:x?}");
        }
    }
}
