//! File systems that this process sees: `/proc/self/mounts` (proc_pid_mounts(5)).
//!
//! The reader of the crate procfs refuses the whole file for one name that is not UTF-8, and users
//! choose names of their own mounts (fusermount3(1)).

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A mounted file system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) path: PathBuf,
    /// The name of the file system, as it is written.
    kind: Vec<u8>,
    options: Vec<u8>,
}

impl Mount {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind.as_bytes()
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        let mut options = self.options.split(|byte| *byte == b',');
        options.any(|found| found == option.as_bytes())
    }
}

/// Read them in their order; none where that is impossible.
pub(crate) fn mounts() -> Vec<Mount> {
    parse(&fs::read("/proc/self/mounts").unwrap_or_default())
}

pub(crate) fn parse(text: &[u8]) -> Vec<Mount> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(1);
    let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Mount {
        path: OsString::from_vec(unescaped(path)).into(),
        kind: kind.to_owned(),
        options: options.to_owned(),
    })
}

/// Replace three octal digits after a backslash, as the kernel writes white space, `#` and the
/// backslash itself (`mangle()`, fs/proc_namespace.c, v6.18).
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let escaped = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(escaped.unwrap_or(*first));
        rest = match escaped {
            Some(_) => &after[3..],
            None => after,
        };
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn all_characters_that_the_kernel_escapes_are_read() {
        let text = br"x /a\040b\011c\012d\134e\043f tmpfs rw,size=1 0 0";
        let [mount] = &parse(text)[..] else {
            panic!("one line is one mount");
        };
        assert_eq!(mount.path, Path::new("/a b\tc\nd\\e#f"));
        assert!(mount.is("tmpfs") && mount.has("size=1") && !mount.has("size"));
    }

    #[test]
    fn what_no_kernel_writes_is_left_as_it_is() {
        for field in [&br"/a\04"[..], br"/a\09x", br"/\", br"/\777"] {
            assert_eq!(unescaped(field), field);
        }
        assert_eq!(parse(b"one two\n\n"), []);
    }
}
