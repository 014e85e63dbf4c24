//! The kernel of `kernel/series`: built here, booted, tested, and its instructions counted.

mod build;
mod command;
mod finished;
mod guests;
mod instructions;
mod numbers;
mod pahole;
mod patches;
mod programs;
mod sockstamp;
mod source;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::arch::Arch;
use crate::guest::Time;
use crate::kernel::Kernel;
use crate::release::DebianKernel;
use crate::{cache, debian};
use finished::Finished;
use instructions::{MADE_OF, OTHERS, SAME};
use patches::{FOLDER, Series};

/// The feature of sockstamp that uses what the kernel of the series adds.
pub(crate) const FEATURE: &str = "--features=sockstamp-bpf/series";

/// The counts at the time the series was written.
const KEPT: &str = "instructions.txt";
/// The counts of a message while sockstamp measures, on the kernel of the series.
const KEPT_OF_SOCKSTAMP: &str = "instructions-of-sockstamp.txt";
/// The same on Debian's newest kernel, whose hooks users have.
const KEPT_ON_DEBIAN: &str = "instructions-of-sockstamp-7.2.txt";
/// Selftests that run in one guest.
#[derive(Debug)]
struct Group {
    name: &'static str,
    time: Time,
    /// In the language of a guest's shell.
    line: &'static str,
    /// An emulated machine may stand still for a while where no machine would, so these may fail
    /// once. The others wait for states: a failure of theirs is one of the kernel.
    goes_by_the_clock: bool,
}

/// In a guest whose clock counts instructions, times do not depend on the host.
const SELFTESTS: [Group; 4] = [
    Group {
        name: "bpf",
        time: Time::Host,
        line: "./test_progs",
        goes_by_the_clock: false,
    },
    Group {
        name: "net",
        time: Time::Host,
        line: concat!(
            include_str!("../../../series/run.sh"),
            include_str!("../../../series/net.sh")
        ),
        goes_by_the_clock: false,
    },
    Group {
        name: "net, by the clock",
        time: Time::Host,
        line: concat!(
            include_str!("../../../series/run.sh"),
            include_str!("../../../series/clock.sh")
        ),
        goes_by_the_clock: true,
    },
    Group {
        name: "net, timed",
        time: Time::Instructions,
        line: include_str!("../../../series/timed.sh"),
        goes_by_the_clock: true,
    },
];

/// The kernel in the folder of a build. It is written last, and touched by each use.
const IMAGE: &str = "bzImage";
/// Time for which a build stays that is not used. It takes some 50 MB.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The folder of a kernel with some of the patches.
const UNTIL: &str = "until";
/// The command that it runs: a boot that the kernel complains of is none.
const BOOTED: &str = "uname -rv; ! dmesg | grep -E 'BUG|WARNING|Oops'";
/// The same of a kernel that looks for its faults: lockdep says INFO of some.
const FAULTLESS: &str = "! dmesg | grep -E 'BUG|WARNING|Oops|INFO: possible'";

/// The name of a kernel that looks for its own faults, and what it has beside the others.
const CHECKED_NAME: &str = "checked";
const CHECKED: &str = include_str!("../../../series/config-checked");

/// The place where faults show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// In the output of the selftests.
    Tests,
    /// In the kernel's own reports as well.
    Kernel,
}

impl Checks {
    /// Where an instruction is a nanosecond, a kernel that checks itself is too slow for tests that
    /// compare times.
    fn has(self, group: &Group) -> bool {
        self == Checks::Tests || group.time == Time::Host
    }

    fn line(self, group: &Group) -> String {
        match self {
            Checks::Tests => group.line.to_owned(),
            Checks::Kernel => format!("({}\n) && {FAULTLESS}", group.line),
        }
    }
}

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
    /// Only build and boot the kernel with the first patches, up to this one. The tree is the same,
    /// so that the next build of the whole takes as long again
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["stock", "bless"])]
    until: Option<usize>,
    /// Only run the selftests, on a kernel with KASAN and lockdep. It is built in a tree of its own
    #[arg(long, conflicts_with_all = ["stock", "bless", "until"])]
    checked: bool,
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
    if let Some(number) = arguments.until {
        return boot_until(number);
    }
    if arguments.checked {
        return check();
    }
    let kernel = kernel(Variant::Patched)?;
    let home = home(&kernel)?;
    let series = Variant::Patched.series()?;
    tell_of_newer(&series);
    check_numbers(&series)?;
    let finished = Finished::of(home);
    selftests(&kernel, home, &finished, Checks::Tests)?;
    let measuring = sockstamp::build(&[FEATURE])?;
    let counted = [
        (KEPT, count(&kernel, home)?),
        (
            KEPT_OF_SOCKSTAMP,
            sockstamp::count(&kernel, home, &measuring)?,
        ),
    ];
    if arguments.stock {
        let stock = self::kernel(Variant::Stock)?;
        println!("{}", count(&stock, home)?);
        println!("{}", sockstamp::count(&stock, home, &measuring)?);
    }
    let concluded = conclude(&counted, arguments.bless)?;
    finished.forget()?;
    Ok(concluded)
}

/// Run all selftests on a kernel that looks for faults of memory and locks.
fn check() -> Result<ExitCode> {
    let series = Variant::Patched.series()?.with_options(CHECKED);
    let kernel = built(
        CHECKED_NAME,
        &series,
        true,
        &cache::series().join(CHECKED_NAME),
    )?;
    let home = home(&kernel)?;
    let finished = Finished::of(home);
    selftests(&kernel, home, &finished, Checks::Kernel)?;
    finished.forget()?;
    Ok(ExitCode::SUCCESS)
}

fn home(kernel: &Kernel) -> Result<&Path> {
    kernel.image.parent().context("an image is in a folder")
}

/// Without a network there is no answer, and the kernel here is as good as before.
fn tell_of_newer(series: &Series) {
    match source::newer(series, &cache::series()) {
        Ok(Some(newer)) => println!("{newer}"),
        Ok(None) => {}
        Err(error) => println!("a newer kernel was not looked for: {error:#}"),
    }
}

/// Without a network there is no answer either; an answer may end the run.
fn check_numbers(series: &Series) -> Result<()> {
    match numbers::compare(series, &cache::series()) {
        Ok(compared) => {
            let clashes = compared.clashes;
            ensure!(clashes.is_empty(), "taken: {}", clashes.join("; "));
            println!("numbers are free in {}", compared.with.join(", "));
        }
        Err(error) => println!("numbers were not compared with newer headers: {error:#}"),
    }
    Ok(())
}

/// Patches must build and boot one by one, or nobody can bisect through them.
fn boot_until(number: usize) -> Result<ExitCode> {
    let series = Series::read(Path::new(FOLDER))?.until(number)?;
    let kernel = built(UNTIL, &series, false, &cache::series())?;
    let said = guests::run(&kernel, home(&kernel)?, Time::Host, BOOTED)?;
    println!("patches 1 to {number}: {said}");
    Ok(ExitCode::SUCCESS)
}

/// Count the instructions of a message that sockstamp measures on Debian's newest kernel.
pub(crate) fn count_on_debian(arguments: &CountArguments) -> Result<ExitCode> {
    let measuring = sockstamp::build(&[])?;
    let kernel = debian::get(DebianKernel::Linux7_2, Arch::Amd64)?;
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
        let kept =
            fs::read_to_string(&kept).with_context(|| format!("cannot read {}", kept.display()))?;
        good &= compare(name, &kept, counts)?;
        // Debian's kernel lacks what these are reached by.
        if *name != KEPT_ON_DEBIAN {
            good &= complain(name, &instructions::missed(&instructions::parse(counts)?));
        }
    }
    Ok(match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Run all groups that have not passed yet. None may leave anything out.
fn selftests(kernel: &Kernel, home: &Path, finished: &Finished, checks: Checks) -> Result<()> {
    for group in SELFTESTS.iter().filter(|group| checks.has(group)) {
        let line = checks.line(group);
        let run = || guests::run(kernel, home, group.time, &line);
        let twice = || {
            run().or_else(|error| {
                if !group.goes_by_the_clock && !is_of_emulation(&error) {
                    return Err(error);
                }
                println!("{error:#}");
                // xtask counts these lines.
                println!(
                    "RETRY series: the selftests of {} failed at first",
                    group.name
                );
                run()
            })
        };
        let output = finished.once(&(group.name, &line), twice)?;
        println!("{output}");
        let skipped = skipped(&output);
        ensure!(
            skipped.is_empty(),
            "selftests of {} were skipped: {skipped}",
            group.name
        );
    }
    Ok(())
}

/// Return true if the emulator broke the guest. The kernel replaces an instruction by way of a
/// breakpoint (`smp_text_poke_batch_finish()`, arch/x86/kernel/alternative.c). QEMU was seen to run
/// that after it was gone, on a processor that had translated it.
fn is_of_emulation(error: &anyhow::Error) -> bool {
    error.to_string().contains("Oops: int3:")
}

/// Return the lines of selftests that left something out: those of the harness of BPF, of the one
/// in C, and of TAP. The kernel has what each of them needs.
fn skipped(output: &str) -> String {
    let number = |word: &str| word.parse::<u32>().is_ok_and(|number| number > 0);
    let is_skip = |line: &&str| {
        let words: Vec<&str> = line.split([' ', ':']).collect();
        let mut pairs = words.windows(2);
        let counted = pairs.any(|pair| match pair {
            [before, "SKIPPED,"] => number(before),
            ["skip", after] => number(after),
            _ => false,
        });
        counted || line.contains("# SKIP") || line.ends_with(":SKIP")
    };
    let lines: Vec<&str> = output.lines().filter(is_skip).collect();
    lines.join("; ")
}

fn count(kernel: &Kernel, home: &Path) -> Result<String> {
    // Its programs were built with the series, by the clang of this host.
    let clang = programs::clang_version()?;
    let line = format!("{MADE_OF}; echo '# clang {clang}'; ./count");
    guests::run(kernel, home, Time::Instructions, &line)
}

/// Return true if no count is worse. Counts of another kernel, or of another compiler of the kernel
/// or of the programs, have wider limits, and xtask does not keep that the step has passed.
fn compare(name: &str, kept: &str, counted: &str) -> Result<bool> {
    let (before, now) = (instructions::made_of(kept), instructions::made_of(counted));
    let limits = match before == now {
        true => SAME,
        false => {
            println!(
                "SKIP instructions: the narrow limits of {name}: kept are those of {before}, these are of {now}"
            );
            OTHERS
        }
    };
    let (kept, counted) = (instructions::parse(kept)?, instructions::parse(counted)?);
    Ok(complain(
        name,
        &instructions::worse(&kept, &counted, limits),
    ))
}

/// Return true if there is nothing to complain of.
fn complain(name: &str, complaints: &str) -> bool {
    if !complaints.is_empty() {
        println!("FAILED instructions of {name} (--bless keeps these)\n{complaints}");
    }
    complaints.is_empty()
}

/// The kernel, from the cache if nothing in `kernel/series` has changed since it was built.
pub(crate) fn kernel(variant: Variant) -> Result<Kernel> {
    // Where it is stock, the selftests would fail.
    built(
        variant.name(),
        &variant.series()?,
        variant == Variant::Patched,
        &cache::series(),
    )
}

/// The folder has the tree, and the builds.
fn built(name: &str, series: &Series, with_programs: bool, folder: &Path) -> Result<Kernel> {
    cache::make(folder)?;
    let _lock = cache::lock(folder)?;
    let home = folder.join(name).join(series.key());
    let image = home.join(IMAGE);
    if !image.exists() {
        forget(&home)?;
        make(series, with_programs, folder, &home).with_context(|| format!("the {name} kernel"))?;
    }
    cache::touch(&image)?;
    Ok(Kernel {
        name: name.into(),
        arch: Arch::Amd64,
        image,
        modules: None,
        nic: None,
        igb: None,
    })
}

/// The image last: where it is, all is.
fn make(series: &Series, with_programs: bool, folder: &Path, home: &Path) -> Result<()> {
    let tree = source::tree(series, folder)?;
    let built = build::image(&tree, series, folder)?;
    cache::make(home)?;
    if with_programs {
        programs::build(&tree, series, home)?;
    }
    fs::copy(&built, home.join(IMAGE))
        .with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(())
}

/// Remove what an interrupted run has left of this build, and builds of other states of the series
/// that nothing uses any more. Another worktree may be running the others.
fn forget(home: &Path) -> Result<()> {
    let all = home.parent().context("a build has a folder")?;
    if !all.exists() {
        return Ok(());
    }
    let reading = || format!("cannot read {}", all.display());
    for entry in fs::read_dir(all).with_context(reading)? {
        let build = entry.with_context(reading)?.path();
        if build == home || !cache::is_fresh(&build.join(IMAGE), KEPT_FOR) {
            fs::remove_dir_all(&build)
                .with_context(|| format!("cannot remove {}", build.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_build_stays_while_another_worktree_uses_it() {
        const NAMES: [&str; 4] = ["used", "unused", "interrupted", "new"];
        let folder = tempfile::tempdir().unwrap();
        let build = |name: &str| folder.path().join(name);
        let left = || NAMES.map(|name| build(name).exists());
        for name in NAMES {
            fs::create_dir(build(name)).unwrap();
        }
        let age = SystemTime::now() - KEPT_FOR - Duration::from_secs(1);
        for name in ["used", "unused"] {
            let image = File::create(build(name).join(IMAGE)).unwrap();
            image.set_modified(age).unwrap();
        }
        cache::touch(&build("used").join(IMAGE)).unwrap();
        forget(&build("new")).unwrap();
        assert_eq!(left(), [true, false, false, false]);
    }

    #[test]
    fn counts_of_another_compiler_have_limits_as_well() {
        let kept = "# Linux 7.3.4, gcc 12\n# clang 19.1.7\na 1000 0\n";
        let good = |counted: &str| compare("a file", kept, counted).unwrap();
        assert!(good("# Linux 7.3.5, gcc 14\n# clang 19.1.7\na 1100 0\n"));
        assert!(!good("# Linux 7.3.5, gcc 14\n# clang 19.1.7\na 1101 0\n"));
        assert!(!good("# Linux 7.3.4, gcc 12\n# clang 16.0.6\na 1000 1\n"));
        assert!(good("# Linux 7.3.4, gcc 12\n# clang 19.1.7\na 1030 0\n"));
        assert!(!good("# Linux 7.3.4, gcc 12\n# clang 19.1.7\na 1031 0\n"));
    }

    #[test]
    fn what_selftests_leave_out_is_seen_in_each_of_their_languages() {
        let passed = "#1 a:OK\nSummary: 7/30 PASSED, 0 SKIPPED, 0 FAILED\n\
                      a: # Totals: pass:48 fail:0 xfail:0 xpass:0 skip:0 error:0\nok 1 a\n";
        assert_eq!(skipped(passed), "");
        for line in [
            "Summary: 7/30 PASSED, 2 SKIPPED, 0 FAILED",
            "a: # Totals: pass:44 fail:0 xfail:0 xpass:0 skip:4 error:0",
            "ok 3 # SKIP a: no 32-bit calls",
            "#12/3   a/b:SKIP",
        ] {
            assert_eq!(skipped(&format!("{passed}{line}\n")), line);
        }
    }
}
