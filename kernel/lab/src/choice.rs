//! The kernel that a user chooses by its name.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};

use crate::arch::Arch;
use crate::debian;
use crate::kernel::Kernel;
use crate::release::DebianKernel;
use crate::series::{self, Variant};

/// The requested kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The newest that Debian has of a release.
    Debian(DebianKernel),
    /// Built here from `kernel/series`.
    Built(Variant),
    /// An image that was built elsewhere, with all that a guest needs built in.
    Image(PathBuf),
}

impl Choice {
    /// Return those that need no build.
    pub(crate) fn all_of_debian(arch: Arch) -> Vec<Choice> {
        let all = DebianKernel::ALL.into_iter();
        let all = all.filter(|release| release.is_for(arch));
        all.map(Choice::Debian).collect()
    }

    pub(crate) fn is_built(&self) -> bool {
        matches!(self, Choice::Built(_))
    }

    /// Gets or builds it, unless the cache has it.
    pub(crate) fn get(&self, arch: Arch) -> Result<Kernel> {
        match self {
            Choice::Debian(release) => debian::get(*release, arch),
            Choice::Built(variant) => {
                ensure!(
                    arch == Arch::Amd64,
                    "kernel/series is built for amd64 alone"
                );
                series::kernel(*variant)
            }
            Choice::Image(image) => Ok(Kernel {
                name: "image".into(),
                arch,
                image: image.clone(),
                modules: None,
                nic: None,
                igb: None,
            }),
        }
    }
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Choice> {
        if name.contains('/') {
            return Ok(Choice::Image(name.into()));
        }
        if let Some(variant) = Variant::ALL.iter().find(|variant| variant.name() == name) {
            return Ok(Choice::Built(*variant));
        }
        match DebianKernel::ALL
            .iter()
            .find(|release| release.name() == name)
        {
            Some(release) => Ok(Choice::Debian(*release)),
            None => {
                bail!("the lab has 6.1, 6.12, 7.2, igb, patched, stock, and images by their path")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_chosen_by_release_variant_or_path() {
        let choice = |name: &str| name.parse::<Choice>().ok();
        assert_eq!(
            choice("6.12"),
            Some(Choice::Debian(DebianKernel::Linux6_12))
        );
        assert_eq!(choice("patched"), Some(Choice::Built(Variant::Patched)));
        assert_eq!(choice("./bzImage"), Some(Choice::Image("./bzImage".into())));
        assert_eq!(choice("6.2"), None);
    }
}
