#!/usr/bin/env bash
# Checks what users build with the oldest Rust that Cargo.toml names. Without that toolchain,
# compares what the dependencies state.
set -euo pipefail
cd "$(dirname "$0")/.."

msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

if command -v rustup >/dev/null &&
	{ rustup run "$msrv" rustc --version 2>/dev/null ||
		rustup toolchain install "$msrv" --profile minimal --no-self-update; }; then
	echo "Checking with Rust $msrv"
	# The tests need not build with it.
	CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/msrv \
		rustup run "$msrv" cargo check --locked --workspace
	exit
fi

echo "SKIP msrv: no toolchain $msrv to be had by rustup; checked what the dependencies state instead"
host=$(rustc -vV | sed -n 's/^host: //p')
# A jq program; "1.88" and "1.88.0" are equal to it.
# shellcheck disable=SC2016
newer_than_msrv='def v: (split(".") + ["0", "0"])[:3] | map(tonumber);
	.packages[] | select(.rust_version != null and (.rust_version | v) > ($msrv | v))
	| "\(.name) \(.version) needs Rust \(.rust_version)"'
newer=$(cargo metadata --locked --format-version 1 --filter-platform "$host" |
	jq -r --arg msrv "$msrv" "$newer_than_msrv")
echo "$newer"
[ -z "$newer" ]
