//! Ask the kernel's types for its features.

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::facts::Tracepoint;
use crate::kernel::excerpt::keep_excerpt;
use crate::kernel::{KERNEL, Kind, Type, Types};

/// The types of the running kernel. Where they cannot be read, no question about them has an
/// answer.
pub(super) struct KernelTypes<'a> {
    known: Option<Known<'a>>,
}

struct Known<'a> {
    types: Types<'a>,
    /// The first type of each kind and name that questions are about.
    named: FxHashMap<(Kind, &'a [u8]), u32>,
    enumerations: Vec<u32>,
}

impl<'a> KernelTypes<'a> {
    pub(super) fn of(bytes: Option<&'a [u8]>) -> Self {
        let types = bytes.and_then(Types::parse);
        if let Some(types) = &types {
            keep_excerpt(types);
        }
        Self {
            known: types.map(Known::of),
        }
    }

    /// Return `None` where there are types that cannot be read.
    pub(super) fn readable(&self) -> Option<bool> {
        match &self.known {
            Some(_) => Some(true),
            None => Path::new(KERNEL).try_exists().ok().filter(|exists| !exists),
        }
    }

    /// Every tracepoint leaves a typedef of its handlers' type (include/trace/bpf_probe.h).
    pub(super) fn have_tracepoint(&self, tracepoint: Tracepoint) -> Option<bool> {
        Some(self.known.as_ref()?.handler(tracepoint).is_some())
    }

    pub(super) fn have_function(&self, name: &str) -> Option<bool> {
        Some(self.known.as_ref()?.named(Kind::FUNC, name).is_some())
    }

    /// Return whether handlers of a tracepoint get an argument at this index.
    pub(super) fn have_argument(&self, tracepoint: Tracepoint, index: usize) -> Option<bool> {
        let known = self.known.as_ref()?;
        let prototype = known
            .handler(tracepoint)
            .and_then(|handler| known.types.get(handler.word))
            .and_then(|pointer| known.types.get(pointer.word))
            .filter(|prototype| prototype.kind == Kind::FUNC_PROTO);
        // Before its own, each handler gets the data it was registered with.
        Some(prototype.is_some_and(|prototype| prototype.count > index + 1))
    }

    /// Return whether a structure has a field of one of these names.
    pub(super) fn have_field(&self, structure: &str, names: &[&str]) -> Option<bool> {
        let known = self.known.as_ref()?;
        let structure = known.named(Kind::STRUCT, structure);
        let found = structure.is_some_and(|structure| {
            names
                .iter()
                .any(|name| has_member(&known.types, structure, name))
        });
        Some(found)
    }

    /// Return the value of a constant of the kernel's enumerations, which need not have names
    /// themselves.
    pub(super) fn enumerator(&self, name: &str) -> Option<u32> {
        let known = self.known.as_ref()?;
        let enumerations = known.enumerations.iter();
        let mut enumerators = enumerations
            .filter_map(|id| known.types.get(*id))
            .flat_map(|enumeration| known.types.parts(enumeration));
        let found = enumerators.find(|enumerator| enumerator.name == name.as_bytes());
        found.map(|enumerator| enumerator.word)
    }
}

impl<'a> Known<'a> {
    fn of(types: Types<'a>) -> Self {
        let mut named = FxHashMap::default();
        let mut enumerations = Vec::new();
        for (id, of) in types.iter() {
            match of.kind {
                Kind::FUNC | Kind::STRUCT | Kind::TYPEDEF => {
                    named.entry((of.kind, types.name(of))).or_insert(id);
                }
                Kind::ENUM => enumerations.push(id),
                _ => {}
            }
        }
        Self {
            types,
            named,
            enumerations,
        }
    }

    fn named(&self, kind: Kind, name: &str) -> Option<Type<'a>> {
        let id = self.named.get(&(kind, name.as_bytes()))?;
        self.types.get(*id)
    }

    fn handler(&self, tracepoint: Tracepoint) -> Option<Type<'a>> {
        let name = format!("btf_trace_{}", tracepoint.name());
        self.named(Kind::TYPEDEF, &name)
    }
}

/// Look into anonymous members too: `tstamp_type` is in one.
fn has_member(types: &Types<'_>, structure: Type<'_>, field: &str) -> bool {
    types.parts(structure).any(|member| {
        if member.name.is_empty() {
            types
                .get(member.word)
                .is_some_and(|inner| has_member(types, inner, field))
        } else {
            member.name == field.as_bytes()
        }
    })
}
