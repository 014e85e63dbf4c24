#!/usr/bin/env bash
# Remembers for which files a step of test.sh has passed that gives the same for the same files, and
# takes minutes.
#
#   tried.sh is STEP      succeed if it is such a step, and has passed with the files that are here
#                         now
#   tried.sh keep STEP    it has: scripts/tried/STEP
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# = 2 ] || {
	echo "usage: tried.sh is|keep STEP" >&2
	exit 2
}

# Texts for people change nothing. Nor do programs in tests/, unless the step runs them.
case $2 in
deny)
	inputs=(deny.toml Cargo.lock Cargo.toml crates bench xtask kernel/lab tests
		'(' -name '*.toml' -o -name Cargo.lock ')')
	;;
msrv)
	inputs=(crates bench xtask kernel/lab/src tests/with Cargo.lock Cargo.toml
		kernel/lab/Cargo.toml
		! -path '*/tests/*')
	;;
# Without what runs of the step leave there.
fuzz)
	inputs=(fuzz crates/sockstamp crates/sockstamp-{model,ping,record} scripts/fuzz.sh
		! -path 'fuzz/artifacts/*' ! -path 'fuzz/corpus/*' ! -path 'fuzz/coverage/*'
		! -path 'fuzz/target/*'
		! -path 'crates/*/tests/*')
	;;
miri)
	inputs=(crates/sockstamp crates/sockstamp-model Cargo.lock Cargo.toml
		! -path 'crates/*/tests/*')
	;;
count)
	inputs=(crates Cargo.lock Cargo.toml kernel/lab/src kernel/lab/guest
		kernel/series/instructions-of-sockstamp-7.2.txt
		! -path 'crates/*/tests/*' ! -path 'kernel/lab/src/test/*')
	;;
# The tests that kernel/lab/tests.txt runs on that kernel, and what they test. The command's screens
# and options are the same on every kernel, so that changes to them alone build no kernel.
series)
	inputs=(kernel/series kernel/lab Cargo.lock Cargo.toml scripts/c-programs.sh
		crates/sockstamp crates/sockstamp-{bpf,capi,clock,host,model}
		crates/testbed crates/testbed-bpf
		tests/Cargo.toml tests/{completions,kernels,with}
		tests/corner_cases/{main,rx,tx,uplinks}.rs
		! -name README.md ! -name NOTES.md ! -name 0000-cover-letter.patch
		! -name instructions-of-sockstamp-7.2.txt
		! -path 'kernel/lab/results/[67]*'
		! -path 'crates/sockstamp-bpf/tests/groups.rs'
		! -path 'crates/sockstamp-bpf/tests/missing_hooks.rs'
		! -path 'crates/sockstamp-bpf/tests/nic_stamps.rs'
		! -path 'crates/sockstamp-bpf/tests/uplinks.rs')
	;;
sql-spark)
	inputs=(docs/sql crates/sockstamp-{clock,explain,join,model,record,run}
		crates/sockstamp-cli/src tests/{sql,with}
		scripts/python.sh scripts/requirements-spark.txt Cargo.lock Cargo.toml)
	;;
collector)
	inputs=(crates/sockstamp-{agent,bpf,clock,host,metrics,model,run}
		tests/with crates/sockstamp-cli/{src,tests/otel_collector}
		crates/sockstamp-cli/tests/agent/running.rs scripts/collector.sh scripts/collector
		Cargo.lock Cargo.toml
		! -path 'crates/sockstamp-bpf/tests/*')
	;;
kernels)
	inputs=(crates tests kernel/lab scripts/c-programs.sh Cargo.lock Cargo.toml
		! -name README.md ! -path 'kernel/lab/src/series/*'
		! -path 'kernel/lab/results/patched*'
		! -path 'tests/known_answers/*'
		! -path 'tests/witness/*')
	;;
bare) inputs=(Makefile scripts/deps.sh scripts/bare.sh scripts/c-library.sh) ;;
*) exit 1 ;;
esac

sum() {
	find "${inputs[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum |
		cut -d ' ' -f 1
}

case $1 in
is) [ -e "scripts/tried/$2" ] && [ "$(sum)" = "$(cat "scripts/tried/$2")" ] ;;
keep) sum >"scripts/tried/$2" ;;
*) exit 2 ;;
esac
