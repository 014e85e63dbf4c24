//! Find the end of a file that was cut off, and cut the rest.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::error::Error;
use crate::quiet;

const MAGIC: &[u8; 4] = b"PAR1";
/// Magic bytes that are examined, of those that may be the end of a footer: one made up may have
/// them everywhere.
const LOOKS: usize = 1000;
/// The longest footer that is read: one of 20,000 row groups.
const LONGEST: u32 = 64 << 20;
const STEP: u64 = 1 << 20;

/// The last footer of a file.
#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) metadata: ParquetMetaData,
    /// The place where it begins.
    pub(crate) begin: u64,
    /// The place where it ends.
    pub(crate) end: u64,
}

/// The length of a file, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Messages that the file has.
    pub rows: u64,
    /// Bytes that it had.
    pub before: u64,
    /// Bytes that it has.
    pub after: u64,
}

/// Cut a file after its last footer. A file that ends there does not change.
///
/// # Errors
///
/// If it has no footer, or cannot be opened or cut.
pub fn recover(path: &Path) -> Result<Recovered, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(Error::system("open", path))?;
    let before = file.metadata().map_err(Error::system("open", path))?.len();
    let footer = last_footer(&file, before, path)?;
    if footer.end < before {
        file.set_len(footer.end).map_err(Error::system("cut", path))?;
    }
    Ok(Recovered {
        rows: footer.metadata.file_metadata().num_rows().max(0).cast_unsigned(),
        before,
        after: footer.end,
    })
}

/// Search from the end.
pub(crate) fn last_footer(file: &File, length: u64, path: &Path) -> Result<Footer, Error> {
    let mut looks = LOOKS;
    let mut end = length;
    // A file begins with the same bytes.
    while end > 4 {
        let begin = end.saturating_sub(STEP).max(4);
        // Three bytes more, for magic bytes on the border.
        let read_to = (end + 3).min(length);
        let bytes = read(file, begin, read_to - begin, path)?;
        let places = bytes.windows(4).enumerate().rev();
        for (place, _) in places.filter(|(_, bytes)| *bytes == MAGIC) {
            if let Some(footer) = footer_before(file, begin + place as u64 + 4, path)? {
                return Ok(footer);
            }
            looks -= 1;
            if looks == 0 {
                break;
            }
        }
        if looks == 0 {
            break;
        }
        end = begin;
        if end == 4 {
            break;
        }
    }
    Err(Error::NoFooter {
        path: path.to_owned(),
        length,
    })
}

fn footer_before(file: &File, end: u64, path: &Path) -> Result<Option<Footer>, Error> {
    // The magic bytes at the begin, and the length and those at the end.
    let Some(room) = end.checked_sub(4 + 8) else {
        return Ok(None);
    };
    let tail = read(file, end - 8, 4, path)?;
    let length = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    if u64::from(length) > room || length > LONGEST || length == 0 {
        return Ok(None);
    }
    let begin = end - 8 - u64::from(length);
    let bytes = read(file, begin, length.into(), path)?;
    let decoded = quiet::attempt(|| ParquetMetaDataReader::decode_metadata(&bytes));
    Ok(match decoded {
        Some(Ok(metadata)) => Some(Footer { metadata, begin, end }),
        _ => None,
    })
}

fn read(file: &File, offset: u64, length: u64, path: &Path) -> Result<Vec<u8>, Error> {
    // Lengths are those of STEP and LONGEST at most.
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, offset)
        .map_err(Error::system("read", path))?;
    Ok(bytes)
}
