#!/usr/bin/env bash
# Builds sockstamp for arm64 on another processor: arm64.sh [CARGO-ARGUMENT...]. libbpf, libelf and
# zlib are built from the sources that libbpf-sys has, and are part of the program: it needs a C
# library as new as that of the cross compiler (Debian 12: glibc 2.36), and no other.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

rustup target list --installed | grep -qx "$target" || rustup target add "$target"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
cargo build --locked --target "$target" --package sockstamp-cli --features static "$@"
