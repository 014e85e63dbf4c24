//! The archive that the kernel unpacks as its first root: "newc" of
//! Documentation/driver-api/early-userspace/buffer-format.rst.

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;
const FILE: u32 = 0o100_000;

/// Write entries in sequence; a folder comes before its content.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    inner: W,
    entries: u32,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(inner: W) -> Self {
        Writer { inner, entries: 0 }
    }

    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY | 0o755, &[])
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, SYMLINK | 0o777, target.as_bytes())
    }

    /// Add a file with the permission bits of `mode`.
    pub(crate) fn file(&mut self, path: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        self.entry(path, FILE | (mode & 0o7777), contents)
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.inner.flush()
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        let size = u32::try_from(contents.len())
            .map_err(|_| io::Error::other("a file of more than 4 GiB"))?;
        let name_size = u32::try_from(path.len() + 1)
            .map_err(|_| io::Error::other("a path of more than 4 GiB"))?;
        self.entries += 1;
        // inode, mode, user, group, links, time, size, 4 × device, size of the name, no checksum
        let header = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        let mut head = b"070701".to_vec();
        for field in header {
            write!(head, "{field:08x}")?;
        }
        head.extend_from_slice(path.as_bytes());
        head.push(0);
        self.padded(&head)?;
        self.padded(contents)
    }

    /// Pad to a multiple of four bytes.
    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.inner
            .write_all(&[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four() {
        let mut archive = Vec::new();
        let mut writer = Writer::new(&mut archive);
        writer.directory("a").unwrap();
        writer.file("a/b", 0o755, b"hello").unwrap();
        writer.symlink("c", "a/b").unwrap();
        writer.finish().unwrap();
        let starts: Vec<usize> = archive
            .windows(6)
            .enumerate()
            .filter_map(|(at, bytes)| (bytes == b"070701").then_some(at))
            .collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.iter().all(|start| start % 4 == 0), "{starts:?}");
        let file = &archive[starts[1]..starts[2]];
        assert_eq!(&file[14..22], b"000081ed");
        assert_eq!(&file[54..62], b"00000005");
        assert!(file[110..].starts_with(b"a/b\0"));
    }
}
