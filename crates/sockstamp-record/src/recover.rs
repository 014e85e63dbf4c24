//! Find the end of a file that was cut off, and cut the rest.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use crate::compact::{Compact, STRUCT};
use crate::error::Error;
use crate::footer::{self, BEFORE, FOOTER, GROUPS, LONGEST, NOTE, TAIL};
use crate::lock::lock;
use crate::opening;
use crate::quiet;

/// Magic bytes that are examined, of those that may be the end of a footer or a note: a made-up
/// file may have them everywhere.
const LOOKS: usize = 1000;
/// Bytes of footers and notes that are read for a file, together.
const BUDGET: u64 = 4 * LONGEST as u64;
/// The least cost of one, however short it is.
const LEAST: u64 = 1024;
/// Values within each other: ours have 7.
const DEPTH: u32 = 10;
const STEP: u64 = 1 << 20;
/// Bytes before the end of a file in which a footer or a note is looked for. A writer that was
/// killed leaves one unfinished row group, which is shorter. A sparse file is of any length.
const REACH: u64 = 512 << 20;

/// The last footer of a file, or its notes in place of one.
#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) metadata: ParquetMetaData,
    /// The place where it, or the last note, begins.
    pub(crate) begin: u64,
    /// The place where that ends.
    pub(crate) end: u64,
    /// False for notes.
    is_whole: bool,
}

/// The length of a file, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Messages that the file has.
    pub rows: u64,
    /// Bytes that it had.
    pub before: u64,
    /// Bytes after its last note or footer, which were cut.
    pub cut: u64,
    /// Bytes that it has.
    pub after: u64,
}

/// Cut a file after its last row group, and write its footer. A file that ends with one does not
/// change.
///
/// # Errors
///
/// If it is still being recorded, has no footer, or cannot be opened, cut or written.
pub fn recover(path: &Path) -> Result<Recovered, Error> {
    let (file, before) = opening::open(path, OpenOptions::new().read(true).write(true))?;
    // The writer continues where it was, and not at the new end.
    let _lock = lock(&file, path)?;
    let footer = last_footer(&file, before, path)?;
    let cut = || file.set_len(footer.end).map_err(Error::system("cut", path));
    if footer.end < before {
        cut()?;
    }
    let mut after = footer.end;
    if !footer.is_whole {
        let bytes = encoded(&footer.metadata, path)?;
        if let Err(error) = file.write_all_at(&bytes, after) {
            // Its rows can be read as before.
            cut()?;
            return Err(Error::system("write", path)(error));
        }
        after += bytes.len() as u64;
    }
    Ok(Recovered {
        rows: footer
            .metadata
            .file_metadata()
            .num_rows()
            .max(0)
            .cast_unsigned(),
        before,
        cut: before - footer.end,
        after,
    })
}

/// Return false for a file without any footer, as one whose writer was killed before it wrote the
/// first. This is cheaper than opening it to read: a file that seems to end with a footer has one.
///
/// # Errors
///
/// If the file cannot be read.
pub fn has_footer(path: &Path) -> Result<bool, Error> {
    let metadata = path.metadata().map_err(Error::system("open", path))?;
    if !metadata.is_file() {
        // Opening it to read says what is wrong.
        return Ok(true);
    }
    let (file, length) = opening::to_read(path)?;
    if length >= (4 + TAIL) as u64 {
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, length - 4)
            .map_err(Error::system("read", path))?;
        if &magic == FOOTER || &magic == NOTE {
            return Ok(true);
        }
    }
    match last_footer(&file, length, path) {
        Ok(_) => Ok(true),
        Err(Error::NoFooter { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn encoded(metadata: &ParquetMetaData, path: &Path) -> Result<Vec<u8>, Error> {
    let groups = metadata.row_groups().to_vec();
    let encoded = quiet::attempt(|| footer::footer(metadata.file_metadata(), groups));
    encoded.and_then(Result::ok).ok_or_else(|| Error::Encoder {
        path: path.to_owned(),
        reason: "its notes make no footer".to_owned(),
    })
}

/// Search from the end.
pub(crate) fn last_footer(file: &File, length: u64, path: &Path) -> Result<Footer, Error> {
    let mut search = Search {
        file,
        path,
        left: BUDGET,
    };
    let mut looks = LOOKS;
    let mut end = length;
    // A file begins with the same bytes.
    let last = length.saturating_sub(REACH).max(4);
    while end > last && looks > 0 {
        let begin = end.saturating_sub(STEP).max(4);
        // Three bytes more, for magic bytes on the border.
        let read_to = (end + 3).min(length);
        let bytes = search.read(begin, read_to - begin)?;
        let places = bytes.windows(4).enumerate().rev();
        let ends = places.filter(|(_, bytes)| bytes == FOOTER || bytes == NOTE);
        for (place, _) in ends.take(looks) {
            looks -= 1;
            if let Some(footer) = search.footer_before(begin + place as u64 + 4)? {
                return Ok(footer);
            }
        }
        end = if begin == 4 { 0 } else { begin };
    }
    Err(Error::NoFooter {
        path: path.to_owned(),
        length,
    })
}

/// A footer or a note.
struct Piece {
    metadata: ParquetMetaData,
    begin: u64,
    /// Of a note: the end of the piece before it.
    before: Option<u64>,
}

struct Search<'a> {
    file: &'a File,
    path: &'a Path,
    /// The rest of [`BUDGET`].
    left: u64,
}

impl Search<'_> {
    /// Return the footer that ends here, or the notes down to one.
    fn footer_before(&mut self, end: u64) -> Result<Option<Footer>, Error> {
        let mut begin = None;
        let mut notes: Vec<RowGroupMetaData> = Vec::new();
        let mut at = end;
        let whole = loop {
            let Some(piece) = self.piece(at)? else {
                return Ok(None);
            };
            begin = begin.or(Some(piece.begin));
            match piece.before {
                None => break piece.metadata,
                Some(before) if before < piece.begin && notes.len() < GROUPS => at = before,
                Some(_) => return Ok(None),
            }
            notes.extend(piece.metadata.row_groups().iter().cloned());
        };
        let is_whole = notes.is_empty() && at == end;
        let metadata = match is_whole {
            true => Some(whole),
            false => joined(&whole, notes),
        };
        Ok(metadata.map(|metadata| Footer {
            metadata,
            begin: begin.unwrap_or(0),
            end,
            is_whole,
        }))
    }

    /// Decode a footer or a note that ends here.
    fn piece(&mut self, end: u64) -> Result<Option<Piece>, Error> {
        // At least the magic bytes at the begin are before it.
        let Some(room) = end.checked_sub(4 + TAIL as u64) else {
            return Ok(None);
        };
        let tail = self.read(end - TAIL as u64, TAIL as u64)?;
        let length = u64::from(number(&tail[..4]));
        let is_note = tail.ends_with(NOTE);
        let room_of_before = if is_note { BEFORE } else { 0 };
        let is_possible =
            (is_note || tail.ends_with(FOOTER)) && (1..=LONGEST.into()).contains(&length);
        let Some(begin) = room
            .checked_sub(length + room_of_before as u64)
            .filter(|_| is_possible)
        else {
            return Ok(None);
        };
        let begin = begin + 4;
        let Some(left) = self.left.checked_sub(length.max(LEAST)) else {
            return Ok(None);
        };
        self.left = left;
        let bytes = self.read(begin, length + room_of_before as u64)?;
        let (metadata, before) = bytes.split_at(bytes.len() - room_of_before);
        // The decoder takes memory for what lists claim to have.
        if Compact(metadata).skip(STRUCT, DEPTH).is_none() {
            return Ok(None);
        }
        let decoded = quiet::attempt(|| ParquetMetaDataReader::decode_metadata(metadata));
        let before = before.try_into().ok().map(u64::from_le_bytes);
        Ok(decoded.and_then(Result::ok).map(|metadata| Piece {
            metadata,
            begin,
            before,
        }))
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        // Lengths are those of STEP and LONGEST at most.
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(Error::system("read", self.path))?;
        Ok(bytes)
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

/// Add the row groups of notes, the last first, to those of a footer.
fn joined(whole: &ParquetMetaData, notes: Vec<RowGroupMetaData>) -> Option<ParquetMetaData> {
    let schema = whole.file_metadata().schema_descr();
    let are_alike = notes.iter().all(|group| group.schema_descr() == schema);
    let groups = whole
        .row_groups()
        .iter()
        .cloned()
        .chain(notes.into_iter().rev());
    are_alike.then(|| footer::describe(whole.file_metadata(), groups.collect()))
}
