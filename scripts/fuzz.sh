#!/usr/bin/env bash
# Runs every fuzz target, from the seeds that fuzz/examples/seeds.rs makes: fuzz.sh OPTIONS, which
# are libFuzzer's.
#
# The stable toolchain is enough: AddressSanitizer comes with it where rustup installs it, and only
# the flag is unstable. Where it does not (as of distributions' packages) bounds and assertions are
# checked all the same.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
export RUSTC_BOOTSTRAP=1

sanitizer=none
if compgen -G "$(rustc --print target-libdir)/librustc-*_rt.asan.a" >/dev/null; then
	sanitizer=address
fi

cargo_fuzz() { # COMMAND ARGUMENTS...
	scripts/cargo-tool.sh fuzz "$1" --fuzz-dir fuzz --target-dir "$target" \
		--sanitizer "$sanitizer" "${@:2}"
}

corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT

checked=(--locked --quiet --no-default-features --manifest-path fuzz/Cargo.toml
	--target-dir "$target")
RUSTFLAGS="--cfg fuzzing" cargo clippy "${checked[@]}" --all-targets -- -D warnings
RUSTFLAGS="--cfg fuzzing" cargo run "${checked[@]}" --example seeds -- "$corpus"

cargo_fuzz build
for seeds in "$corpus"/*; do
	printf '%s: ' "${seeds##*/}"
	# Show libFuzzer's output only where it found something.
	if ! cargo_fuzz run "${seeds##*/}" "$seeds" -- -max_len=512 -close_fd_mask=1 "$@" \
		>"$corpus.log" 2>&1; then
		cat "$corpus.log"
		exit 1
	fi
	grep -a DONE "$corpus.log"
done
