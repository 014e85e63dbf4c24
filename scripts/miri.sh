#!/usr/bin/env bash
# Checks by Miri what the library does without a system call, and pairs of the BPF programs:
# undefined behaviour, leaks, and orders of memory accesses that this machine does not show.
#
#   miri.sh install    make sure that there is a nightly toolchain with Miri
#   miri.sh test       run those tests under it
set -euo pipefail
cd "$(dirname "$0")/.."

pure=(control:: completions::area completions::protocol error_queue::report error_queue::ring
	timestamping::matcher timestamping::statistics zerocopy::held zerocopy::ranges)

case ${1:-} in
install)
	# An installation that was cut off has some of the commands, and is complete for rustup.
	if ! rustc +nightly --version >/dev/null 2>&1 &&
		rustup toolchain list | grep -q '^nightly-'; then
		rustup toolchain uninstall nightly
	fi
	cargo +nightly miri --version 2>/dev/null ||
		timeout 300 rustup toolchain install nightly --profile minimal \
			--component miri,rust-src --no-self-update
	;;
test)
	# One case of a property, of which the step `unit` tries hundreds: each takes it a second.
	PROPTEST_CASES=1 MIRIFLAGS=-Zmiri-disable-isolation \
		CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri \
		cargo +nightly miri test --locked --package sockstamp-clock --package sockstamp \
		--lib -- "${pure[@]}"
	MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri \
		cargo +nightly miri test --locked --package bpf-build --lib -- pairs::
	;;
*)
	echo "usage: miri.sh install|test" >&2
	exit 2
	;;
esac
