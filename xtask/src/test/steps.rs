//! The steps, as data.

use super::groups::Group;

/// A part of the tests that is run, limited, reported and left out as one.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) set: Set,
    pub(super) lane: Lane,
    pub(super) run: &'static [Run],
    /// Files without which its result is the same, as pathspecs of git. Steps of `make test` run
    /// whatever has changed, and have none.
    pub(super) inputs: &'static [&'static str],
    pub(super) needs: &'static [Need],
    pub(super) root: bool,
    /// The time that it takes on a new machine with two processors.
    pub(super) minutes: u64,
    /// Minutes after which it hangs, or waits for a network for too long, and has failed.
    pub(super) limit: u64,
}

/// The targets of make that run a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// `make test`.
    Test,
    /// `make test-all`, and CI where its inputs differ.
    All,
}

/// When and where a step runs in a run of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Before all others.
    First,
    /// One after the other: they measure times.
    Timed,
    /// Beside the timed ones, which sleep for most of their time, on processors that these leave
    /// idle.
    Beside,
    /// Beside both, on one processor less: they compile, or compute, and measure nothing.
    Checks,
}

#[derive(Debug)]
pub(super) enum Run {
    /// Build all programs, and list the tests: once in a run, as cargo makes one step wait while
    /// another compiles.
    Build,
    /// A script for bash, in the repository's folder. `$BUILT` has the programs.
    Script(&'static str),
    Tests(&'static [Group]),
}

/// A command that succeeds where a step can run, and the reason to leave the step out where not.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) script: &'static str,
    pub(super) otherwise: &'static str,
}

/// The fields that most steps have.
pub(super) const STEP: Step = Step {
    name: "",
    set: Set::Test,
    lane: Lane::Beside,
    run: &[],
    inputs: &[],
    needs: &[],
    root: false,
    minutes: 1,
    limit: 20,
};

const DEBIAN: Need = Need {
    script: "grep -qx ID=debian /etc/os-release && [ \"$(uname -m)\" = x86_64 ]",
    otherwise: "it takes kernels and trees of Debian for x86_64 from the mirror that apt uses; \
                this is another system",
};
const GO: Need = Need {
    script: "go version",
    otherwise: "it is built by Go, and there is none",
};

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "rustfmt",
        lane: Lane::First,
        run: &[Run::Script(
            "cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
             cargo fmt --all --check
             cargo fmt --manifest-path fuzz/Cargo.toml --check
             scripts/line-width.sh",
        )],
        ..STEP
    },
    Step {
        name: "clang-format",
        lane: Lane::First,
        run: &[Run::Script("scripts/clang-format.sh --check")],
        ..STEP
    },
    Step {
        name: "build",
        lane: Lane::First,
        run: &[Run::Build],
        minutes: 6,
        limit: 40,
        ..STEP
    },
    Step {
        name: "live",
        lane: Lane::Timed,
        run: &[Run::Build, Run::Tests(&[Group::Rooted, Group::Live])],
        root: true,
        minutes: 12,
        limit: 45,
        ..STEP
    },
    Step {
        name: "clippy",
        lane: Lane::Checks,
        // The workspace's tests switch the library's features on; its users need not.
        run: &[Run::Script(
            "cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
             cargo clippy --locked --workspace --all-targets -- -D warnings
             cargo clippy --locked --package sockstamp -- -D warnings
             cargo clippy --locked --package sockstamp --features tokio -- -D warnings
             cargo clippy --locked --package sockstamp --features io-uring -- -D warnings",
        )],
        minutes: 3,
        limit: 40,
        ..STEP
    },
    Step {
        name: "unit",
        lane: Lane::Checks,
        run: &[Run::Tests(&[Group::Unit])],
        minutes: 2,
        limit: 40,
        ..STEP
    },
    Step {
        name: "pure",
        lane: Lane::Checks,
        run: &[Run::Build, Run::Tests(&[Group::Pure])],
        minutes: 2,
        limit: 40,
        ..STEP
    },
    Step {
        name: "live-beside",
        run: &[Run::Build, Run::Tests(&[Group::Beside])],
        root: true,
        minutes: 8,
        limit: 45,
        ..STEP
    },
    Step {
        name: "generated",
        lane: Lane::Checks,
        run: &[
            Run::Build,
            Run::Script("\"$BUILT/xtask-docs\" --check; \"$BUILT/xtask\" imports"),
        ],
        limit: 40,
        ..STEP
    },
    Step {
        name: "doc",
        lane: Lane::Checks,
        run: &[Run::Script(
            "RUSTDOCFLAGS='-D warnings' \
                 cargo doc --locked --workspace --all-features --no-deps",
        )],
        minutes: 2,
        limit: 40,
        ..STEP
    },
    Step {
        name: "doctests",
        lane: Lane::Checks,
        run: &[Run::Script(
            "cargo test --locked --workspace --no-fail-fast --doc",
        )],
        minutes: 2,
        limit: 40,
        ..STEP
    },
    Step {
        name: "deny",
        set: Set::All,
        lane: Lane::Checks,
        run: &[Run::Script(
            "scripts/cargo-tool.sh deny --locked check licenses bans sources
             echo 'SKIP deny advisories: they need the RustSec database, and tests use no network \
                 but package registries'",
        )],
        inputs: &["*.toml", "Cargo.lock", "scripts/cargo-tool.sh"],
        minutes: 3,
        limit: 40,
        ..STEP
    },
    // That the benchmark runs, and forms all its figures.
    Step {
        name: "bench",
        set: Set::All,
        lane: Lane::Timed,
        run: &[Run::Build, Run::Tests(&[Group::Bench])],
        inputs: &[
            "bench",
            "crates",
            "Cargo.lock",
            ":!*.md",
            ":!crates/*/tests/*",
            ":!crates/sockstamp-agent",
            ":!crates/sockstamp-ping*",
            ":!crates/sockstamp-top",
        ],
        root: true,
        minutes: 2,
        ..STEP
    },
    Step {
        name: "browser",
        set: Set::All,
        run: &[Run::Build, Run::Tests(&[Group::Browser])],
        inputs: &[
            "crates/sockstamp-cli/src/report",
            "crates/sockstamp-cli/src/recordings",
            "crates/sockstamp-print",
            "crates/sockstamp-agent/src/http",
            "crates/sockstamp-agent/tests/agent/page.rs",
            "crates/sockstamp-cli/tests/html",
            "crates/sockstamp-explain",
            "crates/sockstamp-record",
            "tests/with",
        ],
        root: true,
        minutes: 3,
        ..STEP
    },
    Step {
        name: "kubeconform",
        set: Set::All,
        run: &[Run::Build, Run::Tests(&[Group::Kubernetes])],
        inputs: &[
            "packaging",
            "scripts/go-tool.sh",
            "tests/packaging",
            "tests/with",
        ],
        needs: &[
            GO,
            Need {
                script: "scripts/go-tool.sh helm version && scripts/go-tool.sh kubeconform -v",
                otherwise: "its Go modules are not to be had, or need a newer Go",
            },
        ],
        minutes: 3,
        limit: 70,
        ..STEP
    },
    // From the same seed each time, as many inputs as take a minute; CONTRIBUTING.md says how to
    // look for longer.
    Step {
        name: "fuzz",
        set: Set::All,
        lane: Lane::Checks,
        run: &[Run::Script(
            "scripts/fuzz.sh -seed=1 -runs=20000 -max_total_time=60",
        )],
        inputs: &[
            "fuzz",
            "crates/sockstamp",
            "crates/sockstamp-clock",
            "crates/sockstamp-model",
            "crates/sockstamp-ping",
            "crates/sockstamp-record",
            "scripts/fuzz.sh",
            ":!crates/*/tests/*",
        ],
        minutes: 6,
        limit: 70,
        ..STEP
    },
    Step {
        name: "msrv",
        set: Set::All,
        lane: Lane::Checks,
        run: &[Run::Script("scripts/msrv.sh")],
        inputs: &[
            "*.rs",
            "*.toml",
            "Cargo.lock",
            "*.c",
            "*.h",
            ":!crates/*/tests/*",
            ":!fuzz",
        ],
        minutes: 4,
        limit: 70,
        ..STEP
    },
    Step {
        name: "library",
        set: Set::All,
        lane: Lane::Checks,
        run: &[
            Run::Build,
            Run::Script("scripts/library.sh \"$BUILT/xtask-api\""),
        ],
        inputs: &[
            "crates/sockstamp",
            "crates/sockstamp-clock",
            "Cargo.lock",
            "Cargo.toml",
            "scripts/library.sh",
            "xtask/api",
        ],
        minutes: 2,
        limit: 40,
        ..STEP
    },
    Step {
        name: "miri",
        set: Set::All,
        lane: Lane::Checks,
        run: &[Run::Script("scripts/miri.sh test")],
        inputs: &[
            "crates/bpf-build",
            "crates/sockstamp",
            "crates/sockstamp-clock",
            "crates/sockstamp-model",
            "Cargo.lock",
            "scripts/miri.sh",
            ":!crates/*/tests/*",
        ],
        needs: &[Need {
            script: "scripts/miri.sh install",
            otherwise: "no nightly toolchain with Miri to be had by rustup",
        }],
        minutes: 5,
        limit: 70,
        ..STEP
    },
    // A real OpenTelemetry Collector, built from Go modules: two minutes of a core, once.
    Step {
        name: "collector",
        set: Set::All,
        run: &[Run::Build, Run::Tests(&[Group::Collector])],
        inputs: &[
            "crates/sockstamp-bpf/src",
            "crates/sockstamp-clock",
            "crates/sockstamp-evidence",
            "crates/sockstamp-host",
            "crates/sockstamp-metrics",
            "crates/sockstamp-model",
            "crates/sockstamp-run",
            "crates/sockstamp-agent/src",
            "crates/sockstamp-agent/tests/otel_collector",
            "tests/with",
            "scripts/collector*",
            "Cargo.lock",
        ],
        needs: &[
            GO,
            Need {
                script: "scripts/collector.sh --version",
                otherwise: "its Go modules are not to be had, or need a newer Go",
            },
        ],
        root: true,
        minutes: 4,
        ..STEP
    },
    // The SQL of docs/sql in Apache Spark. Its package takes two minutes to install, once.
    Step {
        name: "sql-spark",
        set: Set::All,
        run: &[Run::Build, Run::Tests(&[Group::Spark])],
        inputs: &[
            "docs/sql",
            "crates/sockstamp-clock",
            "crates/sockstamp-explain",
            "crates/sockstamp-join",
            "crates/sockstamp-model",
            "crates/sockstamp-record",
            "crates/sockstamp-cli/src/join",
            "crates/sockstamp-cli/src/explain",
            "tests/sql",
            "tests/with",
            "scripts/python.sh",
            "scripts/requirements-spark.txt",
        ],
        needs: &[
            Need {
                script: "java -version",
                otherwise: "Apache Spark needs Java, and there is none",
            },
            Need {
                script: "REQUIREMENTS=requirements-spark.txt scripts/python.sh -c 'import pyspark'",
                otherwise: "the package pyspark is not to be had by pip",
            },
        ],
        minutes: 5,
        ..STEP
    },
    // Programs that others have published, which run ping or fping, on ours.
    Step {
        name: "ping-scripts",
        set: Set::All,
        run: &[
            Run::Build,
            Run::Script("scripts/ping-scripts.sh \"$BUILT/sockstamp\""),
        ],
        inputs: &[
            "crates/sockstamp-ping-cli",
            "crates/sockstamp-ping/src",
            "crates/sockstamp-print",
            "scripts/ping-scripts",
            "scripts/ping-scripts.sh",
            "scripts/python.sh",
        ],
        needs: &[
            DEBIAN,
            Need {
                script: "scripts/ping-scripts.sh --install",
                otherwise: "its packages of Debian, or those of pip, are not to be had",
            },
        ],
        root: true,
        minutes: 2,
        ..STEP
    },
    // Seven bad days of a host, each for twenty seconds.
    Step {
        name: "bad-days",
        set: Set::All,
        lane: Lane::Timed,
        run: &[
            Run::Build,
            Run::Script("tests/bad-days/run.sh \"$BUILT/sockstamp\""),
        ],
        inputs: &[
            "crates/sockstamp-agent/src",
            "crates/sockstamp-bpf/src",
            "crates/sockstamp-cli/src",
            "crates/sockstamp-evidence",
            "crates/sockstamp-host",
            "crates/sockstamp-ping/src",
            "crates/sockstamp-print",
            "crates/sockstamp-record",
            "crates/sockstamp-run",
            "tests/bad-days",
        ],
        root: true,
        minutes: 6,
        ..STEP
    },
    // The instructions of a message that sockstamp measures, on Debian's newest kernel.
    Step {
        name: "count",
        set: Set::All,
        run: &[Run::Build, Run::Script("\"$BUILT/sockstamp-lab\" count")],
        inputs: &[
            "crates",
            "Cargo.lock",
            "Cargo.toml",
            "kernel/lab/src",
            "kernel/lab/guest",
            "kernel/series/instructions-of-sockstamp-7.2.txt",
            ":!*.md",
            ":!crates/*/tests/*",
            ":!kernel/lab/src/test",
        ],
        needs: &[DEBIAN],
        // Four and a half to count, after a release build of more than two.
        minutes: 8,
        limit: 70,
        ..STEP
    },
    // Debian's kernels in QEMU. On the kernel that runs here the same tests are a part of `live`.
    Step {
        name: "kernels",
        set: Set::All,
        run: &[
            Run::Build,
            Run::Script("\"$BUILT/sockstamp-lab\" test --host"),
        ],
        inputs: &[
            "crates",
            "tests",
            "kernel/lab",
            "scripts/c-programs.sh",
            "Cargo.lock",
            "Cargo.toml",
            ":!*.md",
            ":!kernel/lab/src/series",
            ":!kernel/lab/results/patched*",
            ":!tests/known_answers",
            ":!tests/witness",
        ],
        needs: &[DEBIAN],
        root: true,
        minutes: 15,
        limit: 70,
        ..STEP
    },
    // README's own set-up, in trees of Debian that have nothing else.
    Step {
        name: "bare",
        set: Set::All,
        lane: Lane::Timed,
        run: &[Run::Script("scripts/bare.sh bookworm trixie")],
        inputs: &[
            "Makefile",
            "scripts/deps.sh",
            "scripts/bare.sh",
            "scripts/c-library.sh",
        ],
        needs: &[
            DEBIAN,
            Need {
                script: "command -v mmdebstrap",
                otherwise: "trees of Debian are made by mmdebstrap, and there is none",
            },
        ],
        root: true,
        minutes: 14,
        limit: 60,
    },
    // What a release has, made and started where people start it. As for `bare`, what the program
    // does is no input: else each change would build a release.
    Step {
        name: "release",
        set: Set::All,
        run: &[Run::Script(
            "scripts/deps.sh dist
             work=$(mktemp -d /var/tmp/sockstamp-release.XXXXXX)
             trap 'rm -rf \"$work\"' EXIT
             packaging/dist.sh \"$work/release\"
             packaging/try.sh \"$work/release\"
             packaging/crates.sh",
        )],
        inputs: &[
            "packaging",
            ":!packaging/helm",
            ":!packaging/kubernetes",
            "Cargo.lock",
            "*Cargo.toml",
            "crates/bpf-build",
            "crates/*/build.rs",
            "docs/completions",
            "scripts/c-library.sh",
            "scripts/cargo-tool.sh",
            "scripts/debug-file.sh",
            "scripts/deps.sh",
            ":!fuzz",
        ],
        needs: &[
            DEBIAN,
            Need {
                script: "rustup target list --installed | grep -q musl ||
                         timeout 120 rustup target add \"$(uname -m)-unknown-linux-musl\"",
                otherwise: "it is built for musl, which is not to be had by rustup",
            },
            Need {
                script: "command -v mmdebstrap",
                otherwise: "trees of Debian are made by mmdebstrap, and there is none",
            },
        ],
        root: true,
        minutes: 20,
        limit: 70,
        ..STEP
    },
    // The kernel of kernel/series, its selftests, its instructions, and the tests that
    // kernel/lab/tests.txt has for it. The command's screens and options are the same on every
    // kernel: changes to them alone build no kernel.
    Step {
        name: "series",
        set: Set::All,
        run: &[
            Run::Build,
            Run::Script(
                "\"$BUILT/sockstamp-lab\" series
                 \"$BUILT/sockstamp-lab\" test --kernel patched",
            ),
        ],
        inputs: &[
            "kernel/series",
            "kernel/lab",
            "Cargo.lock",
            "Cargo.toml",
            "scripts/c-programs.sh",
            "crates/sockstamp",
            "crates/sockstamp-bpf",
            "crates/sockstamp-capi",
            "crates/sockstamp-clock",
            "crates/sockstamp-host",
            "crates/sockstamp-model",
            "crates/testbed",
            "crates/testbed-bpf",
            "tests/Cargo.toml",
            "tests/completions",
            "tests/kernels",
            "tests/with",
            "tests/corner_cases/main.rs",
            "tests/corner_cases/rx.rs",
            "tests/corner_cases/tx",
            "tests/corner_cases/uplinks.rs",
            ":!*.md",
            ":!kernel/series/*0000-cover-letter.patch",
            ":!kernel/series/instructions-of-sockstamp-7.2.txt",
            ":!kernel/lab/results/[67]*",
            ":!crates/sockstamp-bpf/tests/groups.rs",
            ":!crates/sockstamp-bpf/tests/missing_hooks.rs",
            ":!crates/sockstamp-bpf/tests/nic_reads.rs",
            ":!crates/sockstamp-bpf/tests/nic_sends.rs",
            ":!crates/sockstamp-bpf/tests/nic_stamps.rs",
            ":!crates/sockstamp-bpf/tests/uplinks.rs",
        ],
        needs: &[DEBIAN],
        minutes: 35,
        limit: 80,
        ..STEP
    },
];

pub(super) fn named(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;
    use crate::root::root;

    #[test]
    fn names_are_distinct() {
        let names: BTreeSet<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn steps_that_may_be_left_out_have_inputs_and_the_others_none() {
        for step in STEPS {
            assert_eq!(
                step.inputs.is_empty(),
                step.set == Set::Test,
                "{}",
                step.name
            );
        }
    }

    /// Without all programs, those of `tests/` are missing.
    #[test]
    fn steps_that_run_more_than_unit_tests_build_all_programs_first() {
        for step in STEPS {
            let is_of_programs =
                |run: &Run| matches!(run, Run::Tests(groups) if *groups != [Group::Unit]);
            if step.run.iter().any(is_of_programs) {
                assert!(matches!(step.run[0], Run::Build), "{}", step.name);
            }
        }
    }

    #[test]
    fn no_step_is_expected_to_run_into_its_limit() {
        for step in STEPS {
            assert!(2 * step.minutes <= step.limit, "{}", step.name);
        }
    }

    #[test]
    fn each_input_is_a_file_of_the_repository() {
        for step in STEPS {
            for input in step.inputs {
                let files = Command::new("git")
                    .args(["ls-files", "--", input.trim_start_matches(":!")])
                    .current_dir(root())
                    .output()
                    .unwrap();
                assert!(!files.stdout.is_empty(), "{}: {input}", step.name);
            }
        }
    }
}
