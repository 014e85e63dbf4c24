#!/usr/bin/env bash
# Checks what users of the library depend on: library.sh XTASK_API. The public API of its crates is
# the one that is kept, they can be published as they are, and they compile on musl, macOS and
# Windows.
set -euo pipefail

cd "$(dirname "$0")/.."
crates=(--package sockstamp-clock --package sockstamp)
# Not the workspace's: what is built there runs in tests meanwhile.
export CARGO_TARGET_DIR=$PWD/target/api CARGO_INCREMENTAL=0
unset RUSTFLAGS

# What rustdoc writes, and how it spells types, changes with the compiler.
written=1.95
if rustc --version | grep -q "^rustc $written\."; then
	"$1" --check
else
	echo "SKIP library's public API: it is kept as rustc $written writes it"
fi
cargo publish --dry-run --locked --allow-dirty "${crates[@]}"

# On systems that are not Linux, stamped sockets are refused when they are made.
for target in x86_64-unknown-linux-musl x86_64-apple-darwin x86_64-pc-windows-gnu; do
	if ! rustup target list --installed 2>/dev/null | grep -qx "$target" &&
		! timeout 120 rustup target add "$target"; then
		echo "SKIP library on $target: not to be had by rustup"
		continue
	fi
	cargo check --locked --target "$target" --all-features "${crates[@]}"
done
