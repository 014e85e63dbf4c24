//! Read the kernel's descriptions of its types (BTF; Documentation/bpf/btf.rst, v6.18), each once.

pub(crate) mod excerpt;

use std::ffi::CStr;
use std::fs;
use std::io;
use std::ops::Range;

/// The types of the running kernel.
pub(crate) const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// The kind of a type, by its number (include/uapi/linux/btf.h, v6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind(u32);

impl Kind {
    pub(crate) const INT: Self = Self(1);
    pub(crate) const PTR: Self = Self(2);
    pub(crate) const ARRAY: Self = Self(3);
    pub(crate) const STRUCT: Self = Self(4);
    pub(crate) const UNION: Self = Self(5);
    pub(crate) const ENUM: Self = Self(6);
    pub(crate) const FWD: Self = Self(7);
    pub(crate) const TYPEDEF: Self = Self(8);
    pub(crate) const VOLATILE: Self = Self(9);
    pub(crate) const CONST: Self = Self(10);
    pub(crate) const RESTRICT: Self = Self(11);
    pub(crate) const FUNC: Self = Self(12);
    pub(crate) const FUNC_PROTO: Self = Self(13);
    const VAR: Self = Self(14);
    const DATASEC: Self = Self(15);
    pub(crate) const FLOAT: Self = Self(16);
    const DECL_TAG: Self = Self(17);
    pub(crate) const TYPE_TAG: Self = Self(18);
    pub(crate) const ENUM64: Self = Self(19);
    const LAST: Self = Self::ENUM64;

    /// Return the bytes behind the header of a type that lists this many things; `None` where the
    /// kind is not known.
    fn bytes_behind(self, count: usize) -> Option<usize> {
        let each = match self {
            Self::STRUCT | Self::UNION | Self::DATASEC | Self::ENUM64 => 12,
            Self::ENUM | Self::FUNC_PROTO => 8,
            _ => 0,
        };
        let fixed = match self {
            Self::INT | Self::VAR | Self::DECL_TAG => 4,
            Self::ARRAY => 12,
            _ => 0,
        };
        (1..=Self::LAST.0)
            .contains(&self.0)
            .then_some(fixed + each * count)
    }
}

/// A type, still as bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type<'a> {
    pub(crate) kind: Kind,
    /// Where its name is: most are not asked for.
    name: u32,
    /// How many members, enumerators or arguments it has.
    pub(crate) count: usize,
    /// Its size, or, of kinds without one, the type that it is made of.
    pub(crate) word: u32,
    /// The word of its header with kind, count and flag.
    info: u32,
    /// What is behind the header.
    rest: &'a [u8],
}

/// A member of a structure, an enumerator, or an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) name: &'a [u8],
    /// Its type; of an enumerator its value, or the lower half of that.
    pub(crate) word: u32,
    /// Where a member lies.
    place: u32,
}

/// Descriptions of types.
pub(crate) struct Types<'a> {
    bytes: &'a [u8],
    strings: Range<usize>,
    /// Where each begins; the first, `void`, has no description.
    starts: Vec<u32>,
}

/// Read those of the running kernel.
pub(crate) fn of_kernel() -> io::Result<Vec<u8>> {
    fs::read(KERNEL)
}

impl<'a> Types<'a> {
    /// Find where each description begins; `None` if these bytes are none.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let magic = bytes.get(..2)?.try_into().ok()?;
        if u16::from_ne_bytes(magic) != MAGIC {
            return None;
        }
        let header = word(bytes, 4)?;
        let section = |at| {
            let start = header.checked_add(word(bytes, at)?)?;
            let end = start.checked_add(word(bytes, at + 4)?)?;
            Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        };
        let (types, strings) = (section(8)?, section(16)?);
        if types.end > bytes.len() || strings.end > bytes.len() {
            return None;
        }
        let mut starts = vec![0];
        let mut at = types.start;
        while at < types.end {
            starts.push(u32::try_from(at).ok()?);
            let (kind, count) = kind_and_count(word(bytes, at + 4)?);
            at += TYPE_HEADER + kind.bytes_behind(count)?;
        }
        (at == types.end).then_some(Self {
            bytes,
            strings,
            starts,
        })
    }

    /// Iterate over all types, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Type<'a>)> {
        (1..).map_while(|id| Some((id, self.get(id)?)))
    }

    /// Return a type by its number.
    pub(crate) fn get(&self, id: u32) -> Option<Type<'a>> {
        let at = *self.starts.get(usize::try_from(id).ok()?)?;
        let at = usize::try_from(at).ok().filter(|at| *at > 0)?;
        let info = word(self.bytes, at + 4)?;
        let (kind, count) = kind_and_count(info);
        let rest = at + TYPE_HEADER;
        Some(Type {
            kind,
            name: word(self.bytes, at)?,
            count,
            word: word(self.bytes, at + 8)?,
            info,
            rest: self.bytes.get(rest..rest + kind.bytes_behind(count)?)?,
        })
    }

    /// Return the name of a type; nothing if it has none.
    pub(crate) fn name(&self, of: Type<'a>) -> &'a [u8] {
        self.string(of.name)
    }

    /// Iterate over the members, enumerators or arguments of a type.
    pub(crate) fn parts(&self, of: Type<'a>) -> impl Iterator<Item = Part<'a>> {
        let each = of.rest.len() / of.count.max(1);
        of.rest.chunks_exact(each.max(1)).filter_map(|part| {
            Some(Part {
                name: self.string(word(part, 0)?),
                word: word(part, 4)?,
                place: word(part, 8).unwrap_or_default(),
            })
        })
    }

    fn string(&self, offset: u32) -> &'a [u8] {
        let strings = &self.bytes[self.strings.clone()];
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| strings.get(at..));
        let string = rest.and_then(|rest| CStr::from_bytes_until_nul(rest).ok());
        string.map_or(&[], CStr::to_bytes)
    }
}

const MAGIC: u16 = 0xeb9f;

/// Bytes of the header of everything.
const HEADER_BYTES: u32 = 24;

/// Bytes of the header of a type.
const TYPE_HEADER: usize = 12;

fn kind_and_count(info: u32) -> (Kind, usize) {
    (Kind(info >> 24 & 0x1f), (info & 0xffff) as usize)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(word))
}
