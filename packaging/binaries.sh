#!/usr/bin/env bash
# Builds what of a release is compiled: binaries.sh DIRECTORY. `sockstamp` there needs no shared
# library and starts on any Linux of this processor, sockstamp.debug is its debug file, and
# c-library/ has the C library, for programs of this host's C library or a newer one. Nothing in
# them depends on the folder or the time of the build.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(realpath "$1")
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist
system=$(uname -m)-unknown-linux
user_home=${CARGO_HOME:-$HOME/.cargo}

rustup target list --installed | grep -qx "$system-musl" || rustup target add "$system-musl"

# musl has no headers of the kernel, and those of glibc's folder must not come with them.
headers=$built/headers
mkdir -p "$headers"
ln -sfn /usr/include/linux "$headers/linux"
ln -sfn /usr/include/asm-generic "$headers/asm-generic"
ln -sfn "/usr/include/$(uname -m)-linux-gnu/asm" "$headers/asm"
# Nor does it have this one.
ln -sfn "$PWD/packaging/musl/argp.h" "$headers/argp.h"

# The build of libelf writes into the sources of its crate: they are in a folder of their own here.
export CARGO_HOME=$built/cargo
mkdir -p "$CARGO_HOME/registry" "$user_home"/registry/{index,cache}
ln -sfn "$user_home"/registry/{index,cache} "$CARGO_HOME/registry/"
[ ! -e "$user_home/config.toml" ] || ln -sfn "$user_home/config.toml" "$CARGO_HOME/"

# libelf's configure script asks for these, which parts of elfutils need that are not built.
export ac_cv_search_argp_parse="none required" ac_cv_search_fts_close="none required"
export ac_cv_search__obstack_free="none required"

variable=${system//-/_}_musl
export "CC_$variable=musl-gcc"
maps="-ffile-prefix-map=$CARGO_HOME=cargo -ffile-prefix-map=$built=build"
export "CFLAGS_$variable=-idirafter $headers $maps"
# Paths of this folder would be in messages of panics and in lines of the debug file.
RUSTFLAGS="--remap-path-prefix=$PWD=. --remap-path-prefix=$built=build"
export RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$CARGO_HOME=cargo"
export CARGO_TARGET_DIR=$built/target CARGO_INCREMENTAL=0
# No C in it has a time, and each commit's would compile all of it anew.
unset SOURCE_DATE_EPOCH
"$user_home/bin/cargo" build --locked --profile dist --target "$system-musl" \
	--package sockstamp-cli --features static
"$user_home/bin/cargo" build --locked --profile dist --target "$system-gnu" \
	--package sockstamp-capi

program=$CARGO_TARGET_DIR/$system-musl/dist/sockstamp
if readelf --dynamic "$program" | grep -q NEEDED; then
	echo "binaries.sh: $program needs shared libraries" >&2
	exit 1
fi
cp "$program" "$output/sockstamp"
scripts/debug-file.sh "$output/sockstamp"
# The table of symbols is in the debug file, too.
strip "$output/sockstamp"
scripts/c-library.sh "$CARGO_TARGET_DIR/$system-gnu/dist/libsockstamp_capi.a" "$output/c-library"
