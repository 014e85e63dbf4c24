//! The kernel of `kernel/series`: built here, booted, tested, and its instructions counted.

mod build;
mod command;
mod guests;
mod instructions;
mod pahole;
mod patches;
mod programs;
mod sockstamp;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::guest::Time;
use crate::kernel::Kernel;
use crate::release::DebianKernel;
use crate::{cache, debian};
use instructions::MADE_OF;
use patches::{FOLDER, Series};

/// The counts at the time the series was written.
const KEPT: &str = "instructions.txt";
/// The counts of a message while sockstamp measures, on the kernel of the series.
const KEPT_OF_SOCKSTAMP: &str = "instructions-of-sockstamp.txt";
/// The same on Debian's newest kernel, whose hooks users have.
const KEPT_ON_DEBIAN: &str = "instructions-of-sockstamp-7.2.txt";
/// Selftests of net, in the language of a guest's shell.
const NET_SELFTESTS: &str = include_str!("../../../series/net.sh");
/// Selftests that compare times: in a guest whose clock counts instructions, times do not depend on
/// the host.
const TIMED_SELFTESTS: &str = include_str!("../../../series/timed.sh");

/// The tree with the patches, or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    Patched,
    Stock,
}

impl Variant {
    pub(crate) const ALL: [Variant; 2] = [Variant::Patched, Variant::Stock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Variant::Patched => "patched",
            Variant::Stock => "stock",
        }
    }

    fn series(self) -> Result<Series> {
        let series = Series::read(Path::new(FOLDER))?;
        Ok(match self {
            Variant::Patched => series,
            Variant::Stock => series.without_patches(),
        })
    }
}

/// Options of `series`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Count on the same kernel without the patches as well
    #[arg(long)]
    stock: bool,
    /// Keep the counts
    #[arg(long)]
    bless: bool,
}

/// Options of `count`.
#[derive(Debug, Args)]
pub(crate) struct CountArguments {
    /// Keep the counts
    #[arg(long)]
    bless: bool,
}

/// Build it if needed, and run its selftests and the instruction counter.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let kernel = kernel(Variant::Patched)?;
    let home = kernel.image.parent().context("an image is in a folder")?;
    selftests(&kernel, home)?;
    let measuring = sockstamp::build()?;
    let counted = [
        (KEPT, count(&kernel, home)?),
        (KEPT_OF_SOCKSTAMP, sockstamp::count(&kernel, home, &measuring)?),
    ];
    if arguments.stock {
        let stock = self::kernel(Variant::Stock)?;
        println!("{}", count(&stock, home)?);
        println!("{}", sockstamp::count(&stock, home, &measuring)?);
    }
    conclude(&counted, arguments.bless)
}

/// Count the instructions of a message that sockstamp measures on Debian's newest kernel.
pub(crate) fn count_on_debian(arguments: &CountArguments) -> Result<ExitCode> {
    let measuring = sockstamp::build()?;
    let kernel = debian::get(DebianKernel::Linux7_2)?;
    let home = tempfile::tempdir().context("cannot make a temporary folder")?;
    let counts = sockstamp::count(&kernel, home.path(), &measuring)?;
    conclude(&[(KEPT_ON_DEBIAN, counts)], arguments.bless)
}

/// Print the counts, keep them if that is wanted, and compare them with the kept ones.
fn conclude(counted: &[(&str, String)], bless: bool) -> Result<ExitCode> {
    let mut good = true;
    for (name, counts) in counted {
        println!("{counts}");
        let kept = Path::new(FOLDER).join(name);
        if bless {
            fs::write(&kept, counts).with_context(|| format!("cannot write {}", kept.display()))?;
        }
        let kept = fs::read_to_string(&kept).with_context(|| format!("cannot read {}", kept.display()))?;
        good &= compare(&kept, counts)?;
    }
    Ok(match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// An emulated machine may stand still for a while where no machine would: once is no proof.
fn selftests(kernel: &Kernel, home: &Path) -> Result<()> {
    let all = [
        (Time::Host, "./test_progs"),
        (Time::Host, NET_SELFTESTS),
        (Time::Instructions, TIMED_SELFTESTS),
    ];
    for (time, line) in all {
        let run = || guests::run(kernel, home, time, line);
        let output = run().or_else(|error| {
            println!("a second try of the selftests: {error:#}");
            run()
        })?;
        println!("{output}");
    }
    Ok(())
}

fn count(kernel: &Kernel, home: &Path) -> Result<String> {
    // Its programs were built with the series, by the clang of this host.
    let clang = programs::clang_version()?;
    let line = format!("{MADE_OF}; echo '# clang {clang}'; ./count");
    guests::run(kernel, home, Time::Instructions, &line)
}

/// Return true if no count is worse. Counts of another kernel, or of another compiler of the kernel
/// or of the programs, are not compared.
fn compare(kept: &str, counted: &str) -> Result<bool> {
    let (before, now) = (instructions::made_of(kept), instructions::made_of(counted));
    if before != now {
        println!("SKIP instructions: kept are those of {before}, these are of {now}");
        return Ok(true);
    }
    let worse = instructions::worse(&instructions::parse(kept)?, &instructions::parse(counted)?);
    if !worse.is_empty() {
        println!("FAILED instructions (--bless keeps these)\n{worse}");
    }
    Ok(worse.is_empty())
}

/// The kernel, from the cache if nothing in `kernel/series` has changed since it was built.
pub(crate) fn kernel(variant: Variant) -> Result<Kernel> {
    let series = variant.series()?;
    let folder = cache::series();
    cache::make(&folder)?;
    let _lock = cache::lock(&folder)?;
    let home = folder.join(variant.name()).join(series.key());
    let image = home.join("bzImage");
    if !image.exists() {
        forget(&home)?;
        make(variant, &series, &folder, &home).with_context(|| format!("the {} kernel", variant.name()))?;
    }
    Ok(Kernel {
        name: variant.name().into(),
        image,
        modules: None,
    })
}

/// The image last: where it is, all is.
fn make(variant: Variant, series: &Series, folder: &Path, home: &Path) -> Result<()> {
    let tree = source::tree(series, folder)?;
    let built = build::image(&tree, series, folder)?;
    cache::make(home)?;
    if variant == Variant::Patched {
        programs::build(&tree, series, home)?;
    }
    fs::copy(&built, home.join("bzImage")).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(())
}

/// Remove builds of other states of the series.
fn forget(home: &Path) -> Result<()> {
    let all: PathBuf = home.parent().map(Path::to_owned).unwrap_or_default();
    if all.exists() {
        fs::remove_dir_all(&all).with_context(|| format!("cannot remove {}", all.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_another_compiler_are_not_compared() {
        let kept = "# Linux 7.3.4, gcc 12\n# clang 19.1.7\na 1000 0\n";
        let good = |counted: &str| compare(kept, counted).unwrap();
        assert!(good("# Linux 7.3.4, gcc 14\n# clang 19.1.7\na 2000 0\n"));
        assert!(good("# Linux 7.3.4, gcc 12\n# clang 16.0.6\na 2000 0\n"));
        assert!(good("# Linux 7.3.4, gcc 12\n# clang 19.1.7\na 1001 0\n"));
        assert!(!good("# Linux 7.3.4, gcc 12\n# clang 19.1.7\na 2000 0\n"));
    }
}
