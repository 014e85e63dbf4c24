//! Ask the kernel's BTF for its features.

use std::cell::OnceCell;
use std::path::Path;

use libbpf_rs::btf::types::{Composite, Enum, Func, FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType, ReferencesType, TypeId};

use crate::facts::Tracepoint;
use crate::object::quiet_libbpf;

const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// The types of the running kernel. Where they cannot be read, no question about them has an
/// answer.
pub(super) struct KernelTypes {
    btf: Option<Btf<'static>>,
    enumerations: OnceCell<Vec<TypeId>>,
}

impl KernelTypes {
    pub(super) fn read() -> Self {
        // libbpf complains to standard error where there is no BTF: we say it ourselves, in one
        // line.
        quiet_libbpf();
        Self {
            btf: Btf::from_vmlinux().ok(),
            enumerations: OnceCell::new(),
        }
    }

    /// Return `None` where there are types that cannot be read.
    pub(super) fn readable(&self) -> Option<bool> {
        match &self.btf {
            Some(_) => Some(true),
            None => Path::new(KERNEL_BTF)
                .try_exists()
                .ok()
                .filter(|exists| !exists),
        }
    }

    /// Every tracepoint leaves a typedef of its handlers' type (include/trace/bpf_probe.h).
    pub(super) fn have_tracepoint(&self, tracepoint: Tracepoint) -> Option<bool> {
        let btf = self.btf.as_ref()?;
        Some(handler(btf, tracepoint).is_some())
    }

    pub(super) fn have_function(&self, name: &str) -> Option<bool> {
        let btf = self.btf.as_ref()?;
        Some(btf.type_by_name::<Func<'_>>(name).is_some())
    }

    /// Return whether handlers of a tracepoint get an argument at this index.
    pub(super) fn have_argument(&self, tracepoint: Tracepoint, index: usize) -> Option<bool> {
        let btf = self.btf.as_ref()?;
        let prototype = handler(btf, tracepoint)
            .and_then(|handler| btf.type_by_id::<Ptr<'_>>(handler.referenced_type_id()))
            .and_then(|pointer| btf.type_by_id::<FuncProto<'_>>(pointer.referenced_type_id()));
        // Before its own, each handler gets the data it was registered with.
        Some(prototype.is_some_and(|prototype| prototype.len() > index + 1))
    }

    /// Return whether a structure has a field of one of these names.
    pub(super) fn have_field(&self, structure: &str, names: &[&str]) -> Option<bool> {
        let btf = self.btf.as_ref()?;
        let structure = btf.type_by_name::<Struct<'_>>(structure);
        let found = structure
            .and_then(|structure| btf.type_by_id::<Composite<'_>>(BtfType::type_id(&structure)))
            .is_some_and(|structure| names.iter().any(|name| has_member(btf, &structure, name)));
        Some(found)
    }

    /// Return the value of a constant of the kernel's enumerations, which need not have names
    /// themselves.
    pub(super) fn enumerator(&self, name: &str) -> Option<u32> {
        let btf = self.btf.as_ref()?;
        // One in fifty types is one: look for them once.
        let ids = self.enumerations.get_or_init(|| enumerations(btf));
        let mut enumerations = ids.iter().filter_map(|id| btf.type_by_id::<Enum<'_>>(*id));
        let value = enumerations.find_map(|enumeration| {
            let member = enumeration
                .iter()
                .find(|member| member.name.is_some_and(|of| of == name));
            member.map(|member| member.value)
        });
        u32::try_from(value?).ok()
    }
}

fn enumerations(btf: &Btf<'_>) -> Vec<TypeId> {
    let ids = (1..u32::try_from(btf.len()).unwrap_or_default()).map(TypeId::from);
    ids.filter(|id| btf.type_by_id::<Enum<'_>>(*id).is_some())
        .collect()
}

fn handler<'btf>(btf: &'btf Btf<'_>, tracepoint: Tracepoint) -> Option<Typedef<'btf>> {
    btf.type_by_name(&format!("btf_trace_{}", tracepoint.name()))
}

/// Look into anonymous members too: `tstamp_type` is in one.
fn has_member(btf: &Btf<'_>, structure: &Composite<'_>, field: &str) -> bool {
    structure.iter().any(|member| match member.name {
        Some(name) => name == field,
        None => btf
            .type_by_id::<Composite<'_>>(member.ty)
            .is_some_and(|inner| has_member(btf, &inner, field)),
    })
}
