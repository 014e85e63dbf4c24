//! Building the tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::command::{processors, succeed};
use super::pahole;
use super::patches::Series;

const FRAGMENT: &str = ".sockstamp-config";

/// Builds the kernel. Returns its image.
pub(crate) fn image(tree: &Path, series: &Series, folder: &Path) -> Result<PathBuf> {
    let pahole = pahole::get(folder)?;
    let make = |targets: &[&str]| -> Result<()> {
        let mut make = Command::new("make");
        make.current_dir(tree)
            .arg("--silent")
            .arg(format!("--jobs={}", processors()))
            .arg(format!("PAHOLE={}", pahole.display()))
            .args(targets);
        succeed(&mut make)
    };
    configure(tree, series, &make)?;
    eprintln!(
        "sockstamp-lab: building Linux {} (an hour on two processors; goes on where it was interrupted)",
        series.base
    );
    make(&["bzImage"])?;
    Ok(tree.join("arch/x86/boot/bzImage"))
}

/// Configure once per set of options: a new file of options is a new build.
fn configure(tree: &Path, series: &Series, make: &impl Fn(&[&str]) -> Result<()>) -> Result<()> {
    let fragment = tree.join(FRAGMENT);
    if fs::read_to_string(&fragment).is_ok_and(|text| text == series.config) {
        return Ok(());
    }
    make(&["tinyconfig"])?;
    let new = fragment.with_extension("new");
    fs::write(&new, &series.config).context("cannot write to the cache")?;
    let mut merge = Command::new("scripts/kconfig/merge_config.sh");
    merge.current_dir(tree).args(["-m", ".config"]).arg(&new);
    succeed(merge.stdout(Stdio::null()))?;
    make(&["olddefconfig"])?;
    fs::rename(&new, &fragment).context("cannot write to the cache")
}
