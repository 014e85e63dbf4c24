//! Modules of a kernel, and in which order they can be loaded.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::arch::Arch;

/// Modules that guests need besides the built-in ones: links, queueing disciplines, socket
/// diagnosis, TLS.
const WANTED: [&str; 23] = [
    "veth",
    "tun",
    "bridge",
    "dummy",
    "ifb",
    "8021q",
    "sch_netem",
    "sch_fq",
    "sch_fq_codel",
    "sch_tbf",
    "sch_htb",
    "sch_ingress",
    "cls_bpf",
    "cls_u32",
    "cls_matchall",
    "act_mirred",
    "act_gact",
    "inet_diag",
    "tcp_diag",
    "udp_diag",
    "tcp_bbr",
    "tls",
    "nf_nat",
];

/// The ciphers that TLS asks for, by processor.
fn ciphers(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::Amd64 => &["aesni_intel"],
        Arch::Arm64 => &[],
    }
}

/// The text of a module, decompressed.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) contents: Vec<u8>,
}

/// Return the modules that a guest of this kernel loads, each after those that it needs, and
/// drivers of its devices.
pub(crate) fn read(folder: &Path, arch: Arch, drivers: &[&str]) -> Result<Vec<Module>> {
    let text = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let wanted = [&WANTED, ciphers(arch), drivers].concat();
    let order = load_order(&wanted, &text("modules.dep")?, &text("modules.builtin")?)?;
    order.iter().map(|path| module(folder, path)).collect()
}

/// Paths of modules.dep. Each of its lines names a module and all that it needs, the direct ones
/// first.
fn load_order(wanted: &[&str], dependencies: &str, builtin: &str) -> Result<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    for module in wanted {
        let found = dependencies.lines().find_map(|line| {
            let (path, needs) = line.split_once(':')?;
            (name(path) == *module).then_some((path, needs))
        });
        let Some((path, needs)) = found else {
            ensure!(
                builtin.lines().any(|path| name(path) == *module),
                "the kernel has no module {module}"
            );
            continue;
        };
        for path in needs.split_whitespace().rev().chain([path]) {
            if !order.iter().any(|known| known == path) {
                order.push(path.to_owned());
            }
        }
    }
    Ok(order)
}

/// Return the name of a module, with underscores, by its path.
fn name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

fn module(folder: &Path, path: &str) -> Result<Module> {
    let file = folder.join(path);
    let contents = if path.ends_with(".xz") {
        decompressed(&file)?
    } else {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?
    };
    Ok(Module {
        name: name(path),
        contents,
    })
}

/// The loader of the guest knows no compression.
fn decompressed(file: &Path) -> Result<Vec<u8>> {
    let output = Command::new("xz").args(["-dc"]).arg(file).output();
    let output = output.context("cannot run xz (package xz-utils)")?;
    if !output.status.success() {
        bail!(
            "cannot decompress {}: {}",
            file.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
kernel/net/802/stp.ko.xz: kernel/net/llc/llc.ko.xz
kernel/net/bridge/bridge.ko.xz: kernel/net/802/stp.ko.xz kernel/net/llc/llc.ko.xz
kernel/net/llc/llc.ko.xz:
kernel/net/sched/sch-fq.ko.xz:
";

    #[test]
    fn dependencies_of_a_module_come_first_and_once() {
        let order = load_order(&["stp", "bridge", "sch_fq"], DEPENDENCIES, "").unwrap();
        let names: Vec<String> = order.iter().map(|path| name(path)).collect();
        assert_eq!(names, ["llc", "stp", "bridge", "sch_fq"]);
    }

    #[test]
    fn built_in_modules_are_not_loaded() {
        let order = load_order(&["tun"], DEPENDENCIES, "kernel/drivers/net/tun.ko\n").unwrap();
        assert!(order.is_empty());
    }

    #[test]
    fn a_module_that_is_nowhere_is_an_error() {
        let error = load_order(&["veth"], DEPENDENCIES, "").unwrap_err();
        assert_eq!(error.to_string(), "the kernel has no module veth");
    }
}
