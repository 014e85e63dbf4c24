//! Run tests in guests, some of them in parallel, and on the host.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::binaries::Built;
use super::facts::{self, Facts};
use super::protocol;
use super::report::Row;
use super::selection::Test;
use crate::arch::Arch;
use crate::guest::{Guest, Time};
use crate::image::Image;
use crate::kernel::Kernel;

/// Each test has a limit of its own; these are for kernels that hang.
const TIME_LIMIT_OF_A_BOOT: Duration = Duration::from_secs(120);
const TIME_LIMIT_OF_A_TEST: Duration = Duration::from_secs(90);

/// A boot takes as long as two tests, but guests that run side by side shall end at about the same
/// time, and one that hangs shall not take all tests along.
const TIME_OF_A_GUEST: Duration = Duration::from_secs(200);

/// The reason for tests in a guest that did not reach them at its first boot.
const NO_TEST_BEGAN: &str = "the guest ended before its first test";

/// Tests for one guest, ready to run.
#[derive(Debug)]
pub(crate) struct Task {
    tests: Vec<Test>,
    time: Time,
    script: String,
    /// The image without a kernel's modules.
    image: Image,
}

/// The result of a task on one kernel.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) rows: Vec<Row>,
    pub(crate) facts: Option<Result<Facts>>,
}

/// The tasks of guests: the chosen tests, and the content of each image.
#[derive(Debug)]
pub(crate) struct Tasks<'a> {
    tests: &'a [Test],
    sockstamp: &'a Path,
    common: Image,
}

impl<'a> Tasks<'a> {
    pub(crate) fn new(built: &'a Built, tests: &'a [Test]) -> Result<Tasks<'a>> {
        let sockstamp = built
            .programs
            .iter()
            .find(|path| path.ends_with("sockstamp"));
        let sockstamp = sockstamp.context("cargo built no sockstamp")?;
        let mut common = Image::new(Arch::Amd64)?;
        for program in &built.programs {
            common.host_file(program, program)?;
        }
        Ok(Tasks {
            tests,
            sockstamp,
            common,
        })
    }

    /// Return the tasks of one kernel, each with some of its tests.
    fn on(&self, kernel: &str) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for time in [Time::Host, Time::Instructions] {
            let tests = self.tests.iter().filter(|test| test.is_for(kernel));
            let tests: Vec<Test> = tests.filter(|test| test.time == time).cloned().collect();
            for tests in guests_full(&tests) {
                tasks.push(self.task(tests, time)?);
            }
        }
        Ok(tasks)
    }

    fn task(&self, tests: &[Test], time: Time) -> Result<Task> {
        let mut script = protocol::script(tests);
        if asks_for_facts(tests) {
            script += &facts::script(self.sockstamp);
        }
        let mut image = self.common.clone();
        for binary in tests.iter().map(|test| &test.path).collect::<BTreeSet<_>>() {
            image.host_file(binary, binary)?;
        }
        image.file("/lab/command", 0o644, script.clone().into_bytes());
        let tests = tests.to_vec();
        Ok(Task {
            tests,
            time,
            script,
            image,
        })
    }
}

/// Split the tests in order, as many per guest as it should take.
fn guests_full(tests: &[Test]) -> Vec<&[Test]> {
    let mut full = Vec::new();
    let (mut begin, mut time) = (0, Duration::ZERO);
    for (place, test) in tests.iter().enumerate() {
        if time + usual_time(test) > TIME_OF_A_GUEST {
            full.push(&tests[begin..place]);
            (begin, time) = (place, Duration::ZERO);
        }
        time += usual_time(test);
    }
    full.push(&tests[begin..]);
    full.retain(|tests| !tests.is_empty());
    full
}

/// Return the usual time of a test of the library, or of one that starts sockstamp.
fn usual_time(test: &Test) -> Duration {
    match test.binary.starts_with("sockstamp/") {
        true => Duration::from_secs(1),
        false => Duration::from_secs(12),
    }
}

fn asks_for_facts(tests: &[Test]) -> bool {
    tests.iter().any(|test| test.binary == facts::BINARY)
}

/// Each task of each kernel, in a guest of its own.
pub(crate) fn in_guests(
    kernels: &[Kernel],
    tasks: &Tasks<'_>,
    guests: usize,
    folder: &Path,
) -> Result<Vec<Ran>> {
    let mut jobs: Vec<(&Kernel, usize, Task)> = Vec::new();
    for kernel in kernels {
        let tasks = tasks.on(&kernel.name)?;
        let numbered = tasks.into_iter().enumerate();
        jobs.extend(numbered.map(|(number, task)| (kernel, number, task)));
    }
    let queue = Mutex::new(jobs);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let worker = || -> Result<Vec<Ran>> {
        let mut ran = Vec::new();
        while let Some((kernel, number, task)) = next() {
            let console = folder.join(format!("{}-{number}.log", kernel.name));
            ran.push(task.in_guest(kernel, &console)?);
        }
        Ok(ran)
    };
    let ran: Result<Vec<Vec<Ran>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..guests).map(|_| scope.spawn(worker)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().expect("no worker panics"));
        joined.collect()
    });
    Ok(ran?.into_iter().flatten().collect())
}

/// Run the tests of the host's kernel.
pub(crate) fn on_host(tasks: &Tasks<'_>) -> Result<Vec<Ran>> {
    let kernel = host_kernel()?;
    let on_host = |task: &Task| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &task.script])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        let output = shell.output().context("cannot run sh")?;
        Ok(task.ran(&kernel, &output.stdout, false))
    };
    tasks.on(&kernel)?.iter().map(on_host).collect()
}

impl Task {
    /// About one boot of 7.2 in some hundred dies of `int3` in sched_clock_cpu():
    /// sched_clock_init_late() (kernel/sched/clock.c) patches that function, and one of the two
    /// CPUs that QEMU emulates runs the breakpoint after the other has removed it. That is not a
    /// failure of the tests, so a guest that reaches none of them boots again, and each test
    /// reports it. A guest that dies in a test has failed it.
    fn in_guest(&self, kernel: &Kernel, console: &Path) -> Result<Ran> {
        let name = &kernel.name;
        let ran = self.boot(kernel, console)?;
        if ran.rows.iter().any(|row| row.outcome.began()) {
            return Ok(ran);
        }
        eprintln!("Linux {name}: no test began, so the guest boots once more");
        let mut ran = self.boot(kernel, &console.with_extension("again.log"))?;
        for row in &mut ran.rows {
            row.outcome
                .again
                .get_or_insert_with(|| NO_TEST_BEGAN.to_owned());
        }
        Ok(ran)
    }

    fn boot(&self, kernel: &Kernel, console: &Path) -> Result<Ran> {
        let begin = Instant::now();
        let name = &kernel.name;
        let mut image = self.image.clone();
        image.modules(kernel)?;
        let guest = Guest {
            kernel,
            image: &image,
            machine: self.time.machine(),
            time_limit: self.time_limit(),
            console,
        };
        let output = console.with_extension("out");
        let file =
            File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
        if let Err(error) = guest.run(file, io::stderr()) {
            eprintln!("Linux {name}: {error:#}");
        }
        let output =
            fs::read(&output).with_context(|| format!("cannot read {}", output.display()))?;
        let seconds = begin.elapsed().as_secs();
        eprintln!("Linux {name}: {} tests in {seconds} s", self.tests.len());
        Ok(self.ran(name, &output, true))
    }

    fn time_limit(&self) -> Duration {
        let of_tests = self.tests.iter().map(|_| TIME_LIMIT_OF_A_TEST);
        TIME_LIMIT_OF_A_BOOT + of_tests.sum::<Duration>()
    }

    fn ran(&self, kernel: &str, output: &[u8], in_guest: bool) -> Ran {
        let output = String::from_utf8_lossy(output);
        let mut outcomes = protocol::parse(&self.tests, &output);
        for (test, outcome) in self.tests.iter().zip(&mut outcomes) {
            if test.must_run_on(kernel) {
                outcome.forbid_skip();
            }
        }
        let facts = asks_for_facts(&self.tests).then(|| {
            Facts::read(kernel, &outcomes, &output, in_guest)
                .with_context(|| format!("kernel {kernel}"))
        });
        let row = |outcome| Row {
            kernel: kernel.to_owned(),
            outcome,
        };
        Ran {
            facts,
            rows: outcomes.into_iter().map(row).collect(),
        }
    }
}

/// Return the first two numbers of the host kernel's release.
fn host_kernel() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")
        .context("cannot read the kernel's release")?;
    let numbers: Vec<&str> = release.trim().splitn(3, '.').take(2).collect();
    Ok(numbers.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(binary: &str, number: usize) -> Vec<Test> {
        let test = Test {
            binary: binary.into(),
            path: binary.into(),
            name: "one".into(),
            kernels: Vec::new(),
            time: Time::Host,
        };
        vec![test; number]
    }

    #[test]
    fn a_guest_takes_many_of_the_library_and_few_that_start_sockstamp() {
        let mut all = tests("sockstamp-cli/x", 20);
        all.extend(tests("sockstamp/lib", 200));
        let full: Vec<usize> = guests_full(&all).into_iter().map(<[Test]>::len).collect();
        assert_eq!(full, [16, 4 + 152, 48]);
        assert!(guests_full(&[]).is_empty());
    }
}
