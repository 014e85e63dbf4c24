#!/usr/bin/env bash
# Builds a sockstamp without shared libraries, which starts on any Linux of this processor, and its
# debug file: static.sh DIRECTORY. Nothing in them depends on the folder or the time of the build.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(realpath "$1")
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/static
triple=$(uname -m)-unknown-linux-musl
user_home=${CARGO_HOME:-$HOME/.cargo}

rustup target list --installed | grep -qx "$triple" || rustup target add "$triple"

# musl has no headers of the kernel, and those of glibc's folder must not come with them.
headers=$built/headers
mkdir -p "$headers"
ln -sfn /usr/include/linux "$headers/linux"
ln -sfn /usr/include/asm-generic "$headers/asm-generic"
ln -sfn "/usr/include/$(uname -m)-linux-gnu/asm" "$headers/asm"

# The build of libelf writes into the sources of its crate: they are in a folder of their own here.
export CARGO_HOME=$built/cargo
mkdir -p "$CARGO_HOME/registry" "$user_home"/registry/{index,cache}
ln -sfn "$user_home"/registry/{index,cache} "$CARGO_HOME/registry/"
[ ! -e "$user_home/config.toml" ] || ln -sfn "$user_home/config.toml" "$CARGO_HOME/"

# libelf's configure script asks for these, which parts of elfutils need that are not built.
export ac_cv_search_argp_parse="none required" ac_cv_search_fts_close="none required"
export ac_cv_search__obstack_free="none required"

variable=${triple//-/_}
export "CC_$variable=musl-gcc"
export "CFLAGS_$variable=-idirafter $headers -ffile-prefix-map=$CARGO_HOME=cargo -ffile-prefix-map=$built=build"
# Paths of this folder would be in messages of panics and in lines of the debug file.
export RUSTFLAGS="--remap-path-prefix=$CARGO_HOME=cargo --remap-path-prefix=$built=build --remap-path-prefix=$PWD=."
export CARGO_TARGET_DIR=$built/target CARGO_INCREMENTAL=0
"$user_home/bin/cargo" build --locked --profile dist --target "$triple" \
	--package sockstamp-cli --features static

program=$CARGO_TARGET_DIR/$triple/dist/sockstamp
if readelf --dynamic "$program" | grep -q NEEDED; then
	echo "static.sh: $program needs shared libraries" >&2
	exit 1
fi
cp "$program" "$output/sockstamp"
scripts/debug-file.sh "$output/sockstamp"
