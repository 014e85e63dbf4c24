#!/usr/bin/env bash
# Builds the C library's examples and test programs, linked static: c-programs.sh
# libsockstamp_capi.a FOLDER
#
# For guests of the lab, which have no compiler. Each becomes FOLDER/NAME.
set -euo pipefail
cd "$(dirname "$0")/.."

archive=$1
folder=$2
header=crates/sockstamp-capi/include
libraries=$(sed -n 's/^Libs.private: //p' crates/sockstamp-capi/sockstamp.pc.in)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

scripts/c-library.sh "$archive" "$folder/library"
for source in crates/sockstamp-capi/examples/*.c crates/sockstamp-capi/tests/c/*.c; do
	name=$(basename "$source" .c)
	# shellcheck disable=SC2086 # Several words.
	cc -std=gnu11 -g -Wall -Wextra -Werror -DVERSION="\"$version\"" -I "$header" "$source" \
		"$folder/library/libsockstamp.a" $libraries -o "$folder/$name"
done
