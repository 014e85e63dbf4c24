//! Capabilities are for loading, attaching and cleaning up: nothing in between needs one.

use caps::CapSet;

use crate::error::{Error, Tried};
use crate::facts::Capability;

/// Keeps the capabilities of [`Capability::ALL`] out of effect in the calling thread, so that a
/// fault meanwhile reaches no further than any user's.
///
/// They remain permitted (capabilities(7)), since cleaning up needs them again; drop the guard
/// before the [`Session`](crate::Session). A program that is executed meanwhile is not affected:
/// execve(2) computes its effective set from the permitted and ambient ones.
#[derive(Debug)]
pub struct DroppedCapabilities {
    capabilities: Vec<Capability>,
}

/// Take the capabilities that are in effect out of effect.
///
/// # Errors
///
/// [`Error::Io`] if the kernel refuses, as a seccomp filter may; all are in effect again then.
pub fn drop_capabilities() -> Result<DroppedCapabilities, Error> {
    let mut dropped = DroppedCapabilities {
        capabilities: Vec::new(),
    };
    for capability in Capability::ALL {
        let step = || format!("drop {capability}");
        let held = in_effect(capability).map_err(failed).tried(step())?;
        if held {
            caps::drop(None, CapSet::Effective, known(capability))
                .map_err(failed)
                .tried(step())?;
            dropped.capabilities.push(capability);
        }
    }
    Ok(dropped)
}

/// Do work that needs the capabilities, in a thread that may have dropped them.
///
/// # Errors
///
/// Those of `work`, and of [`drop_capabilities`], if they cannot be dropped again.
pub(crate) fn with_capabilities<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let permitted = |capability: &Capability| {
        !in_effect(*capability).unwrap_or(true)
            && caps::has_cap(None, CapSet::Permitted, known(*capability)).unwrap_or(false)
    };
    let mut dropped = DroppedCapabilities {
        capabilities: Capability::ALL.into_iter().filter(permitted).collect(),
    };
    if dropped.capabilities.is_empty() {
        return work();
    }
    let result = dropped.raised(work);
    // They are the caller's to raise.
    dropped.capabilities.clear();
    result
}

impl DroppedCapabilities {
    /// Do work that needs them, with the capabilities in effect.
    ///
    /// # Errors
    ///
    /// Those of `work`, and of [`drop_capabilities`], if they cannot be dropped again.
    pub(crate) fn raised<T>(
        &mut self,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.raise();
        let result = work();
        *self = drop_capabilities()?;
        result
    }

    fn raise(&mut self) {
        for capability in self.capabilities.drain(..) {
            // Ignore the error: a permitted capability can be raised, and work that needs it
            // reports its own failure.
            let _ = caps::raise(None, CapSet::Effective, known(capability));
        }
    }
}

impl Drop for DroppedCapabilities {
    fn drop(&mut self) {
        self.raise();
    }
}

/// Return whether the calling thread has a capability in effect.
pub(crate) fn in_effect(capability: Capability) -> Result<bool, caps::errors::CapsError> {
    caps::has_cap(None, CapSet::Effective, known(capability))
}

fn failed(error: caps::errors::CapsError) -> std::io::Error {
    std::io::Error::other(error)
}

const fn known(capability: Capability) -> caps::Capability {
    match capability {
        Capability::Bpf => caps::Capability::CAP_BPF,
        Capability::Perfmon => caps::Capability::CAP_PERFMON,
        Capability::NetAdmin => caps::Capability::CAP_NET_ADMIN,
        Capability::SysAdmin => caps::Capability::CAP_SYS_ADMIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_in_effect() -> Vec<Capability> {
        let held = |capability: &Capability| in_effect(*capability).unwrap();
        Capability::ALL.into_iter().filter(held).collect()
    }

    /// Run as root; without privilege nothing is dropped, and nothing is raised either.
    #[test]
    fn dropped_capabilities_are_out_of_effect_until_the_guard_is_dropped() {
        let before = all_in_effect();
        let dropped = drop_capabilities().unwrap();
        assert_eq!(dropped.capabilities, before);
        assert_eq!(all_in_effect(), []);
        drop(dropped);
        assert_eq!(all_in_effect(), before);
    }

    #[test]
    fn names_are_those_of_the_system() {
        for capability in Capability::ALL {
            assert_eq!(known(capability).to_string(), capability.name());
        }
    }
}
