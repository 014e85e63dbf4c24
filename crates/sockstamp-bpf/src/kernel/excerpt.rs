//! Copy the types that our programs know out of the kernel's. For each structure that programs
//! read, libbpf compares the names of all types of the kernel (`bpf_core_add_cands()`, v1.7): some
//! fifty times a hundred thousand. Here they are compared once.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use nix::sys::memfd::{MFdFlags, memfd_create};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{HEADER_BYTES, Kind, MAGIC, Part, Type, Types, of_kernel, word};

/// The declarations of the kernel's types that our programs are compiled with.
const DECLARATIONS: &str = include_str!("vmlinux.h");

/// An enumeration of our own: the kernel's number of each structure, 0 of one that it does not
/// have. The numbers in an excerpt are others (`kernel.bpf.h`).
const NUMBERS: &str = "kernel_type";

/// The excerpt, for as long as this process lives; `None` where the kernel's types cannot be read.
static EXCERPT: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// Make the excerpt while the kernel's types are at hand.
pub(crate) fn keep_excerpt(types: &Types<'_>) {
    EXCERPT.get_or_init(|| stored_excerpt(types));
}

/// Return the path of the excerpt; `None` where the kernel's types cannot be read, and libbpf will
/// say why.
pub(crate) fn excerpt_path() -> Option<CString> {
    let read = || stored_excerpt(&Types::parse(&of_kernel().ok()?)?);
    let file = EXCERPT.get_or_init(read).as_ref()?;
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Return the names and values of an enumeration that the declarations have, as the kernel has it.
pub(crate) fn values_of(enumeration: &str) -> Vec<(String, u32)> {
    let kept = || fs::read(OsStr::from_bytes(excerpt_path()?.as_bytes())).ok();
    kept().map_or_else(
        || values_of_kernel(enumeration),
        |bytes| values_in(&bytes, enumeration),
    )
}

/// Do the same from all of the kernel's types, if there was no memory for the excerpt.
fn values_of_kernel(enumeration: &str) -> Vec<(String, u32)> {
    let bytes = of_kernel().unwrap_or_default();
    values_in(&bytes, enumeration)
}

fn values_in(bytes: &[u8], enumeration: &str) -> Vec<(String, u32)> {
    let types = Types::parse(bytes);
    types.map_or_else(Vec::new, |types| enumerated(&types, enumeration))
}

fn enumerated(types: &Types<'_>, enumeration: &str) -> Vec<(String, u32)> {
    let is_it = |of: &Type<'_>| of.kind == Kind::ENUM && types.name(*of) == enumeration.as_bytes();
    let found = types.iter().map(|(_, of)| of).find(is_it);
    let parts = found.into_iter().flat_map(|of| types.parts(of));
    let named = |part: Part<'_>| (String::from_utf8_lossy(part.name).into_owned(), part.word);
    parts.map(named).collect()
}

fn stored_excerpt(types: &Types<'_>) -> Option<OwnedFd> {
    let [structures, enumerations] = ["struct ", "enum "].map(|of| declared(DECLARATIONS, of));
    store(&Excerpt::of(types, &structures, &enumerations)?).ok()
}

fn store(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"kernel-types", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Return the types of a kind that a header declares, without what is behind `___` in a name:
/// libbpf ignores that, too.
fn declared<'a>(header: &'a str, kind: &str) -> FxHashSet<&'a str> {
    let types = header.lines().filter_map(|line| {
        let name = line.strip_prefix(kind)?.strip_suffix(" {")?;
        name.split("___").next()
    });
    types.collect()
}

/// Types on their way into a description of their own.
struct Excerpt<'a> {
    of: &'a Types<'a>,
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
    /// The new number of each type that was copied.
    copied: FxHashMap<u32, u32>,
    pointer: Option<u32>,
}

impl<'a> Excerpt<'a> {
    fn empty(of: &'a Types<'a>) -> Self {
        Self {
            of,
            types: Vec::new(),
            strings: vec![0],
            count: 0,
            copied: FxHashMap::default(),
            pointer: None,
        }
    }

    fn of(
        types: &'a Types<'a>,
        structures: &FxHashSet<&str>,
        enumerations: &FxHashSet<&str>,
    ) -> Option<Vec<u8>> {
        let mut excerpt = Self::empty(types);
        let is_wanted = |name: &[u8]| enumerations.iter().any(|of| of.as_bytes() == name);
        for (_, of) in types.iter().filter(|(_, of)| of.kind == Kind::ENUM) {
            if is_wanted(types.name(of)) {
                excerpt.copy_enumeration(of)?;
            }
        }
        let names = structures.iter().map(|name| (name.as_bytes(), 0));
        let mut numbers: FxHashMap<_, _> = names.collect();
        for (id, structure) in types.iter().filter(|(_, of)| of.kind == Kind::STRUCT) {
            if let Some(number) = numbers.get_mut(types.name(structure)) {
                *number = id;
                excerpt.copy(id)?;
            }
        }
        excerpt.add_numbers(&numbers)?;
        excerpt.finish()
    }

    /// Copy a type and those that it contains, but not those that it points to: programs reach
    /// these by themselves. Return its new number.
    fn copy(&mut self, id: u32) -> Option<u32> {
        if id == 0 {
            return Some(0);
        }
        if let Some(copy) = self.copied.get(&id) {
            return Some(*copy);
        }
        let of = self.of.get(id)?;
        let copy = match of.kind {
            Kind::TYPEDEF | Kind::VOLATILE | Kind::CONST | Kind::RESTRICT | Kind::TYPE_TAG => {
                self.copy(of.word)?
            }
            Kind::PTR => self.pointer()?,
            Kind::STRUCT | Kind::UNION => self.copy_structure(of)?,
            Kind::ARRAY => self.copy_array(of)?,
            // Only their size matters.
            Kind::ENUM | Kind::ENUM64 => {
                self.add(self.of.name(of), of.info & !0xffff, of.word, &[])?
            }
            Kind::INT | Kind::FWD | Kind::FLOAT => {
                self.add(self.of.name(of), of.info, of.word, of.rest)?
            }
            // Nothing contains others.
            _ => return None,
        };
        self.copied.insert(id, copy);
        Some(copy)
    }

    /// Add a pointer to anything.
    fn pointer(&mut self) -> Option<u32> {
        if self.pointer.is_none() {
            self.pointer = self.add(&[], Kind::PTR.0 << 24, 0, &[]);
        }
        self.pointer
    }

    fn copy_structure(&mut self, of: Type<'a>) -> Option<u32> {
        let mut members = Vec::with_capacity(of.rest.len());
        for member in self.of.parts(of) {
            let kind = self.copy(member.word)?;
            let name = self.string(member.name)?;
            members.extend(
                [name, kind, member.place]
                    .map(u32::to_ne_bytes)
                    .as_flattened(),
            );
        }
        self.add(self.of.name(of), of.info, of.word, &members)
    }

    /// Copy an enumeration, with its values: programs compare them.
    fn copy_enumeration(&mut self, of: Type<'a>) -> Option<u32> {
        let mut enumerators = Vec::with_capacity(of.rest.len());
        for one in self.of.parts(of) {
            let name = self.string(one.name)?;
            enumerators.extend([name, one.word].map(u32::to_ne_bytes).as_flattened());
        }
        self.add(self.of.name(of), of.info, of.word, &enumerators)
    }

    fn copy_array(&mut self, of: Type<'a>) -> Option<u32> {
        let element = self.copy(word(of.rest, 0)?)?;
        let index = self.copy(word(of.rest, 4)?)?;
        let rest = [element, index, word(of.rest, 8)?].map(u32::to_ne_bytes);
        self.add(self.of.name(of), of.info, of.word, rest.as_flattened())
    }

    fn add_numbers(&mut self, numbers: &FxHashMap<&[u8], u32>) -> Option<u32> {
        let mut enumerators = Vec::new();
        for (name, number) in numbers {
            let name = self.string(name)?;
            enumerators.extend([name, *number].map(u32::to_ne_bytes).as_flattened());
        }
        let info = Kind::ENUM.0 << 24 | u32::try_from(numbers.len()).ok()?;
        self.add(NUMBERS.as_bytes(), info, 4, &enumerators)
    }

    fn add(&mut self, name: &[u8], info: u32, word: u32, rest: &[u8]) -> Option<u32> {
        let name = self.string(name)?;
        let header = [name, info, word].map(u32::to_ne_bytes);
        self.types.extend(header.as_flattened());
        self.types.extend(rest);
        self.count += 1;
        Some(self.count)
    }

    fn string(&mut self, string: &[u8]) -> Option<u32> {
        if string.is_empty() {
            return Some(0);
        }
        let at = self.strings.len();
        self.strings.extend(string);
        self.strings.push(0);
        u32::try_from(at).ok()
    }

    fn finish(self) -> Option<Vec<u8>> {
        let [types, strings] = [&self.types, &self.strings].map(|of| u32::try_from(of.len()).ok());
        let (types, strings) = (types?, strings?);
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        let (version, flags) = (1, 0);
        bytes.extend([version, flags]);
        let sections = [HEADER_BYTES, 0, types, types, strings];
        bytes.extend(sections.map(u32::to_ne_bytes).as_flattened());
        bytes.extend(self.types);
        bytes.extend(self.strings);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_without_an_excerpt() {
        let values = values_of_kernel("skb_drop_reason");
        assert!(values.len() > 50, "{values:?}");
        assert_eq!(values_of("skb_drop_reason"), values);
    }

    /// Return the types of a kernel as bytes: a structure with an array of flags between other
    /// things, one that it points to, one that nobody asks for, and an enumeration.
    fn kernel() -> Vec<u8> {
        let none = Types {
            bytes: &[],
            strings: 0..0,
            starts: Vec::new(),
        };
        let mut kernel = Excerpt::empty(&none);
        let member = |kernel: &mut Excerpt<'_>, name: &[u8], kind, place: u32| {
            let name = kernel.string(name).unwrap();
            [name, kind, place].map(u32::to_ne_bytes).concat()
        };
        let structure = Kind::STRUCT.0 << 24;
        kernel.add(b"other", structure, 0, &[]);
        let dropped = kernel.string(b"dropped").unwrap();
        let dropped = [dropped, 12].map(u32::to_ne_bytes).concat();
        kernel.add(b"reason", Kind::ENUM.0 << 24 | 1, 4, &dropped);
        let int = kernel.add(b"int", Kind::INT.0 << 24, 4, &32_u32.to_ne_bytes());
        let int = int.unwrap();
        let constant = kernel.add(&[], Kind::CONST.0 << 24, int, &[]).unwrap();
        let array = [constant, int, 3].map(u32::to_ne_bytes).concat();
        let array = kernel.add(&[], Kind::ARRAY.0 << 24, 0, &array).unwrap();
        let far = member(&mut kernel, b"inside", int, 0);
        let far = kernel.add(b"far", structure | 1, 4, &far).unwrap();
        let to_far = kernel.add(&[], Kind::PTR.0 << 24, far, &[]).unwrap();
        let mut members = member(&mut kernel, b"flags", array, 0);
        members.extend(member(&mut kernel, b"next", to_far, 96));
        kernel.add(b"near", structure | 2, 24, &members);
        kernel.finish().unwrap()
    }

    #[test]
    fn an_excerpt_has_the_types_that_were_asked_for_and_what_they_contain() {
        let kernel = kernel();
        let kernel = Types::parse(&kernel).unwrap();
        let names = FxHashSet::from_iter(["near", "absent"]);
        let reasons = FxHashSet::from_iter(["reason"]);
        let excerpt = Excerpt::of(&kernel, &names, &reasons).unwrap();
        let excerpt = Types::parse(&excerpt).unwrap();
        let named = |name: &[u8]| excerpt.iter().find(|(_, of)| excerpt.name(*of) == name);
        let (_, near) = named(b"near").unwrap();
        assert_eq!((near.word, near.count), (24, 2));
        let members: Vec<_> = excerpt.parts(near).collect();
        assert_eq!(members[0].name, b"flags");
        assert_eq!((members[1].name, members[1].place), (&b"next"[..], 96));
        let kinds = members.iter().map(|member| excerpt.get(member.word));
        let [array, pointer] = kinds.collect::<Option<Vec<_>>>().unwrap()[..] else {
            panic!("{members:?}");
        };
        assert_eq!((array.kind, pointer.kind), (Kind::ARRAY, Kind::PTR));
        assert_eq!(word(array.rest, 8), Some(3));
        let element = excerpt.get(word(array.rest, 0).unwrap()).unwrap();
        assert_eq!(
            (excerpt.name(element), element.kind),
            (&b"int"[..], Kind::INT)
        );
        assert_eq!(pointer.word, 0);
        assert!(named(b"far").is_none() && named(b"other").is_none());
        let (_, reason) = named(b"reason").unwrap();
        let values: Vec<_> = excerpt.parts(reason).collect();
        assert_eq!((values[0].name, values[0].word), (&b"dropped"[..], 12));
    }

    #[test]
    fn an_excerpt_has_the_kernels_numbers_of_its_types() {
        let kernel = kernel();
        let kernel = Types::parse(&kernel).unwrap();
        let (number, _) = kernel
            .iter()
            .find(|(_, of)| kernel.name(*of) == b"near")
            .unwrap();
        let names = FxHashSet::from_iter(["near", "absent"]);
        let excerpt = Excerpt::of(&kernel, &names, &FxHashSet::default()).unwrap();
        let excerpt = Types::parse(&excerpt).unwrap();
        let (_, numbers) = excerpt
            .iter()
            .find(|(_, of)| of.kind == Kind::ENUM)
            .unwrap();
        assert_eq!(excerpt.name(numbers), NUMBERS.as_bytes());
        let mut numbers: Vec<_> = excerpt
            .parts(numbers)
            .map(|part| (part.name, part.word))
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [(&b"absent"[..], 0), (&b"near"[..], number)]);
    }

    #[test]
    fn types_are_found_in_the_declarations_without_their_versions() {
        let header = "struct a;\nstruct b {\n\tstruct c {\n};\nstruct b___old {\n};\nenum {\n};\nenum d {\n};";
        assert_eq!(declared(header, "struct "), FxHashSet::from_iter(["b"]));
        assert_eq!(declared(header, "enum "), FxHashSet::from_iter(["d"]));
        let ours = declared(DECLARATIONS, "struct ");
        assert!(ours.contains("sk_buff") && ours.contains("tcp_sock"));
    }
}
