#!/usr/bin/env bash
# shellcheck disable=SC2317 # Steps are called by name.
# Every test there is, as named steps. A failed step does not stop the others; the summary tells all
# of them.
#
#   test.sh            every step, as root (dependencies included)
#   test.sh STEP...    only these; root is needed for `tests`, `collector`, `kernels` and `bare`.
#                      `unit` is a part of `pure`, for `make check`
#
# A test that cannot run here writes a line "SKIP <test>: <reason>" to stderr (not by eprintln!,
# which the test harness keeps to itself); the summary repeats it. A measurement of time that missed
# and is tried again writes "RETRY <test>: <reason>" (within_attempts() of testbed); the summary
# lists and counts those, and too many fail.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(rustfmt clang-format clippy doc generated tests collector sql-spark bare)

# Steps that measure no time. A run of everything takes them beside the tests, which sleep for most
# of their time, on processors that these leave idle.
beside=(pure doctests deny msrv fuzz miri kernels count series)

# Retries of a run that nothing explains: more say that a bound is wrong, or the product. A quiet
# machine has none to three.
most_retries=5
# Retries while the hypervisor gave this machine's processors to others, as /proc/stat says. A
# crowded host was seen to cause fifteen. More say that this machine cannot measure times.
most_stolen=20

# Seconds that a test binary may be silent, which is what its longest test takes, some four times
# over.
patience=400

# Steps that give the same for the same files. A run of everything leaves them out if they have
# passed with these.
remembered=(deny msrv fuzz miri sql-spark collector kernels count series bare)

# Seconds after which a step that hangs, or waits for a network, has failed.
declare -A limits=([tests]=3600 [bare]=3600)
limit=1200
for step in "${beside[@]}"; do
	limits[$step]=4200
done

# One step, as the loop below calls this script again: what a step starts ends with it.
if [ "${1:-}" = --step ]; then
	only=$2
	set --
fi

steps=("$@")
if [ $# = 0 ]; then
	steps=("${all[@]}" "${beside[@]}")
fi

target=${CARGO_TARGET_DIR:-target}
msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# A jq program; "1.88" and "1.88.0" are equal to it.
# shellcheck disable=SC2016
newer_than_msrv='def v: (split(".") + ["0", "0"])[:3] | map(tonumber);
	.packages[] | select(.rust_version != null and (.rust_version | v) > ($msrv | v))
	| "\(.name) \(.version) needs Rust \(.rust_version)"'

component() { # COMMAND COMPONENT
	"$1" --version >/dev/null 2>&1 || rustup component add "$2"
}

# Everything at once: built for one package alone, dependencies have fewer features, and are built
# once more.
build() {
	cargo build --locked --workspace --all-targets
}

step_rustfmt() {
	component cargo-fmt rustfmt
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	scripts/line-width.sh
}

step_clang-format() {
	scripts/clang-format.sh --check
}

step_clippy() {
	component cargo-clippy clippy
	cargo clippy --locked --workspace --all-targets -- -D warnings
	# The workspace's tests switch the library's features on; its users need not.
	cargo clippy --locked --package sockstamp -- -D warnings
	cargo clippy --locked --package sockstamp --features tokio -- -D warnings
	cargo clippy --locked --package sockstamp --features io-uring -- -D warnings
}

step_doc() {
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --all-features --no-deps
}

step_msrv() {
	if command -v rustup >/dev/null &&
		{ rustup run "$msrv" rustc --version 2>/dev/null ||
			rustup toolchain install "$msrv" --profile minimal --no-self-update; }; then
		echo "Checking with Rust $msrv"
		# Check what users build: the tests need not build with it.
		CARGO_TARGET_DIR=$target/msrv rustup run "$msrv" cargo check --locked --workspace
		return
	fi
	echo "SKIP msrv: no toolchain $msrv to be had by rustup; checked what the dependencies state instead"
	local host newer
	host=$(rustc -vV | sed -n 's/^host: //p')
	newer=$(cargo metadata --locked --format-version 1 --filter-platform "$host" |
		jq -r --arg msrv "$msrv" "$newer_than_msrv")
	echo "$newer"
	[ -z "$newer" ]
}

step_deny() {
	scripts/cargo-tool.sh deny --locked check licenses bans sources
	echo "SKIP deny advisories: they need the RustSec database, and tests use no network but package registries"
}

step_generated() {
	build
	"$target/debug/xtask" generate --check
}

# Tests beside the code that need root: they load programs, or make files of other users.
rooted=(container::file::tests:: filter::tests::the_kernel_answers_as_the_model_does
	filter::tests::the_longest_filters_load held_socket::tests:: privilege::tests::
	sample::tests:: sched::tests::)

# Unit and property tests without root, side by side.
step_unit() {
	local skipped
	mapfile -t skipped < <(printf -- '--skip\n%s\n' "${rooted[@]}")
	cargo test --locked --workspace --no-fail-fast --lib --bins -- --quiet "${skipped[@]}"
}

# Programs in tests/ that measure nothing and touch nothing of the host.
pure=(changes export files html join populations sql)

# Programs in tests/ that are steps of their own.
apart=(otel_collector sql_spark)

# The other programs in tests/.
live() {
	cargo metadata --locked --no-deps --format-version 1 |
		jq -r '.packages[].targets[] | select(.kind == ["test"]).name' | sort -u |
		grep -vxF "$(printf '%s\n' "${pure[@]}" "${apart[@]}")"
}

# Run some of the programs of tests. The watchdog chooses: for a choice of its own, cargo would
# unite other features and build the workspace once more.
programs() { # only|except NAMES ARGUMENT...
	local runner
	runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
	env "$runner=$PWD/scripts/watchdog.sh $patience $1" PROGRAMS="$2" \
		cargo test --locked --workspace --no-fail-fast --tests -- "${@:3}"
}

# Names of programs that are not run with those that measure nothing.
others() {
	printf '%s\n' "$(live)" "${apart[@]}"
}

# Tests beside the code, and programs that measure nothing.
step_pure() {
	local skipped
	mapfile -t skipped < <(printf -- '--skip\n%s\n' "${rooted[@]}")
	programs except "$(others)" --quiet "${skipped[@]}"
}

# Live programs run one test at a time: known-answer tests measure time, and would measure each
# other.
step_tests() {
	local failed=0
	programs except "$(others)" --test-threads=1 "${rooted[@]}" || failed=1
	programs only "$(live)" --test-threads=1 || failed=1
	return "$failed"
}

# The SQL of docs/sql in Apache Spark. Its package takes two minutes to install, once.
step_sql-spark() {
	if ! java -version 2>/dev/null; then
		echo "SKIP sql-spark: Apache Spark needs Java, and there is none"
		return
	fi
	if ! REQUIREMENTS=requirements-spark.txt scripts/python.sh -c 'import pyspark'; then
		echo "SKIP sql-spark: the package pyspark is not to be had by pip"
		return
	fi
	programs only sql_spark --test-threads=1
}

# A real OpenTelemetry Collector, built from Go modules: two minutes of a core, once.
step_collector() {
	if ! go version 2>/dev/null; then
		echo "SKIP collector: it is built by Go, and there is none"
		return
	fi
	if ! scripts/collector.sh --version; then
		echo "SKIP collector: its Go modules are not to be had, or need a newer Go"
		return
	fi
	programs only otel_collector --test-threads=1
}

is_debian() {
	grep -qx 'ID=debian' /etc/os-release && [ "$(uname -m)" = x86_64 ]
}

# Debian's kernels in QEMU. On the kernel that runs here the same tests are a part of `tests`.
step_kernels() {
	if ! is_debian; then
		echo "SKIP kernels: they are Debian's for x86_64, from the mirror that its apt uses; this is another system"
		return
	fi
	build
	"$target/debug/sockstamp-lab" test --host
}

# The instructions of a message that sockstamp measures, on Debian's newest kernel.
step_count() {
	if ! is_debian; then
		echo "SKIP count: it counts on Debian's kernel, from the mirror that its apt uses; this is another system"
		return
	fi
	build
	"$target/debug/sockstamp-lab" count
}

# The kernel of kernel/series, its selftests, its instructions, and sockstamp's tests on it.
step_series() {
	if ! is_debian; then
		echo "SKIP series: its source is Debian's, from the mirror that its apt uses; this is another system"
		return
	fi
	build
	"$target/debug/sockstamp-lab" series
	"$target/debug/sockstamp-lab" test --kernel patched
}

# README's own set-up, in trees of Debian that have nothing else.
step_bare() {
	if ! is_debian || ! command -v mmdebstrap >/dev/null; then
		echo "SKIP bare: trees of Debian come from the mirror that its apt uses; this is another system"
		return
	fi
	scripts/bare.sh bookworm trixie
}

step_doctests() {
	cargo test --locked --workspace --no-fail-fast --doc
}

# From the same seed each time, as many inputs as take a minute; CONTRIBUTING.md says how to look
# for longer.
step_fuzz() {
	scripts/fuzz.sh -seed=1 -runs=20000 -max_total_time=60
}

# Check by Miri what the library does without a system call: undefined behaviour, leaks, and orders
# of memory accesses that this machine does not show. One case of a property, of which the step
# `tests` tries hundreds: each takes it a second.
step_miri() {
	local pure=(control:: completions::area completions::protocol error_queue::report
		error_queue::ring timestamping::matcher timestamping::statistics zerocopy::held
		zerocopy::ranges)
	# An installation that was cut off has some of the commands, and is complete for rustup.
	if ! rustc +nightly --version >/dev/null 2>&1 &&
		rustup toolchain list | grep -q '^nightly-'; then
		rustup toolchain uninstall nightly
	fi
	if ! cargo +nightly miri --version 2>/dev/null &&
		! timeout 300 rustup toolchain install nightly --profile minimal \
			--component miri,rust-src --no-self-update; then
		echo "SKIP miri: no nightly toolchain with Miri to be had by rustup"
		return
	fi
	PROPTEST_CASES=1 MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=$target/miri \
		cargo +nightly miri test --locked --package sockstamp-clock --package sockstamp --lib -- \
		"${pure[@]}"
}

if [ -n "${only:-}" ]; then
	"step_$only"
	exit
fi

for step in "${steps[@]}"; do
	if ! declare -F "step_$step" >/dev/null; then
		echo "test.sh: no step '$step'; there are: ${all[*]}" >&2
		exit 2
	fi
done

# Plain `sudo make test` arrives here without the caller's cargo on PATH.
lacks_root() {
	[ "$(id -u)" != 0 ] || [[ -n ${SUDO_UID:-} && ! $(command -v cargo) ]]
}

if [[ " ${steps[*]} " =~ " "(tests|collector|kernels|bare)" " ]] && lacks_root; then
	cat >&2 <<-'END'
		make test needs root, and cargo: its tests create network namespaces and cgroups,
		and load BPF programs. Run:
		  sudo env "PATH=$PATH" "RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}" make test
	END
	exit 1
fi

logs=$(mktemp -d)
running=
lane=

# Under sudo: what was built here must stay the user's.
# shellcheck disable=SC2153
finish() {
	# It is in a process group of its own, which a key at the terminal does not reach.
	[ -z "$running" ] || kill "$running"
	[ -z "$lane" ] || kill "$lane"
	rm -rf "$logs"
	if [ -n "${SUDO_UID:-}" ]; then
		find "$target" scripts/tried ${RUSTUP_HOME:+"$RUSTUP_HOME"} -uid 0 \
			-exec chown -h "$SUDO_UID:$SUDO_GID" {} + || true
	fi
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ $# = 0 ]; then
	scripts/deps.sh test
fi

everything=
[ $# != 0 ] || everything=yes
: >"$logs/summary"

is_remembered() { # STEP
	[[ " ${remembered[*]} " == *" $1 "* ]]
}

# Run a step, and note how it ended.
run() { # STEP [WRAPPER...]
	local began=$SECONDS status=0 result=ok
	timeout --kill-after=30 "${limits[$1]:-$limit}" "${@:2}" "$0" --step "$1" &
	running=$!
	wait "$running" || status=$?
	running=
	case $status in
	0) ;;
	124) result=TIMEOUT ;;
	*) result=FAILED ;;
	esac
	printf '%-8s %-14s %4d s\n' "$result" "$1" $((SECONDS - began)) >>"$logs/summary"
}

run_or_skip() { # STEP [WRAPPER...]
	printf '\n== %s\n' "$1"
	if [ -n "$everything" ] && is_remembered "$1" && scripts/tried.sh is "$1"; then
		echo "SKIP $1: it has passed with the files that are here now (scripts/tried/$1)"
	else
		run "$@"
	fi
}

# Remember a step that has passed. Counts of another compiler were compared with wide limits only.
keep() { # STEP
	if is_remembered "$1" && grep -qE "^ok +$1 " "$logs/summary" &&
		! grep -qE "^SKIP ($1|instructions): " "$logs/$1.log"; then
		scripts/tried.sh keep "$1"
	fi
}

# Run steps on idle processors alone, and print the output of each at its end.
run_beside() { # STEP...
	trap '[ -z "$running" ] || kill "$running"' EXIT
	trap 'exit 143' TERM
	local step
	for step; do
		run_or_skip "$step" chrt --idle 0 >"$logs/$step.log" 2>&1
		cat "$logs/$step.log"
		keep "$step"
	done
}

for step in "${steps[@]}"; do
	if [ -n "$everything" ] && [ "$step" = "${beside[0]}" ]; then
		break
	fi
	if [ -n "$everything" ] && [ "$step" = tests ]; then
		run_beside "${beside[@]}" &
		lane=$!
	fi
	run_or_skip "$step" > >(tee "$logs/$step.log") 2>&1
	sleep 0.2 # tee may have some left.
	keep "$step"
done
if [ -n "$lane" ]; then
	wait "$lane"
	lane=
fi

failed=0
if grep -qv '^ok ' "$logs/summary"; then
	failed=1
fi

printf '\n== summary\n'
cat "$logs/summary"
cat "$logs"/*.log | awk '
	/^test result: / { for (i = 3; i <= NF; i++) counts[$i] += $(i - 1); runs++ }
	END {
		if (runs)
			printf "tests: %d passed, %d failed, %d ignored, in %d binaries\n",
				counts["passed;"], counts["failed;"], counts["ignored;"], runs
	}'

list() { # TITLE LINES
	if [ -n "$2" ]; then
		printf '%s:\n  %s\n' "$1" "${2//$'\n'/$'\n'  }"
	else
		echo "$1: nothing"
	fi
}

said() { # PATTERN
	cat "$logs"/*.log | grep -oE "$1" | sed 's/^\.\.\. //' || true
}

list skipped "$(said '(^|\.\.\. )SKIP .*|^test .* \.\.\. ignored.*')"
retries=$(said '(^|\.\.\. )RETRY .*')
list retried "$retries"
stolen=$(printf '%s' "$retries" | grep -c '(stolen: [0-9]* ms)$' || true)
count=$(($(printf '%s' "$retries" | grep -c '' || true) - stolen))
echo "retries: $count, of $most_retries that are allowed; $stolen, of $most_stolen, while processors were stolen"
if [ "$count" -gt "$most_retries" ] || [ "$stolen" -gt "$most_stolen" ]; then
	echo "FAILED: too many measurements of time missed" >&2
	failed=1
fi
exit "$failed"
